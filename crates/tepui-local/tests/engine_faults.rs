//! Disks that fail, below the engine: a shim in front of the C library fails syncs and writes.
//!
//! Each scenario runs in a child process of its own, which is this test binary with the shim loaded.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

#[path = "faults/harness.rs"]
mod harness;

use harness::{Faults, in_child};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{CommitError, Engine, Key, Snapshot, StorageErrorKind, Transaction, Value, Write};

struct Store {
    directory: TempDir,
}

impl Store {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory can be made") }
    }

    fn options(&self) -> EngineOptions {
        let mut options = EngineOptions::new(self.directory.path().join("tepui-data"));
        options.memtable_bytes = 64 << 10;
        options.commit_wait = Duration::from_secs(10);
        options
    }

    fn open(&self) -> DiskEngine {
        DiskEngine::open(self.options()).expect("the directory can be opened")
    }
}

async fn put(engine: &DiskEngine, key: &str, value: &str) -> Result<(), CommitError> {
    let put = |key: String| Write::Put(Key::from(key), Value::copy_from_slice(value.as_bytes()));
    // Two rows, so that half a commit would show.
    let writes = vec![put(format!("{key}/1")), put(format!("{key}/2"))];
    engine.begin().await?.commit(writes.into()).await
}

async fn get(engine: &DiskEngine, key: &str) -> Option<String> {
    let now = engine.begin().await.expect("a transaction can begin");
    let read = async |part: u8| {
        let value = now.get(format!("{key}/{part}").as_bytes()).await.expect("a row can be read");
        value.map(|value| String::from_utf8_lossy(&value).into_owned())
    };
    let (first, second) = (read(1).await, read(2).await);
    assert_eq!(first, second, "a commit is torn");
    first
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !holds().await {
        assert!(Instant::now() < give_up, "in vain waited until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_unavailable(result: &Result<(), CommitError>) -> bool {
    matches!(&result, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Unavailable)
}

fn is_busy(result: &Result<(), CommitError>) -> bool {
    matches!(&result, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Busy)
}

fn has_no_space(result: &Result<(), CommitError>) -> bool {
    matches!(&result, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::NoSpace)
}

#[test]
fn a_failed_sync_is_unknown_and_heals_by_reopening() {
    in_child("a_failed_sync_is_unknown_and_heals_by_reopening", async |faults: Faults| {
        let store = Store::new();
        let engine = store.open();
        assert_eq!(put(&engine, "before", "1").await, Ok(()));
        let kept = engine.begin().await.expect("a transaction can begin");

        faults.set("s");
        let failed = put(&engine, "failed", "1").await;
        assert!(matches!(failed, Err(CommitError::Unknown(_))), "{failed:?}");
        assert!(matches!(engine.health().await, Err(error) if error.kind() == StorageErrorKind::Unavailable));
        assert_eq!(get(&engine, "failed").await, None, "nothing unsynced is shown");
        assert_eq!(get(&engine, "before").await.as_deref(), Some("1"), "reads go on");
        let refused = put(&engine, "refused", "1").await;
        assert!(is_unavailable(&refused), "{refused:?}");

        // While the disk is bad, nothing recovers, however long it takes.
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert!(engine.health().await.is_err());

        faults.clear();
        until("the engine is healthy", async || engine.health().await.is_ok()).await;
        assert_eq!(get(&engine, "before").await.as_deref(), Some("1"));
        let found = get(&engine, "failed").await;
        assert_eq!(get(&engine, "refused").await, None, "what was refused is not there");
        assert_eq!(
            kept.get(b"before/1").await,
            Ok(Some("1".into())),
            "a kept snapshot stays as it is, and blocks nothing"
        );
        assert_eq!(put(&engine, "after", "1").await, Ok(()));
        drop(engine);

        let engine = store.open();
        assert_eq!(get(&engine, "before").await.as_deref(), Some("1"));
        assert_eq!(get(&engine, "failed").await, found, "once settled, it stays settled");
        assert_eq!(get(&engine, "after").await.as_deref(), Some("1"));
    });
}

#[test]
fn what_failed_was_never_there_after_healing() {
    in_child("what_failed_was_never_there_after_healing", async |faults: Faults| {
        let store = Store::new();
        let engine = store.open();
        assert_eq!(put(&engine, "key", "1").await, Ok(()));
        let old = engine.begin().await.expect("a transaction can begin");
        faults.set("s");
        assert!(put(&engine, "key", "2").await.is_err());
        faults.clear();
        until("the engine is healthy", async || engine.health().await.is_ok()).await;
        assert_eq!(get(&engine, "key").await.as_deref(), Some("1"));
        let put = |key: &'static str| Write::Put(key.into(), "3".into());
        let next = old.commit(vec![put("key/1"), put("key/2")].into()).await;
        assert_eq!(next, Ok(()), "nothing has changed");
        drop(engine);
        assert_eq!(get(&store.open(), "key").await.as_deref(), Some("3"));
    });
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    in_child("a_full_disk_refuses_writes_until_there_is_space", async |faults: Faults| {
        let store = Store::new();
        let engine = store.open();
        let value = "x".repeat(10_000);
        assert_eq!(put(&engine, "before", &value).await, Ok(()));
        faults.set("w");
        let failed = put(&engine, "failed", &value).await;
        assert!(matches!(failed, Err(CommitError::Unknown(_))), "{failed:?}");
        for _ in 0..3 {
            let refused = put(&engine, "refused", &value).await;
            assert!(has_no_space(&refused), "{refused:?}");
            assert_eq!(get(&engine, "before").await.as_ref(), Some(&value), "reads go on");
        }
        faults.clear();
        until("the engine is healthy", async || engine.health().await.is_ok()).await;
        assert_eq!(get(&engine, "refused").await, None);
        assert_eq!(put(&engine, "after", &value).await, Ok(()));
        drop(engine);
        let engine = store.open();
        assert_eq!(get(&engine, "before").await.as_ref(), Some(&value));
        assert_eq!(get(&engine, "after").await.as_ref(), Some(&value));
    });
}

#[test]
fn failing_background_work_is_noticed_and_heals() {
    in_child("failing_background_work_is_noticed_and_heals", async |faults: Faults| {
        let store = Store::new();
        let engine = store.open();
        faults.set("t");
        let value = "x".repeat(20_000);
        let mut acknowledged = Vec::new();
        for number in 0.. {
            assert!(number < 1000, "the failure is noticed in the end");
            match put(&engine, &format!("row {number}"), &value).await {
                Ok(()) => acknowledged.push(number),
                refused if has_no_space(&refused) => break,
                other => panic!("{other:?}"),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(engine.health().await.is_err());
        faults.clear();
        until("the engine is healthy", async || engine.health().await.is_ok()).await;
        for number in acknowledged {
            assert_eq!(get(&engine, &format!("row {number}")).await.as_ref(), Some(&value), "row {number}");
        }
        assert_eq!(put(&engine, "after", "1").await, Ok(()));
    });
}

#[test]
fn a_hanging_sync_shows_in_health_and_blocks_no_reader() {
    in_child("a_hanging_sync_shows_in_health_and_blocks_no_reader", async |faults: Faults| {
        let store = Store::new();
        let mut options = store.options();
        options.commit_wait = Duration::from_millis(300);
        options.stall_after = Duration::from_millis(200);
        options.max_queued_commits = 2;
        let engine = DiskEngine::open(options).expect("the directory can be opened");
        assert_eq!(put(&engine, "before", "1").await, Ok(()));
        faults.set("h");
        let (hanging, ()) = tokio::join!(put(&engine, "hanging", "1"), async {
            until("the stall shows", async || engine.health().await.is_err()).await;
        });
        assert!(matches!(hanging, Err(CommitError::Unknown(_))), "{hanging:?}");
        assert_eq!(get(&engine, "before").await.as_deref(), Some("1"), "reads go on");
        // Two may wait behind the hanging one; the third is turned away at once.
        let waiting = tokio::join!(put(&engine, "a", ""), put(&engine, "b", ""), put(&engine, "c", ""));
        assert!(matches!(waiting.0, Err(CommitError::Unknown(_))), "{waiting:?}");
        assert!(is_busy(&waiting.2), "{waiting:?}");
        faults.clear();
        until("the engine is healthy", async || engine.health().await.is_ok()).await;
        // Queued behind the others, so its outcome comes after theirs.
        assert_eq!(put(&engine, "after", "1").await, Ok(()));
        assert_eq!(get(&engine, "hanging").await.as_deref(), Some("1"), "it was only slow");
    });
}
