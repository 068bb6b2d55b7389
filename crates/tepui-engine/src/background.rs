//! Work behind the committer's back: one thread writes full memtables to tables, others merge tables.
//!
//! What fails is tried again, ever more seldom; nothing of it is lost meanwhile.

use crate::EngineError;
use crate::store::not_moved;
use crate::tree::{Pressure, Tree};
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
/// How long nothing is written to tables before there is leisure, and how much longer before there is rest.
const LEISURE: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(10);

/// How long to wait after a failure: twice as long each time, up to the second.
const RETRY_WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How long writers wait for background work before they are refused.
const ROOM_WAIT: Duration = Duration::from_secs(10);

/// How far the background work is.
#[derive(Debug, Default, Clone)]
pub(crate) struct Progress {
    /// The journal's segments up to this one are in tables.
    pub(crate) flushed_segment: u64,
    /// How many memtables wait to be written.
    pub(crate) waiting_memtables: usize,
    /// How many tables overlap each other and wait to be merged.
    pub(crate) waiting_tables: usize,
    /// Why a memtable was not written when it was last tried. It is tried again.
    pub(crate) failing: Option<EngineError>,
    /// Why a thread has ended: a bug.
    pub(crate) ended: Option<EngineError>,
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
    /// Without threads: its work is done step by step, by whoever calls [`Background::flush_step`] and
    /// [`Background::merge_step`].
    pub(crate) fn stepped(tree: &Arc<Tree>) -> Self {
        let progress = Progress { waiting_tables: tree.waiting_tables(), ..Progress::default() };
        let work = Mutex::new(Work { merges_wanted: 1, progress, ..Work::default() });
        let shared = Arc::new(Shared { tree: Arc::clone(tree), work, changed: Condvar::new() });
        Self { shared, threads: Vec::new() }
    }

    pub(crate) fn start(tree: &Arc<Tree>, merge_threads: usize) -> std::io::Result<Self> {
        let mut background = Self::stepped(tree);
        background.spawn("flush", Shared::flush)?;
        for _ in 0..merge_threads.max(1) {
            background.spawn("merge", Shared::merge)?;
        }
        Ok(background)
    }

