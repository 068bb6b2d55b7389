//! Group commit: one thread that turns many commits into one synced batch.
//!
//! Commits queue up while the sync of the group before them runs; that sync is the only window, so
//! a lone writer never waits for company. The thread checks each commit of a group against what
//! was written since its snapshot, writes all that pass as one batch, publishes the new state to
//! readers, and only then answers.

use crate::recent::{Hashes, Recent};
use crate::store::{Purpose, Store, WriteFailure};
use crate::view::{Published, View};
use crate::{Chain, CommitError, EngineError, Key, Version, Write, changes_catalogue};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A group stops growing here, so that one sync stays short.
const MAX_GROUP_COMMITS: usize = 1024;
const MAX_GROUP_BYTES: usize = 4 << 20;

/// How often an idle committer looks after its store.
const IDLE_TICK: Duration = Duration::from_millis(500);

/// How long to wait before a store that failed is tried again: doubled each time, up to the second.
const HEAL_WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A store that fails again this soon after it was healed is healed less eagerly.
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
    pub(crate) purpose: Purpose,
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

    /// The snapshot that it rests on.
    fn at(&self) -> Option<Version> {
        match &self.kind {
            Kind::Checked { at, .. } => Some(*at),
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
    /// Why writes are not taken, if so.
    status: RwLock<Status>,
    started: Instant,
    /// When the group under way began, in milliseconds since `started`, plus one. Zero: idle.
    busy_since_ms: AtomicU64,
}

/// Which writes are not taken, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Status {
    all: Option<EngineError>,
    /// Those that do not free space.
    ordinary: Option<EngineError>,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    bytes: usize,
    closed: bool,
}

