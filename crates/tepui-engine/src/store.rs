//! The one place that opens and writes the tree and its journal, and the seam where tests inject faults.

use crate::background::Background;
use crate::directory::Directory;
use crate::disk::DiskOptions;
use crate::journal::Journal;
use crate::tree::{CacheLimits, Expect, JournalEnd, Memtable, Sizes, Tree};
use crate::view::{Published, View};
use crate::{EngineError, Version, Write};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often free space is asked for.
const SPACE_INTERVAL: Duration = Duration::from_millis(200);

/// How many full memtables may wait to be written to tables. Writers wait for the rest.
const MAX_WAITING_MEMTABLES: usize = 2;

/// How many tables may wait to be merged. Writers wait for the rest.
const MAX_WAITING_TABLES: usize = 30;

/// A memtable is also full when this many segments of the journal are needed because of it.
const MAX_SEGMENTS: usize = 6;

/// How long nothing is written before a memtable that hides many rows of tables counts as full.
const REST: Duration = Duration::from_secs(10);

/// Why a batch was not written.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// It certainly left no trace, and the next one may be tried.
    Nothing(EngineError),
    /// It may be in the journal, in full or in part. Nothing can be written before [`Store::heal`].
    Maybe(EngineError),
}

/// What a commit is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Ordinary,
    /// It frees more than it takes, in the end.
    FreesSpace,
}

/// What the committer needs from below.
pub(crate) trait Store: Send {
    /// Writes all of it or nothing, and returns when it is safe from a crash.
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure>;

    /// The present state. Only right between two calls of `write`.
    fn view(&self, version: Version, catalogue_version: Version) -> View;

    /// Whether `published` keeps back what background work has replaced.
    fn is_stale(&self, published: &Published) -> bool;

    /// How long to rest after so many bytes, so that background work keeps up.
    fn rest(&self, bytes: usize) -> Duration;

    /// Whether there is space for a commit.
    fn check_space(&mut self, purpose: Purpose) -> Result<(), EngineError>;

    /// Called now and then while nobody writes.
    fn idle(&mut self);

    /// Whether background work goes on.
    fn check_alive(&self) -> Result<(), EngineError>;

    /// Why nothing can be written from the start.
    fn failed(&self) -> Option<EngineError>;

    /// After a write that may or may not be there: makes sure that it is not, and goes on without it.
    fn heal(&mut self) -> Result<(), EngineError>;

    /// Ends in good order.
    fn close(&mut self);
}

/// Who writes and merges tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    Own,
    /// Whoever calls the steps of [`Background`].
    None,
}

/// What ends with a segment of the journal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seals {
    Nothing,
    Memtable,
}

pub(crate) struct TreeStore {
    // Dropped first: it works on the tree.
    background: Background,
    tree: Arc<Tree>,
    /// What is written to. Only the committer puts another one in its place.
    memtable: Arc<Memtable>,
    journal: Journal,
    /// Of the last batch.
    number: u64,
    segment_bytes: u64,
    options: DiskOptions,
    /// Free bytes when they were last asked for. `None`: that is not known.
    free: Option<u64>,
    space_checked: Option<Instant>,
    /// The last batch when nobody wrote, and since when.
    idle_since: (u64, Instant),
    /// Why nothing can be written before [`Store::heal`].
    failed: Option<EngineError>,
    // Dropped last: it has the lock.
    directory: Directory,
}

