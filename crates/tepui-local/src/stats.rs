//! What the engine and the extents count of themselves: atomics in the code that works, and numbers for whoever asks.

use std::time::Duration;
use tepui_storage::stats::{CommitOutcomes, Counter, Gauge, Histogram, HistogramSnapshot};

/// What the threads of one engine count.
#[derive(Debug)]
pub(crate) struct EngineCounters {
    pub(crate) commits: CommitOutcomes,
    pub(crate) group_size: Histogram,
    /// From the call to the begin of the group.
    pub(crate) commit_wait: Histogram,
    /// Writing a group to the write-ahead log and syncing it.
    pub(crate) sync: Histogram,
    pub(crate) stalls: Delays,
    pub(crate) slowdowns: Delays,
    pub(crate) wal_bytes: Gauge,
    pub(crate) compaction_read_bytes: Counter,
    pub(crate) compaction_written_bytes: Counter,
    pub(crate) corrupt_reads: Counter,
}

impl Default for EngineCounters {
    fn default() -> Self {
        Self {
            commits: CommitOutcomes::default(),
            group_size: Histogram::of_counts(),
            commit_wait: Histogram::of_latencies(),
            sync: Histogram::of_latencies(),
            stalls: Delays::default(),
            slowdowns: Delays::default(),
            wal_bytes: Gauge::default(),
            compaction_read_bytes: Counter::default(),
            compaction_written_bytes: Counter::default(),
            corrupt_reads: Counter::default(),
        }
    }
}

/// How often writes were delayed, and for how long.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    count: Counter,
    nanoseconds: Counter,
}

impl Delays {
    pub(crate) fn add(&self, time: Duration) {
        self.count.add(1);
        self.nanoseconds.add_time(time);
    }

    pub(crate) fn snapshot(&self) -> DelayStats {
        DelayStats { count: self.count.get(), time: Duration::from_nanos(self.nanoseconds.get()) }
    }
}

/// What the volumes of extents count.
#[derive(Debug)]
pub(crate) struct ExtentCounters {
    pub(crate) sync: Histogram,
}

impl Default for ExtentCounters {
    fn default() -> Self {
        Self { sync: Histogram::of_latencies() }
    }
}

/// Delays of writes since the engine was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayStats {
    pub count: u64,
    pub time: Duration,
}

/// The figures of a [`DiskEngine`](crate::DiskEngine). Counts are since it was opened, times in nanoseconds.
#[derive(Debug, Clone)]
pub struct EngineStats {
    pub commits_ok: u64,
    pub commits_conflict: u64,
    pub commits_unknown: u64,
    pub commits_failed: u64,
    pub group_size: HistogramSnapshot,
    /// How many commits wait now.
    pub queue_length: u64,
    /// From the call to the begin of the group.
    pub commit_wait: HistogramSnapshot,
    /// Writing a group to the write-ahead log and syncing it.
    pub sync: HistogramSnapshot,
    /// Writes that waited for flushes or compactions.
    pub stalls: DelayStats,
    /// Pauses after groups, so that compactions keep up.
    pub slowdowns: DelayStats,
    pub wal_bytes: u64,
    pub table_bytes: u64,
    pub memtable_bytes: u64,
    pub compaction_read_bytes: u64,
    pub compaction_written_bytes: u64,
    /// Of tables that were replaced, and whose files are removed once no reader holds them.
    pub obsolete_bytes: u64,
    /// Reads that met bytes that are not what was written.
    pub corrupt_reads: u64,
    /// Ranges of keys that a compaction could not read, so that their rows are lost.
    pub lost_ranges: u64,
}

/// The figures of a [`DiskExtents`](crate::DiskExtents).
#[derive(Debug, Clone)]
pub struct ExtentStats {
    /// What volumes take on the disk.
    pub bytes: u64,
    /// What was freed inside of volumes, and given back to the file system.
    pub free_bytes: u64,
    /// Syncs of extents, in nanoseconds.
    pub sync: HistogramSnapshot,
}

/// The disk that holds a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// What is left for this process.
    pub free_bytes: u64,
    pub total_bytes: u64,
}
