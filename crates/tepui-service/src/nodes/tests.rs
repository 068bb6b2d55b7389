use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use tepui_model::time::ManualClock;
use tepui_storage::MemoryEngine;

type Lease = NodeLease<MemoryEngine>;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::parse_iso("2026-03-10").unwrap()))
}

async fn take_with(
    engine: &Arc<MemoryEngine>,
    clock: &Arc<ManualClock>,
    owner: u128,
) -> Result<Lease, NodeError> {
    NodeLease::take(Arc::clone(engine), Arc::<ManualClock>::clone(clock), owner).await
}

fn engine_of(lease: &Lease) -> NodeEngine<MemoryEngine> {
    NodeEngine::new(Arc::clone(&lease.engine), Arc::clone(&lease.clock))
}

fn write(key: &'static str) -> Commit {
    vec![Write::Put(key.into(), "1".into())].into()
}

/// One transaction from its beginning to its end, with a timestamp.
async fn write_now(lease: &Lease) -> Result<Timestamp, CommitError> {
    let transaction = engine_of(lease).begin().await?;
    let stamp = lease.clock.tick();
    transaction.commit(write("key")).await.map(|()| stamp)
}

fn is_refused(outcome: Result<Timestamp, CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Storage(error)) if error.kind() == tepui_storage::StorageErrorKind::Unavailable)
}

#[tokio::test]
async fn every_node_has_a_number_of_its_own_and_64_have_one() {
    let (engine, clock) = (Arc::new(MemoryEngine::new()), clock());
    let mut leases = Vec::new();
    for owner in 1..=u128::from(MAX_NODES) {
        leases.push(take_with(&engine, &clock, owner).await.unwrap());
    }
    let mut numbers: Vec<u64> = leases.iter().map(|lease| lease.clock.number().get()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..MAX_NODES).collect::<Vec<_>>());
    let error = take_with(&engine, &clock, 100).await.err().unwrap();
    assert!(error.to_string().starts_with("64 nodes use this storage, and no more can"), "{error}");

    let given_back = leases[7].clock.number();
    leases[7].give_back().await.unwrap();
    assert!(is_refused(write_now(&leases[7]).await), "nothing is committed without a number");
    assert_eq!(take_with(&engine, &clock, 100).await.unwrap().clock.number(), given_back);

    // All others were killed, but perhaps their clocks are slow.
    clock.advance(LEASE);
    assert!(take_with(&engine, &clock, 101).await.is_err());
    clock.advance(MAX_CLOCK_SKEW);
    assert!(take_with(&engine, &clock, 101).await.is_ok());
}

#[tokio::test]
async fn a_node_that_could_not_renew_commits_nothing_until_it_could() {
    let (engine, clock) = (Arc::new(MemoryEngine::new()), clock());
    let lease = take_with(&engine, &clock, 1).await.unwrap();
    let node = engine_of(&lease);
    clock.advance(LEASE - Duration::from_millis(1));
    assert!(write_now(&lease).await.is_ok());
    assert_eq!(node.health().await, Ok(()));
    let before = node.begin().await.unwrap();
    let pipeline = node.begin_pipeline().await.unwrap();
    clock.advance(Duration::from_millis(1));
    assert!(node.health().await.is_err());
    assert!(is_refused(write_now(&lease).await));
    assert!(pipeline.submit(write("a")).await.is_err());
    assert!(pipeline.is_ended());

    lease.renew().await.unwrap();
    assert_eq!(lease.clock.generation(), 0, "nobody has taken its number");
    assert!(write_now(&lease).await.is_ok());
    assert_eq!(node.health().await, Ok(()));
    assert_eq!(before.commit(write("other")).await, Ok(()), "it was covered without a gap");
    assert_eq!(pipeline.submit(write("b")).await, Err(CommitError::Conflict), "one before it was refused");
}

