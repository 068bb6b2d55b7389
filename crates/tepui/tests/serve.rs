//! The `tepui` command from outside: it starts, says where it is, refuses what it must, and stops.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use rustix::process::Signal;
use serde_json::json;
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};
use support::blob::signed;
use support::http::{Client, Reply};
use support::table::{Change, Properties, properties};
use support::{FREE_PORTS, SAS, Server, tepui, wait_until};
use tempfile::TempDir;

const TABLE: &str = "Served";

/// Runs a command that is to end by itself.
fn refused(arguments: &[&str], data: &Path) -> Output {
    tepui(arguments, data).output().unwrap()
}

fn start(arguments: &[&str], data: &Path) -> Server {
    Server::run(tepui(arguments, data))
}

fn put(client: &mut Client, row: &str, value: u64) -> Reply {
    let change = Change::new("PUT", row, properties(json!({"Value": value})));
    client.change(TABLE, "p", &change).unwrap()
}

#[test]
fn it_is_ready_at_once() {
    let data = TempDir::new().unwrap();
    let arguments: [&[&str]; 2] = [
        &["serve", "--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0"],
        &["serve", "--blob-port", "0", "--queue-port", "0", "--table-port", "0"],
    ];
    for (what, arguments) in ["in memory", "on disk"].into_iter().zip(arguments) {
        let mut times: Vec<Duration> = (0..5)
            .map(|_| {
                let server = start(arguments, data.path());
                let ready_after = server.ready_after;
                assert_eq!(server.client().unsigned("GET", "/health", &[], b"").unwrap().status, 200);
                assert_eq!(server.stop().0.code(), Some(0));
                ready_after
            })
            .collect();
        times.sort_unstable();
        println!("{what}: ready after {:?} at best, {:?} at worst", times[0], times[4]);
        // A tenth of it where nothing else runs.
        assert!(times[2] < Duration::from_secs(1), "{what}: mostly slow: {times:?}");
    }
}

#[test]
fn it_reports_its_ports_and_stops_on_a_signal() {
    let data = TempDir::new().unwrap();
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let server = start(&["--blob-port", "0", "--queue-port", "0", "--table-port", "0"], data.path());
        let port = server.port;
        let health = server.client().unsigned("GET", "/health", &[], b"").unwrap();
        assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
        let idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
        server.signal(signal);
        let (status, out, log) = server.wait();
        drop(idle);
        assert_eq!(status.code(), Some(0), "{log}");
        let string = out.lines().find(|line| line.contains("AccountName=")).unwrap();
        assert!(string.contains("AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"));
        let endpoint = format!("http://127.0.0.1:{port}/devstoreaccount1");
        assert!(string.ends_with(&format!("TableEndpoint={endpoint};")), "{string}");
        assert!(out.contains(&format!("  table  {endpoint}\n")), "{out}");
        assert!(log.contains(&format!("stopping signal={name}")) && log.contains("stopped"), "{log}");
    }
}

