//! What is promised about messages when the server is killed in the middle of its work.
//!
//! Producers put and consumers take, delete or abandon messages, while the process is killed (SIGKILL)
//! round after round. In the end every message whose put was acknowledged has been delivered, none
//! came back after its deletion was acknowledged, none was handed to two consumers within one
//! visibility timeout, and dequeue counts rose with every delivery.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

#[path = "support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::Server;
use support::http::Client;
use support::random::Random;
use tempfile::TempDir;

const QUEUE: &str = "crash";
const ROUNDS: usize = 12;
const PRODUCERS: usize = 8;
const CONSUMERS: usize = 8;

/// One message in the hands of one consumer.
#[derive(Debug, Clone)]
struct Delivery {
    text: String,
    dequeue_count: u32,
    asked: Instant,
    received: Instant,
    invisible_for: Duration,
}

/// What all clients have seen.
#[derive(Default)]
struct Seen {
    tried: BTreeSet<String>,
    put: BTreeSet<String>,
    deliveries: Vec<Delivery>,
    /// When a deletion was acknowledged.
    deleted: BTreeMap<String, Instant>,
    abandoned: usize,
    interrupted: usize,
}

#[test]
fn messages_keep_their_promises_through_kill_9() {
    let mut random = Random::seeded("kill -9 under messages");
    let data = TempDir::new().unwrap();
    let mut server = Server::on_disk(data.path());
    Client::connect(server.queue_port).unwrap().create_queue(QUEUE);
    let seen = Mutex::new(Seen::default());

    for round in 0..ROUNDS {
        let (port, killed) = (server.queue_port, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            for number in 0..PRODUCERS {
                let (seen, seed) = (&seen, random.next());
                scope.spawn(move || produce(port, killed, seen, &format!("{round}-{number}"), seed));
            }
            for _ in 0..CONSUMERS {
                let (seen, seed) = (&seen, random.next());
                scope.spawn(move || consume(port, killed, seen, seed));
            }
            std::thread::sleep(Duration::from_millis(100 + random.below(400) as u64));
            killed.store(true, Ordering::SeqCst);
            server.kill();
        });
        server = Server::on_disk(data.path());
    }
    drain(server.queue_port, &seen);
    check(&seen.into_inner().unwrap());
}

/// Puts messages until the server is gone.
fn produce(port: u16, killed: &AtomicBool, seen: &Mutex<Seen>, name: &str, seed: u64) {
    let mut random = Random::new(seed);
    let Ok(mut client) = Client::connect(port) else { return };
    for number in 0.. {
        let text = format!("{name}-{number}");
        seen.lock().unwrap().tried.insert(text.clone());
        match client.put_message(QUEUE, &text) {
            Ok(reply) => assert_eq!(reply.status, 201, "{}", reply.text()),
            Err(error) => return interrupted(&error, killed, seen),
        }
        seen.lock().unwrap().put.insert(text);
        if random.once_in(8) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Takes messages, deletes most of them, and drops some as a consumer does that was killed itself.
fn consume(port: u16, killed: &AtomicBool, seen: &Mutex<Seen>, seed: u64) {
    let mut random = Random::new(seed);
    let Ok(mut client) = Client::connect(port) else { return };
    loop {
        let seconds = 1 + random.below(2) as u64;
        let asked = Instant::now();
        let taken = match client.get_messages(QUEUE, 1 + random.below(8), seconds) {
            Ok(taken) => taken,
            Err(error) => return interrupted(&error, killed, seen),
        };
        let received = Instant::now();
        seen.lock().unwrap().deliveries.extend(taken.iter().map(|message| Delivery {
            text: message.text.clone(),
            dequeue_count: message.dequeue_count,
            asked,
            received,
            invisible_for: Duration::from_secs(seconds),
        }));
        for message in &taken {
            if random.once_in(8) {
                seen.lock().unwrap().abandoned += 1;
                continue;
            }
            match client.delete_message(QUEUE, message) {
                Ok(reply) if reply.status == 204 => {
                    seen.lock().unwrap().deleted.insert(message.text.clone(), Instant::now());
                }
                // Somebody else has it by now.
                Ok(reply) => assert_eq!(reply.code(), "MessageNotFound", "{}", reply.text()),
                Err(error) => return interrupted(&error, killed, seen),
            }
        }
    }
}

/// A connection breaks because the server is killed, and for no other reason.
fn interrupted(error: &std::io::Error, killed: &AtomicBool, seen: &Mutex<Seen>) {
    assert!(killed.load(Ordering::SeqCst), "{error}");
    seen.lock().unwrap().interrupted += 1;
}

/// Takes and deletes all that is left.
fn drain(port: u16, seen: &Mutex<Seen>) {
    let mut client = Client::connect(port).unwrap();
    let begun = Instant::now();
    while client.count_messages(QUEUE).unwrap() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the queue does not get empty");
        let asked = Instant::now();
        let taken = client.get_messages(QUEUE, 32, 30).unwrap();
        let received = Instant::now();
        for message in &taken {
            let (text, invisible_for) = (message.text.clone(), Duration::from_secs(30));
            let dequeue_count = message.dequeue_count;
            let delivery = Delivery { text, dequeue_count, asked, received, invisible_for };
            seen.lock().unwrap().deliveries.push(delivery);
            assert_eq!(client.delete_message(QUEUE, message).unwrap().status, 204);
            seen.lock().unwrap().deleted.insert(message.text.clone(), Instant::now());
        }
        if taken.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn check(seen: &Seen) {
    let mut by_text: BTreeMap<&str, Vec<&Delivery>> = BTreeMap::new();
    for delivery in &seen.deliveries {
        assert!(seen.tried.contains(&delivery.text), "nobody put this: {delivery:?}");
        by_text.entry(&delivery.text).or_default().push(delivery);
    }
    for text in &seen.put {
        assert!(by_text.contains_key(text.as_str()), "put, and never delivered: {text}");
    }
    let (mut again, mut largest) = (0, 0);
    for deliveries in by_text.values_mut() {
        deliveries.sort_by_key(|delivery| delivery.dequeue_count);
        for (at, pair) in deliveries.windows(2).enumerate() {
            let (first, second) = (pair[0], pair[1]);
            assert!(second.dequeue_count > first.dequeue_count, "counted twice: {pair:?}");
            // It was taken after it was asked for, so it came back no earlier than this.
            assert!(second.received >= first.asked + first.invisible_for, "{at}: two had it: {pair:?}");
            again += 1;
        }
        let last = deliveries.last().unwrap();
        let lost = last.dequeue_count as usize - deliveries.len();
        assert!(lost <= seen.interrupted, "taken more often than anybody asked: {deliveries:?}");
        largest = largest.max(last.dequeue_count);
        if let Some(deleted) = seen.deleted.get(&last.text) {
            assert!(last.asked <= *deleted, "it came back after its deletion: {last:?}");
        }
    }
    println!(
        "{ROUNDS} rounds: {} puts acknowledged, {} deliveries ({again} again, up to {largest} times), {} \
         deletions acknowledged, {} abandoned, {} requests under way at a kill",
        seen.put.len(),
        seen.deliveries.len(),
        seen.deleted.len(),
        seen.abandoned,
        seen.interrupted,
    );
    for (what, count) in [("puts", seen.put.len()), ("abandoned", seen.abandoned), ("again", again)] {
        assert!(count >= ROUNDS, "too few {what} to show anything: {count}");
    }
}
