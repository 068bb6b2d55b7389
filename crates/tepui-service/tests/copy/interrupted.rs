//! Copies that end at any point and are continued, by faults and by a task that is dropped.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, Extent, ExtentWriter, Limits, StorageError, Transaction,
};
use tepui_storage_faulty::{Faults, FaultyEngine, FaultyExtents, Rates};

/// Fails for good after so many calls.
#[derive(Clone)]
struct Fuse(Arc<AtomicU64>, Limits);

impl Fuse {
    fn new(calls: u64) -> Self {
        Self(Arc::new(AtomicU64::new(calls)), Limits::LOCAL)
    }

    fn burn(&self) -> Result<(), StorageError> {
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Ok(()),
            Err(_) => Err(StorageError::failed("the process was killed")),
        }
    }

    fn left(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A storage that a process uses until it is killed: no call after that does anything.
struct Mortal<T>(T, Fuse);

impl<E: Engine> Engine for Mortal<Arc<E>> {
    type Transaction = Mortal<E::Transaction>;
    type Pipeline = E::Pipeline;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        self.1.burn()?;
        Ok(Mortal(self.0.begin().await?, self.1.clone()))
    }

    async fn begin_pipeline(&self) -> Result<E::Pipeline, StorageError> {
        self.0.begin_pipeline().await
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.0.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn limits(&self) -> Limits {
        self.1.1
    }
}

impl<T: Snapshot> Snapshot for Mortal<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.1.burn()?;
        self.0.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.1.burn()?;
        self.0.get_many(keys).await
    }

    async fn scan(
        &self,
        range: &KeyRange,
        limit: ScanLimit,
    ) -> Result<tepui_storage::ScanPage, StorageError> {
        self.1.burn()?;
        // Small pages, so that there are many points at which it can end.
        self.0.scan(range, ScanLimit { max_rows: limit.max_rows.min(40), ..limit }).await
    }
}

impl<T: Transaction> Transaction for Mortal<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.1.burn()?;
        self.1.1.check(&commit)?;
        let done = self.0.commit(commit).await;
        // Nobody hears of it.
        self.1.burn()?;
        done
    }
}

impl<X: Extents> Extents for Mortal<Arc<X>> {
    type Writer = Mortal<X::Writer>;
    type ReadGuard = X::ReadGuard;

    fn store(&self) -> StoreId {
        self.0.store()
    }

    async fn begin(&self) -> Result<Self::Writer, StorageError> {
        self.1.burn()?;
        Ok(Mortal(self.0.begin().await?, self.1.clone()))
    }

    fn unpin(&self, extent: Extent) {
        self.0.unpin(extent);
    }

    fn read_guard(&self) -> X::ReadGuard {
        self.0.read_guard()
    }

    fn expired(&self, guard: &X::ReadGuard) -> bool {
        self.0.expired(guard)
    }

    async fn wait_for_readers(&self) {
        self.0.wait_for_readers().await;
    }

    async fn read(
        &self,
        extent: Extent,
        range: std::ops::Range<u64>,
    ) -> Result<Vec<bytes::Bytes>, StorageError> {
        self.1.burn()?;
        self.0.read(extent, range).await
    }

    async fn free(&self, extents: Vec<Extent>) -> Result<(), StorageError> {
        self.0.free(extents).await
    }

    async fn sweepable_volumes(&self) -> Result<Vec<u64>, StorageError> {
        self.0.sweepable_volumes().await
    }

    async fn sweep(&self, volume: u64, kept: Vec<Extent>) -> Result<(), StorageError> {
        self.0.sweep(volume, kept).await
    }
}

impl<W: ExtentWriter> ExtentWriter for Mortal<W> {
    async fn write(&mut self, bytes: bytes::Bytes) -> Result<(), StorageError> {
        self.1.burn()?;
        self.0.write(bytes).await
    }

    async fn finish(self) -> Result<Extent, StorageError> {
        self.1.burn()?;
        let done = self.0.finish().await;
        self.1.burn()?;
        done
    }
}

// The engine's pipelines are not used.
const _: fn() = || {
    fn is_pipeline<P: CommitPipeline>() {}
    is_pipeline::<<MemoryEngine as Engine>::Pipeline>();
};

fn mortal<E: Engine, X: Extents>(
    storage: &Storage<E, X>,
    fuse: &Fuse,
) -> Storage<Mortal<Arc<E>>, Mortal<Arc<X>>> {
    Storage {
        engine: Arc::new(Mortal(Arc::clone(&storage.engine), fuse.clone())),
        extents: Arc::new(Mortal(Arc::clone(&storage.extents), fuse.clone())),
    }
}

