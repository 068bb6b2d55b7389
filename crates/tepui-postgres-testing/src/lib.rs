//! For tests: a PostgreSQL server of their own, from the packages of the distribution.
//!
//! It listens on a free port of the loopback interface, keeps its data in a temporary directory, and is stopped and removed when
//! it is dropped or when the process of the tests ends, however it ends. PostgreSQL does not run as root: if the tests do, the
//! server runs as another user.

mod binaries;

pub use binaries::{BINARIES_VARIABLE, SKIP_VARIABLE, binaries, is_skipped};

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Somebody else may take a port after it was found to be free.
const START_ATTEMPTS: usize = 10;

/// A server.
pub struct PostgresServer {
    binaries: PathBuf,
    account: Option<Account>,
    // Dropped after the processes.
    directory: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
    running: Option<Running>,
    schemas: AtomicUsize,
}

/// The processes of a server.
struct Running {
    server: Child,
    /// Kills the server when its standard input is closed, which the end of this process does, too.
    watchdog: Child,
    watchdog_input: Option<ChildStdin>,
}

/// The user that the server runs as.
#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl PostgresServer {
    /// A server that forgets what it has in a power failure, which makes it fast.
    pub fn start() -> Self {
        Self::with(&[("fsync", "off"), ("full_page_writes", "off")])
    }

    /// A server with other settings.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let directory =
            tempfile::Builder::new().prefix("tepui-pg").tempdir().expect("there is space for a directory");
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut server = Self {
            binaries: binaries(),
            account: Account::other_than_root(),
            directory,
            port: 0,
            settings,
            running: None,
            schemas: AtomicUsize::new(0),
        };
        server.initialize();
        server.restart();
        server
    }

    /// One server for all tests of this process. It ends with the process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The URL of a schema that nobody else has.
    pub fn new_schema(&self) -> String {
        let name = format!("s{}", self.schemas.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE SCHEMA {name}"));
        format!("{}?options=-csearch_path%3D{name}", self.url())
    }

    /// Runs SQL and returns what it prints.
    pub fn sql(&self, sql: &str) -> String {
        let port = self.port.to_string();
        let run = Command::new(self.binaries.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port])
            .args(["-U", "postgres", "-d", "postgres", "-c", sql])
            .stdin(Stdio::null())
            .output()
            .expect("psql runs");
        assert!(run.status.success(), "{sql}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    }

    /// Stops all of its processes where they are.
    pub fn pause(&self) {
        self.signal_all(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Kills it, as a crash of the machine does.
    pub fn kill(&mut self) {
        self.signal_all(Signal::KILL);
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
        }
    }

    /// Starts it again on the same data and, if it had one, on the same port.
    pub fn restart(&mut self) {
        self.stop();
        let known = self.port;
        for _ in 0..START_ATTEMPTS {
            if known == 0 {
                self.port = free_port();
            }
            self.running = Some(self.spawn());
            if self.wait_until_ready() {
                return;
            }
            self.stop();
            // After it was killed, some of its processes may still be about to end.
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("PostgreSQL does not start: {}", self.log());
    }

    /// What the server has said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn initialize(&self) {
        let path = self.directory.path();
        if let Some(Account { uid, gid }) = self.account {
            chown(path, Some(uid), Some(gid)).expect("root gives a directory away");
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let run = self
            .command("initdb")
            .args([
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--pgdata",
            ])
            .arg(self.data())
            .stdin(Stdio::null())
            .output()
            .expect("initdb runs");
        assert!(run.status.success(), "initdb: {}", String::from_utf8_lossy(&run.stderr));
    }

    /// A program of PostgreSQL, as the user that it runs as.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        if let Some(Account { uid, gid }) = self.account {
            command.uid(uid).gid(gid);
        }
        command.current_dir(self.directory.path()).env("LC_ALL", "C").env_remove("PGDATA");
        command
    }

    fn spawn(&self) -> Running {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join("log"));
        let log = log.expect("the directory is ours");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.directory.path());
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        let defaults =
            [("max_connections", "400"), ("shared_buffers", "64MB"), ("log_min_messages", "warning")];
        let own = self.settings.iter().map(|(name, value)| (&name[..], &value[..]));
        for (name, value) in defaults.into_iter().chain(own) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let errors = log.try_clone().expect("a file can be shared");
        let server = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().expect("postgres runs");
        let script = "read -r _; kill -CONT $1; kill -QUIT $1; \
                      [ -z \"$2\" ] || { while kill -0 $1; do sleep 0.1; done; rm -rf \"$2\"; }";
        let mut watchdog = Command::new("sh")
            .args(["-c", script, "sh", &server.id().to_string()])
            .arg(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the tests by a signal to all of their processes must not end it.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        let watchdog_input = watchdog.stdin.take();
        Running { server, watchdog, watchdog_input }
    }

    /// Whether it accepts connections. If not it has ended.
    fn wait_until_ready(&mut self) -> bool {
        let began = Instant::now();
        let status = self.data().join("postmaster.pid");
        let Some(running) = &mut self.running else { return false };
        let pid = running.server.id().to_string();
        while began.elapsed() < START_LIMIT {
            if !matches!(running.server.try_wait(), Ok(None)) {
                return false;
            }
            let text = fs::read_to_string(&status).unwrap_or_default();
            let is_ours = text.lines().next() == Some(&pid[..]);
            if is_ours && text.lines().nth(7).is_some_and(|line| line.trim() == "ready") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    fn signal_all(&self, signal: Signal) {
        let Some(running) = &self.running else { return };
        let server = running.server.id();
        // The server first, so that it starts no more of them.
        for pid in std::iter::once(server).chain(children(server)) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, signal);
            }
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.resume();
        self.stop();
    }
}

