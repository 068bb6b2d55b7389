//! A server of its own for each test, and what its clients need.
//!
//! The server is the real command, on a port of its choosing. It ends with the test that started it,
//! and what it printed is shown when the test fails.
#![allow(dead_code, reason = "every test file uses another part of it")]

pub(crate) mod blob;
pub(crate) mod http;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod table;

use http::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A shared access signature of the development account with every right, until 2099.
pub(crate) const SAS: &str = "sv=2019-02-02&ss=tq&srt=sco&sp=rwdlacup&se=2099-01-01\
    &sig=VcmP4yN0LkdCv0D1bH7XjO4r%2FCTC%2BjvSY8EV9epq0cE%3D";

/// The command, knowing nothing of the environment but where data goes by default.
pub(crate) fn tepui(arguments: &[&str], data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tepui"));
    command.env_clear().env("XDG_DATA_HOME", data).args(arguments).stdin(Stdio::null());
    command
}

/// Runs `tepui check` on a data directory that no server has open; the exit code, and what it found.
pub(crate) fn check(directory: &Path) -> (Option<i32>, serde_json::Value) {
    let output = tepui(&["check", "--json", directory.to_str().unwrap()], directory).output().unwrap();
    let found = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| serde_json::Value::String(String::from_utf8_lossy(&output.stderr).into_owned()));
    (output.status.code(), found)
}

/// The same for one that must be healthy: what it has counted.
pub(crate) fn check_healthy(directory: &Path) -> serde_json::Value {
    let (code, found) = check(directory);
    assert_eq!(code, Some(0), "{found:#}");
    found
}

/// Waits for a condition, and fails after a timeout.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not yet: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A connection breaks because the server is killed, and for no other reason.
pub(crate) fn expect_killed(error: &io::Error, killed: &AtomicBool) {
    let garbled = error.kind() == io::ErrorKind::InvalidData;
    assert!(killed.load(Ordering::SeqCst) && !garbled, "a request failed: {error}");
}

/// What became of a request that changes something.
#[derive(Debug)]
#[must_use]
pub(crate) enum Step {
    Done,
    /// Refused for now, with status 503: nothing of it was done.
    Refused(String),
    /// The server does not know, and says so with status 500.
    Unknown(String),
}

impl Step {
    /// What an answer with such a status means, if it is neither what was asked for nor a mistake of the client.
    pub(crate) fn failed(status: u16, text: &str) -> Option<Self> {
        match status {
            503 => Some(Self::Refused(text.to_owned())),
            500 => Some(Self::Unknown(text.to_owned())),
            _ => None,
        }
    }

    /// Where there is no reason for anything else.
    pub(crate) fn expect_done(&self) {
        assert!(matches!(self, Self::Done), "{self:?}");
    }
}

/// How many rounds a test of crashes makes: `rounds`, or what `TEPUI_CRASH_ROUNDS` says.
pub(crate) fn crash_rounds(rounds: usize) -> usize {
    std::env::var("TEPUI_CRASH_ROUNDS").map_or(rounds, |text| text.parse().unwrap())
}

/// Every service on an unused port.
pub(crate) const FREE_PORTS: &[&str] = &["--blob-port", "0", "--queue-port", "0", "--table-port", "0"];

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    /// Where tables are served.
    pub(crate) port: u16,
    /// Where queues are served.
    pub(crate) queue_port: u16,
    /// Where blobs are served.
    pub(crate) blob_port: u16,
    /// Where metrics are served, or 0.
    pub(crate) admin_port: u16,
    /// The token of the admin API, if the server has made one.
    pub(crate) admin_token: String,
    /// From starting the process to its saying that it listens.
    pub(crate) ready_after: Duration,
    /// Where it prints, and where it says its ports.
    files: TempDir,
}

impl Server {
    /// A server that keeps everything in memory, with further arguments.
    pub(crate) fn in_memory(arguments: &[&str]) -> Self {
        Self::launch(&[&["serve", "--in-memory", "--silent"], FREE_PORTS].concat(), arguments)
    }

    /// A server that keeps its data in `directory`.
    pub(crate) fn on_disk(directory: &Path) -> Self {
        Self::on_disk_with(directory, &[])
    }

    /// The same, with further arguments.
    pub(crate) fn on_disk_with(directory: &Path, arguments: &[&str]) -> Self {
        let at = ["--data-dir", directory.to_str().unwrap()];
        Self::launch(&[&["serve", "--silent"], FREE_PORTS].concat(), &[&at, arguments].concat())
    }

    /// Starts a server on the data in `directory` and kills it after so long, ready or not.
    pub(crate) fn kill_while_starting(directory: &Path, after: Duration) {
        let at = ["--data-dir", directory.to_str().unwrap()];
        let mut command = tepui(&[&["serve", "--silent"], FREE_PORTS, &at].concat(), directory);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().unwrap();
        std::thread::sleep(after.saturating_sub(begun.elapsed()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn launch(base: &[&str], more: &[&str]) -> Self {
        Self::run(tepui(&[base, more].concat(), Path::new("")))
    }

    /// Starts `command`, which is to serve, and waits until it does.
    pub(crate) fn run(mut command: Command) -> Self {
        let files = TempDir::new().unwrap();
        let ports = files.path().join("ports.json");
        command.arg("--ports-file").arg(&ports);
        command.stdout(File::create(files.path().join("out")).unwrap());
        command.stderr(File::create(files.path().join("log")).unwrap());
        let begun = Instant::now();
        let mut server = Self {
            child: command.spawn().unwrap(),
            port: 0,
            queue_port: 0,
            blob_port: 0,
            admin_port: 0,
            admin_token: String::new(),
            ready_after: Duration::ZERO,
            files,
        };
        while !ports.exists() {
            assert_eq!(server.child.try_wait().unwrap(), None, "it ended at once: {}", server.log());
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not ready: {}", server.log());
            std::thread::sleep(Duration::from_millis(1));
        }
        server.ready_after = begun.elapsed();
        let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(&ports).unwrap()).unwrap();
        assert_eq!(ports["pid"], server.child.id());
        let port = |service: &str| ports[service]["port"].as_u64().unwrap_or_default().try_into().unwrap();
        (server.port, server.queue_port, server.blob_port) = (port("table"), port("queue"), port("blob"));
        server.admin_port = port("admin");
        server.admin_token = ports["admin"]["token"].as_str().unwrap_or_default().to_owned();
        server
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.port).unwrap()
    }

    pub(crate) fn blobs(&self) -> Client {
        Client::connect(self.blob_port).unwrap()
    }

    /// Where it has said its ports.
    pub(crate) fn ports_file(&self) -> PathBuf {
        self.files.path().join("ports.json")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process that was started is still there.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has printed so far.
    pub(crate) fn out(&self) -> String {
        std::fs::read_to_string(self.files.path().join("out")).unwrap()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.files.path().join("log")).unwrap()
    }

    /// The most memory that it has had, in KiB.
    pub(crate) fn most_resident_kib(&self) -> u64 {
        self.status_kib("VmHWM:")
    }

    /// The memory that is its own and in use, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.status_kib("VmRSS:")
    }

    fn status_kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }

    /// Ends it as a power failure would: no time to do anything.
    pub(crate) fn kill(mut self) {
        self.kill_now();
    }

    /// The same; what it logged can be read afterwards.
    pub(crate) fn kill_now(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; also what it printed and what it logged.
    pub(crate) fn wait(mut self) -> (ExitStatus, String, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(1));
        };
        (status, self.out(), self.log())
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(self) -> (ExitStatus, String, String) {
        self.signal(Signal::TERM);
        self.wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of the server:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
