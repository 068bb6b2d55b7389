//! Groups, with a store that can be held up and made to fail.

use super::*;
use crate::blocking::ReadMode;
use crate::engine::EngineOptions;
use crate::engine::lsm_store::{LsmStore, Threads};
use std::sync::mpsc;
use tepui_storage::{Guard, Key};

/// A real store behind a gate: `write` waits for a verdict.
struct Gated {
    store: LsmStore,
    verdicts: mpsc::Receiver<Option<WriteFailure>>,
    sizes: mpsc::Sender<usize>,
    is_full: bool,
}

impl BatchStore for Gated {
    fn write(&mut self, batch: Vec<Write>) -> Result<(), WriteFailure> {
        self.sizes.send(batch.len()).expect("the test listens");
        match self.verdicts.recv().expect("the test decides") {
            None => self.store.write(batch),
            Some(failure) => Err(failure),
        }
    }

    fn view(&self, version: Version, resident: Arc<ResidentRows>) -> SnapshotView {
        self.store.view(version, resident)
    }

    fn is_stale(&self, published: &PublishedView) -> bool {
        self.store.is_stale(published)
    }

    fn write_throttle(&self, _: usize) -> Duration {
        Duration::ZERO
    }

    fn check_space(&mut self, purpose: Purpose) -> Result<(), StorageError> {
        match purpose {
            Purpose::Ordinary if self.is_full => Err(StorageError::unavailable("full")),
            _ => Ok(()),
        }
    }

    fn on_idle(&mut self) {
        self.store.on_idle();
    }

    fn check_background(&self) -> Result<(), StorageError> {
        self.store.check_background()
    }

    fn failure(&self) -> Option<StorageError> {
        None
    }

    fn recover(&mut self) -> Result<(), StorageError> {
        self.store.recover()
    }

    fn close(&mut self) {
        self.store.close();
    }
}