#[test]
fn other_signals_do_not_end_it() {
    let files = TempDir::new().unwrap();
    let (config, log, old) =
        (files.path().join("tepui.toml"), files.path().join("log"), files.path().join("log.1"));
    std::fs::write(&config, "log-requests = false").unwrap();
    let (config_path, log_path) = (config.to_str().unwrap(), log.to_str().unwrap());
    let base = ["serve", "--in-memory", "--config", config_path, "--log-file", log_path];
    let server = Server::run(tepui(&[&base[..], FREE_PORTS].concat(), files.path()));
    for signal in [Signal::USR1, Signal::USR2, Signal::ALARM] {
        server.signal(signal);
    }
    let is_healthy = || server.client().unsigned("GET", "/health", &[], b"").unwrap().status == 200;
    assert!(is_healthy());
    server.client().create_table(TABLE);

    std::fs::rename(&log, &old).unwrap();
    std::fs::write(&config, "log-requests = true").unwrap();
    server.signal(Signal::HUP);
    wait_until("there is a new log", || log.exists());
    server.client().create_table("Another");
    let lines = || std::fs::read_to_string(&log).unwrap();
    wait_until("requests are logged", || lines().contains("CreateTable"));
    assert!(!std::fs::read_to_string(&old).unwrap().contains("CreateTable"));

    std::fs::write(&config, "log-level = 'loud'").unwrap();
    server.signal(Signal::HUP);
    wait_until("the mistake is logged", || lines().contains("cannot reload the configuration"));
    assert!(is_healthy());
    let (status, _, _) = server.stop();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_certificate_that_cannot_be_read_in_time_keeps_nobody_from_stopping_it() {
    let files = TempDir::new().unwrap();
    let (tls, log) = (files.path().join("tls"), files.path().join("log"));
    let paths = ["--tls-dir", tls.to_str().unwrap(), "--log-file", log.to_str().unwrap()];
    let base = ["serve", "--in-memory", "--tls", "auto"];
    let server = Server::run(tepui(&[&base[..], FREE_PORTS, &paths].concat(), files.path()));
    let lock = std::fs::File::open(tls.join("lock")).unwrap();
    lock.lock().unwrap();
    for _ in 0..2 {
        server.signal(Signal::HUP);
    }
    let lines = || std::fs::read_to_string(&log).unwrap();
    wait_until("it is reloaded", || lines().contains("the log is opened anew"));
    let (status, _, _) = server.stop();
    assert_eq!(status.code(), Some(0));
    assert!(!lines().contains("the certificate was read again"), "it waits for the lock");
    drop(lock);
}

/// Sends what a browser would send for a page.
fn send_as(client: &mut Client, host: &str, request: &str, headers: &str, body: &str) -> Reply {
    let length = body.len();
    let text =
        format!("{request} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    client.send(text.as_bytes()).unwrap();
    client.reply().unwrap()
}

#[test]
fn pages_in_a_browser_change_nothing() {
    let server = Server::in_memory(&["--allowed-host", "storage.contoso.com"]);
    let (mut blobs, mut queues) = (server.blobs(), Client::connect(server.queue_port).unwrap());
    blobs.create_container("pictures");
    blobs.put_blob("/pictures/cat", b"meow");
    queues.create_queue("jobs");
    let batch = format!("POST {}", signed("/?comp=batch"));
    let delete = format!(
        "--b\r\nContent-Type: application/http\r\n\r\nDELETE {} HTTP/1.1\r\n\r\n--b--\r\n",
        signed("/pictures/cat")
    );
    let page = "Origin: http://evil.com\r\nSec-Fetch-Site: cross-site\r\n";
    let mixed = "Content-Type: multipart/mixed; boundary=b\r\n";
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    for (case, headers, status, code) in [
        ("a form of a page", format!("{page}{form}"), 403, "CorsPreflightFailure"),
        ("a batch of a page", format!("{page}{mixed}"), 403, "CorsPreflightFailure"),
        ("a form", form.to_owned(), 400, "InvalidInput"),
    ] {
        let reply = send_as(&mut blobs, "127.0.0.1", &batch, &headers, &delete);
        assert_eq!((reply.status, &*reply.code()), (status, code), "{case}: {}", reply.text());
    }
    assert_eq!(blobs.get_blob("/pictures/cat").body, b"meow");
    // An image in a page is no harm.
    let get = format!("GET {}", signed("/pictures/cat"));
    assert_eq!(send_as(&mut blobs, "127.0.0.1", &get, "Sec-Fetch-Site: cross-site\r\n", "").status, 200);

    let put = format!("POST /devstoreaccount1/jobs/messages?{SAS}");
    let message = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    let text = format!("{page}Content-Type: text/plain\r\n");
    assert_eq!(send_as(&mut queues, "127.0.0.1", &put, &text, message).status, 403);
    assert_eq!(send_as(&mut queues, "127.0.0.1", &put, "", message).status, 201);

    for (host, status) in [("evil.com", 403), ("storage.contoso.com", 200), ("azurite:10000", 200)] {
        let reply = send_as(&mut blobs, host, &get, "", "");
        assert_eq!(reply.status, status, "{host}: {}", reply.text());
        assert_eq!(reply.text().contains("allowed-hosts"), status == 403, "{host}: {}", reply.text());
    }
}

/// As in a container, whose ports may be published on the machine itself.
#[test]
fn pages_change_nothing_where_the_server_listens_on_all_addresses() {
    let server = Server::in_memory(&["--host", "0.0.0.0"]);
    let mut queues = Client::connect(server.queue_port).unwrap();
    queues.create_queue("jobs");
    let put = format!("POST /devstoreaccount1/jobs/messages?{SAS}");
    let message = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    let rule = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://app.example</AllowedOrigins>\
        <AllowedMethods>POST</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders>\
        <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    let set = format!("PUT /devstoreaccount1/?restype=service&comp=properties&{SAS}");
    let reply = send_as(&mut queues, "storage:10001", &set, "", rule);
    assert_eq!(reply.status, 202, "{}", reply.text());
    for (case, host, headers, status) in [
        ("a program", "storage:10001", "", 201),
        ("a program, by any name", "storage.example.org", "", 201),
        ("a page", "127.0.0.1:10001", "Origin: http://evil.com\r\nSec-Fetch-Site: cross-site\r\n", 403),
        ("a page in an old browser", "127.0.0.1:10001", "Origin: http://evil.com\r\n", 403),
        ("a page that a rule allows", "127.0.0.1:10001", "Origin: http://app.example\r\n", 201),
        (
            "one that has asked first",
            "127.0.0.1:10001",
            "Origin: http://app.example\r\nSec-Fetch-Site: cross-site\r\nx-ms-version: 2021-12-02\r\n",
            201,
        ),
        ("its own page", "127.0.0.1:10001", "Origin: http://127.0.0.1:10001\r\n", 201),
    ] {
        let headers = format!("{headers}Content-Type: text/plain\r\n");
        let reply = send_as(&mut queues, host, &put, &headers, message);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
    }
}

/// The rights of [`signed`], for requests over TLS from one address.
const NARROW_SAS: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwdxlactfi&se=2099-01-01&sip=203.0.113.7&spr=https\
    &sig=PuovinNWHNqzv54mufDDpCYiyQtdW2hMWWfmmMbE%2BQ0%3D";

#[test]
fn proxies_say_where_requests_come_from_if_they_are_trusted() {
    let get = format!("GET /devstoreaccount1/pictures?restype=container&comp=list&{NARROW_SAS}");
    let client = "X-Forwarded-For: 198.51.100.1, 203.0.113.7\r\nX-Forwarded-Proto: https\r\n";
    let other = "X-Forwarded-For: 203.0.113.7, 198.51.100.1\r\nX-Forwarded-Proto: https\r\n";
    let plain = "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: http\r\n";
    for (trusted, headers, status) in [
        (&["--trusted-proxy", "127.0.0.0/8"][..], client, 200),
        (&["--trusted-proxy", "127.0.0.0/8"], other, 403),
        (&["--trusted-proxy", "127.0.0.0/8"], plain, 403),
        (&["--trusted-proxy", "127.0.0.0/8"], "", 403),
        (&["--trusted-proxy", "10.0.0.0/8"], client, 403),
        (&[], client, 403),
    ] {
        let server = Server::in_memory(trusted);
        let mut blobs = server.blobs();
        blobs.create_container("pictures");
        let reply = send_as(&mut blobs, "127.0.0.1", &get, headers, "");
        assert_eq!(reply.status, status, "{trusted:?} {headers}: {}", reply.text());
        let endpoint = "ServiceEndpoint=\"https://127.0.0.1/devstoreaccount1/\"";
        assert_eq!(reply.text().contains(endpoint), status == 200, "{}", reply.text());
    }
}

#[test]
fn a_request_under_way_is_finished_before_the_end() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let mut client = server.client();
    client.create_table(TABLE);
    let body = r#"{"PartitionKey":"p","RowKey":"late","Value":1}"#;
    let head = format!(
        "POST /devstoreaccount1/{TABLE}?{SAS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).unwrap();
    // It reads the body now: the request is under way.
    assert_eq!(client.reply().unwrap().status, 100);
    client.send(&body.as_bytes()[..10]).unwrap();

    server.signal(Signal::TERM);
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", server.port)).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(20), "still accepting");
        std::thread::sleep(Duration::from_millis(1));
    }
    client.send(&body.as_bytes()[10..]).unwrap();
    let reply = client.reply().unwrap();
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert_eq!(client.rest(), b"", "it was to be closed");
    let (status, _, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");

    let late = Server::on_disk(data.path()).client().get(TABLE, "p", "late").unwrap().unwrap();
    assert_eq!((&late["Value"], &late["odata.etag"]), (&json!(1), &json!(reply.etag())));
}

#[test]
fn stopping_under_load_loses_nothing() {
    let data = TempDir::new().unwrap();
    let server = Server::on_disk(data.path());
    let port = server.port;
    server.client().create_table(TABLE);
    let written: Vec<Vec<String>> = std::thread::scope(|scope| {
        let write = |number: usize| {
            let mut client = Client::connect(port).unwrap();
            let mut etags = Vec::new();
            loop {
                let row = format!("{number}-{:05}", etags.len());
                let change = Change::new("POST", row, Properties::new());
                match client.change(TABLE, "p", &change) {
                    Ok(reply) => {
                        assert_eq!(reply.status, 204, "{}", reply.text());
                        etags.push(reply.etag());
                    }
                    Err(_) => return etags,
                }
            }
        };
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || write(number))).collect();
        std::thread::sleep(Duration::from_millis(300));
        let (status, _, log) = server.stop();
        assert_eq!(status.code(), Some(0), "{log}");
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let server = Server::on_disk(data.path());
    let mut client = server.client();
    for (number, etags) in written.iter().enumerate() {
        let from = format!("$filter=RowKey%20ge%20'{number}-'%20and%20RowKey%20lt%20'{number}.'");
        let found = client.query(TABLE, &from).unwrap();
        let found: Vec<&str> = found.iter().map(|entity| entity["odata.etag"].as_str().unwrap()).collect();
        // A connection that was closed before its request was read leaves no trace; nothing else is missing.
        assert_eq!(found, *etags);
    }
    let total: usize = written.iter().map(Vec::len).sum();
    println!("{total} inserts acknowledged before the stop");
    assert!(total > 8);
}

#[test]
fn data_stays_over_a_restart_and_memory_does_not() {
    let data = TempDir::new().unwrap();
    let mut etags = Vec::new();
    for run in 0..3 {
        let server = Server::on_disk(data.path());
        let mut client = server.client();
        if run == 0 {
            client.create_table(TABLE);
        }
        for (row, etag) in etags.iter().enumerate() {
            let entity = client.get(TABLE, "p", &row.to_string()).unwrap().unwrap();
            assert_eq!((&entity["Value"], &entity["odata.etag"]), (&json!(row), &json!(etag)));
        }
        etags.push(put(&mut client, &run.to_string(), run).etag());
        assert_eq!(server.stop().0.code(), Some(0));
    }
    for _ in 0..2 {
        let server = Server::in_memory(&[]);
        server.client().create_table(TABLE);
    }
}

#[test]
fn the_command_health_asks_the_server() {
    let data = TempDir::new().unwrap();
    let server =
        start(&["--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0"], data.path());
    let port = server.port.to_string();
    let health = || {
        refused(&["health", "--services", "table", "--host", "0.0.0.0", "--table-port", &port], data.path())
    };
    let output = health();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
    server.stop();
    let output = health();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.starts_with("tepui: the table service is not healthy (") && error.contains(&port),
        "{error}"
    );
}

#[test]
fn a_port_or_a_directory_in_use_is_named() {
    let data = TempDir::new().unwrap();
    let server = start(&["--blob-port", "0", "--queue-port", "0", "--table-port", "0"], data.path());
    let port = server.port.to_string();

    let output = refused(
        &["--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", &port],
        data.path(),
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("tepui: the port is in use") && error.contains(&port), "{error}");

    let output = refused(&["--blob-port", "0", "--queue-port", "0", "--table-port", "0"], data.path());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("in use by another process") && error.contains("tepui\n"), "{error}");
    assert_eq!(server.client().unsigned("GET", "/health", &[], b"").unwrap().status, 200);
}

