//! Metrics and receipts from outside: what they say is what the clients did.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use support::http::{Client, Reply};
use support::table::{Change, batch_body, entity_path, properties};
use support::{Server, wait_until};
use tepui_model::cost::Receipt;
use tepui_model::table::PlanKind;

const TABLE: &str = "Counted";
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");

/// The series of a server, by name and labels.
struct Series(BTreeMap<String, f64>);

impl Series {
    fn scrape(server: &Server) -> Self {
        let mut client = Client::connect(server.admin_port).unwrap();
        Self::parse(&client.unsigned("GET", "/metrics", &[], b"").unwrap())
    }

    fn parse(reply: &Reply) -> Self {
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4"));
        let text = reply.text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(
            lines
                .map(|line| line.rsplit_once(' ').unwrap())
                .map(|(n, v)| (n.to_owned(), v.parse().unwrap()))
                .collect(),
        )
    }

    /// The sum of the series of a name that have all these labels.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_name = self.0.iter().filter(|(series, _)| series.split('{').next() == Some(name));
        of_name.filter(|(series, _)| labels.iter().all(|label| series.contains(label))).map(|(_, v)| v).sum()
    }
}

/// Waits until no request is under way.
fn at_rest(server: &Server) -> Series {
    let in_flight = |series: &Series| series.sum("tepui_requests_in_flight", &[]);
    wait_until("all requests end", || in_flight(&Series::scrape(server)) == 0.0);
    Series::scrape(server)
}

#[test]
fn counters_equal_what_clients_did() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 25;
    const BODY: &[u8] = br#"{"Value":1}"#;
    let server = Server::in_memory(&["--admin-port", "0"]);
    server.client().create_table(TABLE);
    let before = at_rest(&server);
    let work = |number: usize| {
        let mut client = server.client();
        let mut received = 0;
        for round in 0..ROUNDS {
            let path = entity_path(TABLE, &format!("p{number}"), &round.to_string());
            let put = client.request("PUT", &path, &[("Content-Type", "application/json")], BODY).unwrap();
            let missing = client.unsigned("GET", "/devstoreaccount1/Missing()", &[], b"").unwrap();
            assert_eq!((put.status, missing.status), (204, 401));
            received += put.body.len() + missing.body.len();
        }
        received
    };
    let received: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || work(number))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let after = at_rest(&server);
    let grown = |name: &str, labels: &[&str]| after.sum(name, labels) - before.sum(name, labels);
    let each = (CLIENTS * ROUNDS) as f64;
    let (requests, table) = ("tepui_requests_total", "service=\"table\"");
    assert_eq!(
        grown(requests, &["operation=\"InsertOrReplaceEntity\"", "class=\"2xx\"", "auth=\"sas\""]),
        each
    );
    assert_eq!(grown(requests, &[table, "class=\"4xx\""]), each);
    assert_eq!(grown(requests, &[table]), 2.0 * each);
    assert_eq!(grown(requests, &["service=\"queue\""]), 0.0);
    assert_eq!(grown("tepui_request_errors_total", &[table]), each);
    assert_eq!(grown("tepui_request_duration_seconds_count", &[table]), 2.0 * each);
    assert_eq!(grown("tepui_request_bytes_total", &[table]), each * BODY.len() as f64);
    assert_eq!(grown("tepui_response_bytes_total", &[table]), received as f64);
    assert_eq!(after.sum("tepui_build_info", &[]), 1.0);
    assert!(after.sum("process_open_fds", &[]) > 0.0);
}

