//! What the suites share.

use std::time::Duration;
use tepui_postgres::{PostgresEngine, PostgresOptions};
use tepui_postgres_testing::PostgresServer;
use tepui_storage::{Commit, CommitError, Engine, Key, Snapshot, StorageError, Transaction, Value, Write};

/// An engine in a schema of its own.
pub(crate) async fn engine(server: &PostgresServer) -> PostgresEngine {
    open(&server.new_schema()).await
}

pub(crate) async fn open(url: &str) -> PostgresEngine {
    open_with(PostgresOptions::new(url)).await
}

pub(crate) async fn open_with(options: PostgresOptions) -> PostgresEngine {
    PostgresEngine::init(&PostgresOptions::new(options.url.clone())).await.expect("a schema can be made");
    PostgresEngine::open(options).await.expect("it can be opened")
}

/// Options with a time that tests can wait for.
pub(crate) fn impatient(url: &str, timeout: Duration) -> PostgresOptions {
    PostgresOptions { timeout, ..PostgresOptions::new(url) }
}

pub(crate) fn put(key: impl Into<Key>, value: impl Into<Value>) -> Write {
    Write::Put(key.into(), value.into())
}

pub(crate) async fn commit(engine: &PostgresEngine, commit: impl Into<Commit>) -> Result<(), CommitError> {
    engine.begin().await?.commit(commit.into()).await
}

pub(crate) async fn get(engine: &PostgresEngine, key: &str) -> Result<Option<Value>, StorageError> {
    engine.begin().await?.get(key.as_bytes()).await
}
