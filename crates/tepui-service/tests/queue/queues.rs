//! Queues themselves, and what is left of them.

use super::*;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::queue::ListQueues;
use tepui_storage::{Key, KeyRange, ScanLimit, Snapshot};

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    Metadata::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        .unwrap()
}

#[tokio::test]
async fn creating_and_deleting() {
    let options = QueueOptions { deleted_name_reserved_for: seconds(30), ..QueueOptions::default() };
    let bench = Bench::of_nodes(store::engine(), options, ManualClock::at(clock_start()), store::nodes());
    for (pairs, expected) in [
        (&[("team", "core")][..], Ok(Reply::QueueCreated)),
        (&[("Team", "core")], Ok(Reply::QueueExists)),
        (&[("team", "Core")], Err(ErrorCode::QueueAlreadyExists)),
        (&[], Err(ErrorCode::QueueAlreadyExists)),
    ] {
        let operation = Operation::CreateQueue { queue: name(), metadata: metadata(pairs) };
        assert_eq!(bench.run(operation).await.map_err(|error| error.code), expected, "{pairs:?}");
    }
    let set = Operation::SetMetadata { queue: name(), metadata: metadata(&[("a", "1")]) };
    assert_eq!(bench.run(set).await, Ok(Reply::MetadataSet));
    let kept = Reply::Metadata { metadata: metadata(&[("a", "1")]), messages: 0 };
    assert_eq!(bench.run(Operation::GetMetadata { queue: name() }).await, Ok(kept));

    let identifiers = vec![SignedIdentifier { id: "p1".to_owned(), policy: None }];
    let set = Operation::SetAcl { queue: name(), identifiers: identifiers.clone() };
    assert_eq!(bench.run(set).await, Ok(Reply::AclSet));
    assert_eq!(bench.run(Operation::GetAcl { queue: name() }).await, Ok(Reply::Acl(identifiers.clone())));
    for (queue, id, expected) in
        [(QUEUE, "p1", identifiers.first()), (QUEUE, "p2", None), ("none", "p1", None)]
    {
        let find = || async { bench.service().signed_identifier(ACCOUNT, queue, id).await };
        let found = repeat_until_done(find).await;
        assert_eq!(found.as_ref(), expected);
    }

    bench.delete_queue().await;
    let create = || Operation::CreateQueue { queue: name(), metadata: metadata(&[]) };
    let code = |result: Result<Reply, ServiceError>| result.map_err(|error| error.code);
    assert_eq!(code(bench.run(create()).await), Err(ErrorCode::QueueBeingDeleted));
    for operation in [
        Call::from(SequencedOperation::DeleteQueue { queue: name() }),
        Call::from(Operation::GetMetadata { queue: name() }),
        Call::from(Operation::SetMetadata { queue: name(), metadata: metadata(&[]) }),
        Call::from(Operation::GetAcl { queue: name() }),
        Call::from(SequencedOperation::ClearMessages { queue: name() }),
        Call::from(SequencedOperation::GetMessages { queue: name(), count: 1, visibility: seconds(1) }),
        Call::from(Operation::PeekMessages { queue: name(), count: 1 }),
    ] {
        assert_eq!(code(bench.run(operation.clone()).await), Err(ErrorCode::QueueNotFound), "{operation:?}");
    }
    let require = || async { bench.service().require_queue(ACCOUNT, QUEUE).await };
    assert!(repeat(require).await.answer.is_err());
    bench.advance(seconds(30));
    assert_eq!(code(bench.run(create()).await), Ok(Reply::QueueCreated));
    assert!(repeat(require).await.answer.is_ok());
}

