//! Rows in PostgreSQL, or what speaks its protocol.

use super::{OpenError, Rows};
use tepui_server::Config;
use tepui_server::config::StorageUrl;

#[cfg(feature = "postgres")]
pub(super) async fn open(url: &StorageUrl, config: &Config) -> Result<Rows, OpenError> {
    let engine = tepui_postgres::PostgresEngine::open(options(url, config)).await?;
    let stats = std::sync::Arc::clone(engine.stats());
    Ok(Rows { engine: tepui_storage::dynamic::DynEngine::new(engine), stats })
}

/// Makes or upgrades the tables. Returns what was done.
#[cfg(feature = "postgres")]
pub(super) async fn init(url: &StorageUrl, config: &Config) -> Result<String, OpenError> {
    use tepui_postgres::{PostgresEngine, SchemaChange};
    Ok(match PostgresEngine::init(&options(url, config)).await? {
        SchemaChange::Created => "the tables were created".to_owned(),
        SchemaChange::Upgraded { from } => format!("the tables were upgraded from version {from}"),
        SchemaChange::Unchanged => "the tables are there: nothing was changed".to_owned(),
    })
}

#[cfg(feature = "postgres")]
fn options(url: &StorageUrl, config: &Config) -> tepui_postgres::PostgresOptions {
    tepui_postgres::PostgresOptions {
        max_connections: config.storage_connections as usize,
        timeout: std::time::Duration::from_secs(config.storage_timeout_seconds),
        ..tepui_postgres::PostgresOptions::new(url.reveal())
    }
}

#[cfg(not(feature = "postgres"))]
pub(super) async fn open(_: &StorageUrl, _: &Config) -> Result<Rows, OpenError> {
    Err(OpenError::NoSupport { feature: "postgres" })
}

#[cfg(not(feature = "postgres"))]
pub(super) async fn init(_: &StorageUrl, _: &Config) -> Result<String, OpenError> {
    Err(OpenError::NoSupport { feature: "postgres" })
}
