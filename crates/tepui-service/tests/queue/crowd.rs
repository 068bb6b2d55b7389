//! Many callers at once: every message is delivered once for each time that it is visible.

use super::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use tepui_local::{DiskEngine, EngineOptions};

const PRODUCERS: usize = 8;
const CONSUMERS: usize = 8;

async fn crowd<E: Engine>(engine: E, each: usize) {
    let bench = Arc::new(Bench::of_nodes(
        engine,
        QueueOptions::default(),
        ManualClock::at(clock_start()),
        store::nodes(),
    ));
    bench.create().await;
    let total = PRODUCERS * each;
    let deleted = Arc::new(AtomicUsize::new(0));
    let mut producers = Vec::new();
    for producer in 0..PRODUCERS {
        let bench = Arc::clone(&bench);
        producers.push(tokio::spawn(async move {
            for number in 0..each {
                bench.put_with(&format!("{producer}-{number}"), 0, Some(seconds(1000))).await;
            }
        }));
    }
    let mut consumers = Vec::new();
    for consumer in 0..CONSUMERS {
        let (bench, deleted) = (Arc::clone(&bench), Arc::clone(&deleted));
        consumers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while deleted.load(Ordering::SeqCst) < total {
                for message in bench.get(1 + consumer % 4, 600).await {
                    assert_eq!(message.dequeue_count, 1);
                    let receipt = bench.update(Some(message.stamp.id), Some(message.receipt), 600, None);
                    let receipt = receipt.await.unwrap();
                    bench.delete(Some(message.stamp.id), Some(receipt)).await.unwrap();
                    seen.push(message.text);
                    deleted.fetch_add(1, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
            }
            seen
        }));
    }
    for producer in producers {
        producer.await.unwrap();
    }
    let mut all = HashSet::new();
    for consumer in consumers {
        for text in consumer.await.unwrap() {
            assert!(all.insert(text), "delivered twice");
        }
    }
    assert_eq!((all.len(), bench.count().await), (total, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_memory() {
    crowd(store::for_many(store::tested()), store::crowd(200)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let engine = DiskEngine::open(EngineOptions::new(directory.path())).unwrap();
    crowd(store::for_many(engine), 50).await;
}

/// Takers of one message at a time, who give up at random, and the same count in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_go_away_harm_nobody() {
    let bench = Arc::new(Bench::in_memory().await);
    for number in 0..100 {
        bench.put(&number.to_string()).await;
    }
    let mut callers = Vec::new();
    for number in 0..100u32 {
        let bench = Arc::clone(&bench);
        let caller = tokio::spawn(async move { bench.get(1, 30).await.len() });
        if number % 3 == 0 {
            caller.abort();
        } else {
            callers.push(caller);
        }
    }
    for caller in callers {
        assert_eq!(caller.await.unwrap(), 1);
    }
    assert_eq!(bench.count().await, 100);
    bench.advance(seconds(30));
    let mut seen = HashSet::new();
    for _ in 0..4 {
        seen.extend(bench.get(32, 30).await.into_iter().map(|message| message.text));
    }
    assert_eq!(seen.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_queue_can_be_changed_and_deleted_while_it_is_used() {
    let bench = Arc::new(Bench::in_memory().await);
    let mut users = Vec::new();
    for _ in 0..4 {
        let bench = Arc::clone(&bench);
        users.push(tokio::spawn(async move {
            loop {
                let text = Bytes::from_static(b"x");
                let put = SequencedOperation::PutMessage {
                    queue: name(),
                    text,
                    visibility: seconds(0),
                    lifetime: None,
                };
                match bench.run(put).await {
                    Ok(_) => tokio::task::yield_now().await,
                    Err(error) => break assert_eq!(error.code, ErrorCode::QueueNotFound),
                }
            }
        }));
    }
    for _ in 0..store::crowd(50) {
        let set = Operation::SetMetadata { queue: name(), metadata: Metadata::default() };
        bench.run(set).await.unwrap();
        bench.clear().await;
    }
    bench.delete_queue().await;
    for user in users {
        user.await.unwrap();
    }
    bench.create().await;
    assert_eq!((bench.count().await, bench.peek(1).await.len()), (0, 0));
}
