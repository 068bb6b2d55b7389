//! Group commit with optimistic concurrency control: one thread turns many commits into one batch with one fsync.
//!
//! Commits queue up during the fsync of the group before them. There is no other delay, so a lone writer never waits.
//! The thread validates each commit of a group against what was written since its snapshot, writes those that pass as
//! one batch, publishes the new state to readers, and only then replies.

use crate::engine::conflict_tracker::ConflictTracker;
use crate::engine::lsm_store::{BatchStore, Purpose, WriteFailure};
use crate::engine::published_view::{PublishedView, SnapshotView};
use crate::engine::resident_rows::ResidentRows;
use crate::stats::EngineCounters;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tepui_storage::versions::{KeyHashes, PipelineHistory, Version};
use tepui_storage::{Commit, CommitError, StorageError, StorageErrorKind, Write};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The largest group, so that one fsync stays short.
const MAX_GROUP_COMMITS: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 << 20;

/// How often an idle committer maintains its store.
const IDLE_TICK: Duration = Duration::from_millis(500);

/// The wait before a failed store is retried: doubled each time, from the first up to the second.
const RECOVERY_BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A store that fails again this soon after a recovery keeps its longer wait.
const RECENT_RECOVERY: Duration = Duration::from_secs(60);

/// Limits of the commit queue: the backpressure on writers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) commits: usize,
    pub(crate) bytes: usize,
    /// How long one group may take before the engine counts as unhealthy.
    pub(crate) stall_after: Duration,
}

/// A commit that waits for its group.
pub(crate) struct PendingCommit {
    pub(crate) kind: CommitKind,
    pub(crate) purpose: Purpose,
    pub(crate) commit: Commit,
    pub(crate) queued: Instant,
    pub(crate) reply: oneshot::Sender<Result<(), CommitError>>,
}

pub(crate) enum CommitKind {
    /// Must be validated against what its transaction has read.
    Checked { at: Version, pipeline: Option<PipelineHistory> },
    /// Removes unreachable rows: nothing to validate.
    Reclaim,
}

impl PendingCommit {
    fn pipeline(&self) -> Option<&PipelineHistory> {
        match &self.kind {
            CommitKind::Checked { pipeline, .. } => pipeline.as_ref(),
            CommitKind::Reclaim => None,
        }
    }

    /// The snapshot that it is validated against.
    fn at(&self) -> Option<Version> {
        match &self.kind {
            CommitKind::Checked { at, .. } => Some(*at),
            CommitKind::Reclaim => None,
        }
    }
}

/// The queue in front of the committer thread, and what readers and writers see of it.
pub(crate) struct CommitQueue {
    pub(crate) published: PublishedView,
    queued: Mutex<QueuedCommits>,
    wake: Condvar,
    limits: QueueLimits,
    /// Why writes are refused, if so.
    status: RwLock<WriteStatus>,
    started: Instant,
    /// When the group under way began, in milliseconds since `started`, plus one. Zero: idle.
    busy_since_ms: AtomicU64,
    counters: Arc<EngineCounters>,
}

/// Which writes are refused, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct WriteStatus {
    all: Option<StorageError>,
    /// Writes that do not free space.
    ordinary: Option<StorageError>,
}

#[derive(Default)]
struct QueuedCommits {
    commits: VecDeque<PendingCommit>,
    bytes: usize,
    closed: bool,
}

enum NextGroup {
    /// The commits, and the oldest snapshot of those still queued.
    Group(Vec<PendingCommit>, Option<Version>),
    Idle,
    Closed,
}

