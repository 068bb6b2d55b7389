//! `tepui admin …`.

use crate::support::http::Client;
use crate::support::{Server, tepui};
use crate::test_bench;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Runs `tepui admin` for a server: its exit code and what it printed.
pub(crate) fn run(server: &Server, arguments: &[&str]) -> (Option<i32>, String, String) {
    let ports = server.ports_file();
    let all = [&["admin", "--ports-file", ports.to_str().unwrap()], arguments].concat();
    let output = tepui(&all, Path::new("")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The same for what succeeds.
pub(crate) fn said(server: &Server, arguments: &[&str]) -> String {
    let (code, out, error) = run(server, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {error}");
    out.trim_end().to_owned()
}

#[test]
fn the_clock() {
    let server = test_bench();
    assert!(said(&server, &["clock"]).starts_with("20"));
    said(&server, &["clock", "freeze"]);
    assert_eq!(
        said(&server, &["clock", "set", "2030-01-01T00:00:00Z"]),
        "2030-01-01T00:00:00.0000000Z (frozen)"
    );
    assert_eq!(said(&server, &["clock", "advance", "1.5h"]), "2030-01-01T01:30:00.0000000Z (frozen)");
    let clock: Value = serde_json::from_str(&said(&server, &["clock", "get", "--json"])).unwrap();
    assert_eq!((&clock["now"], &clock["frozen"]), (&"2030-01-01T01:30:00.0000000Z".into(), &true.into()));
    assert!(!said(&server, &["clock", "resume"]).contains("frozen"));
    assert!(said(&server, &["clock", "reset"]).as_str() < "2029");
    for (arguments, code, says) in [
        (&["clock", "set", "tomorrow"][..], 1, "now is a time"),
        (&["clock", "advance", "soon"], 2, "a duration is"),
        (&["clock", "stop"], 2, "stop"),
        (&["clock", "--token", "wrong", "get"], 1, "token is not the one"),
        (&["clock", "--token", "a b", "get"], 2, "has a space"),
    ] {
        let (found, _, error) = run(&server, arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}

#[test]
fn the_server_is_found_by_flags_or_variables() {
    let server = test_bench();
    let port = server.admin_port.to_string();
    let flags = tepui(&["admin", "--port", &port, "--token", &server.admin_token, "clock"], Path::new(""));
    let mut variables = tepui(&["admin", "clock"], Path::new(""));
    variables.env("TEPUI_ADMIN_PORT", &port).env("TEPUI_ADMIN_TOKEN", &server.admin_token);
    for mut command in [flags, variables] {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let output = tepui(&["admin", "--port", &port, "clock"], Path::new("")).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && error.contains("a token is needed"), "{error}");
    drop(server);
    let output = tepui(&["admin", "--port", &port, "--token", "x", "clock"], Path::new("")).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("cannot be reached"), "{error}");
}

#[test]
fn faults() {
    let server = test_bench();
    let id = said(
        &server,
        &[
            "faults",
            "add",
            "--service",
            "table",
            "--operation",
            "QueryTables",
            "--count",
            "1",
            "--error",
            "ServerBusy",
            "--delay",
            "10ms",
        ],
    );
    assert_eq!(
        server.client().request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap().status,
        503
    );
    let list = said(&server, &["faults"]);
    assert!(
        list.starts_with(&id) && list.contains("operation=QueryTables") && list.ends_with("calls=1 hits=1"),
        "{list}"
    );
    said(&server, &["faults", "remove", &id]);
    assert_eq!(said(&server, &["faults", "list"]), "");
    said(
        &server,
        &["faults", "add", "--cut", "--when", "after", "--share", "0.5", "--seed", "3", "--path", "/x"],
    );
    let list: Value = serde_json::from_str(&said(&server, &["faults", "--json"])).unwrap();
    assert_eq!((&list["faults"][0]["share"], &list["faults"][0]["cut"]), (&0.5.into(), &true.into()));
    said(&server, &["faults", "clear"]);
    let (code, _, error) = run(&server, &["faults", "add"]);
    assert!(code == Some(1) && error.contains("an error, cut, delayMs"), "{error}");
}

#[test]
fn messages() {
    let server = test_bench();
    let mut client = Client::connect(server.queue_port).unwrap();
    client.create_queue("jobs");
    for number in 0..150 {
        client.put_message("jobs", &format!("job {number}")).unwrap();
    }
    client.get_messages("jobs", 1, 300).unwrap();
    let all = said(&server, &["messages", "jobs", "--limit", "1000"]);
    assert_eq!(all.lines().count(), 150);
    assert!(all.contains("dequeued 1  until ") && all.contains("dequeued 0  visible  \"job 77\""), "{all}");
    let some = said(&server, &["messages", "jobs", "--limit", "3"]);
    assert!(some.lines().count() == 4 && some.ends_with("… and more (--limit)"), "{some}");
    let json: Value = serde_json::from_str(&said(&server, &["messages", "jobs", "--json"])).unwrap();
    assert_eq!(json["messages"].as_array().unwrap().len(), 100);
    let (code, _, error) = run(&server, &["messages", "none"]);
    assert!(code == Some(1) && error.contains("does not exist"), "{error}");
}

#[test]
fn tail() {
    let server = test_bench();
    let ports = server.ports_file();
    let arguments = ["admin", "--ports-file", ports.to_str().unwrap(), "tail", "--service", "table"];
    let mut child = tepui(&arguments, Path::new("")).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It is not known when it listens, so requests go on until it shows one.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let line = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.client();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                client.request("GET", "/Tables", &[("Accept", "application/json")], b"").unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let line = lines.next().unwrap().unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        line
    });
    assert!(
        line.contains(" 200 table QueryTables GET /devstoreaccount1/Tables?") && !line.contains("sig=V"),
        "{line}"
    );
    server.stop();
    assert!(child.wait().unwrap().success(), "it ends with the server");
}

#[test]
fn a_server_that_requires_tls() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on_disk_with(
        directory.path(),
        &["--test-bench", "--admin-port", "0", "--tls", "auto", "--require-tls"],
    );
    assert!(said(&server, &["clock"]).starts_with("20"), "the ports file says whom to trust");
    let ca = directory.path().join("tls/ca.pem");
    let (ca, port, token) =
        (ca.to_str().unwrap(), server.admin_port.to_string(), server.admin_token.as_str());
    for (arguments, code, says) in [
        (&["--ca-file", ca][..], 0, ""),
        (&["--ca-file", ca, "--host", "localhost"], 0, ""),
        (&["--ca-file", ca, "--host", "https://localhost"], 0, ""),
        (&[], 1, "does not support http"),
        (&["--host", "https://localhost"], 1, "cannot be reached (invalid peer certificate"),
        (&["--ca-file", "/nowhere.pem"], 2, "cannot read certificate authorities (No such file"),
        (&["--ca-file", env!("CARGO_MANIFEST_DIR")], 2, "cannot read certificate authorities"),
        (&["--ca-file", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], 2, "there is no certificate"),
    ] {
        let all = [&["admin", "--port", &port, "--token", token][..], arguments, &["clock"]].concat();
        let output = tepui(&all, Path::new("")).env("SSL_CERT_FILE", "").output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
    }
}
