//! Copies within the server.

use super::*;

pub(crate) fn source(name: &str, revision: Revision) -> CopySource {
    CopySource {
        url: format!("http://127.0.0.1:10000/{ACCOUNT}/{CONTAINER}/{name}?sig=secret"),
        place: SourcePlace::Here(SourceBlob { account: ACCOUNT.to_owned(), blob: path(name), revision }),
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
        seal: None,
        immutability: None,
        legal_hold: None,
        encryption: Encryption::default(),
        preconditions: Preconditions::default(),
    }
}

/// A copy that shares the content of its source.
pub(crate) fn shared(copy: impl Into<Call>) -> Operation {
    match copy.into() {
        Call::Operation(operation) => operation,
        other => panic!("not shared: {other:?}"),
    }
}

const WAITING: CopyPace = CopyPace::Waiting(Checksums { md5: None, crc64: None });

#[tokio::test]
async fn copies_share_their_bytes() {
    let bench = Bench::new().await;
    let large = bytes(LARGE, 4);
    bench.put("a", &large).await;
    let taken = bench.snapshot("a").await;
    let operation = shared(copy(source("a", Revision::Base), "b", CopyPace::Background));
    let Ok(Reply::CopyStarted { copy_id, status, .. }) = bench.run(operation).await else {
        panic!("no copy")
    };
    assert_eq!((status, bench.count_extents().await), (CopyStatus::Success, 1));
    let state = bench.properties("b").await.unwrap().state.copy.unwrap();
    assert_eq!((state.id, state.progress), (copy_id, (LARGE as u64, LARGE as u64)));
    assert!(!state.source.contains("secret"));
    // Over itself, and back from a snapshot.
    let same = copy(source("b", Revision::Base), "b", CopyPace::Background);
    bench.run(shared(same)).await.unwrap();
    bench.put("a", b"new").await;
    let back = copy(source("a", Revision::Snapshot(taken)), "a", WAITING);
    bench.run(shared(back)).await.unwrap();
    assert!(bench.get("a").await.unwrap() == large && bench.get("b").await.unwrap() == large);
    bench.delete("a", Revision::Base, Some(DeleteSnapshots::Include)).await.unwrap();
    bench.collect_garbage().await;
    assert!(bench.get("b").await.unwrap() == large);
    bench.delete("b", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}

#[tokio::test]
async fn append_blobs_go_on_from_what_they_share() {
    let bench = Bench::new().await;
    appends::create(&bench, "a").await;
    appends::append(&bench, "a", b"shared ").await.unwrap();
    appends::append(&bench, "a", &bytes(LARGE, 1)).await.unwrap();
    let both = shared(copy(source("a", Revision::Base), "b", CopyPace::Background));
    bench.run(both).await.unwrap();
    let start = bench.get("a").await.unwrap();
    for round in 0..3 {
        appends::append(&bench, "a", b"A").await.unwrap();
        appends::append(&bench, "b", b"B").await.unwrap();
        assert!(bench.get("a").await.unwrap() == [&start[..], &b"AAA"[..=round]].concat());
        assert!(bench.get("b").await.unwrap() == [&start[..], &b"BBB"[..=round]].concat());
    }
    bench.delete("a", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert!(bench.get("b").await.unwrap() == [&start[..], b"BBB"].concat());
    bench.delete("b", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}

/// Source and copy share a content, and each appends to its own.
#[tokio::test]
async fn what_is_appended_after_a_copy_goes_with_its_blob() {
    let bench = Bench::new().await;
    for (first, other) in [("a", "b"), ("b", "a")] {
        appends::create(&bench, "a").await;
        appends::append(&bench, "a", &bytes(LARGE, 1)).await.unwrap();
        let both = shared(copy(source("a", Revision::Base), "b", CopyPace::Background));
        bench.run(both).await.unwrap();
        for _ in 0..3 {
            appends::append(&bench, first, &bytes(LARGE, 2)).await.unwrap();
        }
        assert_eq!(bench.count_extents().await, 4);
        bench.delete(first, Revision::Base, None).await.unwrap();
        bench.collect_garbage().await;
        assert_eq!(bench.count_extents().await, 1, "only what {other} has is kept");
        assert!(bench.get(other).await.unwrap() == bytes(LARGE, 1));
        bench.delete(other, Revision::Base, None).await.unwrap();
        bench.collect_garbage().await;
        assert_eq!(bench.count_extents().await, 0);
    }
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
        let operation = shared(copy(from, "b", pace));
        let error = bench.run_as(Allowed::Fully, operation).await.unwrap_err();
        assert_eq!((error.code, error.status()), (code, status), "{case}");
    }
}

/// Puts a block that is a range of another blob, as the server does.
async fn put_block_from(
    bench: &Bench,
    from: &str,
    range: Option<ByteRange>,
    checksums: Checksums,
) -> Result<Reply, ErrorCode> {
    let from = FromUrl { source: source(from, Revision::Base), range, max_bytes: 4 << 30, checksums };
    let operation = UploadOperation::PutBlock(PutBlock {
        blob: path("b"),
        id: block_id("1"),
        piece: Piece::FromUrl(Box::new(from.clone())),
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    });
    let caller = Caller::owner(ACCOUNT);
    let put = || async {
        let mut upload = bench.service().begin_upload(&operation);
        let mut download = bench.service().open_source(caller, &from.source, range).await?;
        while let Some(next) = download.next_or_hole().await? {
            match next {
                BytesOrHole::Bytes(pieces) => {
                    for bytes in pieces {
                        upload.write(bytes).await?;
                    }
                }
                BytesOrHole::Hole(bytes) => upload.write_hole(bytes).await?,
            }
        }
        let uploaded = upload.finish().await?;
        bench.service().execute_upload(caller, &operation, uploaded).await
    };
    repeat(put).await.answer.map_err(|error| error.code)
}

#[tokio::test]
async fn parts_of_blobs_become_blocks() {
    let bench = Bench::new().await;
    bench.put("a", b"Hello World").await;
    let range = Some(ByteRange { first: 6, last: Some(10) });
    put_block_from(&bench, "a", range, Checksums::default()).await.unwrap();
    bench.put_list("b", &[("1", BlockSearch::Latest)]).await.unwrap();
    assert_eq!(bench.get("b").await.unwrap(), b"World");
}

#[tokio::test]
async fn holes_of_page_blobs_are_not_written() {
    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    let bench = Bench::new().await;
    pages::create(&bench, GIB).await;
    let none = Checksums::default();
    for _ in 0..2 {
        let reply = put_block_from(&bench, "disk", None, none).await;
        let Ok(Reply::BlockPut { checksums, .. }) = reply else { panic!("{reply:?}") };
        assert_eq!(checksums.crc64.unwrap().0, crc64_of_zeros(GIB));
        assert_eq!(bench.count_extents().await, 0, "nothing is stored");
    }
    // Also twice in a list, and once more when it is committed.
    let twice = [("1", BlockSearch::Latest), ("1", BlockSearch::Latest)];
    bench.put_list("b", &twice).await.unwrap();
    bench.put_list("b", &[("1", BlockSearch::Committed)]).await.unwrap();
    assert_eq!(bench.properties("b").await.unwrap().state.bytes, GIB);
    let mut get = Bench::get_operation("b", Revision::Base);
    get.range = Some(ByteRange { first: GIB - 10, last: None });
    assert_eq!(bench.read(get).await.unwrap().1, [0; 10]);
    // A block of a block of zeros is one, too.
    put_block_from(&bench, "b", None, none).await.unwrap();
    assert_eq!(bench.count_extents().await, 0);

    pages::write(&bench, 2048..2049, 7).await.unwrap();
    let with_hole = Some(ByteRange { first: MIB - 4096, last: Some(MIB + 4095) });
    put_block_from(&bench, "disk", with_hole, none).await.unwrap();
    bench.put_list("b", &[("1", BlockSearch::Latest)]).await.unwrap();
    let expected = [vec![0; 4096], bytes(512, 7), vec![0; 4096 - 512]].concat();
    assert!(bench.get("b").await.unwrap() == expected);
    let md5 = Checksums { md5: Some(Md5Sum::of(&expected)), crc64: None };
    put_block_from(&bench, "disk", with_hole, md5).await.unwrap();
    // What has to be written is bounded.
    let refused = Err(ErrorCode::RequestBodyTooLarge);
    assert_eq!(put_block_from(&bench, "disk", None, none).await, refused);
    pages::clear(&bench, 2048..2049).await;
    assert_eq!(put_block_from(&bench, "disk", None, md5).await, refused);
}

pub(crate) fn from_elsewhere(to: &str, bytes: Option<u64>) -> CopyBlob {
    let head = SourceHead {
        http: HttpProperties { content_type: Some("image/png".to_owned()), ..HttpProperties::default() },
        metadata: Metadata::new(pairs("color", "red")).unwrap(),
        bytes,
    };
    let url = "http://elsewhere.example/cat?sig=secret".to_owned();
    let place = SourcePlace::Fetched(Box::new(head));
    let source = CopySource { url, place, authorization: None, conditions: Conditions::default() };
    copy(source, to, CopyPace::Background)
}

/// Starts a copy from elsewhere. Returns its id, too.
pub(crate) async fn start<E: Engine, X: Extents + Clone>(
    bench: &Bench<E, X>,
    copy: &CopyBlob,
) -> Result<(String, CopyUnderWay), ErrorCode> {
    let start = || async { bench.service().start_copy(Caller::owner(ACCOUNT), copy).await };
    let (reply, copy) = repeat(start).await.answer.map_err(|error| error.code)?;
    match reply {
        Reply::CopyStarted { copy_id, status: CopyStatus::Pending, .. } => Ok((copy_id, copy)),
        other => panic!("not pending: {other:?}"),
    }
}

pub(crate) async fn fetched<E: Engine, X: Extents + Clone>(
    bench: &Bench<E, X>,
    operation: &UploadOperation,
    bytes: &[u8],
) -> Uploaded {
    let fetch = || async {
        let mut upload = bench.service().begin_upload(operation);
        upload.write(Bytes::copy_from_slice(bytes)).await?;
        upload.finish().await
    };
    repeat_until_done(fetch).await
}

pub(crate) async fn abort<E: Engine, X: Extents + Clone>(
    bench: &Bench<E, X>,
    name: &str,
    copy_id: &str,
) -> Result<Reply, ErrorCode> {
    let (blob, copy_id) = (path(name), copy_id.to_owned());
    bench.run(Operation::AbortCopy { blob, copy_id, preconditions: Preconditions::default() }).await
}

#[tokio::test]
async fn a_copy_from_elsewhere_takes_its_time() {
    let bench = Bench::of_one_node().await;
    bench.put("a", b"before").await;
    let operation = from_elsewhere("a", Some(LARGE as u64));
    let (id, copy) = start(&bench, &operation).await.unwrap();
    copy.add(7);
    let state = bench.properties("a").await.unwrap().state;
    let shown = state.copy.unwrap();
    assert_eq!((shown.status, shown.progress, state.bytes), (CopyStatus::Pending, (7, LARGE as u64), 0));
    assert_eq!((shown.id, shown.source.as_str()), (id, "http://elsewhere.example/cat"));
    let lease = LeaseAction::Acquire { duration: LeaseDuration::Infinite, proposed: None };
    let lease = Operation::LeaseBlob { blob: path("a"), action: lease, conditions: Conditions::default() };
    let pending = ErrorCode::PendingCopyOperation;
    assert_eq!(bench.run(lease).await, Err(pending));
    assert_eq!(bench.put_if("a", b"x", Preconditions::default()).await.map(drop), Err(pending));
    assert_eq!(bench.put_block("a", "1", b"x").await, Err(pending));
    assert_eq!(bench.delete("a", Revision::Base, None).await, Err(pending));
    assert_eq!(start(&bench, &operation).await.map(drop), Err(pending));
    // Cleaning up does not take it for one that was left behind.
    bench.collect_garbage().await;
    let uploaded = fetched(&bench, &UploadOperation::CopyBlob(operation), &bytes(LARGE, 3)).await;
    bench.service().finish_copy(&copy, Ok(uploaded)).await;
    drop(copy);
    let state = bench.properties("a").await.unwrap().state;
    let shown = state.copy.unwrap();
    assert_eq!((shown.status, shown.progress), (CopyStatus::Success, (LARGE as u64, LARGE as u64)));
    assert!(shown.completed.is_some() && state.http.content_type.as_deref() == Some("image/png"));
    assert_eq!(state.metadata.iter().collect::<Vec<_>>(), [("color", "red")]);
    assert!(bench.get("a").await.unwrap() == bytes(LARGE, 3));
    bench.delete("a", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}

#[tokio::test]
async fn a_copy_from_elsewhere_is_aborted() {
    let bench = Bench::of_one_node().await;
    let operation = from_elsewhere("a", None);
    let (id, copy) = start(&bench, &operation).await.unwrap();
    assert_eq!(abort(&bench, "a", "other").await, Err(ErrorCode::CopyIdMismatch));
    assert_eq!(abort(&bench, "a", &id).await, Ok(Reply::CopyAborted));
    tokio::time::timeout(Duration::from_secs(5), bench.service().keep_copy(&copy)).await.unwrap();
    assert_eq!(abort(&bench, "a", &id).await, Err(ErrorCode::NoPendingCopyOperation));
    // What was fetched all the same is not kept.
    let uploaded = fetched(&bench, &UploadOperation::CopyBlob(operation), &bytes(LARGE, 3)).await;
    bench.service().finish_copy(&copy, Ok(uploaded)).await;
    let state = bench.properties("a").await.unwrap().state;
    assert_eq!((state.bytes, state.copy.unwrap().status), (0, CopyStatus::Aborted));
    tokio::task::yield_now().await;
    assert_eq!(bench.count_extents().await, 0);
    bench.put("a", b"free again").await;
}

#[tokio::test]
async fn a_copy_from_elsewhere_fails() {
    let bench = Bench::of_one_node().await;
    let (_, copy) = start(&bench, &from_elsewhere("a", None)).await.unwrap();
    bench.service().finish_copy(&copy, Err("404 BlobNotFound \"gone\"".to_owned())).await;
    let shown = bench.properties("a").await.unwrap().state.copy.unwrap();
    assert_eq!(shown.status, CopyStatus::Failed);
    assert_eq!(shown.description.as_deref(), Some("404 BlobNotFound \"gone\""));
    // A copy without a task, as after a restart.
    let (_, lost) = start(&bench, &from_elsewhere("b", None)).await.unwrap();
    drop(lost);
    let fail = || async { bench.service().fail_interrupted_copies(Interrupted::OfOtherProcesses).await };
    repeat_until_done(fail).await;
    let shown = bench.properties("b").await.unwrap().state.copy.unwrap();
    assert!(shown.status == CopyStatus::Failed && shown.description.unwrap().contains("stopped"));
    bench.put("b", b"free again").await;
    // And one whose container was deleted.
    let operation = from_elsewhere("c", None);
    let (_, copy) = start(&bench, &operation).await.unwrap();
    bench.delete_container().await.unwrap();
    bench.collect_garbage().await;
    let uploaded = fetched(&bench, &UploadOperation::CopyBlob(operation), &bytes(LARGE, 3)).await;
    bench.service().finish_copy(&copy, Ok(uploaded)).await;
    tokio::task::yield_now().await;
    assert_eq!(bench.count_extents().await, 0);
}

#[tokio::test]
async fn an_archived_source_of_another_account_cannot_be_read() {
    let bench = Bench::new().await;
    bench.put("a", b"x").await;
    let archive = Operation::SetBlobTier {
        blob: path("a"),
        revision: Revision::Base,
        tier: AccessTier::Archive,
        priority: None,
        preconditions: Preconditions::default(),
    };
    bench.run(archive).await.unwrap();
    let create = Operation::CreateContainer {
        container: container(),
        metadata: Metadata::default(),
        public_access: None,
        encryption: ContainerEncryption::default(),
    };
    repeat_until_done(|| async { bench.service().execute(Caller::owner("other"), &create).await }).await;
    let put = PutBlobFromUrl {
        blob: path("b"),
        source: source("a", Revision::Base),
        checksums: Checksums::default(),
        copy_properties: true,
        new: NewBlob::default(),
        tags: CopyTags::These(Tags::default()),
        preconditions: Preconditions::default(),
    };
    for operation in [
        shared(copy(source("a", Revision::Base), "b", CopyPace::Background)),
        shared(copy(source("a", Revision::Base), "b", WAITING)),
        shared(put),
    ] {
        for (account, expected) in
            [(ACCOUNT, ErrorCode::BlobArchived), ("other", ErrorCode::CannotVerifyCopySource)]
        {
            let attempt = || async { bench.service().execute(Caller::owner(account), &operation).await };
            let error = repeat(attempt).await.answer.err().unwrap();
            assert_eq!((error.code, error.status()), (expected, 409), "{account} {operation:?}");
        }
    }
    let from = source("a", Revision::Base);
    let open = || async { bench.service().open_source(Caller::owner("other"), &from, None).await };
    assert_eq!(repeat(open).await.answer.err().unwrap().code, ErrorCode::CannotVerifyCopySource);
}