impl CommitQueue {
    pub(crate) fn new(view: SnapshotView, limits: QueueLimits) -> Self {
        Self {
            counters: Arc::clone(view.tree.counters()),
            published: PublishedView::new(view),
            queued: Mutex::default(),
            wake: Condvar::new(),
            limits,
            status: RwLock::default(),
            started: Instant::now(),
            busy_since_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// How many commits wait.
    pub(crate) fn length(&self) -> usize {
        self.queued().commits.len()
    }

    /// Queues a commit, or refuses it at once.
    pub(crate) fn submit(&self, commit: PendingCommit) -> Result<(), StorageError> {
        let submitted = self.try_submit(commit);
        if submitted.is_err() {
            self.counters.commits.failed.add(1);
        }
        submitted
    }

    fn try_submit(&self, commit: PendingCommit) -> Result<(), StorageError> {
        if let Some(error) = self.status(commit.purpose) {
            return Err(error);
        }
        let bytes = commit.commit.bytes();
        let mut queue = self.queued();
        if queue.closed {
            return Err(StorageError::unavailable("the engine is shutting down"));
        }
        let full = queue.commits.len() >= self.limits.commits || queue.bytes + bytes > self.limits.bytes;
        if full && !queue.commits.is_empty() {
            return Err(StorageError::busy("too many commits are waiting"));
        }
        queue.bytes += bytes;
        queue.commits.push_back(commit);
        let first = queue.commits.len() == 1;
        drop(queue);
        if first {
            self.wake.notify_one();
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.queued().closed = true;
        self.wake.notify_one();
    }

    pub(crate) fn health(&self) -> Result<(), StorageError> {
        if let Some(error) = self.status(Purpose::Ordinary) {
            return Err(error);
        }
        let since = self.busy_since_ms.load(Ordering::Relaxed);
        let now = self.started.elapsed().as_millis() as u64 + 1;
        let busy = Duration::from_millis(now.saturating_sub(since));
        if since != 0 && busy > self.limits.stall_after {
            return Err(StorageError::unavailable(format!(
                "no commit was finished for {} ms",
                busy.as_millis()
            )));
        }
        Ok(())
    }

    /// Whether such writes are accepted.
    pub(crate) fn check(&self, purpose: Purpose) -> Result<(), StorageError> {
        self.status(purpose).map_or(Ok(()), Err)
    }

    fn status(&self, purpose: Purpose) -> Option<StorageError> {
        let status = self.status.read();
        match purpose {
            Purpose::FreesSpace => status.all.clone(),
            Purpose::Ordinary => status.all.clone().or_else(|| status.ordinary.clone()),
        }
    }

    fn set_status(&self, status: WriteStatus) {
        let mut held = self.status.write();
        if *held == status {
            return;
        }
        let kind = |status: &WriteStatus| (status.all.is_some(), status.ordinary.is_some());
        if kind(&held) != kind(&status) {
            match (&status.all, &status.ordinary) {
                (Some(error), _) => tracing::error!(%error, "the engine takes no writes"),
                (None, Some(error)) => {
                    tracing::error!(%error, "the engine takes only writes that free space")
                }
                (None, None) => tracing::info!("the engine takes writes again"),
            }
        }
        *held = status;
    }

    fn queued(&self) -> MutexGuard<'_, QueuedCommits> {
        self.queued.lock()
    }

    fn take_group(&self, wait: Duration) -> NextGroup {
        let mut queue = self.queued();
        if queue.commits.is_empty() && !queue.closed && !wait.is_zero() {
            self.wake.wait_for(&mut queue, wait);
        }
        let mut group = Vec::with_capacity(queue.commits.len().min(MAX_GROUP_COMMITS));
        let mut bytes = 0;
        while bytes < MAX_GROUP_BYTES && group.len() < MAX_GROUP_COMMITS {
            let Some(commit) = queue.commits.pop_front() else { break };
            bytes += commit.commit.bytes();
            group.push(commit);
        }
        queue.bytes = queue.bytes.saturating_sub(bytes);
        match group.is_empty() {
            false => {
                let oldest = queue.commits.iter().filter_map(PendingCommit::at).min();
                NextGroup::Group(group, oldest)
            }
            true if queue.closed => NextGroup::Closed,
            true => NextGroup::Idle,
        }
    }
}

/// The state of the committer thread.
pub(crate) struct Committer<S: BatchStore> {
    queue: Arc<CommitQueue>,
    store: S,
    conflicts: ConflictTracker,
    version: Version,
    resident: Arc<ResidentRows>,
    state: StoreState,
    /// When the store last recovered, and the wait before that.
    recovered: Option<(Instant, Duration)>,
}

enum StoreState {
    Open,
    /// The store must recover before the next write.
    Failed {
        why: StorageError,
        retry_at: Instant,
        wait: Duration,
    },
}

impl<S: BatchStore> Committer<S> {
    /// `version` and `resident` are of the view that `queue` was created with.
    pub(crate) fn new(
        queue: Arc<CommitQueue>,
        store: S,
        version: Version,
        resident: Arc<ResidentRows>,
    ) -> Self {
        let failed = store.failure();
        let mut committer = Self {
            queue,
            store,
            conflicts: ConflictTracker::new(version),
            version,
            resident,
            state: StoreState::Open,
            recovered: None,
        };
        match failed {
            Some(why) => committer.fail(why),
            // So that `health` is right from the start.
            None => drop(committer.check_writable()),
        }
        committer
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            match self.queue.take_group(IDLE_TICK) {
                NextGroup::Closed => return self.close(),
                NextGroup::Idle => self.maintain_store(),
                NextGroup::Group(group, oldest) => {
                    let bytes = group.iter().map(|pending| pending.commit.bytes()).sum();
                    self.commit_group(group, oldest);
                    let throttle = self.store.write_throttle(bytes);
                    if !throttle.is_zero() {
                        self.queue.counters.slowdowns.add(throttle);
                        std::thread::sleep(throttle);
                    }
                }
            }
        }
    }

    /// One round of [`Committer::run`], which waits for commits no longer than this. Returns whether there was one.
    pub(crate) fn step(&mut self, wait: Duration) -> bool {
        match self.queue.take_group(wait) {
            NextGroup::Closed => self.close(),
            NextGroup::Idle => self.maintain_store(),
            NextGroup::Group(group, oldest) => {
                self.commit_group(group, oldest);
                return true;
            }
        }
        false
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    fn close(&mut self) {
        let closed = StorageError::unavailable("the engine is shutting down");
        self.queue.published.close(closed);
        self.store.close();
    }

    fn commit_group(&mut self, group: Vec<PendingCommit>, oldest_waiting: Option<Version>) {
        let now = self.queue.started.elapsed().as_millis() as u64 + 1;
        self.queue.busy_since_ms.store(now, Ordering::Relaxed);
        self.commit(group, oldest_waiting);
        self.queue.busy_since_ms.store(0, Ordering::Relaxed);
    }

    fn commit(&mut self, mut group: Vec<PendingCommit>, oldest_waiting: Option<Version>) {
        let queue = Arc::clone(&self.queue);
        let counters = queue.counters();
        let now = Instant::now();
        counters.group_size.observe(group.len() as u64);
        group.iter().for_each(|commit| counters.commit_wait.observe_time(now - commit.queued));
        let status = self.check_writable();
        if let Some(error) = status.all {
            return reply_all(counters, group, &Err(error.into()));
        }
        if let Some(error) = status.ordinary {
            let is_ordinary = |commit: &mut PendingCommit| commit.purpose == Purpose::Ordinary;
            let ordinary = group.extract_if(.., is_ordinary).collect();
            reply_all(counters, ordinary, &Err(error.into()));
        }
        let mut batch = Vec::with_capacity(group.len());
        let mut written = KeyHashes::default();
        let mut accepted = Vec::with_capacity(group.len());
        let mut refused = Vec::new();
        let next = Version(self.version.0 + 1);
        let mut has_duplicates = false;
        for mut commit in group {
            // No snapshot shows the commits of this group yet. So a commit that shares a key with an earlier one conflicts,
            // unless both are of one pipeline.
            let hashes: Vec<u64> =
                commit.commit.writes().iter().map(|write| self.conflicts.hash(write.key())).collect();
            if self.is_conflict(&commit, &hashes, &written, next) {
                if let Some(pipeline) = commit.pipeline() {
                    pipeline.poison();
                }
                refused.push(commit);
                continue;
            }
            let written_before = written.len();
            written.extend(&hashes);
            let writes = commit.commit.take_writes();
            has_duplicates |= written.len() < written_before + writes.len();
            if let Some(pipeline) = commit.pipeline() {
                pipeline.record(hashes.iter().copied(), next);
            }
            batch.extend(writes);
            accepted.push(commit);
        }
        if has_duplicates {
            batch = last_write_per_key(batch);
        }
        let resident = self.resident.after(&batch);
        let outcome = if batch.is_empty() { Ok(()) } else { self.store.write(batch) };
        match outcome {
            Ok(()) => {
                if !written.is_empty() {
                    self.version = next;
                    self.conflicts.record(written, self.version, oldest_waiting);
                    if let Some(resident) = resident {
                        self.resident = Arc::new(resident);
                    }
                    self.publish();
                }
                reply_all(counters, accepted, &Ok(()));
                // Only now: a retry must find the state that it conflicted with.
                reply_all(counters, refused, &Err(CommitError::Conflict));
            }
            Err(failure) => {
                let result = match failure {
                    WriteFailure::NotWritten(error) => Err(CommitError::Storage(error)),
                    WriteFailure::Unknown(error) => {
                        let result = Err(CommitError::Unknown(error.to_string()));
                        // Before the reply: its caller must not find the engine accepting writes.
                        self.fail(error);
                        result
                    }
                };
                reply_all(counters, accepted, &result);
                reply_all(counters, refused, &Err(CommitError::Conflict));
            }
        }
    }

    /// Whether a guard or a written key has changed since the snapshot, other than by the commit's own pipeline.
    fn is_conflict(
        &self,
        commit: &PendingCommit,
        hashes: &[u64],
        written: &KeyHashes,
        next: Version,
    ) -> bool {
        let CommitKind::Checked { at, pipeline } = &commit.kind else { return false };
        if self.conflicts.forgot_since(*at) || pipeline.as_ref().is_some_and(PipelineHistory::is_poisoned) {
            return true;
        }
        let changed = |hash: u64| {
            let last = if written.contains(&hash) { Some(next) } else { self.conflicts.last_change(hash) };
            last.is_some_and(|last| {
                last > *at && !pipeline.as_ref().is_some_and(|pipeline| pipeline.wrote(hash, last))
            })
        };
        // Nothing is locked, so guards of both kinds are shared by any number of commits.
        let guards = commit.commit.guards();
        hashes.iter().any(|hash| changed(*hash))
            || guards.iter().any(|guard| changed(self.conflicts.hash(guard.key())))
    }

    /// Determines which writes are accepted now.
    fn check_writable(&mut self) -> WriteStatus {
        let all = self.try_recover().and_then(|()| self.store.check_background());
        let all = all.and_then(|()| self.store.check_space(Purpose::FreesSpace)).err();
        let ordinary = self.store.check_space(Purpose::Ordinary).err();
        let status = WriteStatus { all, ordinary };
        self.queue.set_status(status.clone());
        status
    }

    fn maintain_store(&mut self) {
        // First, whatever else is wrong: after a flush or a compaction the published view would keep obsolete memory and
        // files alive.
        if self.store.is_stale(&self.queue.published) {
            self.publish();
        }
        let status = self.check_writable();
        if status.all.is_none() {
            self.store.on_idle();
        }
    }

    fn publish(&mut self) {
        self.queue.published.set(self.store.view(self.version, Arc::clone(&self.resident)));
    }

    fn fail(&mut self, why: StorageError) {
        let why = read_only(why);
        let wait = match self.recovered {
            Some((when, wait)) if when.elapsed() < RECENT_RECOVERY => (wait * 2).min(RECOVERY_BACKOFF.1),
            _ => RECOVERY_BACKOFF.0,
        };
        self.queue.set_status(WriteStatus { all: Some(why.clone()), ordinary: None });
        self.state = StoreState::Failed { why, retry_at: Instant::now() + wait, wait };
    }

    fn try_recover(&mut self) -> Result<(), StorageError> {
        let StoreState::Failed { why, retry_at, wait } = &mut self.state else { return Ok(()) };
        if Instant::now() < *retry_at {
            return Err(why.clone());
        }
        let (waited, wait) = (*wait, (*wait * 2).min(RECOVERY_BACKOFF.1));
        match self.store.recover() {
            Ok(()) => {
                self.state = StoreState::Open;
                self.recovered = Some((Instant::now(), waited));
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "the disk does not take writes yet");
                let why = read_only(error);
                self.state = StoreState::Failed { why: why.clone(), retry_at: Instant::now() + wait, wait };
                Err(why)
            }
        }
    }
}

impl<S: BatchStore> Drop for Committer<S> {
    /// Also after a panic: replies to those who wait, and closes the queue.
    fn drop(&mut self) {
        let mut queue = self.queue.queued();
        queue.closed = true;
        let left: Vec<PendingCommit> = queue.commits.drain(..).collect();
        drop(queue);
        let stopped = StorageError::unavailable("the engine has stopped");
        let status = WriteStatus { all: Some(stopped.clone()), ordinary: None };
        *self.queue.status.write() = status;
        reply_all(self.queue.counters(), left, &Err(stopped.into()));
    }
}

fn read_only(why: StorageError) -> StorageError {
    match why {
        why if why.kind() == StorageErrorKind::NoSpace => why,
        why => StorageError::unavailable(format!("read-only until the disk takes writes again: {why}")),
    }
}

fn reply_all(counters: &EngineCounters, commits: Vec<PendingCommit>, result: &Result<(), CommitError>) {
    counters.commits.add(result, commits.len() as u64);
    for commit in commits {
        if let (Err(_), Some(pipeline)) = (result, commit.pipeline()) {
            pipeline.poison();
        }
        // The receiver may be gone.
        let _ = commit.reply.send(result.clone());
    }
}

/// All writes of a batch have one sequence number, so a key may occur only once.
fn last_write_per_key(writes: Vec<Write>) -> Vec<Write> {
    let mut seen = HashSet::with_capacity(writes.len());
    let mut kept: Vec<Write> = Vec::with_capacity(writes.len());
    for write in writes.into_iter().rev() {
        if seen.insert(write.key().clone()) {
            kept.push(write);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
