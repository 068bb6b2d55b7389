//! What is refused, and what a comparison finds.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use tepui_storage::{
    Commit, CommitError, CommitPipeline, ExtentWriter, Limits, ScanPage, StorageError, Transaction, Write,
};

async fn write<E: Engine>(engine: &E, writes: Vec<Write>) {
    engine.begin().await.unwrap().commit(Commit::from(writes)).await.unwrap();
}

fn told<T: std::fmt::Debug>(outcome: Result<T, CopyError>) -> String {
    outcome.unwrap_err().to_string()
}

/// Rows in a target, as a copy that was interrupted after `rows` rows of the state.
async fn unfinished_copy(
    source: &Storage<MemoryEngine, MemoryExtents>,
) -> Storage<MemoryEngine, MemoryExtents> {
    let target = memory();
    let mut copying = Box::pin(copy(source, &target));
    // It runs until its first row is there.
    loop {
        tokio::select! {
            biased;
            done = &mut copying => panic!("{done:?}"),
            () = tokio::task::yield_now() => {}
        }
        if unfinished(&*target.engine).await.unwrap() {
            drop(copying);
            return target;
        }
    }
}

#[tokio::test]
async fn targets_that_are_not_empty() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    World::of(&target, PLAIN).create_queue("mine").await;
    let before = rows(&*target.engine).await;
    assert!(told(copy(&source, &target).await).contains("the target is not empty"));
    assert_eq!(rows(&*target.engine).await, before);
    let target = memory();
    copy(&source, &target).await.unwrap();
    assert!(told(copy(&source, &target).await).contains("tepui storage verify"));
}

#[tokio::test]
async fn sources_that_have_changed_or_are_others() {
    let source = memory();
    fill(&source).await;
    let target = unfinished_copy(&source).await;
    let state = rows(&*target.engine).await;
    assert!(told(copy(&memory(), &target).await).contains("another source"));
    World::of(&source, PLAIN).put_message("jobs", "one more", 0, None).await;
    assert!(told(copy(&source, &target).await).contains("the source has changed"));
    assert_eq!(rows(&*target.engine).await, state);
    // Nor is an unfinished copy a source, or compared with anything.
    assert!(told(copy(&target, &memory()).await).contains("not finished"));
    assert!(told(compare(&source, &target).await).contains("not finished"));
}

/// The lease of a node: version, owner, end.
fn lease(owner: u128, seconds: u64) -> Vec<Write> {
    let until = clock_start().saturating_add(std::time::Duration::from_secs(seconds));
    let lease = [&[1][..], &owner.to_le_bytes(), &until.ticks().to_le_bytes()].concat();
    vec![Write::Put(Key::from_static(&[0x46, 0, 0, 0, 0, 0, 0, 0, 3]), lease.into())]
}

/// When somebody else writes to a storage.
#[derive(Clone)]
enum Moment {
    /// Before the first commit.
    Commit,
    /// When nodes are looked for during the verification.
    LastLook(Arc<CopyProgress>),
}

/// A storage that somebody else writes to, once.
#[derive(Clone)]
struct Shared<T> {
    inner: T,
    engine: Arc<MemoryEngine>,
    when: Moment,
    writes: Vec<Write>,
    is_done: Arc<AtomicBool>,
}

impl<T> Shared<T> {
    async fn write(&self) {
        if !self.is_done.swap(true, Ordering::SeqCst) {
            write(&*self.engine, self.writes.clone()).await;
        }
    }
}

/// The same rows, to which somebody else writes at some moment.
fn shared(
    storage: &Storage<MemoryEngine, MemoryExtents>,
    when: Moment,
    writes: Vec<Write>,
) -> Storage<Shared<Arc<MemoryEngine>>, MemoryExtents> {
    let engine = Arc::clone(&storage.engine);
    let engine = Shared { inner: Arc::clone(&engine), engine, when, writes, is_done: Arc::default() };
    Storage { engine: Arc::new(engine), extents: Arc::clone(&storage.extents) }
}

impl Engine for Shared<Arc<MemoryEngine>> {
    type Transaction = Shared<<MemoryEngine as Engine>::Transaction>;
    type Pipeline = Shared<<MemoryEngine as Engine>::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        if let Moment::LastLook(progress) = &self.when
            && progress.report().stage == CopyStage::Verifying
            && progress.report().bytes == progress.report().total_bytes
        {
            self.write().await;
        }
        let Self { inner, engine, when, writes, is_done } = self.clone();
        Ok(Shared { inner: inner.begin().await?, engine, when, writes, is_done })
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Err(StorageError::failed("nobody needs one"))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }
}

