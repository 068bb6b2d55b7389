//! The one place that opens and writes the tree and its journal, and the seam where tests inject faults.

use crate::background::{Background, MergeStop};
use crate::directory::Directory;
use crate::disk::DiskOptions;
use crate::journal::{self, Journal};
use crate::view::{NumbersInUse, Published, View};
use crate::{EngineError, Version, Write};
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy,
    RestartIntervalPolicy,
};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, Config, DescriptorTable, InternalValue, Memtable, SequenceNumberCounter,
    ValueType,
};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often free space is asked for.
const SPACE_INTERVAL: Duration = Duration::from_millis(200);

/// How many files of tables stay open.
const OPEN_FILES: usize = 512;

/// How many full memtables may wait to be written to tables. Writers wait for the rest.
const MAX_WAITING_MEMTABLES: usize = 2;

/// What a row takes in a memtable besides its key and value, about.
const ROW_OVERHEAD: u64 = 200;

/// A memtable is also full when this many segments of the journal are needed because of it.
const MAX_SEGMENTS: usize = 6;

/// Why a batch was not written.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// It certainly left no trace.
    Nothing(EngineError),
    /// It may be in the journal, in full or in part.
    Maybe(EngineError),
}

/// What the committer needs from below.
pub(crate) trait Store: Send {
    /// Writes all of it or nothing, and returns when it is safe from a crash.
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure>;

    /// The present state. Only right between two calls of `write`.
    fn view(&self, version: Version, catalogue_version: Version) -> View;

    /// Whether `published` keeps back what background work has replaced.
    fn is_stale(&self, published: &Published) -> bool;

    /// Starts to move what is in memory into tables.
    fn flush(&mut self);

    /// How long to rest after so many bytes, so that background work keeps up.
    fn rest(&self, bytes: usize) -> Duration;

    fn check_space(&mut self) -> Result<(), EngineError>;

    /// Whether the background work is alive.
    fn check_alive(&self) -> Result<(), EngineError>;

    /// Whether the disk takes a synced write, whatever the state of the store.
    fn check_writable(&self) -> Result<(), EngineError>;

    /// Closes what is open and reads from the disk again.
    fn reopen(&mut self) -> Result<(), EngineError>;

    fn close(&mut self);
}

pub(crate) struct TreeStore {
    options: DiskOptions,
    directory: Directory,
    open: Option<Opened>,
    space: Result<(), EngineError>,
    space_checked: Option<Instant>,
}

struct Opened {
    // Dropped first: it works on the tree.
    background: Background,
    tree: AnyTree,
    /// What is written to. Only the committer puts another one in its place.
    memtable: Arc<Memtable>,
    journal: Journal,
    numbers: SequenceNumberCounter,
    in_use: Arc<NumbersInUse>,
    memtable_bytes: u64,
    segment_bytes: u64,
}

impl TreeStore {
    pub(crate) fn open(options: DiskOptions) -> Result<Self, EngineError> {
        let directory = Directory::open(&options.path)?;
        let open = Opened::open(&options, &directory)?;
        Ok(Self { options, directory, open: Some(open), space: Ok(()), space_checked: None })
    }

    fn opened(&self) -> Result<&Opened, EngineError> {
        self.open.as_ref().ok_or_else(closed)
    }
}

fn closed() -> EngineError {
    EngineError::Unavailable("the store is closed".into())
}

