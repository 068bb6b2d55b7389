//! Targets from outside: what clients get when they ask for as much as they can, and how they are refused.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::json;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::blob::TWO_ACCOUNTS;
use support::http::Client;
use support::table::{Applied, Change, properties};
use support::{Server, wait_until};
use tempfile::TempDir;

const TABLE: &str = "Loaded";
const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");
const EMPTY: (&str, &str) = ("Content-Length", "0");

/// A server with targets from a file.
struct Limited {
    server: Server,
    _file: TempDir,
}

impl Limited {
    fn new(targets: &str, more: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("targets.toml");
        fs::write(&path, targets).unwrap();
        let arguments = [&["--targets", path.to_str().unwrap()], more].concat();
        Self { server: Server::in_memory(&arguments), _file: folder }
    }
}

/// What clients ask for again and again, in partitions by turns.
#[derive(Clone, Copy)]
struct Work {
    partitions: usize,
    request: Request,
}

#[derive(Clone, Copy)]
enum Request {
    /// A batch of so many small upserts.
    Batch(usize),
    /// A query that reads [`SCANNED`] entities of [`SCANNED_UNITS`] units each, and returns none.
    Scan,
}

const SCANNED: usize = 100;
const SCANNED_UNITS: usize = 10;

impl Request {
    fn units(self) -> usize {
        match self {
            Self::Batch(entities) => entities,
            Self::Scan => SCANNED * SCANNED_UNITS,
        }
    }

