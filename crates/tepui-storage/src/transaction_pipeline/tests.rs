use super::*;
use crate::{Engine, MemoryEngine, StorageErrorKind};

async fn pipeline(engine: &MemoryEngine, limits: Limits) -> TransactionPipeline<crate::MemoryTransaction> {
    TransactionPipeline::new(engine.begin().await.expect("memory does not fail"), limits)
}

async fn get(engine: &MemoryEngine, key: &'static str) -> Option<Value> {
    let found = engine.get_many(&[key.into()]).await.expect("memory does not fail");
    found.into_iter().next().flatten()
}

fn put(key: &'static str, value: &'static str) -> Write {
    Write::Put(key.into(), value.into())
}

#[tokio::test]
async fn what_is_submitted_together_is_one_commit() {
    let engine = MemoryEngine::new();
    let pipeline = pipeline(&engine, engine.limits()).await;
    assert!(!pipeline.is_ended());
    let first = pipeline.submit(vec![put("a", "1"), put("b", "1")].into());
    // Nobody polls it.
    drop(pipeline.submit(vec![put("a", "2")].into()));
    let last = pipeline.submit(vec![Write::Delete("b".into()), put("c", "3")].into());
    assert_eq!((last.await, first.await), (Ok(()), Ok(())));
    assert_eq!(engine.commits().ok.get(), 1);
    assert_eq!(get(&engine, "a").await, Some("2".into()));
    assert_eq!(get(&engine, "b").await, None);
    assert_eq!(get(&engine, "c").await, Some("3".into()));
}

#[tokio::test]
async fn it_has_ended_after_its_commit() {
    let engine = MemoryEngine::new();
    let pipeline = pipeline(&engine, engine.limits()).await;
    assert_eq!(pipeline.get(b"a").await, Ok(None));
    assert_eq!(pipeline.submit(vec![put("a", "1")].into()).await, Ok(()));
    assert!(pipeline.is_ended());
    let found = pipeline.get(b"a").await.map_err(|error| error.kind());
    assert_eq!(found, Err(StorageErrorKind::TooOld));
    assert_eq!(pipeline.submit(vec![put("b", "1")].into()).await, Err(CommitError::Conflict));
    let guard = Commit::new(vec![Guard::Shared("b".into())], Vec::new());
    assert_eq!(pipeline.submit(guard).await, Err(CommitError::Conflict), "the state is not known any more");
    assert_eq!(pipeline.submit(Commit::default()).await, Ok(()), "all before it are durable");
    assert_eq!(get(&engine, "b").await, None);
}

#[tokio::test]
async fn one_conflict_is_that_of_all() {
    let engine = MemoryEngine::new();
    let pipeline = pipeline(&engine, engine.limits()).await;
    assert_eq!(pipeline.get(b"guard").await, Ok(None));
    let other = engine.begin().await.expect("memory does not fail");
    other.commit(vec![put("guard", "theirs")].into()).await.expect("nobody else writes");
    let first = pipeline.submit(vec![put("a", "1")].into());
    // The stricter of two guards is kept, and either would fail.
    let guards = vec![Guard::Unchanged("guard".into()), Guard::Shared("guard".into())];
    let second = pipeline.submit(Commit::new(guards, vec![put("b", "1")]));
    assert_eq!((first.await, second.await), (Err(CommitError::Conflict), Err(CommitError::Conflict)));
    assert!(pipeline.is_ended());
    assert_eq!(pipeline.submit(Commit::default()).await, Err(CommitError::Conflict));
    assert_eq!((get(&engine, "a").await, get(&engine, "b").await), (None, None));
}

#[tokio::test]
async fn a_commit_that_does_not_fit_ends_it() {
    let engine = MemoryEngine::new();
    let limits = Limits { max_key_bytes: 4, max_commit_bytes: 10 };
    let full = pipeline(&engine, limits).await;
    let fits = full.submit(vec![put("a", "12345678")].into());
    let beyond = full.submit(vec![put("b", "1")].into());
    assert!(full.is_ended());
    assert_eq!((beyond.await, fits.await), (Err(CommitError::Conflict), Ok(())));
    assert_eq!(get(&engine, "b").await, None);
    // One that can never be accepted is refused, those before it are not.
    let odd = pipeline(&engine, limits).await;
    let fits = odd.submit(vec![put("c", "1")].into());
    let refused = odd.submit(vec![put("too long", "")].into()).await;
    assert!(matches!(refused, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Failed));
    assert_eq!(odd.submit(vec![put("d", "1")].into()).await, Err(CommitError::Conflict));
    assert_eq!(fits.await, Ok(()));
    // Also if it is the first.
    let odd = pipeline(&engine, limits).await;
    drop(odd.submit(vec![put("too long", "")].into()));
    assert!(odd.is_ended());
    assert_eq!(odd.submit(Commit::default()).await, Err(CommitError::Conflict));
    assert_eq!(get(&engine, "d").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_reads_under_way_and_ends_with_its_last_reference() {
    let engine = MemoryEngine::new();
    let pipeline = pipeline(&engine, engine.limits()).await;
    let reading = ReadCount::begin(&pipeline.shared.reads);
    let began = Instant::now();
    let first = pipeline.submit(vec![put("a", "1")].into());
    tokio::time::sleep(Duration::from_micros(600)).await;
    drop(reading);
    assert_eq!(first.await, Ok(()));
    assert!(began.elapsed() >= 2 * QUIET, "{:?}", began.elapsed());
    let weak = Arc::downgrade(&pipeline.shared);
    drop(pipeline);
    while weak.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn outside_of_a_runtime_it_refuses() {
    let engine = MemoryEngine::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    let pipeline = runtime.block_on(pipeline(&engine, engine.limits()));
    let refused = pipeline.submit(vec![put("a", "1")].into());
    let refused = runtime.block_on(refused);
    assert!(matches!(refused, Err(CommitError::Storage(_))), "{refused:?}");
}