impl Store for TreeStore {
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        let opened = self.open.as_mut().ok_or_else(|| WriteFailure::Nothing(closed()))?;
        let written = catch_unwind(AssertUnwindSafe(|| opened.write(batch)));
        written.unwrap_or_else(|panic| Err(WriteFailure::Maybe(panicked(&*panic))))
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let opened = self.open.as_ref().expect("a view is asked for only after a write or an opening");
        opened.view(version, catalogue_version)
    }

    fn is_stale(&self, published: &Published) -> bool {
        let Some(opened) = &self.open else { return false };
        let Ok(Some(view)) = published.try_get() else { return false };
        view.number.get() != opened.numbers.get()
    }

    fn flush(&mut self) {
        let Some(opened) = &mut self.open else { return };
        let sealed = catch_unwind(AssertUnwindSafe(|| opened.seal()));
        if let Ok(Err(error)) = sealed {
            tracing::warn!(%error, "cannot start to flush");
        }
    }

    fn rest(&self, bytes: usize) -> Duration {
        let Some(opened) = &self.open else { return Duration::ZERO };
        let progress = opened.background.progress();
        rest(progress.waiting_tables, bytes)
    }

    fn check_space(&mut self) -> Result<(), EngineError> {
        if self.space_checked.is_some_and(|checked| checked.elapsed() < SPACE_INTERVAL) {
            return self.space.clone();
        }
        let reserve = self.options.free_space_reserve_bytes;
        self.space = match (self.options.free_space)(self.directory.path()) {
            Ok(free) if free < reserve => Err(EngineError::Unavailable(format!(
                "the disk is nearly full: {free} bytes are free, {reserve} are kept in reserve"
            ))),
            Ok(_) => Ok(()),
            // Not knowing is no reason to refuse: a full disk still shows when it is written to.
            Err(error) => {
                tracing::warn!(%error, "cannot ask for free disk space");
                Ok(())
            }
        };
        self.space_checked = Some(Instant::now());
        self.space.clone()
    }

    fn check_alive(&self) -> Result<(), EngineError> {
        self.opened()?.background.progress().failed.map_or(Ok(()), Err)
    }

    fn check_writable(&self) -> Result<(), EngineError> {
        self.directory.check_writable()
    }

    fn reopen(&mut self) -> Result<(), EngineError> {
        self.close();
        // The kernel may have dropped pages that it could not write and show them as if they were
        // on disk. A fresh, synced copy is what it says it is.
        journal::rewrite_last(&self.directory.journal())?;
        self.space_checked = None;
        self.open = Some(Opened::open(&self.options, &self.directory)?);
        Ok(())
    }

    fn close(&mut self) {
        if let Some(opened) = self.open.take() {
            // Every batch was synced when it was written: there is nothing else to do.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(opened)));
        }
    }
}

impl Opened {
    fn open(options: &DiskOptions, directory: &Directory) -> Result<Self, EngineError> {
        let opened = catch_unwind(AssertUnwindSafe(|| Self::try_open(options, directory)));
        opened.unwrap_or_else(|panic| Err(at_path(panicked(&*panic), directory.rows().as_path())))
    }

    fn try_open(options: &DiskOptions, directory: &Directory) -> Result<Self, EngineError> {
        let rows = directory.rows();
        directory.check_rows()?;
        let numbers = SequenceNumberCounter::default();
        let stop = MergeStop::default();
        let tree = config(options, &rows, &numbers)
            .with_compaction_filter_factory(Some(Arc::new(stop.clone())))
            .open()
            .map_err(|error| at_path(storage_error(&error), &rows))?;
        // Numbers in tables were in the journal before, and memtables become tables in their order.
        let in_tables = tree.get_highest_persisted_seqno();
        let memtable = tree.active_memtable();
        let mut newest = in_tables.unwrap_or(0);
        let journal = Journal::open(&directory.journal(), |batch| {
            if in_tables.is_none_or(|in_tables| batch.number > in_tables) {
                newest = newest.max(batch.number);
                insert(&memtable, batch.number, batch.writes);
            }
        })?;
        numbers.set(newest + 1);
        let in_use = Arc::new(NumbersInUse::default());
        let background = Background::start(&tree, &in_use, stop, options.merge_threads)
            .map_err(|error| EngineError::Failed(format!("cannot start background work: {error}")))?;
        Ok(Self {
            background,
            tree,
            memtable,
            journal,
            numbers,
            in_use,
            memtable_bytes: options.memtable_bytes,
            segment_bytes: options.journal_bytes / 4,
        })
    }

    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        self.make_room().map_err(WriteFailure::Nothing)?;
        let number = self.numbers.next();
        let written = self.journal.append(number, &batch).and_then(|()| self.journal.sync());
        written.map_err(|error| WriteFailure::Maybe(io_error(&error)))?;
        insert(&self.memtable, number, batch);
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), EngineError> {
        let mut progress = self.background.progress();
        self.journal.release(progress.flushed_segment);
        let in_memory = self.memtable.size() + self.memtable.len() as u64 * ROW_OVERHEAD;
        let is_full = in_memory >= self.memtable_bytes
            || self.journal.bytes() >= self.segment_bytes
            || progress.waiting_memtables == 0 && self.journal.segments() > MAX_SEGMENTS;
        if is_full && progress.failed.is_none() {
            progress = self.background.wait_for_memtables(MAX_WAITING_MEMTABLES);
            self.seal()?;
        }
        progress.failed.map_or(Ok(()), |error| {
            Err(EngineError::Unavailable(format!("background work has failed: {error}")))
        })
    }

    /// Begins a new memtable and a new segment of the journal with it, and hands on the full one.
    fn seal(&mut self) -> Result<(), EngineError> {
        let segment = self.journal.segment();
        self.journal.begin().map_err(|error| io_error(&error))?;
        if self.tree.rotate_memtable().is_some() {
            self.memtable = self.tree.active_memtable();
        }
        self.background.flush(segment);
        Ok(())
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let number = self.in_use.enter(self.numbers.get());
        View { tree: self.tree.clone(), number, version, catalogue_version }
    }
}

