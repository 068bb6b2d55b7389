//! Copies within the server.

use super::*;

pub(crate) fn source(name: &str, revision: Revision) -> CopySource {
    CopySource {
        url: format!("http://127.0.0.1:10000/{ACCOUNT}/{CONTAINER}/{name}?sig=secret"),
        place: SourcePlace::Here { account: ACCOUNT.to_owned(), blob: path(name), revision },
        authorization: None,
        conditions: Conditions::default(),
    }
}

pub(crate) fn copy(from: CopySource, to: &str, pace: CopyPace) -> CopyBlob {
    CopyBlob {
        blob: path(to),
        source: from,
        pace,
        metadata: Metadata::default(),
        tags: CopyTags::These(Tags::default()),
        tier: None,
        priority: None,
        seal: false,
        immutability: None,
        legal_hold: None,
        encryption: Encryption::default(),
        preconditions: Preconditions::default(),
    }
}

const WAITING: CopyPace = CopyPace::Waiting(Checksums { md5: None, crc64: None });

#[tokio::test]
async fn copies_share_their_bytes() {
    let bench = Bench::new().await;
    let large = bytes(LARGE, 4);
    bench.put("a", &large).await;
    let taken = bench.snapshot("a").await;
    let operation = Operation::CopyBlob(copy(source("a", Revision::Base), "b", CopyPace::Background));
    assert!(bench.service.begin_upload(&operation).is_none());
    let Ok(Reply::CopyStarted { copy_id, status, .. }) = bench.run(operation).await else {
        panic!("no copy")
    };
    assert_eq!((status, bench.extents.count()), (CopyStatus::Success, 1));
    let state = bench.properties("b").await.unwrap().copy.unwrap();
    assert_eq!((state.id, state.progress), (copy_id, (LARGE as u64, LARGE as u64)));
    assert!(!state.source.contains("secret"));
    // Over itself, and back from a snapshot.
    let same = copy(source("b", Revision::Base), "b", CopyPace::Background);
    bench.run(Operation::CopyBlob(same)).await.unwrap();
    bench.put("a", b"new").await;
    let back = copy(source("a", Revision::Snapshot(taken)), "a", WAITING);
    bench.run(Operation::CopyBlob(back)).await.unwrap();
    assert!(bench.get("a").await.unwrap() == large && bench.get("b").await.unwrap() == large);
    bench.delete("a", Revision::Base, Some(DeleteSnapshots::Include)).await.unwrap();
    bench.service.reclaim_once().await.unwrap();
    assert!(bench.get("b").await.unwrap() == large);
    bench.delete("b", Revision::Base, None).await.unwrap();
    bench.service.reclaim_once().await.unwrap();
    assert_eq!(bench.extents.count(), 0);
}

#[tokio::test]
async fn append_blobs_go_on_from_what_they_share() {
    let bench = Bench::new().await;
    appends::create(&bench, "a").await;
    appends::append(&bench, "a", b"shared ").await.unwrap();
    appends::append(&bench, "a", &bytes(LARGE, 1)).await.unwrap();
    let both = Operation::CopyBlob(copy(source("a", Revision::Base), "b", CopyPace::Background));
    bench.run(both).await.unwrap();
    let start = bench.get("a").await.unwrap();
    for round in 0..3 {
        appends::append(&bench, "a", b"A").await.unwrap();
        appends::append(&bench, "b", b"B").await.unwrap();
        assert!(bench.get("a").await.unwrap() == [&start[..], &b"AAA"[..=round]].concat());
        assert!(bench.get("b").await.unwrap() == [&start[..], &b"BBB"[..=round]].concat());
    }
    bench.delete("a", Revision::Base, None).await.unwrap();
    bench.service.reclaim_once().await.unwrap();
    assert!(bench.get("b").await.unwrap() == [&start[..], b"BBB"].concat());
    bench.delete("b", Revision::Base, None).await.unwrap();
    bench.service.reclaim_once().await.unwrap();
    assert_eq!(bench.extents.count(), 0);
}

#[tokio::test]
async fn sources_that_cannot_be_copied() {
    use ErrorCode::*;
    let bench = Bench::new().await;
    bench.put("a", b"x").await;
    let stale = Conditions { if_match: Some(EtagMatch::OneOf(vec![None])), ..Conditions::default() };
    let future = Timestamp::parse_iso("2030-01-01").unwrap();
    let unchanged = Conditions { modified_since: Some(future), ..Conditions::default() };
    for (case, name, conditions, pace, code, status) in [
        ("missing", "none", Conditions::default(), CopyPace::Background, BlobNotFound, 404),
        ("missing, waiting", "none", Conditions::default(), WAITING, CannotVerifyCopySource, 404),
        ("stale", "a", stale.clone(), CopyPace::Background, SourceConditionNotMet, 412),
        ("stale, waiting", "a", stale, WAITING, CannotVerifyCopySource, 412),
        ("unchanged", "a", unchanged.clone(), CopyPace::Background, SourceConditionNotMet, 412),
        ("unchanged, waiting", "a", unchanged, WAITING, CannotVerifyCopySource, 304),
    ] {
        let from = CopySource { conditions, ..source(name, Revision::Base) };
        let operation = Operation::CopyBlob(copy(from, "b", pace));
        let error = bench.run_as(Allowed::Fully, operation).await.unwrap_err();
        assert_eq!((error.code, error.status()), (code, status), "{case}");
    }
}

#[tokio::test]
async fn parts_of_blobs_become_blocks() {
    let bench = Bench::new().await;
    bench.put("a", b"Hello World").await;
    let range = Some(ByteRange { first: 6, last: Some(10) });
    let from = FromUrl {
        source: source("a", Revision::Base),
        range,
        max_bytes: 1 << 20,
        checksums: Checksums::default(),
    };
    let operation = Operation::PutBlock(PutBlock {
        blob: path("b"),
        id: block_id("1"),
        piece: Piece::FromUrl(Box::new(from.clone())),
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    });
    let caller = Caller::owner(ACCOUNT);
    let mut upload = bench.service.begin_upload(&operation).unwrap();
    let mut download =
        bench.service.open_source(caller, &from.source, range).await.map_err(|e| e.code).unwrap();
    while let Some(pieces) = download.next().await.unwrap() {
        for bytes in pieces {
            upload.write(bytes).await.unwrap();
        }
    }
    let uploaded = upload.finish().await.unwrap();
    bench.service.execute(caller, &operation, Some(uploaded)).await.map(drop).unwrap();
    bench.put_list("b", &[("1", BlockSearch::Latest)]).await.unwrap();
    assert_eq!(bench.get("b").await.unwrap(), b"World");
}