impl TreeStore {
    pub(crate) fn open(options: DiskOptions, threads: Threads) -> Result<Self, EngineError> {
        let files = &options.files;
        let directory = Directory::open(files, &options.path)?;
        let sizes = Sizes {
            memtable_bytes: options.memtable_bytes,
            block_bytes: options.block_bytes as usize,
            free_bytes: low_reserve(&options),
            cache: CacheLimits { tables: options.max_open_tables, bytes: options.table_cache_bytes },
        };
        if directory.expect() == Expect::Nothing {
            check_size(&options)?;
        }
        let (tree, found) = Tree::open(files, &directory.rows(), sizes, directory.expect())?;
        let memtable = tree.memtable();
        let mut number = found.flushed;
        let segment_bytes = options.journal_bytes / 4;
        let expected = (directory.expect(), found.journal);
        let journal =
            Journal::read(files, &directory.journal(), segment_bytes, expected, found.flushed, |batch| {
                number = batch.number;
                memtable.insert(batch.number, batch.writes);
            })?;
        let tree = Arc::new(tree);
        let background = match threads {
            Threads::Own => Background::start(&tree, options.merge_threads)
                .map_err(|error| EngineError::Failed(format!("cannot start background work: {error}")))?,
            Threads::None => Background::stepped(&tree),
        };
        let mut store = Self {
            background,
            tree,
            memtable,
            journal,
            number,
            segment_bytes,
            options,
            free: None,
            space_checked: None,
            idle_since: (number, Instant::now()),
            failed: None,
            directory,
        };
        match store.begin_segment(Seals::Nothing) {
            Ok(()) => store.directory.set_complete()?,
            // What is there can be read, and then deleted.
            Err(error @ EngineError::NoSpace(_)) if store.directory.expect() == Expect::Everything => {
                store.failed = Some(error);
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    pub(crate) fn background(&self) -> &Background {
        &self.background
    }

    /// Sees to it that there is room in the memtable and in the journal.
    fn make_room(&mut self) -> Result<(), EngineError> {
        let progress = self.background.progress();
        self.journal.release(progress.flushed_segment);
        let is_full = self.memtable.bytes() >= self.options.memtable_bytes
            || self.journal.bytes() >= self.segment_bytes
            || progress.waiting_memtables == 0 && self.journal.segments() > MAX_SEGMENTS;
        if is_full {
            self.background.wait_for_room(MAX_WAITING_MEMTABLES, MAX_WAITING_TABLES)?;
            self.begin_segment(Seals::Memtable)?;
        }
        Ok(())
    }

    /// Begins a new segment of the journal. With a new memtable, hands on the full one.
    fn begin_segment(&mut self, seals: Seals) -> Result<(), EngineError> {
        let full = self.journal.segment();
        let begun = self
            .journal
            .begin()
            .map_err(|error| io_error(&error, &format!("cannot begin a journal: {error}")))?;
        let end = JournalEnd { segment: begun.segment(), groups: None };
        if let Err(error) = self.tree.record_journal(end) {
            self.journal.abandon(begun, &error);
            return Err(error.into());
        }
        self.journal.go_on(begun);
        if seals == Seals::Memtable {
            self.memtable = self.tree.seal();
            self.background.flush(full);
        }
        Ok(())
    }
}

/// Below this, nothing is written but what frees space at once.
fn low_reserve(options: &DiskOptions) -> u64 {
    options.free_space_reserve_bytes / 4
}

/// Refuses to begin on a disk that has no room for anything.
fn check_size(options: &DiskOptions) -> Result<(), EngineError> {
    let reserve = options.free_space_reserve_bytes;
    match options.files.free_space(&options.path) {
        Ok(free) if free < reserve => Err(EngineError::NoSpace(format!(
            "the disk is too small for a new data directory: {free} bytes are free, {reserve} are kept in reserve: {}",
            options.path.display()
        ))),
        _ => Ok(()),
    }
}

impl Store for TreeStore {
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        self.make_room().map_err(WriteFailure::Nothing)?;
        let number = self.number + 1;
        let written = self.journal.write(number, &batch);
        written.map_err(|error| WriteFailure::Maybe(io_error(&error, &error.to_string())))?;
        self.memtable.insert(number, batch);
        self.number = number;
        Ok(())
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let sources = self.tree.sources();
        View { tree: Arc::clone(&self.tree), sources, number: self.number, version, catalogue_version }
    }

    fn is_stale(&self, published: &Published) -> bool {
        published.get().is_ok_and(|view| !Arc::ptr_eq(&view.sources, &self.tree.sources()))
    }

    fn rest(&self, bytes: usize) -> Duration {
        rest(self.background.progress().waiting_tables, bytes)
    }

    fn check_space(&mut self, purpose: Purpose) -> Result<(), EngineError> {
        if self.space_checked.is_none_or(|checked| checked.elapsed() >= SPACE_INTERVAL) {
            let asked = self.options.files.free_space(self.directory.path());
            // Not knowing is no reason to refuse: a full disk still shows when it is written to.
            self.free = asked.map_err(|error| tracing::warn!(%error, "cannot ask for free disk space")).ok();
            self.space_checked = Some(Instant::now());
        }
        let reserve = match purpose {
            Purpose::Ordinary => self.options.free_space_reserve_bytes,
            Purpose::FreesSpace => low_reserve(&self.options),
        };
        match self.free {
            Some(free) if free < reserve => Err(EngineError::NoSpace(format!(
                "the disk is nearly full: {free} bytes are free, {reserve} are kept in reserve: delete something, or give it \
                 more space"
            ))),
            _ => Ok(()),
        }
    }

    fn idle(&mut self) {
        let (number, since) = self.idle_since;
        if number != self.number {
            self.idle_since = (self.number, Instant::now());
        } else if since.elapsed() >= REST && self.tree.memtable_hides_much() {
            self.idle_since.1 = Instant::now();
            if let Err(error) = self.begin_segment(Seals::Memtable) {
                tracing::warn!(%error, "cannot give back the space of rows that were deleted yet");
            }
        }
    }

    fn check_alive(&self) -> Result<(), EngineError> {
        let progress = self.background.progress();
        let backlog = progress.waiting_memtables >= MAX_WAITING_MEMTABLES;
        match (progress.ended, progress.failing) {
            (Some(error), _) => Err(error),
            (None, Some(error)) if backlog => Err(not_moved(&error)),
            _ => Ok(()),
        }
    }

    fn failed(&self) -> Option<EngineError> {
        self.failed.clone()
    }

    fn heal(&mut self) -> Result<(), EngineError> {
        self.begin_segment(Seals::Nothing)?;
        self.failed = None;
        Ok(())
    }

    fn close(&mut self) {
        self.background.stop();
        // The next start knows how far the journal goes. Without this it only cannot tell a lost end from a crash.
        let closed = self.journal.end().map_or(Ok(()), |end| self.tree.record_journal(end));
        if let Err(error) = closed {
            let error = EngineError::from(error);
            tracing::warn!(%error, "cannot say that the store was closed in good order");
        }
    }
}

/// Writers wait for a memtable that cannot be written to a table: try again later.
pub(crate) fn not_moved(why: &EngineError) -> EngineError {
    let message = format!("what was written cannot be moved to tables: {why}");
    match why {
        EngineError::NoSpace(_) => EngineError::NoSpace(message),
        _ => EngineError::Unavailable(message),
    }
}

/// The more tables wait to be merged, the more of them every read has to look at. Slowing writers down
/// a little at first spreads over all commits what would otherwise be a halt.
fn rest(waiting_tables: usize, bytes: usize) -> Duration {
    const FREE: usize = 12;
    const HALT: usize = MAX_WAITING_TABLES;
    /// The rate half way from the first number to the second.
    const BYTES_PER_SECOND: f64 = 40e6;
    if waiting_tables <= FREE {
        return Duration::ZERO;
    }
    let left = HALT.saturating_sub(waiting_tables).max(1) as f64 / (HALT - FREE) as f64;
    let seconds = bytes as f64 / BYTES_PER_SECOND * (1.0 - left) / left;
    Duration::from_secs_f64(seconds).min(Duration::from_millis(500))
}

pub(crate) fn io_error(error: &std::io::Error, message: &str) -> EngineError {
    let message = message.to_owned();
    match error.kind() {
        // A file that is missing, too short or not what it should be.
        ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => {
            EngineError::Corrupt(message)
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => EngineError::NoSpace(message),
        _ => EngineError::Failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_with_what_waits() {
        assert_eq!(rest(12, 1 << 20), Duration::ZERO);
        let rests: Vec<Duration> = (12..40).map(|waiting| rest(waiting, 100_000)).collect();
        assert!(rests.is_sorted());
        assert!(rest(40, 64 << 20) <= Duration::from_millis(500));
    }
}
