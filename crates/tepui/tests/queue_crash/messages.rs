//! Clients of a queue, and what they have seen together.

use crate::support::Step;
use crate::support::http::Client;
use crate::support::queue::Message;
use crate::support::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const QUEUE: &str = "crash";

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
pub(crate) struct Seen {
    tried: BTreeSet<String>,
    put: BTreeSet<String>,
    deliveries: Vec<Delivery>,
    /// When a deletion was acknowledged.
    deleted: BTreeMap<String, Instant>,
    abandoned: usize,
    /// Requests of unknown outcome.
    pub(crate) interrupted: usize,
}

/// How much was seen, to be printed.
#[derive(Debug, Default, Clone, Copy)]
#[allow(dead_code, reason = "some tests only print it")]
pub(crate) struct Counts {
    pub(crate) put: usize,
    pub(crate) deliveries: usize,
    pub(crate) again: usize,
    pub(crate) deleted: usize,
    pub(crate) abandoned: usize,
    pub(crate) interrupted: usize,
    pub(crate) most_deliveries: u32,
}

impl Seen {
    /// How many messages there are, about.
    #[allow(dead_code, reason = "another test needs it")]
    pub(crate) fn waiting(&self) -> usize {
        self.put.len().saturating_sub(self.deleted.len())
    }

    fn delivered(&mut self, taken: &[Message], asked: Instant, invisible_for: Duration) {
        let received = Instant::now();
        self.deliveries.extend(taken.iter().map(|message| Delivery {
            text: message.text.clone(),
            dequeue_count: message.dequeue_count,
            asked,
            received,
            invisible_for,
        }));
    }

    /// Whether all promises were kept. Nothing is left in the queue.
    pub(crate) fn check(&self) -> Counts {
        let mut by_text: BTreeMap<&str, Vec<&Delivery>> = BTreeMap::new();
        for delivery in &self.deliveries {
            assert!(self.tried.contains(&delivery.text), "never put: {delivery:?}");
            by_text.entry(&delivery.text).or_default().push(delivery);
        }
        for text in &self.put {
            assert!(by_text.contains_key(text.as_str()), "put, and never delivered: {text}");
        }
        let (mut again, mut most_deliveries) = (0, 0);
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
            assert!(lost <= self.interrupted, "taken more often than requested: {deliveries:?}");
            most_deliveries = most_deliveries.max(last.dequeue_count);
            if let Some(deleted) = self.deleted.get(&last.text) {
                assert!(last.asked <= *deleted, "it came back after its deletion: {last:?}");
            }
        }
        Counts {
            put: self.put.len(),
            deliveries: self.deliveries.len(),
            again,
            deleted: self.deleted.len(),
            abandoned: self.abandoned,
            interrupted: self.interrupted,
            most_deliveries,
        }
    }
}

/// Puts a message.
pub(crate) fn put(client: &mut Client, seen: &Mutex<Seen>, text: String) -> io::Result<Step> {
    lock(seen).tried.insert(text.clone());
    let reply = client.put_message(QUEUE, &text)?;
    match Step::failed(reply.status, &reply.text()) {
        Some(Step::Refused(why)) => {
            // So it must never be delivered.
            lock(seen).tried.remove(&text);
            return Ok(Step::Refused(why));
        }
        Some(step) => return Ok(step),
        None => assert_eq!(reply.status, 201, "{}", reply.text()),
    }
    lock(seen).put.insert(text);
    Ok(Step::Done)
}

/// Takes messages, deletes most of them, and drops some as a consumer does that was killed itself.
pub(crate) fn take(client: &mut Client, seen: &Mutex<Seen>, random: &mut Random) -> io::Result<Step> {
    let seconds = 1 + random.below(2) as u64;
    let asked = Instant::now();
    let taken = match client.try_get_messages(QUEUE, 1 + random.below(8), seconds)? {
        Ok(taken) => taken,
        Err(step) => return Ok(step),
    };
    lock(seen).delivered(&taken, asked, Duration::from_secs(seconds));
    for message in &taken {
        if random.once_in(8) {
            lock(seen).abandoned += 1;
            continue;
        }
        let reply = client.delete_message(QUEUE, message)?;
        if let Some(step) = Step::failed(reply.status, &reply.text()) {
            return Ok(step);
        }
        if reply.status == 204 {
            lock(seen).deleted.insert(message.text.clone(), Instant::now());
        } else {
            // Another client has it by now.
            assert_eq!(reply.code(), "MessageNotFound", "{}", reply.text());
        }
    }
    Ok(Step::Done)
}

/// Takes and deletes all that is left.
pub(crate) fn drain(port: u16, seen: &Mutex<Seen>) {
    let mut client = Client::connect(port).unwrap();
    let begun = Instant::now();
    while client.count_messages(QUEUE).unwrap() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the queue does not get empty");
        let asked = Instant::now();
        let taken = client.get_messages(QUEUE, 32, 30).unwrap();
        lock(seen).delivered(&taken, asked, Duration::from_secs(30));
        for message in &taken {
            assert_eq!(client.delete_message(QUEUE, message).unwrap().status, 204);
            lock(seen).deleted.insert(message.text.clone(), Instant::now());
        }
        if taken.is_empty() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Another thread may have failed; that is reported elsewhere.
fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
