//! Copies that continue after the reply, because their bytes are fetched from another server.
//!
//! Each has a record of its own beside the blob. The task that fetches the bytes ends it with
//! [`BlobService::finish_copy`]; a record without such a task is of an earlier process, and its copy has failed.

use super::cursor::RowCursor;
use super::put::store;
use super::service::{BlobService, Context, NextStep};
use super::slot::BlobSlot;
use super::upload::Uploaded;
use super::write_set::WriteSet;
use crate::coop::CoopSnapshot;
use crate::keyspace;
use crate::record::{Content, PendingCopy, StoredBlob};
use crate::transact::{Outcome, SpaceUse, commit, retry};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tepui_model::blob::{BlobPath, CopyState, CopyStatus, Preconditions, Reply, Revision};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Engine, Extents, Snapshot};
use tokio::sync::Notify;

/// The most active copies, most of them queued.
const MAX_ACTIVE: usize = 1000;
/// The most active copies of one account.
const MAX_OF_ACCOUNT: usize = 250;
/// The delay before a failed write of a copy's end is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const INTERRUPTED: &str = "500 InternalError \"Copy failed because the server was stopped.\"";

/// The copies of this process, by their ids.
#[derive(Default)]
pub(super) struct ActiveCopies(Mutex<HashMap<String, Arc<CopyProgress>>>);

#[derive(Default)]
struct CopyProgress {
    account: String,
    copied: AtomicU64,
    aborted: Notify,
}

/// An active copy of this process. It is not declared failed while this exists.
pub struct CopyUnderWay {
    id: String,
    running: Arc<CopyProgress>,
    copies: Arc<ActiveCopies>,
}

impl ActiveCopies {
    pub(super) fn begin(copies: &Arc<Self>, account: &str, id: String) -> Result<CopyUnderWay, ErrorCode> {
        let running = Arc::new(CopyProgress { account: account.to_owned(), ..CopyProgress::default() });
        let mut all = copies.0.lock();
        let of_account = all.values().filter(|running| running.account == account).count();
        if all.len() >= MAX_ACTIVE || of_account >= MAX_OF_ACCOUNT {
            return Err(ErrorCode::ServerBusy);
        }
        all.insert(id.clone(), Arc::clone(&running));
        Ok(CopyUnderWay { id, running, copies: Arc::clone(copies) })
    }

    /// Notifies the task of a copy that it was aborted.
    pub(super) fn abort(&self, id: &str) {
        if let Some(running) = self.0.lock().get(id) {
            running.aborted.notify_one();
        }
    }

    fn is_active(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }

    /// Updates the progress of a copy.
    pub(super) fn update_progress(&self, copy: &mut CopyState) {
        if copy.status == CopyStatus::Pending
            && let Some(running) = self.0.lock().get(&copy.id)
        {
            copy.progress.0 = running.copied.load(Ordering::Relaxed);
            copy.progress.1 = copy.progress.1.max(copy.progress.0);
        }
    }
}

