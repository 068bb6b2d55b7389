//! Nodes that share a queue, on a store that is 2 ms away and ends a pipeline with each commit.

use super::*;
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_model::metadata::Metadata;
use tepui_model::queue::{Call, Claimed, Operation, QueueName, Reply, SequencedOperation};
use tepui_model::time::{NodeNumber, SystemClock};
use tepui_service::{GarbageCollector, QueueOptions, QueueService};
use tokio::task::JoinSet;

const ACCOUNT: &str = "account";
const LATENCY: Duration = Duration::from_millis(2);
const RECEIVERS: usize = 8;

type Service = Arc<QueueService<RemoteEngine>>;

fn jobs() -> QueueName {
    QueueName::parse("jobs").unwrap()
}

fn node(engine: &Arc<RemoteEngine>, number: u64) -> Service {
    let collector = Arc::new(GarbageCollector::new(Arc::clone(engine)));
    let clock = Arc::new(SystemClock::of_node(NodeNumber::new(number).unwrap()));
    Arc::new(QueueService::new(Arc::clone(engine), clock, collector, QueueOptions::default()))
}

async fn run(service: &Service, call: impl Into<Call>) -> Reply {
    service.execute(ACCOUNT, &call.into()).await.unwrap()
}

async fn put(service: &Service, number: usize) -> Claimed {
    let text = Bytes::from(number.to_string());
    let put =
        SequencedOperation::PutMessage { queue: jobs(), text, visibility: Duration::ZERO, lifetime: None };
    match run(service, put).await {
        Reply::Put(message) => message,
        other => panic!("not put: {other:?}"),
    }
}

async fn claim(service: &Service, count: usize) -> Vec<Claimed> {
    let visibility = Duration::from_secs(600);
    match run(service, SequencedOperation::GetMessages { queue: jobs(), count, visibility }).await {
        Reply::Messages(messages) => messages,
        other => panic!("not taken: {other:?}"),
    }
}

async fn delete(service: &Service, message: &Claimed) {
    let (id, receipt) = (Some(message.stamp.id), Some(message.receipt));
    run(service, SequencedOperation::DeleteMessage { queue: jobs(), id, receipt }).await;
}

async fn count(service: &Service) -> u64 {
    match run(service, Operation::GetMetadata { queue: jobs() }).await {
        Reply::Metadata { messages, .. } => messages,
        other => panic!("not counted: {other:?}"),
    }
}

/// A queue with messages, and nodes that share it.
async fn shared_queue(nodes: u64, messages: usize) -> (Arc<RemoteEngine>, Vec<Service>) {
    let engine = Arc::new(RemoteEngine::with_latency(LATENCY));
    let nodes: Vec<Service> = (0..nodes).map(|number| node(&engine, number)).collect();
    run(&nodes[0], Operation::CreateQueue { queue: jobs(), metadata: Metadata::default() }).await;
    let mut putting = JoinSet::new();
    for number in 0..messages {
        let service = Arc::clone(&nodes[number % nodes.len()]);
        putting.spawn(async move { put(&service, number).await });
    }
    let put = putting.join_all().await;
    let ids: HashSet<u128> = put.iter().map(|message| message.stamp.id.0).collect();
    assert_eq!(ids.len(), messages, "every message has an id of its own");
    assert_eq!(count(&nodes[0]).await, messages as u64);
    (engine, nodes)
}

/// What receivers have done.
struct Received {
    /// Messages per second.
    rate: f64,
    /// For each message.
    round_trips: f64,
    /// The fewest and the most messages of one receiver.
    least: u64,
    most: u64,
}

