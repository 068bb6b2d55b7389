//! The engine.

use crate::connect::Connector;
use crate::options::{Endpoints, PostgresOptions};
use crate::pool::Pool;
use crate::schema::{self, SchemaChange};
use crate::transaction::{PostgresTransaction, Session};
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::stats::RemoteStats;
use tepui_storage::{Engine, Key, KeyRange, Limits, StorageError, TransactionPipeline, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

/// How long an answer about health is repeated.
const HEALTH_AGE: Duration = Duration::from_secs(1);

/// Keeps everything in a PostgreSQL database. A clone is the same engine, and any number of them, in any number of processes,
/// can be on one database.
///
/// It belongs to the Tokio runtime in which it was opened.
#[derive(Clone)]
pub struct PostgresEngine {
    pool: Arc<Pool>,
    health: Arc<Mutex<Option<KnownHealth>>>,
}

/// What was found out, and when.
type KnownHealth = (Instant, Result<(), StorageError>);

impl PostgresEngine {
    /// Makes the schema in the database, or upgrades it. It may run at any time, also twice at once.
    pub async fn init(options: &PostgresOptions) -> Result<SchemaChange, StorageError> {
        let connector = connector(options)?;
        let work = async { schema::init(&connector.connect().await?.client).await };
        match timeout_at(Instant::now() + options.timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(StorageError::unavailable("PostgreSQL did not answer in time")),
        }
    }

    /// Opens a database that has the schema.
    pub async fn open(options: PostgresOptions) -> Result<Self, StorageError> {
        if options.max_connections == 0 {
            return Err(StorageError::failed("at least one connection to PostgreSQL is needed"));
        }
        let connector = connector(&options)?;
        let deadline = Instant::now() + options.timeout;
        let check = async {
            let connection = connector.connect().await?;
            schema::check(&connection.client).await?;
            schema::warn_if_not_durable(&connection).await;
            Ok(())
        };
        match timeout_at(deadline, check).await {
            Ok(checked) => checked?,
            Err(_) => return Err(StorageError::unavailable("PostgreSQL did not answer in time")),
        }
        let pool = Pool::new(connector, options.max_connections, options.timeout);
        // The statements can be prepared, so the tables are what they should be.
        drop(pool.acquire(deadline).await?);
        Ok(Self { pool, health: Arc::default() })
    }

    /// What it has counted.
    pub fn stats(&self) -> &Arc<RemoteStats> {
        self.pool.stats()
    }
}

fn connector(options: &PostgresOptions) -> Result<Connector, StorageError> {
    // The server has to say that a row is locked before the caller takes it for dead: that is a definite answer, and the
    // connection is as good as before.
    let lock_timeout = options.timeout / 2;
    Connector::new(Endpoints::parse(&options.url, options.timeout)?, lock_timeout)
}

impl Engine for PostgresEngine {
    type Transaction = PostgresTransaction;
    type Pipeline = TransactionPipeline<PostgresTransaction>;

    /// Asks nothing of the server, so it never fails.
    async fn begin(&self) -> Result<PostgresTransaction, StorageError> {
        Ok(PostgresTransaction::new(Arc::clone(&self.pool), self.limits()))
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let (began, deadline) = (Instant::now(), self.pool.deadline());
        let read = async {
            let session = Session::without_transaction(&self.pool, deadline).await?;
            let values = session.get_many(keys, deadline).await;
            session.finish();
            values
        };
        let values = Box::pin(read).await;
        self.pool.stats().read.observe_time(began.elapsed());
        values
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Ok(TransactionPipeline::new(self.begin().await?, self.limits()))
    }

    async fn reclaim(&self, mut range: KeyRange) -> Result<(), StorageError> {
        if range.start >= range.end {
            return Ok(());
        }
        loop {
            let deadline = self.pool.deadline();
            let session = Session::without_transaction(&self.pool, deadline).await?;
            let removed = session.reclaim_some(&range, deadline).await;
            session.finish();
            match removed? {
                (0, _) => return Ok(()),
                // What is before it is gone: the server need not look at its remains.
                (_, Some(last)) => range.start = range.start.max(last),
                (_, None) => {}
            }
        }
    }

    async fn health(&self) -> Result<(), StorageError> {
        let mut known = self.health.lock().await;
        if let Some((at, health)) = &*known
            && at.elapsed() < HEALTH_AGE
        {
            return health.clone();
        }
        let deadline = self.pool.deadline();
        let check = async {
            let session = Session::without_transaction(&self.pool, deadline).await?;
            let health = session.accepts_writes(deadline).await;
            session.finish();
            health
        };
        let health = check.await;
        *known = Some((Instant::now(), health.clone()));
        health
    }

    fn limits(&self) -> Limits {
        Limits::LOCAL
    }
}
