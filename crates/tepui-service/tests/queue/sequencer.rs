//! Concurrent operations: each is decided before the commits of those before it are durable.

use super::*;
use crate::engine::TestEngine;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

type Running<'a> = Pin<Box<dyn Future<Output = Result<Reply, ServiceError>> + 'a>>;

impl Bench<TestEngine> {
    async fn late() -> Self {
        let bench = Self::on(TestEngine::late());
        bench.create().await;
        bench
    }

    /// Starts all operations before any completes. Returns the number of commits.
    async fn together(&self, operations: Vec<SequencedOperation>) -> (Vec<Result<Reply, ErrorCode>>, u64) {
        let commits = || self.engine.control().commits.load(Ordering::Relaxed);
        let before = commits();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let (mut running, mut waits) = (Vec::new(), false);
        for operation in operations {
            let mut operation: Running<'_> = Box::pin(self.run(operation));
            match operation.as_mut().poll(&mut context) {
                Poll::Pending => {
                    waits = true;
                    running.push(operation);
                }
                Poll::Ready(reply) => {
                    assert!(!waits, "answered before what it rests on is stored");
                    running.push(Box::pin(async { reply }));
                }
            }
        }
        let mut replies = Vec::new();
        for started in running {
            replies.push(started.await.map_err(|error| error.code));
        }
        (replies, commits() - before)
    }
}

fn put(text: &'static str, visibility: u64, lifetime: Option<u64>) -> SequencedOperation {
    let (text, lifetime) = (Bytes::from_static(text.as_bytes()), lifetime.map(seconds));
    SequencedOperation::PutMessage { queue: name(), text, visibility: seconds(visibility), lifetime }
}

fn get(count: usize) -> SequencedOperation {
    SequencedOperation::GetMessages { queue: name(), count, visibility: seconds(30) }
}

fn update(message: &Claimed, visibility: u64, text: &'static str) -> SequencedOperation {
    SequencedOperation::UpdateMessage {
        queue: name(),
        id: Some(message.stamp.id),
        receipt: Some(message.receipt),
        visibility: seconds(visibility),
        text: Some(Bytes::from_static(text.as_bytes())),
    }
}

fn delete(message: &Claimed) -> SequencedOperation {
    let (id, receipt) = (Some(message.stamp.id), Some(message.receipt));
    SequencedOperation::DeleteMessage { queue: name(), id, receipt }
}

/// What a reply comes to, in a word: the texts of messages, a number for other replies, or the error.
fn told(reply: &Result<Reply, ErrorCode>) -> String {
    match reply {
        Ok(Reply::Messages(messages)) => format!("[{}]", texts(messages).join(" ")),
        Ok(Reply::Put(_)) => "put".to_owned(),
        Ok(Reply::Updated(_)) => "updated".to_owned(),
        Ok(other) => format!("{other:?}"),
        Err(code) => code.name().to_owned(),
    }
}

#[tokio::test]
async fn each_operation_sees_those_before_it() {
    let bench = Bench::late().await;
    let (a, b, c) = (bench.put("a").await, bench.put("b").await, bench.put("c").await);
    let later = bench.put_with("later", 60, None).await;
    let (clear, drop_queue) = (
        SequencedOperation::ClearMessages { queue: name() },
        SequencedOperation::DeleteQueue { queue: name() },
    );
    for (operations, expected, count) in [
        (vec![get(1), get(1), delete(&b)], &["[a]", "[b]", "MessageNotFound"][..], 4),
        (vec![update(&c, 0, "C"), delete(&c), get(9)], &["updated", "MessageNotFound", "[C]"], 4),
        (vec![delete(&later), delete(&later), get(9)], &["MessageDeleted", "MessageNotFound", "[]"], 3),
        (vec![get(1), put("d", 0, None), get(9), get(9)], &["[]", "put", "[d]", "[]"], 4),
        (vec![put("e", 0, None), put("f", 5, None), get(1)], &["put", "put", "[e]"], 6),
        (
            vec![put("g", 0, None), clear.clone(), get(9), put("h", 0, None)],
            &["put", "Cleared", "[]", "put"],
            1,
        ),
        (vec![clear.clone(), clear, put("i", 0, Some(9)), get(1)], &["Cleared", "Cleared", "put", "[i]"], 1),
    ] {
        let (replies, _) = bench.together(operations).await;
        assert_eq!(replies.iter().map(told).collect::<Vec<_>>(), expected);
        assert_eq!(bench.count().await, count, "{expected:?}");
    }
    let (replies, commits) =
        bench.together(vec![put("j", 0, None), drop_queue.clone(), get(1), drop_queue]).await;
    let expected = ["put", "QueueDeleted", "QueueNotFound", "QueueNotFound"];
    assert_eq!(
        (replies.iter().map(told).collect::<Vec<_>>(), commits),
        (expected.map(str::to_owned).into(), 2)
    );
    bench.create().await;
    assert_eq!((bench.count().await, bench.get(9, 1).await.len()), (0, 0));
    assert_eq!(bench.delete(Some(a.stamp.id), Some(a.receipt)).await, Err(ErrorCode::MessageNotFound));
}

/// More expired messages than a step removes do not hide the messages behind them.
#[tokio::test]
async fn takers_pass_over_very_many_expired_messages() {
    let bench = Bench::late().await;
    for _ in 0..6 {
        bench.together((0..250).map(|_| put("old", 0, Some(5))).collect()).await;
    }
    bench.advance(seconds(6));
    for text in ["1", "2", "3"] {
        bench.put(text).await;
    }
    let (replies, commits) = bench.together(vec![get(1), get(1)]).await;
    assert_eq!(
        (replies.iter().map(told).collect::<Vec<_>>(), commits),
        (vec!["[1]".into(), "[2]".into()], 2)
    );
    assert_eq!((bench.count().await, texts(&bench.get(9, 30).await)), (3, vec!["3"]));
    bench.sweep().await;
    bench.advance(seconds(31));
    assert_eq!((bench.count().await, texts(&bench.get(9, 30).await)), (3, vec!["1", "2", "3"]));
}

#[tokio::test]
async fn what_changes_nothing_commits_nothing() {
    let bench = Bench::late().await;
    let held = bench.put_with("x", 60, None).await;
    assert!(bench.get(1, 30).await.is_empty()); // Moves the low-water mark.
    let stale = Claimed { receipt: PopReceipt { changes: 9, ..held.receipt }, ..held };
    let (replies, commits) = bench.together(vec![get(3), delete(&stale), update(&stale, 1, "y")]).await;
    let expected = ["[]", "MessageNotFound", "MessageNotFound"];
    assert_eq!(
        (replies.iter().map(told).collect::<Vec<_>>(), commits),
        (expected.map(str::to_owned).into(), 0)
    );
}
