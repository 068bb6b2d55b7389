//! Several nodes on one store, with clocks and numbers of their own, as they run behind a load balancer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
// Futures of gRPC are deep, where tepui-tikv compiles this.
#![recursion_limit = "256"]

mod database;
#[path = "../shared/drops.rs"]
mod drops;
#[path = "../shared/engine.rs"]
mod engine;
mod queues;
#[path = "../shared/remote.rs"]
mod remote;
#[path = "../shared/store.rs"]
mod store;
#[path = "../shared/writers.rs"]
mod writers;

use drops::{DropTest, Kind};
use remote::RemoteEngine;
use tepui_storage_faulty::{Faults, FaultyEngine, Rates};

const ROUNDS: usize = 200;

#[tokio::test]
async fn a_dropped_table_stays_dropped() {
    DropTest::new(RemoteEngine::new()).run(Kind::Table, ROUNDS, async || {}).await;
}

#[tokio::test]
async fn a_dropped_queue_stays_dropped() {
    DropTest::new(RemoteEngine::new()).run(Kind::Queue, ROUNDS, async || {}).await;
}

#[tokio::test]
async fn a_dropped_container_stays_dropped() {
    DropTest::new(RemoteEngine::new()).run(Kind::Container, ROUNDS, async || {}).await;
}

/// The same where commits conflict, outcomes are open, and commits happen late.
async fn on_a_faulty_store(kind: Kind) {
    let engine = FaultyEngine::in_memory(Faults::from_environment(Rates::ALL));
    let settled = engine.clone();
    DropTest::new(engine).run(kind, ROUNDS, async || settled.settle().await).await;
}

#[tokio::test]
async fn a_dropped_table_stays_dropped_on_a_faulty_store() {
    on_a_faulty_store(Kind::Table).await;
}

#[tokio::test]
async fn a_dropped_queue_stays_dropped_on_a_faulty_store() {
    on_a_faulty_store(Kind::Queue).await;
}

#[tokio::test]
async fn a_dropped_container_stays_dropped_on_a_faulty_store() {
    on_a_faulty_store(Kind::Container).await;
}
