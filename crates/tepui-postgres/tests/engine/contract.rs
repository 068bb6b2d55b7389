//! The contract of engines.

use crate::shared::engine;
use crate::steps;
use proptest::prelude::*;
use tepui_postgres::PostgresEngine;
use tepui_postgres_testing::{PostgresServer, is_skipped};
use tepui_storage::contract::engine::{Liberties, Subject, check, follow};

struct Postgres(PostgresEngine);

impl Subject for Postgres {
    type Engine = PostgresEngine;

    fn engine(&self) -> &PostgresEngine {
        &self.0
    }

    /// The server keeps its rows, and has nothing to open.
    fn reopen(&mut self) {}

    fn liberties(&self) -> Liberties {
        Liberties {
            begins_with_the_first_read: true,
            ends_pipelines: true,
            // A row that was made and deleted.
            forgets_what_was_changed_back: true,
        }
    }
}

#[tokio::test]
async fn postgresql_keeps_the_contract() {
    if !is_skipped() {
        check(&mut Postgres(engine(PostgresServer::shared()).await)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_keeps_the_contract_on_two_threads() {
    if !is_skipped() {
        check(&mut Postgres(engine(PostgresServer::shared()).await)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn postgresql_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..300)) {
        if !is_skipped() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be built");
            let subject = runtime.block_on(engine(PostgresServer::shared()));
            runtime.block_on(follow(&mut Postgres(subject), &steps));
        }
    }
}
