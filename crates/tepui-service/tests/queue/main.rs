//! The Queue service: times by a clock that the tests move, many callers at once, and a plain model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod counting;
mod crowd;
#[path = "../shared/engine.rs"]
mod engine;
mod messages;
mod model;
mod queues;
mod sequencer;
#[path = "../shared/yields.rs"]
mod yields;

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{Claimed, MessageId, Operation, Peeked, PopReceipt, QueueName, Reply};
use tepui_model::time::ManualClock;
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_service::{GarbageCollector, QueueOptions, QueueService};
use tepui_storage::{Engine, MemoryEngine};

const ACCOUNT: &str = "account";
const QUEUE: &str = "jobs";

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn name() -> QueueName {
    QueueName::parse(QUEUE).unwrap()
}

/// A service, its clock, and short ways to ask it for things of one queue.
struct Bench<E: Engine> {
    service: Arc<QueueService<E>>,
    engine: Arc<E>,
    collector: Arc<GarbageCollector<E>>,
    clock: Arc<ManualClock>,
}

impl Bench<MemoryEngine> {
    async fn in_memory() -> Self {
        let bench = Self::on(MemoryEngine::new());
        bench.create().await;
        bench
    }
}

impl<E: Engine> Bench<E> {
    fn on(engine: E) -> Self {
        Self::with(engine, QueueOptions::default(), Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap())
    }

    fn with(engine: E, options: QueueOptions, now: Timestamp) -> Self {
        let (engine, clock) = (Arc::new(engine), Arc::new(ManualClock::at(now)));
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let service = QueueService::new(Arc::clone(&engine), time, Arc::clone(&collector), options);
        Self { service: Arc::new(service), engine, collector, clock }
    }

    async fn run(&self, operation: Operation) -> Result<Reply, ServiceError> {
        self.service.execute(ACCOUNT, &operation).await
    }

    async fn create(&self) {
        let operation = Operation::CreateQueue { queue: name(), metadata: Metadata::default() };
        assert_eq!(self.run(operation).await, Ok(Reply::QueueCreated));
    }

    async fn delete_queue(&self) {
        assert_eq!(self.run(Operation::DeleteQueue { queue: name() }).await, Ok(Reply::QueueDeleted));
    }

    /// Moves the clock a little further than that, past the ticks that operations took meanwhile.
    fn advance(&self, by: Duration) {
        self.clock.advance(by + Duration::from_millis(1));
    }

    async fn put_with(&self, text: &str, visibility: u64, lifetime: Option<Duration>) -> Claimed {
        let text = Bytes::copy_from_slice(text.as_bytes());
        let visibility = seconds(visibility);
        match self.run(Operation::PutMessage { queue: name(), text, visibility, lifetime }).await {
            Ok(Reply::Put(message)) => message,
            other => panic!("not put: {other:?}"),
        }
    }

    async fn put(&self, text: &str) -> Claimed {
        self.put_with(text, 0, None).await
    }

    async fn get(&self, count: usize, visibility: u64) -> Vec<Claimed> {
        let visibility = seconds(visibility);
        match self.run(Operation::GetMessages { queue: name(), count, visibility }).await {
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
        match self.run(Operation::UpdateMessage { queue: name(), id, receipt, visibility, text }).await? {
            Reply::Updated(receipt) => Ok(receipt),
            other => panic!("not updated: {other:?}"),
        }
    }

    async fn delete(&self, id: Option<MessageId>, receipt: Option<PopReceipt>) -> Result<(), ErrorCode> {
        match self.run(Operation::DeleteMessage { queue: name(), id, receipt }).await {
            Ok(Reply::MessageDeleted) => Ok(()),
            Ok(other) => panic!("not deleted: {other:?}"),
            Err(error) => Err(error.code),
        }
    }

    async fn clear(&self) {
        assert_eq!(self.run(Operation::ClearMessages { queue: name() }).await, Ok(Reply::Cleared));
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
