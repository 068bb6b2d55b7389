//! One run of a case: keys of its own, and answers that prove something or nothing.

use super::ALL;
use crate::{
    CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, StorageError, StorageErrorKind, Transaction,
    Value, Write,
};

/// How often a case is run on an engine that fails at random, until a run is not disturbed.
const MAX_RUNS: usize = 2000;

/// A case on an engine. Its keys begin with a prefix that no other run has.
pub(super) struct Run<'a, E> {
    pub(super) engine: &'a E,
    pub(super) prefix: String,
    /// Whether the engine fails at random.
    pub(super) may_fail: bool,
}

/// The engine has failed as it may at any time: the run proves nothing.
#[derive(Debug)]
pub(super) struct Disturbed;

pub(super) type Verdict<T = ()> = Result<T, Disturbed>;

/// Runs a case until it was not disturbed.
pub(super) async fn conclude<E: Engine>(
    engine: &E,
    may_fail: bool,
    name: &str,
    case: impl AsyncFn(&Run<'_, E>) -> Verdict,
) {
    for number in 0..MAX_RUNS {
        let run = Run { engine, prefix: format!("{name}/{number}/"), may_fail };
        if case(&run).await.is_ok() {
            return;
        }
    }
    panic!("{name} was disturbed {MAX_RUNS} times");
}

impl<E: Engine> Run<'_, E> {
    pub(super) fn key(&self, name: &str) -> Key {
        format!("{}{name}", self.prefix).into()
    }

    pub(super) fn range(&self, start: &str) -> KeyRange {
        let start = self.key(start);
        let end = [&start[..], &[0xFF]].concat();
        KeyRange { start, end: end.into() }
    }

    pub(super) fn write(&self, name: &str, value: &str) -> Write {
        Write::Put(self.key(name), Value::copy_from_slice(value.as_bytes()))
    }

    pub(super) fn delete(&self, name: &str) -> Write {
        Write::Delete(self.key(name))
    }

    pub(super) fn pairs(&self, rows: &[(&str, &str)]) -> Vec<(Key, Value)> {
        let pair = |(key, value): &(&str, &str)| (self.key(key), Value::copy_from_slice(value.as_bytes()));
        rows.iter().map(pair).collect()
    }

    /// What a call has returned that has to succeed.
    pub(super) fn done<T>(&self, result: Result<T, StorageError>) -> Verdict<T> {
        match result {
            Err(error) if self.may_fail && is_temporary(&error) => Err(Disturbed),
            result => Ok(result.expect("storage works")),
        }
    }

    /// A commit that has to succeed.
    pub(super) fn accepted(&self, result: Result<(), CommitError>, why: &str) -> Verdict {
        match result {
            Err(error) if self.may_fail && may_be_made_up(&error) => Err(Disturbed),
            result => {
                assert_eq!(result, Ok(()), "{}: {why}", self.prefix);
                Ok(())
            }
        }
    }

    /// A commit that has to conflict.
    pub(super) fn conflicted(&self, result: Result<(), CommitError>, why: &str) -> Verdict {
        match result {
            Err(CommitError::Conflict) => Ok(()),
            Err(error) if self.may_fail && may_be_made_up(&error) => Err(Disturbed),
            result => panic!("{}: {why}: {result:?} instead of a conflict", self.prefix),
        }
    }

    /// A commit that has to be refused, because it can never succeed.
    pub(super) fn refused(&self, result: Result<(), CommitError>, why: &str) -> Verdict {
        match result {
            Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Failed => Ok(()),
            Err(error) if self.may_fail && may_be_made_up(&error) => Err(Disturbed),
            result => panic!("{}: {why}: {result:?} instead of a refusal", self.prefix),
        }
    }

    /// A transaction that sees the state of now: that it has read something settles it.
    pub(super) async fn begin(&self) -> Verdict<E::Transaction> {
        let transaction = self.done(self.engine.begin().await)?;
        self.done(transaction.get(self.prefix.as_bytes()).await)?;
        Ok(transaction)
    }

    /// The same with a pipeline.
    pub(super) async fn pipeline(&self) -> Verdict<E::Pipeline> {
        let pipeline = self.done(self.engine.begin_pipeline().await)?;
        self.done(pipeline.get(self.prefix.as_bytes()).await)?;
        Ok(pipeline)
    }

    pub(super) async fn get<S: Snapshot>(&self, snapshot: &S, name: &str) -> Verdict<Option<Value>> {
        self.done(snapshot.get(&self.key(name)).await)
    }

    /// The value of a key now.
    pub(super) async fn get_now(&self, name: &str) -> Verdict<Option<Value>> {
        self.get(&self.begin().await?, name).await
    }

    /// The rows whose keys begin so. Engines that fail at random may return them in any number of pages.
    pub(super) async fn rows<S: Snapshot>(&self, snapshot: &S, start: &str) -> Verdict<Vec<(Key, Value)>> {
        self.rows_of(snapshot, self.range(start)).await
    }

    pub(super) async fn rows_of<S: Snapshot>(
        &self,
        snapshot: &S,
        mut range: KeyRange,
    ) -> Verdict<Vec<(Key, Value)>> {
        let mut rows = Vec::new();
        loop {
            let page = self.done(snapshot.scan(&range, ALL).await)?;
            rows.extend(page.rows);
            let Some(next) = page.next else { return Ok(rows) };
            assert!(self.may_fail, "a page without a limit ends early");
            range.start = next;
        }
    }

    pub(super) async fn rows_now(&self, start: &str) -> Verdict<Vec<(Key, Value)>> {
        self.rows(&self.begin().await?, start).await
    }

    /// The first page of a range. `rows` says how many it has, if it does not end early.
    pub(super) async fn page<S: Snapshot>(
        &self,
        snapshot: &S,
        range: &KeyRange,
        limit: ScanLimit,
        rows: usize,
    ) -> Verdict<Option<Key>> {
        let page = self.done(snapshot.scan(range, limit).await)?;
        if self.may_fail && page.rows.len() < rows && page.next.is_some() {
            return Err(Disturbed);
        }
        assert_eq!(page.rows.len(), rows, "{}: {limit:?}", self.prefix);
        Ok(page.next)
    }

    /// Commits in new transactions until it succeeds. What has succeeded with an unknown outcome is written once more: it is the
    /// same, and what happens late conflicts with it.
    pub(super) async fn commit(&self, writes: Vec<Write>) -> Verdict {
        loop {
            match self.begin().await?.commit(writes.clone().into()).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Conflict) => {}
                Err(error) if self.may_fail && may_be_made_up(&error) => {}
                Err(error) => panic!("a commit fails: {error}"),
            }
        }
    }

    pub(super) async fn put(&self, name: &str, value: &str) -> Verdict {
        self.commit(vec![self.write(name, value)]).await
    }
}

fn is_temporary(error: &StorageError) -> bool {
    matches!(error.kind(), StorageErrorKind::Unavailable | StorageErrorKind::TooOld)
}

fn may_be_made_up(error: &CommitError) -> bool {
    match error {
        CommitError::Conflict | CommitError::Unknown(_) => true,
        CommitError::Storage(error) => is_temporary(error),
    }
}
