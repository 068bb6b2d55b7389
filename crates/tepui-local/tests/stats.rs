//! What the engine and the extents count is what was done with them.

use tepui_local::{DiskEngine, DiskExtents, DiskTransaction, EngineOptions, ExtentsOptions, Stepper};
use tepui_storage::{Commit, CommitError, Engine, ExtentWriter, Extents, Snapshot, Transaction, Write};

fn put(key: &str, bytes: usize) -> Commit {
    vec![Write::Put(key.to_owned().into(), vec![7; bytes].into())].into()
}

async fn commit_stepped(
    stepper: &mut Stepper,
    transaction: DiskTransaction,
    commit: Commit,
) -> Result<(), CommitError> {
    let task = tokio::spawn(transaction.commit(commit));
    while !stepper.commit() {
        tokio::task::yield_now().await;
    }
    task.await.expect("a commit does not panic")
}

#[tokio::test]
async fn the_engine_counts_commits_and_bytes() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let options = EngineOptions { memtable_bytes: 64 << 10, ..EngineOptions::new(directory.path()) };
    let (engine, mut stepper) = DiskEngine::open_stepped(options).expect("a directory can be opened");
    let older = engine.begin().await.expect("it is open");
    for number in 0..200 {
        let transaction = engine.begin().await.expect("it is open");
        let commit = put(&format!("key {}", number % 50), 1024);
        assert_eq!(commit_stepped(&mut stepper, transaction, commit).await, Ok(()));
        while stepper.flush() || stepper.compact(false) {}
    }
    assert_eq!(commit_stepped(&mut stepper, older, put("key 0", 1)).await, Err(CommitError::Conflict));
    while stepper.flush() || stepper.compact(true) {}
    let stats = engine.stats();
    assert_eq!(
        (stats.commits_ok, stats.commits_conflict, stats.commits_unknown, stats.commits_failed),
        (200, 1, 0, 0)
    );
    assert_eq!((stats.group_size.sum, stats.group_size.counts.iter().sum()), (201, 201));
    assert_eq!(stats.commit_wait.counts.iter().sum::<u64>(), 201);
    assert_eq!(stats.sync.counts.iter().sum::<u64>(), 200, "the conflict wrote nothing");
    assert_eq!((stats.queue_length, stats.corrupt_reads, stats.lost_ranges), (0, 0, 0));
    assert!(stats.wal_bytes > 0 && stats.table_bytes > 0);
    assert!(
        stats.compaction_read_bytes > stats.compaction_written_bytes,
        "many rows were replaced: {stats:?}"
    );
    assert!(stats.compaction_written_bytes > 0);
    let space = engine.disk_space().expect("this system tells");
    assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
    assert_eq!(engine.status(), Ok(()));
    engine.close();
}

#[tokio::test]
async fn damaged_reads_are_counted() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let options = || EngineOptions { memtable_bytes: 1 << 10, ..EngineOptions::new(directory.path()) };
    let engine = DiskEngine::open(options()).expect("a directory can be opened");
    for number in 0..20 {
        let transaction = engine.begin().await.expect("it is open");
        transaction.commit(put(&format!("key {number}"), 1024)).await.expect("it is written");
    }
    while engine.stats().table_bytes == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    engine.close();
    drop(engine);
    for entry in std::fs::read_dir(directory.path().join("rows")).expect("it is a directory") {
        let path = entry.expect("it can be read").path();
        let is_table =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<u64>().is_ok());
        if is_table {
            let mut bytes = std::fs::read(&path).expect("it can be read");
            bytes.iter_mut().take(200).for_each(|byte| *byte ^= 1);
            std::fs::write(&path, bytes).expect("it can be written");
        }
    }
    let engine = DiskEngine::open(options()).expect("blocks are not read yet");
    let transaction = engine.begin().await.expect("it is open");
    let mut failed = 0;
    for number in 0..20 {
        failed += u64::from(transaction.get(format!("key {number}").as_bytes()).await.is_err());
    }
    assert!(failed > 0);
    assert_eq!(engine.stats().corrupt_reads, failed);
}

#[tokio::test]
async fn extents_tell_their_bytes() {
    const BYTES: usize = 3 << 20;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let extents =
        DiskExtents::open(ExtentsOptions::new(directory.path().join("extents"))).expect("it can be opened");
    let mut written = Vec::new();
    for _ in 0..2 {
        let mut writer = extents.begin().await.expect("it is open");
        writer.write(vec![1; BYTES].into()).await.expect("it is written");
        written.push(writer.finish().await.expect("it is synced"));
    }
    let before = extents.stats();
    assert!(before.bytes >= 2 * BYTES as u64);
    assert_eq!(before.sync.counts.iter().sum::<u64>(), 2);
    extents.free(vec![written[0]]).await.expect("it is freed");
    let after = extents.stats();
    assert!(after.bytes < before.bytes, "{after:?}");
    assert!(after.free_bytes > before.free_bytes, "{after:?}");
    written.into_iter().for_each(|extent| extents.unpin(extent));
}