/// How many calls of the target a copy takes.
async fn calls(source: &Storage<MemoryEngine, MemoryExtents>) -> u64 {
    let fuse = Fuse::new(u64::MAX);
    copy(source, &mortal(&memory(), &fuse)).await.unwrap();
    u64::MAX - fuse.left()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_a_kill_at_every_so_many_calls() {
    let source = memory();
    fill(&source).await;
    let calls = calls(&source).await;
    assert!(calls > 200, "{calls}");
    let expected = see(&source).await;
    for step in 0..24 {
        let target = memory();
        // Killed several times, each time a little later.
        let mut lives = 0;
        let mut budget = 1 + calls * step / 24;
        loop {
            let fuse = Fuse::new(budget);
            match copy(&source, &mortal(&target, &fuse)).await {
                Ok(_) => break,
                Err(CopyError::Storage(_) | CopyError::Commit(_)) => {}
                Err(other) => panic!("{other}"),
            }
            assert_eq!(fuse.left(), 0);
            // Unless it ended before it had begun, nobody may use the target, and it is not taken for another's.
            let begun = !rows(&*target.engine).await.is_empty();
            assert_eq!(unfinished(&*target.engine).await.unwrap(), begun);
            (lives, budget) = (lives + 1, budget + calls / 12);
            assert!(lives < 40, "it goes on");
        }
        compare(&source, &target).await.unwrap();
        assert_eq!(see(&target).await, expected, "{step}");
        assert!(lives > 0 || step == 23);
    }
}

/// At the very end, the copy may be finished without anybody knowing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_a_kill_in_the_last_calls() {
    let source = memory();
    fill(&source).await;
    let calls = calls(&source).await;
    let mut finished = 0;
    for budget in calls - 30..calls {
        let target = memory();
        let killed = copy(&source, &mortal(&target, &Fuse::new(budget))).await.is_err();
        if killed && unfinished(&*target.engine).await.unwrap() {
            assert!(copy(&source, &target).await.unwrap().is_continued);
        } else {
            finished += 1;
        }
        compare(&source, &target).await.unwrap();
    }
    assert!((1..30).contains(&finished), "{finished}");
}

/// The task ends in the middle of whatever it awaits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_dropping_the_task() {
    let slow = Rates { pause: 1, ..Rates::NONE };
    let source = memory();
    fill(&source).await;
    let expected = see(&source).await;
    for seed in 0..6 {
        let target = memory();
        let mut times = 0;
        loop {
            let faulty = Storage {
                engine: Arc::new(FaultyEngine::new((*target.engine).clone(), Faults::new(slow, seed))),
                extents: Arc::new(FaultyExtents::new((*target.extents).clone(), Faults::new(slow, seed))),
            };
            let patience = std::time::Duration::from_millis(5 + 10 * times);
            match tokio::time::timeout(patience, copy(&source, &faulty)).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => {
                    // The attempt before may have finished it without anybody knowing.
                    assert!(times > 0 && !unfinished(&*target.engine).await.unwrap(), "{seed}: {error}");
                    break;
                }
                Err(_) => times += 1,
            }
        }
        assert!(times > 0, "{seed}");
        compare(&source, &target).await.unwrap();
        assert_eq!(see(&target).await, expected);
    }
}

/// Storages that are unavailable for a moment, conflict without a reason and leave outcomes open are put up with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_faults_of_both_storages() {
    for seed in 0..8 {
        let (source, target) = (memory(), memory());
        fill(&source).await;
        let faulty = |storage: &Storage<MemoryEngine, MemoryExtents>, seed| {
            let faults = || Faults::new(Rates { unavailable: 20, unavailable_step: 50, ..Rates::ALL }, seed);
            let engine = FaultyEngine::new((*storage.engine).clone(), faults());
            let extents = FaultyExtents::new((*storage.extents).clone(), faults());
            Storage { engine: Arc::new(engine), extents: Arc::new(extents) }
        };
        let (from, to) = (faulty(&source, seed), faulty(&target, 1000 + seed));
        let report = copy(&from, &to).await.unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert!(!report.is_continued);
        to.engine.settle().await;
        equal(&source, &target).await;
    }
}

/// Commits are as small as the target wants them, and what it does not take at all is told before anything is copied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_by_the_limits_of_the_target() {
    let source = memory();
    fill(&source).await;
    let limited = |max_key_bytes, max_commit_bytes| {
        Fuse(Fuse::new(u64::MAX).0, Limits { max_key_bytes, max_commit_bytes })
    };
    let target = memory();
    copy(&source, &mortal(&target, &limited(5000, 256 << 10))).await.unwrap();
    equal(&source, &target).await;
    for (limits, says) in [
        (limited(1000, 64 << 20), "the target takes keys of at most 1000 bytes"),
        (limited(5000, 100 << 10), "the target takes commits of at most 102400 bytes"),
    ] {
        let target = memory();
        let refused = copy(&source, &mortal(&target, &limits)).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
        assert!(rows(&*target.engine).await.is_empty());
    }
}
