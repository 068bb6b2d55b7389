//! Visibility, expiry, receipts and order.

use super::*;
use ErrorCode::*;
use tepui_local::{DiskEngine, EngineOptions};

#[tokio::test]
async fn a_taken_message_comes_back_when_its_time_is_up() {
    let bench = Bench::in_memory().await;
    let put = bench.put("one").await;
    assert_eq!((put.dequeue_count, put.stamp.expires), (0, Timestamp::MAX));
    for round in 1..=3 {
        let taken = bench.get(32, 30).await;
        assert_eq!(texts(&taken), ["one"]);
        assert_eq!((taken[0].dequeue_count, taken[0].stamp), (round, put.stamp));
        assert!(bench.get(32, 30).await.is_empty() && bench.peek(32).await.is_empty());
        bench.advance(seconds(29)); // Not yet.
        assert!(bench.get(32, 30).await.is_empty());
        bench.advance(seconds(1));
        assert_eq!(bench.peek(1).await[0].dequeue_count, round);
    }
    assert_eq!(bench.count().await, 1);
}

#[tokio::test]
async fn messages_expire_wherever_they_are() {
    let bench = Bench::in_memory().await;
    let gone = bench.put_with("gone", 0, Some(seconds(10))).await;
    bench.put_with("hidden", 8, Some(seconds(9))).await;
    bench.put_with("stays", 5, Some(seconds(1_000_000_000_000))).await;
    assert_eq!((texts(&bench.get(1, 60).await), bench.count().await), (vec!["gone"], 3));
    bench.advance(seconds(20));
    assert_eq!(bench.count().await, 1);
    assert_eq!(bench.delete(Some(gone.stamp.id), Some(gone.receipt)).await, Err(MessageNotFound));
    assert_eq!(bench.peek(32).await.len(), 1);
    bench.sweep().await;
    assert_eq!(bench.count().await, 1);
    let stays = bench.get(32, 1).await;
    assert_eq!((texts(&stays), stays[0].stamp.expires), (vec!["stays"], Timestamp::MAX));
}

#[tokio::test]
async fn order_is_by_visibility_then_by_insertion() {
    let bench = Bench::in_memory().await;
    bench.put_with("late", 5, None).await;
    for text in ["1", "2", "3"] {
        bench.put(text).await;
    }
    assert_eq!(texts(&bench.get(2, 1).await), ["1", "2"]);
    bench.advance(seconds(6));
    bench.put("4").await;
    assert_eq!(texts(&bench.get(32, 30).await), ["3", "1", "2", "late", "4"]);
}

