//! Containers: their life, leases, lists.

use super::*;
use crate::engine::TestEngine;

fn lease(action: LeaseAction) -> Operation {
    Operation::LeaseContainer { container: container(), action, conditions: Conditions::default() }
}

#[tokio::test]
async fn containers_come_and_go() {
    let bench = Bench::new().await;
    assert_eq!(bench.create().await, Err(ErrorCode::ContainerAlreadyExists));
    assert_eq!(bench.delete_container().await, Ok(Reply::ContainerDeleted));
    assert_eq!(bench.delete_container().await, Err(ErrorCode::ContainerNotFound));
    assert!(bench.create().await.is_ok());
}

#[tokio::test]
async fn names_rest_and_containers_are_restored() {
    let options = BlobOptions {
        deleted_name_reserved_for: Duration::from_secs(30),
        container_retention: Some(Duration::from_secs(3 * 24 * 60 * 60)),
        ..BlobOptions::default()
    };
    let bench = Bench::with(options).await;
    bench.put("a", b"kept").await;
    bench.delete_container().await.unwrap();
    assert_eq!(bench.create().await, Err(ErrorCode::ContainerBeingDeleted));
    bench.advance(31);
    let list = |with_deleted| {
        Operation::ListContainers(ListContainers {
            prefix: String::new(),
            from: None,
            page_size: 10,
            with_metadata: false,
            with_deleted,
            with_system: false,
        })
    };
    let Ok(Reply::Containers(page)) = bench.run(list(false)).await else { panic!("no list") };
    assert!(page.containers.is_empty());
    let Ok(Reply::Containers(page)) = bench.run(list(true)).await else { panic!("no list") };
    let deleted = page.containers[0].deleted.clone().unwrap();
    assert_eq!(deleted.since.remaining_days, 2);
    let restore = |version: &str| Operation::RestoreContainer {
        container: container(),
        deleted: container(),
        deleted_version: version.to_owned(),
    };
    assert_eq!(bench.run(restore("rubbish")).await, Err(ErrorCode::ContainerNotFound));
    assert_eq!(bench.run(restore(&deleted.version)).await, Ok(Reply::ContainerRestored));
    assert_eq!(bench.get("a").await.unwrap(), b"kept");
}

fn hold(name: &str, revision: Revision, hold: bool) -> Operation {
    Operation::SetLegalHold { blob: path(name), revision, hold }
}

fn policy(name: &str, until: Timestamp, mode: ImmutabilityMode) -> Operation {
    let (blob, revision) = (path(name), Revision::Base);
    let policy = ImmutabilityPolicy { until, mode };
    Operation::SetImmutabilityPolicy { blob, revision, policy, unmodified_since: None }
}

#[tokio::test]
async fn a_container_with_protected_blobs_is_not_deleted() {
    let retention = Some(Duration::from_secs(24 * 60 * 60));
    for container_retention in [None, retention] {
        let bench = Bench::with(BlobOptions { container_retention, ..BlobOptions::default() }).await;
        bench.put("a", b"x").await;
        bench.put("b", b"x").await;
        let taken = Revision::Snapshot(bench.snapshot("b").await);
        for held in [Revision::Base, taken] {
            bench.run(hold("b", held, true)).await.unwrap();
            for _ in 0..2 {
                let refused = bench.delete_container().await;
                assert_eq!(refused, Err(ErrorCode::BlobImmutableDueToLegalHold), "{held:?}");
            }
            bench.run(hold("b", held, false)).await.unwrap();
        }
        let until = bench.clock.now().saturating_add(Duration::from_secs(60));
        bench.run(policy("a", until, ImmutabilityMode::Locked)).await.unwrap();
        assert_eq!(bench.delete_container().await, Err(ErrorCode::BlobImmutableDueToPolicy));
        // One that is protected since the last refusal counts, too.
        bench.run(policy("b", until, ImmutabilityMode::Unlocked)).await.unwrap();
        assert_eq!(bench.delete_container().await, Err(ErrorCode::BlobImmutableDueToPolicy));
        assert!(bench.get("a").await.is_ok());
        bench.advance(61);
        assert_eq!(bench.delete_container().await, Ok(Reply::ContainerDeleted));
    }
}

#[tokio::test]
async fn a_blob_that_is_put_with_a_hold_keeps_its_container() {
    let bench = Bench::new().await;
    let mut put = Bench::put_operation("a", Preconditions::default());
    put.new.legal_hold = Some(true);
    bench.send(UploadOperation::PutBlob(put), b"x").await.unwrap();
    assert_eq!(bench.delete_container().await, Err(ErrorCode::BlobImmutableDueToLegalHold));
}

