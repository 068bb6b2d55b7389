//! An engine in memory that counts round trips as one behind a network has them, and that takes as long if it is told to.
//!
//! - A transaction begins with its first read, which costs nothing more. One that has read nothing begins before it commits, which
//!   is a round trip, as with PostgreSQL.
//! - Reads of a transaction that are polled together are one round trip. A read that starts after another has gone on is a new
//!   one: what was sent cannot be added to.
//! - `Engine::get_many`, and a commit, are one each.
//! - The commits of a pipeline are gathered for a short time and are one. The pipeline ends with that.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Engine, Guard, Key, KeyRange, Limits, MemoryEngine, ScanLimit,
    ScanPage, Snapshot, StorageError, Transaction, Value, Write,
};
use tokio::sync::{OnceCell, RwLock, watch};

/// A clone is the same engine.
#[derive(Clone)]
pub(crate) struct RemoteEngine<E = MemoryEngine> {
    inner: Arc<E>,
    network: Arc<Network>,
}

#[derive(Default)]
struct Network {
    round_trips: AtomicU64,
    /// Of a round trip.
    latency: Duration,
}

impl Network {
    /// There, or back.
    async fn travel(&self) {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency / 2).await;
        }
    }
}

impl RemoteEngine {
    pub(crate) fn new() -> Self {
        Self::with_latency(Duration::ZERO)
    }

    pub(crate) fn with_latency(latency: Duration) -> Self {
        Self::on(MemoryEngine::new(), latency)
    }
}

impl<E: Engine> RemoteEngine<E> {
    pub(crate) fn on(inner: E, latency: Duration) -> Self {
        let network = Network { round_trips: AtomicU64::new(0), latency };
        Self { inner: Arc::new(inner), network: Arc::new(network) }
    }

    pub(crate) fn inner(&self) -> &E {
        &self.inner
    }

    /// How many there were.
    pub(crate) fn round_trips(&self) -> u64 {
        self.network.round_trips.load(Ordering::Relaxed)
    }

    fn transaction(&self) -> RemoteTransaction<E> {
        let (engine, network) = (Arc::clone(&self.inner), Arc::clone(&self.network));
        RemoteTransaction { engine, network, inner: OnceCell::new(), sending: Mutex::new((0, false)) }
    }
}

impl<E: Engine> Engine for RemoteEngine<E> {
    type Transaction = RemoteTransaction<E>;
    type Pipeline = RemotePipeline<E>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        Ok(self.transaction())
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.network.round_trips.fetch_add(1, Ordering::Relaxed);
        self.network.travel().await;
        let values = self.inner.get_many(keys).await;
        self.network.travel().await;
        values
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Ok(RemotePipeline {
            shared: Arc::new(SharedPipeline {
                transaction: RwLock::new(Some(self.transaction())),
                batch: Mutex::default(),
                reads: AtomicUsize::new(0),
                outcome: watch::Sender::new(None),
            }),
        })
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.inner.health().await
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

pub(crate) struct RemoteTransaction<E: Engine> {
    engine: Arc<E>,
    network: Arc<Network>,
    inner: OnceCell<E::Transaction>,
    /// The number of the last round trip, and whether calls can still be added to it.
    sending: Mutex<(u64, bool)>,
}

impl<E: Engine> RemoteTransaction<E> {
    /// Sends a call with those that are polled together with it, and returns the transaction when it has arrived.
    async fn call(&self) -> Result<&E::Transaction, StorageError> {
        let number = {
            let mut sending = self.sending.lock().unwrap();
            if !sending.1 {
                *sending = (sending.0 + 1, true);
                self.network.round_trips.fetch_add(1, Ordering::Relaxed);
            }
            sending.0
        };
        // Others that are polled together are polled once before this one goes on.
        tokio::task::yield_now().await;
        {
            let mut sending = self.sending.lock().unwrap();
            if sending.0 == number {
                sending.1 = false;
            }
        }
        self.network.travel().await;
        self.inner.get_or_try_init(|| self.engine.begin()).await
    }
}

impl<E: Engine> Snapshot for RemoteTransaction<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        let value = self.call().await?.get(key).await;
        self.network.travel().await;
        value
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        let values = self.call().await?.get_many(keys).await;
        self.network.travel().await;
        values
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        let page = self.call().await?.scan(range, limit).await;
        self.network.travel().await;
        page
    }
}

