//! Space that is given back.

use super::*;
use crate::engine::TestEngine;
use BlockSearch::*;
use std::collections::HashMap;
use tepui_storage::{Key, KeyRange, ScanLimit, Snapshot};
use tepui_storage_faulty::{Faults, Rates};

#[tokio::test]
async fn nothing_is_left_of_what_was_deleted() {
    let bench = Bench::new().await;
    let large = bytes(LARGE, 1);
    bench.put("whole", &large).await;
    let taken = bench.snapshot("whole").await;
    bench.put("whole", &large).await;
    for id in ["1", "2", "3"] {
        bench.put_block("blocks", id, &large).await.unwrap();
    }
    bench.put_list("blocks", &[("1", Latest), ("2", Latest), ("2", Latest)]).await.unwrap();
    bench.put_list("blocks", &[("2", Committed)]).await.unwrap();
    bench.collect_garbage().await;
    // Two whole ones, and the block that is still used.
    assert_eq!(bench.count_extents().await, 3);
    assert!(bench.get("blocks").await.unwrap() == large);
    bench.delete("whole", Revision::Snapshot(taken), None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 2);
    bench.put_block("waiting", "1", &large).await.unwrap();
    bench.delete_container().await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}

/// A transaction may have the only connection to a store over a network, and then reclaiming would wait for another one in vain.
#[tokio::test]
async fn nothing_is_reclaimed_while_a_transaction_is_open() {
    let engine = TestEngine::new();
    let open = Arc::clone(&engine.control().open_at_reclaim);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    bench.put("a", &bytes(LARGE, 1)).await;
    bench.put_block("waiting", "1", &bytes(LARGE, 1)).await.unwrap();
    bench.delete_container().await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.extents.count(), 0);
    let open = std::mem::take(&mut *open.lock().unwrap());
    assert!(!open.is_empty() && open.iter().all(|count| *count == 0), "{open:?}");
    // And nothing is left to do.
    bench.collect_garbage().await;
    assert_eq!(bench.service().collect_garbage_once().await, Ok(()));
}

/// What was deleted leaves markers that a scan has to step over: beginning anew after each step would make
/// large containers cost the square of their size.
#[tokio::test]
async fn nobody_looks_where_everything_was_deleted() {
    let engine = TestEngine::new();
    let scanned = Arc::clone(&engine.control().scanned);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    for number in 0..2000 {
        bench.put(&format!("{number:04}"), b"x").await;
    }
    for number in 0..2500 {
        bench.put_block("waiting", &format!("{number:04}"), b"x").await.unwrap();
    }
    bench.delete_container().await.unwrap();
    scanned.lock().unwrap().ranges.clear();
    bench.collect_garbage().await;
    assert_eq!(bench.extents.count(), 0);
    let mut begun: HashMap<_, usize> = HashMap::new();
    for range in std::mem::take(&mut scanned.lock().unwrap().ranges) {
        *begun.entry(range.start).or_default() += 1;
    }
    assert!(begun.values().all(|times| *times <= 2), "{begun:?}");
}

#[tokio::test]
async fn what_was_deleted_long_ago_cannot_be_restored() {
    let bench = Bench::new().await;
    bench.retain_deleted(1).await;
    bench.put("a", &bytes(LARGE, 1)).await;
    bench.delete("a", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 1);
    bench.advance(24 * 60 * 60 + 1);
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
    let undelete = Operation::UndeleteBlob { blob: path("a") };
    assert_eq!(bench.run(undelete).await, Err(ErrorCode::BlobNotFound));
}

/// Every put would pay for looking, and few blobs have any.
#[tokio::test]
async fn nobody_looks_for_blocks_where_none_were_put() {
    let engine = TestEngine::new();
    let scanned = Arc::clone(&engine.control().scanned);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    bench.put_block("blocks", "1", b"x").await.unwrap();
    scanned.lock().unwrap().ranges.clear();
    bench.put("whole", b"x").await;
    bench.put("whole", b"y").await;
    bench.put_block("blocks", "2", b"x").await.unwrap();
    assert_eq!(scanned.lock().unwrap().ranges, []);
    assert_eq!(bench.put_block("blocks", "333333", b"x").await, Err(ErrorCode::InvalidBlobOrBlock));
}

