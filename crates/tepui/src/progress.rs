//! How far a long command is, on standard error if that is a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(200);

pub(crate) struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        Self { what, total, done: 0, shown: None, is_terminal: io::stderr().is_terminal() }
    }

    /// So many bytes more were done.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() >= INTERVAL) {
            self.shown = Some(Instant::now());
            let percent = self.done.min(self.total).saturating_mul(100).checked_div(self.total);
            let percent = percent.map_or(String::new(), |percent| format!(" ({percent} %)"));
            let _ = write!(io::stderr(), "\r\x1b[K{}: {} MiB{percent}", self.what, self.done >> 20);
        }
    }

    pub(crate) fn done(&self) -> u64 {
        self.done
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
