//! A bounded number of connections.

use crate::connect::{Connection, Connector};
use crate::outcome::{Failure, Verdict, failure};
use crate::statements::Statements;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_storage::stats::RemoteStats;
use tepui_storage::{StorageError, StorageErrorKind};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::Client;

/// Connections that are lent out one at a time.
pub(crate) struct Pool {
    connector: Connector,
    permits: Arc<Semaphore>,
    max_connections: usize,
    idle: Mutex<Vec<Ready>>,
    /// Raised when a connection is lost: the others to the same server probably are too, and would be noticed one by one, each
    /// after the whole timeout.
    generation: AtomicU64,
    timeout: Duration,
    runtime: Handle,
    stats: Arc<RemoteStats>,
}

/// A connection with its statements.
struct Ready {
    connection: Connection,
    statements: Statements,
}

impl Pool {
    /// Belongs to the runtime in which it is called.
    pub(crate) fn new(connector: Connector, max_connections: usize, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            connector,
            permits: Arc::new(Semaphore::new(max_connections)),
            max_connections,
            idle: Mutex::default(),
            generation: AtomicU64::new(0),
            timeout,
            runtime: Handle::current(),
            stats: Arc::default(),
        })
    }

    pub(crate) fn stats(&self) -> &Arc<RemoteStats> {
        &self.stats
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Until when a call that begins now may take.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Waits for a connection.
    pub(crate) async fn acquire(self: &Arc<Self>, deadline: Instant) -> Result<Lease, StorageError> {
        let permit = match timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(StorageError::unavailable("the pool of connections is closed")),
            Err(_) => {
                let message = format!("all {} connections to PostgreSQL are in use", self.max_connections);
                return Err(StorageError::busy(message));
            }
        };
        let ready = match self.take_idle() {
            Some(ready) => ready,
            // In a box: it is large, seldom, and would be a part of every call's future.
            None => Box::pin(self.connect(deadline)).await.inspect_err(|error| self.count(error))?,
        };
        let lease = Lease {
            ready: Some(ready),
            pool: Arc::clone(self),
            permit: Some(permit),
            state: AtomicU8::new(State::Idle as u8),
            in_flight: AtomicUsize::new(0),
        };
        self.report();
        Ok(lease)
    }

    fn take_idle(&self) -> Option<Ready> {
        let generation = self.generation.load(Ordering::Acquire);
        let mut idle = self.idle.lock();
        loop {
            let ready = idle.pop()?;
            if ready.connection.generation == generation && !ready.connection.client.is_closed() {
                return Some(ready);
            }
        }
    }

    async fn connect(&self, deadline: Instant) -> Result<Ready, StorageError> {
        let generation = self.generation.load(Ordering::Acquire);
        let connect = async {
            let mut connection = self.connector.connect().await?;
            connection.generation = generation;
            let statements = connection.prepare().await.map_err(|error| failure(error).error)?;
            Ok(Ready { connection, statements })
        };
        match timeout_at(deadline, connect).await {
            Ok(Ok(ready)) => {
                self.stats.connects.add(1);
                Ok(ready)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StorageError::unavailable("no connection to PostgreSQL in time")),
        }
    }

    /// Gives up the connections that are as old as this one, once they are not in use.
    fn suspect(&self, generation: u64) {
        let raised =
            self.generation.compare_exchange(generation, generation + 1, Ordering::AcqRel, Ordering::Relaxed);
        if raised.is_ok() {
            let old = std::mem::take(&mut *self.idle.lock());
            for ready in &old {
                ready.connection.abort();
            }
        }
    }

    fn put_back(&self, ready: Ready) {
        let is_current = ready.connection.generation == self.generation.load(Ordering::Acquire);
        if is_current && !ready.connection.client.is_closed() {
            self.idle.lock().push(ready);
        }
    }

    fn count(&self, error: &StorageError) {
        if error.kind() == StorageErrorKind::Unavailable {
            self.stats.unavailable.add(1);
        }
    }

    fn report(&self) {
        let in_use = self.max_connections.saturating_sub(self.permits.available_permits());
        self.stats.in_use.set(in_use as u64);
    }
}

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Idle,
    /// A statement of its own may be under way.
    Running,
    /// A transaction has begun, and has not ended.
    InTransaction,
    /// Not to be used again.
    Broken,
}

/// A connection that is lent out. When this is dropped it goes back, after what it was about has ended on the server, which
/// nobody waits for.
pub(crate) struct Lease {
    /// Always there, but for the end of `drop`.
    ready: Option<Ready>,
    pool: Arc<Pool>,
    permit: Option<OwnedSemaphorePermit>,
    state: AtomicU8,
    /// Calls that wait for an answer.
    in_flight: AtomicUsize,
}

impl Lease {
    pub(crate) fn client(&self) -> Result<(&Client, &Statements), StorageError> {
        let gone = || StorageError::unavailable("the connection to PostgreSQL was given up");
        let ready = self.ready.as_ref().ok_or_else(gone)?;
        if self.state.load(Ordering::Acquire) == State::Broken as u8 {
            return Err(gone());
        }
        Ok((&ready.connection.client, &ready.statements))
    }

    /// The number of warnings that the server has sent.
    pub(crate) fn warnings(&self) -> u64 {
        self.ready.as_ref().map_or(0, |ready| ready.connection.warnings())
    }

    pub(crate) fn set(&self, state: State) {
        let set = |before: u8| (before != State::Broken as u8).then_some(state as u8);
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, set);
    }

    /// Says that a call waits for an answer, until what it returns is dropped. Calls that wait at the same time are one round trip.
    pub(crate) fn round_trip(&self) -> RoundTrip<'_> {
        if self.in_flight.fetch_add(1, Ordering::AcqRel) == 0 {
            self.pool.stats.round_trips.add(1);
        }
        RoundTrip(&self.in_flight)
    }

    /// Notes that a call failed, and returns why.
    pub(crate) fn fail(&self, failure: Failure) -> StorageError {
        self.pool.count(&failure.error);
        if failure.verdict == Verdict::Suspect {
            self.set(State::Broken);
            if let Some(ready) = &self.ready {
                self.pool.suspect(ready.connection.generation);
            }
        }
        failure.error
    }
}

/// See [`Lease::round_trip`].
pub(crate) struct RoundTrip<'a>(&'a AtomicUsize);

impl Drop for RoundTrip<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (Some(ready), Some(permit)) = (self.ready.take(), self.permit.take()) else { return };
        let state = *self.state.get_mut();
        let last_word = match state {
            state if state == State::Broken as u8 => {
                ready.connection.abort();
                None
            }
            state if state == State::Idle as u8 => {
                self.pool.put_back(ready);
                drop(permit);
                self.pool.report();
                return;
            }
            state if state == State::InTransaction as u8 => Some((ready, "ROLLBACK")),
            // Answered when what is under way has ended.
            _ => Some((ready, "")),
        };
        let pool = Arc::clone(&self.pool);
        let Some((ready, last_word)) = last_word else {
            drop(permit);
            pool.report();
            return;
        };
        let limit = pool.timeout;
        self.pool.runtime.spawn(async move {
            match timeout(limit, ready.connection.client.batch_execute(last_word)).await {
                Ok(Ok(())) => pool.put_back(ready),
                _ => {
                    ready.connection.abort();
                    pool.suspect(ready.connection.generation);
                }
            }
            drop(permit);
            pool.report();
        });
    }
}
