//! One account takes all that it can get, and another one goes on working: it waits for nothing and is refused nothing,
//! and the server needs no more memory than its budgets say.
//!
//! Each attack lasts a few seconds, over a part of the data. With `TEPUI_TEST_LARGE=1` each lasts 30 s, over 100,000
//! blobs; that is meant for a release build (`cargo test --release -p tepui --test isolation`).
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::Server;
use support::blob::{BLOCK_BLOB, TWO_ACCOUNTS, inside, signed, signed_by_beta};
use support::http::Client;
use tempfile::TempDir;

/// What the server may hold in memory for bodies and for answers by default, and what it may take besides.
const BUDGETS_KIB: u64 = 2 * 256 * 1024;
const BESIDES_KIB: u64 = 100 * 1000;
/// How many blocks a list names.
const LINES: usize = 30_000;

struct Scale {
    lasts: Duration,
    blobs: usize,
    /// No answer to the other account takes longer. Code that is not optimized may take twice as long.
    slowest: Duration,
}

fn scale() -> Scale {
    let slowest = Duration::from_secs(if cfg!(debug_assertions) { 2 } else { 1 });
    match std::env::var_os("TEPUI_TEST_LARGE") {
        Some(_) => Scale { lasts: Duration::from_secs(30), blobs: 100_000, slowest },
        None => Scale { lasts: Duration::from_secs(4), blobs: 24_000, slowest },
    }
}

/// Latency and errors of the other account.
#[derive(Debug, Default)]
struct Visits {
    answers: usize,
    slowest: (Duration, &'static str),
    trouble: Option<String>,
}

impl Visits {
    /// Puts blobs, reads them, and lists the container, again and again.
    fn go_on_until(mut self, done: &AtomicBool, port: u16) -> Self {
        let mut client = Client::connect(port).unwrap();
        let list = signed_by_beta("/quiet?restype=container&comp=list");
        while self.trouble.is_none() && !(done.load(Ordering::SeqCst) && self.answers > 0) {
            let body = format!("visit {}", self.answers);
            let blob = signed_by_beta(&format!("/quiet/{}", self.answers % 10));
            self.ask(&mut client, ("PUT", "Put Blob", &blob), body.as_bytes(), 201);
            self.ask(&mut client, ("GET", "Get Blob", &blob), b"", 200);
            let large = signed_by_beta("/quiet/large");
            self.ask(&mut client, ("PUT", "Put Blob of 200 KB", &large), &[b'x'; 200_000], 201);
            self.ask(&mut client, ("GET", "Get Blob of 200 KB", &large), b"", 200);
            self.ask(&mut client, ("GET", "List Blobs", &list), b"", 200);
            self.ask(&mut client, ("GET", "health", "/health"), b"", 200);
        }
        self
    }

    fn ask(
        &mut self,
        client: &mut Client,
        (method, what, target): (&str, &'static str, &str),
        body: &[u8],
        expected: u16,
    ) {
        let begun = Instant::now();
        let reply = client.unsigned(method, target, &[BLOCK_BLOB], body);
        self.slowest = self.slowest.max((begun.elapsed(), what));
        self.answers += 1;
        self.trouble = match reply {
            Ok(reply) if reply.status == expected => self.trouble.take(),
            Ok(reply) => Some(format!("{what} is {}: {}", reply.status, reply.text())),
            Err(error) => Some(format!("{what}: {error}")),
        };
    }
}

/// A server with data of a large account, and a small one beside it.
struct Crowded {
    server: Server,
    scale: Scale,
    /// The attacks that the other account has noticed, or that took too much memory.
    noticed: Vec<String>,
    _data: TempDir,
}

impl Crowded {
    fn new() -> Self {
        let (data, scale) = (TempDir::new().unwrap(), scale());
        let server = Server::on_disk_with(data.path(), TWO_ACCOUNTS);
        let mut client = server.blobs();
        let open = [("x-ms-blob-public-access", "container")];
        assert_eq!(client.blob("PUT", "/many?restype=container", &open, b"").unwrap().status, 201);
        let quiet = signed_by_beta("/quiet?restype=container");
        let created = client.unsigned("PUT", &quiet, &[("Content-Length", "0")], b"").unwrap();
        assert_eq!(created.status, 201, "{}", created.text());
        Self { server, scale, noticed: Vec::new(), _data: data }
    }

    /// Puts blobs with a tag each. Their names and the values are in different orders.
    fn put_blobs(&self) {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut client = self.server.blobs();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.scale.blobs {
                    return;
                }
                let tags = format!("n={:06}", number * 7919 % self.scale.blobs);
                let headers = [BLOCK_BLOB, ("x-ms-tags", tags.as_str())];
                let reply = client.blob("PUT", &format!("/many/{number:06}"), &headers, b"x").unwrap();
                assert_eq!(reply.status, 201, "{}", reply.text());
            }
        };
        thread::scope(|scope| (0..32).for_each(|_| drop(scope.spawn(work))));
    }

