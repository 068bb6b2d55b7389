//! Memory and open files of the server process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory: three memtables of 48 MiB and half of that again for their order, 64 MiB of pending commits, some 100 MiB of
/// requests and answers of so few clients; the rest is for indexes, filters and the program itself.
const MOST_MEMORY_KIB: u64 = 512 * 1024;
/// Files: for each of some 30 connections a socket and a volume that is written, as many volumes and tables that are read as there are
/// on a small disk, journals, the lock, the log, what the runtime needs. Seen are 80; what is replaced and stays open shows here.
const MOST_FILES: u64 = 256;

#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    most_memory_kib: u64,
    most_files: u64,
}

impl ProcessStats {
    /// Samples until the server is killed.
    pub(crate) fn watch(&mut self, pid: u32, killed: &AtomicBool) {
        while !killed.load(Ordering::SeqCst) {
            self.sample(pid);
            std::thread::sleep(Duration::from_millis(250));
        }
    }

    pub(crate) fn sample(&mut self, pid: u32) {
        // The process may have ended.
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.map(|text| text.trim().trim_end_matches("kB").trim().parse().unwrap());
        self.most_memory_kib = self.most_memory_kib.max(most.unwrap_or(0));
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        self.most_files = self.most_files.max(files as u64);
    }

    pub(crate) fn check(&self) {
        assert!(self.most_memory_kib <= MOST_MEMORY_KIB, "too much memory: {self:?}");
        assert!(self.most_files <= MOST_FILES, "too many open files: {self:?}");
    }
}
