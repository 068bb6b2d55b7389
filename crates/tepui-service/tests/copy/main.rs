//! Copies of whole storages: between memory and disk, with faults, and interrupted at any point.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../shared/engine.rs"]
mod engine;
mod interrupted;
mod random;
mod refused;
mod world;

use engine::TestEngine;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tepui_local::{DiskEngine, DiskExtents, EngineOptions, ExtentsOptions};
use tepui_model::time::ManualClock;
use tepui_service::copy::{
    CopyError, CopyProgress, CopyReport, CopyStage, Storage, compare_storages, copy_storage, unfinished,
};
use tepui_storage::{
    Engine, Extents, Key, KeyRange, MemoryEngine, MemoryExtents, ScanLimit, Snapshot, StoreId, Value,
};
use world::{PLAIN, VERSIONED, World, clock_start};

fn memory() -> Storage<MemoryEngine, MemoryExtents> {
    Storage { engine: Arc::new(MemoryEngine::new()), extents: Arc::new(MemoryExtents::new()) }
}

/// Extents of a disk, in a store of the given number: rows that name them are longer if it is not the local one.
fn disk(path: &Path, store: StoreId) -> Storage<DiskEngine, DiskExtents> {
    let engine = DiskEngine::open(EngineOptions::new(path)).unwrap();
    let mut options = ExtentsOptions::new(path.join("extents"));
    options.store = store;
    Storage { engine: Arc::new(engine), extents: Arc::new(DiskExtents::open(options).unwrap()) }
}

fn clock() -> ManualClock {
    ManualClock::at(clock_start())
}

async fn copy<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
) -> Result<CopyReport, CopyError> {
    copy_storage(source, target, &clock(), 1, &Arc::default()).await
}

async fn compare<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
) -> Result<CopyReport, CopyError> {
    compare_storages(source, target, &clock(), &Arc::default()).await
}

async fn fill<E: Engine, X: Extents>(storage: &Storage<E, X>) {
    for account in [PLAIN, VERSIONED] {
        World::of(storage, account).fill().await;
    }
}

async fn see<E: Engine, X: Extents>(storage: &Storage<E, X>) -> Vec<String> {
    let mut seen = World::of(storage, PLAIN).see().await;
    seen.extend(World::of(storage, VERSIONED).see().await);
    assert!(seen.len() > 100, "there is something to see");
    seen
}

async fn rows<E: Engine>(engine: &E) -> Vec<(Key, Value)> {
    let transaction = engine.begin().await.unwrap();
    let mut range = KeyRange { start: Key::new(), end: Key::from_static(&[0xFF]) };
    let limit = ScanLimit { max_rows: 10_000, max_bytes: 16 << 20 };
    let mut rows = Vec::new();
    loop {
        let page = transaction.scan(&range, limit).await.unwrap();
        rows.extend(page.rows);
        let Some(next) = page.next else { return rows };
        range.start = next;
    }
}

/// Both show the same, and go on the same way. Changes both.
async fn equal<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
) {
    assert!(!unfinished(&*target.engine).await.unwrap());
    compare(source, target).await.unwrap();
    for (ours, theirs) in see(source).await.iter().zip(see(target).await) {
        assert_eq!(*ours, theirs);
    }
    assert_eq!(see(source).await.len(), see(target).await.len());
    for account in [PLAIN, VERSIONED] {
        let (ours, theirs) = (World::of(source, account), World::of(target, account));
        assert_eq!(ours.go_on().await, theirs.go_on().await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_memory_to_memory() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    let before = rows(&*source.engine).await;
    let report = copy(&source, &target).await.unwrap();
    assert_eq!(rows(&*source.engine).await, before, "nothing is written to the source");
    let counts = &report.counts;
    assert_eq!((counts.tables, counts.queues, counts.containers, report.is_continued), (2, 4, 2, false));
    assert_eq!((counts.entities, counts.messages), (18, 82));
    assert!(counts.extents > 20 && counts.uncommitted_blocks > 4 && counts.other_revisions > 8, "{counts:?}");
    equal(&source, &target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_a_disk_of_another_store_and_back() {
    let source = memory();
    fill(&source).await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let there = disk(folders[0].path(), StoreId(77));
    copy(&source, &there).await.unwrap();
    there.extents.close();
    there.engine.close();
    let there = disk(folders[0].path(), StoreId(77));
    assert_eq!(there.extents.unsealed_volumes(), [0u64; 0], "nothing is left to sweep");
    let local = disk(folders[1].path(), StoreId::LOCAL);
    copy(&there, &local).await.unwrap();
    compare(&source, &local).await.unwrap();
    let back = memory();
    copy(&local, &back).await.unwrap();
    compare(&there, &back).await.unwrap();
    equal(&source, &back).await;
}

/// An engine that keeps copies of the rows of the catalogue could not write hundreds in one commit, and would lock everything that is
/// committed with one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_rows_of_the_catalogue_at_a_time() {
    let source = memory();
    fill(&source).await;
    let world = World::of(&source, PLAIN);
    for number in 0..40 {
        world.create_table(&format!("more{number}")).await;
        world.create_queue(&format!("more{number}")).await;
    }
    let target = Storage { engine: Arc::new(TestEngine::new()), extents: Arc::new(MemoryExtents::new()) };
    copy(&source, &target).await.unwrap();
    let control = target.engine.control();
    assert_eq!(control.most_shared_writes.load(Ordering::Relaxed), 16);
    assert!(control.most_with_shared.load(Ordering::Relaxed) <= 17, "with the state of the copy");
    equal(&source, &target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_nothing() {
    let (source, target) = (memory(), memory());
    let report = copy(&source, &target).await.unwrap();
    assert_eq!((report.rows, report.extent_bytes), (0, 0));
    assert!(rows(&*target.engine).await.is_empty());
    // It may be done again.
    copy(&source, &target).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_told() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    let progress = Arc::new(CopyProgress::default());
    let copied = copy_storage(&source, &target, &clock(), 1, &progress).await.unwrap();
    assert_eq!(progress.report().stage, CopyStage::Finishing);
    compare_storages(&source, &target, &clock(), &progress).await.unwrap();
    let report = progress.report();
    assert_eq!((report.stage, report.bytes), (CopyStage::Verifying, report.total_bytes));
    assert_eq!(report.total_bytes, copied.row_bytes + copied.extent_bytes);
    assert_eq!((report.rows, report.extents), (copied.rows, copied.counts.extents));
}
