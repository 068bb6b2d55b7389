//! The one place that opens and writes fjall, and the seam where tests inject faults.

use crate::directory::Directory;
use crate::disk::DiskOptions;
use crate::journal;
use crate::view::{Published, View};
use crate::{EngineError, Version, Write};
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry, PinningPolicy,
};
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch, PersistMode,
};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Everything lives here: an idle keyspace would hold back the journals of the others.
const KEYSPACE: &str = "rows";

/// How often free space is asked for.
const SPACE_INTERVAL: Duration = Duration::from_millis(200);

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

pub(crate) struct FjallStore {
    options: DiskOptions,
    directory: Directory,
    open: Option<Opened>,
    space: Result<(), EngineError>,
    space_checked: Option<Instant>,
}

struct Opened {
    database: Database,
    keyspace: Keyspace,
}

impl FjallStore {
    pub(crate) fn open(options: DiskOptions) -> Result<Self, EngineError> {
        let directory = Directory::open(&options.path)?;
        let open = Opened::open(&options, directory.data())?;
        Ok(Self { options, directory, open: Some(open), space: Ok(()), space_checked: None })
    }

    fn opened(&self) -> Result<&Opened, EngineError> {
        self.open.as_ref().ok_or_else(|| EngineError::Unavailable("the store is closed".into()))
    }
}

impl Store for FjallStore {
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        let opened = self.opened().map_err(WriteFailure::Nothing)?;
        let written = catch_unwind(AssertUnwindSafe(|| opened.write(batch)));
        match written {
            Ok(Ok(())) => Ok(()),
            // Poisoned is what fjall says before it touches the journal.
            Ok(Err(error @ fjall::Error::Poisoned)) => Err(WriteFailure::Nothing(engine_error(&error))),
            Ok(Err(error)) => Err(WriteFailure::Maybe(engine_error(&error))),
            Err(panic) => Err(WriteFailure::Maybe(panicked(&*panic))),
        }
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let opened = self.open.as_ref().expect("a view is asked for only after a write or an opening");
        opened.view(version, catalogue_version)
    }

    fn is_stale(&self, published: &Published) -> bool {
        let Some(opened) = &self.open else { return false };
        let Ok(Some(view)) = published.try_get() else { return false };
        view.snapshot.seqno() != opened.database.visible_seqno()
    }

    fn flush(&mut self) {
        let Some(opened) = &self.open else { return };
        let rotated = catch_unwind(AssertUnwindSafe(|| opened.keyspace.rotate_memtable()));
        if let Ok(Err(error)) = rotated {
            tracing::warn!(%error, "cannot start to flush");
        }
    }

    fn rest(&self, bytes: usize) -> Duration {
        let Some(opened) = &self.open else { return Duration::ZERO };
        let tree = &opened.keyspace.tree;
        rest(tree.l0_run_count(), tree.sealed_memtable_count(), bytes)
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
        let database = &self.opened()?.database;
        match catch_unwind(AssertUnwindSafe(|| database.persist(PersistMode::Buffer))) {
            Ok(result) => result.map_err(|error| engine_error(&error)),
            Err(panic) => Err(panicked(&*panic)),
        }
    }

    fn check_writable(&self) -> Result<(), EngineError> {
        self.directory.check_writable()
    }

    fn reopen(&mut self) -> Result<(), EngineError> {
        if let Some(opened) = self.open.take() {
            // fjall writes out what it still holds when it is dropped. It must be gone before the
            // journal is read again.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(opened)));
        }
        // The kernel may have dropped pages that it could not write and show them as if they were
        // on disk. A fresh, synced copy of each journal is what it says it is.
        journal::rewrite_last(self.directory.data())?;
        self.space_checked = None;
        self.open = Some(Opened::open(&self.options, self.directory.data())?);
        Ok(())
    }

    fn close(&mut self) {
        if let Some(opened) = self.open.take() {
            let closed = catch_unwind(AssertUnwindSafe(|| {
                let synced = opened.database.persist(PersistMode::SyncAll);
                drop(opened);
                synced
            }));
            if let Ok(Err(error)) = closed {
                tracing::warn!(%error, "cannot sync while closing");
            }
        }
    }
}

