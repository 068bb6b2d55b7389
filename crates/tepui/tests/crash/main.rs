//! What survives when the server is killed in the middle of its work.
//!
//! Round after round, clients write and read until the process is killed (SIGKILL) at a random
//! time. After each restart every acknowledged write must be there as it was acknowledged, every
//! batch whole or absent, and nothing that anyone has read may have been undone.
//! A killed process loses nothing that the kernel has: losing power is the matter of the engine's tests.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod large;
mod reader;
mod writer;

#[path = "../support/mod.rs"]
mod support;

use reader::Reader;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::http::Client;
use support::random::Random;
use support::table::Properties;
use support::{Server, check_healthy, expect_killed};
use tempfile::TempDir;
use writer::Writer;

const TABLE: &str = "Crash";
const ROUNDS: usize = 24;
const WRITERS: usize = 16;
const READERS: usize = 2;
/// Far more than it takes, for machines that are busy with other things.
const QUICK: Duration = Duration::from_secs(5);

/// The entity that a writer is about to change, for readers to look at.
type Announced = Arc<Mutex<String>>;

#[test]
fn what_was_acknowledged_or_read_survives_kill_9() {
    let mut random = Random::seeded("kill -9 under load");
    let data = TempDir::new().unwrap();
    let mut server = Server::on_disk(data.path());
    server.client().create_table(TABLE);
    let announced: Vec<Announced> = (0..WRITERS).map(|_| Announced::default()).collect();
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer::new(number, random.next(), announced[number].clone())).collect();
    let (mut reads, mut slowest, mut interrupted, mut kept) = (0, Duration::ZERO, 0, 0);

    for round in 0..ROUNDS {
        let load_for = Duration::from_millis(50 + random.below(600) as u64);
        let seeds: Vec<u64> = (0..READERS).map(|_| random.next()).collect();
        let (written, readers) = load(server, writers, &announced, &seeds, load_for);
        writers = written;
        check_healthy(data.path());

        if round % 3 == 2 {
            // Killed again before it has recovered, or just after.
            Server::kill_while_starting(data.path(), Duration::from_micros(random.below(30_000) as u64));
        }
        server = Server::on_disk(data.path());
        slowest = slowest.max(server.ready_after);
        assert!(server.ready_after < QUICK, "round {round}: ready only after {:?}", server.ready_after);

        let found = everything(&mut server.client());
        for reader in &readers {
            reader.check(&found, &writers).unwrap_or_else(|error| panic!("round {round}: {error}"));
            reads += reader.reads;
        }
        for writer in &mut writers {
            let rows = found.get(writer.partition()).cloned().unwrap_or_default();
            let outcome = writer.verify(rows).unwrap_or_else(|error| panic!("round {round}: {error}"));
            interrupted += usize::from(outcome.interrupted);
            kept += usize::from(outcome.kept);
        }
    }

    let sum = |count: fn(&Writer) -> usize| writers.iter().map(count).sum::<usize>();
    println!(
        "{ROUNDS} rounds: {} single writes and {} batches of {} changes acknowledged, {} deletions among \
         them, {} refused as they should be; {interrupted} under way at a kill, of which {kept} were kept; \
         {reads} reads; restarts took at most {slowest:?}",
        sum(|writer| writer.counts.singles),
        sum(|writer| writer.counts.batches),
        sum(|writer| writer.counts.batched),
        sum(|writer| writer.counts.deletions),
        sum(|writer| writer.counts.refused),
    );
    for (what, count) in [
        ("single writes", sum(|writer| writer.counts.singles)),
        ("batches", sum(|writer| writer.counts.batches)),
        ("deletions", sum(|writer| writer.counts.deletions)),
        ("writes under way at a kill", interrupted),
        ("reads", reads),
    ] {
        assert!(count >= ROUNDS, "too few {what} to show anything: {count}");
    }
}

/// Lets everyone work on `server` until it is killed.
fn load(
    mut server: Server,
    writers: Vec<Writer>,
    announced: &[Announced],
    seeds: &[u64],
    load_for: Duration,
) -> (Vec<Writer>, Vec<Reader>) {
    let (port, killed) = (server.port, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writing: Vec<_> = writers
            .into_iter()
            .map(|mut writer| {
                scope.spawn(move || {
                    writer.work(port, killed);
                    writer
                })
            })
            .collect();
        let reading: Vec<_> = seeds
            .iter()
            .map(|seed| {
                scope.spawn(move || {
                    let mut reader = Reader::new(*seed);
                    reader.work(port, killed, announced);
                    reader
                })
            })
            .collect();
        std::thread::sleep(load_for);
        assert!(server.is_running(), "it ended before it was killed");
        killed.store(true, Ordering::SeqCst);
        server.kill();
        (
            writing.into_iter().map(|thread| thread.join().unwrap()).collect(),
            reading.into_iter().map(|thread| thread.join().unwrap()).collect(),
        )
    })
}

/// The entities of each partition by row key, each in order.
type Found = BTreeMap<String, BTreeMap<String, Properties>>;

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
