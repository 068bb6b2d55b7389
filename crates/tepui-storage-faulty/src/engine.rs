//! The engine.

use crate::late::LateCommits;
use crate::{AT_RANDOM, Calm, Fate, Faults, Rates};
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
    late: Arc<LateCommits>,
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
        Self { inner: Arc::new(inner), faults: Arc::new(faults), late: Arc::default() }
    }

    /// Lets every commit happen now that would happen later: no outcome is open any more.
    pub async fn settle(&self) {
        self.late.finish().await;
    }

    /// While this is held, nothing goes wrong.
    pub fn calm(&self) -> Calm {
        self.faults.calm()
    }

    /// The engine without faults.
    pub fn inner(&self) -> &E {
        &self.inner
    }

    fn faulty<T>(&self, inner: T) -> Faulty<T> {
        let reads_left = AtomicUsize::new(self.faults.lifetime());
        let (faults, late) = (Arc::clone(&self.faults), Arc::clone(&self.late));
        Faulty { inner: Arc::new(inner), faults, late, reads_left, is_poisoned: Arc::default() }
    }

    /// Called first by every call.
    async fn enter(&self) -> Result<(), StorageError> {
        self.late.advance().await;
        self.faults.enter().await
    }
}

impl<E: Engine> Engine for FaultyEngine<E> {
    type Transaction = Faulty<E::Transaction>;
    type Pipeline = Faulty<E::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        self.enter().await?;
        Ok(self.faulty(self.inner.begin().await?))
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        self.enter().await?;
        Ok(self.faulty(self.inner.begin_pipeline().await?))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.enter().await?;
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.enter().await?;
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
    late: Arc<LateCommits>,
    /// Before it is too old.
    reads_left: AtomicUsize,
    /// Whether a commit of a pipeline has failed here.
    is_poisoned: Arc<AtomicBool>,
}

impl<T: Snapshot> Faulty<T> {
    /// Called before each read.
    async fn enter(&self) -> Result<(), StorageError> {
        self.faults.enter_step().await?;
        let one_less = |left: usize| left.checked_sub(1);
        match self.reads_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => Err(StorageError::too_old(AT_RANDOM)),
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

fn unavailable() -> CommitError {
    StorageError::unavailable(AT_RANDOM).into()
}

fn unknown() -> CommitError {
    CommitError::Unknown(AT_RANDOM.to_owned())
}

impl<T: Transaction> Transaction for Faulty<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.late.advance().await;
        self.faults.pause().await;
        let fate = self.faults.fate(&commit);
        // Nobody else has it.
        let Some(inner) = Arc::into_inner(self.inner) else { return Err(CommitError::Conflict) };
        let outcome = match fate {
            Fate::Conflict => Err(CommitError::Conflict),
            Fate::Unavailable => Err(unavailable()),
            _ if self.reads_left.into_inner() == 0 => Err(CommitError::Conflict),
            // What writes nothing is decided at once.
            _ if commit.writes().is_empty() => inner.commit(commit).await,
            Fate::AsItShould => inner.commit(commit).await,
            Fate::UnknownLost => Err(unknown()),
            Fate::UnknownKept => inner.commit(commit).await.and_then(|()| Err(unknown())),
            Fate::UnknownLate => {
                self.late.add(&self.faults, async move { drop(inner.commit(commit).await) });
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
        let was_poisoned = self.is_ended();
        if fate != Fate::AsItShould {
            self.is_poisoned.store(true, Ordering::Relaxed);
        }
        // In the order of the calls.
        let queued = match fate {
            _ if was_poisoned => None,
            Fate::AsItShould | Fate::UnknownKept => Some(self.inner.submit(commit)),
            Fate::Conflict | Fate::Unavailable | Fate::UnknownLost => None,
            Fate::UnknownLate => {
                let inner = Arc::clone(&self.inner);
                self.late.add(&self.faults, async move { drop(inner.submit(commit).await) });
                None
            }
        };
        let (faults, late) = (Arc::clone(&self.faults), Arc::clone(&self.late));
        async move {
            faults.pause().await;
            let outcome = match (queued, fate) {
                (Some(queued), Fate::UnknownKept) => queued.await.and_then(|()| Err(unknown())),
                (Some(queued), _) => queued.await,
                (None, Fate::UnknownLost | Fate::UnknownLate) if !was_poisoned => Err(unknown()),
                (None, Fate::Unavailable) if !was_poisoned => Err(unavailable()),
                (None, _) => Err(CommitError::Conflict),
            };
            late.advance().await;
            faults.pause().await;
            outcome
        }
    }

    fn is_ended(&self) -> bool {
        self.is_poisoned.load(Ordering::Relaxed) || self.inner.is_ended()
    }
}
