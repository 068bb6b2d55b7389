//! A server that runs until the test ends, however it ends.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts the program, writes down its process id, and ends it when its input ends: when this process does.
const GUARDIAN: &str = r#"pid_file=$1; shift; "$@" </dev/null & echo $! >"$pid_file.new"; mv "$pid_file.new" "$pid_file"; read -r _; kill -9 $! 2>/dev/null; wait"#;

/// Removes a directory when its input ends. Those who write there have ended a moment later.
const JANITOR: &str = r#"read -r _; sleep 1; rm -rf "$1""#;

/// A directory that is removed when the test ends, however it ends.
pub(crate) struct Directory {
    path: PathBuf,
    _janitor: Child,
}

impl Directory {
    pub(crate) fn new() -> Self {
        let made = tempfile::Builder::new().prefix("tepui-tikv-").tempdir();
        let path = made.expect("a directory can be made").keep();
        let mut janitor = Command::new("sh");
        janitor.args(["-c", JANITOR, "sh"]).arg(&path).stdin(Stdio::piped());
        Self { _janitor: janitor.spawn().expect("there is a shell"), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

pub(crate) struct Process {
    guardian: Child,
    pid: String,
    log: PathBuf,
}

impl Process {
    /// `log` is appended to.
    pub(crate) fn start(program: &Path, arguments: &[String], log: PathBuf) -> Self {
        let pid_file = log.with_extension("pid");
        let _ = std::fs::remove_file(&pid_file);
        let output = File::options().create(true).append(true).open(&log).expect("a log can be written");
        let errors = output.try_clone().expect("a file can be opened twice");
        let guardian = Command::new("sh")
            .args(["-c", GUARDIAN, "sh"])
            .arg(&pid_file)
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .expect("there is a shell");
        let pid =
            wait_for("the process id", Duration::from_secs(30), || std::fs::read_to_string(&pid_file).ok());
        Self { guardian, pid: pid.trim().to_owned(), log }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(&self.pid).status();
        assert!(sent.expect("there is kill").success(), "the process runs: {}", self.tail());
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Whether it has ended in a panic. Its log holds the runs before as well.
    pub(crate) fn has_panicked(&self) -> bool {
        self.log().lines().any(|line| line.starts_with("panic"))
    }

    pub(crate) fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(20)).map(|line| format!("{line}\n")).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be paused, which does not keep this signal from it.
        drop(self.guardian.stdin.take());
        let _ = self.guardian.wait();
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.local_addr().expect("it is bound").port()
}

/// Asks until there is an answer.
pub(crate) fn wait_for<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < limit, "{what} is not there after {limit:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
