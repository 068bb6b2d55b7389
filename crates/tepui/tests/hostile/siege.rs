//! A server under attack, and the neighbour who must not notice.

use crate::support::blob::{BLOCK_BLOB, noise, on_disk};
use crate::support::http::Client;
use crate::support::table::{Change, properties};
use crate::support::{Server, wait_until};
use serde_json::json;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const TABLE: &str = "Besieged";
pub(crate) const CONTAINER: &str = "besieged";
/// What the process may hold beyond what it held after its first requests.
const MORE_MEMORY_KIB: u64 = 64 * 1024;
/// No answer to the neighbour takes longer, even on a busy machine.
const SLOWEST: Duration = Duration::from_secs(2);
/// The same for blobs, which wait for the disk.
const SLOWEST_BLOB: Duration = Duration::from_secs(5);
/// How long it may take until memory is freed after an attack. Threads that have nothing to do keep some, and end
/// after ten seconds.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(30);
/// What is on the disk when nothing is left of the attacks: what the visitors have left, and a little more.
const VISITORS_BYTES: u64 = 2 * 1024 * 1024;

/// What the well-behaved do.
type Visit = fn(&mut Client, usize) -> Result<(), Trouble>;

pub(crate) struct Siege {
    pub(crate) server: Server,
    port: u16,
    visit: Visit,
    memory_before_kib: u64,
    neighbour: Neighbour,
    on_close: OnClose,
    attacks: usize,
    files: TempDir,
}

impl Siege {
    /// A server with these `[limits]`.
    pub(crate) fn lay(limits: &str) -> Self {
        Self::lay_for(limits, OnClose::Fail)
    }

    /// A server that may have to close connections of the well-behaved too: they come again.
    pub(crate) fn lay_crowded(limits: &str) -> Self {
        Self::lay_for(limits, OnClose::ComeAgain)
    }

    /// A server with these `[limits]` for blobs on disk.
    pub(crate) fn lay_to_blobs(limits: &str) -> Self {
        let (files, config) = configure(limits);
        let server = Server::on_disk_with(&files.path().join("data"), &["--config", &config]);
        server.blobs().create_container(CONTAINER);
        let port = server.blob_port;
        Self::begin(files, server, port, visit_blobs, OnClose::Fail)
    }

    fn lay_for(limits: &str, on_close: OnClose) -> Self {
        let (files, config) = configure(limits);
        let server = Server::in_memory(&["--config", &config]);
        server.client().create_table(TABLE);
        let port = server.port;
        Self::begin(files, server, port, visit, on_close)
    }

    fn begin(files: TempDir, server: Server, port: u16, visit: Visit, on_close: OnClose) -> Self {
        let mut client = Client::connect(port).unwrap();
        for value in 0..200 {
            visit(&mut client, value).unwrap_or_else(|error| panic!("{error}"));
        }
        let neighbour = Neighbour::begin(port, visit, on_close);
        let memory_before_kib = server.resident_kib();
        Self { server, port, visit, memory_before_kib, neighbour, on_close, attacks: 0, files }
    }

    /// Where data is, if it is on disk.
    fn data(&self) -> PathBuf {
        self.files.path().join("data")
    }

    /// After an attack: a new client is served as if nothing had been.
    pub(crate) fn survived(&mut self, case: &str) {
        self.attacks += 1;
        assert!(self.server.is_running(), "{case}: the server is gone");
        let visited = insist(self.visit, &mut None, self.port, self.attacks, self.on_close);
        assert_eq!(visited, Ok(()), "{case}");
    }

    pub(crate) fn memory_grew_kib(&self) -> u64 {
        self.server.resident_kib().saturating_sub(self.memory_before_kib)
    }

    pub(crate) fn assert_memory(&self, when: &str) {
        let grew = self.memory_grew_kib();
        assert!(grew <= MORE_MEMORY_KIB, "{when}: {grew} KiB more than before");
    }

