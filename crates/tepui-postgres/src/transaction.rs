//! Reads, in a transaction or without one.

use crate::commit::CommitPlan;
use crate::outcome::{Failure, failure};
use crate::pool::{Lease, Pool, State};
use crate::row_key::{RowKey, join, split};
use crate::statements::BEGIN;
use futures_util::future::FutureExt as _;
use futures_util::stream::StreamExt as _;
use std::pin::Pin;
use std::sync::Arc;
use tepui_storage::{
    Commit, CommitError, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot, StorageError, Transaction,
    Value,
};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, SimpleQueryStream};

/// How many rows a statement returns at most.
const MAX_ROWS: usize = 1000;

/// A transaction of a [`PostgresEngine`](crate::PostgresEngine): one of PostgreSQL with isolation REPEATABLE READ, which begins
/// with the first read. Until then it has no connection.
pub struct PostgresTransaction {
    pool: Arc<Pool>,
    limits: Limits,
    session: OnceCell<Session>,
}

/// A connection on which a transaction has begun, or none is wanted.
pub(crate) struct Session {
    pub(crate) lease: Lease,
    begin: Mutex<Begin>,
}

/// What is known of BEGIN. It is sent together with the first reads, so its answer comes with theirs.
enum Begin {
    Sent(Pin<Box<SimpleQueryStream>>),
    Done,
    Failed(StorageError),
}

impl Session {
    /// Begins a transaction, but does not wait for the answer.
    pub(crate) async fn begin(pool: &Arc<Pool>, deadline: Instant) -> Result<Self, StorageError> {
        let lease = pool.acquire(deadline).await?;
        lease.set(State::InTransaction);
        let (client, _) = lease.client()?;
        // It is queued when it is first polled, which is all that it waits for.
        let sent = match client.simple_query_raw(BEGIN).now_or_never() {
            Some(Ok(sent)) => sent,
            Some(Err(error)) => return Err(lease.fail(failure(error))),
            None => return Err(lease.fail(Failure::timed_out())),
        };
        Ok(Self { lease, begin: Mutex::new(Begin::Sent(Box::pin(sent))) })
    }

    /// A connection for single statements.
    pub(crate) async fn without_transaction(
        pool: &Arc<Pool>,
        deadline: Instant,
    ) -> Result<Self, StorageError> {
        let lease = pool.acquire(deadline).await?;
        lease.set(State::Running);
        Ok(Self { lease, begin: Mutex::new(Begin::Done) })
    }

    /// Gives the connection of single statements back at once.
    pub(crate) fn finish(self) {
        self.lease.set(State::Idle);
    }

    /// Waits for the answer of BEGIN.
    pub(crate) async fn begun(&self) -> Result<(), StorageError> {
        let mut begin = self.begin.lock().await;
        if let Begin::Sent(answer) = &mut *begin {
            let mut outcome = Begin::Done;
            while let Some(message) = answer.next().await {
                if let Err(error) = message {
                    outcome = Begin::Failed(self.lease.fail(failure(error)));
                    break;
                }
            }
            *begin = outcome;
        }
        match &*begin {
            Begin::Failed(error) => Err(error.clone()),
            Begin::Sent(_) | Begin::Done => Ok(()),
        }
    }

    /// Waits for the answer of BEGIN, which is a round trip if nothing was read yet.
    pub(crate) async fn wait_until_begun(&self, deadline: Instant) -> Result<(), StorageError> {
        if let Begin::Done = &*self.begin.lock().await {
            return Ok(());
        }
        let _waiting = self.lease.round_trip();
        match timeout_at(deadline, self.begun()).await {
            Ok(begun) => begun,
            Err(_) => Err(self.lease.fail(Failure::timed_out())),
        }
    }

    /// Runs one of the prepared statements.
    async fn rows(
        &self,
        which: Which,
        parameters: &[&(dyn ToSql + Sync)],
        deadline: Instant,
    ) -> Result<Vec<Row>, StorageError> {
        let (client, statements) = self.lease.client()?;
        let statement = match which {
            Which::Get => &statements.get,
            Which::Scan => &statements.scan,
            Which::Reclaim => &statements.reclaim,
        };
        let _waiting = self.lease.round_trip();
        let answers = futures_util::future::join(client.query(statement, parameters), self.begun());
        match timeout_at(deadline, answers).await {
            Ok((rows, begun)) => {
                let rows = rows.map_err(|error| self.lease.fail(failure(error)));
                begun.and(rows)
            }
            Err(_) => Err(self.lease.fail(Failure::timed_out())),
        }
    }

