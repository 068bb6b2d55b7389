use super::reclaim::{FAST_HOLE_BYTES, coalesce};
use super::*;
use crate::extents::DiskExtents;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tepui_files::{CrashOutcome, SimulatedFiles};
use tepui_storage::{Extent, ExtentWriter, Extents, StoreId};

async fn write(extents: &DiskExtents, bytes: usize) -> Extent {
    let extent = write_pinned(extents, bytes).await;
    extents.unpin(extent);
    extent
}

async fn write_pinned(extents: &DiskExtents, bytes: usize) -> Extent {
    let mut writer = extents.begin().await.expect("an extent can be begun");
    writer.write(vec![7; bytes].into()).await.expect("bytes can be written");
    writer.finish().await.expect("an extent can be finished")
}

/// Only the sweep of the next start can find bytes that were finished and never referenced.
#[tokio::test]
async fn a_volume_is_sealed_when_all_in_it_is_unpinned() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut options = ExtentsOptions::new(directory.path());
    options.volume_bytes = 100_000;
    let open = || DiskExtents::open(options.clone()).expect("the folder can be opened");
    let extents = open();
    let small = write_pinned(&extents, 10).await;
    // Fills the volume.
    let large = write(&extents, 200_000).await;
    let next = write_pinned(&extents, 10).await;
    let (first, second) = (small.volume, next.volume);
    assert!(large.volume == first && first < second);
    extents.close();
    drop(extents);

    let extents = open();
    assert_eq!(extents.unsealed_volumes(), [first, second]);
    extents.sweep(first, vec![large]).await.expect("a volume can be swept");
    extents.sweep(second, vec![]).await.expect("a volume can be swept");
    assert!(extents.read(large, 0..1000).await.is_ok(), "it is kept");

    let late = write_pinned(&extents, 10).await;
    let full = write(&extents, 200_000).await;
    assert!(late.volume == full.volume && late.volume > second);
    extents.unpin(late);
    extents.close();
    drop(extents);
    assert_eq!(open().unsealed_volumes(), []);
}

/// As on a file system that knows no holes.
#[test]
fn without_holes_a_volume_is_deleted_when_all_of_it_is_freed() {
    let files = SimulatedFiles::new(1);
    files.set_holes(false);
    let options = |files| ExtentsOptions { files: Arc::new(files), ..ExtentsOptions::new("/extents") };
    let extents = DiskExtents::open(options(files.clone())).expect("the folder can be opened");
    let write_three =
        async || [write(&extents, 10).await, write(&extents, 70_000).await, write(&extents, 0).await];
    let written = files.complete(write_three());
    let files = files.crash(CrashOutcome::Nothing);

    let extents = DiskExtents::open(options(files.clone())).expect("the folder can be opened");
    let volume = written[0].volume;
    files.complete(async {
        extents.sweep(volume, vec![written[1], written[2]]).await.expect("a volume can be swept");
        assert_ne!(write(&extents, 10).await.volume, volume);
        for _ in 0..3 {
            extents.free(vec![written[2]]).await.expect("an extent can be freed");
            assert!(extents.read(written[1], 0..70_000).await.is_ok(), "something is left");
        }
        extents.free(vec![written[1]]).await.expect("an extent can be freed");
        assert!(!files.exists(&sealed_path("/extents".as_ref(), volume)).unwrap(), "nothing is left");
        extents.free(written.to_vec()).await.expect("extents can be freed again");
    });
}

/// A store, and its first volume with a writer.
fn with_writer(folder: &Path, writer_timeout: Duration) -> (Arc<VolumeStore>, VolumeGuard) {
    let options = ExtentsOptions { writer_timeout, ..ExtentsOptions::new(folder) };
    let store = VolumeStore::open(options).expect("the folder can be opened");
    let first = store.acquire().expect("a volume can be had");
    (store, first)
}

/// Much of a volume.
fn much(guard: &VolumeGuard) -> Extent {
    Extent { store: StoreId::LOCAL, volume: guard.volume.number, offset: 0, bytes: 2 * FAST_HOLE_BYTES }
}

/// Starts to free much in a volume, and returns once that waits for its writer.
fn free_much(store: &Arc<VolumeStore>, guard: &VolumeGuard) -> JoinHandle<Result<(), StorageError>> {
    let (freeing, much) = (Arc::clone(store), much(guard));
    let free = std::thread::spawn(move || freeing.free(&[much]));
    while store.pool.lock().reserved != [much.volume] {
        assert!(!free.is_finished(), "it does not wait");
        std::thread::yield_now();
    }
    free
}

#[test]
fn large_holes_wait_for_the_writer_of_the_volume() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (store, first) = with_writer(directory.path(), Duration::from_secs(60));
    let free = free_much(&store, &first);
    // Takes longer than the hole would.
    store.release(store.acquire().expect("a volume can be had"));
    assert!(!free.is_finished(), "it does not wait");
    store.release(first);
    free.join().expect("no panic").expect("extents can be freed");
    assert!(store.pool.lock().reserved.is_empty());
}

#[test]
fn a_reserved_volume_gets_no_writer() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (store, first) = with_writer(directory.path(), Duration::from_secs(60));
    let oldest = first.volume.number;
    store.release(first);
    let number = || {
        let guard = store.acquire().expect("a volume can be had");
        let number = guard.volume.number;
        store.release(guard);
        number
    };
    let reserved = (store.reserve(oldest), store.reserve(oldest));
    let next = number();
    assert_ne!(next, oldest);
    drop(reserved.0);
    assert_eq!(number(), next, "it is still reserved");
    drop(reserved.1);
    assert_eq!(number(), oldest, "the oldest");
}

#[test]
fn neither_who_writes_for_long_nor_a_closed_store_is_waited_for() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (store, first) = with_writer(directory.path(), Duration::from_millis(20));
    store.free(&[much(&first)]).expect("extents can be freed");
    store.release(first);

    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (store, first) = with_writer(directory.path(), Duration::from_secs(60));
    let (begun, free) = (Instant::now(), free_much(&store, &first));
    store.close();
    free.join().expect("no panic").expect("extents can be freed");
    assert!(begun.elapsed() < Duration::from_secs(30), "waited to the end");
    store.release(first);
}

#[test]
fn ranges_that_touch_are_one() {
    assert_eq!(coalesce([0..2, 2..3, 2..5, 3..4, 7..9].into_iter()), [0..5, 7..9]);
}
