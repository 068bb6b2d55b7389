//! The engine that the tests run on: memory, or a schema of its own in PostgreSQL.

use std::sync::Arc;
use tepui_postgres::{PostgresEngine, PostgresOptions};
use tepui_postgres_testing::PostgresServer;
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, MemoryEngine, ScanLimit, ScanPage,
    Snapshot, StorageError, Transaction, Value,
};
use tokio::sync::OnceCell;

#[derive(Clone)]
pub(crate) enum TestedEngine {
    Memory(MemoryEngine),
    Postgres(Arc<LazyPostgres>),
}

/// Opened when it is first used, since it belongs to the runtime of its test.
pub(crate) struct LazyPostgres {
    engine: OnceCell<PostgresEngine>,
}

impl LazyPostgres {
    async fn opened(&self) -> &PostgresEngine {
        let open = async || {
            let url = PostgresServer::shared().new_schema();
            let options = PostgresOptions { max_connections: 16, ..PostgresOptions::new(url) };
            PostgresEngine::init(&options).await.expect("a schema can be made");
            PostgresEngine::open(options).await.expect("it can be opened")
        };
        self.engine.get_or_init(open).await
    }
}

impl TestedEngine {
    pub(crate) fn in_memory() -> Self {
        Self::Memory(MemoryEngine::new())
    }

    pub(crate) fn in_postgresql() -> Self {
        Self::Postgres(Arc::new(LazyPostgres { engine: OnceCell::new() }))
    }
}

/// A transaction or a pipeline of one of them.
pub(crate) enum Either<M, P> {
    Memory(M),
    Postgres(P),
}

macro_rules! either {
    ($self:expr, $inner:ident => $call:expr) => {
        match $self {
            Either::Memory($inner) => $call,
            Either::Postgres($inner) => $call,
        }
    };
}

impl Engine for TestedEngine {
    type Transaction = Either<<MemoryEngine as Engine>::Transaction, <PostgresEngine as Engine>::Transaction>;
    type Pipeline = Either<<MemoryEngine as Engine>::Pipeline, <PostgresEngine as Engine>::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        Ok(match self {
            Self::Memory(engine) => Either::Memory(engine.begin().await?),
            Self::Postgres(engine) => Either::Postgres(engine.opened().await.begin().await?),
        })
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        match self {
            Self::Memory(engine) => engine.get_many(keys).await,
            Self::Postgres(engine) => engine.opened().await.get_many(keys).await,
        }
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Ok(match self {
            Self::Memory(engine) => Either::Memory(engine.begin_pipeline().await?),
            Self::Postgres(engine) => Either::Postgres(engine.opened().await.begin_pipeline().await?),
        })
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        match self {
            Self::Memory(engine) => engine.reclaim(range).await,
            Self::Postgres(engine) => engine.opened().await.reclaim(range).await,
        }
    }

    async fn health(&self) -> Result<(), StorageError> {
        match self {
            Self::Memory(engine) => engine.health().await,
            Self::Postgres(engine) => engine.opened().await.health().await,
        }
    }

    fn limits(&self) -> Limits {
        match self {
            Self::Memory(engine) => engine.limits(),
            Self::Postgres(_) => Limits::LOCAL,
        }
    }
}

impl<M: Snapshot, P: Snapshot> Snapshot for Either<M, P> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        either!(self, inner => inner.get(key).await)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        either!(self, inner => inner.get_many(keys).await)
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        either!(self, inner => inner.scan(range, limit).await)
    }
}

impl<M: Transaction, P: Transaction> Transaction for Either<M, P> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        either!(self, inner => inner.commit(commit).await)
    }
}

impl<M: CommitPipeline, P: CommitPipeline> CommitPipeline for Either<M, P> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        // Queued now, whoever awaits it.
        let submitted = match self {
            Self::Memory(inner) => Either::Memory(inner.submit(commit)),
            Self::Postgres(inner) => Either::Postgres(inner.submit(commit)),
        };
        async move { either!(submitted, outcome => outcome.await) }
    }

    fn is_ended(&self) -> bool {
        either!(self, inner => inner.is_ended())
    }
}
