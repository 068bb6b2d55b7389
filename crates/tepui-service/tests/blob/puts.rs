//! Blobs that come whole: contents, ranges, conditions, leases.

use super::*;

#[tokio::test]
async fn contents_are_read_back() {
    let bench = Bench::new().await;
    for length in [0, 1, 16 * 1024, 16 * 1024 + 1, 3_000_000] {
        let content = bytes(length, 7);
        bench.put("a", &content).await;
        let (found, read) = bench.read(Bench::get_operation("a", Revision::Base)).await.unwrap();
        assert!(read == content, "{length}");
        assert_eq!((found.properties.state.bytes, found.range), (length as u64, None));
        assert_eq!(found.properties.state.http.content_md5, Some(Md5Sum::of(&content).into()));
    }
}

#[tokio::test]
async fn ranges() {
    let bench = Bench::new().await;
    let content = bytes(LARGE, 3);
    bench.put("a", &content).await;
    bench.put("empty", b"").await;
    for (name, first, last, expected) in [
        ("a", 0, Some(0), Ok(0..=0)),
        ("a", 6, Some(1 << 40), Ok(6..=LARGE as u64 - 1)),
        ("a", LARGE as u64, None, Err(LARGE as u64)),
        ("empty", 0, Some(9), Err(0)),
    ] {
        let range = Some(ByteRange { first, last });
        let get = GetBlob { range, ..Bench::get_operation(name, Revision::Base) };
        match (bench.read(get).await, expected) {
            (Ok((found, read)), Ok(expected)) => {
                assert!(read == content[*expected.start() as usize..=*expected.end() as usize]);
                assert_eq!(found.range, Some(expected));
            }
            (Err(error), Err(length)) => {
                assert_eq!((error.code, error.resource_bytes), (ErrorCode::InvalidRange, Some(length)));
            }
            (found, _) => panic!("{name} {first} {last:?}: {:?}", found.map(|(content, _)| content)),
        }
    }
    let range = Some(ByteRange { first: 5, last: Some(9) });
    let get = GetBlob {
        range,
        range_checksum: Some(RangeChecksum::Md5),
        ..Bench::get_operation("a", Revision::Base)
    };
    let (found, read) = bench.read(get).await.unwrap();
    assert_eq!(found.checksums.md5, Some(Md5Sum::of(&read)));
    assert_eq!(read, content[5..10]);
}

#[tokio::test]
async fn conditions_of_creations() {
    use ErrorCode::*;
    let bench = Bench::new().await;
    let written = bench.put("there", b"1").await;
    let current = EtagMatch::OneOf(vec![Some(written.changed.0)]);
    let stale = EtagMatch::OneOf(vec![None]);
    let of = |if_match: Option<EtagMatch>, if_none_match: Option<EtagMatch>| Preconditions {
        conditions: Conditions { if_match, if_none_match, ..Conditions::default() },
        ..Preconditions::default()
    };
    let lease = Preconditions { lease: Some(LeaseId(9)), ..Preconditions::default() };
    for (case, name, preconditions, expected) in [
        ("new only, there", "there", of(None, Some(EtagMatch::Any)), Some(BlobAlreadyExists)),
        ("new only, missing", "new", of(None, Some(EtagMatch::Any)), None),
        ("match any, missing", "missing", of(Some(EtagMatch::Any), None), Some(ConditionNotMet)),
        ("match stale", "there", of(Some(stale), None), Some(ConditionNotMet)),
        ("none match current", "there", of(None, Some(current.clone())), Some(ConditionNotMet)),
        ("lease of nothing", "missing", lease.clone(), Some(LeaseNotPresentWithBlobOperation)),
        ("lease that is not there", "there", lease, Some(LeaseNotPresentWithBlobOperation)),
        ("match current", "there", of(Some(current), None), None),
    ] {
        let outcome = bench.put_if(name, b"2", preconditions).await;
        assert_eq!(outcome.err(), expected, "{case}");
    }
}

#[tokio::test]
async fn reads_that_need_not_be() {
    let bench = Bench::new().await;
    let written = bench.put("a", b"1").await;
    let none = EtagMatch::OneOf(vec![Some(written.changed.0)]);
    let conditions = Conditions { if_none_match: Some(none), ..Conditions::default() };
    let preconditions = Preconditions { conditions, ..Preconditions::default() };
    let get = GetBlob { preconditions, ..Bench::get_operation("a", Revision::Base) };
    let error = bench.read(get.clone()).await.map(drop).unwrap_err();
    assert_eq!((error.code, error.status()), (ErrorCode::ConditionNotMet, 304));
    let missing = GetBlob { blob: path("missing"), ..get };
    assert_eq!(bench.read(missing).await.map(drop).unwrap_err().code, ErrorCode::BlobNotFound);
}

#[tokio::test]
async fn wrong_checksums_leave_nothing() {
    let bench = Bench::new().await;
    let checksums = Checksums { md5: Some(Md5Sum([0; 16])), crc64: None };
    let upload = operation::Upload { checksums, ..upload() };
    let put = PutBlob { upload, ..Bench::put_operation("a", Preconditions::default()) };
    let error = bench.send(UploadOperation::PutBlob(put), &bytes(LARGE, 1)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Md5Mismatch);
    // The space is given back in the background.
    tokio::task::yield_now().await;
    assert_eq!((bench.get("a").await, bench.count_extents().await), (Err(ErrorCode::BlobNotFound), 0));
}

