//! Metrics tables from outside: a script counts what it does, and the rows say the same, also after the server was killed.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use support::blob::{BLOCK_BLOB, signed};
use support::http::{Client, Reply};
use support::{SAS, Server, wait_until};
use tempfile::TempDir;

const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");

/// The service properties that switch metrics on.
fn properties(hour_apis: bool, minute_apis: bool) -> String {
    let metrics = |name: &str, apis: bool| {
        format!(
            "<{name}><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>{apis}</IncludeAPIs>\
             <RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></{name}>"
        )
    };
    let (hour, minute) = (metrics("HourMetrics", hour_apis), metrics("MinuteMetrics", minute_apis));
    format!("<StorageServiceProperties>{hour}{minute}</StorageServiceProperties>")
}

/// What was done to a service, as rows should have it: requests by operation and column.
type Tally = BTreeMap<(String, &'static str), u64>;

/// A client of one service that counts.
struct Script {
    service: &'static str,
    client: Client,
    tally: Tally,
    /// Of bodies.
    sent: u64,
    received: u64,
}

impl Script {
    fn new(server: &Server, service: &'static str) -> Self {
        let port = match service {
            "Blob" => server.blob_port,
            "Queue" => server.queue_port,
            _ => server.port,
        };
        let client = Client::connect(port).unwrap();
        Self { service, client, tally: Tally::new(), sent: 0, received: 0 }
    }

    /// One request with a shared access signature, and what the rows should call it.
    fn step(
        &mut self,
        operation: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
        status: u16,
    ) -> Reply {
        let join = if path.contains('?') { '&' } else { '?' };
        let target = match self.service {
            "Blob" => signed(path),
            _ => format!("/devstoreaccount1{path}{join}{SAS}"),
        };
        let column = match status {
            200..300 => "SASSuccess",
            401 | 403 => "SASAuthorizationError",
            _ => "SASClientOtherError",
        };
        self.count(operation, column, (method, &target), headers, body, status)
    }

    fn count(
        &mut self,
        operation: &str,
        column: &'static str,
        (method, target): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
        status: u16,
    ) -> Reply {
        let reply = self.client.unsigned(method, target, headers, body.as_bytes()).unwrap();
        assert_eq!(reply.status, status, "{operation} {target}: {}", reply.text());
        *self.tally.entry((operation.to_owned(), column)).or_default() += 1;
        self.sent += body.len() as u64;
        self.received += reply.body.len() as u64;
        reply
    }

    fn switch_on(&mut self, hour_apis: bool, minute_apis: bool) {
        let operation = format!("Set{}ServiceProperties", self.service);
        let request = ("PUT", "/?restype=service&comp=properties");
        self.step(&operation, request, &[], &properties(hour_apis, minute_apis), 202);
    }

    fn requests(&self) -> u64 {
        self.tally.values().sum()
    }
}

/// Does a bit of everything.
fn run_script(server: &Server, hour_apis: bool, minute_apis: bool) -> Vec<Script> {
    let mut table = Script::new(server, "Table");
    table.switch_on(hour_apis, minute_apis);
    table.step("CreateTable", ("POST", "/Tables"), &[JSON, ACCEPT], r#"{"TableName":"People"}"#, 201);
    table.step("CreateTable", ("POST", "/Tables"), &[JSON, ACCEPT], r#"{"TableName":"People"}"#, 409);
    for row in 0..5 {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Value":{row}}}"#);
        table.step("InsertEntity", ("POST", "/People"), &[JSON, ACCEPT], &body, 201);
    }
    let entity = |row| format!("/People(PartitionKey='p',RowKey='{row}')");
    for row in 0..7 {
        let status = if row < 5 { 200 } else { 404 };
        table.step("QueryEntity", ("GET", &entity(row)), &[ACCEPT], "", status);
    }
    table.step("QueryEntities", ("GET", "/People()"), &[ACCEPT], "", 200);
    table.step("QueryTables", ("GET", "/Tables"), &[ACCEPT], "", 200);
    table.step("DeleteEntity", ("DELETE", &entity(1)), &[("If-Match", "*")], "", 204);
    let stale = "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"";
    table.step("DeleteEntity", ("DELETE", &entity(2)), &[("If-Match", stale)], "", 412);
    table.step("GetTableACL", ("GET", "/People?comp=acl"), &[], "", 403);
    // Before anything is known of it but that it has no credentials.
    let unsigned = ("GET", "/devstoreaccount1/People()");
    table.count("Unknown", "AnonymousAuthorizationError", unsigned, &[ACCEPT], "", 401);
    // Reads of metrics tables are requests like others.
    let metrics = "/$MetricsHourPrimaryTransactionsTable()";
    table.step("QueryEntities", ("GET", metrics), &[ACCEPT], "", 200);

    let mut queue = Script::new(server, "Queue");
    queue.switch_on(hour_apis, minute_apis);
    queue.step("CreateQueue", ("PUT", "/jobs"), &[("Content-Length", "0")], "", 201);
    for number in 0..4 {
        let body = format!("<QueueMessage><MessageText>{number}</MessageText></QueueMessage>");
        queue.step("PutMessage", ("POST", "/jobs/messages"), &[], &body, 201);
    }
    queue.step("PeekMessage", ("GET", "/jobs/messages?peekonly=true"), &[], "", 200);
    queue.step("GetMessages", ("GET", "/jobs/messages?numofmessages=3"), &[], "", 200);
    queue.step("GetMessages", ("GET", "/gone/messages?numofmessages=3"), &[], "", 404);
    queue.step("ClearMessages", ("DELETE", "/jobs/messages"), &[], "", 204);

    let mut blob = Script::new(server, "Blob");
    blob.switch_on(hour_apis, minute_apis);
    blob.step("CreateContainer", ("PUT", "/pictures?restype=container"), &[], "", 201);
    for number in 0..3 {
        let path = format!("/pictures/{number}");
        blob.step("PutBlob", ("PUT", &path), &[BLOCK_BLOB], &"x".repeat(1000 * number + 1), 201);
        blob.step("GetBlob", ("GET", &path), &[], "", 200);
        let unchanged = [("If-Modified-Since", "Wed, 31 Dec 2098 23:59:59 GMT")];
        blob.step("GetBlob", ("GET", &path), &unchanged, "", 304);
    }
    blob.step("GetBlob", ("GET", "/pictures/gone"), &[], "", 404);
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1"), ("Content-Length", "0")];
    blob.step("AcquireBlobLease", ("PUT", "/pictures/1?comp=lease"), &acquire, "", 201);
    blob.step("DeleteBlob", ("DELETE", "/pictures/1"), &[], "", 412);
    blob.step("DeleteBlob", ("DELETE", "/pictures/2"), &[], "", 202);
    vec![blob, queue, table]
}

/// All rows of a metrics table, page by page.
fn rows(client: &mut Client, table: &str) -> Vec<Value> {
    let (mut rows, mut next) = (Vec::new(), String::new());
    loop {
        // Several pages, even of few rows.
        let reply = client.request("GET", &format!("/{table}()?$top=3{next}"), &[ACCEPT], b"").unwrap();
        assert_eq!(reply.status, 200, "{table}: {}", reply.text());
        rows.extend(reply.json()["value"].as_array().unwrap().iter().cloned());
        let token = |name: &str| reply.header(&format!("x-ms-continuation-{name}"));
        let (Some(partition), Some(row)) = (token("nextpartitionkey"), token("nextrowkey")) else { break };
        next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
    rows
}

fn integer(row: &Value, column: &str) -> u64 {
    // Int64 is text in JSON.
    row[column].as_str().unwrap_or_else(|| panic!("{column}: {row}")).parse().unwrap()
}

/// The sum of a column over all rows of this RowKey.
fn sum(rows: &[Value], row_key: &str, column: &str) -> u64 {
    rows.iter().filter(|row| row["RowKey"] == row_key).map(|row| integer(row, column)).sum()
}

/// What the other columns of a row should be, by the documentation.
fn check_derived(row: &Value) {
    let of = |kind: &str| -> f64 {
        ["", "Anonymous", "SAS"].iter().map(|prefix| integer(row, &format!("{prefix}{kind}")) as f64).sum()
    };
    let total = integer(row, "TotalRequests") as f64;
    let share = |count: f64| if total == 0.0 { 0.0 } else { 100.0 * count / total };
    let timeouts = of("ClientTimeoutError") + of("ServerTimeoutError");
    for (column, count) in [
        ("PercentSuccess", of("Success")),
        ("PercentThrottlingError", of("ThrottlingError")),
        ("PercentTimeoutError", timeouts),
        ("PercentServerOtherError", of("ServerOtherError")),
        ("PercentClientOtherError", of("ClientOtherError")),
        ("PercentAuthorizationError", of("AuthorizationError")),
        ("PercentNetworkError", of("NetworkError")),
    ] {
        assert!((row[column].as_f64().unwrap() - share(count)).abs() < 1e-9, "{column}: {row}");
    }
    let anonymous_refusals = integer(row, "AnonymousAuthorizationError") as f64;
    let not_billable =
        of("ThrottlingError") + of("ServerTimeoutError") + of("ServerOtherError") + anonymous_refusals;
    let billable = integer(row, "TotalBillableRequests") as f64;
    assert_eq!(billable, total - not_billable, "{row}");
    let counted = total - of("ThrottlingError") - anonymous_refusals;
    let availability = if counted == 0.0 { 100.0 } else { 100.0 * billable / counted };
    assert!((row["Availability"].as_f64().unwrap() - availability).abs() < 1e-9, "{row}");
    let (whole, server) = (row["AverageE2ELatency"].as_f64(), row["AverageServerLatency"].as_f64());
    assert!(whole.unwrap() >= server.unwrap() && server.unwrap() >= 0.0, "{row}");
    assert_eq!(whole.unwrap() > 0.0, of("Success") > 0.0, "{row}");
}

fn check_service(rows: &[Value], script: &Script, by_operation: bool) {
    let service = script.service;
    for row in rows {
        check_derived(row);
    }
    assert_eq!(sum(rows, "user;All", "TotalRequests"), script.requests(), "{service}");
    assert_eq!(sum(rows, "system;All", "TotalRequests"), 0, "{service}");
    // Bytes of heads are counted, too.
    let (ingress, egress) = (sum(rows, "user;All", "TotalIngress"), sum(rows, "user;All", "TotalEgress"));
    let heads = script.requests() * 100;
    assert!(ingress > script.sent + heads && ingress < script.sent + 10 * heads, "{service}: {ingress}");
    assert!(egress > script.received + heads && egress < script.received + 10 * heads, "{service}: {egress}");
    let keys: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row["RowKey"].as_str().unwrap()).filter(|key| !key.ends_with(";All")).collect();
    if !by_operation {
        assert!(keys.is_empty(), "{keys:?}");
        return;
    }
    let mut expected = std::collections::BTreeSet::new();
    for ((operation, column), count) in &script.tally {
        let row_key = format!("user;{operation}");
        assert_eq!(sum(rows, &row_key, column), *count, "{service} {row_key} {column}");
        expected.insert(row_key);
    }
    assert!(keys.iter().eq(expected.iter()), "{keys:?} {expected:?}");
    for column in
        ["SASSuccess", "SASClientOtherError", "SASAuthorizationError", "AnonymousAuthorizationError"]
    {
        let count: u64 =
            script.tally.iter().filter(|((_, of), _)| *of == column).map(|(_, count)| count).sum();
        assert_eq!(sum(rows, "user;All", column), count, "{service} {column}");
    }
}

#[test]
fn rows_say_what_a_script_did() {
    for (hour_apis, minute_apis) in [(true, false), (false, true)] {
        let directory = TempDir::new().unwrap();
        let server = Server::on_disk(directory.path());
        let mut client = server.client();
        let absent = client.request("GET", "/Tables('$MetricsHourPrimaryTransactionsTable')", &[ACCEPT], b"");
        assert_eq!(absent.unwrap().status, 404);
        let scripts = run_script(&server, hour_apis, minute_apis);
        // What it has counted is written before it ends.
        assert!(server.stop().0.success());
        let server = Server::on_disk(directory.path());
        let mut client = server.client();
        for script in &scripts {
            let service = script.service;
            let hours = rows(&mut client, &format!("$MetricsHourPrimaryTransactions{service}"));
            check_service(&hours, script, hour_apis);
            assert_eq!(rows(&mut client, &format!("$MetricsTransactions{service}")), hours);
            let minutes = rows(&mut client, &format!("$MetricsMinutePrimaryTransactions{service}"));
            check_service(&minutes, script, minute_apis);
        }
        let tables = client.request("GET", "/Tables", &[ACCEPT], b"").unwrap().text();
        assert!(!tables.contains("Metrics"), "{tables}");
    }
}

#[test]
fn capacity_and_empty_hours_come_by_themselves() {
    let server = Server::in_memory(&[]);
    let mut blob = Script::new(&server, "Blob");
    blob.step("", ("PUT", "/pictures?restype=container"), &[], "", 201);
    blob.step("", ("PUT", "/empty?restype=container"), &[], "", 201);
    for (name, bytes) in [("small", 10), ("large", 100_000)] {
        blob.step("", ("PUT", &format!("/pictures/{name}")), &[BLOCK_BLOB], &"x".repeat(bytes), 201);
    }
    // Shares all its bytes.
    blob.step("", ("PUT", "/pictures/large?comp=snapshot"), &[("Content-Length", "0")], "", 201);
    let id = "AAAA";
    let block = format!("/pictures/uncommitted?comp=block&blockid={id}");
    blob.step("", ("PUT", &block), &[], &"y".repeat(500), 201);
    blob.switch_on(true, true);
    let mut client = server.client();
    let capacity = "$MetricsCapacityBlob";
    wait_until("capacity is measured", || rows(&mut client, capacity).len() == 2);
    let found = rows(&mut client, capacity);
    for (column, data, analytics) in
        [("Capacity", 100_510, 0), ("ContainerCount", 2, 1), ("ObjectCount", 3, 0)]
    {
        assert_eq!(sum(&found, "data", column), data, "{column}");
        assert_eq!(sum(&found, "analytics", column), analytics, "{column}");
    }
    assert!(found.iter().all(|row| row["PartitionKey"].as_str().unwrap().ends_with("T0000")));
    let mut queue = Script::new(&server, "Queue");
    queue.switch_on(false, false);
    let hours = "$MetricsHourPrimaryTransactionsQueue";
    wait_until("the hour has rows", || rows(&mut client, hours).len() >= 2);
}

/// The requests of the Table service that rows know of, and how many it took to find out.
fn counted(directory: &Path) -> (u64, u64) {
    let server = Server::on_disk(directory);
    let mut client = server.client();
    let hours = rows(&mut client, "$MetricsHourPrimaryTransactionsTable");
    let minutes = rows(&mut client, "$MetricsMinutePrimaryTransactionsTable");
    let requests = |rows: &[Value]| sum(rows, "user;All", "TotalRequests");
    assert_eq!(requests(&hours), requests(&minutes), "both are written together");
    (requests(&hours), pages(&hours) + pages(&minutes))
}

/// How many requests it takes to read rows, at most.
fn pages(rows: &[Value]) -> u64 {
    rows.len() as u64 / 3 + 1
}

/// Killed in the middle of requests, several times: what was written stays, once, and what is missing is of the last seconds.
#[test]
fn a_kill_loses_only_what_was_not_written() {
    let directory = TempDir::new().unwrap();
    let often = ["--analytics-flush-seconds", "1"];
    // Requests that may be in rows, and those that must be.
    let (mut done, mut written) = (0, 0);
    for round in 0..support::crash_rounds(3) {
        let server = Server::on_disk_with(directory.path(), &often);
        let mut table = Script::new(&server, "Table");
        table.switch_on(true, false);
        for _ in 0..20 + round {
            table.step("QueryTables", ("GET", "/Tables"), &[ACCEPT], "", 200);
        }
        let known = "$MetricsHourPrimaryTransactionsTable";
        let asked = std::cell::Cell::new(0);
        let before = table.requests();
        wait_until("rows know of them", || {
            // Each look is a request, too, and is counted later.
            let found = rows(&mut table.client, known);
            asked.set(asked.get() + pages(&found));
            sum(&found, "user;All", "TotalRequests") >= written + before
        });
        written += before;
        for _ in 0..50 {
            table.step("QueryTables", ("GET", "/Tables"), &[ACCEPT], "", 200);
        }
        server.kill();
        done += table.requests() + asked.get();
        let (counted, asked) = counted(directory.path());
        assert!(counted >= written && counted <= done, "{written} <= {counted} <= {done}");
        // The server that was asked for it was killed, too.
        (done, written) = (counted + asked, counted);
    }
    support::check_healthy(directory.path());
}
