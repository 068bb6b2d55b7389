//! The contract, on every engine.

use proptest::prelude::*;
use tempfile::TempDir;
use tepui_engine::contract::{self, Step, Subject};
use tepui_engine::{DiskEngine, DiskOptions, MemoryEngine};

struct InMemory(MemoryEngine);

impl Subject for InMemory {
    type Engine = MemoryEngine;

    fn engine(&self) -> &MemoryEngine {
        &self.0
    }

    fn reopen(&mut self) {}
}

struct OnDisk {
    engine: Option<DiskEngine>,
    directory: TempDir,
}

impl OnDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let engine = Some(Self::open(&directory));
        Self { engine, directory }
    }

    fn open(directory: &TempDir) -> DiskEngine {
        DiskEngine::open(DiskOptions::new(directory.path())).expect("the directory can be opened")
    }
}

impl Subject for OnDisk {
    type Engine = DiskEngine;

    fn engine(&self) -> &DiskEngine {
        self.engine.as_ref().expect("the engine is open")
    }

    fn reopen(&mut self) {
        self.engine = None;
        self.engine = Some(Self::open(&self.directory));
    }
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    contract::check(&mut InMemory(MemoryEngine::new())).await;
}

#[tokio::test]
async fn disk_keeps_the_contract() {
    contract::check(&mut OnDisk::new()).await;
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..48;
    let write = (key.clone(), proptest::option::weighted(0.8, 0u16..300));
    prop_oneof![
        10 => (0usize..6, proptest::collection::vec(key.clone(), 0..3), proptest::collection::vec(write, 0..6))
            .prop_map(|(on, guards, writes)| Step::Commit { on, guards, writes }),
        2 => Just(Step::Keep),
        1 => (0usize..6).prop_map(Step::Release),
        4 => (0usize..6, key.clone()).prop_map(|(on, key)| Step::Get { on, key }),
        4 => (0usize..6, key.clone(), key, 1usize..8, 0usize..900).prop_map(
            |(on, from, to, max_rows, max_bytes)| Step::Scan { on, from, to, max_rows, max_bytes }
        ),
    ]
}

fn run<S: Subject>(mut subject: S, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(contract::follow(&mut subject, steps));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(step(), 1..400)) {
        run(InMemory(MemoryEngine::new()), &steps);
    }
}

proptest! {
    // Each case opens a store, so there are fewer of them.
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disk_agrees_with_the_model(
        mut steps in proptest::collection::vec(step(), 1..150),
        reopenings in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        for at in reopenings {
            steps.insert(at.index(steps.len()), Step::Reopen);
        }
        run(OnDisk::new(), &steps);
    }
}
