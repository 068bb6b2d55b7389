//! What is promised about messages when the server is killed in the middle of its work.
//!
//! Producers put and consumers take, delete or abandon messages, while the process is killed (SIGKILL)
//! round after round. In the end every message whose put was acknowledged has been delivered, none
//! came back after its deletion was acknowledged, none was handed to two consumers within one
//! visibility timeout, and dequeue counts rose with every delivery.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod messages;

#[path = "../support/mod.rs"]
mod support;

use messages::{QUEUE, Seen};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::http::Client;
use support::random::Random;
use support::{Server, check_healthy};
use tempfile::TempDir;

const ROUNDS: usize = 12;
const PRODUCERS: usize = 8;
const CONSUMERS: usize = 8;

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
        check_healthy(data.path());
        server = Server::on_disk(data.path());
    }
    messages::drain(server.queue_port, &seen);
    let counts = seen.into_inner().unwrap().check();
    println!("{ROUNDS} rounds: {counts:?}");
    for (what, count) in [("puts", counts.put), ("abandoned", counts.abandoned), ("again", counts.again)] {
        assert!(count >= ROUNDS, "too few {what} to show anything: {count}");
    }
}

/// Puts messages until the server is killed.
fn produce(port: u16, killed: &AtomicBool, seen: &Mutex<Seen>, name: &str, seed: u64) {
    let mut random = Random::new(seed);
    let Ok(mut client) = Client::connect(port) else { return };
    for number in 0.. {
        match messages::put(&mut client, seen, format!("{name}-{number}")) {
            Ok(step) => step.expect_done(),
            Err(error) => return interrupted(&error, killed, seen),
        }
        if random.once_in(8) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Dequeues messages until the server is killed.
fn consume(port: u16, killed: &AtomicBool, seen: &Mutex<Seen>, seed: u64) {
    let mut random = Random::new(seed);
    let Ok(mut client) = Client::connect(port) else { return };
    loop {
        match messages::take(&mut client, seen, &mut random) {
            Ok(step) => step.expect_done(),
            Err(error) => return interrupted(&error, killed, seen),
        }
    }
}

/// A connection breaks because the server is killed, and for no other reason.
fn interrupted(error: &std::io::Error, killed: &AtomicBool, seen: &Mutex<Seen>) {
    assert!(killed.load(Ordering::SeqCst), "{error}");
    seen.lock().unwrap().interrupted += 1;
}