#[tokio::test]
async fn a_hold_and_the_end_of_its_container_do_not_both_succeed() {
    let engine = TestEngine::new();
    let delays = Arc::clone(&engine.control().delays);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    for case in 0..2 * 6 * 6 * 6 {
        bench.put("a", b"x").await;
        if case % 2 == 0 {
            // A blob was protected before, and a delete has checked for it.
            bench.run(hold("a", Revision::Base, true)).await.unwrap();
            assert!(bench.delete_container().await.is_err());
            bench.run(hold("a", Revision::Base, false)).await.unwrap();
        }
        delays.lock().unwrap().extend([case / 2 % 6, case / 12 % 6, case / 72]);
        let (held, deleted) =
            tokio::join!(bench.run(hold("a", Revision::Base, true)), bench.delete_container());
        delays.lock().unwrap().clear();
        assert!(held.is_ok() != deleted.is_ok(), "{case}: {held:?} {deleted:?}");
        match deleted {
            Ok(_) => drop(bench.create().await.unwrap()),
            Err(_) => drop(bench.run(hold("a", Revision::Base, false)).await.unwrap()),
        }
    }
}

#[tokio::test]
async fn only_deleting_needs_the_lease() {
    let bench = Bench::new().await;
    let duration = LeaseDuration::from_seconds(15).unwrap();
    let reply = bench.run(lease(LeaseAction::Acquire { duration, proposed: None })).await;
    let Ok(Reply::Lease { outcome: LeaseOutcome::Acquired(id), changed }) = reply else {
        panic!("{reply:?}")
    };
    bench.put("a", b"").await;
    assert_eq!(bench.delete_container().await, Err(ErrorCode::LeaseIdMissing));
    let set = |lease| Operation::SetContainerMetadata {
        container: container(),
        metadata: Metadata::new(pairs("k", "v")).unwrap(),
        preconditions: Preconditions { lease, ..Preconditions::default() },
    };
    let wrong = bench.run(set(Some(LeaseId(99)))).await;
    assert_eq!(wrong, Err(ErrorCode::LeaseIdMismatchWithContainerOperation));
    let reply = bench.run(set(Some(id))).await;
    assert!(matches!(reply, Ok(Reply::ContainerMetadataSet(Changed(at))) if at > changed.0), "{reply:?}");
    bench.advance(16);
    assert_eq!(bench.delete_container().await, Ok(Reply::ContainerDeleted));
}

#[tokio::test]
async fn pages_of_containers() {
    let bench = Bench::new().await;
    for name in ["abc", "abd", "abe", "zzz"] {
        let operation = Operation::CreateContainer {
            container: ContainerName::parse(name).unwrap(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        bench.run(operation).await.unwrap();
    }
    let (mut from, mut pages) = (None, Vec::new());
    loop {
        let operation = Operation::ListContainers(ListContainers {
            prefix: "ab".to_owned(),
            from,
            page_size: 2,
            with_metadata: false,
            with_deleted: false,
            with_system: false,
        });
        let Ok(Reply::Containers(page)) = bench.run(operation).await else { panic!("no list") };
        pages.push(page.containers.iter().map(|container| container.name.clone()).collect::<Vec<_>>());
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec!["abc", "abd"], vec!["abe"]]);
}

fn marker(name: &str, deleted_version: Option<&str>) -> ContainerMarker {
    ContainerMarker { name: name.to_owned(), deleted_version: deleted_version.map(str::to_owned) }
}

#[tokio::test]
async fn pages_of_deleted_containers() {
    let retention = Some(Duration::from_secs(24 * 60 * 60));
    let bench = Bench::with(BlobOptions { container_retention: retention, ..BlobOptions::default() }).await;
    for _ in 0..4 {
        bench.delete_container().await.unwrap();
        bench.create().await.unwrap();
    }
    let (mut from, mut found) = (None, Vec::new());
    loop {
        let operation = Operation::ListContainers(ListContainers {
            prefix: String::new(),
            from,
            page_size: 2,
            with_metadata: false,
            with_deleted: true,
            with_system: false,
        });
        let Ok(Reply::Containers(page)) = bench.run(operation).await else { panic!("no list") };
        assert!(page.containers.len() <= 2, "{page:?}");
        found.extend(page.containers.into_iter().map(|listed| listed.deleted.map(|deleted| deleted.version)));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), found.iter().flatten().count()), (5, 4), "{found:?}");
    found.dedup();
    assert_eq!(found.len(), 5);
    let rubbish = Operation::ListContainers(ListContainers {
        prefix: String::new(),
        from: Some(marker(CONTAINER, Some("rubbish"))),
        page_size: 2,
        with_metadata: false,
        with_deleted: true,
        with_system: false,
    });
    assert_eq!(bench.run(rubbish).await, Err(ErrorCode::InvalidQueryParameterValue));
}