/// Receivers on each node take messages and delete them until there are none.
async fn receive(nodes: u64, messages: usize, at_once: usize) -> Received {
    let (engine, nodes) = shared_queue(nodes, messages).await;
    let seen = Arc::new(parking_lot::Mutex::new(HashSet::new()));
    let counts: Vec<Arc<AtomicU64>> = (0..nodes.len() * RECEIVERS).map(|_| Arc::default()).collect();
    let (began, trips_before) = (Instant::now(), engine.round_trips());
    let mut receivers = JoinSet::new();
    for (number, counted) in counts.iter().enumerate() {
        let (service, seen) = (Arc::clone(&nodes[number % nodes.len()]), Arc::clone(&seen));
        let counted = Arc::clone(counted);
        receivers.spawn(async move {
            loop {
                let claimed = claim(&service, at_once).await;
                if claimed.is_empty() {
                    return;
                }
                for message in &claimed {
                    assert_eq!(message.dequeue_count, 1);
                    assert!(seen.lock().insert(message.stamp.id.0), "handed out twice");
                    delete(&service, message).await;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    receivers.join_all().await;
    let rate = messages as f64 / began.elapsed().as_secs_f64();
    let round_trips = (engine.round_trips() - trips_before) as f64 / messages as f64;
    assert_eq!(seen.lock().len(), messages, "every message was received");
    assert_eq!(count(&nodes[0]).await, 0);
    let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    Received { rate, round_trips, least: *counts.iter().min().unwrap(), most: *counts.iter().max().unwrap() }
}

#[tokio::test]
async fn receivers_on_three_nodes_are_as_fast_as_on_one() {
    let mut rates = Vec::new();
    for nodes in 1..=3 {
        let received = receive(nodes, 600 * nodes as usize, 1).await;
        println!(
            "{nodes} nodes: {:.0} messages/s, {:.1} round trips each, each receiver {} to {}",
            received.rate, received.round_trips, received.least, received.most
        );
        let fair = 600 / RECEIVERS as u64;
        assert!(received.least >= fair / 5, "{nodes} nodes: one receiver had only {}", received.least);
        rates.push(received.rate);
    }
    // More than one would do, but the machine may have other things to do.
    assert!(rates[2] >= 0.8 * rates[0], "{rates:?}");
}

#[tokio::test]
async fn what_one_node_has_put_another_finds_at_once() {
    let (_, nodes) = shared_queue(3, 0).await;
    for round in 0..60 {
        let (here, there) = (&nodes[round % 3], &nodes[(round + 1) % 3]);
        // Views that are a moment old.
        claim(here, 1).await;
        claim(there, 1).await;
        let message = put(here, round).await;
        let taken = claim(there, 32).await;
        assert_eq!(taken.iter().map(|taken| taken.stamp.id).collect::<Vec<_>>(), [message.stamp.id]);
        assert_eq!(claim(here, 1).await.len(), 0);
        delete(here, &taken[0]).await;
        assert_eq!(count(there).await, 0);
    }
}

#[tokio::test]
async fn no_message_is_lost_while_the_low_water_mark_moves() {
    let (_, nodes) = shared_queue(3, 0).await;
    let (put_so_far, taken_so_far) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut work = JoinSet::new();
    let until = Instant::now() + Duration::from_secs(9);
    for service in &nodes {
        let (service, put_so_far) = (Arc::clone(service), Arc::clone(&put_so_far));
        work.spawn(async move {
            while Instant::now() < until {
                put(&service, 0).await;
                put_so_far.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    for service in &nodes {
        let (service, taken_so_far) = (Arc::clone(service), Arc::clone(&taken_so_far));
        work.spawn(async move {
            while Instant::now() < until {
                for message in claim(&service, 8).await {
                    delete(&service, &message).await;
                    taken_so_far.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
    }
    work.join_all().await;
    loop {
        let rest = claim(&nodes[0], 32).await;
        for message in &rest {
            delete(&nodes[1], message).await;
        }
        taken_so_far.fetch_add(rest.len() as u64, Ordering::SeqCst);
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(taken_so_far.load(Ordering::SeqCst), put_so_far.load(Ordering::SeqCst));
    assert_eq!(count(&nodes[2]).await, 0);
}
