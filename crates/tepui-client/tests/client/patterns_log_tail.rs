//! The log tail pattern.

use crate::support::TestServer;
use std::collections::BTreeSet;
use std::time::Duration;
use tepui_client::patterns::log_tail::{Log, LogEntry};
use tepui_client::{Entity, ErrorKind, Retry, Timestamp};
use tokio::task::JoinSet;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Claims", closed)]
#[key(partition = "{employee}", row = "{at:desc}_{seq:04}")]
struct Claim {
    employee: String,
    at: Timestamp,
    seq: u16,
    number: i32,
}

impl LogEntry for Claim {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn set_seq(&mut self, seq: u16) {
        self.seq = seq;
    }
}

fn claim(seconds: u64, number: i32) -> Claim {
    let at =
        Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap().saturating_add(Duration::from_secs(seconds));
    Claim { employee: "emp7".to_owned(), at, seq: 0, number }
}

async fn log(server: &TestServer) -> Log<Claim> {
    let table = server.account().table_of::<Claim>().unwrap();
    table.create_if_missing().await.unwrap();
    Log::new(&table)
}

async fn numbers(log: &Log<Claim>) -> Vec<i32> {
    log.tail("emp7", 10_000).await.unwrap().iter().map(|claim| claim.number).collect()
}

#[tokio::test]
async fn the_newest_come_first() {
    let server = TestServer::start().await;
    let log = log(&server).await;
    for (seconds, number) in [(2, 2), (0, 0), (3, 3), (1, 1)] {
        log.append(claim(seconds, number)).await.unwrap();
    }
    log.append(Claim { employee: "emp8".to_owned(), ..claim(9, 9) }).await.unwrap();
    let tail = log.tail("emp7", 2).await.unwrap();
    assert_eq!(tail.iter().map(|claim| claim.number).collect::<Vec<_>>(), [3, 2]);
    for (seconds, expected) in [(2, vec![3, 2]), (0, vec![3, 2, 1, 0]), (4, vec![])] {
        let mut since = log.since("emp7", claim(seconds, 0).at).unwrap();
        let mut found = Vec::new();
        while let Some(claim) = since.next_entity().await.unwrap() {
            found.push(claim.number);
        }
        assert_eq!(found, expected, "{seconds}");
    }
    assert_eq!(log.load().seconds_above_target(), 0);
    assert_eq!(log.load().busiest().unwrap().partition_key, "emp7");
}

#[tokio::test]
async fn all_entries_of_one_tick_are_kept() {
    let server = TestServer::start().await;
    let log = log(&server).await;
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let log = log.clone();
        writers.spawn(async move {
            for number in 0..5 {
                let mut pending = log.prepare(claim(0, writer * 100 + number));
                // Four at a time may be contended for long.
                while let Err(error) = pending.commit().await {
                    assert_eq!(error.kind(), ErrorKind::Contended, "{error:?}");
                }
            }
        });
    }
    writers.join_all().await;
    let found: BTreeSet<_> = numbers(&log).await.into_iter().collect();
    let expected: BTreeSet<_> =
        (0..4).flat_map(|writer| (0..5).map(move |number| writer * 100 + number)).collect();
    assert_eq!((found, numbers(&log).await.len()), (expected, 20));
}

#[tokio::test]
async fn an_entry_whose_answer_was_lost_is_there_once() {
    let server = TestServer::start().await;
    let log = log(&server).await;
    for (number, when) in [(0, "after"), (1, "before"), (2, "after"), (3, "after")] {
        server
            .fault(&format!(r#"{{"operation":"InsertEntity","when":"{when}","cut":true,"count":1}}"#))
            .await;
        let appended = log.append(claim(0, number)).await.unwrap();
        assert_eq!(appended.seq, u16::try_from(number).unwrap());
        server.clear_faults().await;
    }
    assert_eq!(numbers(&log).await, [0, 1, 2, 3]);
}

#[tokio::test]
async fn an_entry_of_unknown_outcome_can_be_committed_again() {
    let server = TestServer::start().await;
    log(&server).await.append(claim(0, 0)).await.unwrap();
    let account = server.builder().retry(Retry::never()).build().unwrap();
    let log = Log::new(&account.table_of::<Claim>().unwrap());
    for (number, when) in [(1, "after"), (2, "before")] {
        let mut pending = log.prepare(claim(0, number));
        // The first number is taken, the insert under the second is lost, and so is every look at what became of it.
        let lost =
            format!(r#"{{"operation":"InsertEntity","when":"{when}","cut":true,"nth":2,"count":100}}"#);
        server.fault(&lost).await;
        server.fault(r#"{"operation":"QueryEntity","cut":true,"nth":2,"count":100}"#).await;
        assert_eq!(pending.commit().await.unwrap_err().kind(), ErrorKind::Unknown);
        server.clear_faults().await;
        pending.commit().await.unwrap();
        pending.commit().await.unwrap();
        assert_eq!(pending.entry().number, number);
    }
    assert_eq!(numbers(&log).await, [0, 1, 2]);
}

/// Its keys are something else.
#[derive(Entity, Debug)]
#[entity(table = "Claims")]
#[key(partition = "{employee}", row = "{at:asc}_{seq:04}")]
struct Ascending {
    employee: String,
    at: Timestamp,
    seq: u16,
}

impl LogEntry for Ascending {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn set_seq(&mut self, seq: u16) {
        self.seq = seq;
    }
}

#[tokio::test]
async fn other_keys_are_refused() {
    let server = TestServer::start().await;
    let log = Log::new(&server.account().table_of::<Ascending>().unwrap());
    let entry = Ascending { employee: "emp7".to_owned(), at: claim(0, 0).at, seq: 0 };
    assert_eq!(log.append(entry).await.unwrap_err().kind(), ErrorKind::Refused);
}