struct Bench {
    queue: Arc<CommitQueue>,
    verdicts: mpsc::Sender<Option<WriteFailure>>,
    sizes: mpsc::Receiver<usize>,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        Self::on_disk(false)
    }

    fn on_disk(is_full: bool) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let options = EngineOptions::new(directory.path());
        let store = LsmStore::open(options, Threads::Spawned).expect("a directory can be created");
        let (verdicts, gate) = mpsc::channel();
        let (tell, sizes) = mpsc::channel();
        let limits = QueueLimits { commits: 10, bytes: 10_000, stall_after: Duration::from_secs(5) };
        let queue = Arc::new(CommitQueue::new(store.view(Version(1), Arc::default()), limits));
        let store = Gated { store, verdicts: gate, sizes: tell, is_full };
        let committer = Committer::new(Arc::clone(&queue), store, Version(1), Arc::default());
        std::thread::spawn(move || committer.run());
        Self { queue, verdicts, sizes, _directory: directory }
    }

    fn submit(
        &self,
        at: u64,
        guards: &[&'static str],
        keys: &[&'static str],
    ) -> oneshot::Receiver<Result<(), CommitError>> {
        self.submit_for(Purpose::Ordinary, at, guards, keys)
    }

    fn submit_for(
        &self,
        purpose: Purpose,
        at: u64,
        guards: &[&'static str],
        keys: &[&'static str],
    ) -> oneshot::Receiver<Result<(), CommitError>> {
        let (reply, answer) = oneshot::channel();
        let guards = guards.iter().map(|key| Guard::Shared(Key::from_static(key.as_bytes()))).collect();
        let put = |key: &&'static str| Write::Put(Key::from_static(key.as_bytes()), "v".into());
        let kind = CommitKind::Checked { at: Version(at), pipeline: None };
        let commit = Commit::new(guards, keys.iter().map(put).collect());
        let request = PendingCommit { kind, purpose, commit, queued: Instant::now(), reply };
        self.queue.submit(request).expect("there is room in the queue");
        answer
    }

    /// Waits until the committer is inside `write`, so that everything after it is one group.
    fn at_gate(&self) -> usize {
        self.sizes.recv_timeout(Duration::from_secs(10)).expect("the committer writes")
    }

    fn decide(&self, failure: Option<WriteFailure>) {
        self.verdicts.send(failure).expect("the committer waits");
    }

    fn rows(&self) -> usize {
        let view = self.queue.published.get().expect("the store is open");
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let limit = tepui_storage::ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
        view.read_view
            .scan(all, limit, view.seq_no, ReadMode::Blocking)
            .expect("rows can be counted")
            .rows
            .len()
    }
}

fn answer_of(answer: oneshot::Receiver<Result<(), CommitError>>) -> Result<(), CommitError> {
    answer.blocking_recv().expect("the committer answers")
}

#[test]
fn commits_that_wait_together_are_one_batch() {
    let bench = Bench::new();
    let first = bench.submit(1, &[], &["first"]);
    assert_eq!(bench.at_gate(), 1, "an idle committer does not wait");
    let answers = [
        bench.submit(1, &[], &["a", "b"]),
        bench.submit(1, &["x"], &["c"]),
        bench.submit(1, &[], &["b"]),    // Lost against the first of the group.
        bench.submit(1, &["c"], &["d"]), // Its guard was written in the same group.
        bench.submit(1, &["d"], &["e"]), // Guards what the refused one would have written.
        bench.submit(1, &[], &["x"]),    // Writes what another one guards: that one came before.
        bench.submit(1, &["first"], &["f"]), // Lost against the group before.
    ];
    assert_eq!(bench.rows(), 0, "nothing shows before it is synced");
    bench.decide(None);
    assert_eq!(answer_of(first), Ok(()));
    assert_eq!(bench.at_gate(), 5, "a, b, c, e and x");
    assert_eq!(bench.rows(), 1);
    bench.decide(None);
    let conflict = Err(CommitError::Conflict);
    let expected = [Ok(()), Ok(()), conflict.clone(), conflict.clone(), Ok(()), Ok(()), conflict];
    assert_eq!(answers.map(answer_of), expected);
    assert_eq!(bench.rows(), 6);
}

#[test]
fn a_failed_group_is_unknown_and_the_next_is_refused() {
    let bench = Bench::new();
    let group = bench.submit(1, &[], &["a"]);
    bench.at_gate();
    let waiting = bench.submit(1, &[], &["b"]);
    bench.decide(Some(WriteFailure::Unknown(StorageError::failed("a test"))));
    assert!(matches!(answer_of(group), Err(CommitError::Unknown(_))));
    assert!(
        matches!(answer_of(waiting), Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Unavailable)
    );
    assert!(bench.queue.health().is_err());
    assert_eq!(bench.rows(), 0);
    let give_up = Instant::now() + Duration::from_secs(10);
    while bench.queue.health().is_err() {
        assert!(Instant::now() < give_up, "the store heals");
        std::thread::yield_now();
    }
    let next = bench.submit(1, &[], &["a"]);
    bench.at_gate();
    bench.decide(None);
    assert_eq!(answer_of(next), Ok(()), "what failed was never there, so nothing has changed");
}

#[test]
fn a_full_disk_takes_what_frees_space() {
    let bench = Bench::on_disk(true);
    assert!(bench.queue.health().is_err(), "known from the start");
    let freeing = bench.submit_for(Purpose::FreesSpace, 1, &[], &["b"]);
    assert_eq!(bench.at_gate(), 1);
    bench.decide(None);
    assert_eq!(answer_of(freeing), Ok(()));
    let (reply, _answer) = oneshot::channel();
    let kind = CommitKind::Checked { at: Version(1), pipeline: None };
    let refused = bench.queue.submit(PendingCommit {
        kind,
        purpose: Purpose::Ordinary,
        commit: Commit::default(),
        queued: Instant::now(),
        reply,
    });
    assert!(refused.is_err(), "others are not even queued");
}

#[test]
fn many_batches_on_one_snapshot_do_not_conflict() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let options = EngineOptions::new(directory.path());
    let mut store = LsmStore::open(options, Threads::Stepped).expect("a directory can be created");
    let limits = QueueLimits { commits: 4096, bytes: 64 << 20, stall_after: Duration::from_secs(5) };
    let queue = Arc::new(CommitQueue::new(store.view(Version(1), Arc::default()), limits));
    store.check_space(Purpose::Ordinary).expect("there is space");
    let mut committer = Committer::new(Arc::clone(&queue), store, Version(1), Arc::default());
    let mut answers = Vec::new();
    for batch in 0..3000 {
        let put = |row| Write::Put(format!("{batch}/{row}").into(), "v".into());
        let (reply, answer) = oneshot::channel();
        let kind = CommitKind::Checked { at: Version(1), pipeline: None };
        let commit = Commit::from((0..100).map(put).collect::<Vec<_>>());
        let request =
            PendingCommit { kind, purpose: Purpose::Ordinary, commit, queued: Instant::now(), reply };
        queue.submit(request).expect("there is room in the queue");
        answers.push(answer);
    }
    while committer.step(Duration::ZERO) {}
    let conflicts = answers.into_iter().map(answer_of).filter(Result::is_err).count();
    assert_eq!(conflicts, 0);
}

#[test]
fn a_full_queue_is_busy_and_a_dropped_caller_does_not_matter() {
    let bench = Bench::new();
    let _first = bench.submit(1, &[], &["first"]);
    bench.at_gate();
    for _ in 0..10 {
        drop(bench.submit(1, &[], &["forgotten"]));
    }
    let (reply, _answer) = oneshot::channel();
    let kind = CommitKind::Checked { at: Version(1), pipeline: None };
    let refused = bench.queue.submit(PendingCommit {
        kind,
        purpose: Purpose::Ordinary,
        commit: Commit::default(),
        queued: Instant::now(),
        reply,
    });
    assert!(matches!(refused, Err(error) if error.kind() == StorageErrorKind::Busy));
    bench.decide(None);
    bench.at_gate();
    bench.decide(None);
    let last = bench.submit(3, &[], &["last"]);
    bench.at_gate();
    bench.decide(None);
    assert_eq!(answer_of(last), Ok(()));
    assert_eq!(bench.rows(), 3, "first, forgotten and last");
}
