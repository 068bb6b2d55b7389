//! Optimistic concurrency: begin a transaction, decide, commit, and the one loop that retries after a conflict.

use crate::phase::{self, Phase};
use crate::{catalogue, keyspace};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError, Throttle};
use tepui_storage::stats::Counter;
use tepui_storage::{
    Commit, CommitError, Engine, Guard, Snapshot, StorageError, StorageErrorKind, Transaction, Write,
};
use tokio::time::Instant;

/// Attempts before the caller gets `ServerBusy`. Each failed one means that another commit changed something that
/// this one depends on, so the store as a whole makes progress.
const MAX_ATTEMPTS: u32 = 1000;
/// The time after which nothing begins again that has met a conflict. Clients wait for some 30 s.
const MAX_RETRY_TIME: Duration = Duration::from_secs(15);
/// Conflicts after which the work begins again at once. After more of them it waits.
const CONFLICTS_AT_ONCE: u32 = 4;
/// The longest wait after a conflict, and how many times longer than an attempt it is at most.
const MAX_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT_ATTEMPTS: u32 = 16;
/// How often work begins again because its transaction became too old. It has then taken long each time.
pub(crate) const MAX_RESTARTS: u32 = 8;

/// How often a commit of unknown outcome is looked up while storage is unavailable, and the delay between two times.
const LOOKUPS: u32 = 4;
const LOOKUP_DELAY: Duration = Duration::from_millis(20);

/// The result of a decision: the reply, and the commit that makes it true.
pub(crate) struct Outcome<T> {
    pub(crate) reply: T,
    /// Keys that were read and must not have changed. Keys in `writes` need not be repeated.
    pub(crate) guards: Vec<Guard>,
    pub(crate) writes: Vec<Write>,
}

impl<T> Outcome<T> {
    /// A reply without writes.
    pub(crate) fn read(reply: T) -> Self {
        Self { reply, guards: Vec::new(), writes: Vec::new() }
    }

    /// The same writes with another reply.
    pub(crate) fn map<U>(self, reply: impl FnOnce(T) -> U) -> Outcome<U> {
        Outcome { reply: reply(self.reply), guards: self.guards, writes: self.writes }
    }
}

/// The effect of a commit on disk space, in the long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpaceUse {
    Consumes,
    /// Accepted even if the disk is nearly full.
    Frees,
}

impl SpaceUse {
    pub(crate) fn frees_if(frees: bool) -> Self {
        if frees { Self::Frees } else { Self::Consumes }
    }
}

/// The result of one attempt.
pub(crate) enum Attempt<T, S = ()> {
    Done(T),
    /// After a conflict: begin a new transaction and decide again. The next attempt gets the state.
    Retry(S),
    /// A part of the work was committed: decide on the rest. The next attempt gets the state.
    Continue(S),
}

/// What became of commits that did not simply succeed, of all services of this process.
#[derive(Debug, Default)]
pub struct TransactStats {
    /// Conflicts after which the work began again.
    pub conflicts: Counter,
    /// Requests that were given up because of conflicts.
    pub given_up: Counter,
    /// Commits of unknown outcome that were found to have happened.
    pub unknown_settled: Counter,
    /// Commits of unknown outcome that could not be found.
    pub unknown_open: Counter,
}

static STATS: TransactStats = TransactStats {
    conflicts: Counter::new(),
    given_up: Counter::new(),
    unknown_settled: Counter::new(),
    unknown_open: Counter::new(),
};

/// The counters of this process.
pub fn transact_stats() -> &'static TransactStats {
    &STATS
}

/// The conflicts that some work has met.
#[derive(Default)]
pub(crate) struct Contention {
    conflicts: u32,
    first: Option<Instant>,
    /// How long an attempt takes, from the first ones.
    attempt: Duration,
}

impl Contention {
    /// Counts a conflict. Returns how long to wait before the next attempt: a random time, because others wait that have met
    /// the same conflict, and in proportion to how long an attempt takes. So work on a store in this process hardly waits,
    /// and work on a store behind a network does not ask it again and again. `None`: it has taken too long.
    pub(crate) fn conflict(&mut self) -> Option<Duration> {
        STATS.conflicts.add(1);
        let now = Instant::now();
        let first = *self.first.get_or_insert(now);
        self.conflicts += 1;
        let elapsed = now.saturating_duration_since(first);
        if elapsed >= MAX_RETRY_TIME {
            return None;
        }
        if self.conflicts <= CONFLICTS_AT_ONCE {
            self.attempt = elapsed / self.conflicts;
            return Some(Duration::ZERO);
        }
        let doublings = (self.conflicts - CONFLICTS_AT_ONCE).min(MAX_WAIT_ATTEMPTS.ilog2());
        let limit = (self.attempt * (1 << doublings)).min(MAX_WAIT);
        Some(random_part(limit))
    }
}

/// A random part of a time that is not long.
fn random_part(time: Duration) -> Duration {
    let microseconds = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    Duration::from_micros(random_below(microseconds).into())
}

/// A random number below `limit`.
pub(crate) fn random_below(limit: u32) -> u32 {
    // Every `RandomState` has other keys.
    let random = RandomState::new().hash_one(0u8) >> 32;
    ((random * u64::from(limit)) >> 32) as u32
}

