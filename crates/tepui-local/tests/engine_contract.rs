//! The contract, on disk.

#[path = "../../tepui-storage/tests/steps/engine.rs"]
mod steps;

use proptest::prelude::*;
use tempfile::TempDir;
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::contract::engine::{Step, Subject, check};

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
        DiskEngine::open(EngineOptions::new(directory.path())).expect("the directory can be opened")
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
async fn disk_keeps_the_contract() {
    check(&mut OnDisk::new()).await;
}

proptest! {
    // Each case opens a store, so there are fewer of them.
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disk_agrees_with_the_model(
        mut steps in proptest::collection::vec(steps::step(), 1..150),
        reopenings in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        for at in reopenings {
            steps.insert(at.index(steps.len()), Step::Reopen);
        }
        steps::run(OnDisk::new(), &steps);
    }
}