#[tokio::test]
async fn pages_of_containers_with_long_metadata() {
    let bench = Bench::new().await;
    let metadata = Metadata::new(pairs("k", &"v".repeat(8000))).unwrap();
    for number in 0..600 {
        let operation = Operation::CreateContainer {
            container: ContainerName::parse(&format!("c-{number:03}")).unwrap(),
            metadata: metadata.clone(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        bench.run(operation).await.unwrap();
    }
    for (with_metadata, is_whole) in [(true, false), (false, true)] {
        let operation = Operation::ListContainers(ListContainers {
            prefix: "c-".to_owned(),
            from: None,
            page_size: 5000,
            with_metadata,
            with_deleted: false,
            with_system: false,
        });
        let Ok(Reply::Containers(page)) = bench.run(operation).await else { panic!("no list") };
        assert_eq!((page.containers.len() == 600, page.next.is_none()), (is_whole, is_whole));
    }
}

#[tokio::test]
async fn everybody_sees_what_is_public() {
    let bench = Bench::new().await;
    bench.put("a", b"").await;
    let get = || Operation::GetBlob(Bench::get_operation("a", Revision::Base));
    for (access, reads, lists) in [
        (None, false, false),
        (Some(PublicAccess::Blob), true, false),
        (Some(PublicAccess::Container), true, true),
    ] {
        let operation = Operation::SetContainerAcl {
            container: container(),
            public_access: access,
            identifiers: Vec::new(),
            preconditions: Preconditions::default(),
        };
        bench.run(operation).await.unwrap();
        let needs = Allowed::IfPublic(PublicAccess::Blob);
        let read = bench.run_as(needs, get()).await.map(drop);
        let needs = Allowed::IfPublic(PublicAccess::Container);
        let listed = lists::page_as(&bench, needs, lists::query("", None, 10)).await.map(drop);
        for (outcome, expected) in [(read, reads), (listed, lists)] {
            let expected = if expected { Ok(()) } else { Err(ErrorCode::ResourceNotFound) };
            assert_eq!(outcome.map_err(|error| error.code), expected, "{access:?}");
        }
    }
}

#[tokio::test]
async fn logs_are_there_to_be_read() {
    let bench = Bench::new().await;
    let logs = ContainerName::parse("$logs").unwrap();
    let get = Operation::GetContainer {
        container: logs.clone(),
        preconditions: Preconditions::default(),
        detail: Detail::Properties,
    };
    assert!(matches!(bench.run(get).await, Ok(Reply::Container(_))));
    let list = ListBlobs { container: logs.clone(), ..lists::query("", None, 10) };
    let page = lists::page(&bench, list).await;
    assert!(page.blobs.is_empty() && page.next.is_none());
    let create = Operation::CreateContainer {
        container: logs.clone(),
        metadata: Metadata::default(),
        public_access: None,
        encryption: ContainerEncryption::default(),
    };
    assert_eq!(bench.run(create).await, Err(ErrorCode::ContainerAlreadyExists));
    let preconditions = Preconditions::default();
    let delete = Operation::DeleteContainer { container: logs.clone(), preconditions };
    assert_eq!(bench.run(delete).await, Err(ErrorCode::AuthorizationFailure));
    let blob = BlobPath { container: logs.clone(), ..path("a") };
    let put = PutBlob { blob: blob.clone(), ..Bench::put_operation("a", Preconditions::default()) };
    let refused = bench.send(UploadOperation::PutBlob(put), b"x").await.map_err(|error| error.code);
    assert_eq!(refused, Err(ErrorCode::AuthorizationFailure));
    let get = GetBlob { blob, ..Bench::get_operation("a", Revision::Base) };
    assert_eq!(bench.run(Operation::GetBlob(get)).await, Err(ErrorCode::BlobNotFound));
    for (prefix, with_system, page_size, from, expected, next) in [
        ("", false, 9, None, &["pictures"][..], None),
        ("", true, 9, None, &["$logs", "pictures"], None),
        ("", true, 1, None, &["$logs"], Some("pictures")),
        ("", true, 1, Some("pictures"), &["pictures"], None),
        ("$logs", false, 9, None, &["$logs"], None),
        ("pic", true, 9, None, &["pictures"], None),
    ] {
        let query = ListContainers {
            prefix: prefix.to_owned(),
            from: from.map(|name: &str| marker(name, None)),
            page_size,
            with_metadata: false,
            with_deleted: false,
            with_system,
        };
        let Ok(Reply::Containers(page)) = bench.run(Operation::ListContainers(query)).await else {
            panic!("no list")
        };
        let names: Vec<_> = page.containers.iter().map(|listed| listed.name.as_str()).collect();
        let next = next.map(|name: &str| marker(name, None));
        assert_eq!((names.as_slice(), page.next), (expected, next), "{prefix} {with_system}");
    }
}
