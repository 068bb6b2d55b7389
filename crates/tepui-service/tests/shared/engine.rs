//! An engine in memory that records scans, and fails on demand.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Engine, EngineError, KeyRange, MemoryEngine, ScanLimit, ScanPage,
    Snapshot, Value, Version,
};

#[derive(Clone)]
pub(crate) struct TestEngine {
    inner: Arc<MemoryEngine>,
    pub(crate) scanned: Arc<Mutex<Scanned>>,
    /// What becomes of the next commit.
    pub(crate) fault: Arc<Mutex<Option<Fault>>>,
    /// How often the next commits let others run before they begin.
    pub(crate) delays: Arc<Mutex<VecDeque<usize>>>,
}

/// What was scanned.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) rows: usize,
    pub(crate) ranges: Vec<KeyRange>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Refused,
    /// Nobody can tell, and nothing was written.
    UnknownLost,
    /// Nobody can tell, and all was written.
    UnknownKept,
}

pub(crate) struct TestSnapshot {
    inner: <MemoryEngine as Engine>::Snapshot,
    scanned: Arc<Mutex<Scanned>>,
}

impl TestEngine {
    pub(crate) fn new() -> Self {
        Self {
            inner: Arc::new(MemoryEngine::new()),
            scanned: Arc::default(),
            fault: Arc::default(),
            delays: Arc::default(),
        }
    }
}

impl Engine for TestEngine {
    type Snapshot = TestSnapshot;

    async fn snapshot(&self) -> Result<TestSnapshot, EngineError> {
        Ok(TestSnapshot { inner: self.inner.snapshot().await?, scanned: Arc::clone(&self.scanned) })
    }

    fn submit(
        &self,
        chain: Option<&CommitPipeline>,
        commit: Commit,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        let engine = Arc::clone(&self.inner);
        let (faults, delays) = (Arc::clone(&self.fault), Arc::clone(&self.delays));
        let chained = chain.map(|chain| self.inner.submit(Some(chain), commit.clone()));
        async move {
            if let Some(outcome) = chained {
                return outcome.await;
            }
            let delay = delays.lock().unwrap().pop_front().unwrap_or(0);
            for _ in 0..delay {
                tokio::task::yield_now().await;
            }
            let fault = faults.lock().unwrap().take();
            match fault {
                None => engine.submit(None, commit).await,
                Some(Fault::Refused) => Err(CommitError::Engine(EngineError::Unavailable("full".to_owned()))),
                Some(Fault::UnknownLost) => Err(CommitError::Unknown("lost".to_owned())),
                Some(Fault::UnknownKept) => {
                    engine.submit(None, commit).await?;
                    Err(CommitError::Unknown("kept".to_owned()))
                }
            }
        }
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), EngineError> {
        self.inner.reclaim(range).await
    }

    fn health(&self) -> Result<(), EngineError> {
        self.inner.health()
    }
}

impl Snapshot for TestSnapshot {
    fn version(&self) -> Version {
        self.inner.version()
    }

    fn catalogue_version(&self) -> Version {
        self.inner.catalogue_version()
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.inner.get(key).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let page = self.inner.scan(range, limit).await?;
        let mut scanned = self.scanned.lock().unwrap();
        scanned.rows += page.rows.len();
        scanned.ranges.push(range.clone());
        Ok(page)
    }
}