#[tokio::test]
async fn nobody_has_a_number_of_a_storage_that_everything_is_copied_to() {
    let (engine, clock) = (Arc::new(MemoryEngine::new()), clock());
    let lease = take_with(&engine, &clock, 1).await.unwrap();
    let begin_copy = Commit::from(vec![Write::Put(keyspace::copy_state(), "begun".into())]);
    engine.begin().await.unwrap().commit(begin_copy).await.unwrap();
    let refused = take_with(&engine, &clock, 2).await.err().unwrap();
    assert!(matches!(refused, NodeError::BeingCopied), "{refused}");
    assert!(refused.to_string().contains("a copy to this storage is not finished"), "{refused}");
    // The node was silent for so long that whoever copies took it for dead.
    clock.advance(LEASE + MAX_CLOCK_SKEW);
    assert!(matches!(lease.renew().await, Err(NodeError::BeingCopied)));
    assert!(is_refused(write_now(&lease).await));
    assert!(engine_of(&lease).health().await.is_err());
    engine.begin().await.unwrap().commit(vec![Write::Delete(keyspace::copy_state())].into()).await.unwrap();
    lease.renew().await.unwrap();
    assert!(write_now(&lease).await.is_ok());
}

/// An engine to which a copy begins after a transaction has.
struct Overtaken(MemoryEngine, AtomicBool);

impl Engine for Overtaken {
    type Transaction = <MemoryEngine as Engine>::Transaction;
    type Pipeline = <MemoryEngine as Engine>::Pipeline;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        let transaction = self.0.begin().await?;
        if self.1.swap(false, Ordering::SeqCst) {
            let begin_copy = vec![Write::Put(keyspace::copy_state(), "begun".into())];
            self.0.begin().await?.commit(begin_copy.into()).await.unwrap();
        }
        Ok(transaction)
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        self.0.begin_pipeline().await
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.0.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.0.health().await
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }
}

/// The copy begins after the node has read that there is none.
#[tokio::test]
async fn a_copy_that_begins_while_a_number_is_taken_or_renewed_is_seen() {
    let engine = Arc::new(Overtaken(MemoryEngine::new(), AtomicBool::new(true)));
    let clock = clock();
    let take = || NodeLease::take(Arc::clone(&engine), Arc::<ManualClock>::clone(&clock), 1);
    assert!(matches!(take().await.err(), Some(NodeError::BeingCopied)));
    engine.0.begin().await.unwrap().commit(vec![Write::Delete(keyspace::copy_state())].into()).await.unwrap();
    let lease = take().await.unwrap();
    engine.1.store(true, Ordering::SeqCst);
    assert!(matches!(lease.renew().await, Err(NodeError::BeingCopied)));
}

#[tokio::test]
async fn a_node_that_was_paused_takes_another_number() {
    let (engine, clocks) = (Arc::new(MemoryEngine::new()), [clock(), clock()]);
    let paused = take_with(&engine, &clocks[0], 1).await.unwrap();
    let number = paused.clock.number();
    let node = engine_of(&paused);
    let before = node.begin().await.unwrap();
    let pipeline = node.begin_pipeline().await.unwrap();
    for clock in &clocks {
        clock.advance(LEASE + MAX_CLOCK_SKEW);
    }
    // The other nodes have all the other numbers.
    for owner in 2..=u128::from(MAX_NODES) {
        take_with(&engine, &clocks[1], owner).await.unwrap();
    }
    let other = take_with(&engine, &clocks[1], 1000).await.unwrap();
    assert_eq!(other.clock.number(), number);

    let error = paused.renew().await.err().unwrap();
    assert!(matches!(error, NodeError::TooMany), "{error}");
    assert!(is_refused(write_now(&paused).await));
    assert!(node.health().await.is_err());
    other.give_back().await.unwrap();
    paused.renew().await.unwrap();
    assert_eq!(before.commit(write("key")).await, Err(CommitError::Conflict), "it began with the old number");
    assert!(pipeline.is_ended());
    assert!(write_now(&paused).await.is_ok());
    assert_eq!(node.health().await, Ok(()));
}

#[tokio::test]
async fn a_number_that_was_given_back_begins_where_it_ended() {
    let (engine, ahead, behind) = (Arc::new(MemoryEngine::new()), clock(), clock());
    ahead.advance(Duration::from_secs(3600));
    let lease = take_with(&engine, &ahead, 1).await.unwrap();
    let last = write_now(&lease).await.unwrap();
    lease.give_back().await.unwrap();
    for owner in 2..=u128::from(MAX_NODES) {
        let number = take_with(&engine, &behind, owner).await.unwrap().clock.number();
        assert_ne!(number, lease.clock.number(), "those that were never used first");
    }
    let next = take_with(&engine, &behind, 100).await.unwrap();
    assert_eq!(next.clock.number(), lease.clock.number());
    assert!(write_now(&next).await.unwrap() > last);
}