impl<E: Engine> Transaction for RemoteTransaction<E> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        if self.inner.get().is_none() {
            self.call().await?;
            self.network.travel().await;
        }
        self.call().await?;
        let Self { inner, network, .. } = self;
        let Some(inner) = inner.into_inner() else { return Err(CommitError::Conflict) };
        let outcome = inner.commit(commit).await;
        network.travel().await;
        outcome
    }
}

/// Commits are gathered until none came for so long, and nobody reads.
const QUIET: Duration = Duration::from_micros(300);
const MAX_GATHERING: Duration = Duration::from_millis(2);

pub(crate) struct RemotePipeline<E: Engine> {
    shared: Arc<SharedPipeline<E>>,
}

struct SharedPipeline<E: Engine> {
    transaction: RwLock<Option<RemoteTransaction<E>>>,
    batch: Mutex<Batch>,
    reads: AtomicUsize,
    outcome: watch::Sender<Option<Result<(), CommitError>>>,
}

#[derive(Default)]
struct Batch {
    guards: Vec<Guard>,
    writes: HashMap<Key, Write>,
    commits: usize,
    is_ended: bool,
}

impl<E: Engine> SharedPipeline<E> {
    async fn read<T>(
        &self,
        read: impl AsyncFnOnce(&RemoteTransaction<E>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let answer = match &*self.transaction.read().await {
            Some(transaction) => read(transaction).await,
            None => Err(StorageError::too_old("the pipeline has ended")),
        };
        self.reads.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    async fn commit(self: Arc<Self>) {
        let began = Instant::now();
        let (mut last, mut seen) = (began, 0);
        while last.elapsed() < QUIET && began.elapsed() < MAX_GATHERING {
            tokio::task::yield_now().await;
            let commits = self.batch.lock().unwrap().commits;
            if commits != seen || self.reads.load(Ordering::Relaxed) > 0 {
                (last, seen) = (Instant::now(), commits);
            }
        }
        let transaction = self.transaction.write().await.take();
        let (mut guards, writes) = {
            let mut batch = self.batch.lock().unwrap();
            batch.is_ended = true;
            (std::mem::take(&mut batch.guards), std::mem::take(&mut batch.writes))
        };
        guards.retain(|guard| !writes.contains_key(guard.key()));
        let outcome = match transaction {
            Some(transaction) => {
                transaction.commit(Commit::new(guards, writes.into_values().collect())).await
            }
            None => Err(CommitError::Conflict),
        };
        self.outcome.send_replace(Some(outcome));
    }
}

impl<E: Engine> Snapshot for RemotePipeline<E> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.shared.read(async |transaction| transaction.get(key).await).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.shared.read(async |transaction| transaction.get_many(keys).await).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.shared.read(async |transaction| transaction.scan(range, limit).await).await
    }
}

impl<E: Engine> CommitPipeline for RemotePipeline<E> {
    fn submit(&self, mut commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let is_nothing = commit.writes().is_empty();
        let is_queued = {
            let mut batch = self.shared.batch.lock().unwrap();
            let has_effect = !is_nothing || batch.commits > 0;
            if !batch.is_ended && has_effect {
                batch.guards.extend_from_slice(commit.guards());
                batch
                    .writes
                    .extend(commit.take_writes().into_iter().map(|write| (write.key().clone(), write)));
                batch.commits += 1;
                if batch.commits == 1 {
                    tokio::spawn(Arc::clone(&self.shared).commit());
                }
            }
            !batch.is_ended
        };
        let mut outcome = self.shared.outcome.subscribe();
        let nothing_before = self.shared.batch.lock().unwrap().commits == 0;
        async move {
            if nothing_before {
                return Ok(());
            }
            let known = outcome.wait_for(Option::is_some).await.map(|known| known.clone());
            match known {
                Ok(Some(outcome)) if is_queued || is_nothing => outcome,
                _ => Err(CommitError::Conflict),
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.shared.batch.lock().unwrap().is_ended
    }
}
