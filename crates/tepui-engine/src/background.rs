//! Work behind the committer's back: one thread writes full memtables to tables, others merge tables.

use crate::EngineError;
use crate::tree::Tree;
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often replaced tables are looked for that nobody reads from any more: while there are some, and otherwise.
const TIDY_WAIT: Duration = Duration::from_millis(200);
const TIDY_INTERVAL: Duration = Duration::from_secs(1);

/// How many tables straight from memory are merged at once while many are written: every byte below them
/// is rewritten that much less often.
const TABLES_IN_HASTE: usize = 8;
/// How many it takes when there is leisure. Readers look at each of them.
const TABLES_AT_LEISURE: usize = 4;
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
    tree: Arc<Tree>,
    work: Mutex<Work>,
    /// Something to do, or something done.
    changed: Condvar,
}

#[derive(Default)]
struct Work {
    /// The last segment of each memtable that waits.
    memtables: VecDeque<u64>,
    /// Rises with every reason to look for tables to merge.
    merges_wanted: u64,
    stop: bool,
    progress: Progress,
}

impl Background {
    pub(crate) fn start(tree: &Arc<Tree>, merge_threads: usize) -> std::io::Result<Self> {
        let work = Mutex::new(Work { merges_wanted: 1, ..Work::default() });
        let shared = Arc::new(Shared { tree: Arc::clone(tree), work, changed: Condvar::new() });
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

impl Drop for Background {
    fn drop(&mut self) {
        self.shared.work().stop = true;
        self.shared.tree.stop();
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic is caught and reported inside.
            let _ = thread.join();
        }
        self.shared.tree.tidy();
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
            let Some(segment) = work.memtables.front().copied() else {
                work = self.wait_or_tidy(work);
                continue;
            };
            drop(work);
            self.tree.flush()?;
            let waiting_tables = self.tree.waiting_tables();
            work = self.work();
            work.memtables.pop_front();
            work.merges_wanted += 1;
            work.progress.flushed_segment = segment;
            work.progress.waiting_memtables = work.memtables.len();
            work.progress.waiting_tables = waiting_tables;
            self.changed.notify_all();
        }
    }

    fn merge(&self) -> Result<(), EngineError> {
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
            let leisure = timeout.timed_out();
            let tables = if leisure { TABLES_AT_LEISURE } else { TABLES_IN_HASTE };
            let has_changed = self.tree.merge(tables, leisure)?;
            at_rest = leisure && !has_changed;
            if has_changed {
                let waiting_tables = self.tree.waiting_tables();
                let mut work = self.work();
                work.merges_wanted += 1;
                work.progress.waiting_tables = waiting_tables;
                drop(work);
                self.changed.notify_all();
            }
        }
    }

    /// Waits for something to do. Meanwhile lets go of tables and memtables that were replaced, once nobody
    /// reads from them any more.
    fn wait_or_tidy<'a>(&'a self, work: MutexGuard<'a, Work>) -> MutexGuard<'a, Work> {
        let wait = if self.tree.is_untidy() { TIDY_WAIT } else { TIDY_INTERVAL };
        let waited = self.changed.wait_timeout(work, wait).unwrap_or_else(PoisonError::into_inner);
        let (work, timeout) = waited;
        if !timeout.timed_out() || !work.memtables.is_empty() || work.stop {
            return work;
        }
        drop(work);
        self.tree.tidy();
        self.work()
    }
}

fn panicked(panic: &(dyn Any + Send)) -> EngineError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    EngineError::Failed(format!("a thread has panicked: {text}"))
}