enum Taken {
    /// The commits, and the oldest snapshot of those that still wait.
    Group(Vec<Request>, Option<Version>),
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
            status: RwLock::default(),
            started: Instant::now(),
            busy_since_ms: AtomicU64::new(0),
        }
    }

    /// Queues a commit, or says at once why it cannot be taken.
    pub(crate) fn submit(&self, request: Request) -> Result<(), EngineError> {
        if let Some(error) = self.status(request.purpose) {
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
        if let Some(error) = self.status(Purpose::Ordinary) {
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

    /// Whether such writes are taken.
    pub(crate) fn check(&self, purpose: Purpose) -> Result<(), EngineError> {
        self.status(purpose).map_or(Ok(()), Err)
    }

    fn status(&self, purpose: Purpose) -> Option<EngineError> {
        let status = self.status.read().unwrap_or_else(PoisonError::into_inner);
        match purpose {
            Purpose::FreesSpace => status.all.clone(),
            Purpose::Ordinary => status.all.clone().or_else(|| status.ordinary.clone()),
        }
    }

    fn set_status(&self, status: Status) {
        let mut held = self.status.write().unwrap_or_else(PoisonError::into_inner);
        if *held == status {
            return;
        }
        let kind = |status: &Status| (status.all.is_some(), status.ordinary.is_some());
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, wait: Duration) -> Taken {
        let mut queue = self.queue();
        if queue.requests.is_empty() && !queue.closed && !wait.is_zero() {
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
            false => {
                let oldest = queue.requests.iter().filter_map(Request::at).min();
                Taken::Group(group, oldest)
            }
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
    /// When the store was last healed, and how long that had been put off.
    healed: Option<(Instant, Duration)>,
}

enum State {
    Open,
    /// The store must be healed before the next write.
    Failed {
        why: EngineError,
        retry_at: Instant,
        wait: Duration,
    },
}

impl<S: Store> Committer<S> {
    /// `version` is the one that `shared` was created with.
    pub(crate) fn new(shared: Arc<Shared>, store: S, version: Version) -> Self {
        let failed = store.failed();
        let mut committer = Self {
            shared,
            store,
            recent: Recent::new(version),
            version,
            catalogue_version: version,
            state: State::Open,
            healed: None,
        };
        match failed {
            Some(why) => committer.fail(why),
            // So that health is right from the start.
            None => drop(committer.check()),
        }
        committer
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            match self.shared.take(IDLE_TICK) {
                Taken::Closed => return self.close(),
                Taken::Nothing => self.look_after_store(),
                Taken::Group(group, oldest) => {
                    let bytes = group.iter().map(Request::bytes).sum();
                    self.commit_group(group, oldest);
                    let rest = self.store.rest(bytes);
                    if !rest.is_zero() {
                        std::thread::sleep(rest);
                    }
                }
            }
        }
    }

    /// Does the next thing to do, which is waited for no longer than this. Says whether there was a commit.
    pub(crate) fn step(&mut self, wait: Duration) -> bool {
        match self.shared.take(wait) {
            Taken::Closed => self.close(),
            Taken::Nothing => self.look_after_store(),
            Taken::Group(group, oldest) => {
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
        let closed = EngineError::Unavailable("the engine is shutting down".into());
        self.shared.published.close(closed);
        self.store.close();
    }

    fn commit_group(&mut self, group: Vec<Request>, oldest_waiting: Option<Version>) {
        let now = self.shared.started.elapsed().as_millis() as u64 + 1;
        self.shared.busy_since_ms.store(now, Ordering::Relaxed);
        self.commit(group, oldest_waiting);
        self.shared.busy_since_ms.store(0, Ordering::Relaxed);
    }

    fn commit(&mut self, mut group: Vec<Request>, oldest_waiting: Option<Version>) {
        let status = self.check();
        if let Some(error) = status.all {
            return answer(group, &Err(error.into()));
        }
        if let Some(error) = status.ordinary {
            let is_ordinary = |request: &mut Request| request.purpose == Purpose::Ordinary;
            let ordinary = group.extract_if(.., is_ordinary).collect();
            answer(ordinary, &Err(error.into()));
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
                    self.recent.record(touched, self.version, oldest_waiting);
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
                let result = match failure {
                    WriteFailure::Nothing(error) => Err(CommitError::Engine(error)),
                    WriteFailure::Maybe(error) => {
                        let result = Err(CommitError::Unknown(error.to_string()));
                        // Before answering: nobody who has been told may find the engine taking writes.
                        self.fail(error);
                        result
                    }
                };
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

    /// Which writes may be tried now.
    fn check(&mut self) -> Status {
        let all = self.try_heal().and_then(|()| self.store.check_alive());
        let all = all.and_then(|()| self.store.check_space(Purpose::FreesSpace)).err();
        let ordinary = self.store.check_space(Purpose::Ordinary).err();
        let status = Status { all, ordinary };
        self.shared.set_status(status.clone());
        status
    }

    fn look_after_store(&mut self) {
        // First of all, whatever else is wrong: background work makes a newer form of the same content, and holding
        // on to the older one would keep its memory and files.
        if self.store.is_stale(&self.shared.published) {
            self.publish();
        }
        let status = self.check();
        if status.all.is_none() {
            self.store.idle();
        }
    }

    fn publish(&mut self) {
        self.shared.published.set(self.store.view(self.version, self.catalogue_version));
    }

    fn fail(&mut self, why: EngineError) {
        let why = read_only(why);
        let wait = match self.healed {
            Some((when, wait)) if when.elapsed() < SOON => (wait * 2).min(HEAL_WAIT.1),
            _ => HEAL_WAIT.0,
        };
        self.shared.set_status(Status { all: Some(why.clone()), ordinary: None });
        self.state = State::Failed { why, retry_at: Instant::now() + wait, wait };
    }

    fn try_heal(&mut self) -> Result<(), EngineError> {
        let State::Failed { why, retry_at, wait } = &mut self.state else { return Ok(()) };
        if Instant::now() < *retry_at {
            return Err(why.clone());
        }
        let (waited, wait) = (*wait, (*wait * 2).min(HEAL_WAIT.1));
        match self.store.heal() {
            Ok(()) => {
                self.state = State::Open;
                self.healed = Some((Instant::now(), waited));
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "the disk does not take writes yet");
                let why = read_only(error);
                self.state = State::Failed { why: why.clone(), retry_at: Instant::now() + wait, wait };
                Err(why)
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
        let status = Status { all: Some(stopped.clone()), ordinary: None };
        *self.shared.status.write().unwrap_or_else(PoisonError::into_inner) = status;
        answer(left, &Err(stopped.into()));
    }
}

fn read_only(why: EngineError) -> EngineError {
    match why {
        EngineError::NoSpace(why) => EngineError::NoSpace(why),
        why => EngineError::Unavailable(format!("read-only until the disk takes writes again: {why}")),
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
