//! The contract, on every store.

use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;
use tepui_extents::contract::{self, Step, Subject};
use tepui_extents::{DiskExtents, DiskOptions, MemoryExtents};

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

struct OnDisk {
    extents: Option<DiskExtents>,
    directory: TempDir,
    volume_bytes: u64,
}

impl OnDisk {
    fn new(volume_bytes: u64) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let mut subject = Self { extents: None, directory, volume_bytes };
        subject.reopen();
        subject
    }
}

impl Subject for OnDisk {
    type Extents = DiskExtents;

    fn extents(&self) -> &DiskExtents {
        self.extents.as_ref().expect("the store is open")
    }

    fn reopen(&mut self) {
        if let Some(extents) = self.extents.take() {
            extents.close();
        }
        let mut options = DiskOptions::new(self.directory.path().join("extents"));
        options.volume_bytes = self.volume_bytes;
        // Small, so that writers get there.
        options.sync_step_bytes = 1 << 20;
        self.extents = Some(DiskExtents::open(options).expect("the folder can be opened"));
    }

    fn used_bytes(&self) -> u64 {
        used_bytes(&self.directory.path().join("extents"))
    }
}

#[cfg(target_os = "linux")]
fn used_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(folder).expect("the folder can be read");
    // A file may be deleted meanwhile.
    files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

/// Elsewhere space is given back by whole files only.
#[cfg(not(target_os = "linux"))]
fn used_bytes(_: &Path) -> u64 {
    0
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    contract::check(&mut InMemory(MemoryExtents::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_keeps_the_contract() {
    contract::check(&mut OnDisk::new(1 << 30)).await;
}

#[tokio::test]
async fn disk_keeps_the_contract_in_small_volumes() {
    contract::check(&mut OnDisk::new(100_000)).await;
}

fn step() -> impl Strategy<Value = Step> {
    let bytes =
        prop_oneof![0usize..5, 4000usize..4200, 65_000usize..66_000, 0usize..300_000, 0usize..1_200_000];
    prop_oneof![
        6 => (bytes.clone(), 1000usize..200_000).prop_map(|(bytes, piece)| Step::Write { bytes, piece }),
        1 => bytes.prop_map(|bytes| Step::Abandon { bytes }),
        6 => (any::<usize>(), any::<usize>(), any::<usize>())
            .prop_map(|(which, from, to)| Step::Read { which, from, to }),
        3 => (any::<usize>(), 1usize..4).prop_map(|(which, count)| Step::Free { which, count }),
        1 => Just(Step::FreeAgain),
    ]
}

fn run<S: Subject>(mut subject: S, steps: &[Step]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(contract::follow(&mut subject, steps));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in proptest::collection::vec(step(), 1..60)) {
        run(InMemory(MemoryExtents::new()), &steps);
    }

    #[test]
    fn disk_agrees_with_the_model(
        mut steps in proptest::collection::vec(step(), 1..60),
        reopenings in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        volume_bytes in prop_oneof![Just(1u64 << 30), 1u64..500_000],
    ) {
        for at in reopenings {
            steps.insert(at.index(steps.len()), Step::Reopen);
        }
        run(OnDisk::new(volume_bytes), &steps);
    }
}
