//! The `tepui` command from outside: it starts, says where it is, refuses what it must, and stops.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may")]

use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn tepui(arguments: &[&str], data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tepui"));
    command.env_clear().env("XDG_DATA_HOME", data).args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command that is to end by itself.
fn refused(arguments: &[&str], data: &Path) -> Output {
    tepui(arguments, data).output().unwrap()
}

struct Running {
    child: Child,
    port: u16,
}

impl Running {
    fn start(arguments: &[&str], data: &Path) -> Self {
        let file = data.join(format!("ports-{}.json", arguments.len()));
        let mut command = tepui(arguments, data);
        command.arg("--ports-file").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while !file.exists() {
            assert_eq!(child.try_wait().unwrap(), None, "ended at once");
            assert!(begun.elapsed() < Duration::from_secs(20), "not ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let port = text.split("\"port\":").nth(1).unwrap().trim_end().trim_end_matches('}').parse().unwrap();
        Self { child, port }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// How it ended, what it printed and what it logged.
    fn stop(mut self, signal: Signal) -> (ExitStatus, String, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let (mut out, mut log) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap(), out, log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn it_says_where_it_is_and_stops_when_told() {
    let data = TempDir::new().unwrap();
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let server = Running::start(&["--table-port", "0"], data.path());
        let port = server.port;
        assert!(server.get("/health").contains(r#"{"status":"ok""#));
        let idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (status, out, log) = server.stop(signal);
        drop(idle);
        assert_eq!(status.code(), Some(0), "{log}");
        let string = out.lines().find(|line| line.contains("AccountName=")).unwrap();
        assert!(string.contains("AccountName=devstoreaccount1;AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"));
        assert!(string.ends_with(&format!("TableEndpoint=http://127.0.0.1:{port}/devstoreaccount1;")));
        assert!(log.contains(&format!("stopping signal={name}")) && log.contains("stopped"), "{log}");
    }
}

#[test]
fn a_port_or_a_directory_in_use_is_named() {
    let data = TempDir::new().unwrap();
    let server = Running::start(&["--table-port", "0"], data.path());
    let port = server.port.to_string();

    let output = refused(&["--in-memory", "--table-port", &port], data.path());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.starts_with("tepui: the port is in use") && error.contains(&port), "{error}");

    let output = refused(&["--table-port", "0"], data.path());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("in use by another process") && error.contains("tepui\n"), "{error}");
}

#[test]
fn what_makes_no_sense_ends_with_2() {
    let data = TempDir::new().unwrap();
    let file = data.path().join("wrong.toml");
    std::fs::write(&file, "tabel-port = 1\n").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, says) in [
        (&["--account", "one:hunter2!"][..], "not base64, for account: one"),
        (&["--config", file], "unknown key `tabel-port`"),
        (&["--config", file], file),
        (&["--cert", "x.pem"], "TLS is not supported yet"),
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
fn keys_of_configured_accounts_are_printed_only_on_request() {
    let data = TempDir::new().unwrap();
    let base = ["--in-memory", "--table-port=0", "--account", "people:c2VjcmV0", "--blobPort", "1"];
    let (_, out, log) = Running::start(&base, data.path()).stop(Signal::TERM);
    assert!(out.contains("AccountName=people;AccountKey=<key>;"), "{out}");
    assert!(log.contains("the Blob service is not served yet"), "{log}");
    let shown = [&base[..], &["--show-keys"]].concat();
    let (_, out, _) = Running::start(&shown, data.path()).stop(Signal::TERM);
    assert!(out.contains("AccountName=people;AccountKey=c2VjcmV0;"), "{out}");
}
