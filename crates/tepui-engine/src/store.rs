//! The one place that opens and writes the tree and its journal, and the seam where tests inject faults.

use crate::background::Background;
use crate::directory::Directory;
use crate::disk::DiskOptions;
use crate::journal::{self, Journal};
use crate::tree::{Memtable, Sizes, Tree};
use crate::view::{Published, View};
use crate::{EngineError, Version, Write};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often free space is asked for.
const SPACE_INTERVAL: Duration = Duration::from_millis(200);

/// How many full memtables may wait to be written to tables. Writers wait for the rest.
const MAX_WAITING_MEMTABLES: usize = 2;

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
    tree: Arc<Tree>,
    /// What is written to. Only the committer puts another one in its place.
    memtable: Arc<Memtable>,
    journal: Journal,
    /// Of the last batch.
    number: u64,
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
        opened.write(batch)
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let opened = self.open.as_ref().expect("a view is asked for only after a write or an opening");
        opened.view(version, catalogue_version)
    }

    fn is_stale(&self, published: &Published) -> bool {
        let Some(opened) = &self.open else { return false };
        let Ok(Some(view)) = published.try_get() else { return false };
        !Arc::ptr_eq(&view.sources, &opened.tree.sources())
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
        // Every batch was synced when it was written: there is nothing else to do.
        self.open = None;
    }
}

impl Opened {
    fn open(options: &DiskOptions, directory: &Directory) -> Result<Self, EngineError> {
        let sizes =
            Sizes { memtable_bytes: options.memtable_bytes, block_bytes: options.block_bytes as usize };
        let (tree, in_tables) = Tree::open(&directory.rows(), sizes)?;
        let tree = Arc::new(tree);
        let memtable = tree.memtable();
        let mut number = in_tables;
        let journal = Journal::open(&directory.journal(), |batch| {
            if batch.number > in_tables {
                number = number.max(batch.number);
                memtable.insert(batch.number, batch.writes);
            }
        })?;
        let background = Background::start(&tree, options.merge_threads)
            .map_err(|error| EngineError::Failed(format!("cannot start background work: {error}")))?;
        Ok(Self {
            background,
            tree,
            memtable,
            journal,
            number,
            memtable_bytes: options.memtable_bytes,
            segment_bytes: options.journal_bytes / 4,
        })
    }

    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        self.make_room().map_err(WriteFailure::Nothing)?;
        let number = self.number + 1;
        let written = self.journal.append(number, &batch).and_then(|()| self.journal.sync());
        written.map_err(|error| WriteFailure::Maybe(io_error(&error, &error.to_string())))?;
        self.memtable.insert(number, batch);
        self.number = number;
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), EngineError> {
        let mut progress = self.background.progress();
        self.journal.release(progress.flushed_segment);
        let is_full = self.memtable.bytes() >= self.memtable_bytes
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
        self.journal.begin().map_err(|error| io_error(&error, &error.to_string()))?;
        self.memtable = self.tree.seal();
        self.background.flush(segment);
        Ok(())
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let sources = self.tree.sources();
        View { tree: Arc::clone(&self.tree), sources, number: self.number, version, catalogue_version }
    }
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

pub(crate) fn io_error(error: &std::io::Error, message: &str) -> EngineError {
    let message = message.to_owned();
    match error.kind() {
        // A file that is missing, too short or not what it should be.
        ErrorKind::NotFound | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => {
            EngineError::Corrupt(message)
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => EngineError::Unavailable(message),
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
