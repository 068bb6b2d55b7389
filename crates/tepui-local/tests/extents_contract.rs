//! The contract, on disk.

#[path = "../../tepui-storage/tests/steps/extents.rs"]
mod steps;

use proptest::prelude::*;
use std::path::Path;
use tempfile::TempDir;
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::contract::extents::{Step, Subject, check};

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
        let mut options = ExtentsOptions::new(self.directory.path().join("extents"));
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

/// Elsewhere space is released by whole files only.
#[cfg(not(target_os = "linux"))]
fn used_bytes(_: &Path) -> u64 {
    0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_keeps_the_contract() {
    check(&mut OnDisk::new(1 << 30)).await;
}

#[tokio::test]
async fn disk_keeps_the_contract_in_small_volumes() {
    check(&mut OnDisk::new(100_000)).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disk_agrees_with_the_model(
        mut steps in proptest::collection::vec(steps::step(), 1..60),
        reopenings in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        volume_bytes in prop_oneof![Just(1u64 << 30), 1u64..500_000],
    ) {
        for at in reopenings {
            steps.insert(at.index(steps.len()), Step::Reopen);
        }
        steps::run(OnDisk::new(volume_bytes), &steps);
    }
}
