//! Clients of all three services, and what they know together.

use crate::fill::{Fill, is_no_space};
use crate::messages::{self, QUEUE, Seen};
use crate::model::Live as LiveExtents;
use crate::process_stats::ProcessStats;
use crate::reader::Reader;
use crate::space::Live;
use crate::support::blob::signed_by_beta;
use crate::support::http::Client;
use crate::support::random::Random;
use crate::support::table::Properties;
use crate::support::{Server, Step, wait_until};
use crate::worker::Worker;
use crate::writer::Writer;
use crate::{Announced, CONTAINER, TABLE};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WRITERS: usize = 6;
const READERS: usize = 1;
const WORKERS: usize = 6;
const PRODUCERS: usize = 2;
const CONSUMERS: usize = 3;
/// Producers pause while so many messages wait.
const MOST_MESSAGES: usize = 2000;
/// How long who was refused waits before trying again.
const AFTER_REFUSAL: Duration = Duration::from_millis(50);

/// The entities of each partition by row key, each in order.
pub(crate) type Found = BTreeMap<String, BTreeMap<String, Properties>>;

pub(crate) struct Clients {
    announced: Vec<Announced>,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
    workers: Vec<Worker>,
    seen: Mutex<Seen>,
    messages: messages::Counts,
    random: Random,
    outcomes: Outcomes,
    /// Requests under way at a kill, and how many of them were kept.
    interrupted: usize,
    kept: usize,
    reads: usize,
    period: usize,
}

/// What became of requests, but for those that were done.
#[derive(Debug, Default)]
struct Outcomes {
    no_space: AtomicUsize,
    busy: AtomicUsize,
    /// The server did not know, or did not read the request to its end.
    unknown: AtomicUsize,
}

/// The server that is worked on.
#[derive(Clone, Copy)]
struct Work<'a> {
    killed: &'a AtomicBool,
    disk_gets_full: bool,
    outcomes: &'a Outcomes,
}

impl Work<'_> {
    /// Takes one step after the other until the server is killed. Says whether a request is under way then.
    fn go_on(self, port: u16, mut step: impl FnMut(&mut Client) -> io::Result<Step>) -> bool {
        let mut connection = None;
        loop {
            let outcome = match &mut connection {
                Some(client) => step(client),
                None => Client::connect(port).map(|client| {
                    connection = Some(client);
                    Step::Done
                }),
            };
            match outcome {
                Ok(Step::Done) if self.killed.load(Ordering::SeqCst) => return false,
                Ok(Step::Done) => {}
                Ok(Step::Refused(text)) => {
                    let count =
                        if is_no_space(&text) { &self.outcomes.no_space } else { &self.outcomes.busy };
                    count.fetch_add(1, Ordering::Relaxed);
                    // It may not have read the request to its end.
                    connection = None;
                    std::thread::sleep(AFTER_REFUSAL);
                }
                // The disk is full, or takes longer than the server waits: it has logged which.
                Ok(Step::Unknown(_)) => {
                    self.outcomes.unknown.fetch_add(1, Ordering::Relaxed);
                    return true;
                }
                Err(error) => {
                    assert_ne!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                    if !self.killed.load(Ordering::SeqCst) {
                        assert!(self.disk_gets_full, "a request failed: {error}");
                        self.outcomes.unknown.fetch_add(1, Ordering::Relaxed);
                    }
                    return true;
                }
            }
        }
    }
}

impl Clients {
    pub(crate) fn new(server: &Server, random: &mut Random) -> Self {
        server.client().create_table(TABLE);
        server.blobs().create_container(CONTAINER);
        let of_beta = signed_by_beta(&format!("/{CONTAINER}?restype=container"));
        let made = server.blobs().unsigned("PUT", &of_beta, &[("Content-Length", "0")], b"").unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
        Client::connect(server.queue_port).unwrap().create_queue(QUEUE);
        let announced: Vec<Announced> = (0..WRITERS).map(|_| Arc::default()).collect();
        let writer = |number: usize, random: &mut Random| {
            Writer::new(number, random.next(), Arc::clone(&announced[number]))
        };
        Self {
            writers: (0..WRITERS).map(|number| writer(number, random)).collect(),
            readers: Vec::new(),
            workers: (0..WORKERS).map(|number| Worker::new(number, random.next())).collect(),
            seen: Mutex::default(),
            messages: messages::Counts::default(),
            random: Random::new(random.next()),
            announced,
            outcomes: Outcomes::default(),
            interrupted: 0,
            kept: 0,
            reads: 0,
            period: 0,
        }
    }