impl Opened {
    fn open(options: &DiskOptions, path: &Path) -> Result<Self, EngineError> {
        journal::check_all(path)?;
        let opened = catch_unwind(AssertUnwindSafe(|| -> fjall::Result<Self> {
            let database = Database::builder(path)
                .cache_size(options.cache_bytes)
                .worker_threads(options.worker_threads.max(1))
                .max_journaling_size(options.journal_bytes.max(64 << 20))
                .manual_journal_persist(true)
                .open()?;
            let keyspace = database.keyspace(KEYSPACE, || keyspace_options(options))?;
            Ok(Self { database, keyspace })
        }));
        match opened {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(error)) => Err(at_path(engine_error(&error), path)),
            Err(panic) => Err(at_path(panicked(&*panic), path)),
        }
    }

    fn write(&self, batch: Vec<Write>) -> fjall::Result<()> {
        let mut items = OwnedWriteBatch::with_capacity(self.database.clone(), batch.len())
            .durability(Some(PersistMode::SyncData));
        for write in batch {
            match write {
                Write::Put(key, value) => items.insert(&self.keyspace, key, value),
                Write::Delete(key) => items.remove(&self.keyspace, key),
            }
        }
        items.commit()
    }

    fn view(&self, version: Version, catalogue_version: Version) -> View {
        let (tree, snapshot) = (self.keyspace.tree.clone(), self.database.snapshot());
        View { tree, snapshot, version, catalogue_version }
    }
}

fn keyspace_options(options: &DiskOptions) -> KeyspaceCreateOptions {
    let bloom = |policy| FilterPolicyEntry::Bloom(policy);
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(options.memtable_bytes)
        .data_block_size_policy(BlockSizePolicy::all(options.block_bytes))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_policy(FilterPolicy::new([
            bloom(BloomConstructionPolicy::FalsePositiveRate(0.0001)),
            bloom(BloomConstructionPolicy::BitsPerKey(10.0)),
        ]))
}

/// fjall halts all writers when 30 tables wait to be merged or 4 memtables wait to be written, until
/// there are fewer: for many seconds at a time. Slowing down on the way there, a little at first,
/// spreads the same delay over all commits.
fn rest(waiting_tables: usize, waiting_memtables: usize, bytes: usize) -> Duration {
    const FREE: usize = 12;
    const HALT: usize = 30;
    /// The rate half way from where resting begins to where fjall would halt.
    const BYTES_PER_SECOND: f64 = 40e6;
    let waiting = match waiting_memtables {
        0 | 1 => waiting_tables,
        2 => waiting_tables.max(14),
        _ => waiting_tables.max(23),
    };
    if waiting <= FREE {
        return Duration::ZERO;
    }
    let left = HALT.saturating_sub(waiting).max(1) as f64 / (HALT - FREE) as f64;
    let seconds = bytes as f64 / BYTES_PER_SECOND * (1.0 - left) / left;
    Duration::from_secs_f64(seconds).min(Duration::from_millis(500))
}

/// What to do about an error of fjall.
pub(crate) fn engine_error(error: &fjall::Error) -> EngineError {
    match error {
        fjall::Error::Storage(error) => storage_error(error),
        fjall::Error::Io(error) => io_error(error),
        fjall::Error::Poisoned => {
            EngineError::Unavailable("an earlier write or background work failed".into())
        }
        fjall::Error::Locked => EngineError::Unavailable("the store is locked by another process".into()),
        fjall::Error::KeyspaceDeleted => EngineError::Failed(error.to_string()),
        _ => EngineError::Corrupt(error.to_string()),
    }
}

pub(crate) fn storage_error(error: &LsmError) -> EngineError {
    match error {
        LsmError::Io(error) => io_error(error),
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

/// fjall states some of what it expects of its files as assertions.
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
        assert_eq!(rest(12, 1, 1 << 20), Duration::ZERO);
        let rests: Vec<Duration> = (12..40).map(|waiting| rest(waiting, 0, 100_000)).collect();
        assert!(rests.is_sorted());
        assert!(rest(0, 3, 100_000) > rest(0, 2, 100_000));
        assert!(rest(30, 4, 64 << 20) <= Duration::from_millis(500));
    }
}
