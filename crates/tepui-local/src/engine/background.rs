//! Background work: one thread flushes memtables, others compact tables.
//!
//! Failed work is retried with exponential backoff; nothing is lost meanwhile.

use crate::engine::lsm_store::flush_blocked;
use crate::lsm::{LsmTree, WriteLoad};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tepui_storage::StorageError;

/// How often obsolete tables are checked for readers: while there are some, and otherwise.
const CLEANUP_WAIT: Duration = Duration::from_millis(200);
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// Level 0 is compacted at this many tables under heavy load: the more at once, the lower the write amplification.
const L0_TRIGGER_HEAVY: usize = 8;
/// The same under light load: every read visits each of them.
const L0_TRIGGER_LIGHT: usize = 4;
/// How long nothing is flushed before the load counts as light, and how much longer before it counts as idle.
const LIGHT_LOAD_AFTER: Duration = Duration::from_secs(1);
const IDLE_AFTER: Duration = Duration::from_secs(10);

/// The wait after a failure: doubled each time, from the first up to the second.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How long a write stall may last before writes are refused.
const MAX_WRITE_STALL: Duration = Duration::from_secs(10);

/// How far background work is.
#[derive(Debug, Default, Clone)]
pub(crate) struct Progress {
    /// Segments of the log up to this one were flushed.
    pub(crate) flushed_segment: u64,
    /// How many memtables wait for their flush.
    pub(crate) sealed_memtables: usize,
    /// How many tables level 0 has.
    pub(crate) l0_tables: usize,
    /// Why the last flush failed. It is retried.
    pub(crate) flush_error: Option<StorageError>,
    /// Why a thread has ended: a bug.
    pub(crate) panicked: Option<StorageError>,
}

/// Stops its threads when it is dropped.
pub(crate) struct Background {
    shared: Arc<BackgroundState>,
    threads: Vec<JoinHandle<()>>,
}

struct BackgroundState {
    tree: Arc<LsmTree>,
    work: Mutex<Work>,
    /// Signals new work, and finished work.
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// The last log segment of each sealed memtable.
    memtables: VecDeque<u64>,
    /// Rises with every reason to look for a compaction.
    compactions_requested: u64,
    stop: bool,
    progress: Progress,
}

impl Background {
    /// Without threads: work is done by calls of [`Background::flush_step`] and [`Background::compaction_step`].
    pub(crate) fn stepped(tree: &Arc<LsmTree>) -> Self {
        let progress = Progress { l0_tables: tree.l0_tables(), ..Progress::default() };
        let work = Mutex::new(Work { compactions_requested: 1, progress, ..Work::default() });
        let shared = Arc::new(BackgroundState { tree: Arc::clone(tree), work, changed: Condvar::new() });
        Self { shared, threads: Vec::new() }
    }

    pub(crate) fn start(tree: &Arc<LsmTree>, compaction_threads: usize) -> std::io::Result<Self> {
        let mut background = Self::stepped(tree);
        background.spawn("flush", BackgroundState::flush)?;
        for _ in 0..compaction_threads.max(1) {
            background.spawn("compaction", BackgroundState::compact)?;
        }
        Ok(background)
    }

