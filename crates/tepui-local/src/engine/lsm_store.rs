//! Opens and writes the LSM tree and its write-ahead log. The trait is the seam where tests inject faults.

use crate::directory::DataDirectory;
use crate::engine::EngineOptions;
use crate::engine::background::Background;
use crate::engine::published_view::{PublishedView, SnapshotView};
use crate::engine::resident_rows::ResidentRows;
use crate::io_error::io_error;
use crate::lsm::{DirectoryState, LsmTree, Memtable, SeqNo, Sizes, TableCacheLimits, WalPosition};
use crate::upgrade;
use crate::wal::Wal;
use std::sync::Arc;
use std::time::Duration;
use tepui_storage::versions::Version;
use tepui_storage::{StorageError, StorageErrorKind, Write};
use tokio::time::Instant;

/// How often the free space of the disk is asked for.
const SPACE_INTERVAL: Duration = Duration::from_millis(200);

/// Writes stall at this many sealed memtables.
const MAX_SEALED_MEMTABLES: usize = 2;

/// Writes stall at this many tables in level 0.
const MAX_L0_TABLES: usize = 30;

/// A memtable is also flushed when it holds back more segments of the log than this.
const MAX_WAL_SEGMENTS: usize = 6;

/// How long nothing is written before a memtable that shadows many rows is flushed.
const IDLE_FLUSH_AFTER: Duration = Duration::from_secs(10);

/// Why a batch was not written.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// It left no trace, and the next one may be tried.
    NotWritten(StorageError),
    /// It may be in the log, in full or in part. Nothing can be written before [`BatchStore::recover`].
    Unknown(StorageError),
}

/// What a commit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Ordinary,
    /// It frees more than it takes, in the end.
    FreesSpace,
}

/// What the committer needs from below.
pub(crate) trait BatchStore: Send {
    /// Writes all of it or nothing. Durable when this returns.
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure>;

    /// The current state. Valid only between two calls of `write`.
    fn view(&self, version: Version, resident: Arc<ResidentRows>) -> SnapshotView;

    /// Whether `published` holds memtables or tables that were replaced.
    fn is_stale(&self, published: &PublishedView) -> bool;

    /// How long to delay writes after so many bytes, so that compactions keep up.
    fn write_throttle(&self, bytes: usize) -> Duration;

    /// Whether there is space for a commit.
    fn check_space(&mut self, purpose: Purpose) -> Result<(), StorageError>;

    /// Called regularly while nothing is written.
    fn on_idle(&mut self);

    /// Whether flushes and compactions work.
    fn check_background(&self) -> Result<(), StorageError>;

    /// Why nothing could be written since the store was opened.
    fn failure(&self) -> Option<StorageError>;

    /// After a write with an unknown outcome: makes sure that it is discarded, and continues without it.
    fn recover(&mut self) -> Result<(), StorageError>;

    /// Shuts down cleanly.
    fn close(&mut self);
}

/// Which threads flush and compact.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    Spawned,
    /// The caller of the steps of [`Background`].
    Stepped,
}

/// What happens to the active memtable when a log segment ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memtables {
    Keep,
    Seal,
}

pub(crate) struct LsmStore {
    // Dropped first: its threads use the tree.
    background: Background,
    tree: Arc<LsmTree>,
    /// The active memtable. Only the committer replaces it.
    memtable: Arc<Memtable>,
    wal: Wal,
    /// The last batch.
    seq_no: SeqNo,
    segment_bytes: u64,
    options: EngineOptions,
    /// Free bytes when last asked for. `None`: unknown.
    free: Option<u64>,
    space_checked: Option<Instant>,
    /// The last batch when the store became idle, and when that was.
    idle_since: (SeqNo, Instant),
    /// Why nothing can be written before [`BatchStore::recover`].
    failed: Option<StorageError>,
    // Dropped last: it holds the lock.
    directory: DataDirectory,
}