    fn spawn(&mut self, name: &str, work: impl Fn(&Shared) + Send + 'static) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&shared))) {
                let error = panicked(&*panic);
                tracing::error!(%error, "background work has ended");
                shared.work().progress.ended = Some(error);
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

    /// Writes the oldest memtable that waits to a table. Says whether there was one, and it was written.
    pub(crate) fn flush_step(&self) -> bool {
        let segment = self.shared.work().memtables.front().copied();
        segment.is_some_and(|segment| self.shared.flush_one(segment))
    }

    /// Merges some tables. Says whether there were any, and they were merged.
    pub(crate) fn merge_step(&self, pressure: Pressure) -> bool {
        self.shared.merge_one(pressure).unwrap_or(false)
    }

    pub(crate) fn tidy_step(&self) {
        self.shared.tree.tidy();
    }

    /// Waits until fewer memtables and fewer tables than this wait. Not for ever.
    pub(crate) fn wait_for_room(&self, memtables: usize, tables: usize) -> Result<(), EngineError> {
        let is_full =
            |work: &Work| work.memtables.len() >= memtables || work.progress.waiting_tables >= tables;
        if self.threads.is_empty() {
            while is_full(&self.shared.work()) && (self.flush_step() || self.merge_step(Pressure::Leisure)) {}
        }
        let wait = |work: &mut Work| {
            is_full(work) && work.progress.failing.is_none() && work.progress.ended.is_none()
        };
        let patience = if self.threads.is_empty() { Duration::ZERO } else { ROOM_WAIT };
        let waited = self.shared.changed.wait_timeout_while(self.shared.work(), patience, wait);
        let (work, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !is_full(&work) {
            return Ok(());
        }
        Err(match work.progress.failing.as_ref().or(work.progress.ended.as_ref()) {
            Some(error) => not_moved(error),
            None => {
                EngineError::Unavailable("tables are merged too slowly, or there is no space for it".into())
            }
        })
    }

    /// Ends the work, and waits until that is done.
    pub(crate) fn stop(&mut self) {
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

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes memtables until it is told to stop.
    fn flush(&self) {
        let mut retry = RETRY_WAIT.0;
        let mut work = self.work();
        while !work.stop {
            let Some(segment) = work.memtables.front().copied() else {
                work = self.wait_or_tidy(work);
                continue;
            };
            drop(work);
            retry = match self.flush_one(segment) {
                true => RETRY_WAIT.0,
                false => self.wait_to_retry(retry),
            };
            work = self.work();
        }
    }

    /// Writes a memtable. Says whether that succeeded.
    fn flush_one(&self, segment: u64) -> bool {
        let flushed = self.tree.flush();
        let waiting_tables = self.tree.waiting_tables();
        let mut work = self.work();
        work.progress.waiting_tables = waiting_tables;
        work.progress.failing = flushed.err();
        let is_done = work.progress.failing.is_none();
        if let Some(error) = &work.progress.failing {
            tracing::warn!(%error, "a memtable cannot be written to a table yet");
        } else {
            work.memtables.pop_front();
            work.merges_wanted += 1;
            work.progress.flushed_segment = segment;
            work.progress.waiting_memtables = work.memtables.len();
        }
        drop(work);
        self.changed.notify_all();
        is_done
    }

    /// Merges tables until it is told to stop.
    fn merge(&self) {
        let mut seen = 0;
        let mut retry = RETRY_WAIT.0;
        // Nothing has been found to do with more pressure since the last change. `None`: nor at rest.
        let mut next = Some(Pressure::Leisure);
        loop {
            let idle = |work: &mut Work| !work.stop && work.merges_wanted == seen;
            let patience = match next {
                Some(Pressure::Haste | Pressure::Leisure) => LEISURE,
                Some(Pressure::Rest) => REST,
                None => Duration::MAX,
            };
            let waited = self.changed.wait_timeout_while(self.work(), patience, idle);
            let (work, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if work.stop {
                return;
            }
            seen = work.merges_wanted;
            drop(work);
            let pressure = next.filter(|_| timeout.timed_out()).unwrap_or(Pressure::Haste);
            match self.merge_one(pressure) {
                Ok(has_changed) => {
                    next = match (pressure, has_changed) {
                        (Pressure::Haste, _) | (Pressure::Leisure, true) => Some(Pressure::Leisure),
                        (Pressure::Leisure, false) => Some(Pressure::Rest),
                        // At once: this has waited long enough.
                        (Pressure::Rest, true) => {
                            while !self.has_memtables() && self.merge_one(Pressure::Rest).unwrap_or(false) {}
                            Some(Pressure::Leisure)
                        }
                        (Pressure::Rest, false) => None,
                    };
                    retry = RETRY_WAIT.0;
                }
                Err(error) => {
                    tracing::warn!(%error, "tables cannot be merged yet");
                    retry = self.wait_to_retry(retry);
                    next = Some(Pressure::Leisure);
                }
            }
        }
    }

    /// Whether something is to be written to a table, or the work is over.
    fn has_memtables(&self) -> bool {
        let work = self.work();
        work.stop || !work.memtables.is_empty()
    }

    fn merge_one(&self, pressure: Pressure) -> Result<bool, EngineError> {
        let tables = if pressure == Pressure::Haste { TABLES_IN_HASTE } else { TABLES_AT_LEISURE };
        let has_changed = self.tree.merge(tables, pressure)?;
        if has_changed {
            let waiting_tables = self.tree.waiting_tables();
            let mut work = self.work();
            work.merges_wanted += 1;
            work.progress.waiting_tables = waiting_tables;
            drop(work);
            self.changed.notify_all();
        }
        Ok(has_changed)
    }

    /// Waits after a failure, and says how long to wait after the next one.
    fn wait_to_retry(&self, wait: Duration) -> Duration {
        drop(self.changed.wait_timeout_while(self.work(), wait, |work| !work.stop));
        (wait * 2).min(RETRY_WAIT.1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{CacheLimits, Expect, Sizes};
    use tepui_files::{FileSystem, SimulatedFiles};

    #[test]
    fn writers_stop_where_background_work_does_not_keep_up() {
        let files: Arc<dyn FileSystem> = Arc::new(SimulatedFiles::new(1));
        files.create_directory("/rows".as_ref()).expect("a directory can be made");
        let cache = CacheLimits { tables: 10, bytes: 1 << 20 };
        let sizes = Sizes { memtable_bytes: 1 << 10, block_bytes: 256, free_bytes: 0, cache };
        let (tree, _) = Tree::open(&files, "/rows".as_ref(), sizes, Expect::Nothing).expect("a new folder");
        let background = Background::stepped(&Arc::new(tree));
        for (tables, failing, refused) in [
            (29, None, None),
            (30, None, Some("too slowly")),
            (45, None, Some("too slowly")),
            (0, Some("a broken disk"), None),
            (30, Some("a broken disk"), Some("a broken disk")),
        ] {
            // There is nothing behind these numbers, so that nothing can be done about them.
            let mut work = background.shared.work();
            work.progress.waiting_tables = tables;
            work.progress.failing = failing.map(|why: &str| EngineError::Failed(why.into()));
            drop(work);
            let room = background.wait_for_room(2, 30);
            match refused {
                None => assert_eq!(room, Ok(())),
                Some(why) => {
                    assert!(matches!(room, Err(EngineError::Unavailable(said)) if said.contains(why)))
                }
            }
        }
    }
}