#[tokio::test]
async fn listing() {
    let bench = Bench::of_nodes(
        store::engine(),
        QueueOptions::default(),
        ManualClock::at(clock_start()),
        store::nodes(),
    );
    for name in ["beta", "alpha", "beta-2", "beta-1", "gamma"] {
        let queue = QueueName::parse(name).unwrap();
        let operation = Operation::CreateQueue { queue, metadata: metadata(&[("n", name)]) };
        bench.run(operation).await.unwrap();
    }
    for (prefix, from, page_size, names, next) in [
        ("", None, 5000, &["alpha", "beta", "beta-1", "beta-2", "gamma"][..], None),
        ("", None, 2, &["alpha", "beta"], Some("beta-1")),
        ("", Some("beta-1"), 2, &["beta-1", "beta-2"], Some("gamma")),
        ("beta", None, 2, &["beta", "beta-1"], Some("beta-2")),
        ("beta", Some("beta-2"), 2, &["beta-2"], None),
        ("beta", Some("alpha"), 3, &["beta", "beta-1", "beta-2"], None),
        ("beta", Some("gamma"), 3, &[], None),
        ("é", None, 3, &[], None),
    ] {
        for with_metadata in [false, true] {
            let (prefix, from) = (prefix.to_owned(), from.map(str::to_owned));
            let query = ListQueues { prefix, from, page_size, with_metadata };
            let Ok(Reply::Queues(page)) = bench.run(Operation::ListQueues(query)).await else {
                panic!("not listed")
            };
            let listed: Vec<_> = page.queues.iter().map(|queue| queue.name.as_str()).collect();
            assert_eq!((listed.as_slice(), page.next.as_deref()), (names, next));
            for queue in page.queues {
                assert_eq!(queue.metadata, with_metadata.then(|| metadata(&[("n", &queue.name)])));
            }
        }
    }
}

/// Everything but the catalogue.
async fn rows<E: Engine>(engine: &E) -> usize {
    let range = KeyRange { start: Key::from_static(&[0x40]), end: Key::from_static(&[0xFF]) };
    let limit = ScanLimit { max_rows: 100_000, max_bytes: 1 << 30 };
    'anew: loop {
        let Ok(transaction) = engine.begin().await else { continue };
        let (mut left, mut found) = (range.clone(), 0);
        loop {
            // It may be too old, or refused.
            let Ok(page) = transaction.scan(&left, limit).await else { continue 'anew };
            found += page.rows.len();
            let Some(next) = page.next else { return found };
            left.start = next;
        }
    }
}

/// Waits until no more rows than that are left, by the tests' clock for less than the collector waits without a wake-up.
async fn rows_become<E: Engine>(engine: &E, left: usize) {
    let since = tokio::time::Instant::now();
    // After an error it waits for some seconds.
    let patience = if Course::current() == Course::Memory { seconds(1) } else { seconds(60) };
    while rows(engine).await > left {
        assert!(since.elapsed() < patience, "the collector was not woken");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_what_was_dropped() {
    let bench = Bench::in_memory().await;
    let collector = Arc::clone(&bench.collector);
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&bench.clock);
    let leases = WorkLeases::new(Arc::clone(&bench.engine), clock, StoreAccess::Exclusive, 1);
    let collecting = tokio::spawn(async move { collector.run(&leases).await });
    for _ in 0..20 {
        bench.put_with("x", 0, Some(seconds(60))).await;
    }
    bench.get(5, 30).await;
    bench.clear().await;
    assert_eq!((bench.count().await, bench.get(5, 30).await.len()), (0, 0));
    // The state.
    rows_become(&*bench.engine, 1).await;
    bench.put("y").await;
    assert_eq!((bench.count().await, texts(&bench.get(5, 30).await)), (1, vec!["y"]));
    bench.delete_queue().await;
    rows_become(&*bench.engine, 0).await;
    collecting.abort();
}

#[tokio::test]
async fn sweeping_leaves_nothing_of_expired_messages() {
    let bench = Bench::in_memory().await;
    for _ in 0..300 {
        bench.put_with("x", 0, Some(seconds(60))).await;
    }
    bench.put_with("stays", 0, None).await;
    bench.get(5, 30).await;
    bench.advance(seconds(60));
    assert_eq!(bench.count().await, 1);
    bench.sweep().await;
    // The state, the message and its text.
    assert_eq!((bench.count().await, rows(&*bench.engine).await), (1, 3));
    assert_eq!(texts(&bench.get(5, 30).await), ["stays"]);
}
