//! Analytics logs from outside: what they say is what the clients did.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod client;
mod logs;
mod metrics;
mod reader;
mod script;
mod session;
#[path = "../support/mod.rs"]
mod support;

use client::{Auth, Service};
use logs::{Logs, set_logging};
use session::{Session, port, request};
use support::{Server, check_healthy, wait_until};
use tempfile::TempDir;

/// A server that writes logs soon.
const SOON: &[&str] = &["--analytics-flush-seconds", "1"];

const SERVICES: [Service; 3] = [Service::Blob, Service::Queue, Service::Table];

#[test]
fn logs_agree_with_what_was_done() {
    let server = Server::in_memory(SOON);
    let mut session = Session::new(&server, "session");
    script::run(&mut session, "1.0");
    let logs = session.check(|_| "1.0");
    // What the script has not sent is what this test has read.
    for record in &logs.records {
        let is_reader = matches!(record.get("operation-type"), "ListBlobs" | "GetBlob")
            && record.get("requested-object-key").starts_with("/devstoreaccount1/$logs");
        assert!(record.get("client-request-id").starts_with("session") || is_reader, "{record:?}");
    }
}

#[test]
fn version_2_has_further_fields() {
    let server = Server::in_memory(SOON);
    let mut session = Session::new(&server, "session");
    script::run(&mut session, "2.0");
    let logs = session.check(|service| if service == Service::Table { "1.0" } else { "2.0" });
    let of_version_2 = logs.records.iter().find(|record| record.get("version-number") == "2.0").unwrap();
    assert_eq!((of_version_2.get("tenant-id"), of_version_2.get("authorization-detail")), ("", ""));
}

