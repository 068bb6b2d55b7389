//! Numbers of the nodes that share a store, under leases in it.
//!
//! A node hands out timestamps, and so ETags, that are congruent to its number ([`NodeNumber`]), so no other node hands out the
//! same, as long as no two have one number. A lease on a number is a row with its owner and its end. What makes timestamps unique
//! is not the time at which a lease ends, but which timestamps it covers: those before its end.
//!
//! - A node commits nothing while it has handed out a timestamp that is not before the end of its lease ([`NodeEngine`]).
//! - Whoever takes a number over begins at the end that the lease of the one before had.
//! - A lease that is renewed was held without a gap, because the row still names its owner: what was handed out beyond the end is
//!   covered then.
//! - A node that has lost its number, or whose lease ended, takes a new one. What was decided in transactions that began before is
//!   decided again.
//!
//! So a node that is paused at any point, or whose clock is wrong, uses no timestamp of another. Clocks decide only when a
//! number is taken from a node that is silent.
//!
//! A node neither takes nor renews a number of a storage that everything is being copied to. Whoever copies says so in a row, and
//! looks for nodes after that; a node has that row as a guard. So the one or the other stops.

use crate::MAX_CLOCK_SKEW;
use crate::copy::UNFINISHED;
use crate::keyspace;
use crate::record::WorkLease;
use crate::transact::{Attempt, Outcome, SpaceUse, commit, retry, storage_error};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tepui_model::time::{MAX_NODES, NodeNumber};
use tepui_model::{Clock, ServiceError, Timestamp};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Engine, Guard, Key, KeyRange, Limits, ScanLimit, ScanPage, Snapshot,
    StorageError, Transaction, Value, Write,
};
use tokio::sync::Notify;

/// How long a lease lasts, how often it is renewed, and how soon after that has failed it is tried again.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often the store is asked whether it takes writes, and how long it may take to say so.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The owner of numbers that were given back.
const NOBODY: u128 = 0;

/// Why a node has no number.
#[derive(Debug)]
pub enum NodeError {
    /// There are [`MAX_NODES`] already.
    TooMany,
    /// Everything is being copied to this storage, over whatever nodes would write.
    BeingCopied,
    Storage(ServiceError),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "{MAX_NODES} nodes use this storage, and no more can (the number of one that was killed is free after {} s)",
                (LEASE + MAX_CLOCK_SKEW).as_secs()
            ),
            Self::BeingCopied => f.write_str(UNFINISHED),
            Self::Storage(error) => {
                write!(f, "cannot take the number of a node: {error}")?;
                error.cause.as_ref().map_or(Ok(()), |cause| write!(f, " ({cause})"))
            }
        }
    }
}

impl std::error::Error for NodeError {}

impl From<ServiceError> for NodeError {
    fn from(error: ServiceError) -> Self {
        Self::Storage(error)
    }
}

/// The clock of a node that shares a store with others.
pub struct NodeClock {
    machine: Arc<dyn Clock>,
    state: Mutex<State>,
    /// The end of the lease was reached: it is to be renewed at once.
    ended: Notify,
}

struct State {
    number: NodeNumber,
    /// Every timestamp handed out is before it, or nothing is committed.
    until: Timestamp,
    /// The last timestamp handed out.
    last: Timestamp,
    /// Raised by each change of the number.
    generation: u64,
    is_held: bool,
}

impl NodeClock {
    pub fn number(&self) -> NodeNumber {
        self.state.lock().number
    }

    fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Whether no other node has or will hand out what this one has handed out since `generation`.
    fn covers(&self, generation: u64) -> Result<(), CommitError> {
        let state = self.state.lock();
        if state.generation != generation {
            return Err(CommitError::Conflict);
        }
        state.check().inspect_err(|_| self.ended.notify_one()).map_err(CommitError::Storage)
    }

    /// Whether commits are made now.
    fn check(&self) -> Result<(), StorageError> {
        let state = self.state.lock();
        // A clock that went on without a tick is as good as one with it.
        let next = State { last: state.last.max(self.machine.now()), ..*state };
        next.check()
    }
}

impl State {
    fn check(&self) -> Result<(), StorageError> {
        match self.is_held && self.last < self.until {
            true => Ok(()),
            false => Err(StorageError::unavailable("this node has lost its number among the nodes")),
        }
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn node(&self) -> Option<NodeNumber> {
        Some(self.number())
    }

    fn tick(&self) -> Timestamp {
        let now = self.machine.now();
        let mut state = self.state.lock();
        state.last = state.number.first_from(now.max(state.last.next()));
        state.last
    }

    fn of_machine(&self, now: Timestamp) -> Timestamp {
        self.machine.of_machine(now)
    }

    fn changed(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.machine.changed()
    }
}

/// The number of this node.
pub struct NodeLease<E> {
    engine: Arc<E>,
    clock: Arc<NodeClock>,
    /// Names this process.
    owner: u128,
}

/// A number that was taken.
struct Taken {
    number: NodeNumber,
    until: Timestamp,
    /// Timestamps before it may have been handed out by others.
    from: Timestamp,
}

impl<E: Engine> NodeLease<E> {
    /// Takes a number that is free. `owner` is random.
    pub async fn take(engine: Arc<E>, machine: Arc<dyn Clock>, owner: u128) -> Result<Self, NodeError> {
        let Taken { number, until, from } = take(&*engine, &*machine, owner, Timestamp::MIN).await?;
        let state = State { number, until, last: from, generation: 0, is_held: true };
        let clock = Arc::new(NodeClock { machine, state: Mutex::new(state), ended: Notify::new() });
        Ok(Self { engine, clock, owner })
    }

