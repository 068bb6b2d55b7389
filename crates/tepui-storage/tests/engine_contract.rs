//! The contract, in memory.

#[path = "steps/engine.rs"]
mod steps;

use proptest::prelude::*;
use std::sync::Arc;
use tepui_storage::MemoryEngine;
use tepui_storage::contract::engine::{Subject, check};
use tepui_storage::rewindable::RewindableEngine;

struct InMemory(MemoryEngine);

impl Subject for InMemory {
    type Engine = MemoryEngine;

    fn engine(&self) -> &MemoryEngine {
        &self.0
    }

    fn reopen(&mut self) {}
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    check(&mut InMemory(MemoryEngine::new())).await;
}

/// On top of an engine in memory.
struct Rewindable(RewindableEngine<MemoryEngine>);

impl Rewindable {
    fn on() -> Self {
        Self(RewindableEngine::on(Arc::new(MemoryEngine::new())))
    }
}

impl Subject for Rewindable {
    type Engine = RewindableEngine<MemoryEngine>;

    fn engine(&self) -> &Self::Engine {
        &self.0
    }

    fn reopen(&mut self) {}
}

#[tokio::test]
async fn a_rewindable_engine_keeps_the_contract() {
    check(&mut Rewindable::on()).await;
    check(&mut Rewindable(RewindableEngine::off(Arc::new(MemoryEngine::new())))).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..400)) {
        steps::run(InMemory(MemoryEngine::new()), &steps);
    }

    #[test]
    fn a_rewindable_engine_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..400)) {
        steps::run(Rewindable::on(), &steps);
    }
}
