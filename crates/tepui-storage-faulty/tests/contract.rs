//! The contracts are kept: to the letter if everything only takes long, and as far as they promise anything at all if
//! commits conflict, have unknown outcomes, calls are refused and transactions become too old.

#[path = "../../tepui-storage/tests/steps/engine.rs"]
mod engine_steps;
#[path = "../../tepui-storage/tests/steps/extents.rs"]
mod extents_steps;

use proptest::prelude::*;
use tepui_storage::contract::{engine, extents};
use tepui_storage::{MemoryEngine, MemoryExtents};
use tepui_storage_faulty::{Faults, FaultyEngine, FaultyExtents, Rates};

struct Subject {
    engine: FaultyEngine,
    extents: FaultyExtents<MemoryExtents>,
    fails: bool,
}

impl Subject {
    fn new(rates: Rates) -> Self {
        let engine = FaultyEngine::new(MemoryEngine::new(), Faults::from_environment(rates));
        let extents = FaultyExtents::new(MemoryExtents::new(), Faults::from_environment(rates));
        Self { engine, extents, fails: rates.conflict > 0 }
    }
}

impl engine::Subject for Subject {
    type Engine = FaultyEngine;

    fn engine(&self) -> &FaultyEngine {
        &self.engine
    }

    fn reopen(&mut self) {}

    fn fails_at_random(&self) -> bool {
        self.fails
    }
}

impl extents::Subject for Subject {
    type Extents = FaultyExtents<MemoryExtents>;

    fn extents(&self) -> &Self::Extents {
        &self.extents
    }

    fn reopen(&mut self) {}

    fn used_bytes(&self) -> u64 {
        // They are swept when the process has ended, which memory never has.
        let orphaned: u64 = self.extents.orphans().iter().map(|extent| extent.bytes).sum();
        self.extents.bytes() - orphaned
    }
}

#[tokio::test]
async fn an_engine_that_takes_long_keeps_the_contract() {
    engine::check(&mut Subject::new(Rates::SLOW)).await;
}

/// Cases of many commits have to succeed as a whole now and then.
const RARE: Rates = Rates {
    conflict: 96,
    unknown_kept: 192,
    unknown_lost: 192,
    unknown_late: 192,
    too_old: 40,
    unavailable: 192,
    ..Rates::ALL
};

#[tokio::test]
async fn an_engine_that_fails_keeps_the_contract() {
    for _ in 0..4 {
        engine::check(&mut Subject::new(RARE)).await;
    }
}

#[tokio::test]
async fn extents_that_take_long_keep_the_contract() {
    extents::check(&mut Subject::new(Rates::SLOW)).await;
}

#[tokio::test]
async fn extents_that_fail_keep_the_contract() {
    extents::check(&mut Subject::new(Rates { unavailable: 12, ..Rates::ALL })).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_engine_that_fails_agrees_with_the_model(steps in prop::collection::vec(engine_steps::step(), 1..200)) {
        let rates = Rates { unknown_kept: 8, unknown_lost: 12, unknown_late: 12, too_old: 4, ..Rates::ALL };
        engine_steps::run(Subject::new(rates), &steps);
    }

    #[test]
    fn extents_that_fail_agree_with_the_model(steps in prop::collection::vec(extents_steps::step(), 1..30)) {
        extents_steps::run(Subject::new(Rates { unavailable: 12, ..Rates::ALL }), &steps);
    }
}
