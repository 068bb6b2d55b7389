//! Snapshots, versions, deletion, and what can be restored.

use super::*;

fn undelete(name: &str) -> Operation {
    Operation::UndeleteBlob { blob: path(name) }
}

#[tokio::test]
async fn snapshots_stay_as_they_were() {
    let bench = Bench::new().await;
    let (old, new) = (bytes(LARGE, 1), bytes(LARGE, 2));
    bench.put("a", &old).await;
    let (first, second) = (bench.snapshot("a").await, bench.snapshot("a").await);
    assert!(first < second);
    bench.put("a", &new).await;
    assert!(bench.get_revision("a", Revision::Snapshot(first)).await.unwrap() == old);
    assert!(bench.get("a").await.unwrap() == new);
    assert_eq!(bench.delete("a", Revision::Base, None).await, Err(ErrorCode::SnapshotsPresent));
    assert_eq!(bench.delete("a", Revision::Snapshot(first), None).await, Ok(true));
    assert_eq!(bench.get_revision("a", Revision::Snapshot(first)).await, Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.delete("a", Revision::Base, Some(DeleteSnapshots::Only)).await, Ok(true));
    assert!(bench.get("a").await.is_ok());
    assert_eq!(bench.delete("a", Revision::Base, None).await, Ok(true));
}

/// More than are deleted in one step.
const VERY_MANY: usize = 2100;

#[tokio::test]
async fn very_many_snapshots_go_with_their_blob() {
    let bench = Bench::new().await;
    bench.put("a", b"x").await;
    for _ in 0..VERY_MANY {
        bench.snapshot("a").await;
    }
    assert_eq!(bench.delete("a", Revision::Base, Some(DeleteSnapshots::Include)).await, Ok(true));
    let mut query = lists::query("", None, 10);
    query.include.snapshots = true;
    assert!(lists::page(&bench, query).await.blobs.is_empty());
}

#[tokio::test]
async fn a_hold_on_one_of_many_keeps_all() {
    let bench = Bench::new().await;
    bench.put("a", b"x").await;
    let first = bench.snapshot("a").await;
    for _ in 1..VERY_MANY {
        bench.snapshot("a").await;
    }
    let last = bench.snapshot("a").await;
    for (held, snapshots) in [
        (Revision::Snapshot(last), DeleteSnapshots::Only),
        (Revision::Snapshot(last), DeleteSnapshots::Include),
        (Revision::Base, DeleteSnapshots::Include),
    ] {
        let hold = |hold| Operation::SetLegalHold { blob: path("a"), revision: held, hold };
        bench.run(hold(true)).await.unwrap();
        let refused = bench.delete("a", Revision::Base, Some(snapshots)).await;
        assert_eq!(refused, Err(ErrorCode::BlobImmutableDueToLegalHold), "{held:?} {snapshots:?}");
        assert!(bench.get_revision("a", Revision::Snapshot(first)).await.is_ok(), "{held:?} {snapshots:?}");
        bench.run(hold(false)).await.unwrap();
    }
}

#[tokio::test]
async fn deleted_blobs_are_restored() {
    let bench = Bench::new().await;
    bench.retain_deleted(7).await;
    bench.put("a", b"first").await;
    let taken = bench.snapshot("a").await;
    assert_eq!(bench.run(undelete("a")).await, Ok(Reply::BlobUndeleted));
    assert_eq!(bench.run(undelete("b")).await, Err(ErrorCode::BlobNotFound));
    let deleted = bench.delete("a", Revision::Base, Some(DeleteSnapshots::Include)).await;
    assert_eq!(deleted, Ok(false));
    assert_eq!(bench.get("a").await, Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.get_revision("a", Revision::Snapshot(taken)).await, Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.run(undelete("a")).await, Ok(Reply::BlobUndeleted));
    assert_eq!(bench.get("a").await.unwrap(), b"first");
    assert!(bench.get_revision("a", Revision::Snapshot(taken)).await.is_ok());
}

#[tokio::test]
async fn what_is_overwritten_is_a_deleted_snapshot() {
    let bench = Bench::new().await;
    bench.retain_deleted(7).await;
    bench.put("a", b"first").await;
    bench.put("a", b"second").await;
    let mut query = lists::query("", None, 10);
    query.include.deleted = true;
    assert_eq!(lists::page(&bench, query).await.blobs, ["a snapshot deleted", "a"]);
}

#[tokio::test]
async fn versions_are_kept() {
    let options = BlobOptions { versioned_accounts: vec![ACCOUNT.to_owned()], ..BlobOptions::default() };
    let bench = Bench::with(options).await;
    let first = bench.put("a", b"first").await.version.unwrap();
    let second = bench.put("a", &bytes(LARGE, 1)).await.version.unwrap();
    assert_eq!(bench.get_revision("a", Revision::Version(first)).await.unwrap(), b"first");
    let current = bench.delete("a", Revision::Version(second), None).await;
    assert_eq!(current, Err(ErrorCode::OperationNotAllowedOnRootBlob));
    assert_eq!(bench.delete("a", Revision::Base, None).await, Ok(false));
    assert_eq!(bench.get("a").await, Err(ErrorCode::BlobNotFound));
    assert!(bench.get_revision("a", Revision::Version(second)).await.unwrap() == bytes(LARGE, 1));
    assert_eq!(bench.delete("a", Revision::Version(second), None).await, Ok(true));
    assert_eq!(bench.get_revision("a", Revision::Version(second)).await, Err(ErrorCode::BlobNotFound));
}

#[tokio::test]
async fn others_run_while_very_many_snapshots_are_looked_through() {
    const SNAPSHOTS: usize = 8000;
    let bench = Bench::new().await;
    bench.retain_deleted(7).await;
    bench.put("a", b"x").await;
    for _ in 0..SNAPSHOTS {
        bench.snapshot("a").await;
    }
    let (deleted, turns) = turns_during(bench.delete("a", Revision::Base, Some(DeleteSnapshots::Only))).await;
    deleted.unwrap();
    assert!(turns >= SNAPSHOTS / 8000, "deleting them: {turns}");
    // They are still there, deleted.
    let (deleted, turns) = turns_during(bench.delete("a", Revision::Base, None)).await;
    deleted.unwrap();
    assert!(turns >= SNAPSHOTS / 8000, "looking for others: {turns}");
}