    /// Everyone works until the server is killed: after `span`, or once the disk is full if it is to be filled.
    pub(crate) fn work(
        &mut self,
        server: &mut Server,
        span: Duration,
        fill: Option<&mut Fill>,
        stats: &mut ProcessStats,
    ) {
        self.period += 1;
        let killed = &AtomicBool::new(false);
        let (seen, announced, random) = (&self.seen, &self.announced, &mut self.random);
        let work = Work { killed, disk_gets_full: fill.is_some(), outcomes: &self.outcomes };
        let (table_port, queue_port, blob_port) = (server.port, server.queue_port, server.blob_port);
        let (pid, period) = (server.pid(), self.period);
        self.readers = (0..READERS).map(|_| Reader::new(random.next())).collect();
        let readers = &mut self.readers;
        std::thread::scope(|scope| {
            let filling =
                fill.map(|fill| scope.spawn(move || fill.go_on(table_port, queue_port, blob_port, killed)));
            for writer in &mut self.writers {
                scope.spawn(move || work.go_on(table_port, |client| writer.step(client)));
            }
            for reader in readers {
                scope.spawn(move || reader.work(table_port, killed, announced));
            }
            for worker in &mut self.workers {
                scope.spawn(move || work.go_on(blob_port, |client| worker.step(client)));
            }
            for number in 0..PRODUCERS {
                let mut random = Random::new(random.next());
                let mut put = 0;
                scope.spawn(move || {
                    let step = |client: &mut Client| {
                        if random.once_in(8) || seen.lock().unwrap().waiting() > MOST_MESSAGES {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        if seen.lock().unwrap().waiting() > MOST_MESSAGES {
                            return Ok(Step::Done);
                        }
                        put += 1;
                        messages::put(client, seen, format!("{period}-{number}-{put}"))
                    };
                    if work.go_on(queue_port, step) {
                        seen.lock().unwrap().interrupted += 1;
                    }
                });
            }
            for _ in 0..CONSUMERS {
                let mut random = Random::new(random.next());
                scope.spawn(move || {
                    if work.go_on(queue_port, |client| messages::take(client, seen, &mut random)) {
                        seen.lock().unwrap().interrupted += 1;
                    }
                });
            }
            scope.spawn(move || stats.watch(pid, killed));
            let begun = Instant::now();
            while begun.elapsed() < span && filling.as_ref().is_none_or(|filling| !filling.is_finished()) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let is_running = server.is_running();
            killed.store(true, Ordering::SeqCst);
            assert!(is_running, "it ended before it was killed");
            server.kill_now();
        });
    }

    /// Compares everything with what must be there; from then on that is what must be.
    pub(crate) fn verify(&mut self, server: &Server) {
        let found = everything(&mut server.client());
        for reader in self.readers.drain(..) {
            reader.check(&found, &self.writers).unwrap_or_else(|error| panic!("{error}"));
            self.reads += reader.reads;
        }
        for writer in &mut self.writers {
            let rows = found.get(writer.partition()).cloned().unwrap_or_default();
            let recovered = writer.verify(rows).unwrap_or_else(|error| panic!("{error}"));
            self.interrupted += usize::from(recovered.interrupted);
            self.kept += usize::from(recovered.kept);
        }
        let port = server.blob_port;
        let recovered: Vec<_> = std::thread::scope(|scope| {
            let settling: Vec<_> =
                self.workers.iter_mut().map(|worker| scope.spawn(|| worker.verify(port))).collect();
            settling.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for recovered in recovered {
            let recovered = recovered.unwrap_or_else(|error| panic!("{error}"));
            self.interrupted += usize::from(recovered.interrupted);
            self.kept += usize::from(recovered.kept);
        }
    }

    /// Takes all messages that are left, and looks at whether all promises were kept.
    pub(crate) fn check_messages(&mut self, server: &Server) {
        messages::drain(server.queue_port, &self.seen);
        let counts = std::mem::take(self.seen.get_mut().unwrap()).check();
        self.messages = messages::Counts {
            put: self.messages.put + counts.put,
            deliveries: self.messages.deliveries + counts.deliveries,
            again: self.messages.again + counts.again,
            deleted: self.messages.deleted + counts.deleted,
            abandoned: self.messages.abandoned + counts.abandoned,
            interrupted: self.messages.interrupted + counts.interrupted,
            most_deliveries: self.messages.most_deliveries.max(counts.most_deliveries),
        };
    }

    /// Deletes most of the blobs, also on a disk that is nearly full.
    pub(crate) fn delete_most(&mut self, server: &Server) {
        for worker in &mut self.workers {
            wait_until("blobs can be deleted", || match worker.delete_most(&mut server.blobs()).unwrap() {
                Step::Done => true,
                Step::Refused(text) if is_no_space(&text) => false,
                other => panic!("{other:?}"),
            });
        }
    }

    /// Deletes the containers.
    pub(crate) fn delete_everything(&mut self, server: &Server) {
        let path = format!("/{CONTAINER}?restype=container");
        for target in [crate::support::blob::signed(&path), signed_by_beta(&path)] {
            let reply = server.blobs().unsigned("DELETE", &target, &[], b"").unwrap();
            assert_eq!(reply.status, 202, "{}", reply.text());
        }
        for worker in &mut self.workers {
            worker.forget_all();
        }
    }

    pub(crate) fn live(&self) -> Live {
        let extents = LiveExtents::of(self.workers.iter().flat_map(Worker::slots));
        // What is small is in rows, with a name and other things of some hundred bytes; the rest has a row at least.
        let mut live = Live {
            at_least_extent_bytes: extents.at_least_bytes,
            extent_bytes: extents.at_most_bytes,
            ..Live::default()
        };
        for slot in self.workers.iter().flat_map(Worker::slots) {
            for state in slot.base.iter().chain(slot.snapshots.values()) {
                for sent in state.parts.iter().filter_map(|part| part.sent.as_ref()).chain(&state.shared) {
                    live.extents += usize::from(sent.in_extent);
                    live.row_bytes += 500 + if sent.in_extent { 0 } else { sent.bytes.len() as u64 };
                }
            }
            live.extents += slot.blocks.len();
        }
        for properties in self.writers.iter().flat_map(|writer| writer.rows().values()) {
            live.row_bytes += serde_json::to_vec(properties).unwrap().len() as u64;
        }
        live
    }

    pub(crate) fn summary(&self) -> String {
        let sum = |count: fn(&Writer) -> usize| self.writers.iter().map(count).sum::<usize>();
        let blobs = self.blob_counts();
        format!(
            "entities: {} single writes, {} batches, {} deletions, {} reads; messages: {:?}; blobs: {blobs:?}; {} \
             requests under way at a kill, of which {} were kept; {:?}",
            sum(|writer| writer.counts.singles),
            sum(|writer| writer.counts.batches),
            sum(|writer| writer.counts.deletions),
            self.reads,
            self.messages,
            self.interrupted,
            self.kept,
            self.outcomes,
        )
    }

    /// What was not done often enough yet to show anything.
    pub(crate) fn too_few(&self) -> Option<&'static str> {
        let blobs = self.blob_counts();
        let of_blobs = ["put", "block", "commit", "append", "pages", "copy", "snapshot", "delete", "read"]
            .map(|what| (what, blobs.get(what).copied().unwrap_or_default(), 5));
        let batches = self.writers.iter().map(|writer| writer.counts.batches).sum();
        let others =
            [("batches", batches, 50), ("messages", self.messages.deleted, 50), ("reads", self.reads, 50)];
        let mut all = of_blobs.into_iter().chain(others);
        all.find(|(_, count, least)| count <= least).map(|(what, ..)| what)
    }

    fn blob_counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for (what, count) in self.workers.iter().flat_map(|worker| &worker.counts) {
            *counts.entry(*what).or_insert(0) += count;
        }
        counts
    }
}

fn everything(client: &mut Client) -> Found {
    let mut found = Found::new();
    for entity in client.query(TABLE, "").unwrap() {
        let key = |name: &str| entity[name].as_str().unwrap().to_owned();
        let (partition, row) = (key("PartitionKey"), key("RowKey"));
        let twice = found.entry(partition).or_default().insert(row, entity);
        assert!(twice.is_none(), "an entity came twice: {twice:?}");
    }
    found
}
