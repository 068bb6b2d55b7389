//! Faults: what clients see, and what has happened nevertheless.

use crate::support::blob::BLOCK_BLOB;
use crate::support::http::{Client, Reply};
use crate::support::table::entity_path;
use crate::{Admin, test_bench};
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};

const JSON: (&str, &str) = ("Accept", "application/json;odata=nometadata");

fn insert(client: &mut Client, row: &str) -> io::Result<Reply> {
    let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
    let headers = [("Content-Type", "application/json"), JSON];
    client.request("POST", "/Orders", &headers, body.as_bytes())
}

#[test]
fn rules_are_added_shown_counted_replaced_and_removed() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.client());
    client.create_table("Orders");
    let spec =
        json!({"service": "table", "operation": "InsertEntity", "nth": 2, "error": {"code": "ServerBusy"}});
    let added = admin.raw("POST", "/faults", &spec.to_string());
    assert_eq!(added.status, 201);
    let id = added.json()["id"].clone();
    assert_eq!(added.json()["error"], json!({"code": "ServerBusy"}));
    let statuses: Vec<u16> = ["1", "2", "3"].map(|row| insert(&mut client, row).unwrap().status).to_vec();
    assert_eq!(statuses, [201, 503, 201]);
    let rule = admin.get(&format!("/faults/{id}"));
    assert_eq!((&rule["calls"], &rule["hits"], &rule["when"]), (&json!(3), &json!(1), &json!("before")));
    let replaced = admin.call(
        "PUT",
        &format!("/faults/{id}"),
        json!({"resource": "Orders", "count": 1, "error": {"code": "OperationTimedOut"}}),
    );
    assert_eq!((&replaced["id"], &replaced["calls"]), (&id, &json!(0)));
    assert_eq!(
        (insert(&mut client, "4").unwrap().status, insert(&mut client, "4").unwrap().status),
        (500, 201)
    );
    let other = admin.post("/faults", json!({"cut": true, "account": "nobody"}));
    assert_eq!(admin.get("/faults")["faults"].as_array().unwrap().len(), 2);
    assert_eq!(admin.raw("DELETE", &format!("/faults/{}", other["id"]), "").status, 204);
    assert_eq!(admin.raw("DELETE", "/faults", "").status, 204);
    assert_eq!(admin.get("/faults"), json!({"faults": []}));
    assert_eq!(insert(&mut client, "5").unwrap().status, 201);
}

#[test]
fn errors_are_written_as_the_service_writes_them() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    server.client().create_table("Orders");
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    let mut blobs = server.blobs();
    blobs.create_container("pictures");
    admin.post(
        "/faults",
        json!({"error": {"code": "ServerBusy", "message": "Ingress is over the account limit."}}),
    );
    let entity = entity_path("Orders", "p", "1");
    let table = server
        .client()
        .request("GET", &entity, &[("Accept", "application/json;odata=nometadata")], b"")
        .unwrap();
    assert_eq!(table.status, 503);
    assert_eq!(table.json()["odata.error"]["code"], "ServerBusy");
    assert!(table.text().contains("Ingress is over the account limit.\\nRequestId:"), "{}", table.text());
    let queue = queues.put_message("jobs", "text").unwrap();
    let blob = blobs.blob("PUT", "/pictures/one", &[BLOCK_BLOB], b"bytes").unwrap();
    for reply in [queue, blob] {
        assert_eq!((reply.status, reply.header("x-ms-error-code")), (503, Some("ServerBusy")));
        assert!(reply.text().contains("<Code>ServerBusy</Code>"), "{}", reply.text());
        assert!(reply.header("x-ms-request-id").is_some() && reply.header("x-ms-version").is_some());
    }
    admin.raw("DELETE", "/faults", "");
    assert_eq!(blobs.get_blob("/pictures/one").status, 404, "nothing was done");
    assert_eq!(queues.count_messages("jobs").unwrap(), 0);
    // Another status than the error has, and after the work.
    admin.post(
        "/faults",
        json!({"when": "after", "count": 1, "error": {"code": "InternalError", "status": 502}}),
    );
    assert_eq!(queues.put_message("jobs", "text").unwrap().status, 502);
    assert_eq!(queues.count_messages("jobs").unwrap(), 1, "it was done");
}