impl<T: Snapshot> Snapshot for Shared<T> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.inner.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.inner.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.inner.scan(range, limit).await
    }
}

impl<T: Transaction> Transaction for Shared<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        if let Moment::Commit = self.when {
            self.write().await;
        }
        self.inner.commit(commit).await
    }
}

impl<T: CommitPipeline> CommitPipeline for Shared<T> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        self.inner.submit(commit)
    }

    fn is_ended(&self) -> bool {
        self.inner.is_ended()
    }
}

/// A server has looked whether something is copied to its storage before the copy began, and takes a number then.
#[tokio::test]
async fn a_target_that_a_server_joins_when_the_copy_begins() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    let joined = shared(&target, Moment::Commit, lease(9, 30));
    assert!(told(copy(&source, &joined).await).contains("the target is in use"));
    assert!(!unfinished(&*target.engine).await.unwrap(), "the server may go on");
    assert_eq!(rows(&*target.engine).await.len(), 1);
    // It has stopped.
    write(&*target.engine, lease(0, 30)).await;
    copy(&source, &target).await.unwrap();
}

#[tokio::test]
async fn a_copy_that_is_continued_while_a_server_joins_its_target() {
    let source = memory();
    fill(&source).await;
    let target = unfinished_copy(&source).await;
    let joined = shared(&target, Moment::Commit, lease(9, 30));
    assert!(told(copy(&source, &joined).await).contains("the target is in use"));
    write(&*target.engine, lease(0, 30)).await;
    assert!(copy(&source, &target).await.unwrap().is_continued);
    equal(&source, &target).await;
}

/// A server has started on the source, written something and stopped, all after the rows were compared.
#[tokio::test]
async fn a_source_that_a_server_has_used_meanwhile() {
    let (source, target, progress) = (memory(), memory(), Arc::new(CopyProgress::default()));
    fill(&source).await;
    write(&*source.engine, lease(0, 20)).await;
    let mut writes = lease(0, 30);
    let (key, _) = rows(&*source.engine).await.into_iter().find(|(key, _)| key[0] == 0x80).unwrap();
    writes.push(Write::Put(Key::from([&key[..], &[7]].concat()), "later".into()));
    let used = shared(&source, Moment::LastLook(Arc::clone(&progress)), writes.clone());
    let copied = copy_storage(&used, &target, &clock(), 1, &progress).await;
    assert!(told(copied).contains("a server has used the source meanwhile"));
    assert!(used.engine.is_done.load(Ordering::SeqCst));
    assert!(unfinished(&*target.engine).await.unwrap());
    // So it is when two storages are compared.
    let (first, second) = (memory(), memory());
    fill(&first).await;
    copy(&first, &second).await.unwrap();
    for (case, used_first) in [("source", true), ("target", false)] {
        let progress = Arc::new(CopyProgress::default());
        let moment = Moment::LastLook(Arc::clone(&progress));
        let used = shared(if used_first { &first } else { &second }, moment, writes.clone());
        let compared = match used_first {
            true => compare_storages(&used, &second, &clock(), &progress).await,
            false => compare_storages(&first, &used, &clock(), &progress).await,
        };
        assert!(told(compared).contains(&format!("a server has used the {case} meanwhile")), "{case}");
        for written in &writes {
            let engine = if used_first { &*first.engine } else { &*second.engine };
            write(engine, vec![Write::Delete(written.key().clone())]).await;
        }
    }
}

#[tokio::test]
async fn storages_in_use() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    write(&*source.engine, lease(9, 30)).await;
    assert!(told(copy(&source, &target).await).contains("the source is in use"));
    assert!(told(copy(&target, &source).await).contains("the target is in use"));
    assert!(told(compare(&source, &target).await).contains("the source is in use"));
    // Given back, or expired by any clock.
    write(&*source.engine, lease(0, 30)).await;
    copy(&source, &target).await.unwrap();
    write(&*target.engine, lease(9, 0)).await;
    assert!(told(copy(&target, &memory()).await).contains("the source is in use"));
    let clock = clock();
    clock.advance(std::time::Duration::from_secs(2));
    let again = memory();
    copy_storage(&target, &again, &clock, 1, &Arc::default()).await.unwrap();
    let leases = |rows: Vec<(Key, Value)>| rows.iter().filter(|(key, _)| key[0] == 0x46).count();
    assert_eq!(leases(rows(&*again.engine).await), 0, "leases are not copied");
}

