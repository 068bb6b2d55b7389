//! Hours of work on a small disk, with everything that happens to a server in years.
//!
//! Clients of all three services work, the process is killed (SIGKILL) again and again, and after each restart
//! everything that was acknowledged reads back as it was sent, nothing deleted is back, and each request that was
//! under way has happened wholly or not at all. In between, the disk is filled by another tenant and through the API
//! until that is refused; reads and deletions go on, also after a restart. Then much is deleted, and the space that is
//! taken is compared with what is live. Memory and files of the server are bounded all the time.
//!
//! `TEPUI_SOAK_SECONDS` says for how long (default: 15), `TEPUI_SOAK_DIR` where: on a file system of its own that has
//! at most 16 GiB, or the disk is not filled. `tests/soak/on-small-disk` makes one. `TEPUI_TEST_SEED` asks for
//! the requests of an earlier run. If it fails, the data directory is kept.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod clients;
mod disk;
mod fill;
mod process_stats;
mod space;

#[path = "../queue_crash/messages.rs"]
#[allow(dead_code, reason = "it is shared with another test")]
mod messages;
#[path = "../blob_crash/model.rs"]
#[allow(dead_code, reason = "it is shared with another test")]
mod model;
#[path = "../crash/reader.rs"]
mod reader;
#[path = "../support/mod.rs"]
mod support;
#[path = "../blob_crash/worker.rs"]
#[allow(dead_code, reason = "it is shared with another test")]
mod worker;
#[path = "../crash/writer.rs"]
#[allow(dead_code, reason = "it is shared with another test")]
mod writer;

use clients::{Clients, Found};
use disk::Disk;
use fill::Fill;
use process_stats::ProcessStats;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::blob::TWO_ACCOUNTS;
use support::random::Random;
use support::{Server, expect_killed};

/// Where writers of entities work, and where blobs are.
const TABLE: &str = "Crash";
const CONTAINER: &str = "crash";
/// The entity that a writer is about to change, for readers to look at.
type Announced = Arc<Mutex<String>>;

const REPORT_EVERY: Duration = Duration::from_secs(60);

#[test]
fn nothing_is_lost_and_everything_bounded_for_hours() {
    let seconds = std::env::var("TEPUI_SOAK_SECONDS").map_or(15, |text| text.parse().unwrap());
    let mut soak = Soak::begin(Duration::from_secs(seconds));
    while soak.begun.elapsed() < soak.run_for || soak.too_few().is_some() {
        let too_long = soak.begun.elapsed() > 2 * soak.run_for + Duration::from_secs(240);
        assert!(!too_long, "too few to show anything: {:?}", soak.too_few());
        soak.round();
    }
    soak.end();
}

struct Soak {
    begun: Instant,
    run_for: Duration,
    reported: Instant,
    random: Random,
    disk: Disk,
    server: Server,
    clients: Clients,
    stats: ProcessStats,
    counts: Counts,
    // Dropped last: it says where the data directory is if something has failed.
    data: DataDirectory,
}

#[derive(Debug, Default)]
struct Counts {
    rounds: usize,
    kills: usize,
    fills: usize,
    kills_on_a_full_disk: usize,
    slowest_start: Duration,
    slowest_collection: Duration,
}

impl Soak {
    fn begin(run_for: Duration) -> Self {
        let mut random = Random::seeded("soak");
        let parent = std::env::var_os("TEPUI_SOAK_DIR").map(PathBuf::from);
        let data = DataDirectory::new(parent.as_deref());
        let disk = Disk::new(parent.as_deref());
        let server = Server::on_disk_with(&data.path, TWO_ACCOUNTS);
        let clients = Clients::new(&server, &mut random);
        Self {
            begun: Instant::now(),
            run_for,
            reported: Instant::now(),
            random,
            disk,
            server,
            clients,
            stats: ProcessStats::default(),
            counts: Counts::default(),
            data,
        }
    }

    /// Work and kills; then the disk is filled, if it can be; then much is deleted, and the space is compared.
    fn round(&mut self) {
        self.counts.rounds += 1;
        for _ in 0..2 + self.random.below(3) {
            let span = self.span();
            self.work_and_kill(span, None);
            self.verify();
            self.report();
        }
        if self.disk.is_small {
            self.fill_and_empty();
        } else {
            self.clients.delete_most(&self.server);
        }
        self.compare_space();
        self.verify();
        self.report();
    }

    fn end(mut self) {
        self.verify();
        self.clients.delete_everything(&self.server);
        self.compare_space();
        let Self { server, counts, stats, clients, begun, mut data, .. } = self;
        let (status, _, log) = server.stop();
        check_log(&log);
        assert_eq!(status.code(), Some(0), "{log}");
        println!(
            "soak: ended well after {:?}: {counts:?}; {stats:?}; {}",
            begun.elapsed(),
            clients.summary()
        );
        data.is_done = true;
    }