/// Waits before another attempt.
pub(crate) async fn wait(time: Duration) {
    if time.is_zero() {
        return;
    }
    if time < TIMER_STEP {
        return tokio::task::yield_now().await;
    }
    // In a box, because it is large and rare, and callers copy their futures.
    Box::pin(tokio::time::sleep(time)).await;
}

/// Shorter times than this cannot be slept.
const TIMER_STEP: Duration = Duration::from_millis(1);

/// Why a commit failed, and whether it may be durable nevertheless.
#[derive(Debug)]
pub(crate) struct CommitFailure {
    pub(crate) error: ServiceError,
    pub(crate) state: CommitState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitState {
    NotCommitted,
    /// All of it or nothing, visible now, later, or after a restart.
    Unknown,
}

impl From<ServiceError> for CommitFailure {
    /// For errors before the commit.
    fn from(error: ServiceError) -> Self {
        Self { error, state: CommitState::NotCommitted }
    }
}

impl From<CommitFailure> for ServiceError {
    fn from(failure: CommitFailure) -> Self {
        failure.error
    }
}

/// A failure after which the work may have to begin again.
pub(crate) trait Restart {
    /// Whether the transaction became too old before anything was committed.
    fn is_outdated(&self) -> bool;
}

impl Restart for ServiceError {
    fn is_outdated(&self) -> bool {
        self.is_outdated
    }
}

impl Restart for CommitFailure {
    fn is_outdated(&self) -> bool {
        self.error.is_outdated && self.state == CommitState::NotCommitted
    }
}

/// Runs `attempt` until it is done. `attempt` begins a transaction, decides and commits; the state is what it carries over
/// to the next one. It starts over without it if the transaction becomes too old. After a few conflicts it waits between
/// attempts, and after some time it gives up.
pub(crate) async fn retry<T, S, F, A>(mut attempt: impl FnMut(S) -> A) -> Result<T, F>
where
    S: Default,
    F: From<ServiceError> + Restart,
    A: Future<Output = Result<Attempt<T, S>, F>>,
{
    let mut state = S::default();
    let mut restarts = 0;
    let mut contention = Contention::default();
    for _ in 0..MAX_ATTEMPTS {
        state = match attempt(state).await {
            Ok(Attempt::Done(result)) => return Ok(result),
            Ok(Attempt::Retry(state)) => {
                let Some(time) = contention.conflict() else { break };
                wait(time).await;
                state
            }
            Ok(Attempt::Continue(state)) => {
                contention = Contention::default();
                state
            }
            Err(failure) if failure.is_outdated() && restarts < MAX_RESTARTS => {
                restarts += 1;
                S::default()
            }
            Err(failure) => return Err(failure),
        };
    }
    STATS.given_up.add(1);
    Err(ServiceError::new(ErrorCode::ServerBusy).with_throttle(Throttle::Conflicts).into())
}

/// Runs `read`, which begins a transaction and only reads, and starts over if the transaction becomes too old.
pub(crate) async fn restart<T, A>(mut read: impl FnMut() -> A) -> Result<T, ServiceError>
where
    A: Future<Output = Result<T, ServiceError>>,
{
    for _ in 0..MAX_RESTARTS {
        match read().await {
            Err(error) if error.is_outdated => {}
            done => return done,
        }
    }
    read().await
}

/// Commits an outcome that was decided in `transaction`.
pub(crate) async fn commit<E: Engine, T>(
    engine: &E,
    transaction: E::Transaction,
    outcome: Outcome<T>,
    space: SpaceUse,
) -> Result<Attempt<T>, CommitFailure> {
    let Outcome { reply, guards, mut writes } = outcome;
    if writes.is_empty() {
        return Ok(Attempt::Done(reply));
    }
    debug_assert!(keyspace::may_be_one_commit(&writes), "too many rows that many commits guard");
    let proof = proof(&writes);
    catalogue::add_versions(&transaction, &mut writes).await?;
    let commit = Commit::new(guards, writes).with_frees_space(space == SpaceUse::Frees);
    phase::enter(Phase::Commit);
    let outcome = transaction.commit(commit).await;
    phase::enter(Phase::Read);
    attempt(engine, outcome, proof, reply).await
}

/// The write by which a commit of unknown outcome is recognised. Deletions prove nothing: somebody else may have deleted the same.
pub(crate) fn proof(writes: &[Write]) -> Option<Write> {
    let proves = |write: &&Write| matches!(write, Write::Put(key, value) if keyspace::is_proof(key, value));
    writes.iter().rev().find(proves).cloned()
}

/// Interprets the result of a commit. `proof` is one of its writes.
pub(crate) async fn attempt<E: Engine, T>(
    engine: &E,
    outcome: Result<(), CommitError>,
    proof: Option<Write>,
    reply: T,
) -> Result<Attempt<T>, CommitFailure> {
    match outcome {
        Ok(()) => Ok(Attempt::Done(reply)),
        Err(CommitError::Conflict) => Ok(Attempt::Retry(())),
        Err(CommitError::Unknown(why)) => {
            let cause = match is_committed(engine, proof).await {
                Ok(true) => {
                    STATS.unknown_settled.add(1);
                    return Ok(Attempt::Done(reply));
                }
                // It may still become visible: neither success nor failure, and nothing that it refers to is freed.
                Ok(false) => format!("commit with unknown outcome: {why}"),
                Err(error) => format!("commit with unknown outcome: {why}; it cannot be looked up: {error}"),
            };
            STATS.unknown_open.add(1);
            let error = ServiceError::new(ErrorCode::InternalError).with_cause(cause);
            Err(CommitFailure { error, state: CommitState::Unknown })
        }
        Err(CommitError::Storage(error)) => Err(storage_error(error).into()),
    }
}

/// Whether a commit of unknown outcome is visible, judged by one of its writes, since commits are atomic. If it is, it
/// stays. If it is not, it may become so later.
async fn is_committed<E: Engine>(engine: &E, proof: Option<Write>) -> Result<bool, ServiceError> {
    let Some(Write::Put(key, value)) = proof else { return Ok(false) };
    let find = || async {
        let transaction = engine.begin().await.map_err(storage_error)?;
        transaction.get(&key).await.map_err(storage_error)
    };
    // Whatever made the outcome unknown may last for a moment.
    for _ in 0..LOOKUPS - 1 {
        match restart(find).await {
            Err(error) if error.code == ErrorCode::ServerBusy => tokio::time::sleep(LOOKUP_DELAY).await,
            found => return Ok(found? == Some(value)),
        }
    }
    Ok(restart(find).await? == Some(value))
}

/// The message of the error when the disk is full.
pub(crate) const NO_SPACE: &str = "The disk of the server is full. Only operations that free space are carried out: delete something, or give it more space.";

/// The service error for an error of storage.
pub(crate) fn storage_error(error: StorageError) -> ServiceError {
    let service_error = match error.kind() {
        StorageErrorKind::Unavailable => {
            ServiceError::new(ErrorCode::ServerBusy).with_throttle(Throttle::Storage)
        }
        StorageErrorKind::Busy => {
            ServiceError::new(ErrorCode::ServerBusy).with_throttle(Throttle::CommitQueue)
        }
        StorageErrorKind::TooOld => {
            ServiceError { is_outdated: true, ..ServiceError::new(ErrorCode::ServerBusy) }
        }
        StorageErrorKind::NoSpace => {
            ServiceError::new(ErrorCode::ServerBusy).with_message(NO_SPACE).with_throttle(Throttle::DiskFull)
        }
        StorageErrorKind::Corrupt | StorageErrorKind::Failed => ServiceError::new(ErrorCode::InternalError),
    };
    service_error.with_cause(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Attempts that take some time each and meet a conflict, until one succeeds.
    async fn attempts(time: Duration, conflicts: u32) -> (Result<u32, ServiceError>, u32) {
        let made = Cell::new(0);
        let attempt = |()| async {
            made.set(made.get() + 1);
            tokio::time::sleep(time).await;
            Ok(if made.get() <= conflicts { Attempt::Retry(()) } else { Attempt::Done(made.get()) })
        };
        (retry(attempt).await, made.get())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_attempts_are_made_at_once_and_later_ones_after_a_wait() {
        let time = Duration::from_millis(5);
        let began = Instant::now();
        assert_eq!(attempts(time, CONFLICTS_AT_ONCE).await.0, Ok(CONFLICTS_AT_ONCE + 1));
        assert_eq!(began.elapsed(), time * (CONFLICTS_AT_ONCE + 1));
        let began = Instant::now();
        assert_eq!(attempts(time, 100).await.0, Ok(101));
        let waited = began.elapsed() - 101 * time;
        // Some 90 waits of 40 ms on average.
        assert!(waited > Duration::from_secs(2) && waited < 96 * MAX_WAIT, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_without_end_are_given_up_in_time() {
        for milliseconds in [1, 5, 200, 2000] {
            let began = Instant::now();
            let time = Duration::from_millis(milliseconds);
            let (given_up, made) = attempts(time, u32::MAX).await;
            assert_eq!(given_up.map_err(|error| error.code), Err(ErrorCode::ServerBusy));
            assert!(began.elapsed() <= MAX_RETRY_TIME + MAX_WAIT + 2 * time, "{:?}", began.elapsed());
            assert!(made >= 7, "{made}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_take_no_time_are_not_delayed() {
        let began = Instant::now();
        let (given_up, made) = attempts(Duration::ZERO, u32::MAX).await;
        assert!(given_up.is_err());
        assert_eq!(made, MAX_ATTEMPTS);
        assert!(began.elapsed() < Duration::from_millis(1100), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn work_in_parts_is_no_contention() {
        let (made, began) = (Cell::new(0), Instant::now());
        let attempt = |()| async {
            made.set(made.get() + 1);
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, ServiceError>(if made.get() < 100 { Attempt::Continue(()) } else { Attempt::Done(()) })
        };
        assert_eq!(retry(attempt).await, Ok(()));
        assert_eq!(began.elapsed(), Duration::from_secs(100));
    }
}