#[tokio::test(start_paused = true)]
async fn a_number_is_kept_as_long_as_the_node_lives() {
    let (engine, clock) = (Arc::new(MemoryEngine::new()), clock());
    let lease = take_with(&engine, &clock, 1).await.unwrap();
    let time = async {
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
            assert!(write_now(&lease).await.is_ok());
        }
        // The clock is set forward: the lease is renewed at the first commit that it does not cover.
        clock.advance(10 * LEASE);
        assert!(is_refused(write_now(&lease).await));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(write_now(&lease).await.is_ok());
    };
    tokio::select! {
        () = lease.keep() => {}
        () = time => {}
    }
}

/// What may happen to one of some nodes.
#[derive(Debug, Clone)]
enum Event {
    Start,
    Kill,
    GiveBack,
    Renew,
    Write,
    /// Writes in a transaction that began at an earlier event of this kind.
    WriteLate,
    Advance(u64),
    SetBack(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Start),
        1 => Just(Event::Kill),
        2 => Just(Event::GiveBack),
        4 => Just(Event::Renew),
        8 => Just(Event::Write),
        4 => Just(Event::WriteLate),
        6 => (0..40_000u64).prop_map(Event::Advance),
        1 => (0..40_000u64).prop_map(Event::SetBack),
    ]
}

/// A transaction that has begun, and what it is to write.
type Late = (NodeTransaction<tepui_storage::MemoryTransaction>, Timestamp);

struct Node {
    clock: Arc<ManualClock>,
    lease: Option<Arc<Lease>>,
    late: Option<Late>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_timestamp_is_committed_twice(events in proptest::collection::vec((0..4usize, event()), 1..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(no_timestamp_twice(events));
    }
}

/// With few numbers, so that they are taken from one another.
async fn no_timestamp_twice(events: Vec<(usize, Event)>) {
    let engine = Arc::new(MemoryEngine::new());
    let full = clock();
    for owner in 1..=u128::from(MAX_NODES) - 3 {
        let lease = take_with(&engine, &full, owner).await.unwrap();
        let until = Timestamp::MAX;
        let row = WorkLease { owner, until }.encode();
        let writes = vec![Write::Put(keyspace::node(lease.clock.number()), row)];
        engine.begin().await.unwrap().commit(writes.into()).await.unwrap();
    }
    let mut nodes: Vec<Node> = (0..4).map(|_| Node { clock: clock(), lease: None, late: None }).collect();
    let mut committed: HashMap<Timestamp, usize> = HashMap::new();
    let mut owner = 1000;
    for (step, (node, event)) in events.into_iter().enumerate() {
        let node = &mut nodes[node];
        match event {
            Event::Advance(milliseconds) => node.clock.advance(Duration::from_millis(milliseconds)),
            Event::SetBack(milliseconds) => {
                node.clock.set(node.clock.now().saturating_sub(Duration::from_millis(milliseconds)));
            }
            Event::Start if node.lease.is_none() => {
                owner += 1;
                node.lease = take_with(&engine, &node.clock, owner).await.ok().map(Arc::new);
            }
            Event::Start => {}
            Event::Kill => node.lease = None,
            Event::GiveBack => {
                if let Some(lease) = node.lease.take() {
                    lease.give_back().await.unwrap();
                }
            }
            Event::Renew => {
                if let Some(lease) = &node.lease {
                    let _ = lease.renew().await;
                }
            }
            Event::Write => {
                if let Some(lease) = &node.lease
                    && let Ok(stamp) = write_now(lease).await
                {
                    assert_eq!(committed.insert(stamp, step), None, "{stamp} at {step}");
                }
            }
            Event::WriteLate => {
                if let Some((transaction, stamp)) = node.late.take() {
                    // It may conflict with a later write of the key, too.
                    if transaction
                        .commit(vec![Write::Put(format!("late{step}").into(), "1".into())].into())
                        .await
                        .is_ok()
                    {
                        assert_eq!(committed.insert(stamp, step), None, "{stamp} at {step}");
                    }
                }
                if let Some(lease) = &node.lease {
                    let transaction = engine_of(lease).begin().await.unwrap();
                    node.late = Some((transaction, lease.clock.tick()));
                }
            }
        }
    }
}
