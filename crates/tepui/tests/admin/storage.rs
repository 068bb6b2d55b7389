//! What tests do with what a server stores: snapshots, reset, seeds, and a tenant for each of them.

use crate::commands::{run, said};
use crate::support::blob::noise;
use crate::support::http::Client;
use crate::support::{SAS, Server, check_healthy, tepui, wait_until};
use crate::{Admin, test_bench};
use serde_json::{Value, json};
use std::path::Path;
use tepui_model::Timestamp;
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_server::config::development_account;
use tepui_wire::auth::{AccountSas, SasLimits, Signer};

/// Puts something into each service.
fn fill(server: &Server, mark: &str) {
    let mut tables = server.client();
    let row = |mark: &str| format!(r#"{{"PartitionKey":"p","RowKey":"{mark}"}}"#);
    let json = [("Content-Type", "application/json"), ("Accept", "application/json")];
    tables.request("POST", "/Tables", &json, br#"{"TableName":"People"}"#).unwrap();
    let reply = tables.request("POST", "/People", &json, row(mark).as_bytes()).unwrap();
    assert_eq!(reply.status, 201, "{}", reply.text());
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.request("PUT", "/jobs", &[("Content-Length", "0")], b"").unwrap();
    queues.put_message("jobs", mark).unwrap();
    let mut blobs = server.blobs();
    blobs.blob("PUT", "/photos?restype=container", &[], b"").unwrap();
    blobs.put_blob(&format!("/photos/{mark}"), &noise(1, 100_000));
}

/// What is there: entities, messages and blobs.
fn found(server: &Server) -> (Vec<String>, u64, String) {
    let people = server.client().request("GET", "/People()", &[("Accept", "application/json")], b"").unwrap();
    let rows = match people.status {
        200 => people.json()["value"].as_array().unwrap().clone(),
        404 => vec![json!({"RowKey": "no table"})],
        status => panic!("{status} {}", people.text()),
    };
    let rows = rows.iter().map(|row| row["RowKey"].as_str().unwrap().to_owned()).collect();
    let mut queues = Client::connect(server.queue_port).unwrap();
    let messages = queues.count_messages("jobs").unwrap_or(u64::MAX);
    let list = server.blobs().blob("GET", "/photos?restype=container&comp=list", &[], b"").unwrap();
    let names: Vec<&str> =
        list.text().leak().split("<Name>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    (rows, messages, if list.status == 200 { names.join(" ") } else { "no container".to_owned() })
}

fn rows(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn snapshots_by_calls() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    assert_eq!(admin.get("/snapshots"), json!({"snapshots": []}));
    fill(&server, "a");
    assert_eq!(admin.call("PUT", "/snapshots/base", Value::Null), json!({"name": "base"}));
    fill(&server, "b");
    admin.call("PUT", "/snapshots/second", Value::Null);
    fill(&server, "c");
    assert_eq!(found(&server), (rows(&["a", "b", "c"]), 3, "a b c".to_owned()));
    let list = admin.get("/snapshots")["snapshots"].clone();
    assert_eq!((&list[0]["name"], &list[1]["name"]), (&json!("base"), &json!("second")));
    assert!(list[0]["writtenRows"].as_u64() >= list[1]["writtenRows"].as_u64());
    // In any order.
    for (name, expected) in [
        ("base", (rows(&["a"]), 1, "a".to_owned())),
        ("second", (rows(&["a", "b"]), 2, "a b".to_owned())),
        ("base", (rows(&["a"]), 1, "a".to_owned())),
    ] {
        let answer = admin.post(&format!("/snapshots/{name}/restore"), Value::Null);
        assert!(answer["changedRows"].as_u64().unwrap() > 0, "{answer}");
        assert_eq!(found(&server), expected, "{name}");
        let blob = server.blobs().get_blob("/photos/a");
        assert!(blob.status == 200 && blob.body == noise(1, 100_000), "{}", blob.status);
    }
    // What comes after a restore is as new as anything.
    fill(&server, "d");
    assert_eq!(found(&server), (rows(&["a", "d"]), 2, "a d".to_owned()));
    assert_eq!(admin.call("DELETE", "/snapshots/base", Value::Null), Value::Null);
    admin.post("/snapshots/second/restore", Value::Null);
    assert_eq!(found(&server).0, rows(&["a", "b"]));
    for (case, method, path, body, status, says) in [
        ("a name twice", "PUT", "/snapshots/second", "", 409, "already: second"),
        ("a name with a space", "PUT", "/snapshots/a%20b", "", 400, "1 to 64 letters"),
        ("a long name", "PUT", &format!("/snapshots/{}", "x".repeat(65)), "", 400, "1 to 64 letters"),
        ("no such snapshot", "POST", "/snapshots/base/restore", "", 404, "no such snapshot: base"),
        ("no such snapshot to delete", "DELETE", "/snapshots/base", "", 404, "no such snapshot: base"),
        ("a body", "PUT", "/snapshots/new", r#"{"a":1}"#, 400, "no body"),
        ("a parameter", "PUT", "/snapshots/new?a=1", "", 400, "no such parameter"),
        ("another method", "POST", "/snapshots/new", "", 405, "PUT, DELETE"),
    ] {
        let reply = admin.raw(method, path, body);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        assert!(reply.text().contains(says), "{case}: {}", reply.text());
    }
    assert_eq!(admin.get("/snapshots")["snapshots"].as_array().unwrap().len(), 1);
}

/// Switches logs and metrics of tables on.
fn watch_tables(server: &Server) {
    let metrics = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
         <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>";
    let logging = "<Logging><Version>1.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write>\
         <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>";
    let body = format!("<StorageServiceProperties>{logging}{metrics}</StorageServiceProperties>");
    let target = format!("/devstoreaccount1/?restype=service&comp=properties&{SAS}");
    let set = server.client().unsigned("PUT", &target, &[], body.as_bytes()).unwrap();
    assert_eq!(set.status, 202, "{}", set.text());
}

/// What analytics still has in memory is not written after a reset or a restore.
#[test]
fn analytics_forgets_what_was_reset() {
    let json = [("Content-Type", "application/json"), ("Accept", "application/json")];
    for (case, path, body) in [
        ("everything", "/reset", Value::Null),
        ("an account", "/reset", json!({"account": "devstoreaccount1"})),
        ("a service", "/reset", json!({"service": "table"})),
        ("a restore", "/snapshots/base/restore", Value::Null),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::on_disk_with(directory.path(), &["--test-bench", "--admin-port", "0"]);
        let mut admin = Admin::of(&server);
        admin.call("PUT", "/snapshots/base", Value::Null);
        watch_tables(&server);
        let mut tables = server.client();
        tables.request("POST", "/Tables", &json, br#"{"TableName":"Before"}"#).unwrap();
        admin.post(path, body);
        watch_tables(&server);
        tables.request("GET", "/Tables('After')", &json, b"").unwrap();
        let (status, _, log) = server.stop();
        assert!(status.success(), "{case}: {log}");

        // A server that stops writes all that it has.
        let server = Server::on_disk_with(directory.path(), &[]);
        let list = server.blobs().blob("GET", "/$logs?restype=container&comp=list", &[], b"").unwrap().text();
        let names = list.split("<Name>").skip(1).filter_map(|rest| rest.split('<').next());
        let lines: String =
            names.map(|name| server.blobs().get_blob(&format!("/$logs/{name}")).text()).collect();
        assert!(lines.contains("After") && !lines.contains("Before"), "{case}: {lines}");
        let rows = server.client().request("GET", "/$MetricsHourPrimaryTransactionsTable()", &json, b"");
        let rows = rows.unwrap().text();
        assert!(rows.contains("user;QueryTable") && !rows.contains("user;CreateTable"), "{case}: {rows}");
    }
}

#[test]
fn resets_by_calls() {
    let server = Server::in_memory(&["--test-bench", "--admin-port", "0", "--any-account"]);
    let mut admin = Admin::of(&server);
    fill(&server, "a");
    let tenants = admin.post("/reset", json!({"account": "tenant"}));
    assert_eq!(tenants, json!({"tables": 0, "queues": 0, "containers": 0}));
    assert_eq!(found(&server), (rows(&["a"]), 1, "a".to_owned()));
    assert_eq!(admin.post("/reset", json!({"service": "table"}))["tables"], 1);
    assert_eq!(found(&server), (rows(&["no table"]), 1, "a".to_owned()));
    fill(&server, "b");
    assert_eq!(found(&server), (rows(&["b"]), 2, "a b".to_owned()));
    let scope = json!({"account": "devstoreaccount1", "service": "blob"});
    assert_eq!(admin.post("/reset", scope)["containers"], 1);
    assert_eq!(found(&server), (rows(&["b"]), 2, "no container".to_owned()));
    assert_eq!(admin.post("/reset", Value::Null), json!({"tables": 1, "queues": 1, "containers": 0}));
    fill(&server, "c");
    assert_eq!(found(&server), (rows(&["c"]), 1, "c".to_owned()));
    for (case, body, status, says) in [
        ("no such service", r#"{"service":"file"}"#, 400, "unknown variant `file`"),
        ("no such field", r#"{"accounts":"a"}"#, 400, "unknown field `accounts`"),
        ("no account", r#"{"account":"a.b"}"#, 404, "no such account: a.b"),
        ("no JSON", "everything", 400, "not as it should be"),
    ] {
        let reply = admin.raw("POST", "/reset", body);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        assert!(reply.text().contains(says), "{case}: {}", reply.text());
    }
    assert_eq!(found(&server), (rows(&["c"]), 1, "c".to_owned()));
}

/// On disk, a restore is as durable as any write, and what is left over is freed.
#[test]
fn a_restored_server_is_healthy_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on_disk_with(directory.path(), &["--test-bench", "--admin-port", "0"]);
    let mut admin = Admin::of(&server);
    fill(&server, "a");
    admin.call("PUT", "/snapshots/base", Value::Null);
    for mark in ["b", "c"] {
        fill(&server, mark);
        admin.post("/snapshots/base/restore", Value::Null);
    }
    admin.call("PUT", "/snapshots/later", Value::Null);
    fill(&server, "d");
    admin.post("/reset", json!({"service": "queue"}));
    admin.post("/snapshots/base/restore", Value::Null);
    // Snapshots end with the server; what was restored stays.
    server.stop();
    check_healthy(directory.path());
    let server = Server::on_disk_with(directory.path(), &["--test-bench", "--admin-port", "0"]);
    assert_eq!(found(&server), (rows(&["a"]), 1, "a".to_owned()));
    assert_eq!(Admin::of(&server).get("/snapshots"), json!({"snapshots": []}));
    assert_eq!(server.blobs().get_blob("/photos/a").body, noise(1, 100_000));
    wait_until("orphaned bytes are freed", || {
        crate::support::blob::on_disk(&directory.path().join("extents")) < 200_000
    });
}

/// A seed with something for each service.
fn seed(folder: &Path) {
    for (path, content) in [
        ("tables/People.csv", "PartitionKey,RowKey,Age:Int32\np,a,42\n"),
        ("queues/jobs.txt", "first\nsecond\n"),
        ("blobs/photos/a.txt", "text"),
    ] {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[test]
fn seeds_at_the_start_and_by_commands() {
    let folder = tempfile::tempdir().unwrap();
    seed(folder.path());
    let path = folder.path().to_str().unwrap();
    let bench = ["--test-bench", "--admin-port", "0", "--any-account", "--seed", path];
    let server = Server::in_memory(&bench);
    assert_eq!(found(&server), (rows(&["a"]), 2, "a.txt".to_owned()));
    let blob = server.blobs().get_blob("/photos/a.txt");
    assert_eq!((blob.header("content-type"), blob.text().as_str()), (Some("text/plain"), "text"));
    let again = said(&server, &["seed", path]);
    assert_eq!(
        again,
        "1 tables with 1 entities (0 written), 1 queues with 2 messages (0 written), 1 containers with 1 blobs (0 written)"
    );
    let json: Value =
        serde_json::from_str(&said(&server, &["seed", path, "--account", "tenant", "--json"])).unwrap();
    assert_eq!(
        (&json["entitiesWritten"], &json["messagesWritten"], &json["blobsWritten"]),
        (&1.into(), &2.into(), &1.into())
    );

    std::fs::write(folder.path().join("tables/Wrong.csv"), "PartitionKey,RowKey,Age:Int32\np,a,old\n")
        .unwrap();
    std::fs::write(folder.path().join("tables/Another.csv"), "PartitionKey,RowKey\np,a\n").unwrap();
    let (code, _, error) = run(&server, &["seed", path]);
    assert_eq!(code, Some(1));
    assert!(error.contains("tables/Wrong.csv, line 2: Age is not of the type Int32: old"), "{error}");
    let tables = server.client().request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap();
    assert!(!tables.text().contains("Another"), "nothing has changed: {}", tables.text());
    let mut admin = Admin::of(&server);
    for (case, path, body, status, says) in [
        ("nothing", "/seed", "", 400, "it is empty"),
        ("no archive", "/seed", "people", 400, "neither a directory nor a tar archive"),
        ("no account", "/seed?account=a.b", "people", 404, "no such account"),
        ("a parameter", "/seed?path=/etc", "people", 400, "no such parameter: path"),
    ] {
        let reply = admin.raw("POST", path, body);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        assert!(reply.text().contains(says), "{case}: {}", reply.text());
    }
    // A server with such a seed does not start.
    let output = tepui(
        &[
            "serve",
            "--in-memory",
            "--blob-port",
            "0",
            "--queue-port",
            "0",
            "--table-port",
            "0",
            "--seed",
            path,
        ],
        Path::new(""),
    );
    let output = { output }.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("cannot seed the server: tables/Wrong.csv, line 2"), "{error}");
}

#[test]
fn snapshots_and_resets_by_commands() {
    let server = test_bench();
    fill(&server, "a");
    assert_eq!(said(&server, &["snapshot", "take", "base"]), "taken: base");
    fill(&server, "b");
    assert!(said(&server, &["snapshot"]).starts_with("base  "));
    assert!(said(&server, &["snapshot", "restore", "base"]).starts_with("restored: base, "));
    assert_eq!(found(&server).0, rows(&["a"]));
    assert_eq!(said(&server, &["reset", "--service", "queue"]), "deleted: 0 tables, 1 queues, 0 containers");
    assert_eq!(said(&server, &["snapshot", "delete", "base"]), "deleted: base");
    assert_eq!(said(&server, &["snapshot", "list"]), "");
    for (arguments, says) in [
        (&["snapshot", "restore", "base"][..], "There is no such snapshot: base."),
        (&["snapshot", "take", "a b"], "1 to 64 letters"),
        (&["reset", "--account", "nobody"], "no such account: nobody"),
        (&["seed", "/does/not/exist"], "cannot read the seed"),
    ] {
        let (code, _, error) = run(&server, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn only_a_test_bench_goes_back() {
    let server = Server::in_memory(&["--admin-port", "0"]);
    let mut admin = Admin::of(&server);
    for (method, path) in [
        ("GET", "/snapshots"),
        ("PUT", "/snapshots/a"),
        ("POST", "/snapshots/a/restore"),
        ("POST", "/reset"),
        ("POST", "/seed"),
    ] {
        let reply = admin.raw(method, path, "");
        assert_eq!(reply.status, 403, "{method} {path}: {}", reply.text());
        assert!(reply.text().contains("NotATestBench"));
    }
}

/// A token for everything of an account, made with the development key.
fn sas(account: &str) -> String {
    let key = development_account().keys.remove(0);
    let sas = AccountSas {
        services: Services::parse("bqt"),
        resource_types: ResourceTypes::parse("sco"),
        permissions: Permissions::parse("rwdlacup"),
        limits: SasLimits::until(Timestamp::parse_iso("2099-01-01").unwrap()),
    };
    Signer::new(account, key).unwrap().account_sas(&sas).unwrap()
}

#[test]
fn any_account_is_a_tenant_of_its_own() {
    let server = Server::in_memory(&["--any-account"]);
    let json = [("Content-Type", "application/json"), ("Accept", "application/json")];
    let mut client = server.client();
    let mut create = |account: &str, signed: &str| {
        let target = format!("/{account}/Tables?{}", sas(signed));
        client.unsigned("POST", &target, &json, br#"{"TableName":"People"}"#).unwrap().status
    };
    for (account, signed, status) in [
        ("tenant1", "tenant1", 201),
        ("tenant2", "tenant2", 201),
        ("tenant1", "tenant1", 409),
        ("devstoreaccount1", "devstoreaccount1", 201),
        ("tenant3", "tenant1", 403),
        ("no.account", "no.account", 404),
    ] {
        assert_eq!(create(account, signed), status, "{account} signed for {signed}");
    }
    assert!(server.out().contains("any other account name"), "{}", server.out());
    // Those that are given keep their keys, and other servers know no others.
    let key = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
    let given = Server::in_memory(&["--any-account", "--account", &format!("mine:{key}")]);
    let status = |server: &Server, account: &str| {
        let target = format!("/{account}/Tables?{}", sas(account));
        server.client().unsigned("GET", &target, &[("Accept", "application/json")], b"").unwrap().status
    };
    assert_eq!((status(&given, "mine"), status(&given, "other")), (403, 200));
    let strict = Server::in_memory(&[]);
    assert_eq!((status(&strict, "devstoreaccount1"), status(&strict, "other")), (200, 404));
}

/// Any number of names may be asked for: none of them is remembered for long.
#[test]
fn many_account_names_take_no_memory() {
    let server = Server::in_memory(&["--any-account"]);
    let mut client = server.client();
    let mut ask = |names: std::ops::Range<u32>| {
        for number in names {
            let target = format!("/tenant{number}/Tables?sig=none&sv=2019-02-02");
            assert_eq!(client.unsigned("GET", &target, &[], b"").unwrap().status, 403);
        }
    };
    ask(0..5_000);
    let before = server.resident_kib();
    ask(5_000..25_000);
    let after = server.resident_kib();
    assert!(after < before + 8 * 1024, "{before} KiB, then {after} KiB");
}