    /// The clock that ticks with the number.
    pub fn clock(&self) -> &Arc<NodeClock> {
        &self.clock
    }

    /// Renews the lease for ever, and takes another number when this one is lost.
    pub async fn keep(&self) {
        let mut wait = RENEW_INTERVAL;
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.clock.ended.notified() => {}
            }
            wait = match self.renew().await {
                Ok(()) => RENEW_INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, number = self.clock.number().get(), "cannot renew the number of this node");
                    RETRY_INTERVAL
                }
            };
        }
    }

    /// Renews the lease, or takes another number.
    async fn renew(&self) -> Result<(), NodeError> {
        let (number, is_held) = {
            let state = self.clock.state.lock();
            (state.number, state.is_held)
        };
        if is_held {
            if let Some(until) = self.extend(number).await? {
                let mut state = self.clock.state.lock();
                state.until = state.until.max(until);
                return Ok(());
            }
            tracing::warn!(
                number = number.get(),
                "this node has lost its number, because it was silent for too long or its clock is slow"
            );
            self.clock.state.lock().is_held = false;
        }
        let least = self.clock.state.lock().last;
        let Taken { number, until, from } =
            take(&*self.engine, &*self.clock.machine, self.owner, least).await?;
        let mut state = self.clock.state.lock();
        let last = state.last.max(from);
        *state = State { number, until, last, generation: state.generation + 1, is_held: true };
        tracing::info!(number = number.get(), "this node has another number now");
        Ok(())
    }

    /// Moves the end of the lease. `None`: the number is another's, or the storage is.
    async fn extend(&self, number: NodeNumber) -> Result<Option<Timestamp>, ServiceError> {
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let keys = [keyspace::node(number), keyspace::copy_state()];
            let mut rows = transaction.get_many(&keys).await.map_err(storage_error)?.into_iter();
            let (row, copy) = (rows.next().flatten(), rows.next().flatten());
            let before = row.map(|row| WorkLease::decode(&row)).transpose()?;
            if before.is_none_or(|lease| lease.owner != self.owner) || copy.is_some() {
                return Ok(Attempt::Done(None));
            }
            let [key, copy] = keys;
            // A tick, so that no two renewals write the same and an unknown outcome can be settled.
            let until = self.clock.tick().saturating_add(LEASE);
            let lease = WorkLease { owner: self.owner, until };
            let writes = vec![Write::Put(key, lease.encode())];
            let outcome = Outcome { reply: Some(until), guards: vec![Guard::Shared(copy)], writes };
            commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Gives the number back. Nothing is committed after it.
    pub async fn give_back(&self) -> Result<(), NodeError> {
        let (number, last) = {
            let mut state = self.clock.state.lock();
            state.generation += 1;
            if !std::mem::replace(&mut state.is_held, false) {
                return Ok(());
            }
            (state.number, state.last)
        };
        // The row stays: a node whose clock is behind must not begin before what was handed out.
        let free = WorkLease { owner: NOBODY, until: last.next() };
        retry(|()| async move {
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            let key = keyspace::node(number);
            let row = transaction.get(&key).await.map_err(storage_error)?;
            let before = row.map(|row| WorkLease::decode(&row)).transpose()?;
            if before.is_none_or(|lease| lease.owner != self.owner) {
                return Ok(Attempt::Done(()));
            }
            let writes = vec![Write::Put(key, free.encode())];
            let outcome = Outcome { reply: (), guards: Vec::new(), writes };
            commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
        })
        .await
        .map_err(NodeError::Storage)
    }
}