impl CopyUnderWay {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Counts copied bytes.
    pub fn add(&self, bytes: u64) {
        self.running.copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns when the copy was aborted.
    pub async fn aborted(&self) {
        self.running.aborted.notified().await;
    }
}

impl Drop for CopyUnderWay {
    fn drop(&mut self) {
        self.copies.0.lock().remove(&self.id);
    }
}

/// Writes the record of an active copy.
pub(super) fn put_record<S: Snapshot>(writes: &mut WriteSet<'_, S>, slot: &BlobSlot<'_>, id: &str) {
    let pending = PendingCopy { container: slot.container, name: slot.name().to_owned() };
    writes.put(keyspace::pending_copy(id), pending.encode());
}

pub(super) fn require_none(blob: &StoredBlob) -> Result<(), ErrorCode> {
    match blob.copy.as_ref().map(|copy| copy.status) {
        Some(CopyStatus::Pending) => Err(ErrorCode::PendingCopyOperation),
        _ => Ok(()),
    }
}

/// Abort Copy Blob: leaves an empty blob.
pub(super) async fn abort<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    copy_id: &str,
    preconditions: &Preconditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let mut blob = slot.existing()?.clone();
    let Some(copy) = blob.copy.as_deref_mut().filter(|copy| copy.status == CopyStatus::Pending) else {
        return Err(ErrorCode::NoPendingCopyOperation.into());
    };
    if !copy.id.eq_ignore_ascii_case(copy_id) {
        return Err(ErrorCode::CopyIdMismatch.into());
    }
    context.copies.update_progress(copy);
    copy.status = CopyStatus::Aborted;
    copy.completed = Some(context.now);
    writes.delete(keyspace::pending_copy(&copy.id));
    slot.precondition_check(preconditions, context.now).for_lease_holder(&blob)?;
    blob.changed = slot.change_time(context.now);
    blob.stamp = blob.changed;
    writes.put_stamped(slot.key(Revision::Base), blob.encode());
    Ok(writes.finish(Reply::CopyAborted.into()))
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Ends a copy with its bytes, or with a description of its failure. Returns when that is durable.
    pub async fn finish_copy(&self, copy: &CopyUnderWay, outcome: Result<Uploaded, String>) {
        let mut is_unreferenced = true;
        loop {
            match self.try_finish(&copy.id, outcome.as_ref().map_err(String::as_str)).await {
                Ok(CopyEnd::Applied) => {
                    return outcome.iter().for_each(|uploaded| self.mark_referenced(uploaded));
                }
                Ok(CopyEnd::Superseded) => break,
                Err(error) => {
                    tracing::warn!(copy_id = copy.id, %error, "cannot write the end of a copy yet");
                    is_unreferenced = false;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        // After a commit of unknown outcome the bytes may be referenced. If not, the next start frees them.
        if is_unreferenced && let Ok(uploaded) = outcome {
            self.discard(uploaded).await;
        }
    }

    async fn try_finish(&self, id: &str, outcome: Result<&Uploaded, &str>) -> Result<CopyEnd, ServiceError> {
        retry((), |()| async move {
            let snapshot = self.snapshot().await?;
            let mut writes = WriteSet::new(&snapshot);
            let end = self.end(&mut writes, id, outcome).await?;
            let outcome = writes.finish(end);
            commit(&*self.engine, &snapshot, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Writes the end of a copy, if it is still pending.
    async fn end(
        &self,
        writes: &mut WriteSet<'_, CoopSnapshot<E::Snapshot>>,
        id: &str,
        outcome: Result<&Uploaded, &str>,
    ) -> Result<CopyEnd, ServiceError> {
        let copy_record = keyspace::pending_copy(id);
        let Some(row) = writes.get(&copy_record).await? else { return Ok(CopyEnd::Superseded) };
        let destination = PendingCopy::decode(&row)?;
        writes.delete(copy_record);
        let key = keyspace::blob(destination.container, &destination.name, Revision::Base);
        let Some(row) = writes.get(&key).await? else { return Ok(CopyEnd::Superseded) };
        let mut blob = StoredBlob::decode(&row)?;
        let pending = |copy: &&mut CopyState| copy.id == id && copy.status == CopyStatus::Pending;
        let Some(copy) = blob.state.copy.as_deref_mut().filter(pending) else {
            return Ok(CopyEnd::Superseded);
        };
        let now = self.clock.tick().max(blob.state.changed.next()).max(blob.stamp.next());
        copy.completed = Some(now);
        match outcome {
            Ok(uploaded) => {
                copy.status = CopyStatus::Success;
                copy.progress = (uploaded.bytes, uploaded.bytes);
                blob.state.bytes = uploaded.bytes;
                blob.content =
                    store(writes, uploaded, keyspace::ContentId::new(now, (self.random_ids)())).await?;
            }
            Err(description) => {
                self.copies.update_progress(copy);
                copy.status = CopyStatus::Failed;
                copy.description = Some(description.to_owned());
                blob.content = Content::Inline(Bytes::new());
            }
        }
        (blob.changed, blob.stamp) = (now, now);
        writes.put_stamped(key, blob.encode());
        Ok(CopyEnd::Applied)
    }

    /// Marks the copies of earlier processes as failed.
    pub async fn fail_interrupted_copies(&self) -> Result<(), ServiceError> {
        let snapshot = self.snapshot().await?;
        let mut rows = RowCursor::new(&snapshot, keyspace::all_pending_copies(), 256);
        while let Some((key, _)) = rows.next().await? {
            let Some(id) = keyspace::pending_copy_id(&key) else { continue };
            if !self.copies.is_active(&id) {
                self.try_finish(&id, Err(INTERRUPTED)).await?;
            }
        }
        Ok(())
    }
}

/// Whether the end of a copy was applied to its blob.
enum CopyEnd {
    Applied,
    /// The copy was aborted, or its blob was replaced or deleted.
    Superseded,
}