#[test]
fn commits_and_messages_are_counted() {
    const QUEUE: &str = "counted";
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on_disk_with(directory.path(), &["--admin-port", "0"]);
    let mut client = Client::connect(server.queue_port).unwrap();
    client.create_queue(QUEUE);
    for text in ["one", "two", "three"] {
        assert_eq!(client.put_message(QUEUE, text).unwrap().status, 201);
    }
    let hidden = client.get_messages(QUEUE, 4, 1000).unwrap();
    assert_eq!(hidden.len(), 3);
    for message in &hidden[..2] {
        let receipt = message.receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let path = format!("/{QUEUE}/messages/{}?popreceipt={receipt}&visibilitytimeout=0", message.id);
        assert_eq!(client.request("PUT", &path, &[("Content-Length", "0")], b"").unwrap().status, 204);
    }
    let again = client.get_messages(QUEUE, 4, 1000).unwrap();
    assert_eq!(again.iter().map(|message| message.dequeue_count).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(client.delete_message(QUEUE, &again[0]).unwrap().status, 204);
    let body = b"<QueueMessage><MessageText>short</MessageText></QueueMessage>";
    let path = format!("/{QUEUE}/messages?messagettl=1");
    assert_eq!(client.request("POST", &path, &[], body).unwrap().status, 201);
    wait_until("the short message expires", || {
        let path = format!("/{QUEUE}/messages?peekonly=true");
        !client.request("GET", &path, &[], b"").unwrap().text().contains("short")
    });
    assert!(client.get_messages(QUEUE, 4, 1000).unwrap().is_empty(), "which removes it");
    let messages = "tepui_queue_messages_total";
    let series = at_rest(&server);
    for (event, count) in [
        ("put", 4.0),
        ("got", 5.0),
        ("redelivered", 2.0),
        ("updated", 2.0),
        ("deleted", 1.0),
        ("expired", 1.0),
    ] {
        assert_eq!(series.sum(messages, &[&format!("event=\"{event}\"")]), count, "{event}");
    }
    // Whatever a commit is for, it was in a group, and every group that writes was synced.
    let commits = series.sum("tepui_commits_total", &[]);
    assert!(commits >= 10.0, "{commits}");
    assert_eq!(series.sum("tepui_commit_group_size_sum", &[]), commits);
    assert_eq!(series.sum("tepui_commit_wait_seconds_count", &[]), commits);
    let groups = series.sum("tepui_commit_group_size_count", &[]);
    let syncs = series.sum("tepui_commit_sync_seconds_count", &[]);
    assert!((10.0..=groups).contains(&syncs), "{syncs} of {groups}");
    assert!(series.sum("tepui_commit_sync_seconds_sum", &[]) > 0.0);
    assert_eq!(series.sum("tepui_ready", &[]), 1.0);
    assert!(series.sum("tepui_engine_bytes", &["kind=\"memtables\""]) > 0.0);
    assert!(series.sum("tepui_disk_total_bytes", &[]) > series.sum("tepui_disk_free_bytes", &[]));
}

#[test]
fn connections_are_counted() {
    let server = Server::in_memory(&["--admin-port", "0", "--max-connections-per-address", "2"]);
    let connect = || Client::connect(server.queue_port).unwrap();
    let mut open = [connect(), connect()];
    for client in &mut open {
        assert_eq!(client.unsigned("GET", "/health", &[], b"").unwrap().status, 200);
    }
    assert_eq!(connect().rest(), b"", "the address has all that it may");
    drop(open);
    // Not before the server has seen that they are closed can the address ask for metrics.
    let queue = "service=\"queue\"";
    let ask = || Client::connect(server.admin_port).unwrap().unsigned("GET", "/metrics", &[], b"");
    wait_until("the connections are closed", || {
        ask().is_ok_and(|reply| reply.text().contains("tepui_connections{service=\"queue\"} 0"))
    });
    let mut answer = None;
    wait_until("the last one that asked has gone, too", || {
        answer = ask().ok();
        answer.is_some()
    });
    let series = Series::parse(&answer.unwrap());
    assert_eq!(series.sum("tepui_connections_accepted_total", &[queue]), 2.0);
    assert_eq!(series.sum("tepui_requests_throttled_total", &[queue, "reason=\"connections\""]), 1.0);
}

#[test]
fn failed_credentials_are_counted_by_reason() {
    let server = Server::in_memory(&["--admin-port", "0"]);
    let mut client = server.client();
    let sas = support::SAS;
    let cases = [
        ("missing", String::new(), None),
        ("malformed", String::new(), Some("SharedKey nothing")),
        ("signature", sas.replace("sig=V", "sig=W"), None),
        ("sas", sas.replace("sv=2019-02-02", "sv=soon"), None),
        (
            "time",
            String::new(),
            Some("SharedKey devstoreaccount1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ),
        ("token", String::new(), Some("Bearer x")),
    ];
    for (reason, query, authorization) in &cases {
        let headers: Vec<_> = authorization.iter().map(|value| ("Authorization", *value)).collect();
        let reply =
            client.unsigned("GET", &format!("/devstoreaccount1/Tables?{query}"), &headers, b"").unwrap();
        assert!((400..500).contains(&reply.status), "{reason}: {}", reply.status);
    }
    let series = at_rest(&server);
    for (reason, ..) in &cases {
        let count =
            series.sum("tepui_auth_failures_total", &["service=\"table\"", &format!("reason=\"{reason}\"")]);
        assert_eq!(count, 1.0, "{reason}");
    }
    assert_eq!(series.sum("tepui_auth_failures_total", &[]), cases.len() as f64);
}

/// The names of families in a text: whole words that begin as they do. A crate in a path of Rust is none.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|other: char| !other.is_ascii_alphanumeric() && !matches!(other, '_' | ':'));
    let words = words.filter(|word| !word.contains("::")).map(|word| word.trim_matches(':'));
    words.filter(|word| word.starts_with("tepui_") || word.starts_with("process_")).collect()
}

#[test]
fn the_dashboard_the_alerts_and_the_documentation_name_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--admin-port", "0", "--tls", "auto", "--dev-issuer"];
    let server = Server::on_disk_with(directory.path(), &arguments);
    // Some series begin with their first request.
    let mut client = server.client();
    client.create_table(TABLE);
    assert_eq!(client.request("GET", &format!("/{TABLE}()"), &[ACCEPT], b"").unwrap().status, 200);
    assert_eq!(client.request("GET", "/Missing()", &[ACCEPT], b"").unwrap().status, 404);
    // A request is counted when the last byte of its answer was sent, which its client may know earlier.
    at_rest(&server);
    let reply = Client::connect(server.admin_port).unwrap().unsigned("GET", "/metrics", &[], b"").unwrap();
    let text = reply.text();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let families: BTreeMap<&str, &str> = types.collect();
    assert!(families.len() > 45, "{families:?}");
    let family = |name: &str| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        families.contains_key(name) || base.is_some_and(|base| families.get(base) == Some(&"histogram"))
    };
    for (file, text, some) in [
        ("dashboard", include_str!("../../../packaging/grafana-dashboard.json"), 30),
        ("alerts", include_str!("../../../packaging/prometheus-alerts.yml"), 10),
        ("documentation", include_str!("../../../docs/insight.md"), 40),
    ] {
        let names = named(text);
        assert!(names.len() >= some, "{file}: {names:?}");
        // Those of stores over a network are looked at in the tests of several nodes in `tepui-server`.
        let is_elsewhere = |name: &str| name == "process_" || name.starts_with("tepui_storage_");
        let wrong: Vec<_> = names.iter().filter(|name| !is_elsewhere(name) && !family(name)).collect();
        assert!(wrong.is_empty(), "{file}: there is no {wrong:?}");
    }
    let documented = named(include_str!("../../../docs/insight.md"));
    let own = families.keys().filter(|name| name.starts_with("tepui_"));
    let missing: Vec<_> = own.filter(|name| !documented.contains(*name)).collect();
    assert!(missing.is_empty(), "the documentation does not say what they are: {missing:?}");
}

