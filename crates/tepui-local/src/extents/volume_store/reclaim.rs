//! Frees extents, sweeps volumes of earlier runs, and deletes volumes that are empty.

use super::{VolumeStore, corrupt, failed};
use crate::extents::frame::{self, SECTOR_BYTES};
use crate::extents::volume::{open_path, sealed_path};
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Weak};
use tepui_files::OpenOptions;
use tepui_storage::{Extent, StorageError};

/// Punching a hole of this size is fast. A large one takes tenths of a second on some file systems.
pub(super) const FAST_HOLE_BYTES: u64 = 4 << 20;

enum SweepOutcome {
    Done,
    /// The volume stays as it is, for this reason.
    Refused(&'static str),
}

impl VolumeStore {
    /// Deletes sealed volumes that are empty: deleting them failed before, or a crash brought them back. Runs in the background,
    /// because there may be many; it does not keep the store open.
    pub(super) fn remove_empty_volumes(self: &Arc<Self>, sealed: BTreeSet<u64>) {
        let store = Arc::downgrade(self);
        self.files().spawn_blocking(Box::new(move || {
            for number in sealed {
                let Some(store) = store.upgrade() else { return };
                if store.pool.lock().is_closed {
                    return;
                }
                store.try_remove_if_empty(number);
            }
        }));
    }

    /// Releases the space of extents.
    pub(crate) fn free(&self, extents: &[Extent]) -> Result<(), StorageError> {
        let mut ranges: Vec<(u64, Range<u64>)> = Vec::with_capacity(extents.len());
        for extent in extents {
            check_aligned(*extent)?;
            ranges.push((extent.volume, frame::disk_range(*extent)));
        }
        ranges.sort_unstable_by_key(|(volume, range)| (*volume, range.start));
        for group in ranges.chunk_by(|(one, _), (other, _)| one == other) {
            let number = group[0].0;
            let ranges = coalesce(group.iter().map(|(_, range)| range.clone()));
            self.make_holes(number, &ranges)
                .and_then(|()| self.remove_if_empty(number))
                .map_err(|error| failed("free a part of a volume", &self.path(number), &error))?;
        }
        Ok(())
    }

    fn make_holes(&self, number: u64, ranges: &[Range<u64>]) -> io::Result<()> {
        // A file cannot be written while a hole is punched.
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let _reservation = (bytes > FAST_HOLE_BYTES).then(|| self.reserve(number));
        let open = self.pool.lock().open.get(&number).and_then(Weak::upgrade);
        if let Some(volume) = open {
            return volume.free(&self.holes, ranges);
        }
        let _freeing = self.freeing.lock();
        let file = match self.open_file(number, OpenOptions::write()) {
            // Deleted, so everything in it was freed before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        for range in ranges {
            self.holes.make(number, &*file, range.clone())?;
        }
        file.sync_data()
    }

    pub(crate) fn unsealed_volumes(&self) -> Vec<u64> {
        self.unsealed.lock().iter().copied().collect()
    }

    /// Frees everything in an unsealed volume of an earlier run but `kept`, and seals it.
    pub(crate) fn sweep(&self, number: u64, kept: &[Extent]) -> Result<(), StorageError> {
        if !self.unsealed.lock().contains(&number) {
            return Err(StorageError::not_sweepable(number));
        }
        for extent in kept {
            check_aligned(*extent)?;
            if extent.volume != number {
                return Err(StorageError::failed(format!("not in volume {number}: {extent:?}")));
            }
        }
        let mut kept: Vec<Range<u64>> = kept.iter().map(|extent| frame::disk_range(*extent)).collect();
        kept.sort_unstable_by_key(|range| (range.start, range.end));
        kept.dedup();
        if kept.iter().zip(kept.iter().skip(1)).any(|(one, next)| next.start < one.end) {
            return Err(corrupt("two extents that are kept overlap", &self.path(number)));
        }
        let kept = coalesce(kept.into_iter());
        let _freeing = self.freeing.lock();
        match self.sweep_file(number, &kept) {
            Ok(SweepOutcome::Done) => {}
            Ok(SweepOutcome::Refused(why)) => return Err(corrupt(why, &self.path(number))),
            Err(error) => return Err(failed("sweep a volume", &self.path(number), &error)),
        }
        self.unsealed.lock().remove(&number);
        self.try_remove_if_empty(number);
        Ok(())
    }

    /// Idempotent: may be repeated after any failure.
    fn sweep_file(&self, number: u64, kept: &[Range<u64>]) -> io::Result<SweepOutcome> {
        let file = match self.open_file(number, OpenOptions::write()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(match kept.is_empty() {
                    true => SweepOutcome::Done,
                    false => SweepOutcome::Refused("the volume is missing"),
                });
            }
            file => file?,
        };
        let end = kept.last().map_or(0, |range| range.end);
        if file.length()? < end {
            return Ok(SweepOutcome::Refused("the volume ends before an extent that is kept"));
        }
        file.set_length(end)?;
        let mut from = 0;
        for range in kept {
            self.holes.make(number, &*file, from..range.start)?;
            from = range.end;
        }
        file.sync_data()?;
        let path = open_path(self.folder(), number);
        if self.files().exists(&path)? {
            self.files().rename(&path, &sealed_path(self.folder(), number))?;
        }
        self.files().sync_directory(self.folder())?;
        Ok(SweepOutcome::Done)
    }

    /// Deletes a volume if it is sealed and nothing is left in it.
    ///
    /// Called both after a volume was sealed and after something in it was freed: whichever comes second finds it empty.
    fn remove_if_empty(&self, number: u64) -> io::Result<()> {
        if number >= self.pool.lock().highest_on_disk {
            return Ok(());
        }
        let path = sealed_path(self.folder(), number);
        let is_empty = match self.files().open(&path, OpenOptions::read()) {
            Ok(file) => self.holes.are_all(number, &*file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !is_empty {
            return Ok(());
        }
        self.read_files.lock().remove(number);
        match self.files().remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.holes.forget(number);
        self.files().sync_directory(self.folder())
    }

    pub(super) fn try_remove_if_empty(&self, number: u64) {
        if let Err(error) = self.remove_if_empty(number) {
            tracing::warn!(%error, volume = number, "cannot delete an empty volume");
        }
    }
}

/// Joins ranges that overlap or touch. They must be in order.
pub(super) fn coalesce(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

fn check_aligned(extent: Extent) -> Result<(), StorageError> {
    match extent.offset.is_multiple_of(SECTOR_BYTES as u64) {
        true => Ok(()),
        false => Err(StorageError::failed(format!("no extent begins there: {extent:?}"))),
    }
}