impl Running {
    /// Ends both processes and waits for them.
    fn stop(mut self) {
        // The watchdog would remove the data: it is told not to.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        drop(self.watchdog_input.take());
        if let Some(pid) = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let _ = self.server.wait();
    }
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.expect("a port is free").port()
}

impl Account {
    /// `None`: the tests do not run as root.
    fn other_than_root() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").expect("there are users");
        let found = ["postgres", "nobody"].iter().find_map(|name| Self::find(&users, name));
        Some(found.expect("PostgreSQL does not run as root, and there is neither a user postgres nor nobody"))
    }

    fn find(users: &str, name: &str) -> Option<Self> {
        let fields: Vec<&str> = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields.first() == Some(&name))?;
        Some(Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    }
}

/// Whether a program can be run.
fn is_program(path: &Path) -> bool {
    let mode = |metadata: fs::Metadata| metadata.permissions().mode();
    let found: io::Result<u32> = fs::metadata(path).map(mode);
    found.is_ok_and(|mode| mode & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_restarts_and_goes_without_a_trace() {
        if is_skipped() {
            return;
        }
        let mut server = PostgresServer::start();
        let directory = server.directory.path().to_owned();
        assert_eq!(server.sql("SELECT 1 + 1"), "2");
        assert_ne!(server.new_schema(), server.new_schema());
        server.sql("CREATE TABLE kept (n int)");
        let port = server.port();
        server.restart();
        assert_eq!((server.port(), &server.sql("SELECT count(*) FROM kept")[..]), (port, "0"));
        server.pause();
        server.resume();
        let id = server.running.as_ref().map(|running| running.server.id()).expect("it runs");
        drop(server);
        assert!(!directory.exists() && parent_of(id).is_none());
    }

    #[test]
    fn a_server_ends_with_the_watchdog_s_input() {
        if is_skipped() {
            return;
        }
        let mut server = PostgresServer::start();
        server.pause();
        let directory = server.directory.path().to_owned();
        let mut running = server.running.take().expect("it runs");
        drop(running.watchdog_input.take());
        assert!(running.server.wait().is_ok() && running.watchdog.wait().is_ok());
        assert!(!directory.exists());
    }
}
