//! Volumes of stores of extents that several nodes share.
//!
//! A node may be suspended after it has written an extent and before it commits the first reference to it, for longer than its
//! lease on the volume. Others then take it for dead and sweep the volume. So such a commit guards a row of the volume, and
//! whoever sweeps it writes to that row before looking for references: either the reference is found, or the commit fails.
//!
//! Rows of volumes that were not swept say nothing: they are there to be guarded, and are made again when they are needed. Those
//! of swept volumes stay, one for each time that a node has ended out of order.

use super::cursor::RowCursor;
use super::gc::STEP_ROWS;
use super::service::BlobService;
use super::write_set::WriteSet;
use crate::keyspace;
use crate::record::VolumeState;
use crate::transact::{Attempt, CommitState, Outcome, SpaceUse, commit, retry, storage_error};
use tepui_model::{ErrorCode, ServiceError, Throttle};
use tepui_storage::{Engine, Extents, Key, KeyRange, Snapshot, Write};

/// Refuses a reference to an extent of a volume that was swept. The commit conflicts if it is swept meanwhile.
pub(super) async fn require_unswept<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    volume: Key,
) -> Result<(), ServiceError> {
    match writes.get(&volume).await? {
        None => writes.put(volume, VolumeState::Open.encode()),
        Some(row) => match VolumeState::decode(&row)? {
            VolumeState::Open => writes.guard_shared(volume),
            VolumeState::Swept => {
                let why = "the bytes were swept, because this node did not renew its lease on their volume";
                return Err(ServiceError::new(ErrorCode::ServerBusy)
                    .with_throttle(Throttle::Storage)
                    .with_cause(why));
            }
        },
    }
    Ok(())
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// From now on no reference to extents of this volume is added, but for further ones to those that have some.
    pub(super) async fn mark_swept(&self, volume: u64) -> Result<(), ServiceError> {
        let key = &keyspace::volume(self.extents.store(), volume);
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let row = transaction.get(key).await.map_err(storage_error)?;
            if let Some(row) = row
                && VolumeState::decode(&row)? == VolumeState::Swept
            {
                return Ok(Attempt::Done(()));
            }
            let writes = vec![Write::Put(key.clone(), VolumeState::Swept.encode())];
            let outcome = Outcome { reply: (), guards: Vec::new(), writes };
            match commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await {
                // The row says what has become of it.
                Err(failure) if failure.state == CommitState::Unknown => Ok(Attempt::Retry(())),
                attempt => attempt.map_err(ServiceError::from),
            }
        })
        .await
    }

    /// Removes the rows of volumes that were not swept.
    pub(super) async fn forget_volumes(&self) -> Result<(), ServiceError> {
        let mut left = keyspace::all_volumes();
        loop {
            let step = self.begin_step().await?;
            let mut writes = WriteSet::new(&step.snapshot);
            let rows = RowCursor::new(&step.snapshot, left.clone(), STEP_ROWS).take(STEP_ROWS).await?;
            let mut last = None;
            for (key, row) in rows {
                if writes.is_full() {
                    break;
                }
                if VolumeState::decode(&row)? == VolumeState::Open {
                    writes.delete(key.clone());
                }
                last = Some(key);
            }
            let Some(last) = last else { return Ok(()) };
            let changes = writes.finish(());
            if let Attempt::Done(()) = self.commit(step, changes).await? {
                left = KeyRange { start: after(&last), end: left.end };
            }
        }
    }
}

/// The first key after another.
fn after(key: &Key) -> Key {
    [&key[..], &[0]].concat().into()
}
