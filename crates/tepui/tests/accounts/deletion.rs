//! Deleting accounts with everything in them, also when the server is killed meanwhile.

use crate::client::Keyed;
use crate::support::http::Client;
use crate::support::{Server, check_healthy, wait_until};
use crate::{Admin, CONFIGURED, in_memory, on_disk};
use serde_json::{Value, json};
use std::time::Duration;
use tepui_model::account::DEVELOPMENT_KEY_BASE64;

#[test]
fn a_deleted_account_is_gone_and_made_again_empty() {
    let directory = tempfile::tempdir().unwrap();
    let server = on_disk(directory.path());
    let mut admin = Admin::of(&server);
    let old = admin.create("people");
    let client = Keyed { server: &server, account: "people", key: &old[0] };
    client.fill(3);
    let role =
        json!({"principal": "oid:o", "role": "Storage Table Data Reader", "scope": "/people/table/Tab0"});
    admin.call("POST", "/role-assignments", role);
    let other = Keyed { server: &server, account: CONFIGURED, key: DEVELOPMENT_KEY_BASE64 };
    other.fill(1);
    assert_eq!(admin.call("DELETE", "/accounts/people", Value::Null), Value::Null);
    assert_eq!(client.statuses(), [404; 4]);
    assert_eq!(admin.names(), [CONFIGURED]);
    assert_eq!(admin.get("/role-assignments"), json!({"roleAssignments": []}));
    assert_eq!(admin.raw("DELETE", "/accounts/people", "").status, 404);
    let new = admin.create("people");
    assert_eq!(client.statuses(), [403; 4], "the old keys");
    Keyed { key: &new[0], ..client }.expect_empty();
    Keyed { key: &new[0], ..client }.fill(2);
    assert!(
        other
            .with_sas(server.port, "GET", "/Tab0", &[("Accept", "application/json")], "")
            .text()
            .contains("\"r\"")
    );
    server.stop();
    let found = check_healthy(directory.path());
    let live = ["tables", "queues", "containers", "blobs"].map(|kind| found["live"][kind].as_u64());
    assert_eq!(live, [Some(3), Some(2), Some(2), Some(2)], "{found}");
}

