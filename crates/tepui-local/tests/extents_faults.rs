//! Disks that fail, below the store: a shim in front of the C library fails syncs and lets them hang.
//! All other failures are in `extents_simulation/`.
//!
//! Each scenario runs in a child process of its own, which is this test binary with the shim loaded.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[path = "faults/harness.rs"]
mod harness;

use bytes::Bytes;
use harness::{Faults, in_child};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::contract::extents::content;
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StorageErrorKind};

struct Store {
    directory: TempDir,
}

impl Store {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory can be made") }
    }

    /// Under this name, for the shim fails writes there.
    fn folder(&self) -> PathBuf {
        self.directory.path().join("tepui-data/extents")
    }

    fn open(&self) -> DiskExtents {
        self.open_with(ExtentsOptions::new(self.folder()))
    }

    fn open_with(&self, options: ExtentsOptions) -> DiskExtents {
        DiskExtents::open(options).expect("the folder can be opened")
    }
}

async fn write(extents: &DiskExtents, content: &[u8]) -> Result<Extent, StorageError> {
    let mut writer = extents.begin().await?;
    for piece in content.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(piece)).await?;
    }
    writer.finish().await
}

async fn check(extents: &DiskExtents, extent: Extent, content: &[u8]) {
    let found = extents.read(extent, 0..extent.bytes).await.expect("an extent can be read");
    assert!(found.concat() == content, "{extent:?}");
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < give_up, "in vain waited until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The writer gets the error, the volume is not written again, and all others go on.
#[test]
fn a_failed_sync_is_never_acknowledged() {
    in_child("a_failed_sync_is_never_acknowledged", async |faults: Faults| {
        let store = Store::new();
        let extents = store.open();
        let (small, large) = (content(5000, 1), content(3_500_000, 2));
        let before = write(&extents, &small).await.expect("an extent can be written");
        let mut kept = vec![(before, small.clone())];
        for content in [&small, &large] {
            faults.set("s");
            let failed = write(&extents, content).await;
            assert!(
                matches!(&failed, Err(error) if error.kind() == StorageErrorKind::Failed),
                "{} bytes: {failed:?}",
                content.len()
            );
            check(&extents, before, &small).await;
            faults.clear();
            let after = write(&extents, content).await.expect("an extent can be written");
            assert!(kept.iter().all(|(extent, _)| extent.volume != after.volume), "the volume is given up");
            kept.push((after, content.clone()));
        }
        extents.close();
        drop(extents);

        let extents = store.open();
        for volume in extents.unsealed_volumes() {
            let kept =
                kept.iter().map(|(extent, _)| *extent).filter(|extent| extent.volume == volume).collect();
            extents.sweep(volume, kept).await.expect("a volume can be swept");
        }
        for (extent, content) in &kept {
            check(&extents, *extent, content).await;
        }
        extents
            .free(kept.into_iter().map(|(extent, _)| extent).collect())
            .await
            .expect("extents can be freed");
        let left = std::fs::read_dir(store.folder()).expect("the folder can be read").count();
        assert_eq!(left, 1, "only the newest is left, for its number");
    });
}

#[test]
fn a_sync_that_failed_in_the_background_is_not_forgotten() {
    in_child("a_sync_that_failed_in_the_background_is_not_forgotten", async |faults: Faults| {
        let store = Store::new();
        let mut options = ExtentsOptions::new(store.folder());
        (options.direct, options.sync_step_bytes) = (false, 1 << 20);
        let extents = store.open_with(options);
        write(&extents, b"so that there is a volume").await.expect("an extent can be written");
        let mut writer = extents.begin().await.expect("an extent can be begun");
        faults.set("s");
        // More than a step, so that a sync begins, and less than two, so that nothing waits for it.
        for piece in content(1_700_000, 1).chunks(100_000) {
            writer.write(Bytes::copy_from_slice(piece)).await.expect("the failure is not noticed yet");
        }
        // It fails in the background.
        tokio::time::sleep(Duration::from_millis(700)).await;
        faults.clear();
        let failed = writer.finish().await;
        assert!(matches!(&failed, Err(error) if error.kind() == StorageErrorKind::Failed), "{failed:?}");
    });
}

#[test]
fn a_hanging_sync_does_not_block_readers() {
    in_child("a_hanging_sync_does_not_block_readers", async |faults: Faults| {
        let store = Store::new();
        let extents = store.open();
        let before = write(&extents, b"before").await.expect("an extent can be written");
        let length = || {
            let file = std::fs::metadata(store.folder().join(format!("{}.open", before.volume)));
            file.expect("the volume is there").len()
        };
        let length_before = length();
        faults.set("h");
        let writing = extents.clone();
        let hanging = tokio::spawn(async move { write(&writing, b"hanging").await });
        until("it is written", || length() > length_before).await;
        check(&extents, before, b"before").await;
        assert!(!hanging.is_finished());
        // The client leaves, so nothing refers to the extent.
        hanging.abort();
        let _ = hanging.await;
        faults.clear();
        until("an extent that was not finished is discarded", || length() == length_before).await;
        // The volume is released shortly after it was truncated; until then, extents are written to another.
        let give_up = Instant::now() + Duration::from_secs(30);
        let after = loop {
            let after = write(&extents, b"after").await.expect("an extent can be written");
            if after.volume == before.volume {
                break after;
            }
            assert!(Instant::now() < give_up, "the volume is not used again");
        };
        assert_eq!(after.offset, length_before, "right after what is kept");
        check(&extents, after, b"after").await;
    });
}