#[test]
fn logging_is_switched_at_once() {
    let server = Server::in_memory(SOON);
    let mut session = Session::new(&server, "session");
    let table = |method, path| request(Service::Table, method, path).with("Accept", "application/json");
    let create = |name: &str| {
        let body = format!(r#"{{"TableName":"{name}"}}"#);
        table("POST", "/Tables").with("Content-Type", "application/json").body(&body)
    };
    session.not_logged(create("One"), 201);
    for (read, write, delete, name, key) in [
        (false, true, false, "Two", "/Two"),
        (true, false, false, "Three", ""),
        (false, false, true, "Four", ""),
        (false, false, false, "Five", ""),
    ] {
        let set = set_logging(Service::Table, "1.0", read, write, delete);
        match write {
            true => session.logged(set, 202, "SetTableServiceProperties", "Success", ""),
            false => session.not_logged(set, 202),
        };
        match write {
            true => session.logged(create(name), 201, "CreateTable", "Success", key),
            false => session.not_logged(create(name), 201),
        };
        match read {
            true => session.logged(table("GET", "/Tables"), 200, "QueryTables", "Success", "/Tables"),
            false => session.not_logged(table("GET", "/Tables"), 200),
        };
        let drop = table("DELETE", "/Tables('One')");
        match delete {
            true => session.logged(drop, 204, "DeleteTable", "Success", "/One"),
            false => session.not_logged(table("DELETE", "/Tables('None')"), 404),
        };
    }
    session.check(|_| "1.0");
}

#[test]
fn clients_that_go_away_are_logged() {
    let server = Server::in_memory(SOON);
    let set = set_logging(Service::Blob, "1.0", true, true, true);
    assert_eq!(set.send(server.blob_port).status, 202);
    server.blobs().create_container("large");
    let large = support::blob::noise(1, 32 << 20);
    server.blobs().put_blob("/large/blob", &large);
    // One reads only the beginning of an answer, another does not send all of its body.
    let get = request(Service::Blob, "GET", "/large/blob").with("x-ms-client-request-id", "half-read");
    let mut client = support::http::Client::connect(server.blob_port).unwrap();
    client.send(&get.encode("127.0.0.1").0).unwrap();
    client.some(1000);
    drop(client);
    let put = request(Service::Blob, "PUT", "/large/other").with("x-ms-client-request-id", "half-sent");
    let put = support::http::Client::connect(server.blob_port)
        .map(|client| (client, put.with("x-ms-blob-type", "BlockBlob")));
    let (mut client, mut put) = put.unwrap();
    put.body = vec![b'x'; 100_000];
    let (head, body, _) = put.encode("127.0.0.1");
    client.send(&[&head, &body[..50_000]].concat()).unwrap();
    drop(client);
    let mut logs = Logs::default();
    let of = |logs: &Logs, id: &str| {
        logs.records.iter().find(|record| record.get("client-request-id") == id).cloned()
    };
    wait_until("both are logged", || {
        logs = Logs::read(&server);
        of(&logs, "half-read").is_some() && of(&logs, "half-sent").is_some()
    });
    let read = of(&logs, "half-read").unwrap();
    assert_eq!((read.get("operation-type"), read.get("request-status")), ("GetBlob", "NetworkError"));
    assert!(read.number("response-packet-size") < large.len() as u64);
    let sent = of(&logs, "half-sent").unwrap();
    assert_eq!(sent.get("operation-type"), "PutBlob");
    assert_eq!(sent.get("request-content-length"), "100000");
    assert!(sent.number("request-packet-size") <= 50_000);
    assert_eq!((sent.get("request-status"), sent.get("http-status-code")), ("NetworkError", "Unknown"));
}

/// Many clients at once: a line for each request, and no more.
#[test]
fn every_request_has_one_line() {
    const CLIENTS: usize = 8;
    const EACH: usize = 250;
    let server = Server::in_memory(SOON);
    let set = set_logging(Service::Table, "1.0", true, true, true);
    assert_eq!(set.send(server.port).status, 202);
    server.client().create_table("Busy");
    let work = |client: usize| {
        let mut connection = server.client();
        for number in 0..EACH {
            let id = format!("busy-{client:02}-{number:04}");
            let path = support::table::entity_path("Busy", &client.to_string(), &number.to_string());
            let headers = [("Content-Type", "application/json"), ("x-ms-client-request-id", id.as_str())];
            assert_eq!(connection.request("PUT", &path, &headers, b"{\"A\":1}").unwrap().status, 204);
        }
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|client| drop(scope.spawn(move || work(client)))));
    let expected: Vec<String> = (0..CLIENTS)
        .flat_map(|client| (0..EACH).map(move |number| format!("busy-{client:02}-{number:04}")))
        .collect();
    let mut found: Vec<String> = Vec::new();
    wait_until("all is written", || {
        let logs = Logs::read(&server);
        let ids = logs.records.iter().map(|record| record.get("client-request-id").to_owned());
        found = ids.filter(|id| id.starts_with("busy")).collect();
        found.len() >= expected.len()
    });
    found.sort();
    assert_eq!(found, expected);
}

