//! Deleting accounts with everything in them, also when the server is killed meanwhile.

use crate::client::Keyed;
use crate::support::{Server, check_healthy, wait_until};
use crate::{Admin, CONFIGURED, on_disk};
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
