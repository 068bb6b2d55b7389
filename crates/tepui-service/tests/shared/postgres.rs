//! A PostgreSQL server that the tests start, and a schema for each of them.

use tepui_postgres::{PostgresEngine, PostgresOptions};
use tepui_postgres_testing::PostgresServer;
pub(crate) use tepui_postgres_testing::is_skipped;
use tepui_storage::Limits;

pub(crate) const NAME: &str = "postgres";
/// Tests that would take too long.
pub(crate) const TOO_LONG: [&str; 0] = [];
/// For the test program.
pub(crate) const ARGUMENTS: [&str; 0] = [];
/// How much less crowds do.
pub(crate) const SLOWER: usize = 1;
pub(crate) const LIMITS: Limits = Limits::LOCAL;

/// An empty store.
pub(crate) async fn open() -> PostgresEngine {
    let url = PostgresServer::shared().new_schema();
    let options = PostgresOptions { max_connections: 16, ..PostgresOptions::new(url) };
    PostgresEngine::init(&options).await.expect("a schema can be made");
    PostgresEngine::open(options).await.expect("it can be opened")
}