fn insert(memtable: &Memtable, number: u64, writes: Vec<Write>) {
    for write in writes {
        memtable.insert(match write {
            Write::Put(key, value) => InternalValue::from_components(key, value, number, ValueType::Value),
            Write::Delete(key) => InternalValue::new_tombstone(key, number),
        });
    }
}

fn config(options: &DiskOptions, path: &Path, numbers: &SequenceNumberCounter) -> Config {
    let bloom = |policy| FilterPolicyEntry::Bloom(policy);
    // The second counter is for those who read at the newest number; readers here have one of their own.
    Config::new(path, numbers.clone(), SequenceNumberCounter::default())
        .use_cache(Arc::new(Cache::with_capacity_bytes(options.cache_bytes)))
        .use_descriptor_table(Some(Arc::new(DescriptorTable::new(OPEN_FILES))))
        .data_block_size_policy(BlockSizePolicy::all(options.block_bytes))
        .data_block_restart_interval_policy(RestartIntervalPolicy::new([10, 16]))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        // Whole, not in parts: an index and a filter take some 0.7 % of the size of rows of 1 KiB, and each part
        // would have to be looked up in the cache before every block.
        .index_block_partitioning_policy(PinningPolicy::all(false))
        .filter_block_partitioning_policy(PinningPolicy::all(false))
        .filter_policy(FilterPolicy::new([
            bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001)),
            bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]))
}

/// The more tables wait to be merged, the more of them every read has to look at. Slowing writers down
/// a little at first spreads over all commits what would otherwise be a halt.
fn rest(waiting_tables: usize, bytes: usize) -> Duration {
    const FREE: usize = 12;
    const HALT: usize = 30;
    /// The rate half way from the first number to the second.
    const BYTES_PER_SECOND: f64 = 40e6;
    if waiting_tables <= FREE {
        return Duration::ZERO;
    }
    let left = HALT.saturating_sub(waiting_tables).max(1) as f64 / (HALT - FREE) as f64;
    let seconds = bytes as f64 / BYTES_PER_SECOND * (1.0 - left) / left;
    Duration::from_secs_f64(seconds).min(Duration::from_millis(500))
}

pub(crate) fn storage_error(error: &lsm_tree::Error) -> EngineError {
    match error {
        lsm_tree::Error::Io(error) => io_error(error),
        error => EngineError::Corrupt(error.to_string()),
    }
}

fn io_error(error: &std::io::Error) -> EngineError {
    match error.kind() {
        // A file that is missing, too short or not what it should be.
        ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => {
            EngineError::Corrupt(error.to_string())
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => EngineError::Unavailable(error.to_string()),
        _ => EngineError::Failed(error.to_string()),
    }
}

/// The library states some of what it expects of its files as assertions.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> EngineError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    EngineError::Corrupt(format!("the storage library stopped: {text}"))
}

fn at_path(error: EngineError, path: &Path) -> EngineError {
    let at = |why: String| format!("{why}: {}", path.display());
    match error {
        EngineError::Unavailable(why) => EngineError::Unavailable(at(why)),
        EngineError::Corrupt(why) => EngineError::Corrupt(at(why)),
        EngineError::Failed(why) => EngineError::Failed(at(why)),
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