#[test]
fn what_makes_no_sense_ends_with_2() {
    let data = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = data.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let key = file("key.toml", "tabel-port = 1\n");
    let limit = file("limit.toml", "[limits]\nmax-conections = 1\n");
    let number = file("number.toml", "[limits]\nmax-head-bytes = 1\n");
    let text = file("text.toml", "in-memory = maybe\n");
    for (arguments, says) in [
        (&["--account", "one:hunter2!"][..], "not base64, for account: one"),
        (&["--config", &key], "unknown key `tabel-port`"),
        (&["--config", &key], &key),
        (&["--config", &limit], "unknown key `max-conections`"),
        (&["--config", &number], "invalid value (must be at least 8192): max-head-bytes = 1 (line 2)"),
        (&["--config", &text], &text),
        (&["--config", "/no/such/file.toml"], "/no/such/file.toml"),
        (&["--oauth", "full"], "there is `basic` only"),
        (
            &["--oauth", "basic", "--table-host", "0.0.0.0", "--table-port", "0"],
            "--oauth basic believes everybody",
        ),
        (&["--oauth", "basic", "--trusted-proxy", "127.0.0.1"], "cannot be used with --trusted-proxy"),
        (&["--dev-issuer"], "--admin-port is needed"),
        (&["--cert", "x.pem"], "a certificate needs its key"),
        (&["--cert", "x.pfx", "--key", "k.pem", "--pwd", "hunter2"], "both were given"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["no-such-command"], "no-such-command"),
    ] {
        let output = refused(arguments, data.path());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(says) && !error.contains("hunter2"), "{arguments:?}: {error}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn many_clients_may_come_before_it_has_time_for_them() {
    use std::io::{Read, Write};
    let server = Server::in_memory(&[]);
    server.signal(Signal::STOP);
    let address = ([127, 0, 0, 1], server.port).into();
    let connect = |number| {
        let connected = TcpStream::connect_timeout(&address, Duration::from_millis(500));
        connected.unwrap_or_else(|error| panic!("client {number}: {error}"))
    };
    // The system allows 4096 by default; a client for whom there is no room would wait for a second.
    let mut clients: Vec<TcpStream> = (0..500).map(connect).collect();
    server.signal(Signal::CONT);
    for client in &mut clients {
        client.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    }
    for client in &mut clients {
        client.read_exact(&mut [0; 100]).unwrap();
    }
}

#[test]
fn a_public_key_at_a_public_address_cannot_be_missed() {
    let data = TempDir::new().unwrap();
    let base = ["--in-memory", "--log-level=off", "--blob-port=0", "--queue-port=0", "--table-port=0"];
    let (_, _, log) = start(&base, data.path()).stop();
    assert!(!log.contains("WARNING"), "{log}");
    let (_, _, log) = start(&[&base[..], &["--blob-host=0.0.0.0"]].concat(), data.path()).stop();
    assert!(log.contains("!! WARNING: everybody who can reach 0.0.0.0:"), "{log}");
    let own = "--account=devstoreaccount1:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=";
    let (_, _, log) = start(&[&base[..], &["--blob-host=0.0.0.0", own]].concat(), data.path()).stop();
    assert!(!log.contains("WARNING"), "{log}");
    let output = refused(&["--account", "one:c2VjcmV0"], data.path());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("a key has 6 bytes and needs 32 or more"), "{error}");
}

