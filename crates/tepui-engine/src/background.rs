//! Work behind the committer's back: one thread writes full memtables to tables, others merge tables.

use crate::EngineError;
use crate::store::{panicked, storage_error};
use crate::view::NumbersInUse;
use lsm_tree::compaction::Leveled;
use lsm_tree::compaction::filter::{CompactionFilter, Context, Factory, ItemAccessor, Verdict};
use lsm_tree::{AbstractTree, AnyTree};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long after a change of the tables its older form is let go at the latest.
const TIDY_WAIT: Duration = Duration::from_millis(200);

/// How many tables straight from memory are merged at once while many are written: every byte below them
/// is rewritten that much less often.
const TABLES_IN_HASTE: u8 = 8;
/// How many it takes when there is leisure. Readers look at each of them.
const TABLES_AT_LEISURE: u8 = 4;
/// How long nothing is written to tables before there is leisure.
const LEISURE: Duration = Duration::from_secs(1);

/// How far the background work is.
#[derive(Debug, Default, Clone)]
pub(crate) struct Progress {
    /// The journal's segments up to this one are in tables.
    pub(crate) flushed_segment: u64,
    /// How many memtables wait to be written.
    pub(crate) waiting_memtables: usize,
    /// How many tables overlap each other and wait to be merged.
    pub(crate) waiting_tables: usize,
    /// Why it has stopped.
    pub(crate) failed: Option<EngineError>,
}

/// Ends and waits for its threads when it is dropped.
pub(crate) struct Background {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    tree: AnyTree,
    in_use: Arc<NumbersInUse>,
    work: Mutex<Work>,
    /// Something to do, or something done.
    changed: Condvar,
    stop: MergeStop,
}

#[derive(Default)]
struct Work {
    /// The last segment of each memtable that waits.
    memtables: VecDeque<u64>,
    /// Rises with every reason to look for tables to merge.
    merges_wanted: u64,
    /// The tables have changed, and their older form may still be held.
    untidy: bool,
    stop: bool,
    progress: Progress,
}

impl Background {
    pub(crate) fn start(
        tree: &AnyTree,
        in_use: &Arc<NumbersInUse>,
        stop: MergeStop,
        merge_threads: usize,
    ) -> std::io::Result<Self> {
        let work = Work { merges_wanted: 1, ..Work::default() };
        let shared = Arc::new(Shared {
            tree: tree.clone(),
            in_use: Arc::clone(in_use),
            work: Mutex::new(work),
            changed: Condvar::new(),
            stop,
        });
        let mut background = Self { shared, threads: Vec::new() };
        background.spawn("flush", Shared::flush)?;
        for _ in 0..merge_threads.max(1) {
            background.spawn("merge", Shared::merge)?;
        }
        Ok(background)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl Fn(&Shared) -> Result<(), EngineError> + Send + 'static,
    ) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let done = catch_unwind(AssertUnwindSafe(|| work(&shared)));
            if let Err(error) = done.unwrap_or_else(|panic| Err(panicked(&*panic))) {
                tracing::error!(%error, "background work has failed");
                shared.work().progress.failed = Some(error);
                shared.changed.notify_all();
            }
        };
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }

    pub(crate) fn progress(&self) -> Progress {
        self.shared.work().progress.clone()
    }

    /// Hands over a memtable that was sealed; what it holds is in the journal's segments up to `segment`.
    pub(crate) fn flush(&self, segment: u64) {
        let mut work = self.shared.work();
        work.memtables.push_back(segment);
        work.progress.waiting_memtables = work.memtables.len();
        drop(work);
        self.shared.changed.notify_all();
    }

    /// Waits until fewer memtables than this wait, or nothing is done about them any more.
    pub(crate) fn wait_for_memtables(&self, fewer_than: usize) -> Progress {
        let work = self.shared.work();
        let wait = |work: &mut Work| work.memtables.len() >= fewer_than && work.progress.failed.is_none();
        let work = self.shared.changed.wait_while(work, wait).unwrap_or_else(PoisonError::into_inner);
        work.progress.clone()
    }
}

/// Makes merges end early. The tree must be opened with it.
#[derive(Default, Clone)]
pub(crate) struct MergeStop(Arc<AtomicBool>);

