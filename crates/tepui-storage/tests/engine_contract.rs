//! The contract, in memory.

#[path = "steps/engine.rs"]
mod steps;

use proptest::prelude::*;
use tepui_storage::MemoryEngine;
use tepui_storage::contract::engine::{Subject, check};

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..400)) {
        steps::run(InMemory(MemoryEngine::new()), &steps);
    }
}
