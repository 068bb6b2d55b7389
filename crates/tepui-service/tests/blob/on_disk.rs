//! The service on disk: committed blobs survive a restart, and the space of others is freed.

use super::*;
use std::path::Path;
use tepui_local::{DiskEngine, DiskExtents, EngineOptions};
use tepui_service::blob::Download;

fn open(path: &Path) -> Bench<FaultyEngine<DiskEngine>, FaultyExtents<DiskExtents>> {
    let engine = DiskEngine::open(EngineOptions::new(path)).unwrap();
    let mut options = tepui_local::ExtentsOptions::new(path.join("extents"));
    options.reader_timeout = Duration::from_millis(50);
    let extents = DiskExtents::open(options).unwrap();
    Bench::on(store::on(engine), store::extents(extents), BlobOptions::default())
}

fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 3) as u8 ^ seed).collect()
}

/// What the extents take on disk.
#[cfg(unix)]
fn taken(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(path.join("extents")).unwrap().map(|file| file.unwrap());
    files.map(|file| file.metadata().unwrap().blocks() * 512).sum()
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_survive_and_space_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (first, second, part) = (bytes(1, 3 << 20), bytes(2, 2 << 20), bytes(3, 1 << 20));
    let bench = open(path);
    bench.create().await.unwrap();
    bench.put("a", &first).await;
    let snapshot = bench.snapshot("a").await;
    bench.put("a", &second).await;
    for id in ["1", "2"] {
        bench.put_block("list", id, &part).await.unwrap();
    }
    bench.put_list("list", &[("2", BlockSearch::Latest), ("1", BlockSearch::Latest)]).await.unwrap();
    // Never finished, as if the server had been killed in the middle of it.
    let operation = UploadOperation::PutBlob(Bench::put_operation("half", Preconditions::default()));
    let mut half = bench.service().begin_upload(&operation);
    let _ = half.write(bytes(4, 4 << 20).into()).await;
    drop((half, bench));

    let bench = open(path);
    bench.free_orphaned_extents().await;
    let whole = [part.clone(), part].concat();
    assert_eq!(bench.get("a").await.as_ref(), Ok(&second));
    assert_eq!(bench.get_revision("a", Revision::Snapshot(snapshot)).await.as_ref(), Ok(&first));
    assert_eq!(bench.get("list").await.as_ref(), Ok(&whole));
    assert_eq!(bench.get("half").await, Err(ErrorCode::BlobNotFound));
    let live = (first.len() + second.len() + whole.len()) as u64;
    assert!((live..live + live / 10).contains(&taken(path)), "{} for {live}", taken(path));

    bench.delete("a", Revision::Snapshot(snapshot), None).await.unwrap();
    bench.collect_garbage().await;
    let live = live - first.len() as u64;
    assert!((live..live + live / 10).contains(&taken(path)), "{} for {live}", taken(path));
    bench.delete("a", Revision::Base, None).await.unwrap();
    bench.delete("list", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert!(taken(path) < 64 << 10, "{}", taken(path));
}

/// The server may be killed, or stop, between receiving bytes and keeping them.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_nobody_kept_are_found_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let open_extents = || DiskExtents::open(tepui_local::ExtentsOptions::new(path.join("extents"))).unwrap();
    let bench = open(path);
    bench.create().await.unwrap();
    bench.put("kept", &bytes(1, 1 << 20)).await;
    let leased = Preconditions { lease: Some(LeaseId(1)), ..Preconditions::default() };
    let refused = UploadOperation::PutBlob(Bench::put_operation("kept", leased));
    let uploaded = copies::fetched(&bench, &refused, &bytes(2, 1 << 20)).await;
    assert!(bench.service().execute_upload(Caller::owner(ACCOUNT), &refused, uploaded).await.is_err());
    drop(bench);
    if Course::current() == Course::Memory {
        assert_eq!(
            open_extents().unsealed_volumes(),
            [0u64; 0],
            "what was kept and what was discarded is settled"
        );
    }

    let bench = open(path);
    let operation = UploadOperation::PutBlob(Bench::put_operation("half", Preconditions::default()));
    copies::fetched(&bench, &operation, &bytes(3, 3 << 20)).await;
    drop(bench);

    let bench = open(path);
    assert!(taken(path) > 4 << 20, "{}", taken(path));
    bench.free_orphaned_extents().await;
    assert!((1 << 20..(1 << 20) + (100 << 10)).contains(&taken(path)), "{}", taken(path));
    assert_eq!(bench.get("kept").await, Ok(bytes(1, 1 << 20)));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_does_not_keep_what_was_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let bench = open(directory.path());
    bench.create().await.unwrap();
    bench.put("deleted", &bytes(1, 3 << 20)).await;
    bench.put("kept", &bytes(2, 3 << 20)).await;
    drop(bench);
    // A faulty store may have lost an attempt, of which the bytes are left.
    let bench = open(directory.path());
    bench.free_orphaned_extents().await;
    let open = async |name: &str| {
        let get = Operation::GetBlob(Bench::get_operation(name, Revision::Base));
        let begin = || async {
            let answer = bench.service().execute(Caller::owner(ACCOUNT), &get).await?;
            let mut download = answer.content.unwrap();
            download.next().await?;
            Ok(download)
        };
        repeat_until_done(begin).await
    };
    let (mut deleted, mut kept) = (open("deleted").await, open("kept").await);
    bench.delete("deleted", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert!(taken(directory.path()) < 4 << 20, "{}", taken(directory.path()));
    assert_eq!(read_on(&mut deleted).await, Err(ErrorCode::OperationTimedOut));
    while read_on(&mut kept).await == Ok(true) {}
    assert_eq!(read_on(&mut kept).await, Ok(false));
}

/// Whether there is more. A download goes on after an error.
async fn read_on<E: Engine, X: Extents>(download: &mut Download<E, X>) -> Result<bool, ErrorCode> {
    loop {
        match download.next().await {
            Err(error) if store::is_made_up(&error) => {}
            next => return next.map(|pieces| pieces.is_some()).map_err(|error| error.code),
        }
    }
}

/// A plain `ServerBusy` would make clients retry instead of deleting something.
#[tokio::test]
async fn an_upload_that_the_disk_has_no_space_for_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let engine = DiskEngine::open(EngineOptions::new(directory.path())).unwrap();
    let mut options = tepui_local::ExtentsOptions::new(directory.path().join("extents"));
    options.free_space_reserve_bytes = u64::MAX;
    let bench = Bench::on(engine, DiskExtents::open(options).unwrap(), BlobOptions::default());
    bench.create().await.unwrap();
    let operation = UploadOperation::PutBlob(Bench::put_operation("large", Preconditions::default()));
    let refused = bench.send(operation, &bytes(1, 100_000)).await.map(drop).unwrap_err();
    assert_eq!(refused.code, ErrorCode::ServerBusy);
    let message = refused.message.unwrap_or_default();
    assert!(message.starts_with("The disk of the server is full."), "{message}");
}