    fn spawn(&mut self, name: &str, work: impl Fn(&BackgroundState) + Send + 'static) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&shared))) {
                let error = panicked(&*panic);
                tracing::error!(%error, "a background thread has ended");
                shared.work().progress.panicked = Some(error);
                shared.changed.notify_all();
            }
        };
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }

    pub(crate) fn progress(&self) -> Progress {
        self.shared.work().progress.clone()
    }

    /// Queues the flush of a sealed memtable, whose batches are in segments of the log up to `segment`.
    pub(crate) fn flush(&self, segment: u64) {
        let mut work = self.shared.work();
        work.memtables.push_back(segment);
        work.progress.sealed_memtables = work.memtables.len();
        drop(work);
        self.shared.changed.notify_all();
    }

    /// Flushes the oldest sealed memtable. Returns whether there was one, and the flush succeeded.
    pub(crate) fn flush_step(&self) -> bool {
        let segment = self.shared.work().memtables.front().copied();
        segment.is_some_and(|segment| self.shared.flush_one(segment))
    }

    /// Runs one compaction. Returns whether one was due, and succeeded.
    pub(crate) fn compaction_step(&self, load: WriteLoad) -> bool {
        self.shared.compact_one(load).unwrap_or(false)
    }

    pub(crate) fn remove_obsolete_step(&self) {
        self.shared.tree.remove_obsolete();
    }

    /// Waits until there are fewer sealed memtables and fewer tables in level 0 than this, up to [`MAX_WRITE_STALL`].
    pub(crate) fn wait_out_write_stall(&self, memtables: usize, tables: usize) -> Result<(), StorageError> {
        let is_full = |work: &Work| work.memtables.len() >= memtables || work.progress.l0_tables >= tables;
        if self.threads.is_empty() {
            while is_full(&self.shared.work())
                && (self.flush_step() || self.compaction_step(WriteLoad::Light))
            {}
        }
        let wait = |work: &mut Work| {
            is_full(work) && work.progress.flush_error.is_none() && work.progress.panicked.is_none()
        };
        let timeout_after = if self.threads.is_empty() { Duration::ZERO } else { MAX_WRITE_STALL };
        let mut work = self.shared.work();
        if wait(&mut work) {
            let began = Instant::now();
            self.shared.changed.wait_while_for(&mut work, wait, timeout_after);
            self.shared.tree.counters().stalls.add(began.elapsed());
        }
        if !is_full(&work) {
            return Ok(());
        }
        Err(match work.progress.flush_error.as_ref().or(work.progress.panicked.as_ref()) {
            Some(error) => flush_blocked(error),
            None => StorageError::unavailable("write stall: compactions are too slow, or have no space"),
        })
    }

    /// Stops the work, and waits for its threads.
    pub(crate) fn stop(&mut self) {
        self.shared.work().stop = true;
        self.shared.tree.stop();
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic is caught and reported inside.
            let _ = thread.join();
        }
        self.shared.tree.remove_obsolete();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl BackgroundState {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock()
    }

    /// Flushes memtables until it is stopped.
    fn flush(&self) {
        let mut backoff = RETRY_BACKOFF.0;
        let mut work = self.work();
        while !work.stop {
            let Some(segment) = work.memtables.front().copied() else {
                work = self.wait_or_remove_obsolete(work);
                continue;
            };
            drop(work);
            backoff = match self.flush_one(segment) {
                true => RETRY_BACKOFF.0,
                false => self.wait_to_retry(backoff),
            };
            work = self.work();
        }
    }

    /// Flushes a memtable. Returns whether that succeeded.
    fn flush_one(&self, segment: u64) -> bool {
        let flushed = self.tree.flush();
        let l0_tables = self.tree.l0_tables();
        let mut work = self.work();
        work.progress.l0_tables = l0_tables;
        work.progress.flush_error = flushed.err();
        let is_done = work.progress.flush_error.is_none();
        if let Some(error) = &work.progress.flush_error {
            tracing::warn!(%error, "a memtable cannot be flushed yet");
        } else {
            work.memtables.pop_front();
            work.compactions_requested += 1;
            work.progress.flushed_segment = segment;
            work.progress.sealed_memtables = work.memtables.len();
        }
        drop(work);
        self.changed.notify_all();
        is_done
    }

    /// Compacts tables until it is stopped.
    fn compact(&self) {
        let mut seen = 0;
        let mut backoff = RETRY_BACKOFF.0;
        // The load to assume when nothing changes for a while. `None`: nothing is left to do even when idle.
        let mut next = Some(WriteLoad::Light);
        loop {
            let idle = |work: &mut Work| !work.stop && work.compactions_requested == seen;
            let timeout_after = match next {
                Some(WriteLoad::Heavy | WriteLoad::Light) => LIGHT_LOAD_AFTER,
                Some(WriteLoad::Idle) => IDLE_AFTER,
                None => Duration::MAX,
            };
            let mut work = self.work();
            let timeout = self.changed.wait_while_for(&mut work, idle, timeout_after);
            if work.stop {
                return;
            }
            seen = work.compactions_requested;
            drop(work);
            let load = next.filter(|_| timeout.timed_out()).unwrap_or(WriteLoad::Heavy);
            match self.compact_one(load) {
                Ok(has_changed) => {
                    next = match (load, has_changed) {
                        (WriteLoad::Heavy, _) | (WriteLoad::Light, true) => Some(WriteLoad::Light),
                        (WriteLoad::Light, false) => Some(WriteLoad::Idle),
                        // Without further waits: the store is idle.
                        (WriteLoad::Idle, true) => {
                            while !self.has_memtables() && self.compact_one(WriteLoad::Idle).unwrap_or(false)
                            {
                            }
                            Some(WriteLoad::Light)
                        }
                        (WriteLoad::Idle, false) => None,
                    };
                    backoff = RETRY_BACKOFF.0;
                }
                Err(error) => {
                    tracing::warn!(%error, "tables cannot be compacted yet");
                    backoff = self.wait_to_retry(backoff);
                    next = Some(WriteLoad::Light);
                }
            }
        }
    }

    /// Whether a flush is due, or the work was stopped.
    fn has_memtables(&self) -> bool {
        let work = self.work();
        work.stop || !work.memtables.is_empty()
    }

    fn compact_one(&self, load: WriteLoad) -> Result<bool, StorageError> {
        let l0_trigger = if load == WriteLoad::Heavy { L0_TRIGGER_HEAVY } else { L0_TRIGGER_LIGHT };
        let has_changed = self.tree.compact(l0_trigger, load)?;
        if has_changed {
            let l0_tables = self.tree.l0_tables();
            let mut work = self.work();
            work.compactions_requested += 1;
            work.progress.l0_tables = l0_tables;
            drop(work);
            self.changed.notify_all();
        }
        Ok(has_changed)
    }

    /// Waits after a failure. Returns the wait after the next one.
    fn wait_to_retry(&self, wait: Duration) -> Duration {
        self.changed.wait_while_for(&mut self.work(), |work| !work.stop, wait);
        (wait * 2).min(RETRY_BACKOFF.1)
    }

    /// Waits for work. Meanwhile removes obsolete tables and memtables that no reader holds any more.
    fn wait_or_remove_obsolete<'a>(&'a self, mut work: MutexGuard<'a, Work>) -> MutexGuard<'a, Work> {
        let wait = if self.tree.has_obsolete() { CLEANUP_WAIT } else { CLEANUP_INTERVAL };
        let timeout = self.changed.wait_for(&mut work, wait);
        if !timeout.timed_out() || !work.memtables.is_empty() || work.stop {
            return work;
        }
        drop(work);
        self.tree.remove_obsolete();
        self.work()
    }
}