#[test]
fn a_bad_environment_variable_is_named() {
    let data = TempDir::new().unwrap();
    for (name, value, says) in [
        ("TEPUI_TABLE_PORT", "many", "invalid digit found in string): TEPUI_TABLE_PORT=many"),
        ("TEPUI_IN_MEMORY", "perhaps", "TEPUI_IN_MEMORY=perhaps"),
        ("TEPUI_SERVICES", "table,file", "a service is blob, queue or table: file): TEPUI_SERVICES=file"),
        ("TEPUI_LOG_LEVEL", "loud", "trace: loud): TEPUI_LOG_LEVEL=loud"),
        ("TEPUI_ACCOUNTS", "one:hunter2!", "a key is not base64, for account: one (TEPUI_ACCOUNTS)"),
    ] {
        let output = tepui(&["--blob-port=0"], data.path()).env(name, value).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(says) && !error.contains("hunter2"), "{name}: {error}");
    }
    let mut mistyped = tepui(&[&["--in-memory"], support::FREE_PORTS].concat(), data.path());
    mistyped.env("TEPUI_TABEL_PORT", "1").env("TEPUI_SERVICE_HOST", "10.0.0.1");
    let (_, _, log) = Server::run(mistyped).stop();
    assert!(log.contains("has no effect: TEPUI_TABEL_PORT"), "{log}");
    assert!(!log.contains("TEPUI_SERVICE_HOST"), "{log}");
}

