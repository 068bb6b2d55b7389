//! What a transaction commits: writes, and the guards under which they are valid.

use crate::{Key, StorageError, Value};
use std::fmt;

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    Put(Key, Value),
    Delete(Key),
}

impl Write {
    pub fn key(&self) -> &Key {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    /// The bytes of the key and of the value.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Put(key, value) => key.len() + value.len(),
            Self::Delete(key) => key.len(),
        }
    }
}

/// A condition of a commit on a key that it does not write. It fails with `Conflict` if the key has changed since the
/// transaction read it.
///
/// There are two kinds because not every store can check a key without taking it from other writers:
///
/// - `Unchanged` may be kept with an exclusive lock of the key. Two commits that are under way at once with the same one
///   may conflict, so it is for keys that few writers share, such as the row of a blob.
/// - `Shared` must be shareable: commits with the same one never conflict with each other, only with a write of the key.
///   Every write of an entity has its table's row as such a guard, and any number of clients write to one table. PostgreSQL
///   has shared row locks for it. TiKV's locks are exclusive: there, the rows that can be shared need several copies, of which
///   a commit locks one and a write changes all, or a deletion in two steps.
///
/// Engines that validate commits in one place, as those of this workspace do, treat both alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    Unchanged(Key),
    Shared(Key),
}

impl Guard {
    pub fn key(&self) -> &Key {
        match self {
            Self::Unchanged(key) | Self::Shared(key) => key,
        }
    }
}

/// What to write, and under which conditions (optimistic concurrency control).
#[derive(Debug, Clone, Default)]
pub struct Commit {
    guards: Vec<Guard>,
    writes: Vec<Write>,
    frees_space: bool,
    bytes: usize,
}

impl Commit {
    /// Keys in `writes` are guarded anyway.
    pub fn new(guards: Vec<Guard>, writes: Vec<Write>) -> Self {
        let bytes = writes.iter().map(Write::bytes).sum();
        Self { guards, writes, frees_space: false, bytes }
    }

    /// Whether it frees more space than it takes, in the end: then it is accepted though the disk is nearly full.
    pub fn with_frees_space(mut self, frees_space: bool) -> Self {
        self.frees_space = frees_space;
        self
    }

    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Moves the writes out. The size stays.
    pub fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    pub fn frees_space(&self) -> bool {
        self.frees_space
    }

    /// The bytes of all keys and values that it writes, summed once.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys that must not have changed.
    pub fn checked_keys(&self) -> impl Iterator<Item = &Key> {
        self.guards.iter().map(Guard::key).chain(self.writes.iter().map(Write::key))
    }
}

impl From<Vec<Write>> for Commit {
    /// Writes without guards.
    fn from(writes: Vec<Write>) -> Self {
        Self::new(Vec::new(), writes)
    }
}

/// Why a commit did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitError {
    /// A guard or a written key has changed since the transaction began. Nothing was written: retry in a new transaction.
    Conflict,
    /// The outcome is unknown. All of it or nothing will be there, but when is open: it may show now, at any later time, or
    /// after a restart. What a transaction sees of it stays. That a transaction sees nothing of it proves nothing; only
    /// another successful commit that writes one of its keys does, because it would conflict with that.
    Unknown(String),
    /// Nothing was written.
    Storage(StorageError),
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict => write!(f, "a key changed since the transaction began"),
            Self::Unknown(why) => write!(f, "the outcome of the commit is unknown: {why}"),
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => error.source(),
            Self::Conflict | Self::Unknown(_) => None,
        }
    }
}

impl From<StorageError> for CommitError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