#[tokio::test]
async fn notes_about_blocks_go_when_the_blocks_have_gone() {
    let (engine, extents) = (store::engine(), store::extents(PlainExtents::default()));
    let bench = Bench::on(engine.clone(), extents, BlobOptions::default());
    bench.create().await.unwrap();
    let rows = async || {
        // A step that conflicts is left to the next time.
        for _ in 0..6 {
            bench.collect_garbage().await;
        }
        let everything = KeyRange { start: Key::from_static(&[0]), end: Key::from_static(&[255]) };
        let limit = ScanLimit { max_rows: 1000, max_bytes: 1 << 20 };
        let page = engine.inner().begin().await.unwrap().scan(&everything, limit).await.unwrap();
        // Those of volumes come and go as they are needed.
        page.rows.iter().filter(|(key, _)| key[0] != 0x47).count()
    };
    bench.put("a", b"x").await;
    let without_blocks = rows().await;
    bench.put_block("a", "1", b"x").await.unwrap();
    bench.put("a", b"x").await;
    assert_eq!(rows().await, without_blocks + 1);
    bench.expire().await;
    // Its marker is closed: ids may have another length now, and the blocks are still found.
    bench.put_block("a", "333333", b"x").await.unwrap();
    bench.expire().await;
    bench.expire().await;
    bench.put("a", b"x").await;
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
    bench.expire().await;
    bench.expire().await;
    assert_eq!(rows().await, without_blocks);
    bench.put_block("a", "1", b"x").await.unwrap();
    bench.delete_container().await.unwrap();
    bench.collect_garbage().await;
    assert!(rows().await < without_blocks);
    assert_eq!(bench.count_extents().await, 0);
}

/// Each commit of the collector writes few rows that many commits guard: an engine that keeps copies of them could not commit many.
#[tokio::test]
async fn many_notes_and_containers_are_removed_a_few_at_a_time() {
    let engine = TestEngine::new();
    let control = engine.control().clone();
    let options =
        BlobOptions { container_retention: Some(Duration::from_secs(60)), ..BlobOptions::default() };
    let bench = Bench::on(engine.clone(), PlainExtents::default(), options);
    bench.create().await.unwrap();
    const BLOBS: usize = 70;
    for number in 0..BLOBS {
        bench.put_block(&format!("{number}"), "1", b"x").await.unwrap();
        // Every third one keeps its block.
        if number % 3 > 0 {
            bench.put(&format!("{number}"), b"x").await;
        }
    }
    let rows = async |space: u8| {
        let range = KeyRange { start: vec![space].into(), end: vec![space + 1].into() };
        let limit = ScanLimit { max_rows: 1000, max_bytes: 1 << 20 };
        engine.begin().await.unwrap().scan(&range, limit).await.unwrap().rows.len()
    };
    assert_eq!(rows(0xAA).await, BLOBS);
    for _ in 0..2 {
        bench.expire().await;
    }
    assert_eq!(rows(0xAA).await, BLOBS.div_ceil(3), "those with blocks are left");
    for _ in 0..40 {
        bench.delete_container().await.unwrap();
        bench.create().await.unwrap();
    }
    assert_eq!(rows(0x24).await, 41, "soft-deleted ones, and one");
    bench.advance(61);
    bench.expire().await;
    assert_eq!(rows(0x24).await, 1);
    let most = control.most_shared_writes.load(Ordering::Relaxed);
    assert_eq!(most, 16, "no more, and no fewer where there are enough");
}

#[tokio::test]
async fn blocks_do_not_wait_for_ever() {
    let bench = Bench::new().await;
    let week = 7 * 24 * 60 * 60;
    bench.put_block("old", "1", b"x").await.unwrap();
    bench.put_block("slow", "1", b"x").await.unwrap();
    bench.advance(week - 10);
    bench.put_block("slow", "2", b"x").await.unwrap();
    bench.advance(20);
    bench.expire().await;
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 2);
    assert_eq!(bench.put_list("old", &[("1", Latest)]).await, Err(ErrorCode::InvalidBlockList));
    assert!(bench.put_list("slow", &[("1", Latest), ("2", Latest)]).await.is_ok());
}

#[tokio::test]
async fn bytes_that_cannot_be_freed_at_once_are_freed_later() {
    let extents =
        FaultyExtents::new(PlainExtents::default(), Faults::new(Rates { unavailable: 1, ..Rates::NONE }, 0));
    let bench = Bench::on(MemoryEngine::new(), extents.clone(), BlobOptions::default());
    bench.create().await.unwrap();
    let refused = Bench::put_operation("a", Preconditions { lease: Some(LeaseId(1)), ..Default::default() });
    let refused = UploadOperation::PutBlob(refused);
    let calm = extents.calm();
    let uploaded = copies::fetched(&bench, &refused, &bytes(LARGE, 2)).await;
    drop(calm);
    assert!(bench.service().execute_upload(Caller::owner(ACCOUNT), &refused, uploaded).await.is_err());
    assert!(bench.service().collect_garbage_once().await.is_err());
    assert_eq!(bench.extents.count(), 1);
    let _calm = extents.calm();
    bench.collect_garbage().await;
    assert_eq!(bench.extents.count(), 0);
}

#[tokio::test]
async fn unsealed_volumes_are_swept() {
    let bench = Bench::new().await;
    bench.put("kept", &bytes(LARGE, 1)).await;
    // Received, but never executed.
    let put = UploadOperation::PutBlob(Bench::put_operation("a", Preconditions::default()));
    copies::fetched(&bench, &put, &bytes(LARGE, 2)).await;
    let left = bench.extents.count();
    assert!(left >= 2, "there may be more that could not be finished: {left}");
    bench.free_orphaned_extents().await;
    assert_eq!(bench.extents.count(), 1);
    assert!(bench.get("kept").await.is_ok());
}