/// A server that stops has written all lines; one that is killed has lost no more than those that had not waited long enough.
#[test]
fn what_was_written_survives() {
    let directory = TempDir::new().unwrap();
    let mut expected = Vec::new();
    let touch = |server: &Server, id: &str| {
        let get = request(Service::Table, "GET", "/Tables").with("Accept", "application/json");
        let get = get.with("x-ms-client-request-id", id);
        assert_eq!(get.send(port(server, Service::Table)).status, 200);
    };
    // The last one before a kill may be there or not. They are sorted, for a request ends after its client has the answer.
    let ids = |logs: &Logs| -> Vec<String> {
        let all = logs.records.iter().map(|record| record.get("client-request-id").to_owned());
        let mut ids: Vec<_> = all.filter(|id| !id.starts_with("lost")).collect();
        ids.sort();
        ids
    };
    // Nothing is written before it stops.
    let server = Server::on_disk_with(directory.path(), &["--analytics-flush-seconds", "60"]);
    let set = set_logging(Service::Table, "1.0", true, false, false);
    assert_eq!(set.send(server.port).status, 202);
    for number in 0..20 {
        touch(&server, &format!("stopped-{number}"));
        expected.push(format!("stopped-{number}"));
    }
    assert!(Logs::read(&server).names.is_empty());
    assert!(server.stop().0.success());
    for round in 0..3 {
        let mut server = Server::on_disk_with(directory.path(), SOON);
        for number in 0..20 {
            touch(&server, &format!("killed-{round}-{number}"));
            expected.push(format!("killed-{round}-{number}"));
        }
        expected.sort();
        wait_until("all is written", || ids(&Logs::read(&server)) == expected);
        touch(&server, &format!("lost-{round}"));
        server.kill_now();
        check_healthy(directory.path());
    }
    let server = Server::on_disk_with(directory.path(), &[]);
    let logs = Logs::read(&server);
    assert_eq!(ids(&logs), expected, "each line once");
    let mut names = logs.names.clone();
    names.dedup();
    assert!(names == logs.names && names.len() >= 4, "{names:?}");
}

#[test]
fn logs_can_be_read_and_deleted_but_not_written() {
    let server = Server::in_memory(SOON);
    for service in SERVICES {
        let set = set_logging(service, "1.0", true, true, true);
        assert_eq!(set.send(port(&server, service)).status, 202);
    }
    wait_until("something is logged", || Logs::read(&server).names.len() >= 3);
    let name = Logs::read(&server).names.remove(0);
    let blob = |method, path: &str| request(Service::Blob, method, path).with("x-ms-blob-type", "BlockBlob");
    let log = format!("/$logs/{name}");
    for (case, request, auth, expected) in [
        ("not listed", blob("GET", "/?comp=list"), Auth::Key, 200),
        ("read by key", blob("GET", &log), Auth::Key, 200),
        ("read by SAS", blob("GET", &log), Auth::Sas, 200),
        ("read by no one", blob("GET", &log), Auth::Nobody, 404),
        ("overwritten", blob("PUT", &log).body("x"), Auth::Key, 403),
        ("overwritten by SAS", blob("PUT", &log).body("x"), Auth::Sas, 403),
        ("added", blob("PUT", "/$logs/mine.log").body("x"), Auth::Key, 403),
        ("a block", blob("PUT", &format!("{log}?comp=block&blockid=AAAA")).body("x"), Auth::Key, 403),
        ("metadata", blob("PUT", &format!("{log}?comp=metadata")), Auth::Key, 403),
        (
            "a copy",
            blob("PUT", "/$logs/copy.log").with(
                "x-ms-copy-source",
                &format!("http://127.0.0.1:{}/devstoreaccount1{log}", server.blob_port),
            ),
            Auth::Key,
            403,
        ),
        ("created", blob("PUT", "/$logs?restype=container"), Auth::Key, 409),
        (
            "made public",
            blob("PUT", "/$logs?restype=container&comp=acl").with("x-ms-blob-public-access", "blob"),
            Auth::Key,
            403,
        ),
        ("the container", blob("DELETE", "/$logs?restype=container"), Auth::Key, 403),
        ("the container by SAS", blob("DELETE", "/$logs?restype=container"), Auth::Sas, 403),
        ("a blob", blob("DELETE", &log), Auth::Key, 202),
        ("gone", blob("GET", &log), Auth::Key, 404),
    ] {
        let traffic = request.by(auth).send(server.blob_port);
        assert_eq!(traffic.status, expected, "{case}: {}", traffic.text());
        if expected == 403 {
            assert_eq!(traffic.header("x-ms-error-code"), "AuthorizationFailure", "{case}");
        }
        assert!(case != "not listed" || !traffic.text().contains("$logs"));
    }
    let listed = request(Service::Blob, "GET", "/?comp=list&include=system").send(server.blob_port);
    assert!(listed.text().contains("<Name>$logs</Name>"));
}