/// The receipt of an answer.
fn receipt(reply: &Reply) -> Receipt {
    reply.header("tepui-receipt").expect("a receipt").parse().unwrap()
}

#[test]
fn receipts_say_what_messages_cost() {
    let server = Server::in_memory(&[]);
    let mut client = Client::connect(server.queue_port).unwrap();
    client.create_queue("counted");
    for (text, units) in [("small".to_owned(), 1), ("x".repeat(3 * 1024), 3)] {
        assert_eq!(receipt(&client.put_message("counted", &text).unwrap()).cost.units, units);
    }
    for (path, returned, units) in [
        ("/counted/messages?numofmessages=32&peekonly=true", 2, 4),
        ("/counted/messages?numofmessages=32", 2, 4),
        ("/counted/messages?numofmessages=32", 0, 1),
    ] {
        let cost = receipt(&client.request("GET", path, &[], b"").unwrap()).cost;
        assert_eq!((cost.scanned, cost.returned, cost.units), (returned, returned, units), "{path}");
    }
}

#[test]
fn receipts_say_what_queries_cost() {
    let server = Server::in_memory(&[]);
    let mut client = server.client();
    client.create_table(TABLE);
    for row in 0..200 {
        let change = Change::new("PUT", format!("{row:03}"), properties(json!({"Even": row % 2 == 0})));
        client.change(TABLE, if row < 150 { "a" } else { "b" }, &change).unwrap();
    }
    for (options, plan, ranges, scanned, returned, has_more) in [
        ("", PlanKind::Table, 1, 200, 200, false),
        ("$filter=PartitionKey%20eq%20'a'", PlanKind::Partition, 1, 150, 150, false),
        ("$filter=PartitionKey%20eq%20'a'%20and%20Even", PlanKind::Partition, 1, 150, 75, false),
        ("$filter=PartitionKey%20eq%20'a'%20and%20RowKey%20lt%20'010'", PlanKind::RowRange, 1, 10, 10, false),
        ("$filter=PartitionKey%20eq%20'a'%20and%20RowKey%20eq%20'001'", PlanKind::Point, 1, 1, 1, false),
        ("$filter=PartitionKey%20gt%20'a'", PlanKind::PartitionRange, 1, 50, 50, false),
        (
            "$filter=PartitionKey%20eq%20'a'%20and%20PartitionKey%20eq%20'b'",
            PlanKind::Nothing,
            0,
            0,
            0,
            false,
        ),
        ("$top=7", PlanKind::Table, 1, 8, 7, true),
    ] {
        let path = format!("/{TABLE}()?{options}");
        let reply = client.request("GET", &path, &[ACCEPT], b"").unwrap();
        assert_eq!(reply.status, 200, "{options}: {}", reply.text());
        let cost = receipt(&reply).cost;
        assert_eq!((cost.plan, cost.ranges), (Some(plan), ranges), "{options}");
        assert_eq!(
            (cost.scanned, cost.returned, cost.units),
            (scanned, returned, scanned.max(1)),
            "{options}"
        );
        assert_eq!(cost.has_more, has_more, "{options}");
        assert_eq!(cost.bytes > 0, scanned > 0, "{options}");
    }

    let point = |row: &str| format!("{}?x=1", entity_path(TABLE, "a", row));
    for (row, status, found) in [("001", 200, 1), ("none", 404, 0)] {
        let reply = client.request("GET", &point(row), &[ACCEPT], b"").unwrap();
        let cost = receipt(&reply).cost;
        assert_eq!((reply.status, cost.plan, cost.scanned), (status, Some(PlanKind::Point), found));
        assert_eq!((cost.returned, cost.units), (found, 1));
    }
    // What is larger than 1 KiB counts more than once, alone and in a batch.
    let change =
        |row: String, bytes: usize| Change::new("PUT", row, properties(json!({"Text": "x".repeat(bytes)})));
    for (bytes, units) in [(10, 1), (1024, 1), (10 * 1024, 10)] {
        let reply = client.change(TABLE, "c", &change("single".to_owned(), bytes)).unwrap();
        assert_eq!(receipt(&reply).cost.units, units, "{bytes}");
    }
    let changes: Vec<_> =
        (0..100).map(|row| change(format!("{row:03}"), if row == 0 { 2048 } else { 8 })).collect();
    let body = batch_body(TABLE, "c", &changes);
    let content = ("Content-Type", "multipart/mixed; boundary=batch_1");
    let reply = client.request("POST", "/$batch", &[content], &body).unwrap();
    let cost = receipt(&reply).cost;
    assert_eq!((reply.status, cost.units, cost.operations), (202, 101, Some(100)));

    let path = format!("/{TABLE}()?$top=1");
    for (when, asks, has_one) in
        [("asked", false, false), ("asked", true, true), ("never", true, false), ("always", false, true)]
    {
        let server = Server::in_memory(&["--receipts", when]);
        let mut client = server.client();
        client.create_table(TABLE);
        let headers: &[(&str, &str)] = if asks { &[ACCEPT, ("tepui-receipt", "want")] } else { &[ACCEPT] };
        let reply = client.request("GET", &path, headers, b"").unwrap();
        assert_eq!(reply.header("tepui-receipt").is_some(), has_one, "{when}, {asks}");
    }
}
