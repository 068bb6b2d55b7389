//! The contract, in memory.

#[path = "steps/extents.rs"]
mod steps;

use proptest::prelude::*;
use tepui_storage::MemoryExtents;
use tepui_storage::contract::extents::{Subject, check};

struct InMemory(MemoryExtents);

impl Subject for InMemory {
    type Extents = MemoryExtents;

    fn extents(&self) -> &MemoryExtents {
        &self.0
    }

    fn reopen(&mut self) {}

    fn used_bytes(&self) -> u64 {
        self.0.bytes()
    }
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    check(&mut InMemory(MemoryExtents::new())).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..60)) {
        steps::run(InMemory(MemoryExtents::new()), &steps);
    }
}
