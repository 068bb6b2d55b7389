//! Group commit: one thread that turns many commits into one synced batch.
//!
//! Commits queue up while the sync of the group before them runs; that sync is the only window, so
//! a lone writer never waits for company. The thread checks each commit of a group against what
//! was written since its snapshot, writes all that pass as one batch, publishes the new state to
//! readers, and only then answers.

use crate::recent::{Hashes, Recent};
use crate::store::{Store, WriteFailure};
use crate::view::{Published, View};
use crate::{Chain, CommitError, EngineError, Key, Version, Write, changes_catalogue};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A group stops growing here, so that one sync stays short.
const MAX_GROUP_COMMITS: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 << 20;

/// How often an idle committer looks after its store.
const IDLE_TICK: Duration = Duration::from_millis(500);

/// How long readers of the old state may take to finish before a reopening is put off.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// How long a reopening is put off: doubled each time, up to the second.
const REOPEN_WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A store that fails again this soon after it was opened is opened again less eagerly: the cause
/// may be in its files, and background work meets it each time.
const SOON: Duration = Duration::from_secs(60);

/// Limits of the queue in front of the committer, and of its patience.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) commits: usize,
    pub(crate) bytes: usize,
    /// How long one group may take before the engine says that it is unhealthy.
    pub(crate) stall_after: Duration,
}

/// One commit on its way.
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) writes: Vec<Write>,
    pub(crate) reply: oneshot::Sender<Result<(), CommitError>>,
}

pub(crate) enum Kind {
    /// Rests on what its snapshot showed.
    Checked { at: Version, guards: Vec<Key>, chain: Option<Chain> },
    /// Removes what nobody can reach: nothing to check.
    Reclaim,
}

impl Request {
    fn chain(&self) -> Option<&Chain> {
        match &self.kind {
            Kind::Checked { chain, .. } => chain.as_ref(),
            Kind::Reclaim => None,
        }
    }

    fn bytes(&self) -> usize {
        self.writes
            .iter()
            .map(|write| match write {
                Write::Put(key, value) => key.len() + value.len(),
                Write::Delete(key) => key.len(),
            })
            .sum()
    }
}

/// What callers and the committer thread share.
pub(crate) struct Shared {
    pub(crate) published: Published,
    queue: Mutex<Queue>,
    wake: Condvar,
    limits: QueueLimits,
    /// Why no writes are taken, if so.
    status: RwLock<Option<EngineError>>,
    started: Instant,
    /// When the group under way began, in milliseconds since `started`, plus one. Zero: idle.
    busy_since_ms: AtomicU64,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    bytes: usize,
    closed: bool,
}

enum Taken {
    Group(Vec<Request>),
    Nothing,
    Closed,
}

impl Shared {
    pub(crate) fn new(view: View, limits: QueueLimits) -> Self {
        Self {
            published: Published::new(view),
            queue: Mutex::default(),
            wake: Condvar::new(),
            limits,
            status: RwLock::new(None),
            started: Instant::now(),
            busy_since_ms: AtomicU64::new(0),
        }
    }