    /// What was not done often enough yet to show anything: a machine may be busy with other things.
    fn too_few(&self) -> Option<&'static str> {
        match self.counts.kills {
            0..3 => Some("kills"),
            _ if self.disk.is_small && self.counts.fills == 0 => Some("fills"),
            _ => self.clients.too_few(),
        }
    }

    /// How long until the next kill: more often short than long.
    fn span(&mut self) -> Duration {
        let longest = (self.run_for.as_millis() as usize / 8).clamp(1500, 60_000);
        let shortest = longest / 12;
        let below = 1 + self.random.below(longest - shortest);
        Duration::from_millis((shortest + self.random.below(below)) as u64)
    }

    /// Everyone works, until the process is killed and started again.
    fn work_and_kill(&mut self, span: Duration, fill: Option<&mut Fill>) {
        self.clients.work(&mut self.server, span, fill, &mut self.stats);
        self.kill_and_restart();
    }

    fn kill_and_restart(&mut self) {
        check_log(&self.server.log());
        self.server.kill_now();
        self.counts.kills += 1;
        if self.random.once_in(3) {
            // Killed again before it has recovered, or just after.
            let after = Duration::from_micros(self.random.below(60_000) as u64);
            Server::kill_while_starting(&self.data.path, after);
            self.counts.kills += 1;
        }
        self.server = Server::on_disk_with(&self.data.path, TWO_ACCOUNTS);
        self.counts.slowest_start = self.counts.slowest_start.max(self.server.ready_after);
    }

    /// Compares everything with what must be there.
    fn verify(&mut self) {
        self.clients.verify(&self.server);
        self.stats.sample(self.server.pid());
    }

    /// Another tenant takes most of the disk, and clients the rest.
    fn fill_and_empty(&mut self) {
        self.counts.fills += 1;
        let mut fill = Fill::new(self.counts.fills, self.random.next(), &self.server);
        self.disk.leave_free(disk::mib(200 + self.random.below(300) as u64));
        if self.random.once_in(2) {
            // Killed while the disk gets full.
            let span = Duration::from_millis(500 + self.random.below(8000) as u64);
            self.work_and_kill(span, Some(&mut fill));
            self.verify();
            fill.resolve_in_flight(&self.server);
        }
        self.work_and_kill(Duration::from_secs(180), Some(&mut fill));
        assert!(fill.is_refused(), "the disk does not get full: {} bytes are free", self.disk.free());
        self.verify();
        fill.resolve_in_flight(&self.server);

        // Little is free: nothing is written but what frees space.
        self.disk.leave_free(disk::mib(64));
        fill.expect_refusals(&self.server);
        fill.verify(&self.server);
        fill.delete_some(&self.server);

        // Nothing is free.
        self.disk.leave_free(0);
        fill.expect_refusals(&self.server);
        self.kill_and_restart();
        self.counts.kills_on_a_full_disk += 1;
        fill.expect_refusals(&self.server);
        self.verify();
        fill.verify(&self.server);

        self.disk.leave_free(disk::mib(64));
        fill.delete_all(&self.server);
        self.clients.delete_most(&self.server);
        self.disk.leave_all_free();
        fill::expect_space(&self.server);
    }

    /// Waits until the space of deleted data is freed, and compares the used space with the live data.
    fn compare_space(&mut self) {
        self.clients.check_messages(&self.server);
        let live = self.clients.live();
        let begun = Instant::now();
        space::wait_until_collected(&self.data.path, &live, &self.disk);
        self.counts.slowest_collection = self.counts.slowest_collection.max(begun.elapsed());
        self.stats.sample(self.server.pid());
        self.stats.check();
    }

    fn report(&mut self) {
        if self.reported.elapsed() >= REPORT_EVERY {
            self.reported = Instant::now();
            let (counts, stats) = (&self.counts, &self.stats);
            println!("soak: {:?}: {counts:?}; {stats:?}; {}", self.begun.elapsed(), self.clients.summary());
        }
    }
}

/// A disk that is full, or slow for more than 20 s, is the only reason for the server to complain.
fn check_log(log: &str) {
    let complains = |line: &&str| line.contains("ERROR") || line.contains("panicked");
    let wrong = log
        .lines()
        .filter(complains)
        .find(|line| !line.contains("no space") && !line.contains("the committer did not answer in time"));
    assert_eq!(wrong, None, "the server complains");
}

/// Where the server keeps its data: kept if something fails.
struct DataDirectory {
    path: PathBuf,
    is_done: bool,
}

impl DataDirectory {
    fn new(parent: Option<&std::path::Path>) -> Self {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("soak-");
        let made = match parent {
            Some(parent) => builder.tempdir_in(parent),
            None => builder.tempdir(),
        };
        Self { path: made.unwrap().keep(), is_done: false }
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        match self.is_done {
            true => drop(std::fs::remove_dir_all(&self.path)),
            false => eprintln!("soak: failed; the data directory is kept: {}", self.path.display()),
        }
    }
}