#[tokio::test]
async fn two_copies_at_once() {
    let source = memory();
    fill(&source).await;
    let target = unfinished_copy(&source).await;
    // The first one goes on after the second one has begun, and is stopped.
    let (first, second) = (copy_storage_of(&source, &target, 1), copy_storage_of(&source, &target, 2));
    let (first, second) = tokio::join!(first, second);
    let stopped = [&first, &second].iter().filter(|outcome| outcome.is_err()).count();
    for error in [&first, &second].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(error.to_string().contains("another process copies"), "{error}");
    }
    assert!(stopped <= 1 || unfinished(&*target.engine).await.unwrap());
    if unfinished(&*target.engine).await.unwrap() {
        copy(&source, &target).await.unwrap();
    }
    equal(&source, &target).await;
}

async fn copy_storage_of(
    source: &Storage<MemoryEngine, MemoryExtents>,
    target: &Storage<MemoryEngine, MemoryExtents>,
    run: u128,
) -> Result<CopyReport, CopyError> {
    copy_storage(source, target, &clock(), run, &Arc::default()).await
}

#[tokio::test]
async fn damaged_sources() {
    for (case, first_byte) in [("a count", 0xA5), ("a blob", 0xA0), ("pieces", 0xA3)] {
        let source = memory();
        fill(&source).await;
        let rows = rows(&*source.engine).await;
        let (key, _) = rows.iter().find(|(key, _)| key[0] == first_byte).unwrap();
        write(&*source.engine, vec![Write::Put(key.clone(), "nonsense".into())]).await;
        assert!(told(copy(&source, &memory()).await).contains("the source is damaged"), "{case}");
        write(&*source.engine, vec![Write::Delete(key.clone())]).await;
        assert!(told(copy(&source, &memory()).await).contains("the source is damaged"), "{case}");
    }
}

#[tokio::test]
async fn differences_are_found() {
    let source = memory();
    fill(&source).await;
    let find = |rows: &[(Key, Value)], first_byte: u8| {
        rows.iter()
            .find(|(key, _)| key[0] == first_byte)
            .map(|(key, value)| (key.clone(), value.clone()))
            .unwrap()
    };
    for (case, first_byte) in [
        ("an entity", 0x80),
        ("a queue's state", 0x50),
        ("a blob", 0xA0),
        ("a message", 0x91),
        ("a count", 0xA5),
    ] {
        let target = memory();
        copy(&source, &target).await.unwrap();
        compare(&source, &target).await.unwrap();
        let (key, value) = find(&rows(&*target.engine).await, first_byte);
        let mut changed = value.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        for writes in [Write::Delete(key.clone()), Write::Put(key.clone(), changed.into())] {
            write(&*target.engine, vec![writes]).await;
            assert!(told(compare(&source, &target).await).contains("differ"), "{case}");
        }
        write(&*target.engine, vec![Write::Put(key.clone(), value.clone())]).await;
        compare(&source, &target).await.unwrap();
        // One more.
        let key = Key::from([&key[..], &[7]].concat());
        write(&*target.engine, vec![Write::Put(key, value)]).await;
        assert!(told(compare(&source, &target).await).contains("differ"), "{case}");
    }
}

/// The bytes of an extent are compared, and not only its name and its length.
#[tokio::test]
async fn other_bytes_are_found() {
    let source = memory();
    let world = World::of(&source, PLAIN);
    world.create_container("pics").await;
    world.put_blob("pics", "a", Default::default(), &world::bytes(50_000, 1)).await;
    let target = memory();
    copy(&source, &target).await.unwrap();
    compare(&source, &target).await.unwrap();
    // A store of extents with other bytes in the same place.
    let forged = Storage { engine: Arc::clone(&target.engine), extents: Arc::new(MemoryExtents::new()) };
    let mut writer = forged.extents.begin().await.unwrap();
    writer.write(world::bytes(50_000, 2).into()).await.unwrap();
    writer.finish().await.unwrap();
    let found = told(compare(&source, &forged).await);
    assert!(found.contains("the bytes of an extent are not the same"), "{found}");
    let lost = Storage { engine: Arc::clone(&target.engine), extents: Arc::new(MemoryExtents::new()) };
    assert!(matches!(compare(&source, &lost).await, Err(CopyError::Storage(_))));
}