impl Factory for MergeStop {
    fn name(&self) -> &str {
        "stop"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(self.clone())
    }
}

impl CompactionFilter for MergeStop {
    fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.0.load(Ordering::Relaxed) {
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
        }
        Ok(Verdict::Keep)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.work().stop = true;
        self.shared.stop.0.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic is caught and reported inside.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flush(&self) -> Result<(), EngineError> {
        let mut work = self.work();
        loop {
            if work.stop {
                return Ok(());
            }
            let Some(segment) = work.memtables.back().copied() else {
                work = self.wait_or_tidy(work)?;
                continue;
            };
            drop(work);
            let lock = self.tree.get_flush_lock();
            self.tree.flush(&lock, self.unseen_below()).map_err(|error| storage_error(&error))?;
            drop(lock);
            let waiting_tables = self.tree.l0_run_count();
            work = self.work();
            work.memtables.retain(|waiting| *waiting > segment);
            work.merges_wanted += 1;
            work.untidy = true;
            work.progress.flushed_segment = segment;
            work.progress.waiting_memtables = work.memtables.len();
            work.progress.waiting_tables = waiting_tables;
            self.changed.notify_all();
        }
    }

    fn merge(&self) -> Result<(), EngineError> {
        let strategy = |tables| Arc::new(Leveled::default().with_l0_threshold(tables));
        let (in_haste, at_leisure) = (strategy(TABLES_IN_HASTE), strategy(TABLES_AT_LEISURE));
        let mut seen = 0;
        // Nothing has been found to do at leisure since the last change.
        let mut at_rest = false;
        loop {
            let idle = |work: &mut Work| !work.stop && work.merges_wanted == seen;
            let patience = if at_rest { Duration::MAX } else { LEISURE };
            let waited = self.changed.wait_timeout_while(self.work(), patience, idle);
            let (work, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if work.stop {
                return Ok(());
            }
            seen = work.merges_wanted;
            drop(work);
            let strategy = if timeout.timed_out() { &at_leisure } else { &in_haste };
            let before = self.tree.current_version().id();
            let merged = self.tree.compact(strategy.clone(), self.unseen_below());
            if self.work().stop {
                // Given up half-way, perhaps: what it has written is removed at the next opening.
                return Ok(());
            }
            merged.map_err(|error| storage_error(&error))?;
            let has_changed = self.tree.current_version().id() != before;
            at_rest = timeout.timed_out() && !has_changed;
            if has_changed {
                let waiting_tables = self.tree.l0_run_count();
                let mut work = self.work();
                work.merges_wanted += 1;
                work.untidy = true;
                work.progress.waiting_tables = waiting_tables;
                drop(work);
                self.changed.notify_all();
            }
        }
    }

    /// Waits for something to do. Meanwhile lets go of older forms of the tables, and of memtables that
    /// are tables now, once nobody reads from them any more.
    fn wait_or_tidy<'a>(&'a self, work: MutexGuard<'a, Work>) -> Result<MutexGuard<'a, Work>, EngineError> {
        if !work.untidy {
            return Ok(self.changed.wait(work).unwrap_or_else(PoisonError::into_inner));
        }
        let waited = self.changed.wait_timeout(work, TIDY_WAIT).unwrap_or_else(PoisonError::into_inner);
        let (mut work, timeout) = waited;
        if !timeout.timed_out() || !work.memtables.is_empty() || work.stop {
            return Ok(work);
        }
        work.untidy = false;
        drop(work);
        let mut versions = self.tree.get_version_history_lock();
        let oldest = self.in_use.oldest().unwrap_or(0);
        let tidied = versions.maintenance(&self.tree.tree_config().path, oldest);
        let is_untidy = versions.free_list_len() > 0;
        drop(versions);
        tidied.map_err(|error| storage_error(&error))?;
        let mut work = self.work();
        work.untidy |= is_untidy;
        Ok(work)
    }

    /// Where a newer write hides an older one from everybody if its number is below this.
    fn unseen_below(&self) -> u64 {
        self.in_use.oldest().unwrap_or(0).saturating_sub(1)
    }
}
