//! Requests as they end, live.

use crate::support::Server;
use crate::support::table::entity_path;
use crate::support::wait_until;
use crate::{Admin, test_bench};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Listens, and waits until it does.
    fn listen(server: &Server, filter: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.admin_port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "GET /admin/v1/requests{filter} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            server.admin_token
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        assert!(events.line().starts_with("HTTP/1.1 200"));
        while events.line() != ": from here on" {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The next event: its kind and its data.
    fn next(&mut self) -> (String, Value) {
        let mut kind = String::new();
        loop {
            let line = self.line();
            if let Some(event) = line.strip_prefix("event: ") {
                kind = event.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (kind, serde_json::from_str(data).unwrap());
            }
        }
    }

    fn request(&mut self) -> Value {
        let (kind, data) = self.next();
        assert_eq!(kind, "");
        data
    }
}

#[test]
fn every_request_is_an_event_with_its_receipt() {
    let server = test_bench();
    let mut events = Events::listen(&server, "");
    let mut client = server.client();
    client.create_table("Seen");
    let created = events.request();
    assert_eq!(
        (&created["service"], &created["operation"], &created["status"]),
        (&json!("table"), &json!("CreateTable"), &json!(204))
    );
    let url = created["url"].as_str().unwrap();
    assert!(url.starts_with("/devstoreaccount1/Tables?") && url.contains("sig=XXXXX"), "{url}");
    assert_eq!((&created["account"], &created["auth"]), (&json!("devstoreaccount1"), &json!("sas")));
    let path = entity_path("Seen", "p", "1");
    client
        .request("PUT", &path, &[("Content-Type", "application/json"), ("User-Agent", "tester/1.0")], b"{}")
        .unwrap();
    let put = events.request();
    assert_eq!(
        (&put["receipt"]["units"], &put["userAgent"], &put["bytesIn"]),
        (&json!(1), &json!("tester/1.0"), &json!(2))
    );
    client.request("GET", "/Seen()?$filter=A%20eq%201", &[("Accept", "application/json")], b"").unwrap();
    let query = events.request();
    assert_eq!((&query["receipt"]["plan"], &query["receipt"]["scanned"]), (&json!("table"), &json!(1)));
    assert!(query["ms"].as_f64().unwrap() >= query["serverMs"].as_f64().unwrap());
    client.request("GET", "/Missing()", &[("Accept", "application/json")], b"").unwrap();
    assert_eq!(events.request()["errorCode"], "TableNotFound");
    // A cut connection has no status.
    Admin::of(&server).post("/faults", json!({"cut": true, "count": 1}));
    assert!(client.request("GET", "/Seen()", &[], b"").is_err());
    assert_eq!(events.request()["status"], Value::Null);
}

#[test]
fn filters_choose_what_is_seen() {
    let server = test_bench();
    let mut listeners: Vec<_> = [
        "?service=queue",
        "?status=4xx",
        "?operation=CreateQueue&account=devstoreaccount1",
        "?status=409&service=table",
        "?account=nobody",
        "?operation=QueryTables",
    ]
    .into_iter()
    .map(|filter| Events::listen(&server, filter))
    .collect();
    let mut client = server.client();
    client.create_table("Twice");
    let body = br#"{"TableName":"Twice"}"#;
    let json_body = [("Content-Type", "application/json"), ("Accept", "application/json")];
    assert_eq!(client.request("POST", "/Tables", &json_body, body).unwrap().status, 409);
    let mut queues = crate::support::http::Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    client.request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap();
    let operations: Vec<_> = [0, 1, 2, 3, 5].map(|at| listeners[at].request()["operation"].clone()).to_vec();
    assert_eq!(operations, ["CreateQueue", "CreateTable", "CreateQueue", "CreateTable", "QueryTables"]);
}

#[test]
fn who_does_not_read_holds_up_nobody_and_is_told_what_was_dropped() {
    const REQUESTS: usize = 10_000;
    let server = test_bench();
    let mut events = Events::listen(&server, "");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.client();
                for _ in 0..REQUESTS / 4 {
                    client.request("GET", "/Tables", &[("User-Agent", &"x".repeat(1000))], b"").unwrap();
                }
            });
        }
    });
    let (mut seen, mut dropped) = (0, 0);
    while seen + dropped < REQUESTS {
        match events.next() {
            (kind, data) if kind == "dropped" => dropped += data["count"].as_u64().unwrap() as usize,
            _ => seen += 1,
        }
    }
    assert_eq!(seen + dropped, REQUESTS, "each was seen or counted");
    assert!(dropped > 0, "{seen} seen");
}

#[test]
fn listeners_are_few_and_leave_no_trace() {
    let server = test_bench();
    let listeners: Vec<_> = (0..16).map(|_| Events::listen(&server, "")).collect();
    let mut admin = Admin::of(&server);
    let reply = admin.raw("GET", "/requests", "");
    assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (503, Some("TooManyListeners")));
    drop(listeners);
    // The server notices when it writes to them.
    let mut client = server.client();
    wait_until("they are gone", || {
        client.request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", server.admin_port)).unwrap();
        let head = format!(
            "GET /admin/v1/requests HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
            server.admin_token
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 200")
    });
}

#[test]
fn a_server_that_stops_ends_the_stream() {
    let server = test_bench();
    let mut events = Events::listen(&server, "");
    let begun = std::time::Instant::now();
    let (status, _, log) = server.stop();
    assert!(
        status.success() && begun.elapsed() < Duration::from_secs(5),
        "{status} {:?}: {log}",
        begun.elapsed()
    );
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut events.0, &mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest:?}");
}
