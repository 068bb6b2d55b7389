//! Queues, as one of several nodes serves them.

use super::*;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{Call, Claimed, ListQueues, Operation, QueueName, Reply, SequencedOperation};
use tepui_model::time::{NodeNumber, SystemClock};
use tepui_service::{GarbageCollector, QueueOptions, QueueService};

type Service = Arc<QueueService<RemoteEngine>>;

fn service(engine: &RemoteEngine) -> Service {
    let engine = Arc::new(engine.clone());
    let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
    let clock = Arc::new(SystemClock::of_node(NodeNumber::new(1).unwrap()));
    Arc::new(QueueService::new(engine, clock, collector, QueueOptions::default()))
}

fn name(queue: &str) -> QueueName {
    QueueName::parse(queue).unwrap()
}

fn jobs() -> QueueName {
    name("jobs")
}

async fn run(service: &Service, call: impl Into<Call>) -> Reply {
    service.execute(ACCOUNT, &call.into()).await.unwrap()
}

fn put() -> SequencedOperation {
    let text = Bytes::from_static(b"text");
    SequencedOperation::PutMessage { queue: jobs(), text, visibility: Duration::ZERO, lifetime: None }
}

fn get(count: usize) -> SequencedOperation {
    SequencedOperation::GetMessages { queue: jobs(), count, visibility: Duration::from_secs(30) }
}

async fn claim(service: &Service, count: usize) -> Vec<Claimed> {
    match run(service, get(count)).await {
        Reply::Messages(messages) => messages,
        other => panic!("not taken: {other:?}"),
    }
}

fn delete(message: &Claimed) -> SequencedOperation {
    let (id, receipt) = (Some(message.stamp.id), Some(message.receipt));
    SequencedOperation::DeleteMessage { queue: jobs(), id, receipt }
}

fn update(message: &Claimed) -> SequencedOperation {
    let (id, receipt) = (Some(message.stamp.id), Some(message.receipt));
    let visibility = Duration::from_secs(60);
    SequencedOperation::UpdateMessage { queue: jobs(), id, receipt, visibility, text: None }
}

fn create(queue: &str) -> Operation {
    Operation::CreateQueue { queue: name(queue), metadata: Metadata::default() }
}

/// Runs a request on a service that does not know the queue, and another on one that does.
async fn measure(
    costs: &mut Costs,
    engine: &RemoteEngine,
    warm: &Service,
    request: &str,
    calls: [impl Into<Call>; 2],
) {
    let [first, second] = calls;
    let (_, cold) = counted(engine, run(&service(engine), first)).await;
    let (_, again) = counted(engine, run(warm, second)).await;
    costs.add(request, again, cold);
}

#[tokio::test]
async fn requests_for_queues() {
    let engine = RemoteEngine::new();
    let warm = service(&engine);
    run(&warm, create("jobs")).await;
    for _ in 0..200 {
        run(&warm, put()).await;
    }
    let mut costs = Costs::default();
    let taken = claim(&warm, 8).await;
    measure(&mut costs, &engine, &warm, "Put Message", [put(), put()]).await;
    measure(&mut costs, &engine, &warm, "Get Messages, 1", [get(1), get(1)]).await;
    measure(&mut costs, &engine, &warm, "Get Messages, 32", [get(32), get(32)]).await;
    measure(&mut costs, &engine, &warm, "Update Message", [update(&taken[0]), update(&taken[1])]).await;
    measure(&mut costs, &engine, &warm, "Delete Message", [delete(&taken[2]), delete(&taken[3])]).await;
    let peek = || Operation::PeekMessages { queue: jobs(), count: 32 };
    measure(&mut costs, &engine, &warm, "Peek Messages, 32", [peek(), peek()]).await;
    let metadata = || Operation::GetMetadata { queue: jobs() };
    measure(&mut costs, &engine, &warm, "Get Queue Metadata", [metadata(), metadata()]).await;
    measure(&mut costs, &engine, &warm, "Create Queue", [create("first"), create("second")]).await;
    let list = || {
        Operation::ListQueues(ListQueues {
            prefix: String::new(),
            from: None,
            page_size: 100,
            with_metadata: false,
        })
    };
    measure(&mut costs, &engine, &warm, "List Queues", [list(), list()]).await;
    let clear = || SequencedOperation::ClearMessages { queue: jobs() };
    measure(&mut costs, &engine, &warm, "Clear Messages", [clear(), clear()]).await;
    run(&warm, Operation::GetMetadata { queue: name("second") }).await;
    let drop = |queue| SequencedOperation::DeleteQueue { queue: name(queue) };
    measure(&mut costs, &engine, &warm, "Delete Queue", [drop("first"), drop("second")]).await;
    costs.check();
}

#[tokio::test]
async fn requests_for_one_queue_share_round_trips() {
    let engine = RemoteEngine::new();
    let service = service(&engine);
    run(&service, create("jobs")).await;
    for _ in 0..100 {
        run(&service, put()).await;
    }
    let together = async |calls: Vec<SequencedOperation>| {
        let running: Vec<_> = calls
            .into_iter()
            .map(|call| {
                let service = Arc::clone(&service);
                tokio::spawn(async move { run(&service, call).await })
            })
            .collect();
        let mut replies = Vec::new();
        for reply in running {
            replies.push(reply.await.unwrap());
        }
        replies
    };
    let (taken, cost) = counted(&engine, together((0..8).map(|_| get(4)).collect())).await;
    assert!(cost <= 4, "8 claims: {cost}");
    let taken: Vec<Claimed> = taken
        .into_iter()
        .flat_map(|reply| match reply {
            Reply::Messages(messages) => messages,
            other => panic!("not taken: {other:?}"),
        })
        .collect();
    assert_eq!(taken.len(), 32);
    let (_, cost) = counted(&engine, together(taken.iter().map(delete).collect())).await;
    assert!(cost <= 3, "32 deletions: {cost}");
}
