//! What is left behind by nodes that have stopped.
//!
//! A volume whose lease has expired is swept: its objects are listed, and those that nothing refers to are deleted. The node may
//! only have been suspended, and puts of it may still be on their way. So a volume is swept once more after some time. That
//! nobody refers to what was swept is the affair of those who write references: they guard a row that says so.

use crate::lease;
use crate::names::{Names, last_number};
use crate::objects::Objects;
use crate::options::{MachineClock, ObjectOptions, ms};
use crate::pieces::stored_bytes;
use crate::volumes::Volumes;
use object_store::path::Path;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::{Extent, StorageError};

pub(crate) struct Sweeper {
    objects: Objects,
    names: Names,
    volumes: Arc<Volumes>,
    clock: MachineClock,
    max_clock_skew: Duration,
    sweep_again_after: Duration,
}

/// Why a volume can be swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Its lease has expired.
    Expired,
    /// It was swept some time ago.
    Again,
}

impl Sweeper {
    pub(crate) fn new(
        objects: Objects,
        names: Names,
        volumes: Arc<Volumes>,
        options: &ObjectOptions,
    ) -> Self {
        let ObjectOptions { max_clock_skew, sweep_again_after, .. } = *options;
        let clock = options.clock.clone();
        Self { objects, names, volumes, clock, max_clock_skew, sweep_again_after }
    }

    pub(crate) async fn sweepable(&self) -> Result<Vec<u64>, StorageError> {
        let mut found = Vec::new();
        for records in [self.names.leases(), self.names.all_swept()] {
            for object in self.objects.list(&records, usize::MAX).await? {
                let volume = last_number(&object.location).filter(|volume| !found.contains(volume));
                if let Some(volume) = volume
                    && self.due(volume).await?.is_some()
                {
                    found.push(volume);
                }
            }
        }
        Ok(found)
    }

    async fn due(&self, volume: u64) -> Result<Option<Due>, StorageError> {
        if self.volumes.is_own(volume) {
            return Ok(None);
        }
        let now = self.clock.now_ms();
        if let Some(until) = self.time(&self.names.lease(volume)).await? {
            return Ok((until.saturating_add(ms(self.max_clock_skew)) <= now).then_some(Due::Expired));
        }
        let swept = self.time(&self.names.swept(volume)).await?;
        let wait = ms(self.sweep_again_after.saturating_add(self.max_clock_skew));
        Ok(swept.filter(|swept| swept.saturating_add(wait) <= now).map(|_| Due::Again))
    }

    async fn time(&self, record: &Path) -> Result<Option<u64>, StorageError> {
        self.objects.get(record).await?.map(|record| lease::decode(&record)).transpose()
    }

    pub(crate) async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        let Some(due) = self.due(volume).await? else { return Err(StorageError::not_sweepable(volume)) };
        let found = self.objects.list(&self.names.extents_of(volume), usize::MAX).await?;
        let mut found: HashMap<Path, u64> =
            found.into_iter().map(|object| (object.location, object.size)).collect();
        for extent in kept {
            // An extent of another volume is none of this one.
            let size = found.remove(&self.names.extent(extent));
            if size != Some(stored_bytes(extent.bytes)) {
                return Err(StorageError::corrupt(format!(
                    "a volume lacks an extent, or its object has another size ({size:?}): {extent:?}"
                )));
            }
        }
        let left = found.into_keys().collect::<Vec<_>>();
        if !left.is_empty() {
            tracing::info!(volume = %format_args!("{volume:016x}"), objects = left.len(), "deleting what nothing refers to");
        }
        self.objects.delete(left).await?;
        match due {
            Due::Expired => {
                let now = lease::encode(self.clock.now_ms());
                self.objects.put(&self.names.swept(volume), vec![now]).await?;
                self.objects.delete(vec![self.names.lease(volume)]).await?;
            }
            Due::Again => self.objects.delete(vec![self.names.swept(volume)]).await?,
        }
        Ok(())
    }
}
