//! The contract, on disk.

#[path = "../../tepui-storage/tests/steps/engine.rs"]
mod steps;

use proptest::prelude::*;
use tempfile::TempDir;
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::KeyRange;
use tepui_storage::contract::engine::{Step, Subject, check};

struct OnDisk {
    resident_range: KeyRange,
    engine: Option<DiskEngine>,
    directory: TempDir,
}

impl OnDisk {
    fn new() -> Self {
        Self::with_resident(KeyRange::default())
    }

    fn with_resident(resident_range: KeyRange) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let mut subject = Self { resident_range, engine: None, directory };
        subject.reopen();
        subject
    }
}

impl Subject for OnDisk {
    type Engine = DiskEngine;

    fn engine(&self) -> &DiskEngine {
        self.engine.as_ref().expect("the engine is open")
    }

    fn reopen(&mut self) {
        self.engine = None;
        let mut options = EngineOptions::new(self.directory.path());
        options.resident_range = self.resident_range.clone();
        self.engine = Some(DiskEngine::open(options).expect("the directory can be opened"));
    }
}

#[tokio::test]
async fn disk_keeps_the_contract() {
    check(&mut OnDisk::new()).await;
}

#[tokio::test]
async fn rows_that_stay_in_memory_are_as_the_others() {
    for (start, end) in [("a", "z"), ("g", "p"), ("reclaim/1/0500", "visible/b")] {
        check(&mut OnDisk::with_resident(KeyRange { start: start.into(), end: end.into() })).await;
    }
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