    /// Queues a commit, or says at once why it cannot be taken.
    pub(crate) fn submit(&self, request: Request) -> Result<(), EngineError> {
        if let Some(error) = self.status() {
            return Err(error);
        }
        let bytes = request.bytes();
        let mut queue = self.queue();
        if queue.closed {
            return Err(EngineError::Unavailable("the engine is shutting down".into()));
        }
        let full = queue.requests.len() >= self.limits.commits || queue.bytes + bytes > self.limits.bytes;
        if full && !queue.requests.is_empty() {
            return Err(EngineError::Unavailable("busy: too many commits are waiting".into()));
        }
        queue.bytes += bytes;
        queue.requests.push_back(request);
        let first = queue.requests.len() == 1;
        drop(queue);
        if first {
            self.wake.notify_one();
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_one();
    }

    pub(crate) fn health(&self) -> Result<(), EngineError> {
        if let Some(error) = self.status() {
            return Err(error);
        }
        let since = self.busy_since_ms.load(Ordering::Relaxed);
        let now = self.started.elapsed().as_millis() as u64 + 1;
        let busy = Duration::from_millis(now.saturating_sub(since));
        if since != 0 && busy > self.limits.stall_after {
            return Err(EngineError::Unavailable(format!(
                "no commit was finished for {} ms",
                busy.as_millis()
            )));
        }
        Ok(())
    }

    fn status(&self) -> Option<EngineError> {
        self.status.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_status(&self, status: Option<EngineError>) {
        let mut held = self.status.write().unwrap_or_else(PoisonError::into_inner);
        if *held == status {
            return;
        }
        match &status {
            Some(error) => tracing::error!(%error, "the engine takes no writes"),
            None => tracing::info!("the engine takes writes again"),
        }
        *held = status;
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, wait: Duration) -> Taken {
        let mut queue = self.queue();
        if queue.requests.is_empty() && !queue.closed {
            queue = self.wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let mut group = Vec::with_capacity(queue.requests.len().min(MAX_GROUP_COMMITS));
        let mut bytes = 0;
        while bytes < MAX_GROUP_BYTES && group.len() < MAX_GROUP_COMMITS {
            let Some(request) = queue.requests.pop_front() else { break };
            bytes += request.bytes();
            group.push(request);
        }
        queue.bytes = queue.bytes.saturating_sub(bytes);
        match group.is_empty() {
            false => Taken::Group(group),
            true if queue.closed => Taken::Closed,
            true => Taken::Nothing,
        }
    }
}

/// The committer thread's own state.
pub(crate) struct Committer<S: Store> {
    shared: Arc<Shared>,
    store: S,
    recent: Recent,
    version: Version,
    catalogue_version: Version,
    state: State,
    /// When the store was last opened again, and how long that had been put off.
    reopened: Option<(Instant, Duration)>,
}

enum State {
    Open,
    /// The store must be opened again before the next write.
    Failed {
        why: EngineError,
        retry_at: Instant,
        wait: Duration,
    },
}

impl<S: Store> Committer<S> {
    /// `version` is the one that `shared` was created with.
    pub(crate) fn new(shared: Arc<Shared>, store: S, version: Version) -> Self {
        Self {
            shared,
            store,
            recent: Recent::new(version),
            version,
            catalogue_version: version,
            state: State::Open,
            reopened: None,
        }
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            match self.shared.take(IDLE_TICK) {
                Taken::Closed => {
                    let closed = EngineError::Unavailable("the engine is shutting down".into());
                    self.shared.published.set_failed(closed);
                    return self.store.close();
                }
                Taken::Nothing => self.look_after_store(),
                Taken::Group(group) => {
                    let now = self.shared.started.elapsed().as_millis() as u64 + 1;
                    self.shared.busy_since_ms.store(now, Ordering::Relaxed);
                    let bytes = group.iter().map(Request::bytes).sum();
                    self.commit(group);
                    self.shared.busy_since_ms.store(0, Ordering::Relaxed);
                    let rest = self.store.rest(bytes);
                    if !rest.is_zero() {
                        std::thread::sleep(rest);
                    }
                }
            }
        }
    }

    fn commit(&mut self, group: Vec<Request>) {
        if let Err(error) = self.ready() {
            return answer(group, &Err(error.into()));
        }
        let mut batch = Vec::with_capacity(group.len());
        let mut touched = Hashes::default();
        let mut accepted = Vec::with_capacity(group.len());
        let mut refused = Vec::new();
        let next = Version(self.version.0 + 1);
        let mut overlaps = false;
        for mut request in group {
            // A commit of this group is not in anybody's snapshot yet, so whoever meets one of its
            // keys rests on something older, unless both are of one chain.
            let hashes: Vec<u64> = request.writes.iter().map(|write| self.recent.hash(write.key())).collect();
            if self.conflicts(&request, &hashes, &touched, next) {
                if let Some(chain) = request.chain() {
                    chain.break_off();
                }
                refused.push(request);
                continue;
            }
            let touched_before = touched.len();
            touched.extend(&hashes);
            let writes = std::mem::take(&mut request.writes);
            overlaps |= touched.len() < touched_before + writes.len();
            if let Some(chain) = request.chain() {
                chain.record(hashes.iter().copied(), next);
            }
            batch.extend(writes);
            accepted.push(request);
        }
        if overlaps {
            batch = last_writes(batch);
        }
        let changes_catalogue = changes_catalogue(&batch);
        let outcome = if batch.is_empty() { Ok(()) } else { self.store.write(batch) };
        match outcome {
            Ok(()) => {
                if !touched.is_empty() {
                    self.version = next;
                    self.recent.record(touched, self.version);
                    if changes_catalogue {
                        self.catalogue_version = self.version;
                    }
                    self.publish();
                }
                answer(accepted, &Ok(()));
                // Answered only now: who runs again at once must find the state that it lost against.
                answer(refused, &Err(CommitError::Conflict));
            }
            Err(failure) => {
                let (result, why) = match failure {
                    WriteFailure::Nothing(error) => (Err(CommitError::Engine(error.clone())), error),
                    WriteFailure::Maybe(error) => (Err(CommitError::Unknown(error.to_string())), error),
                };
                // Before answering: nobody who has been told may find the engine taking writes.
                self.fail(why);
                answer(accepted, &result);
                answer(refused, &Err(CommitError::Conflict));
            }
        }
    }

    /// Whether a key that a request rests on has changed since its snapshot, other than by its chain.
    fn conflicts(&self, request: &Request, hashes: &[u64], touched: &Hashes, next: Version) -> bool {
        let Kind::Checked { at, guards, chain } = &request.kind else { return false };
        if self.recent.forgot_since(*at) || chain.as_ref().is_some_and(Chain::is_broken) {
            return true;
        }
        let changed = |hash: u64| {
            let last = if touched.contains(&hash) { Some(next) } else { self.recent.last_change(hash) };
            last.is_some_and(|last| {
                last > *at && !chain.as_ref().is_some_and(|chain| chain.wrote(hash, last))
            })
        };
        hashes.iter().any(|hash| changed(*hash)) || guards.iter().any(|key| changed(self.recent.hash(key)))
    }

    /// Whether a write may be tried now.
    fn ready(&mut self) -> Result<(), EngineError> {
        self.try_reopen()?;
        let space = self.store.check_space();
        self.shared.set_status(space.clone().err());
        space
    }

    fn look_after_store(&mut self) {
        if self.ready().is_err() {
            return;
        }
        if let Err(error) = self.store.check_alive() {
            return self.fail(error);
        }
        // Background work makes a newer form of the same content; holding on to the older one
        // would keep its memory and files.
        if self.store.is_stale(&self.shared.published) {
            self.publish();
        }
    }

    fn publish(&mut self) {
        self.shared.published.set(self.store.view(self.version, self.catalogue_version));
    }

    fn fail(&mut self, why: EngineError) {
        let why = match why {
            EngineError::Unavailable(why) | EngineError::Failed(why) => {
                EngineError::Unavailable(format!("read-only until the store is opened again: {why}"))
            }
            corrupt @ EngineError::Corrupt(_) => corrupt,
        };
        self.shared.set_status(Some(why.clone()));
        let wait = match self.reopened {
            Some((when, wait)) if when.elapsed() < SOON => (wait * 2).min(REOPEN_WAIT.1),
            _ => REOPEN_WAIT.0,
        };
        self.state = State::Failed { why, retry_at: Instant::now() + wait, wait };
    }

    fn try_reopen(&mut self) -> Result<(), EngineError> {
        let State::Failed { why, retry_at, wait } = &mut self.state else { return Ok(()) };
        if Instant::now() < *retry_at {
            return Err(why.clone());
        }
        let (waited, wait) = (*wait, (*wait * 2).min(REOPEN_WAIT.1));
        let reopened = self.store.check_writable().and_then(|()| self.reopen());
        match reopened {
            Ok(()) => {
                self.state = State::Open;
                self.reopened = Some((Instant::now(), waited));
                self.shared.set_status(None);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "the store cannot be opened again yet");
                self.shared.set_status(Some(error.clone()));
                self.state = State::Failed { why: error.clone(), retry_at: Instant::now() + wait, wait };
                Err(error)
            }
        }
    }

    fn reopen(&mut self) -> Result<(), EngineError> {
        // Two openings of one directory must not overlap, so the readers of the first are waited
        // for. New readers wait for the second.
        self.shared.published.withdraw(DRAIN_WAIT)?;
        let opened = self.store.reopen();
        // Every older snapshot conflicts from here on: what it rests on may have changed unseen.
        self.version = Version(self.version.0 + 1);
        self.recent = Recent::new(self.version);
        self.catalogue_version = self.version;
        match opened {
            Ok(()) => {
                self.publish();
                Ok(())
            }
            Err(error) => {
                self.shared.published.set_failed(error.clone());
                Err(error)
            }
        }
    }
}

impl<S: Store> Drop for Committer<S> {
    /// Also after a panic: nobody is left waiting, and nobody queues any more.
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.closed = true;
        let left: Vec<Request> = queue.requests.drain(..).collect();
        drop(queue);
        let stopped = EngineError::Unavailable("the engine has stopped".into());
        *self.shared.status.write().unwrap_or_else(PoisonError::into_inner) = Some(stopped.clone());
        answer(left, &Err(stopped.into()));
    }
}

fn answer(requests: Vec<Request>, result: &Result<(), CommitError>) {
    for request in requests {
        if let (Err(_), Some(chain)) = (result, request.chain()) {
            chain.break_off();
        }
        // Whoever no longer waits does not care.
        let _ = request.reply.send(result.clone());
    }
}

/// All writes of a batch share one sequence number, so a key may occur only once.
fn last_writes(writes: Vec<Write>) -> Vec<Write> {
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
