//! Optimistic concurrency: begin a transaction, decide, commit, and the one loop that retries after a conflict.

use crate::phase::{self, Phase};
use crate::{catalogue, keyspace};
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError, Throttle};
use tepui_storage::{
    Commit, CommitError, Engine, Guard, Snapshot, StorageError, StorageErrorKind, Transaction, Write,
};

/// Attempts before the caller gets `ServerBusy`. Each failed one means that another commit changed something that
/// this one depends on, so the store as a whole makes progress.
const MAX_ATTEMPTS: u32 = 1000;
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
    /// Begin a new transaction and decide again: after a conflict, or because a part of the work was committed. The next
    /// attempt gets the state.
    Retry(S),
}

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
/// to the next one. It starts over without it if the transaction becomes too old.
pub(crate) async fn retry<T, S, F, A>(mut attempt: impl FnMut(S) -> A) -> Result<T, F>
where
    S: Default,
    F: From<ServiceError> + Restart,
    A: Future<Output = Result<Attempt<T, S>, F>>,
{
    let mut state = S::default();
    let mut restarts = 0;
    for _ in 0..MAX_ATTEMPTS {
        state = match attempt(state).await {
            Ok(Attempt::Done(result)) => return Ok(result),
            Ok(Attempt::Retry(state)) => state,
            Err(failure) if failure.is_outdated() && restarts < MAX_RESTARTS => {
                restarts += 1;
                S::default()
            }
            Err(failure) => return Err(failure),
        };
    }
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
    let proof = proof(&writes);
    catalogue::add_versions(&transaction, &mut writes).await?;
    let commit = Commit::new(guards, writes).with_frees_space(space == SpaceUse::Frees);
    phase::enter(Phase::Commit);
    let outcome = transaction.commit(commit).await;
    phase::enter(Phase::Read);
    attempt(engine, outcome, proof, reply).await
}

/// The write by which a commit of unknown outcome is recognised: stored values carry a timestamp that no other write has.
/// Deletions prove nothing, nor do counters, which another commit may have written just so.
pub(crate) fn proof(writes: &[Write]) -> Option<Write> {
    let proves = |write: &&Write| matches!(write, Write::Put(key, _) if !keyspace::is_counter(key));
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
                Ok(true) => return Ok(Attempt::Done(reply)),
                // It may still become visible: neither success nor failure, and nothing that it refers to is freed.
                Ok(false) => format!("commit with unknown outcome: {why}"),
                Err(error) => format!("commit with unknown outcome: {why}; it cannot be looked up: {error}"),
            };
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
