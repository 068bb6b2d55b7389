//! The engine that the tests run on: memory, or a space of its own in a database over a network.

#[cfg_attr(not(feature = "test-services"), path = "postgres.rs")]
#[cfg_attr(feature = "test-services", path = "tikv.rs")]
pub(crate) mod database;

use std::sync::Arc;
use tepui_storage::dynamic::{DynEngine, DynPipeline, DynTransaction};
use tepui_storage::{Engine, Key, KeyRange, Limits, MemoryEngine, StorageError, Value};
use tokio::sync::OnceCell;

#[derive(Clone)]
pub(crate) struct TestedEngine {
    /// One in a database is opened when it is first used, since it belongs to the runtime of its test.
    engine: Arc<OnceCell<DynEngine>>,
    limits: Limits,
}

impl TestedEngine {
    pub(crate) fn in_memory() -> Self {
        let engine = MemoryEngine::new();
        let limits = engine.limits();
        Self { engine: Arc::new(OnceCell::new_with(Some(DynEngine::new(engine)))), limits }
    }

    pub(crate) fn in_database() -> Self {
        Self { engine: Arc::default(), limits: database::LIMITS }
    }

    async fn opened(&self) -> &DynEngine {
        self.engine.get_or_init(|| async { DynEngine::new(database::open().await) }).await
    }
}

impl Engine for TestedEngine {
    type Transaction = DynTransaction;
    type Pipeline = DynPipeline;

    async fn begin(&self) -> Result<DynTransaction, StorageError> {
        self.opened().await.begin().await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.opened().await.get_many(keys).await
    }

    async fn begin_pipeline(&self) -> Result<DynPipeline, StorageError> {
        self.opened().await.begin_pipeline().await
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.opened().await.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.opened().await.health().await
    }

    fn limits(&self) -> Limits {
        self.limits
    }
}