    /// The end: what the neighbour saw, what memory is held, and whether anything broke inside.
    pub(crate) fn lift(mut self) {
        if self.data().exists() {
            // Not at once: uploads that broke off are taken back in the background.
            let begun = Instant::now();
            while self.memory_grew_kib() > MORE_MEMORY_KIB && begun.elapsed() < GIVEN_BACK_WITHIN {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let (visits, slowest) = self.neighbour.end();
        assert!(self.server.is_running());
        println!(
            "{} attacks; the neighbour was served {visits} times, at the slowest in {slowest:?}; {} KiB more memory",
            self.attacks,
            self.memory_grew_kib()
        );
        let most = if self.data().exists() { SLOWEST_BLOB } else { SLOWEST };
        assert!(slowest < most, "the neighbour had to wait for {slowest:?}");
        assert!(visits > 0 && self.attacks > 0);
        self.assert_memory("at the end");
        if self.data().exists() {
            let extents = self.data().join("extents");
            wait_until("the disk is as it was before", || on_disk(&extents) < VISITORS_BYTES);
        }
        let (status, _, log) = self.server.stop();
        assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

/// Someone who works on the server all the time.
struct Neighbour {
    over: Arc<AtomicBool>,
    working: Option<JoinHandle<Result<(usize, Duration), String>>>,
}

impl Neighbour {
    fn begin(port: u16, visit: Visit, on_close: OnClose) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let work = move || {
            let (mut visits, mut slowest) = (0, Duration::ZERO);
            let mut client = None;
            while visits == 0 || !seen.load(Ordering::Relaxed) {
                let begun = Instant::now();
                // Now and then on a new connection.
                if visits % 20 == 0 {
                    client = None;
                }
                insist(visit, &mut client, port, NEIGHBOUR + visits, on_close)
                    .map_err(|error| format!("visit {visits}: {error}"))?;
                slowest = slowest.max(begun.elapsed());
                visits += 1;
                // Leaves the processor to others.
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok((visits, slowest))
        };
        Self { over, working: Some(std::thread::spawn(work)) }
    }

    fn end(&mut self) -> (usize, Duration) {
        self.over.store(true, Ordering::Relaxed);
        let outcome = self.working.take().unwrap().join().unwrap();
        outcome.unwrap_or_else(|error| panic!("the neighbour noticed: {error}"))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Values from here on are the neighbour's.
const NEIGHBOUR: usize = 1_000_000;

/// What a well-behaved client makes of a connection that the server has closed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum OnClose {
    Fail,
    ComeAgain,
}

/// Why a visit failed.
enum Trouble {
    Closed(io::Error),
    Wrong(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(error) => write!(f, "the connection broke: {error}"),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Closed(error)
    }
}

/// A configuration with these `[limits]`, and the folder that it is in.
fn configure(limits: &str) -> (TempDir, String) {
    let files = TempDir::new().unwrap();
    let config = files.path().join("tepui.toml");
    std::fs::write(&config, format!("[limits]\n{limits}\n")).unwrap();
    let config = config.to_str().unwrap().to_owned();
    (files, config)
}

/// Visits on the connection that there is, or a new one.
fn insist(
    visit: Visit,
    client: &mut Option<Client>,
    port: u16,
    value: usize,
    on_close: OnClose,
) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let outcome = match client {
            Some(client) => visit(client, value),
            None => Client::connect(port)
                .map_err(Trouble::from)
                .and_then(|connected| visit(client.insert(connected), value)),
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(Trouble::Closed(_)) if on_close == OnClose::ComeAgain && begun.elapsed() < SLOWEST => {
                *client = None;
            }
            Err(trouble) => return Err(trouble.to_string()),
        }
    }
}

/// Writes an entity, reads it back and finds it.
fn visit(client: &mut Client, value: usize) -> Result<(), Trouble> {
    let row = format!("visitor{}", value % 7 + value / NEIGHBOUR * 10);
    let change = Change::new("PUT", row.as_str(), properties(json!({"Value": value})));
    let reply = client.change(TABLE, "p", &change)?;
    if reply.status != 204 {
        return Err(Trouble::Wrong(format!("writing: {reply:?}")));
    }
    match client.get(TABLE, "p", &row)? {
        Some(entity) if entity["Value"] == value => {}
        other => return Err(Trouble::Wrong(format!("reading: {other:?}"))),
    }
    let filter = format!("$filter=PartitionKey%20eq%20'p'%20and%20Value%20eq%20{value}");
    match client.page(TABLE, &filter, "")? {
        (entities, None) if entities.len() == 1 && entities[0]["RowKey"] == row => Ok(()),
        other => Err(Trouble::Wrong(format!("finding: {other:?}"))),
    }
}

/// Uploads a blob that is not inline, reads it back and finds it.
fn visit_blobs(client: &mut Client, value: usize) -> Result<(), Trouble> {
    let name = format!("visitor{}", value % 7 + value / NEIGHBOUR * 10);
    let (path, bytes) = (format!("/{CONTAINER}/{name}"), noise(value as u64 + 1, 20_000));
    let reply = client.blob("PUT", &path, &[BLOCK_BLOB], &bytes)?;
    if reply.status != 201 {
        return Err(Trouble::Wrong(format!("writing: {reply:?}")));
    }
    let reply = client.blob("GET", &path, &[], b"")?;
    if reply.status != 200 || reply.body != bytes {
        return Err(Trouble::Wrong(format!("reading: {} {:?}", reply.status, reply.headers)));
    }
    let list = format!("/{CONTAINER}?restype=container&comp=list&prefix={name}");
    let reply = client.blob("GET", &list, &[], b"")?;
    match reply.text().contains(&format!("<Name>{name}</Name>")) {
        true => Ok(()),
        false => Err(Trouble::Wrong(format!("finding: {}", reply.text()))),
    }
}
