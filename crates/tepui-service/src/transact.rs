//! Optimistic concurrency: snapshot, decide, commit, and the one loop that retries after a conflict.

use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Commit, CommitError, Engine, EngineError, Key, Snapshot, Write};

/// Attempts before the caller gets `ServerBusy`. Each failed one means that another commit changed something that
/// this one depends on, so the store as a whole makes progress.
const MAX_ATTEMPTS: u32 = 1000;

/// The result of a decision: the reply, and the commit that makes it true.
pub(crate) struct Outcome<T> {
    pub(crate) reply: T,
    /// Keys that were read and must not have changed. Keys in `writes` need not be repeated.
    pub(crate) guards: Vec<Key>,
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
    /// Take a new snapshot and decide again: after a conflict, or because a part of the work was committed. The next
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
    /// All of it or nothing, visible now or after a restart.
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

/// Runs `attempt` until it is done. `attempt` takes a snapshot, decides and commits; `state` is what it carries over to
/// the next one.
pub(crate) async fn retry<T, S, F, A>(mut state: S, mut attempt: impl FnMut(S) -> A) -> Result<T, F>
where
    F: From<ServiceError>,
    A: Future<Output = Result<Attempt<T, S>, F>>,
{
    for _ in 0..MAX_ATTEMPTS {
        state = match attempt(state).await? {
            Attempt::Done(result) => return Ok(result),
            Attempt::Retry(state) => state,
        };
    }
    Err(ServiceError::from(ErrorCode::ServerBusy).into())
}

/// Commits an outcome that was decided on `snapshot`.
pub(crate) async fn commit<E: Engine, T>(
    engine: &E,
    snapshot: &impl Snapshot,
    outcome: Outcome<T>,
    space: SpaceUse,
) -> Result<Attempt<T>, CommitFailure> {
    let Outcome { reply, guards, writes } = outcome;
    if writes.is_empty() {
        return Ok(Attempt::Done(reply));
    }
    let proof = writes.iter().rev().find(|write| matches!(write, Write::Put(..))).cloned();
    let commit = Commit { at: snapshot.version(), guards, writes, frees_space: space == SpaceUse::Frees };
    let outcome = engine.submit(None, commit).await;
    attempt(engine, outcome, proof, reply).await
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
            let error = match is_committed(engine, proof).await {
                Ok(true) => return Ok(Attempt::Done(reply)),
                Ok(false) => ServiceError::new(ErrorCode::InternalError)
                    .with_cause(format!("commit with unknown outcome: {why}")),
                Err(error) => error,
            };
            Err(CommitFailure { error, state: CommitState::Unknown })
        }
        Err(CommitError::Engine(error)) => Err(engine_error(error).into()),
    }
}

/// Whether a commit of unknown outcome is visible, judged by one of its writes, since commits are atomic. Stored
/// values carry a timestamp that no other write has, so equal bytes prove the commit. A deletion proves nothing.
async fn is_committed<E: Engine>(engine: &E, proof: Option<Write>) -> Result<bool, ServiceError> {
    let Some(Write::Put(key, value)) = proof else { return Ok(false) };
    let snapshot = engine.snapshot().await.map_err(engine_error)?;
    Ok(snapshot.get(&key).await.map_err(engine_error)? == Some(value))
}

/// The message of the error when the disk is full.
pub(crate) const NO_SPACE: &str = "The disk of the server is full. Only operations that free space are carried out: delete something, or give it more space.";

/// The service error for an error of the engine.
pub(crate) fn engine_error(error: EngineError) -> ServiceError {
    match &error {
        EngineError::Unavailable(_) => ServiceError::new(ErrorCode::ServerBusy),
        EngineError::NoSpace(_) => ServiceError::new(ErrorCode::ServerBusy).with_message(NO_SPACE),
        EngineError::Corrupt(_) | EngineError::Failed(_) => ServiceError::new(ErrorCode::InternalError),
    }
    .with_cause(error)
}
