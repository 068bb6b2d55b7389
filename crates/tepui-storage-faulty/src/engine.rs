//! The engine.

use crate::{Fate, Faults, Rates};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, MemoryEngine, ScanLimit, ScanPage,
    Snapshot, StorageError, Transaction, Value,
};

/// An engine around another one. A clone is the same engine.
#[derive(Clone)]
pub struct FaultyEngine<E = MemoryEngine> {
    inner: Arc<E>,
    faults: Arc<Faults>,
}

impl FaultyEngine {
    /// In memory.
    pub fn in_memory(faults: Faults) -> Self {
        Self::new(MemoryEngine::new(), faults)
    }

    /// In memory, and as good as the engine there.
    pub fn without_faults() -> Self {
        Self::in_memory(Faults::new(Rates::NONE, 0))
    }
}

impl<E: Engine> FaultyEngine<E> {
    pub fn new(inner: E, faults: Faults) -> Self {
        Self { inner: Arc::new(inner), faults: Arc::new(faults) }
    }

    /// The engine without faults.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    fn faulty<T>(&self, inner: T) -> Faulty<T> {
        let reads_left = AtomicUsize::new(self.faults.lifetime());
        let (faults, is_poisoned) = (Arc::clone(&self.faults), Arc::default());
        Faulty { inner: Arc::new(inner), faults, reads_left, is_poisoned }
    }
}

impl<E: Engine> Engine for FaultyEngine<E> {
    type Transaction = Faulty<E::Transaction>;
    type Pipeline = Faulty<E::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        self.faults.pause().await;
        Ok(self.faulty(self.inner.begin().await?))
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        self.faults.pause().await;
        Ok(self.faulty(self.inner.begin_pipeline().await?))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.faults.pause().await;
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.faults.pause().await;
        self.inner.health().await
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

/// A transaction or a pipeline of such an engine.
pub struct Faulty<T> {
    inner: Arc<T>,
    faults: Arc<Faults>,
    /// Before it is too old.
    reads_left: AtomicUsize,
    /// Whether a commit of a pipeline has failed here.
    is_poisoned: Arc<AtomicBool>,
}

impl<T: Snapshot> Faulty<T> {
    /// Called before each read.
    async fn enter(&self) -> Result<(), StorageError> {
        self.faults.pause().await;
        let one_less = |left: usize| left.checked_sub(1);
        match self.reads_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => Err(StorageError::too_old("at random")),
        }
    }
}

impl<T: Snapshot> Snapshot for Faulty<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.enter().await?;
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.enter().await?;
        self.inner.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.enter().await?;
        let limit = ScanLimit { max_rows: self.faults.rows(limit.max_rows), ..limit };
        self.inner.scan(range, limit).await
    }
}

fn unknown() -> CommitError {
    CommitError::Unknown("at random".to_owned())
}

impl<T: Transaction> Transaction for Faulty<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.faults.pause().await;
        let fate = self.faults.fate(&commit);
        // Nobody else has it.
        let Some(inner) = Arc::into_inner(self.inner) else { return Err(CommitError::Conflict) };
        let outcome = match fate {
            Fate::Conflict => Err(CommitError::Conflict),
            _ if self.reads_left.into_inner() == 0 => Err(CommitError::Conflict),
            // What writes nothing is decided at once.
            _ if commit.writes().is_empty() => inner.commit(commit).await,
            Fate::AsItShould => inner.commit(commit).await,
            Fate::UnknownLost => Err(unknown()),
            Fate::UnknownKept => inner.commit(commit).await.and_then(|()| Err(unknown())),
            Fate::UnknownLate => {
                let faults = Arc::clone(&self.faults);
                tokio::spawn(async move {
                    for _ in 0..8 {
                        faults.pause().await;
                    }
                    let _ = inner.commit(commit).await;
                });
                Err(unknown())
            }
        };
        self.faults.pause().await;
        outcome
    }
}

impl<P: CommitPipeline> CommitPipeline for Faulty<P> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let fate = match commit.writes().is_empty() {
            true => Fate::AsItShould,
            false => self.faults.fate(&commit),
        };
        let was_poisoned = self.is_poisoned();
        if fate != Fate::AsItShould {
            self.is_poisoned.store(true, Ordering::Relaxed);
        }
        let faults = Arc::clone(&self.faults);
        // In the order of the calls.
        let queued = match fate {
            _ if was_poisoned => None,
            Fate::AsItShould | Fate::UnknownKept => Some(self.inner.submit(commit)),
            Fate::Conflict | Fate::UnknownLost => None,
            Fate::UnknownLate => {
                let (inner, faults) = (Arc::clone(&self.inner), Arc::clone(&faults));
                tokio::spawn(async move {
                    for _ in 0..8 {
                        faults.pause().await;
                    }
                    let _ = inner.submit(commit).await;
                });
                None
            }
        };
        async move {
            faults.pause().await;
            let outcome = match queued {
                Some(queued) => queued.await,
                None if was_poisoned || fate == Fate::Conflict => Err(CommitError::Conflict),
                None => Err(unknown()),
            };
            faults.pause().await;
            if fate == Fate::UnknownKept { outcome.and_then(|()| Err(unknown())) } else { outcome }
        }
    }

    fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed) || self.inner.is_poisoned()
    }
}