#[test]
fn the_version_says_from_which_commit_it_is() {
    let data = TempDir::new().unwrap();
    let output = refused(&["-V"], data.path());
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.trim().strip_prefix("tepui ").unwrap();
    let commit = match version.split_once(" (") {
        Some((number, commit)) => {
            assert_eq!(number, env!("CARGO_PKG_VERSION"));
            commit.strip_suffix(')').unwrap()
        }
        // Built from an archive.
        None => return assert_eq!(version, env!("CARGO_PKG_VERSION")),
    };
    assert!(commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
}

#[test]
fn keys_of_configured_accounts_are_printed_only_on_request() {
    let data = TempDir::new().unwrap();
    let base = [
        "--in-memory",
        "--queue-port=0",
        "--table-port=0",
        "--account",
        "people:c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=",
        "--blobPort",
        "0",
        "--extentMemoryLimit",
        "1",
    ];
    let (_, out, log) = start(&base, data.path()).stop();
    assert!(out.contains("AccountName=people;AccountKey=<key>;"), "{out}");
    assert!(log.contains("--extentMemoryLimit has no effect"), "{log}");
    let (_, out, _) = start(&[&base[..], &["--show-keys"]].concat(), data.path()).stop();
    assert!(
        out.contains("AccountName=people;AccountKey=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0ISE=;"),
        "{out}"
    );
}

/// Signatures like [`SAS`], of two accounts: `alpha` with two keys, and `beta` with one.
const KEYS: &str = "alpha:YWxwaGEgb25lLCBvZiB0aGlydHktdHdvIGxldHRlcnM=:YWxwaGEgdHdvLCBvZiB0aGlydHktdHdvIGxldHRlcnM=;beta:YmV0YSBvbmUsIHdpdGggdGhpcnR5LXR3byBsZXR0ZXI=";
const ALPHA_1: &str = "eMsI3E4YVS1328A4RuBiQnu8CKJtsmj%2BRniHdgNuZ4Y%3D";
const ALPHA_2: &str = "ak1qB4gDXGnNMWxOtmsN13cnEa1MorpQM%2FDEJD4q3u0%3D";
const BETA_1: &str = "FFFI7a0jljZeUWr4CTodR2aztNIS8Y3mH98rnF1zykY%3D";
/// Of `beta`, but with a key of `alpha`.
const BETA_BY_ALPHA: &str = "B9f9ySwY4%2FV9rLvkc%2FBcWQMcWUIcX9K0sil6s3KxaBI%3D";

#[test]
fn accounts_are_apart_and_either_key_opens_one() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("tepui.toml");
    let accounts = "[[account]]\nname = 'alpha'\nkeys = ['YWxwaGEgb25lLCBvZiB0aGlydHktdHdvIGxldHRlcnM=', 'YWxwaGEgdHdvLCBvZiB0aGlydHktdHdvIGxldHRlcnM=']\n\
                    [[account]]\nname = 'beta'\nkeys = ['YmV0YSBvbmUsIHdpdGggdGhpcnR5LXR3byBsZXR0ZXI=']\n";
    std::fs::write(&file, accounts).unwrap();
    let base = ["--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0"];
    let by_file = tepui(&[&base[..], &["--config", file.to_str().unwrap()]].concat(), data.path());
    let mut by_environment = tepui(&base, data.path());
    by_environment.env("TEPUI_ACCOUNTS", KEYS);
    let mut as_azurite_has_it = tepui(&base, data.path());
    as_azurite_has_it.env("AZURITE_ACCOUNTS", KEYS);

    for command in [by_file, by_environment, as_azurite_has_it] {
        let server = Server::run(command);
        let mut client = server.client();
        let mut ask = |method: &str, account: &str, path: &str, signature: &str, body: &str| {
            let target = format!("/{account}/{path}?{SAS}");
            let target = target.rsplit_once("&sig=").unwrap().0.to_owned() + "&sig=" + signature;
            let headers =
                [("Accept", "application/json;odata=nometadata"), ("Content-Type", "application/json")];
            let reply = client.unsigned(method, &target, &headers, body.as_bytes()).unwrap();
            (reply.status, reply.text())
        };
        for (account, signature) in [("alpha", ALPHA_1), ("beta", BETA_1)] {
            let body = format!(r#"{{"TableName":"Of{account}"}}"#);
            assert_eq!(ask("POST", account, "Tables", signature, &body).0, 201);
        }
        for (account, signature) in [("alpha", ALPHA_1), ("alpha", ALPHA_2), ("beta", BETA_1)] {
            let expected = format!(r#"{{"value":[{{"TableName":"Of{account}"}}]}}"#);
            assert_eq!(ask("GET", account, "Tables", signature, ""), (200, expected));
        }
        assert_eq!(ask("GET", "beta", "Tables", BETA_BY_ALPHA, "").0, 403);
        assert_eq!(ask("GET", "beta", "Tables", ALPHA_1, "").0, 403);
        // The development account is not there beside configured ones.
        assert_eq!(client.request("GET", "/Tables", &[], b"").unwrap().status, 404);
    }
}

#[test]
fn every_flag_of_azurite_is_explained_and_taken() {
    let data = TempDir::new().unwrap();
    let help = String::from_utf8(refused(&["serve", "--help"], data.path()).stdout).unwrap();
    for flag in [
        "silent location blobHost queueHost tableHost blobPort queuePort tablePort",
        "blobKeepAliveTimeout queueKeepAliveTimeout tableKeepAliveTimeout loose skipApiVersionCheck",
        "disableProductStyleUrl oauth cert key pwd debug disableTelemetry inMemoryPersistence",
        "extentMemoryLimit help",
    ]
    .iter()
    .flat_map(|line| line.split(' '))
    {
        assert!(help.contains(&format!("--{flag}")), "the help is silent about --{flag}");
    }

    let log = data.path().join("debug.log");
    let line = "--inMemoryPersistence --tablePort 0 --tableHost 127.0.0.1 --tableKeepAliveTimeout 5 --silent \
                --loose --skipApiVersionCheck --disableProductStyleUrl --disableTelemetry --blobPort 0 \
                --blobHost 127.0.0.1 --blobKeepAliveTimeout 5 --queuePort 0 --queueHost 127.0.0.1 \
                --queueKeepAliveTimeout 5 --extentMemoryLimit 100 --debug";
    let arguments: Vec<&str> = line.split_whitespace().chain([log.to_str().unwrap()]).collect();
    let server = start(&arguments, data.path());
    let mut client = server.client();
    client.create_table(TABLE);
    // There never was such a version.
    let odd = [("x-ms-version", "2019-03-03"), ("Accept", "application/json")];
    assert_eq!(client.request("GET", "/Tables", &odd, b"").unwrap().status, 200);
    assert_eq!(server.stop().0.code(), Some(0));
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("stopped"), "{log}");

    let strict = Server::in_memory(&[]);
    assert_eq!(strict.client().request("GET", "/Tables", &odd, b"").unwrap().status, 400);
}