#[tokio::test]
async fn callers_that_may_only_create() {
    let bench = Bench::new().await;
    let put = || UploadOperation::PutBlob(Bench::put_operation("a", Preconditions::default()));
    assert!(bench.send_as(Allowed::IfAbsent, put(), b"1").await.is_ok());
    let error = bench.send_as(Allowed::IfAbsent, put(), b"2").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::UnauthorizedBlobOverwrite);
}

#[tokio::test]
async fn leases_of_blobs() {
    let bench = Bench::new().await;
    let written = bench.put("a", b"1").await;
    let lease = |action| Operation::LeaseBlob { blob: path("a"), action, conditions: Conditions::default() };
    let duration = LeaseDuration::from_seconds(15).unwrap();
    let id = LeaseId(77);
    let reply = bench.run(lease(LeaseAction::Acquire { duration, proposed: Some(id) })).await;
    let outcome = LeaseOutcome::Acquired(id);
    assert_eq!(reply, Ok(Reply::Lease { changed: written.changed, outcome }));
    let with = |lease| Preconditions { lease, ..Preconditions::default() };
    let refused = bench.put_if("a", b"2", with(None)).await;
    assert_eq!(refused, Err(ErrorCode::LeaseIdMissing));
    let refused = bench.put_if("a", b"2", with(Some(LeaseId(1)))).await;
    assert_eq!(refused, Err(ErrorCode::LeaseIdMismatchWithBlobOperation));
    // The holder of the lease may replace an existing blob.
    let conditions = Conditions { if_none_match: Some(EtagMatch::Any), ..Conditions::default() };
    assert!(bench.put_if("a", b"2", Preconditions { lease: Some(id), conditions }).await.is_ok());
    assert_eq!(bench.properties("a").await.unwrap().lease.unwrap().state, LeaseState::Leased);
    bench.advance(16);
    assert_eq!(bench.put_if("a", b"3", with(Some(id))).await, Err(ErrorCode::LeaseLost));
    assert!(bench.put_if("a", b"3", with(None)).await.is_ok());
    assert_eq!(bench.properties("a").await.unwrap().lease.unwrap().state, LeaseState::Available);
}

#[tokio::test]
async fn changes_of_what_is_known() {
    let bench = Bench::new().await;
    let first = bench.put("a", b"1").await;
    let set = Operation::SetBlobMetadata {
        blob: path("a"),
        metadata: Metadata::new(pairs("k", "v")).unwrap(),
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    };
    let Ok(Reply::MetadataSet(second)) = bench.run(set).await else { panic!("not set") };
    assert!(second.changed.0 > first.changed.0);
    let tags = Tags::new(pairs("env", "prod")).unwrap();
    let set = Operation::SetBlobTags {
        blob: path("a"),
        revision: Revision::Base,
        tags: tags.clone(),
        preconditions: Preconditions::default(),
    };
    assert_eq!(bench.run(set).await, Ok(Reply::TagsSet));
    let set = Operation::SetBlobTier {
        blob: path("a"),
        revision: Revision::Base,
        tier: AccessTier::Archive,
        priority: None,
        preconditions: Preconditions::default(),
    };
    assert_eq!(bench.run(set.clone()).await, Ok(Reply::TierSet { rehydrating: false }));
    let properties = bench.properties("a").await.unwrap();
    assert_eq!((Changed(properties.state.changed), &properties.state.tags), (second.changed, &tags));
    assert_eq!(bench.get("a").await, Err(ErrorCode::BlobArchived));
    let Operation::SetBlobTier { blob, revision, preconditions, .. } = set else { panic!("another") };
    let (tier, priority) = (AccessTier::Hot, None);
    let back = Operation::SetBlobTier { blob, revision, tier, priority, preconditions };
    assert_eq!(bench.run(back).await, Ok(Reply::TierSet { rehydrating: true }));
    bench.advance(6);
    assert_eq!(bench.get("a").await.unwrap(), b"1");
}

/// Contents of every kind: in the blob's row, in a row of their own, in an extent.
#[tokio::test]
async fn what_is_shared_lasts_as_long_as_the_last_one_has_it() {
    let bench = Bench::new().await;
    for length in [0, 256, 257, 4096, 16 * 1024, 16 * 1024 + 1, 100_000] {
        let (old, new) = (bytes(length, 1), bytes(length, 2));
        bench.put("a", &old).await;
        let first = bench.snapshot("a").await;
        let second = bench.snapshot("a").await;
        bench.put("a", &new).await;
        bench.delete("a", Revision::Snapshot(first), None).await.unwrap();
        assert_eq!(bench.get_revision("a", Revision::Snapshot(second)).await.unwrap(), old, "{length}");
        assert_eq!(bench.get_revision("a", Revision::Base).await.unwrap(), new, "{length}");
        bench.delete("a", Revision::Snapshot(second), None).await.unwrap();
        assert_eq!(bench.get_revision("a", Revision::Base).await.unwrap(), new, "{length}");
        bench.delete("a", Revision::Base, None).await.unwrap();
    }
}
