//! Copies that go on after they were answered, because their bytes have to be fetched from elsewhere.
//!
//! While one is under way there is a note of it beside the blob. Whoever fetches the bytes ends it with
//! [`BlobService::finish_copy`]; a note without anybody who does is from an earlier run, and the copy has failed.

use super::edit::{Edit, Rows};
use super::put::store;
use super::service::{BlobService, Context, Step};
use super::target::Target;
use super::upload::Uploaded;
use crate::keyspace;
use crate::pace::Paced;
use crate::record::{Content, PendingCopy, StoredBlob};
use crate::transact::{Attempt, Outcome, Space, commit};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tepui_model::blob::{BlobPath, CopyState, CopyStatus, Preconditions, Reply, Revision};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Engine, Extents, Snapshot};
use tokio::sync::Notify;

/// How many copies are under way at most, most of them waiting for their turn.
const MAX_UNDER_WAY: usize = 1000;
/// How many of them are of one account.
const MAX_OF_ACCOUNT: usize = 250;
/// How long to wait before the end of a copy is written once more, after that has failed.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
const INTERRUPTED: &str = "500 InternalError \"Copy failed because the server was stopped.\"";

/// The copies that this process makes, by their ids.
#[derive(Default)]
pub(super) struct Copies(Mutex<HashMap<String, Arc<Running>>>);

#[derive(Default)]
struct Running {
    account: String,
    copied: AtomicU64,
    aborted: Notify,
}

/// A copy that this process makes. As long as this lives, nobody else declares it failed.
pub struct CopyUnderWay {
    id: String,
    running: Arc<Running>,
    copies: Arc<Copies>,
}

impl Copies {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Running>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(copies: &Arc<Self>, account: &str, id: String) -> Result<CopyUnderWay, ErrorCode> {
        let running = Arc::new(Running { account: account.to_owned(), ..Running::default() });
        let mut all = copies.lock();
        let of_account = all.values().filter(|running| running.account == account).count();
        if all.len() >= MAX_UNDER_WAY || of_account >= MAX_OF_ACCOUNT {
            return Err(ErrorCode::ServerBusy);
        }
        all.insert(id.clone(), Arc::clone(&running));
        Ok(CopyUnderWay { id, running, copies: Arc::clone(copies) })
    }

    /// Tells whoever makes a copy that nobody wants it any more.
    pub(super) fn abort(&self, id: &str) {
        if let Some(running) = self.lock().get(id) {
            running.aborted.notify_one();
        }
    }