fn panicked(panic: &(dyn Any + Send)) -> StorageError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    StorageError::failed(format!("a thread has panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::{DirectoryState, Sizes, TableCacheLimits};
    use tepui_files::{FileSystem, SimulatedFiles};
    use tepui_storage::StorageErrorKind;

    #[test]
    fn writes_stall_when_background_work_falls_behind() {
        let files: Arc<dyn FileSystem> = Arc::new(SimulatedFiles::new(1));
        files.create_directory("/rows".as_ref()).expect("a directory can be made");
        let cache = TableCacheLimits { tables: 10, bytes: 1 << 20 };
        let sizes = Sizes { memtable_bytes: 1 << 10, block_bytes: 256, free_bytes: 0, cache };
        let (tree, _) =
            LsmTree::open(&files, "/rows".as_ref(), sizes, DirectoryState::New).expect("a new folder");
        let background = Background::stepped(&Arc::new(tree));
        for (tables, failing, refused) in [
            (29, None, None),
            (30, None, Some("too slow")),
            (45, None, Some("too slow")),
            (0, Some("a broken disk"), None),
            (30, Some("a broken disk"), Some("a broken disk")),
        ] {
            // The tree is empty, so that no compaction can change these numbers.
            let mut work = background.shared.work();
            work.progress.l0_tables = tables;
            work.progress.flush_error = failing.map(|why: &str| StorageError::failed(why));
            drop(work);
            let room = background.wait_out_write_stall(2, 30);
            match refused {
                None => assert_eq!(room, Ok(())),
                Some(why) => {
                    assert!(
                        matches!(room, Err(error) if error.kind() == StorageErrorKind::Unavailable && error.message().contains(why))
                    )
                }
            }
        }
    }
}
