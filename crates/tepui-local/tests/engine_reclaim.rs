//! Reclaiming on disk: space comes back, and nothing else does.

use std::path::Path;
use std::time::{Duration, Instant};
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{CommitPipeline, Engine, Key, KeyRange, ScanLimit, Snapshot, Transaction, Write};

const ROWS: u32 = 4000;

fn options(path: &Path) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    options.memtable_bytes = 256 << 10;
    options
}

fn key(table: char, number: u32) -> Key {
    format!("{table}/{number:06}").into()
}

fn range(table: char) -> KeyRange {
    KeyRange { start: key(table, 0), end: format!("{table}0").into() }
}

async fn fill(engine: &DiskEngine, table: char) {
    for first in (0..ROWS).step_by(100) {
        let transaction = engine.begin().await.expect("a transaction can begin");
        let puts = (first..first + 100).map(|number| Write::Put(key(table, number), vec![7; 1000].into()));
        transaction.commit(puts.collect::<Vec<_>>().into()).await.expect("rows can be written");
    }
}

async fn count(engine: &DiskEngine, table: char) -> usize {
    let now = engine.begin().await.expect("a transaction can begin");
    let limit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    now.scan(&range(table), limit).await.expect("rows can be read").rows.len()
}

fn table_bytes(path: &Path) -> u64 {
    let tables = path.join("rows");
    let entries = std::fs::read_dir(tables).expect("there are tables").flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[tokio::test]
async fn space_comes_back_and_rows_do_not() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let engine = DiskEngine::open(options(directory.path())).expect("a directory can be created");
    for table in ['a', 'b', 'c'] {
        fill(&engine, table).await;
    }
    let full = table_bytes(directory.path());
    engine.reclaim(range('b')).await.expect("a range can be reclaimed");
    // Files go when the last reader and the compaction under way release them.
    let give_up = Instant::now() + Duration::from_secs(20);
    while table_bytes(directory.path()) * 10 > full * 8 {
        assert!(Instant::now() < give_up, "{full} bytes have become {}", table_bytes(directory.path()));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Again and again: what is dropped now are the tombstones of the times before.
    for _ in 0..4 {
        assert_eq!(count(&engine, 'a').await, ROWS as usize);
        assert_eq!(count(&engine, 'b').await, 0);
        assert_eq!(count(&engine, 'c').await, ROWS as usize);
        engine.reclaim(range('b')).await.expect("a range can be reclaimed twice");
    }
    drop(engine);
    let engine = DiskEngine::open(options(directory.path())).expect("the directory can be opened");
    assert_eq!(count(&engine, 'b').await, 0, "the write-ahead log does not bring rows back");
    assert_eq!(count(&engine, 'a').await + count(&engine, 'c').await, 2 * ROWS as usize);
}

#[tokio::test]
async fn a_reclaim_that_was_given_up_can_be_repeated() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let engine = DiskEngine::open(options(directory.path())).expect("a directory can be created");
    fill(&engine, 'a').await;
    let given_up = tokio::time::timeout(Duration::from_millis(1), engine.reclaim(range('a'))).await;
    drop(given_up);
    engine.reclaim(range('a')).await.expect("a range can be reclaimed");
    assert_eq!(count(&engine, 'a').await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_while_tables_are_flushed_and_compacted() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let engine = DiskEngine::open(options(directory.path())).expect("a directory can be created");
    let counter = Key::from_static(b"counter");
    let tasks: Vec<_> = (0..8u32)
        .map(|task| {
            let (engine, counter) = (engine.clone(), counter.clone());
            tokio::spawn(async move {
                for number in 0..60 {
                    loop {
                        let now = engine.begin_pipeline().await.expect("a pipeline can begin");
                        let held = now.get(&counter).await.expect("a row can be read");
                        let held = held
                            .map_or(0, |held| u32::from_le_bytes(held[..].try_into().expect("four bytes")));
                        let writes = vec![
                            Write::Put(counter.clone(), (held + 1).to_le_bytes().to_vec().into()),
                            // Enough to keep flushes and compactions going.
                            Write::Put(key('x', task * 1000 + number), vec![1; 10_000].into()),
                        ];
                        let result = now.submit(writes.into()).await;
                        let again = now.get(&counter).await.expect("a row can be read");
                        let again = again
                            .map_or(0, |held| u32::from_le_bytes(held[..].try_into().expect("four bytes")));
                        assert_eq!(held, again, "a snapshot never changes");
                        if result.is_ok() {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task ends");
    }
    let now = engine.begin().await.expect("a transaction can begin");
    let held = now.get(&counter).await.expect("a row can be read").expect("the counter is there");
    assert_eq!(u32::from_le_bytes(held[..].try_into().expect("four bytes")), 480);
}