#[tokio::test]
async fn receipts() {
    let bench = Bench::in_memory().await;
    let put = bench.put_with("text", 10, Some(seconds(1000))).await;
    let (id, first) = (Some(put.stamp.id), Some(put.receipt));
    let other = bench.put("other").await;

    // The receipt of a put is good at once; an update replaces it.
    let second = Some(bench.update(id, first, 0, Some("new")).await.unwrap());
    let taken = bench.get(2, 30).await;
    assert_eq!(texts(&taken), ["other", "new"]);
    let third = Some(taken[1].receipt);
    let moved = PopReceipt { sequence: 99, ..taken[1].receipt };
    let changed = PopReceipt { changes: 99, ..taken[1].receipt };
    for (case, id, receipt, expected) in [
        ("not a GUID", None, third, MessageNotFound),
        ("not a GUID, no receipt", None, None, MessageNotFound),
        ("unknown", Some(MessageId(7)), third, MessageNotFound),
        ("unknown, no receipt", Some(MessageId(7)), None, MessageNotFound),
        ("not a receipt", id, None, InvalidQueryParameterValue),
        ("of a put, superseded", id, first, MessageNotFound),
        ("of an update, superseded", id, second, MessageNotFound),
        ("of another message", id, Some(taken[0].receipt), MessageNotFound),
        ("of another place", id, Some(moved), MessageNotFound),
        ("of another time", id, Some(changed), MessageNotFound),
    ] {
        assert_eq!(bench.delete(id, receipt).await, Err(expected), "{case}");
        let error = bench.update(id, receipt, 0, Some("never")).await.unwrap_err();
        assert_eq!(error.code, expected, "{case}");
        if expected == InvalidQueryParameterValue {
            assert!(error.details.contains(&("Reason", "Invalid pop receipt format".to_owned())));
        }
    }
    // Not later than it expires; and without a text the text stays.
    let error = bench.update(id, third, 1000, None).await.unwrap_err();
    assert_eq!((error.code, error.details.len()), (InvalidQueryParameterValue, 3));
    let fourth = Some(bench.update(id, third, 20, None).await.unwrap());
    // It is visible again, but was not dequeued: the receipt is still valid.
    bench.advance(seconds(40));
    assert_eq!(texts(&bench.get(1, 1).await), ["new"]);
    assert_eq!(bench.delete(id, fourth).await, Err(MessageNotFound));
    bench.advance(seconds(2));
    let last = bench.get(32, 1).await;
    bench.advance(seconds(2));
    for message in &last {
        let (id, receipt) = (Some(message.stamp.id), Some(message.receipt));
        assert_eq!(bench.delete(id, receipt).await, Ok(()));
        assert_eq!(bench.delete(id, receipt).await, Err(MessageNotFound));
        assert_eq!(bench.delete(id, None).await, Err(MessageNotFound));
    }
    assert_eq!((last.len(), bench.count().await), (2, 0));

    // Cleared messages are unknown, and so are those of a deleted queue.
    let cleared = bench.put("cleared").await;
    bench.clear().await;
    assert_eq!(bench.delete(Some(cleared.stamp.id), Some(cleared.receipt)).await, Err(MessageNotFound));
    assert_eq!(bench.delete(Some(cleared.stamp.id), None).await, Err(MessageNotFound));
    bench.delete_queue().await;
    assert_eq!(bench.delete(None, None).await, Err(QueueNotFound));
    bench.create().await;
    assert_eq!(bench.delete(Some(other.stamp.id), Some(other.receipt)).await, Err(MessageNotFound));
}

#[tokio::test]
async fn a_clock_that_is_set_back_hides_nothing_for_good() {
    let bench = Bench::in_memory().await;
    bench.put("1").await;
    bench.get(1, 1).await;
    assert!(bench.get(1, 1).await.is_empty());
    let now = bench.clock.now();
    let back = ManualClock::at(now.saturating_sub(seconds(3600)));
    let engine = FaultyEngine::clone(&bench.engine);
    let bench = Bench::of_nodes(engine, QueueOptions::default(), back, store::nodes());
    bench.put("2").await;
    assert_eq!(texts(&bench.get(2, 1).await), ["2"]);
    bench.advance(seconds(3610));
    assert_eq!(texts(&bench.get(2, 1).await), ["2", "1"]);
}

#[tokio::test]
async fn a_restart_keeps_visibility() {
    let directory = tempfile::tempdir().unwrap();
    let now = Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap();
    let open = |now| {
        let engine = DiskEngine::open(EngineOptions::new(directory.path())).unwrap();
        Bench::with(store::on(engine), QueueOptions::default(), now)
    };
    let bench = open(now);
    bench.create().await;
    bench.put("taken").await;
    bench.put_with("later", 60, None).await;
    let taken = bench.get(1, 30).await.remove(0);
    while Arc::strong_count(bench.service()) > 1 {
        tokio::task::yield_now().await; // The sequencer is about to be dropped.
    }
    drop(bench);
    let bench = open(now.saturating_add(seconds(1)));
    assert!(bench.get(2, 30).await.is_empty());
    assert_eq!(bench.count().await, 2);
    bench.advance(seconds(61));
    assert_eq!(bench.delete(Some(taken.stamp.id), Some(taken.receipt)).await, Ok(()));
    assert_eq!(texts(&bench.get(2, 30).await), ["later"]);
}
