//! What a queue costs after much was consumed from it.

use super::*;
use crate::engine::TestEngine;
use crate::yields::yields_during;
use std::sync::atomic::Ordering;

/// Messages were deleted, so these rows may be markers of deletions that a scan has to step over.
#[tokio::test]
async fn nobody_looks_where_everything_was_consumed() {
    let engine = TestEngine::new();
    let (scanned, commits) = (Arc::clone(&engine.control().scanned), Arc::clone(&engine.control().commits));
    let bench = Bench::on(engine);
    bench.create().await;
    let mut places = Vec::new();
    for number in 0..500 {
        places.push(bench.put(&number.to_string()).await.receipt.visible);
    }
    scanned.lock().unwrap().rows = 0;
    for number in 0..500 {
        let taken = bench.get(1, 30).await.remove(0);
        assert_eq!(taken.text, number.to_string());
        bench.delete(Some(taken.stamp.id), Some(taken.receipt)).await.unwrap();
        places.push(taken.receipt.visible);
    }
    assert!(scanned.lock().unwrap().rows <= 500 * 65, "a page for each get at most");
    bench.advance(seconds(60));
    assert!(bench.get(1, 30).await.is_empty());
    scanned.lock().unwrap().ranges.clear();
    assert!(bench.get(1, 30).await.is_empty() && bench.peek(1).await.is_empty());
    let last = places.into_iter().max().unwrap().ticks().to_be_bytes();
    let ranges = std::mem::take(&mut scanned.lock().unwrap().ranges);
    assert_eq!(ranges.len(), 2);
    for range in ranges {
        assert!(range.start[9..17] > last[..], "a scan starts before what was consumed");
    }
    // An idle queue is left alone.
    let before = commits.load(Ordering::Relaxed);
    bench.advance(seconds(60));
    assert!(bench.get(1, 30).await.is_empty());
    assert_eq!(commits.load(Ordering::Relaxed), before);
}

#[tokio::test]
async fn others_run_while_expired_messages_are_counted() {
    const MESSAGES: usize = 10_000;
    let bench = Bench::in_memory().await;
    for _ in 0..MESSAGES {
        bench.put_with("short", 0, Some(seconds(1))).await;
    }
    bench.put("long").await;
    bench.advance(seconds(2));
    let (count, yields) = yields_during(bench.count()).await;
    assert_eq!(count, 1);
    assert!(yields >= MESSAGES / 10_000, "{yields}");
}
