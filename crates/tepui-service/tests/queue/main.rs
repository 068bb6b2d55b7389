//! The Queue service: times by a clock that the tests move, many callers at once, and a plain model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
// Futures of gRPC are deep, where tepui-tikv compiles this.
#![recursion_limit = "256"]

mod counting;
mod crowd;
#[path = "../shared/engine.rs"]
mod engine;
mod messages;
mod model;
#[path = "../shared/possible.rs"]
mod possible;
mod queues;
mod sequencer;
#[path = "../shared/store.rs"]
mod store;
mod two_nodes;
#[path = "../shared/yields.rs"]
mod yields;

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use store::{Course, FaultyEngine, Nodes, repeat, repeat_until_done};
use tepui_model::metadata::Metadata;
use tepui_model::queue::{
    Call, Claimed, MessageId, Operation, Peeked, PopReceipt, QueueName, Reply, SequencedOperation,
};
use tepui_model::time::ManualClock;
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_service::{GarbageCollector, QueueOptions, QueueService, StoreAccess, WorkLeases};
use tepui_storage::Engine;

const ACCOUNT: &str = "account";
const QUEUE: &str = "jobs";

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// When the clocks of the tests begin.
fn clock_start() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap()
}

#[test]
fn all_of_it_on_a_faulty_store() {
    Course::Faulty.run();
}

#[test]
fn all_of_it_with_two_nodes_on_a_faulty_store() {
    Course::TwoNodes.run();
}

#[test]
fn all_of_it_with_two_nodes_on_a_database() {
    Course::Database.run();
}

fn name() -> QueueName {
    QueueName::parse(QUEUE).unwrap()
}

/// A service, its clock, and short ways to ask it for things of one queue.
struct Bench<E: Engine> {
    nodes: Nodes<Arc<QueueService<E>>>,
    engine: Arc<E>,
    collector: Arc<GarbageCollector<E>>,
    clock: Arc<ManualClock>,
}

impl Bench<FaultyEngine> {
    async fn in_memory() -> Self {
        let bench = Self::of_nodes(
            store::engine(),
            QueueOptions::default(),
            ManualClock::at(clock_start()),
            store::nodes(),
        );
        bench.create().await;
        bench
    }
}

impl<E: Engine> Bench<E> {
    fn on(engine: E) -> Self {
        Self::with(engine, QueueOptions::default(), clock_start())
    }

    fn with(engine: E, options: QueueOptions, now: Timestamp) -> Self {
        Self::of_nodes(engine, options, ManualClock::at(now), 1)
    }

    /// So many nodes, with one clock.
    fn of_nodes(engine: E, options: QueueOptions, clock: ManualClock, count: usize) -> Self {
        let (engine, clock) = (Arc::new(engine), Arc::new(clock));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let node = |_| {
            let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
            Arc::new(QueueService::new(Arc::clone(&engine), time, Arc::clone(&collector), options))
        };
        Self { nodes: Nodes::new(count, node), engine, collector, clock }
    }

    /// The node that answers the next request.
    fn service(&self) -> &Arc<QueueService<E>> {
        self.nodes.next()
    }

    /// One attempt.
    async fn try_run(&self, call: &Call) -> Result<Reply, ServiceError> {
        self.service().execute(ACCOUNT, call).await
    }

    async fn run(&self, call: impl Into<Call>) -> Result<Reply, ServiceError> {
        let call = call.into();
        repeat(|| async { self.try_run(&call).await }).await.answer
    }

    async fn sweep(&self) {
        repeat_until_done(|| async { self.service().sweep_once().await }).await;
    }

    async fn create(&self) {
        let create = Operation::CreateQueue { queue: name(), metadata: Metadata::default() }.into();
        let answer = repeat(|| self.try_run(&create)).await;
        let is_created = match &answer.answer {
            Ok(Reply::QueueExists) => answer.is_open,
            reply => *reply == Ok(Reply::QueueCreated),
        };
        assert!(is_created, "{:?}", answer.answer);
    }

    async fn delete_queue(&self) {
        let delete = SequencedOperation::DeleteQueue { queue: name() }.into();
        let answer = repeat(|| async { self.try_run(&delete).await }).await;
        let gone = |code| (code == ErrorCode::QueueNotFound).then_some(Reply::QueueDeleted);
        assert_eq!(answer.unless_done(gone), Ok(Reply::QueueDeleted));
    }

    /// Moves the clock a little further than that, past the ticks that operations took meanwhile.
    fn advance(&self, by: Duration) {
        self.clock.advance(by + Duration::from_millis(1));
    }

    async fn put_with(&self, text: &str, visibility: u64, lifetime: Option<Duration>) -> Claimed {
        let text = Bytes::copy_from_slice(text.as_bytes());
        let visibility = seconds(visibility);
        match self.run(SequencedOperation::PutMessage { queue: name(), text, visibility, lifetime }).await {
            Ok(Reply::Put(message)) => message,
            other => panic!("not put: {other:?}"),
        }
    }

    async fn put(&self, text: &str) -> Claimed {
        self.put_with(text, 0, None).await
    }

    async fn get(&self, count: usize, visibility: u64) -> Vec<Claimed> {
        let visibility = seconds(visibility);
        match self.run(SequencedOperation::GetMessages { queue: name(), count, visibility }).await {
            Ok(Reply::Messages(messages)) => messages,
            other => panic!("not taken: {other:?}"),
        }
    }

    async fn peek(&self, count: usize) -> Vec<Peeked> {
        match self.run(Operation::PeekMessages { queue: name(), count }).await {
            Ok(Reply::Peeked(messages)) => messages,
            other => panic!("not looked at: {other:?}"),
        }
    }

    async fn update(
        &self,
        id: Option<MessageId>,
        receipt: Option<PopReceipt>,
        visibility: u64,
        text: Option<&str>,
    ) -> Result<PopReceipt, ServiceError> {
        let text = text.map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let visibility = seconds(visibility);
        match self
            .run(SequencedOperation::UpdateMessage { queue: name(), id, receipt, visibility, text })
            .await?
        {
            Reply::Updated(receipt) => Ok(receipt),
            other => panic!("not updated: {other:?}"),
        }
    }

    async fn delete(&self, id: Option<MessageId>, receipt: Option<PopReceipt>) -> Result<(), ErrorCode> {
        match self.run(SequencedOperation::DeleteMessage { queue: name(), id, receipt }).await {
            Ok(Reply::MessageDeleted) => Ok(()),
            Ok(other) => panic!("not deleted: {other:?}"),
            Err(error) => Err(error.code),
        }
    }

    async fn clear(&self) {
        assert_eq!(self.run(SequencedOperation::ClearMessages { queue: name() }).await, Ok(Reply::Cleared));
    }

    async fn count(&self) -> u64 {
        match self.run(Operation::GetMetadata { queue: name() }).await {
            Ok(Reply::Metadata { messages, .. }) => messages,
            other => panic!("not counted: {other:?}"),
        }
    }
}

fn texts(messages: &[Claimed]) -> Vec<&str> {
    messages.iter().map(|message| std::str::from_utf8(&message.text).unwrap()).collect()
}
