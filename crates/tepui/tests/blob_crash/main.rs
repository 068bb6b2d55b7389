//! Blobs survive a kill of the server.
//!
//! Round after round, clients upload, stage and commit blocks, append, write pages, copy, snapshot and delete,
//! until the process is killed (SIGKILL) at a random time. After each restart everything that was
//! acknowledged reads back as it was sent, and the request that each client had in flight has been
//! executed completely or not at all. In the end the disk holds the live blobs, and then nothing.
//!
//! `TEPUI_CRASH_ROUNDS` asks for more rounds, `TEPUI_TEST_SEED` for those of an earlier run.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod model;
mod worker;

#[path = "../support/mod.rs"]
mod support;

use model::Live;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::blob::{TWO_ACCOUNTS, on_disk, signed_by_beta};
use support::random::Random;
use support::{Server, check_healthy, crash_rounds, wait_until};
use tempfile::TempDir;
use worker::Worker;

const CONTAINER: &str = "crash";
const WORKERS: usize = 8;
/// What the folder of extents may take beyond what is in it: the maps that the file system keeps of volumes
/// with many holes, and for each of them a block at its end.
const ALLOWANCE: u64 = 256 * 1024;

#[test]
fn blobs_survive_kill_9() {
    let rounds = crash_rounds(20);
    let mut random = Random::seeded("kill -9 under blobs");
    let data = TempDir::new().unwrap();
    let start = || Server::on_disk_with(data.path(), TWO_ACCOUNTS);
    let mut server = start();
    server.blobs().create_container(CONTAINER);
    let of_beta = signed_by_beta(&format!("/{CONTAINER}?restype=container"));
    let made = server.blobs().unsigned("PUT", &of_beta, &[("Content-Length", "0")], b"").unwrap();
    assert_eq!(made.status, 201, "{}", made.text());

    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(number, random.next())).collect();
    let (mut interrupted, mut kept, mut slowest) = (0, 0, Duration::ZERO);
    for round in 0..rounds {
        work(server, &mut workers, Duration::from_millis(50 + random.below(700) as u64));
        check_healthy(data.path());
        if round % 3 == 2 {
            // Killed again before it has recovered, or just after.
            let after = Duration::from_micros(random.below(30_000) as u64);
            Server::kill_while_starting(data.path(), after);
        }
        server = start();
        slowest = slowest.max(server.ready_after);
        let port = server.blob_port;
        let recovered: Vec<_> = std::thread::scope(|scope| {
            let verifying: Vec<_> =
                workers.iter_mut().map(|worker| scope.spawn(|| worker.verify(port))).collect();
            verifying.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for outcome in recovered {
            let outcome = outcome.unwrap_or_else(|error| panic!("round {round}: {error}"));
            interrupted += usize::from(outcome.interrupted);
            kept += usize::from(outcome.kept);
        }
    }
    let mut counts = std::collections::BTreeMap::new();
    for (what, count) in workers.iter().flat_map(|worker| &worker.counts) {
        *counts.entry(*what).or_insert(0) += count;
    }
    println!(
        "{rounds} rounds: acknowledged {counts:?}; {interrupted} requests in flight at a kill, of which {kept} \
         were kept; restarts took at most {slowest:?}"
    );
    for what in ["put", "block", "commit", "append", "pages", "copy", "snapshot", "delete"] {
        assert!(counts.get(what).is_some_and(|count| *count >= rounds), "too few to show anything: {what}");
    }
    assert!(interrupted >= rounds, "too few requests in flight: {interrupted}");

    let folder = data.path().join("extents");
    let live = Live::of(workers.iter().flat_map(Worker::slots));
    wait_for_space(&folder, live.at_least_bytes, live.at_most_bytes);
    let mut client = server.blobs();
    let of_development = support::blob::signed(&format!("/{CONTAINER}?restype=container"));
    for target in [of_development, of_beta] {
        assert_eq!(client.unsigned("DELETE", &target, &[], b"").unwrap().status, 202);
    }
    wait_for_space(&folder, 0, 0);
    let (status, _, log) = server.stop();
    assert!(!log.contains("ERROR"), "{log}");
    assert_eq!(status.code(), Some(0), "{log}");
}

/// Waits until unreferenced extents are freed.
fn wait_for_space(folder: &Path, at_least_bytes: u64, at_most_bytes: u64) {
    let begun = Instant::now();
    let most = at_most_bytes + at_most_bytes / 10 + ALLOWANCE;
    wait_until(&format!("at most {most} bytes on disk, for {at_most_bytes}"), || on_disk(folder) <= most);
    let taken = on_disk(folder);
    println!("{taken} bytes on disk for {at_least_bytes} to {at_most_bytes}, after {:?}", begun.elapsed());
    assert!(taken >= at_least_bytes - at_least_bytes / 10, "{taken} bytes on disk for {at_least_bytes}");
}

/// Runs all workers on `server` until it is killed.
fn work(mut server: Server, workers: &mut [Worker], for_so_long: Duration) {
    let (port, killed) = (server.blob_port, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || worker.work(port, killed));
        }
        std::thread::sleep(for_so_long);
        assert!(server.is_running(), "it ended before it was killed");
        killed.store(true, Ordering::SeqCst);
        server.kill();
    });
}
