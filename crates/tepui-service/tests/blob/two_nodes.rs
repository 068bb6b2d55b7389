//! Two nodes on one store: what one is about, the other lets be, and what one has acknowledged, the other knows.

use super::copies::{abort, fetched, from_elsewhere, start};
use super::*;
use crate::engine::TestEngine;
use tepui_service::MAX_CLOCK_SKEW;
use tepui_storage_faulty::Faults;

/// The lease on a copy is renewed every 15 s, which may fail.
const SOME_RENEWALS: Duration = Duration::from_secs(80);

/// Two services on one store, with clocks of their own.
fn nodes<E: Engine + Clone>(engine: E) -> [Bench<E>; 2] {
    let (extents, options) = (
        store::extents(PlainExtents::default()),
        BlobOptions { clock_skew: MAX_CLOCK_SKEW, ..Default::default() },
    );
    [1, 2].map(|number| {
        let clock = ManualClock::at(clock_start()).of_node(NodeNumber::new(number).unwrap());
        Bench::of_nodes(engine.clone(), extents.clone(), options.clone(), clock, 1)
    })
}

async fn copy_status(node: &Bench, name: &str) -> (CopyStatus, (u64, u64)) {
    let copy = node.properties(name).await.unwrap().state.copy.unwrap();
    (copy.status, copy.progress)
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_on_while_another_node_cleans_up() {
    let [first, second] = nodes(store::engine());
    first.create().await.unwrap();
    let operation = from_elsewhere("a", Some(LARGE as u64));
    let (_, copy) = start(&first, &operation).await.unwrap();
    for minute in 0..10 {
        // The lease on it is renewed several times.
        let kept = tokio::time::timeout(Duration::from_secs(61), first.service().keep_copy(&copy)).await;
        assert!(kept.is_err(), "taken from the node that fetches: {minute}");
        copy.add(10);
        [&first, &second].iter().for_each(|node| node.advance(60));
        let kept = tokio::time::timeout(SOME_RENEWALS, first.service().keep_copy(&copy)).await;
        assert!(kept.is_err());
        second.collect_garbage().await;
        let progress = (10 * (minute + 1), LARGE as u64);
        assert_eq!(copy_status(&second, "a").await, (CopyStatus::Pending, progress));
    }
    let uploaded = fetched(&first, &UploadOperation::CopyBlob(operation), &bytes(LARGE, 3)).await;
    first.service().finish_copy(&copy, Ok(uploaded)).await;
    assert!(second.get("a").await.unwrap() == bytes(LARGE, 3));
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_a_dead_node_fails_after_its_lease() {
    let [first, second] = nodes(store::engine());
    first.create().await.unwrap();
    let operation = from_elsewhere("a", None);
    let (_, copy) = start(&first, &operation).await.unwrap();
    second.advance(60);
    second.collect_garbage().await;
    assert_eq!(copy_status(&second, "a").await.0, CopyStatus::Pending, "clocks may differ a little");
    second.advance(2);
    second.collect_garbage().await;
    assert_eq!(copy_status(&first, "a").await.0, CopyStatus::Failed);
    // It was suspended only: it finds out, and what it has fetched is not kept.
    first.service().keep_copy(&copy).await;
    let uploaded = fetched(&first, &UploadOperation::CopyBlob(operation), &bytes(LARGE, 3)).await;
    first.service().finish_copy(&copy, Ok(uploaded)).await;
    assert_eq!(copy_status(&second, "a").await.0, CopyStatus::Failed);
    assert_eq!(first.count_extents().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_aborted_on_another_node() {
    let [first, second] = nodes(store::engine());
    first.create().await.unwrap();
    let (id, copy) = start(&first, &from_elsewhere("a", None)).await.unwrap();
    assert_eq!(abort(&second, "a", &id).await, Ok(Reply::CopyAborted));
    tokio::time::timeout(SOME_RENEWALS, first.service().keep_copy(&copy)).await.unwrap();
    first.service().finish_copy(&copy, Err("aborted".to_owned())).await;
    assert_eq!(copy_status(&first, "a").await.0, CopyStatus::Aborted);
}

#[tokio::test]
async fn soft_delete_enabled_on_one_node_holds_on_the_other_at_once() {
    let [first, second] = nodes(store::engine());
    first.create().await.unwrap();
    for round in 0..6 {
        let (name, retained) = (&format!("{round}"), round % 2 == 0);
        // The first has read the properties as they were.
        first.put(name, &bytes(LARGE, round)).await;
        repeat_until_done(|| async { first.service().service_properties(ACCOUNT).await }).await;
        second.set_retention(retained.then_some(1)).await;
        assert_eq!(first.delete(name, Revision::Base, None).await, Ok(!retained), "{name}");
        let undeleted = second.run(Operation::UndeleteBlob { blob: path(name) }).await;
        assert_eq!(undeleted.is_ok(), retained, "{name}: {undeleted:?}");
    }
}

/// The commits of one node wait here and there, so that the other cleans up between any two of them.
#[tokio::test]
async fn a_content_that_one_node_makes_is_not_collected_by_another() {
    for delay in 0..12 {
        let engine = TestEngine::new();
        let delays = Arc::clone(&engine.control().delays);
        let [first, second] = nodes(engine);
        first.create().await.unwrap();
        pages::create(&first, 64 * 512).await;
        let mut expected = vec![0; 64 * 512];
        for layer in 0..40u64 {
            delays.lock().unwrap().extend([delay; 8]);
            let cleaning = async {
                for _ in 0..3 {
                    second.collect_garbage().await;
                    tokio::task::yield_now().await;
                }
            };
            let (written, ()) = tokio::join!(pages::write(&first, layer..layer + 1, layer as u8), cleaning);
            written.unwrap();
            expected[layer as usize * 512..(layer as usize + 1) * 512]
                .copy_from_slice(&bytes(512, layer as u8));
            assert!(second.get("disk").await == Ok(expected.clone()), "{delay} {layer}");
            first.snapshot("disk").await;
        }
        // And what was given up is collected in the end.
        delays.lock().unwrap().clear();
        first.delete("disk", Revision::Base, Some(DeleteSnapshots::Include)).await.unwrap();
        second.advance(60 * 60);
        second.collect_garbage().await;
        assert_eq!(first.count_extents().await, 0);
    }
}

#[tokio::test]
async fn a_lease_holds_on_a_node_whose_clock_is_ahead() {
    let [first, second] = nodes(store::engine());
    first.create().await.unwrap();
    first.put("a", b"x").await;
    second.clock.advance(MAX_CLOCK_SKEW);
    let acquire = || {
        let duration = LeaseDuration::Fixed(Duration::from_secs(15));
        let action = LeaseAction::Acquire { duration, proposed: None };
        Operation::LeaseBlob { blob: path("a"), action, conditions: Conditions::default() }
    };
    first.run(acquire()).await.unwrap();
    for _ in 0..14 {
        [&first, &second].iter().for_each(|node| node.advance(1));
        assert_eq!(second.run(acquire()).await, Err(ErrorCode::LeaseAlreadyPresent));
    }
    [&first, &second].iter().for_each(|node| node.advance(3));
    second.run(acquire()).await.unwrap();
}

#[tokio::test]
async fn etags_are_never_used_again_by_another_node() {
    let [first, second] = nodes(store::engine());
    first.create().await.unwrap();
    let mut seen = std::collections::HashSet::new();
    // Their clocks show the same time, and stand still.
    for _ in 0..50 {
        for node in [&first, &second] {
            assert!(seen.insert(node.put("a", b"x").await.changed.0));
            node.delete("a", Revision::Base, None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn containers_dropped_on_one_node_take_no_blobs_on_the_other() {
    let [first, second] = nodes(store::engine());
    for round in 0..20 {
        first.create().await.unwrap();
        second.put("a", &bytes(LARGE, round)).await;
        first.put_block("b", "1", &bytes(LARGE, round)).await.unwrap();
        second.put_list("b", &[("1", BlockSearch::Latest)]).await.unwrap();
        second.delete_container().await.unwrap();
        let put = first.put_if("a", b"x", Preconditions::default()).await;
        assert_eq!(put.map(drop), Err(ErrorCode::ContainerNotFound));
        tokio::join!(first.collect_garbage(), second.collect_garbage());
        assert_eq!(first.count_extents().await, 0);
    }
}

/// Both write, copy, replace and delete, and both collect garbage, all at once.
#[tokio::test]
async fn both_nodes_collect_garbage_while_both_write() {
    for seed in 0..10 {
        let nodes =
            nodes(FaultyEngine::new(store::TestedEngine::in_memory(), Faults::new(store::CROWDED, seed)));
        let [first, second] = &nodes;
        first.create().await.unwrap();
        let is_done = std::cell::Cell::new(0);
        let write = async |node: &Bench, mine: &str| {
            for round in 0..12u8 {
                let content = bytes(LARGE, round);
                node.put(mine, &content).await;
                node.put_block("shared", mine, &content).await.unwrap();
                let listed = node.put_list("shared", &[(mine, BlockSearch::Latest)]).await;
                // The other may have discarded the block with a list of its own.
                assert!(matches!(listed, Ok(_) | Err(ErrorCode::InvalidBlockList)), "{listed:?}");
                let taken = node.snapshot(mine).await;
                node.put(mine, b"short").await;
                assert!(
                    node.get_revision(mine, Revision::Snapshot(taken)).await == Ok(content),
                    "{seed} {round}"
                );
                node.delete(mine, Revision::Snapshot(taken), None).await.unwrap();
            }
            is_done.set(is_done.get() + 1);
        };
        let collect = async |node: &Bench| {
            while is_done.get() < 2 {
                node.collect_garbage().await;
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(write(first, "1"), write(second, "2"), collect(first), collect(second));
        for name in ["1", "2", "shared"] {
            assert!(
                first.get(name).await == second.get(name).await && first.get(name).await.is_ok(),
                "{name}"
            );
            second.delete(name, Revision::Base, None).await.unwrap();
        }
        first.collect_garbage().await;
        first.free_orphaned_extents().await;
        assert_eq!(first.extents.count(), 0, "{seed}");
    }
}