    pub(crate) async fn get_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        deadline: Instant,
    ) -> Result<Vec<Option<Value>>, StorageError> {
        let mut values = vec![None; keys.len()];
        let keys: Vec<RowKey<'_>> = keys.iter().map(|key| RowKey::new(key.as_ref())).collect();
        let p: Vec<&[u8]> = keys.iter().map(|key| key.p).collect();
        let h: Vec<&[u8]> = keys.iter().map(|key| key.h.as_ref()).collect();
        for row in self.rows(Which::Get, &[&p, &h], deadline).await? {
            let number: i64 = column(&row, 0)?;
            let slot = usize::try_from(number - 1).ok().and_then(|at| values.get_mut(at));
            let slot =
                slot.ok_or_else(|| StorageError::failed("PostgreSQL returned what was not asked for"))?;
            *slot = Some(Value::copy_from_slice(column(&row, 1)?));
        }
        Ok(values)
    }

    /// As many statements as it takes, usually one.
    pub(crate) async fn scan(
        &self,
        range: &KeyRange,
        limit: ScanLimit,
        deadline: Instant,
    ) -> Result<ScanPage, StorageError> {
        let mut page = ScanPage::default();
        let (mut start, mut bytes) = (range.start.clone(), 0);
        let (end_p, end_t) = split(&range.end);
        if range.start >= range.end {
            return Ok(page);
        }
        loop {
            let rows_left = limit.max_rows.max(1).saturating_sub(page.rows.len());
            let bytes_left = limit.max_bytes.saturating_sub(bytes);
            // One more says where to continue.
            let asked = rows_left.min(MAX_ROWS) + 1;
            let (start_p, start_t) = split(&start);
            let (max_rows, max_bytes) = (as_i64(asked), as_i64(bytes_left));
            let parameters: [&(dyn ToSql + Sync); 6] =
                [&start_p, &start_t, &end_p, &end_t, &max_rows, &max_bytes];
            let rows = self.rows(Which::Scan, &parameters, deadline).await?;
            let mut next = None;
            for row in &rows {
                let key = join(column(row, 0)?, column(row, 1)?);
                let Some(value) = column::<Option<&[u8]>>(row, 2)? else {
                    next = Some(key);
                    break;
                };
                let own = key.len() + value.len();
                // The first row of a statement comes whatever its size.
                if !page.rows.is_empty() && own > limit.max_bytes.saturating_sub(bytes) {
                    page.next = Some(key);
                    return Ok(page);
                }
                bytes += own;
                page.rows.push((key, Value::copy_from_slice(value)));
            }
            let Some(next) = next else { return Ok(page) };
            let is_full_statement = rows.len() == asked && page.rows.len() < limit.max_rows.max(1);
            if !is_full_statement {
                page.next = Some(next);
                return Ok(page);
            }
            start = next;
        }
    }

    /// Deletes some rows of a range, and returns how many, and the first part of the last key.
    pub(crate) async fn reclaim_some(
        &self,
        range: &KeyRange,
        deadline: Instant,
    ) -> Result<(usize, Option<Key>), StorageError> {
        let ((start_p, start_t), (end_p, end_t)) = (split(&range.start), split(&range.end));
        let max_rows = as_i64(MAX_ROWS);
        let parameters: [&(dyn ToSql + Sync); 5] = [&start_p, &start_t, &end_p, &end_t, &max_rows];
        let rows = self.rows(Which::Reclaim, &parameters, deadline).await?;
        let mut last: Option<&[u8]> = None;
        for row in &rows {
            last = last.max(Some(column(row, 0)?));
        }
        Ok((rows.len(), last.map(Key::copy_from_slice)))
    }

    /// Whether writes are accepted.
    pub(crate) async fn accepts_writes(&self, deadline: Instant) -> Result<(), StorageError> {
        let (client, _) = self.lease.client()?;
        let _waiting = self.lease.round_trip();
        let answer = match timeout_at(deadline, client.simple_query("SHOW transaction_read_only")).await {
            Ok(answer) => answer.map_err(|error| self.lease.fail(failure(error)))?,
            Err(_) => return Err(self.lease.fail(Failure::timed_out())),
        };
        let is_read_only = answer.iter().any(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0) == Some("on"),
            _ => false,
        });
        match is_read_only {
            true => {
                let error = StorageError::unavailable("PostgreSQL does not accept writes");
                Err(self.lease.fail(Failure { error, verdict: crate::outcome::Verdict::Suspect }))
            }
            false => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Which {
    Get,
    Scan,
    Reclaim,
}

fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StorageError> {
    let unexpected =
        |error| StorageError::failed("PostgreSQL returned something unexpected").with_source(error);
    row.try_get(index).map_err(unexpected)
}

impl PostgresTransaction {
    pub(crate) fn new(pool: Arc<Pool>, limits: Limits) -> Self {
        Self { pool, limits, session: OnceCell::new() }
    }

    async fn session(&self, deadline: Instant) -> Result<&Session, StorageError> {
        self.session.get_or_try_init(|| Session::begin(&self.pool, deadline)).await
    }

    /// Measures a read. Reads are in boxes: their futures are large and would be a part of those of all services, and an allocation
    /// is nothing beside a round trip.
    async fn timed<T>(&self, read: impl Future<Output = Result<T, StorageError>>) -> Result<T, StorageError> {
        let began = Instant::now();
        let done = read.await;
        self.pool.stats().read.observe_time(began.elapsed());
        done
    }
}

impl Snapshot for PostgresTransaction {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        let deadline = self.pool.deadline();
        let read = Box::pin(async { self.session(deadline).await?.get_many(&[key], deadline).await });
        Ok(self.timed(read).await?.pop().flatten())
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = self.pool.deadline();
        self.timed(Box::pin(async { self.session(deadline).await?.get_many(keys, deadline).await })).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        let deadline = self.pool.deadline();
        self.timed(Box::pin(async { self.session(deadline).await?.scan(range, limit, deadline).await })).await
    }
}

impl Transaction for PostgresTransaction {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.limits.check(&commit)?;
        let Some(plan) = CommitPlan::new(commit) else { return Ok(()) };
        let (pool, session) = (self.pool, self.session.into_inner());
        let runtime = pool.runtime().clone();
        // In a task of its own: nobody can end it half-way, so that the connection is known to be good or not.
        let task = runtime.spawn(async move {
            let began = Instant::now();
            let outcome = plan.run(&pool, session).await;
            pool.stats().commit.observe_time(began.elapsed());
            pool.stats().commits.add(&outcome, 1);
            outcome
        });
        match task.await {
            Ok(outcome) => outcome,
            Err(_) => Err(CommitError::Unknown("the task that commits was ended".to_owned())),
        }
    }
}
