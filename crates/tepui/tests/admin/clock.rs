//! The clock: everything that reads time follows it.

use crate::support::blob::BLOCK_BLOB;
use crate::support::http::Client;
use crate::support::table::{entity_path, time_of};
use crate::support::wait_until;
use crate::{Admin, test_bench};
use serde_json::{Value, json};

#[test]
fn it_is_read_set_advanced_frozen_and_resumed() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    let clock = admin.get("/clock");
    assert_eq!(clock["frozen"], false);
    assert_eq!(clock["now"].as_str().unwrap()[..16], clock["machine"].as_str().unwrap()[..16]);
    let set = admin.call("PUT", "/clock", json!({"now": "2030-01-01T12:00:00Z"}));
    assert!(set["now"].as_str().unwrap().starts_with("2030-01-01T12:00:0"), "{set}");
    let frozen = admin.post("/clock/freeze", Value::Null);
    assert_eq!((&frozen["frozen"], &admin.get("/clock")["now"]), (&json!(true), &frozen["now"]));
    admin.set_clock("2030-01-01T12:00:00Z");
    let advanced = admin.post("/clock/advance", json!({"seconds": 90.25}));
    assert_eq!(advanced["now"], "2030-01-01T12:01:30.2500000Z");
    let resumed = admin.post("/clock/resume", Value::Null);
    assert!(resumed["now"].as_str().unwrap().starts_with("2030-01-01T12:01:3"), "{resumed}");
    wait_until("it runs", || admin.get("/clock")["now"].as_str() > resumed["now"].as_str());
    let machine = admin.call("DELETE", "/clock", Value::Null);
    assert!(machine["now"].as_str() < Some("2029"), "{machine}");
}

#[test]
fn timestamps_and_etags_follow_it_and_rise() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.client());
    client.create_table("Times");
    admin.post("/clock/freeze", Value::Null);
    let mut put = |admin: &mut Admin, now: &str, row: &str| {
        admin.set_clock(now);
        let path = entity_path("Times", "p", row);
        let reply = client.request("PUT", &path, &[("Content-Type", "application/json")], b"{}").unwrap();
        assert_eq!(reply.status, 204, "{}", reply.text());
        (reply.etag(), reply.header("date").unwrap().to_owned())
    };
    let (future, date) = put(&mut admin, "2030-01-01T00:00:00Z", "one");
    assert!(future.contains("2030-01-01") && date.contains("01 Jan 2030"), "{future} {date}");
    // An entity that is there rises even if the clock was set back; another follows the clock.
    let (back, date) = put(&mut admin, "2028-01-01T00:00:00Z", "one");
    assert!(time_of(&back) > time_of(&future) && date.contains("01 Jan 2028"), "{back} {date}");
    let (other, _) = put(&mut admin, "2028-01-01T00:00:00Z", "two");
    assert!(other.contains("2028-01-01"), "{other}");
    // The same entity at the same time again is another version of it.
    let mut seen = vec![future, back];
    for _ in 0..3 {
        seen.push(put(&mut admin, "2028-01-01T00:00:00Z", "one").0);
    }
    assert!(seen.windows(2).all(|pair| time_of(&pair[0]) < time_of(&pair[1])), "{seen:?}");
    let path = entity_path("Times", "p", "two");
    let deleted = server.client().request("DELETE", &path, &[("If-Match", "*")], b"").unwrap();
    assert_eq!(deleted.status, 204);
    let (again, _) = put(&mut admin, "2028-01-01T00:00:00Z", "two");
    assert_ne!(other, again, "no ETag is used twice");
}

#[test]
fn a_sas_expires_by_it() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.client());
    client.create_table("Early");
    let mut status =
        || client.request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap().status;
    assert_eq!(status(), 200);
    admin.set_clock("2098-12-31T23:59:50Z");
    assert_eq!(status(), 200);
    admin.advance(10);
    assert_eq!(status(), 403, "the SAS of tests is good until 2099");
    admin.set_clock("2098-01-01T00:00:00Z");
    assert_eq!(status(), 200);
}

