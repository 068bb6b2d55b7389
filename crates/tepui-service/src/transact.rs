//! Snapshot, decide, commit: the one loop in which conflicts are met.

use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Commit, CommitError, Engine, EngineError, Key, Snapshot, Write};

/// What a decision comes to: what to answer, and what to store for it to be true.
pub(crate) struct Outcome<T> {
    pub(crate) reply: T,
    /// Keys that were read and must not have changed; those in `writes` need not be named again.
    pub(crate) guards: Vec<Key>,
    pub(crate) writes: Vec<Write>,
}

impl<T> Outcome<T> {
    /// An answer that changes nothing.
    pub(crate) fn read(reply: T) -> Self {
        Self { reply, guards: Vec::new(), writes: Vec::new() }
    }

    /// The same writes with another answer.
    pub(crate) fn map<U>(self, reply: impl FnOnce(T) -> U) -> Outcome<U> {
        Outcome { reply: reply(self.reply), guards: self.guards, writes: self.writes }
    }
}

/// What a commit does to the space on the disk, in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Takes,
    /// It is carried out though the disk is nearly full.
    Frees,
}

impl Space {
    pub(crate) fn freed_if(frees: bool) -> Self {
        if frees { Self::Frees } else { Self::Takes }
    }
}

/// What became of an attempt to commit an outcome.
pub(crate) enum Attempt<T> {
    Done(T),
    /// Something changed meanwhile: read and decide again.
    Again,
}

/// Why an outcome was not committed, or is not known to be.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ServiceError,
    pub(crate) written: Written,
}

/// What is there of a commit that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Nothing,
    /// All or nothing, now or after a restart.
    Unknown,
}

impl From<ServiceError> for Failure {
    /// Of what failed before anything was committed.
    fn from(error: ServiceError) -> Self {
        Self { error, written: Written::Nothing }
    }
}

impl From<Failure> for ServiceError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Commits an outcome that was decided on `snapshot`.
pub(crate) async fn commit<E: Engine, T>(
    engine: &E,
    snapshot: &impl Snapshot,
    outcome: Outcome<T>,
    space: Space,
) -> Result<Attempt<T>, Failure> {
    let Outcome { reply, guards, writes } = outcome;
    if writes.is_empty() {
        return Ok(Attempt::Done(reply));
    }
    let proof = writes.iter().rev().find(|write| matches!(write, Write::Put(..))).cloned();
    let commit = Commit { at: snapshot.version(), guards, writes, frees_space: space == Space::Frees };
    let outcome = engine.submit(None, commit).await;
    attempt(engine, outcome, proof, reply).await
}

/// What the outcome of a commit comes to. `proof` is one of its writes.
pub(crate) async fn attempt<E: Engine, T>(
    engine: &E,
    outcome: Result<(), CommitError>,
    proof: Option<Write>,
    reply: T,
) -> Result<Attempt<T>, Failure> {
    match outcome {
        Ok(()) => Ok(Attempt::Done(reply)),
        Err(CommitError::Conflict) => Ok(Attempt::Again),
        Err(CommitError::Unknown(why)) => {
            let error = match is_there(engine, proof).await {
                Ok(true) => return Ok(Attempt::Done(reply)),
                Ok(false) => ServiceError::new(ErrorCode::InternalError)
                    .with_cause(format!("commit with unknown outcome: {why}")),
                Err(error) => error,
            };
            Err(Failure { error, written: Written::Unknown })
        }
        Err(CommitError::Engine(error)) => Err(engine_error(error).into()),
    }
}

/// Whether a commit of unknown outcome can be seen by one of its writes: all of them are there or none.
/// What is stored carries a timestamp that no other write has, so finding the very bytes proves it; a
/// deletion proves nothing.
async fn is_there<E: Engine>(engine: &E, proof: Option<Write>) -> Result<bool, ServiceError> {
    let Some(Write::Put(key, value)) = proof else { return Ok(false) };
    let snapshot = engine.snapshot().await.map_err(engine_error)?;
    Ok(snapshot.get(&key).await.map_err(engine_error)? == Some(value))
}

/// What the caller is told when the disk is full.
pub(crate) const NO_SPACE: &str = "The disk of the server is full. Only operations that free space are carried out: delete something, or give it more space.";

/// What the caller is told of a failure below.
pub(crate) fn engine_error(error: EngineError) -> ServiceError {
    match &error {
        EngineError::Unavailable(_) => ServiceError::new(ErrorCode::ServerBusy),
        EngineError::NoSpace(_) => ServiceError::new(ErrorCode::ServerBusy).with_message(NO_SPACE),
        EngineError::Corrupt(_) | EngineError::Failed(_) => ServiceError::new(ErrorCode::InternalError),
    }
    .with_cause(error)
}
