//! What requests cost on a store behind a network: round trips, counted. `docs/round-trips.md` has the same table.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod blobs;
mod queues;
#[path = "../shared/remote.rs"]
mod remote;
mod tables;

use remote::RemoteEngine;
use std::fmt::Write as _;
use tepui_storage::{Commit, CommitPipeline, Engine, Key, KeyRange, ScanLimit, Snapshot, Transaction, Write};

const ACCOUNT: &str = "account";

/// The table of the documentation.
const DOCUMENTED: &str = include_str!("../../../../docs/round-trips.md");

/// What was counted.
#[derive(Default)]
struct Costs(String);

impl Costs {
    fn add(&mut self, request: &str, warm: u64, cold: u64) {
        writeln!(self.0, "| {request} | {warm} | {cold} |").unwrap();
    }

    /// Compares with the documentation.
    fn check(&self) {
        let wrong: Vec<&str> = self.0.lines().filter(|line| !DOCUMENTED.contains(line)).collect();
        assert!(wrong.is_empty(), "docs/round-trips.md says otherwise. Counted:\n{}", self.0);
    }
}

/// The round trips of some work.
async fn counted<T>(engine: &RemoteEngine, work: impl Future<Output = T>) -> (T, u64) {
    let before = engine.round_trips();
    let done = work.await;
    (done, engine.round_trips() - before)
}

#[tokio::test]
async fn what_is_sent_together_is_one_round_trip() {
    let engine = RemoteEngine::new();
    let (key, keys) = (Key::from("a"), [Key::from("a"), Key::from("b")]);
    let range = KeyRange { start: "a".into(), end: "z".into() };
    let limit = ScanLimit { max_rows: 10, max_bytes: 1000 };
    let transaction = engine.begin().await.unwrap();
    assert_eq!(engine.round_trips(), 0);
    let joined = async { tokio::join!(transaction.get(&key), transaction.scan(&range, limit)) };
    assert_eq!(counted(&engine, joined).await.1, 1);
    let in_turn = async {
        transaction.get(&key).await.unwrap();
        transaction.get_many(&keys).await.unwrap();
    };
    assert_eq!(counted(&engine, in_turn).await.1, 2);
    // The second read of the first branch begins when the first one is answered.
    let branches = async {
        let two = async {
            transaction.get(&key).await.unwrap();
            transaction.get(&key).await.unwrap();
        };
        tokio::join!(two, transaction.get(&key))
    };
    assert_eq!(counted(&engine, branches).await.1, 2);
    let commit = Commit::from(vec![Write::Put(key.clone(), "1".into())]);
    assert_eq!(counted(&engine, transaction.commit(commit.clone())).await.1, 1);
    assert_eq!(counted(&engine, engine.get_many(&keys)).await.1, 1);
    // Two transactions at once do not share any.
    let (one, other) = (engine.begin().await.unwrap(), engine.begin().await.unwrap());
    let both = async { tokio::join!(one.get(&key), other.get(&key)) };
    assert_eq!(counted(&engine, both).await.1, 2);
    let pipeline = engine.begin_pipeline().await.unwrap();
    let commits = async { tokio::join!(pipeline.submit(commit.clone()), pipeline.submit(commit)) };
    let ((first, second), cost) = counted(&engine, commits).await;
    assert_eq!((first, second, cost), (Ok(()), Ok(()), 2), "nothing was read before");
    assert!(pipeline.is_ended());
}