/// Bodies take their time: the account that a request was for may be deleted meanwhile, and made again.
#[test]
fn a_request_that_began_before_the_deletion_does_nothing_in_the_next_account() {
    let server = in_memory();
    let mut admin = Admin::of(&server);
    let old = admin.create("people");
    let client = Keyed { server: &server, account: "people", key: &old[0] };
    client.fill(1);
    let message = "<QueueMessage><MessageText>late</MessageText></QueueMessage>";
    let entity = r#"{"PartitionKey":"p","RowKey":"late"}"#;
    let requests = [
        ("POST", server.port, "/Tab0", "Content-Type: application/json\r\n", entity),
        ("POST", server.queue_port, "/jobs/messages", "", message),
        ("PUT", server.blob_port, "/files/late", "x-ms-blob-type: BlockBlob\r\n", "late"),
    ];
    let mut begun: Vec<(Client, &str)> = Vec::new();
    for (method, port, path, header, body) in requests {
        let (sas, length) = (client.sas(), body.len());
        let mut connection = Client::connect(port).unwrap();
        let head = format!(
            "{method} /people{path}?{sas} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\n{header}\
             Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        );
        connection.send(head.as_bytes()).unwrap();
        assert_eq!(connection.head().unwrap().status, 100, "it is admitted: {path}");
        begun.push((connection, body));
    }
    admin.call("DELETE", "/accounts/people", Value::Null);
    let new = admin.create("people");
    let client = Keyed { key: &new[0], ..client };
    client.fill(1);
    for (connection, body) in &mut begun {
        connection.send(body.as_bytes()).unwrap();
        let reply = connection.reply().unwrap();
        assert_eq!((reply.status, reply.code()), (404, "ResourceNotFound".to_owned()), "{}", reply.text());
    }
    let accept = [("Accept", "application/json")];
    let found = [
        client.with_sas(server.port, "GET", "/Tab0", &accept, ""),
        client.with_sas(server.queue_port, "GET", "/jobs/messages?peekonly=true&numofmessages=32", &[], ""),
        client.with_sas(server.blob_port, "GET", "/files?restype=container&comp=list", &[], ""),
    ];
    for reply in found {
        assert!(reply.status == 200 && !reply.text().contains("late"), "{}", reply.text());
    }
}

/// What analytics has in memory of an account is not written into the next one of its name.
#[test]
fn a_deleted_account_leaves_no_logs_and_metrics_to_the_next() {
    const PROPERTIES: &str = "<StorageServiceProperties>\
        <Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write>\
        <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>\
        <HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
        <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics></StorageServiceProperties>";
    let directory = tempfile::tempdir().unwrap();
    let options = ["--admin-port", "0", "--analytics-flush-seconds", "60"];
    let server = Server::on_disk_with(directory.path(), &options);
    let mut admin = Admin::of(&server);
    let old = admin.create("people");
    let client = Keyed { server: &server, account: "people", key: &old[0] };
    client.fill(1);
    let set = client.with_sas(server.port, "PUT", "/?restype=service&comp=properties", &[], PROPERTIES);
    assert_eq!(set.status, 202, "{}", set.text());
    let accept = [("Accept", "application/json")];
    for _ in 0..10 {
        assert_eq!(client.with_sas(server.port, "GET", "/Tables", &accept, "").status, 200);
    }
    admin.call("DELETE", "/accounts/people", Value::Null);
    let new = admin.create("people");
    // It writes down everything that it has.
    server.stop();
    let server = on_disk(directory.path());
    let client = Keyed { server: &server, account: "people", key: &new[0] };
    let hours = client.with_sas(server.port, "GET", "/$MetricsHourPrimaryTransactionsTable", &accept, "");
    assert_eq!(hours.status, 404, "{}", hours.text());
    let logs = client.with_sas(server.blob_port, "GET", "/$logs?restype=container&comp=list", &[], "");
    assert!(logs.status == 200 && !logs.text().contains("<Blob>"), "{}", logs.text());
    client.expect_empty();
}

#[test]
fn a_deletion_that_was_interrupted_is_finished_after_the_restart() {
    // More than the steps of one commit, so that kills meet it half-way.
    const TABLES: usize = 700;
    for milliseconds in [0, 3, 8, 20, 60] {
        let directory = tempfile::tempdir().unwrap();
        let mut server = on_disk(directory.path());
        let old = Admin::of(&server).create("people");
        Keyed { server: &server, account: "people", key: &old[0] }.fill(TABLES);
        std::thread::scope(|scope| {
            let mut admin = Admin::of(&server);
            let deleting = scope.spawn(move || {
                let headers = [("Authorization", admin.authorization.as_str())];
                admin
                    .client
                    .unsigned("DELETE", "/admin/v1/accounts/people", &headers, b"")
                    .map(|reply| reply.status)
            });
            std::thread::sleep(Duration::from_millis(milliseconds));
            let pid = server.pid();
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            let _ = deleting.join().unwrap();
        });
        server.kill_now();
        let server = on_disk(directory.path());
        let mut admin = Admin::of(&server);
        let listed = admin.get("/accounts").to_string();
        if listed.contains("\"people\"") && !listed.contains("deleting") {
            // It was killed before it was asked.
            admin.call("DELETE", "/accounts/people", Value::Null);
        }
        assert_eq!(Keyed { server: &server, account: "people", key: &old[0] }.statuses(), [404; 4]);
        wait_until("it is deleted", || !admin.names().contains(&"people".to_owned()));
        let new = admin.create("people");
        Keyed { server: &server, account: "people", key: &new[0] }.expect_empty();
        server.stop();
        check_healthy(directory.path());
    }
}

#[test]
fn a_test_bench_leaves_accounts_alone() {
    let server = Server::in_memory(&["--test-bench", "--admin-port", "0"]);
    let mut admin = Admin::of(&server);
    let kept = admin.create("kept");
    let dropped = admin.create("dropped");
    Keyed { server: &server, account: "kept", key: &kept[0] }.fill(1);
    Keyed { server: &server, account: "dropped", key: &dropped[0] }.fill(1);
    admin.call("PUT", "/snapshots/base", Value::Null);
    let renewed = admin.post("/accounts/kept/keys/key1/renew")["value"].as_str().unwrap().to_owned();
    let later = admin.create("later");
    Keyed { server: &server, account: "later", key: &later[0] }.fill(1);
    admin.call("DELETE", "/accounts/dropped", Value::Null);
    admin.post("/snapshots/base/restore");
    assert_eq!(
        Keyed { server: &server, account: "kept", key: &kept[0] }.statuses(),
        [403; 4],
        "a renewed key stays so"
    );
    assert_eq!(Keyed { server: &server, account: "kept", key: &renewed }.statuses(), [200; 4]);
    Keyed { server: &server, account: "later", key: &later[0] }.expect_empty();
    // What was in it has come back with the snapshot, and is deleted again.
    wait_until("it is deleted", || !admin.names().contains(&"dropped".to_owned()));
    let new = admin.create("dropped");
    Keyed { server: &server, account: "dropped", key: &new[0] }.expect_empty();
    admin.post("/reset");
    assert_eq!(admin.names(), [CONFIGURED, "dropped", "kept", "later"]);
    Keyed { server: &server, account: "kept", key: &renewed }.expect_empty();
}
