//! Commits: a few statements and COMMIT, sent together, in a transaction that is known to have begun. If BEGIN failed and they
//! were sent with it, each of them would be a transaction of its own. Nearly all transactions read before they commit, and know it
//! then.
//!
//! The transaction has isolation REPEATABLE READ, so PostgreSQL refuses to lock or change a row that somebody else has changed
//! since its state (40001). What it does not find by itself is that a row was made that the transaction does not see: it is made
//! once more, which fails then, also with 40001.
//!
//! - A shared guard is a shared lock of the row. A row that is not there is made without a value and stays: readers do not see
//!   it, and from then on it can be locked. So commits with one guard do not wait for each other.
//! - Any other guard is an exclusive lock. A row that is not there is made without a value, and deleted again.
//! - A deletion is the same, and then deletes.
//!
//! Rows are locked in the order of their keys, so that commits that touch the same ones wait for each other and not in a circle.

use crate::outcome::{Failure, commit_failure, failure, is_conflict};
use crate::pool::{Pool, State};
use crate::row_key::RowKey;
use crate::transaction::Session;
use futures_util::future::{BoxFuture, join, join_all};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tepui_storage::{Commit, CommitError, Guard, Key, StorageError, StorageErrorKind, Value, Write};
use tokio::time::timeout_at;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

/// What a commit does, by the order of keys. No key is there twice.
pub(crate) struct CommitPlan {
    shared: BTreeSet<Key>,
    unchanged: BTreeSet<Key>,
    writes: BTreeMap<Key, Option<Value>>,
}

impl CommitPlan {
    /// `None`: there is nothing to do.
    pub(crate) fn new(mut commit: Commit) -> Option<Self> {
        let mut writes = BTreeMap::new();
        for write in commit.take_writes() {
            match write {
                Write::Put(key, value) => drop(writes.insert(key, Some(value))),
                Write::Delete(key) => drop(writes.insert(key, None)),
            }
        }
        let (mut shared, mut unchanged) = (BTreeSet::new(), BTreeSet::new());
        for guard in commit.guards() {
            match guard {
                guard if writes.contains_key(guard.key()) => {}
                Guard::Shared(key) => drop(shared.insert(key.clone())),
                Guard::Unchanged(key) => drop(unchanged.insert(key.clone())),
            }
        }
        shared.retain(|key| !unchanged.contains(key));
        let is_nothing = writes.is_empty() && shared.is_empty() && unchanged.is_empty();
        (!is_nothing).then_some(Self { shared, unchanged, writes })
    }

    /// Commits in a transaction that has begun, or in a new one.
    pub(crate) async fn run(&self, pool: &Arc<Pool>, session: Option<Session>) -> Result<(), CommitError> {
        let deadline = pool.deadline();
        let session = match session {
            Some(session) => session,
            None => Session::begin(pool, deadline).await?,
        };
        session.wait_until_begun(deadline).await?;
        let columns = Columns::new(self);
        let warnings = session.lease.warnings();
        let answers = {
            let (client, statements) = session.lease.client()?;
            if client.is_closed() {
                let lost = StorageError::unavailable("the connection to PostgreSQL was lost");
                let failure = Failure { error: lost, verdict: crate::outcome::Verdict::Suspect };
                return Err(session.lease.fail(failure).into());
            }
            let Columns { locks, put, delete } = &columns;
            let mut steps: Vec<BoxFuture<'_, Result<u64, Error>>> = Vec::new();
            for (strength, rows) in locks {
                let Rows { p, h, t, is_marked, .. } = rows;
                steps.push(match strength {
                    Strength::Shared => execute(client, &statements.share, vec![p, h, t]),
                    Strength::Exclusive => execute(client, &statements.lock, vec![p, h, t, is_marked]),
                });
            }
            if !put.p.is_empty() {
                steps.push(execute(client, &statements.put, vec![&put.p, &put.h, &put.t, &put.v]));
            }
            if !delete.p.is_empty() {
                let parameters: Parameters<'_> = vec![&delete.p, &delete.h, &delete.t, &delete.is_marked];
                steps.push(execute(client, &statements.delete, parameters));
            }
            let _waiting = session.lease.round_trip();
            // Each is sent when it is first polled, which is in this order.
            let answers = join(join_all(steps), client.batch_execute("COMMIT"));
            timeout_at(deadline, answers).await
        };
        let Ok((steps, commit)) = answers else {
            session.lease.fail(Failure::timed_out());
            return Err(CommitError::Unknown("PostgreSQL did not answer to COMMIT in time".to_owned()));
        };
        // COMMIT is answered: the transaction has ended, whatever its outcome.
        session.lease.set(State::Idle);
        if let Some(error) = steps.into_iter().find_map(Result::err) {
            return Err(step_failure(&session, error));
        }
        if let Err(error) = commit {
            let outcome = commit_failure(&error);
            session.lease.fail(failure(error));
            return Err(outcome);
        }
        if session.lease.warnings() != warnings {
            // So the server says that COMMIT did not wait for a synchronous standby.
            return Err(CommitError::Unknown("PostgreSQL has warned of something during COMMIT".to_owned()));
        }
        Ok(())
    }
}