/// Takes a free number, for timestamps from `least` on.
async fn take<E: Engine>(
    engine: &E,
    machine: &dyn Clock,
    owner: u128,
    least: Timestamp,
) -> Result<Taken, NodeError> {
    let taken: Result<Taken, NodeError> = retry(|()| async move {
        let transaction = engine.begin().await.map_err(storage_error)?;
        let numbers: Vec<NodeNumber> = NodeNumber::all().collect();
        let copy = keyspace::copy_state();
        let keys = numbers.iter().map(|number| keyspace::node(*number));
        let keys: Vec<Key> = keys.chain([copy.clone()]).collect();
        let mut rows = transaction.get_many(&keys).await.map_err(storage_error)?;
        if rows.pop().flatten().is_some() {
            return Ok(Attempt::Done(Err(NodeError::BeingCopied)));
        }
        let now = machine.now();
        let mut best: Option<(NodeNumber, Key, Timestamp)> = None;
        for ((number, key), row) in numbers.into_iter().zip(keys).zip(rows) {
            let lease = row.map(|row| WorkLease::decode(&row)).transpose()?;
            let is_free = |lease: &WorkLease| {
                lease.owner == NOBODY || lease.until.saturating_add(MAX_CLOCK_SKEW) <= now
            };
            if !lease.as_ref().is_none_or(is_free) {
                continue;
            }
            // The one that was free for the longest time.
            let from = lease.map_or(Timestamp::MIN, |lease| lease.until);
            if best.as_ref().is_none_or(|(_, _, best)| from < *best) {
                best = Some((number, key, from));
            }
        }
        let Some((number, key, free_from)) = best else {
            return Ok(Attempt::Done(Err(NodeError::TooMany)));
        };
        let from = free_from.max(least);
        let until = now.max(from).saturating_add(LEASE);
        let writes = vec![Write::Put(key, WorkLease { owner, until }.encode())];
        let reply = Ok(Taken { number, until, from });
        let outcome = Outcome { reply, guards: vec![Guard::Shared(copy)], writes };
        commit(engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
    })
    .await?;
    taken
}

/// An engine that commits only what is dated by the node's own number, and knows whether the store answers.
pub struct NodeEngine<E> {
    inner: Arc<E>,
    clock: Arc<NodeClock>,
    /// What the store answered when it was last asked whether it takes writes.
    answer: Mutex<Result<(), StorageError>>,
}

impl<E: Engine> NodeEngine<E> {
    pub fn new(inner: Arc<E>, clock: Arc<NodeClock>) -> Self {
        Self { inner, clock, answer: Mutex::new(Ok(())) }
    }

    /// Whether the store takes writes of this node, as of a second ago or so.
    pub fn status(&self) -> Result<(), StorageError> {
        self.answer.lock().clone()?;
        self.clock.check()
    }

    /// Asks the store for ever whether it takes writes. Otherwise nobody does: a probe of health costs it nothing.
    pub async fn watch(&self) {
        let mut was_ready = true;
        loop {
            let asked = tokio::time::timeout(PROBE_TIMEOUT, self.inner.health()).await;
            let timed_out = |_| {
                let message = format!("no answer within {} s", PROBE_TIMEOUT.as_secs());
                Err(StorageError::unavailable(message))
            };
            *self.answer.lock() = asked.unwrap_or_else(timed_out);
            let status = self.status();
            match &status {
                Err(reason) if was_ready => tracing::error!(%reason, "not ready: storage takes no writes"),
                Ok(()) if !was_ready => tracing::info!("ready again: storage takes writes"),
                _ => {}
            }
            was_ready = status.is_ok();
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }
}

/// A transaction or a pipeline of a [`NodeEngine`].
pub struct NodeTransaction<T> {
    inner: T,
    clock: Arc<NodeClock>,
    /// The number is that of when it began.
    generation: u64,
    /// A commit of a pipeline was refused, and none after it succeeds.
    is_refused: AtomicBool,
}

impl<T> NodeTransaction<T> {
    fn new(inner: T, clock: Arc<NodeClock>, generation: u64) -> Self {
        Self { inner, clock, generation, is_refused: AtomicBool::new(false) }
    }

    /// Refuses a commit whose timestamps may be those of another node.
    fn check(&self, commit: &Commit) -> Result<(), CommitError> {
        if commit.writes().is_empty() { Ok(()) } else { self.clock.covers(self.generation) }
    }
}

impl<E: Engine> Engine for NodeEngine<E> {
    type Transaction = NodeTransaction<E::Transaction>;
    type Pipeline = NodeTransaction<E::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        // First: what is handed out from now on is of this number or of a later one.
        let (clock, generation) = (Arc::clone(&self.clock), self.clock.generation());
        Ok(NodeTransaction::new(self.inner.begin().await?, clock, generation))
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.inner.get_many(keys).await
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        let (clock, generation) = (Arc::clone(&self.clock), self.clock.generation());
        Ok(NodeTransaction::new(self.inner.begin_pipeline().await?, clock, generation))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.status()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

impl<T: Snapshot> Snapshot for NodeTransaction<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.inner.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan(range, limit).await
    }

    async fn first(&self, range: &KeyRange) -> Result<Option<(Key, Value)>, StorageError> {
        self.inner.first(range).await
    }

    async fn scan_some(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan_some(range, limit).await
    }
}

impl<T: Transaction> Transaction for NodeTransaction<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.check(&commit)?;
        self.inner.commit(commit).await
    }
}

impl<P: CommitPipeline> CommitPipeline for NodeTransaction<P> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let checked = match self.is_refused.load(Ordering::Acquire) {
            true => Err(CommitError::Conflict),
            false => self.check(&commit),
        };
        // One that is refused waits for those before it, too.
        let submitted = self.inner.submit(if checked.is_ok() { commit } else { Commit::default() });
        self.is_refused.fetch_or(checked.is_err(), Ordering::AcqRel);
        async move {
            let outcome = submitted.await;
            checked.and(outcome)
        }
    }

    fn is_ended(&self) -> bool {
        self.is_refused.load(Ordering::Acquire)
            || self.clock.generation() != self.generation
            || self.inner.is_ended()
    }
}

#[cfg(test)]
mod tests;