    fn is_under_way(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Brings the state of a copy up to what was copied by now.
    pub(super) fn bring_up(&self, copy: &mut CopyState) {
        if copy.status == CopyStatus::Pending
            && let Some(running) = self.lock().get(&copy.id)
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

    /// Some more bytes were copied.
    pub fn add(&self, bytes: u64) {
        self.running.copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns when nobody wants the copy any more.
    pub async fn aborted(&self) {
        self.running.aborted.notified().await;
    }
}

impl Drop for CopyUnderWay {
    fn drop(&mut self) {
        self.copies.lock().remove(&self.id);
    }
}

/// Notes that a copy is under way.
pub(super) fn note<S: Snapshot>(edit: &mut Edit<'_, S>, target: &Target<'_>, id: &str) {
    let place = PendingCopy { container: target.container, name: target.name().to_owned() };
    edit.put(keyspace::pending_copy(id), place.encode());
}

pub(super) fn require_none(blob: &StoredBlob) -> Result<(), ErrorCode> {
    match blob.copy.as_ref().map(|copy| copy.status) {
        Some(CopyStatus::Pending) => Err(ErrorCode::PendingCopyOperation),
        _ => Ok(()),
    }
}

/// Abort Copy Blob: what is left is an empty blob.
pub(super) async fn abort<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    copy_id: &str,
    preconditions: &Preconditions,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let mut blob = target.existing()?.clone();
    let Some(copy) = blob.copy.as_deref_mut().filter(|copy| copy.status == CopyStatus::Pending) else {
        return Err(ErrorCode::NoPendingCopyOperation.into());
    };
    if !copy.id.eq_ignore_ascii_case(copy_id) {
        return Err(ErrorCode::CopyIdMismatch.into());
    }
    context.copies.bring_up(copy);
    copy.status = CopyStatus::Aborted;
    copy.completed = Some(context.now);
    edit.delete(keyspace::pending_copy(&copy.id));
    target.asked(preconditions, context.now).check_holder(&blob)?;
    blob.changed = target.change_moment(context.now);
    blob.stamp = blob.changed;
    edit.put_stamped(target.key(Revision::Base), blob.encode());
    Ok(edit.finish(Reply::CopyAborted.into()))
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Ends a copy: with its bytes, or with what is said of its failure. Does not return before that is stored.
    pub async fn finish_copy(&self, copy: &CopyUnderWay, outcome: Result<Uploaded, String>) {
        let mut surely_unknown = true;
        loop {
            match self.try_finish(&copy.id, outcome.as_ref().map_err(String::as_str)).await {
                Ok(Kept::Yes) => return outcome.iter().for_each(|uploaded| self.settle(uploaded)),
                Ok(Kept::No) => break,
                Err(error) => {
                    tracing::warn!(copy_id = copy.id, %error, "cannot write the end of a copy yet");
                    surely_unknown = false;
                    tokio::time::sleep(TRY_AGAIN_AFTER).await;
                }
            }
        }
        // After a commit of unknown outcome the bytes may be in use. If they are not, a restart frees them.
        if surely_unknown && let Ok(uploaded) = outcome {
            self.discard(uploaded).await;
        }
    }

    async fn try_finish(&self, id: &str, outcome: Result<&Uploaded, &str>) -> Result<Kept, ServiceError> {
        loop {
            let snapshot = self.snapshot().await?;
            let mut edit = Edit::of(&snapshot);
            let kept = self.end(&mut edit, id, outcome).await?;
            if let Attempt::Done(kept) =
                commit(&*self.engine, &snapshot, edit.finish(kept), Space::Takes).await?
            {
                return Ok(kept);
            }
        }
    }

    /// Writes the end of a copy, if it is still under way.
    async fn end(
        &self,
        edit: &mut Edit<'_, Paced<E::Snapshot>>,
        id: &str,
        outcome: Result<&Uploaded, &str>,
    ) -> Result<Kept, ServiceError> {
        let note = keyspace::pending_copy(id);
        let Some(row) = edit.get(&note).await? else { return Ok(Kept::No) };
        let place = PendingCopy::decode(&row)?;
        edit.delete(note);
        let key = keyspace::blob(place.container, &place.name, Revision::Base);
        let Some(row) = edit.get(&key).await? else { return Ok(Kept::No) };
        let mut blob = StoredBlob::decode(&row)?;
        let pending = |copy: &&mut CopyState| copy.id == id && copy.status == CopyStatus::Pending;
        let Some(copy) = blob.state.copy.as_deref_mut().filter(pending) else { return Ok(Kept::No) };
        let now = self.clock.tick().max(blob.state.changed.next()).max(blob.stamp.next());
        copy.completed = Some(now);
        match outcome {
            Ok(uploaded) => {
                copy.status = CopyStatus::Success;
                copy.progress = (uploaded.bytes, uploaded.bytes);
                blob.state.bytes = uploaded.bytes;
                blob.content = store(edit, uploaded, keyspace::ContentId::new(now, (self.chance)())).await?;
            }
            Err(description) => {
                self.copies.bring_up(copy);
                copy.status = CopyStatus::Failed;
                copy.description = Some(description.to_owned());
                blob.content = Content::Inline(Bytes::new());
            }
        }
        (blob.changed, blob.stamp) = (now, now);
        edit.put_stamped(key, blob.encode());
        Ok(Kept::Yes)
    }

    /// Declares copies failed that an earlier run has left behind.
    pub async fn fail_interrupted_copies(&self) -> Result<(), ServiceError> {
        let snapshot = self.snapshot().await?;
        let mut rows = Rows::of(&snapshot, keyspace::all_pending_copies(), 256);
        while let Some((key, _)) = rows.next().await? {
            let Some(id) = keyspace::pending_copy_id(&key) else { continue };
            if !self.copies.is_under_way(&id) {
                self.try_finish(&id, Err(INTERRUPTED)).await?;
            }
        }
        Ok(())
    }
}

/// Whether a blob has kept what a copy has come to.
enum Kept {
    Yes,
    No,
}