    /// Attacks for a while, and measures the other account and the memory meanwhile.
    fn attack(&mut self, what: &str, attack: impl FnOnce(&AtomicBool) + Send) {
        let before = self.server.resident_kib();
        let (done, seen) = (AtomicBool::new(false), AtomicBool::new(false));
        let (visits, most) = thread::scope(|scope| {
            let visitor = scope.spawn(|| Visits::default().go_on_until(&seen, self.server.blob_port));
            let attacker = scope.spawn(|| attack(&done));
            let (begun, mut most) = (Instant::now(), 0);
            while begun.elapsed() < self.scale.lasts && !visitor.is_finished() {
                most = most.max(self.server.resident_kib());
                thread::sleep(Duration::from_millis(20));
            }
            // First the visitor: it has seen nothing of how the attack ends.
            seen.store(true, Ordering::SeqCst);
            let visits = visitor.join().unwrap();
            done.store(true, Ordering::SeqCst);
            attacker.join().unwrap();
            (visits, most)
        });
        let grew = most.saturating_sub(before);
        let seen = format!("{what}: {visits:?}, {grew} KiB more memory");
        println!("{seen}");
        let is_well = visits.trouble.is_none()
            && visits.slowest.0 < self.scale.slowest
            && grew < BUDGETS_KIB + BESIDES_KIB;
        self.noticed.extend((!is_well).then_some(seen));
    }
}

/// Asks, and does not read the answer.
fn ask_only(port: u16, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes()).unwrap();
    stream
}

fn wait_for(done: &AtomicBool) {
    while !done.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// A list of blocks that names few of them very often.
fn long_list(search: &str) -> String {
    let lines =
        (0..LINES).map(|line| format!("<{search}>MDAwM{}==</{search}>", ["A", "Q", "g", "w"][line % 4]));
    format!("<BlockList>{}</BlockList>", lines.collect::<String>())
}

#[test]
fn requests_are_not_delayed_by_those_of_others() {
    let mut crowded = Crowded::new();
    let port = crowded.server.blob_port;
    crowded.put_blobs();

    crowded.attack("500 clients that read nothing", |done| {
        let list = "/devstoreaccount1/many?restype=container&comp=list";
        let streams: Vec<TcpStream> = (0..500).map(|_| ask_only(port, list)).collect();
        wait_for(done);
        drop(streams);
    });

    crowded.attack("300 uploads at 1.3 KB/s", |done| {
        let begin = |number: usize| {
            let target = signed(&format!("/many/slow-{number}?comp=block&blockid=MQ=="));
            let head = format!("PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 8388608\r\n\r\n");
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        };
        let mut streams: Vec<TcpStream> = (0..300).map(begin).collect();
        while !done.load(Ordering::SeqCst) {
            // Some may be refused: that is their part.
            streams.retain_mut(|stream| stream.write_all(&[b'x'; 130]).is_ok());
            thread::sleep(Duration::from_millis(100));
        }
    });

    crowded.attack("16 finds by tags", |done| {
        let find = || {
            let mut client = Client::connect(port).unwrap();
            let mut marker = String::new();
            while !done.load(Ordering::SeqCst) {
                let find = format!("/many?restype=container&comp=blobs&where=n%3E'0'&marker={marker}");
                let page = client.blob("GET", &find, &[], b"").unwrap();
                assert!(matches!(page.status, 200 | 503), "{}", page.text());
                marker = inside(&page.text(), "NextMarker").unwrap_or_default().to_owned();
            }
        };
        thread::scope(|scope| (0..16).for_each(|_| drop(scope.spawn(find))));
    });

    let mut client = crowded.server.blobs();
    for id in ["MDAwMA==", "MDAwMQ==", "MDAwMg==", "MDAwMw=="] {
        let put = client.blob("PUT", &format!("/many/list?comp=block&blockid={id}"), &[], b"block").unwrap();
        assert_eq!(put.status, 201, "{}", put.text());
    }
    let first = client.blob("PUT", "/many/list?comp=blocklist", &[], long_list("Latest").as_bytes()).unwrap();
    assert_eq!(first.status, 201, "{}", first.text());
    crowded.attack("lists of 30,000 blocks", |done| {
        let list = || {
            let mut client = Client::connect(port).unwrap();
            let body = long_list("Committed");
            while !done.load(Ordering::SeqCst) {
                let put = client.blob("PUT", "/many/list?comp=blocklist", &[], body.as_bytes()).unwrap();
                assert!(matches!(put.status, 201 | 503), "{}", put.text());
                let got =
                    client.blob("GET", "/many/list?comp=blocklist&blocklisttype=all", &[], b"").unwrap();
                assert!(matches!(got.status, 200 | 503), "{}", got.text());
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(list))));
    });
    assert!(crowded.noticed.is_empty(), "{:#?}", crowded.noticed);
    let (status, _, log) = crowded.server.stop();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(status.code(), Some(0), "{log}");
}