impl LsmStore {
    pub(crate) fn open(options: EngineOptions, threads: Threads) -> Result<Self, StorageError> {
        let files = &options.files;
        let mut directory = DataDirectory::open(files, &options.path)?;
        let sizes = Sizes {
            memtable_bytes: options.memtable_bytes,
            block_bytes: options.block_bytes as usize,
            free_bytes: low_reserve(&options),
            cache: TableCacheLimits { tables: options.max_open_tables, bytes: options.table_cache_bytes },
        };
        if directory.state() == DirectoryState::New {
            check_initial_space(&options)?;
        }
        if directory.needs_upgrade() {
            upgrade::from_format_3(files, &directory, sizes)?;
            directory.set_complete()?;
            upgrade::remove_format_3(&**files, &directory);
        }
        let (tree, found) = LsmTree::open(files, &directory.rows(), sizes, directory.state())?;
        let memtable = tree.memtable();
        let mut seq_no = found.flushed;
        let segment_bytes = options.wal_bytes / 4;
        let expected = (directory.state(), found.wal);
        let wal = Wal::read(files, &directory.wal(), segment_bytes, expected, found.flushed, |batch| {
            seq_no = batch.seq_no;
            memtable.insert(batch.seq_no, batch.writes);
        })?;
        let tree = Arc::new(tree);
        let background = match threads {
            Threads::Spawned => Background::start(&tree, options.compaction_threads)
                .map_err(|error| StorageError::failed(format!("cannot start background threads: {error}")))?,
            Threads::Stepped => Background::stepped(&tree),
        };
        let mut store = Self {
            background,
            tree,
            memtable,
            wal,
            seq_no,
            segment_bytes,
            options,
            free: None,
            space_checked: None,
            idle_since: (seq_no, Instant::now()),
            failed: None,
            directory,
        };
        match store.start_segment(Memtables::Keep) {
            Ok(()) => store.directory.set_complete()?,
            // Rows can still be read and deleted.
            Err(error)
                if error.kind() == StorageErrorKind::NoSpace
                    && store.directory.state() == DirectoryState::Existing =>
            {
                store.failed = Some(error);
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    /// Seals the memtable if it or the log segment is full; stalls the write if too many flushes or compactions are due.
    fn make_room_for_write(&mut self) -> Result<(), StorageError> {
        let progress = self.background.progress();
        self.wal.release(progress.flushed_segment);
        let is_full = self.memtable.bytes() >= self.options.memtable_bytes
            || self.wal.bytes() >= self.segment_bytes
            || progress.sealed_memtables == 0 && self.wal.segments() > MAX_WAL_SEGMENTS;
        if is_full {
            self.background.wait_out_write_stall(MAX_SEALED_MEMTABLES, MAX_L0_TABLES)?;
            self.start_segment(Memtables::Seal)?;
        }
        Ok(())
    }

    /// Starts a new segment of the log. A sealed memtable is handed to the flush thread.
    fn start_segment(&mut self, memtables: Memtables) -> Result<(), StorageError> {
        let sealed = self.wal.segment();
        let created = self
            .wal
            .create_segment()
            .map_err(|error| io_error(&error, "cannot start a segment of the write-ahead log"))?;
        let end = WalPosition { segment: created.segment(), groups: None };
        if let Err(error) = self.tree.record_wal(end) {
            self.wal.abandon(created, &error);
            return Err(error.into());
        }
        self.wal.switch_to(created);
        self.tree.counters().wal_bytes.set(self.wal.disk_bytes());
        if memtables == Memtables::Seal {
            self.memtable = self.tree.seal();
            self.background.flush(sealed);
        }
        Ok(())
    }
}

/// The reserve that only writes which free space may use.
fn low_reserve(options: &EngineOptions) -> u64 {
    options.free_space_reserve_bytes / 4
}

/// Refuses to create a data directory on a disk that is too small.
fn check_initial_space(options: &EngineOptions) -> Result<(), StorageError> {
    let reserve = options.free_space_reserve_bytes;
    match options.files.free_space(&options.path) {
        Ok(free) if free < reserve => Err(StorageError::no_space(format!(
            "the disk is too small for a new data directory: {free} bytes are free, {reserve} are kept in reserve: {}",
            options.path.display()
        ))),
        _ => Ok(()),
    }
}

impl BatchStore for LsmStore {
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        self.make_room_for_write().map_err(WriteFailure::NotWritten)?;
        let seq_no = self.seq_no + 1;
        let began = Instant::now();
        let written = self.wal.write(seq_no, &batch);
        written.map_err(|error| {
            WriteFailure::Unknown(io_error(&error, "cannot write to the write-ahead log"))
        })?;
        let counters = self.tree.counters();
        counters.sync.observe_time(began.elapsed());
        counters.wal_bytes.set(self.wal.disk_bytes());
        self.memtable.insert(seq_no, batch);
        self.seq_no = seq_no;
        Ok(())
    }

    fn view(&self, version: Version, resident: Arc<ResidentRows>) -> SnapshotView {
        let read_view = self.tree.read_view();
        SnapshotView { tree: Arc::clone(&self.tree), read_view, seq_no: self.seq_no, version, resident }
    }

    fn is_stale(&self, published: &PublishedView) -> bool {
        published.get().is_ok_and(|view| !Arc::ptr_eq(&view.read_view, &self.tree.read_view()))
    }

    fn write_throttle(&self, bytes: usize) -> Duration {
        write_throttle(self.background.progress().l0_tables, bytes)
    }

    fn check_space(&mut self, purpose: Purpose) -> Result<(), StorageError> {
        if self.space_checked.is_none_or(|checked| checked.elapsed() >= SPACE_INTERVAL) {
            let asked = self.options.files.free_space(self.directory.path());
            // If unknown, writes go on: a full disk still fails them.
            self.free = asked.map_err(|error| tracing::warn!(%error, "cannot ask for free disk space")).ok();
            self.space_checked = Some(Instant::now());
        }
        let reserve = match purpose {
            Purpose::Ordinary => self.options.free_space_reserve_bytes,
            Purpose::FreesSpace => low_reserve(&self.options),
        };
        match self.free {
            Some(free) if free < reserve => Err(StorageError::no_space(format!(
                "the disk is nearly full: {free} bytes are free, {reserve} are kept in reserve: delete something, or give it \
                 more space"
            ))),
            _ => Ok(()),
        }
    }

    fn on_idle(&mut self) {
        let (seq_no, since) = self.idle_since;
        if seq_no != self.seq_no {
            self.idle_since = (self.seq_no, Instant::now());
        } else if since.elapsed() >= IDLE_FLUSH_AFTER && self.tree.memtable_shadows_much() {
            self.idle_since.1 = Instant::now();
            if let Err(error) = self.start_segment(Memtables::Seal) {
                tracing::warn!(%error, "cannot flush tombstones that would free space yet");
            }
        }
    }

    fn check_background(&self) -> Result<(), StorageError> {
        let progress = self.background.progress();
        let backlog = progress.sealed_memtables >= MAX_SEALED_MEMTABLES;
        match (progress.panicked, progress.flush_error) {
            (Some(error), _) => Err(error),
            (None, Some(error)) if backlog => Err(flush_blocked(&error)),
            _ => Ok(()),
        }
    }

    fn failure(&self) -> Option<StorageError> {
        self.failed.clone()
    }

    fn recover(&mut self) -> Result<(), StorageError> {
        self.start_segment(Memtables::Keep)?;
        self.failed = None;
        Ok(())
    }

    fn close(&mut self) {
        self.background.stop();
        // So that the next start knows how far the log goes. Without it, a lost end looks like a crash.
        let closed = self.wal.end().map_or(Ok(()), |end| self.tree.record_wal(end));
        if let Err(error) = closed {
            let error = StorageError::from(error);
            tracing::warn!(%error, "cannot record the clean shutdown");
        }
    }
}

/// Writes stall because a flush fails: try again later.
pub(crate) fn flush_blocked(why: &StorageError) -> StorageError {
    let message = format!("memtables cannot be flushed: {why}");
    match why.kind() {
        StorageErrorKind::NoSpace => StorageError::no_space(message),
        _ => StorageError::unavailable(message),
    }
}

/// How long to delay writes of so many bytes. Every read visits all tables of level 0. Slowing writes down gradually spreads
/// over many commits what would otherwise be a write stall.
fn write_throttle(l0_tables: usize, bytes: usize) -> Duration {
    const SLOWDOWN_TRIGGER: usize = 12;
    const STOP_TRIGGER: usize = MAX_L0_TABLES;
    /// The rate half way between the two triggers.
    const BYTES_PER_SECOND: f64 = 40e6;
    if l0_tables <= SLOWDOWN_TRIGGER {
        return Duration::ZERO;
    }
    let left =
        STOP_TRIGGER.saturating_sub(l0_tables).max(1) as f64 / (STOP_TRIGGER - SLOWDOWN_TRIGGER) as f64;
    let seconds = bytes as f64 / BYTES_PER_SECOND * (1.0 - left) / left;
    Duration::from_secs_f64(seconds).min(Duration::from_millis(500))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throttle_grows_with_level_0() {
        assert_eq!(write_throttle(12, 1 << 20), Duration::ZERO);
        let delays: Vec<Duration> = (12..40).map(|tables| write_throttle(tables, 100_000)).collect();
        assert!(delays.is_sorted());
        assert!(write_throttle(40, 64 << 20) <= Duration::from_millis(500));
    }
}
