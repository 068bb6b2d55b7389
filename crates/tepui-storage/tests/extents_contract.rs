//! The contract, in memory.

#[path = "steps/extents.rs"]
mod steps;

use proptest::prelude::*;
use tepui_storage::MemoryExtents;
use tepui_storage::contract::extents::{Subject, check};
use tepui_storage::dynamic::DynExtents;

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

/// Extents in memory in a box.
struct Boxed(DynExtents, MemoryExtents);

impl Boxed {
    fn new() -> Self {
        let extents = MemoryExtents::new();
        Self(DynExtents::new(extents.clone()), extents)
    }
}

impl Subject for Boxed {
    type Extents = DynExtents;

    fn extents(&self) -> &DynExtents {
        &self.0
    }

    fn reopen(&mut self) {}

    fn used_bytes(&self) -> u64 {
        self.1.bytes()
    }
}

#[tokio::test]
async fn extents_in_a_box_keep_the_contract() {
    check(&mut Boxed::new()).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(steps::step(), 1..60)) {
        steps::run(InMemory(MemoryExtents::new()), &steps);
    }

    #[test]
    fn extents_in_a_box_agree_with_the_model(steps in proptest::collection::vec(steps::step(), 1..60)) {
        steps::run(Boxed::new(), &steps);
    }
}