type Parameters<'a> = Vec<&'a (dyn ToSql + Sync)>;

fn execute<'a>(
    client: &'a Client,
    statement: &'a Statement,
    parameters: Parameters<'a>,
) -> BoxFuture<'a, Result<u64, Error>> {
    Box::pin(async move { client.execute(statement, &parameters).await })
}

/// The first statement that failed. If the server said so, everything was rolled back.
fn step_failure(session: &Session, error: Error) -> CommitError {
    if is_conflict(&error) {
        return CommitError::Conflict;
    }
    let is_answer = error.as_db_error().is_some();
    let open = error.code().is_some_and(|code| code.code() == "40003");
    let error = session.lease.fail(failure(error));
    match error.kind() {
        _ if !is_answer || open => CommitError::Unknown(error.to_string()),
        StorageErrorKind::TooOld => CommitError::Conflict,
        _ => CommitError::Storage(error),
    }
}

/// The parameters of the statements.
#[derive(Default)]
struct Columns<'a> {
    /// In the order of keys: a statement for each run of rows that are locked alike. Shared guards are usually on keys before
    /// all others, so there are at most two.
    locks: Vec<(Strength, Rows<'a>)>,
    put: Rows<'a>,
    delete: Rows<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strength {
    Shared,
    Exclusive,
}

/// Rows, column by column.
#[derive(Default)]
struct Rows<'a> {
    p: Vec<&'a [u8]>,
    h: Vec<crate::row_key::Hash>,
    t: Vec<&'a [u8]>,
    v: Vec<&'a [u8]>,
    is_marked: Vec<bool>,
}

impl<'a> Rows<'a> {
    fn push(&mut self, key: &RowKey<'a>, is_marked: bool) {
        self.p.push(key.p);
        self.h.push(key.h);
        self.t.push(if is_marked { key.marker() } else { key.t });
        self.is_marked.push(is_marked);
    }
}

impl<'a> Columns<'a> {
    fn new(plan: &'a CommitPlan) -> Self {
        let mut columns = Self::default();
        let shared = plan.shared.iter().map(|key| (key, Action::Share));
        let unchanged = plan.unchanged.iter().map(|key| (key, Action::Check));
        let written = plan.writes.iter().map(|(key, value)| match value {
            Some(value) => (key, Action::Put(value)),
            None => (key, Action::Delete),
        });
        let all: BTreeMap<&Key, Action<'_>> = shared.chain(unchanged).chain(written).collect();
        // Rows that are only put are locked by that, in their order, if all other locks come before.
        let locks_puts = !plan.unchanged.is_empty()
            || plan.writes.values().any(Option::is_none)
            || plan.shared.last() > plan.writes.keys().next();
        for (key, action) in all {
            let key = RowKey::new(key);
            match action {
                Action::Share => columns.lock(Strength::Shared, &key, false),
                Action::Put(value) => {
                    if locks_puts {
                        columns.lock(Strength::Exclusive, &key, false);
                    }
                    columns.put.push(&key, false);
                    columns.put.v.push(value);
                }
                Action::Delete => {
                    columns.lock(Strength::Exclusive, &key, true);
                    columns.delete.push(&key, false);
                }
                Action::Check => {
                    columns.lock(Strength::Exclusive, &key, true);
                    columns.delete.push(&key, true);
                }
            }
        }
        columns
    }

    fn lock(&mut self, strength: Strength, key: &RowKey<'a>, is_marked: bool) {
        match self.locks.last_mut() {
            Some((last, rows)) if *last == strength => rows.push(key, is_marked),
            _ => {
                let mut rows = Rows::default();
                rows.push(key, is_marked);
                self.locks.push((strength, rows));
            }
        }
    }
}

enum Action<'a> {
    Share,
    Put(&'a Value),
    Delete,
    Check,
}