#[test]
fn a_lease_expires_by_it() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.blobs());
    client.create_container("pictures");
    client.put_blob("/pictures/one", b"first");
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "60")];
    let lease =
        |client: &mut Client| client.blob("PUT", "/pictures/one?comp=lease", &acquire, b"").unwrap().status;
    assert_eq!((lease(&mut client), lease(&mut client)), (201, 409));
    let write =
        |client: &mut Client| client.blob("PUT", "/pictures/one", &[BLOCK_BLOB], b"second").unwrap().status;
    assert_eq!(write(&mut client), 412);
    admin.advance(59);
    assert_eq!(write(&mut client), 412);
    admin.advance(1);
    assert_eq!((write(&mut client), lease(&mut client)), (201, 201));
    // Set back, it lasts longer.
    admin.post("/clock/freeze", Value::Null);
    admin.advance(120);
    assert_eq!(lease(&mut client), 201);
    let now = admin.get("/clock")["now"].clone();
    admin.advance(61);
    admin.call("PUT", "/clock", json!({"now": now}));
    assert_eq!((lease(&mut client), write(&mut client)), (409, 412));
}

#[test]
fn messages_come_back_and_expire_by_it() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    let mut client = Client::connect(server.queue_port).unwrap();
    client.create_queue("jobs");
    client.put_message("jobs", "stays").unwrap();
    let body = b"<QueueMessage><MessageText>goes</MessageText></QueueMessage>";
    let put = client.request("POST", "/jobs/messages?messagettl=100", &[], body).unwrap();
    assert_eq!(put.status, 201);
    let get = |client: &mut Client| client.get_messages("jobs", 32, 30).unwrap();
    assert_eq!((get(&mut client).len(), get(&mut client).len()), (2, 0));
    admin.advance(30);
    assert_eq!(get(&mut client).iter().map(|message| message.dequeue_count).collect::<Vec<_>>(), [2, 2]);
    admin.advance(70);
    let left = get(&mut client);
    assert_eq!(left.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(), ["stays"]);
    // Back: what was hidden stays so for longer.
    admin.set_clock("2026-01-01T00:00:00Z");
    assert!(get(&mut client).is_empty());
    client.put_message("jobs", "early").unwrap();
    assert_eq!(get(&mut client).len(), 1);
    admin.set_clock("2090-01-01T00:00:00Z");
    assert_eq!(client.count_messages("jobs").unwrap(), 0, "a week is over");
}

#[test]
fn retention_ends_by_it_and_is_swept_at_once() {
    let server = test_bench();
    let (mut admin, mut client) = (Admin::of(&server), server.blobs());
    client.create_container("kept");
    let properties =
        b"<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>7</Days>\
        </DeleteRetentionPolicy></StorageServiceProperties>";
    let set = client.blob("PUT", "/?restype=service&comp=properties", &[], properties).unwrap();
    assert_eq!(set.status, 202, "{}", set.text());
    client.put_blob("/kept/one", b"bytes");
    assert_eq!(client.blob("DELETE", "/kept/one", &[], b"").unwrap().status, 202);
    // Uncommitted blocks last a week, too.
    let block = client.blob("PUT", "/kept/two?comp=block&blockid=YQ==", &[], b"block").unwrap();
    assert_eq!(block.status, 201, "{}", block.text());
    let list = |client: &mut Client| {
        let path = "/kept?restype=container&comp=list&include=deleted,uncommittedblobs";
        let text = client.blob("GET", path, &[], b"").unwrap().text();
        (text.contains("<Name>one</Name>"), text.contains("<Name>two</Name>"))
    };
    admin.advance(6 * 86400);
    assert_eq!(list(&mut client), (true, true));
    admin.advance(2 * 86400);
    let begun = std::time::Instant::now();
    wait_until("both are gone", || list(&mut client) == (false, false));
    assert!(begun.elapsed().as_secs() < 4, "before the next scan: {:?}", begun.elapsed());
}

#[test]
fn an_archived_blob_comes_back_by_it() {
    let server = crate::support::Server::in_memory(&[
        "--test-bench",
        "--admin-port",
        "0",
        "--rehydration-seconds",
        "3600",
    ]);
    let (mut admin, mut client) = (Admin::of(&server), server.blobs());
    client.create_container("cold");
    client.put_blob("/cold/one", b"bytes");
    let mut tier =
        |tier: &str| client.blob("PUT", "/cold/one?comp=tier", &[("x-ms-access-tier", tier)], b"").unwrap();
    assert_eq!((tier("Archive").status, tier("Hot").status), (200, 202));
    let mut client = server.blobs();
    assert_eq!(client.get_blob("/cold/one").status, 409);
    admin.advance(3601);
    assert_eq!(client.get_blob("/cold/one").body, b"bytes");
}
