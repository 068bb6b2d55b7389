//! Two nodes on one store: what one has acknowledged, the other knows.

use super::*;
use tepui_model::time::NodeNumber;
use tepui_service::MAX_CLOCK_SKEW;
use tepui_storage_faulty::{Faults, Rates};

/// Two services on one engine, with clocks of their own.
fn nodes() -> [Bench<FaultyEngine>; 2] {
    let engine = store::engine();
    let now = Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap();
    let options = QueueOptions { clock_skew: MAX_CLOCK_SKEW, ..QueueOptions::default() };
    [1, 2].map(|number| {
        let clock = ManualClock::at(now).of_node(NodeNumber::new(number).unwrap());
        Bench::of_nodes(engine.clone(), options, clock, 1)
    })
}

/// Both have looked at the queue a moment ago, and would decide on what they saw then.
async fn look(nodes: &[Bench<FaultyEngine>; 2]) {
    for node in nodes {
        node.get(1, 30).await;
    }
}

#[tokio::test]
async fn a_message_put_on_one_node_is_there_on_the_other() {
    let nodes = nodes();
    let [first, second] = &nodes;
    first.create().await;
    for round in 0..20 {
        look(&nodes).await;
        let text = round.to_string();
        let put = first.put(&text).await;
        // Repeated requests have moved the clock of the first a little more, perhaps.
        second.clock.advance(Duration::from_millis(1));
        assert_eq!(texts(&second.get(1, 30).await), [text.as_str()]);
        look(&nodes).await;
        let hidden = second.put_with("hidden", 60, None).await;
        look(&nodes).await;
        let receipt =
            first.update(Some(hidden.stamp.id), Some(hidden.receipt), 60, Some("new")).await.unwrap();
        look(&nodes).await;
        assert_eq!(second.delete(Some(hidden.stamp.id), Some(receipt)).await, Ok(()));
        let gone = first.delete(Some(put.stamp.id), Some(put.receipt)).await;
        assert_eq!(gone, Err(ErrorCode::MessageNotFound), "it was claimed since");
    }
}

#[tokio::test]
async fn a_queue_cleared_or_deleted_on_one_node_is_so_on_the_other() {
    let nodes = nodes();
    let [first, second] = &nodes;
    for _ in 0..20 {
        first.create().await;
        second.put("a").await;
        first.put("b").await;
        second.clear().await;
        assert_eq!((first.get(2, 30).await.len(), first.count().await), (0, 0));
        first.put("c").await;
        second.put("d").await;
        second.delete_queue().await;
        let put = SequencedOperation::PutMessage {
            queue: name(),
            text: Bytes::from_static(b"e"),
            visibility: seconds(0),
            lifetime: None,
        };
        assert_eq!(first.run(put).await.map_err(|error| error.code), Err(ErrorCode::QueueNotFound));
        for node in &nodes {
            node.clock.advance(seconds(1));
        }
    }
}

/// Consumers on both nodes, whose clocks are as far apart as they may be.
#[tokio::test]
async fn each_message_is_handed_out_once_within_its_time() {
    let nodes = nodes();
    let [first, second] = &nodes;
    second.clock.advance(MAX_CLOCK_SKEW);
    first.create().await;
    for number in 0..100 {
        nodes[number % 2].put(&number.to_string()).await;
    }
    // What the node that is ahead has put is visible on the other a little later.
    first.clock.advance(MAX_CLOCK_SKEW);
    second.clock.advance(MAX_CLOCK_SKEW);
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < 100 {
        for node in &nodes {
            let claimed = node.get(3, 30).await;
            seen.extend(texts(&claimed).into_iter().map(str::to_owned));
        }
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 100);
    for step in 0..29 {
        assert!(second.get(3, 30).await.is_empty() && first.get(3, 30).await.is_empty(), "{step}");
        nodes.iter().for_each(|node| node.clock.advance(seconds(1)));
    }
    nodes.iter().for_each(|node| node.clock.advance(seconds(5)));
    assert_eq!(first.get(3, 30).await.len(), 3);
}

/// Other requests keep a node's view of the queue in use, so that it would be decided on what was there before.
#[tokio::test]
async fn what_one_node_acknowledged_shows_on_a_busy_one() {
    let rates = Rates { pause: 2, ..store::CROWDED };
    for round in 0..200 {
        let engine = FaultyEngine::new(store::TestedEngine::in_memory(), Faults::new(rates, round));
        let [first, second] = [1, 2].map(|number| {
            let clock = ManualClock::at(clock_start()).of_node(NodeNumber::new(number).unwrap());
            Bench::of_nodes(engine.clone(), QueueOptions::default(), clock, 1)
        });
        first.create().await;
        let is_done = std::cell::Cell::new(false);
        let busy = async {
            while !is_done.get() {
                second.get(1, 30).await;
                tokio::task::yield_now().await;
            }
        };
        let asking = async {
            for number in 0..5 {
                let hidden = first.put_with(&number.to_string(), 60, None).await;
                let (id, receipt) = (Some(hidden.stamp.id), Some(hidden.receipt));
                assert_eq!(second.delete(id, receipt).await, Ok(()), "round {round}: {number}");
            }
            is_done.set(true);
        };
        tokio::join!(busy, asking);
    }
}