#[test]
fn a_connection_is_cut_before_or_after_the_work() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    server.client().create_table("Orders");
    let exists = |row: &str| {
        let reply = server.client().request("GET", &entity_path("Orders", "p", row), &[JSON], b"").unwrap();
        reply.status == 200
    };
    for (when, row, is_done) in [("before", "1", false), ("after", "2", true)] {
        admin.post("/faults", json!({"operation": "InsertEntity", "cut": true, "when": when, "count": 1}));
        let error = insert(&mut server.client(), row).unwrap_err();
        assert!(
            matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset),
            "{error}"
        );
        assert_eq!(exists(row), is_done, "{when}");
    }
    assert_eq!(insert(&mut server.client(), "2").unwrap().code(), "EntityAlreadyExists");
    // A large body that is not read, and an answer that is large.
    let mut blobs = server.blobs();
    blobs.create_container("pictures");
    let bytes = vec![7; 8 << 20];
    for (operation, when, is_there) in
        [("PutBlob", "before", 404), ("PutBlob", "after", 200), ("GetBlob", "after", 200)]
    {
        admin.post("/faults", json!({"operation": operation, "cut": true, "when": when, "count": 1}));
        let method = if operation == "PutBlob" { "PUT" } else { "GET" };
        let body = if operation == "PutBlob" { &bytes[..] } else { b"" };
        assert!(
            server.blobs().blob(method, "/pictures/large", &[BLOCK_BLOB], body).is_err(),
            "{operation} {when}"
        );
        assert_eq!(server.blobs().get_blob("/pictures/large").status, is_there, "{operation} {when}");
    }
    assert!(admin.get("/faults")["faults"].as_array().unwrap().iter().all(|rule| rule["hits"] == 1));
}

#[test]
fn requests_take_long() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.client());
    client.create_table("Orders");
    for (row, rule, status) in [
        ("1", json!({"delayMs": 150, "count": 1}), 201),
        ("2", json!({"delayMs": 150, "when": "after", "count": 1}), 201),
        ("3", json!({"delayMs": 150, "error": {"code": "OperationTimedOut"}, "count": 1}), 500),
    ] {
        admin.post("/faults", rule.clone());
        let begun = Instant::now();
        assert_eq!(insert(&mut client, row).unwrap().status, status, "{rule}");
        assert!(begun.elapsed() >= Duration::from_millis(150), "{rule}");
        let begun = Instant::now();
        insert(&mut client, "other").unwrap();
        assert!(begun.elapsed() < Duration::from_millis(150), "only once");
    }
}

#[test]
fn batches_are_one_request() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.client());
    client.create_table("Orders");
    admin.post("/faults", json!({"operation": "InsertOrReplaceEntity", "cut": true}));
    admin.post(
        "/faults",
        json!({"operation": "EntityGroupTransaction", "count": 1, "error": {"code": "ServerBusy"}}),
    );
    let changes: Vec<_> = (0..3)
        .map(|row| crate::support::table::Change::new("PUT", row.to_string(), Default::default()))
        .collect();
    let body = crate::support::table::batch_body("Orders", "p", &changes);
    let content = [("Content-Type", "multipart/mixed; boundary=batch_1")];
    let mut send = || client.request("POST", "/$batch", &content, &body).unwrap().status;
    assert_eq!((send(), send()), (503, 202));
    let rules = admin.get("/faults");
    assert_eq!((&rules["faults"][0]["calls"], &rules["faults"][1]["calls"]), (&json!(0), &json!(2)));
}

#[test]
fn a_share_is_hit_the_same_way_each_time() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.client());
    client.create_table("Orders");
    let mut hits = || {
        admin.call("DELETE", "/faults", Value::Null);
        admin.post(
            "/faults",
            json!({"operation": "QueryTables", "share": 0.3, "seed": 5, "error": {"code": "ServerBusy"}}),
        );
        (0..100)
            .map(|_| {
                client.request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap().status
                    == 503
            })
            .collect::<Vec<_>>()
    };
    let first = hits();
    assert_eq!(first, hits());
    let count = first.iter().filter(|hit| **hit).count();
    assert!((15..=45).contains(&count), "{count}");
}