    /// Whether it was let in.
    fn send(self, client: &mut Client, partition: &str) -> bool {
        match self {
            Self::Batch(entities) => match client.batch(TABLE, partition, &upserts(entities, 1)).unwrap() {
                Applied::All(_) => true,
                Applied::Failed(503, _) => false,
                other => panic!("{other:?}"),
            },
            Self::Scan => {
                let filter = format!("PartitionKey%20eq%20'{partition}'%20and%20Value%20eq%20''");
                match ask(client, "GET", &format!("/{TABLE}()?$filter={filter}"), "") {
                    (200, _) => true,
                    (503, _) => false,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

fn upserts(entities: usize, units: usize) -> Vec<Change> {
    let value = "x".repeat(1024 * units - 100);
    let change = |row: usize| Change::new("PUT", row.to_string(), properties(json!({ "Value": value })));
    (0..entities).map(change).collect()
}

/// What clients got in a time.
struct Got {
    units_per_second: f64,
    refused: u64,
}

/// How long it takes until what was saved up is spent, and how long is measured then.
const SETTLES_IN: Duration = Duration::from_secs(3);
const MEASURED_FOR: Duration = Duration::from_secs(6);

impl Work {
    /// Asks for more than the target all the time.
    fn measure(self, server: &Server) -> Got {
        let (units, refused, measured, done) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let client = |number: usize| {
            let mut client = server.client();
            for turn in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let partition = format!("p{}", (number + turn) % self.partitions);
                if !self.request.send(&mut client, &partition) {
                    refused.fetch_add(1, Ordering::Relaxed);
                    // As long as less than a second of the target is saved up meanwhile, nothing is lost.
                    thread::sleep(Duration::from_millis(20));
                } else if measured.load(Ordering::Relaxed) {
                    units.fetch_add(self.request.units() as u64, Ordering::Relaxed);
                }
            }
        };
        let seconds = thread::scope(|scope| {
            let clients: Vec<_> = (0..4).map(|number| scope.spawn(move || client(number))).collect();
            thread::sleep(SETTLES_IN);
            let begun = Instant::now();
            measured.store(true, Ordering::Relaxed);
            thread::sleep(MEASURED_FOR);
            measured.store(false, Ordering::Relaxed);
            let seconds = begun.elapsed().as_secs_f64();
            done.store(true, Ordering::Relaxed);
            clients.into_iter().for_each(|client| client.join().unwrap());
            seconds
        });
        Got { units_per_second: units.into_inner() as f64 / seconds, refused: refused.into_inner() }
    }

    fn check(self, case: &str, server: &Server, expected: f64) {
        let got = self.measure(server);
        eprintln!("{case}: {:.0} units a second, {} refused", got.units_per_second, got.refused);
        assert!(got.refused > 0, "{case}: the clients were too slow");
        let off = (got.units_per_second / expected - 1.0).abs();
        assert!(off < 0.05, "{case}: {} units a second, not {expected}", got.units_per_second);
    }
}

#[test]
fn loads_settle_at_the_targets() {
    let server = Server::in_memory(&["--targets", "seed-2016"]);
    server.client().create_table(TABLE);
    // The table is warm when this is over; a single partition is not slower before.
    let one = Work { partitions: 1, request: Request::Batch(100) };
    one.check("one partition", &server, 2_000.0);
    let partitions = 15;
    if cfg!(debug_assertions) {
        // Code that is not optimized does not write 20,000 entities in a second.
        let mut client = server.client();
        for partition in 0..partitions {
            let entities = upserts(SCANNED, SCANNED_UNITS);
            let partition = format!("p{partition}");
            wait_until("there is room", || {
                matches!(client.batch(TABLE, &partition, &entities).unwrap(), Applied::All(_))
            });
        }
        Work { partitions, request: Request::Scan }.check("many partitions", &server, 20_000.0);
    } else {
        let request = Request::Batch(100);
        Work { partitions, request }.check("many partitions", &server, 20_000.0);
    }
}

#[test]
fn smaller_targets_are_as_exact() {
    let limited = Limited::new("account-units = 400\npartition-units = 80\nwarm-up-seconds = 0", &[]);
    limited.server.client().create_table(TABLE);
    Work { partitions: 1, request: Request::Batch(1) }.check("one by one", &limited.server, 80.0);
    Work { partitions: 8, request: Request::Batch(10) }.check("many partitions", &limited.server, 400.0);
}

/// Sends a request and says how it was answered.
fn ask(client: &mut Client, method: &str, path: &str, body: &str) -> (u16, String) {
    let headers: &[_] = if body.is_empty() { &[ACCEPT] } else { &[ACCEPT, JSON] };
    let reply = client.request(method, path, headers, body.as_bytes()).unwrap();
    (reply.status, reply.text())
}

#[test]
fn batches_and_scans_count_what_they_touch() {
    // Little is regained in the seconds that this takes.
    let limited = Limited::new("partition-units = 50\nburst-seconds = 80", &[]);
    let mut client = limited.server.client();
    client.create_table(TABLE);
    let rows: Vec<Change> = (0..1000)
        .map(|row| Change::new("PUT", format!("{row:03}"), properties(json!({ "Kind": row % 200 }))))
        .collect();
    // 4,000 are saved up: ten batches of 100 leave 3,000.
    for rows in rows.chunks(100) {
        assert!(matches!(client.batch(TABLE, "p", rows).unwrap(), Applied::All(_)));
    }
    let scan = "/Loaded()?$filter=PartitionKey%20eq%20'p'%20and%20Kind%20eq%201";
    for turn in 0..4 {
        let (status, text) = ask(&mut client, "GET", scan, "");
        assert_eq!((status, text.matches("RowKey").count()), (200, 5), "{turn}: {text}");
    }
    // Each has read 1,000 for the 5. Now there is a debt of nearly as much: twenty seconds.
    let point = "/Loaded(PartitionKey='p',RowKey='001')";
    let (status, text) = ask(&mut client, "GET", point, "");
    assert_eq!(status, 503, "{text}");
    assert!(
        text.starts_with(
            r#"{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"The server is busy.\n"#
        ),
        "{text}"
    );
    let (status, text) = ask(&mut client, "GET", &format!("{point}?timeout=2"), "");
    assert_eq!(status, 500, "{text}");
    assert!(text.contains(r#""code":"OperationTimedOut""#), "{text}");
    let (status, text) = ask(&mut client, "GET", &format!("{point}?timeout=28"), "");
    assert_eq!(status, 503, "{text}");
    // The batch is refused as a whole, outside.
    match client.batch(TABLE, "p", &rows[..100]).unwrap() {
        Applied::Failed(503, text) => assert!(text.contains("The server is busy."), "{text}"),
        other => panic!("{other:?}"),
    }
    // Another partition is not concerned, nor is a query of all of them.
    assert_eq!(ask(&mut client, "GET", "/Loaded(PartitionKey='q',RowKey='001')", "").0, 404);
    assert_eq!(ask(&mut client, "GET", "/Loaded()?$top=1", "").0, 200);
}

#[test]
fn a_new_table_is_busy_as_a_whole() {
    let limited = Limited::new("account-units = 1000\nwarm-up-seconds = 3600\nwarm-up-start = 0.001", &[]);
    let mut client = limited.server.client();
    client.create_table(TABLE);
    // It carries one in a second.
    assert!(matches!(client.batch(TABLE, "p", &upserts(25, 1)).unwrap(), Applied::All(_)));
    for path in ["/Loaded(PartitionKey='q',RowKey='1')", "/LOADED()?$top=1"] {
        let (status, text) = ask(&mut client, "GET", path, "");
        assert!(status == 503 && text.contains("The server is busy."), "{path}: {status} {text}");
    }
    assert_eq!(ask(&mut client, "GET", "/Tables", "").0, 200, "the account is not busy");
}

#[test]
fn the_account_is_refused_at_the_front_door() {
    let limited =
        Limited::new("account-units = 1\nburst-seconds = 20\nwarm-up-seconds = 0", &["--admin-port", "0"]);
    let server = &limited.server;
    server.client().create_table(TABLE);
    let mut refused = 0;
    for (service, port) in [("table", server.port), ("queue", server.queue_port)] {
        let mut client = Client::connect(port).unwrap();
        let reply = loop {
            let path = if service == "table" { "/Tables" } else { "/?comp=list" };
            let reply = client.request("GET", path, &[ACCEPT], b"").unwrap();
            if reply.status != 200 {
                break reply;
            }
        };
        refused += 1;
        assert_eq!(reply.status, 503);
        assert_eq!(reply.header("server"), Some("Microsoft-HTTPAPI/2.0"), "{service}");
        assert_eq!(reply.header("x-ms-error-code"), Some("ServerBusy"), "{service}");
        assert_eq!(reply.header("content-type"), Some("application/xml"), "{service}");
        assert!(reply.header("x-ms-request-id").is_some(), "{service}");
        assert_eq!((reply.header("x-ms-version"), reply.header("retry-after")), (None, None), "{service}");
        let text = reply.text();
        assert!(text.contains("Operations per second is over the account limit."), "{text}");
        // The reason phrase is the message.
        let raw =
            format!("GET /devstoreaccount1/?comp=list&{} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", support::SAS);
        client.send(raw.as_bytes()).unwrap();
        let head = String::from_utf8(client.some(80)).unwrap();
        if service == "queue" {
            refused += 1;
            assert!(
                head.starts_with("HTTP/1.1 503 Operations per second is over the account limit.\r\n"),
                "{head}"
            );
        }
    }
    let metrics =
        Client::connect(server.admin_port).unwrap().unsigned("GET", "/metrics", &[], b"").unwrap().text();
    let counted: u64 = metrics
        .lines()
        .filter(|line| {
            line.starts_with("tepui_requests_throttled_total{") && line.contains("reason=\"account\"")
        })
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert!(counted >= refused, "{metrics}");
}

#[test]
fn queues_blobs_and_bytes_have_targets() {
    let targets = "queue-units = 1\nblob-requests = 1\nblob-bytes = 1000\ningress-bytes = 5000\negress-bytes = 5000\nburst-seconds = 20";
    let limited = Limited::new(targets, &[]);
    let server = &limited.server;
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    queues.create_queue("others");
    let busy = |status: u16, text: &str| status == 503 && text.contains("The server is busy.");
    // 19 are left; a message of 8 KiB counts eight.
    for (text_bytes, expected) in [(8192, 201), (8192, 201), (8192, 201), (1, 503)] {
        let reply = queues.put_message("jobs", &"x".repeat(text_bytes)).unwrap();
        assert_eq!(reply.status, expected, "{}", reply.text());
        assert!(expected == 201 || busy(reply.status, &reply.text()));
    }
    assert_eq!(queues.put_message("others", "x").unwrap().status, 201);

    let mut blobs = server.blobs();
    let container = blobs.blob("PUT", "/files?restype=container", &[EMPTY], b"").unwrap();
    assert_eq!(container.status, 201, "{}", container.text());
    let put = |client: &mut Client, name: &str, bytes: usize| {
        let reply =
            client.blob("PUT", &format!("/files/{name}"), &[support::blob::BLOCK_BLOB], &vec![b'x'; bytes]);
        reply.unwrap()
    };
    // 20 are saved up, and one more is let in that makes a debt; each second brings another.
    let begun = Instant::now();
    let served = (0..100).take_while(|_| put(&mut blobs, "often", 1).status == 201).count();
    let most = 22 + begun.elapsed().as_secs() as usize;
    assert!((21..=most).contains(&served), "{served} served, not 21 to {most}");
    assert_eq!(put(&mut blobs, "large", 20_000).status, 201);
    assert_eq!(put(&mut blobs, "large", 15_000).status, 201, "not yet in debt");
    let reply = put(&mut blobs, "large", 1);
    assert!(busy(reply.status, &reply.text()), "{}", reply.text());
    // 100,000 bytes were saved up for all of the account.
    assert_eq!(put(&mut blobs, "other", 19_000).status, 201);
    assert_eq!(put(&mut blobs, "third", 90_000).status, 201);
    let reply = put(&mut blobs, "fourth", 1);
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("Ingress is over the account limit."), "{}", reply.text());
}

#[test]
fn another_account_feels_nothing() {
    const BETA: &str = "sv=2019-02-02&ss=tq&srt=sco&sp=rwdlacup&se=2099-01-01&sig=FFFI7a0jljZeUWr4CTodR2aztNIS8Y3mH98rnF1zykY%3D";
    let limited = Limited::new("base = 'seed-2016'\naccount-units = 500\nwarm-up-seconds = 0", TWO_ACCOUNTS);
    let server = &limited.server;
    server.client().create_table(TABLE);
    let mut beta = server.client();
    let created = beta
        .unsigned("POST", &format!("/beta/Tables?{BETA}"), &[JSON, ACCEPT], br#"{"TableName":"Quiet"}"#)
        .unwrap();
    assert_eq!(created.status, 201, "{}", created.text());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let noisy: Vec<_> = (0..4)
            .map(|number| {
                let done = &done;
                scope.spawn(move || {
                    let mut client = server.client();
                    let mut refused = 0;
                    while !done.load(Ordering::Relaxed) {
                        let path = format!("/Loaded(PartitionKey='p{number}',RowKey='1')");
                        refused += usize::from(ask(&mut client, "PUT", &path, "{}").0 == 503);
                    }
                    refused
                })
            })
            .collect();
        let begun = Instant::now();
        let mut slowest = Duration::ZERO;
        for turn in 0.. {
            if begun.elapsed() > Duration::from_secs(3) {
                break;
            }
            let asked = Instant::now();
            let path = format!("/beta/Quiet(PartitionKey='p',RowKey='{turn}')?{BETA}");
            let reply = beta.unsigned("PUT", &path, &[JSON, ACCEPT], b"{}").unwrap();
            assert_eq!(reply.status, 204, "{}", reply.text());
            slowest = slowest.max(asked.elapsed());
            // Below its own target.
            thread::sleep(Duration::from_millis(3));
        }
        done.store(true, Ordering::Relaxed);
        let refused: usize = noisy.into_iter().map(|client| client.join().unwrap()).sum();
        eprintln!("{refused} refused; the slowest of the others took {slowest:?}");
        assert!(refused > 0);
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    });
}

#[test]
fn the_hottest_partitions_are_told() {
    let server = Server::in_memory(&["--admin-port", "0"]);
    let mut client = server.client();
    client.create_table(TABLE);
    client.create_table("Growing");
    for number in 0..30 {
        let (hot, spread) = (format!("{number:03}"), format!("{:03}", number * 37 % 100));
        for (table, partition, row) in
            [(TABLE, "hot", &spread), (TABLE, &spread, &hot), ("Growing", &hot, &hot)]
        {
            let path = format!("/{table}(PartitionKey='{partition}',RowKey='{row}')");
            assert_eq!(ask(&mut client, "PUT", &path, "{}").0, 204);
        }
    }
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    (0..9).for_each(|_| assert_eq!(queues.put_message("jobs", "x").unwrap().status, 201));
    let mut admin = Client::connect(server.admin_port).unwrap();
    let bearer = format!("Bearer {}", server.admin_token);
    let mut call = |target: &str| admin.unsigned("GET", target, &[("Authorization", &bearer)], b"").unwrap();
    let found = call("/admin/v1/partitions?top=2").json();
    let [hot, jobs] = &found["partitions"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&hot["resource"], &hot["partition"]), (&json!(TABLE), &json!("hot")), "{found}");
    assert_eq!((&hot["account"], &hot["service"]), (&json!("devstoreaccount1"), &json!("table")), "{found}");
    assert_eq!((&hot["rowKeys"], &hot["partitionKeys"]), (&json!(null), &json!(null)), "{found}");
    assert_eq!((&jobs["resource"], &jobs["partition"]), (&json!("jobs"), &json!(null)), "{found}");
    assert!(hot["unitsPerSecond"].as_f64().unwrap() > jobs["unitsPerSecond"].as_f64().unwrap(), "{found}");
    let growing = found["growingTables"].as_array().unwrap();
    assert_eq!(growing.len(), 1, "{found}");
    assert_eq!((&growing[0]["table"], &growing[0]["partitionKeys"]), (&json!("Growing"), &json!("rising")));
    for (case, query) in
        [("none", "top=0"), ("too many", "top=1001"), ("no number", "top=x"), ("unknown", "tops=1")]
    {
        assert_eq!(call(&format!("/admin/v1/partitions?{query}")).status, 400, "{case}");
    }
    let unknown = admin.unsigned("GET", "/admin/v1/partitions", &[], b"").unwrap();
    assert_eq!(unknown.status, 401);

    let (port, token) = (server.admin_port.to_string(), server.admin_token.as_str());
    let output = support::tepui(
        &["admin", "--port", &port, "--token", token, "partitions", "--top", "1"],
        "".as_ref(),
    );
    let output = { output }.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("table devstoreaccount1/Loaded 'hot'"),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("Growing: all partitions are added at one end"), "{text}");
}
