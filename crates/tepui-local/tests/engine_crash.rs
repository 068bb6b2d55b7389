//! A child process commits from several tasks and is killed in the middle, again and again.
//!
//! What it acknowledged must be there, whole and in order, and nothing may be there in part.

mod killed;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, Transaction, Value, Write};

const WRITERS: u32 = 8;

/// Each writer deletes the rows that are this far behind its newest.
const KEPT: u64 = 40;

fn options(path: &Path) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    // Small, so that rounds die during flushes and compactions too.
    options.memtable_bytes = 512 << 10;
    options
}

fn row(round: u64, writer: u32, part: &str, number: u64) -> Key {
    format!("{round:04}/{writer:02}/{part}/{number:08}").into()
}

fn value(writer: u32, number: u64) -> Value {
    let length = (number * 37 + u64::from(writer) * 211) % 3000;
    vec![(number % 251) as u8; length as usize].into()
}

fn last_key(round: u64, writer: u32) -> Key {
    format!("{round:04}/{writer:02}/last").into()
}

/// The child: every commit writes two rows and the number of the newest, and deletes two old ones.
#[test]
fn child() {
    let Some((round, path)) = killed::child() else { return };
    let engine = DiskEngine::open(options(&path)).expect("the directory can be opened");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for number in 1.. {
                        commit(&engine, round, writer, number).await;
                        killed::send(&format!("{writer} {number}"));
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("a writer goes on until it is killed");
        }
    });
}

async fn commit(engine: &DiskEngine, round: u64, writer: u32, number: u64) {
    let mut writes = vec![
        Write::Put(row(round, writer, "a", number), value(writer, number)),
        Write::Put(last_key(round, writer), number.to_be_bytes().to_vec().into()),
        Write::Put(row(round, writer, "b", number), value(writer, number)),
    ];
    if let Some(old) = number.checked_sub(KEPT).filter(|old| *old > 0) {
        writes.push(Write::Delete(row(round, writer, "a", old)));
        writes.push(Write::Delete(row(round, writer, "b", old)));
    }
    loop {
        let now = engine.begin().await.expect("a transaction can begin");
        match now.commit(writes.clone().into()).await {
            Ok(()) => return,
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("a commit fails: {error}"),
        }
    }
}

#[test]
fn killed_again_and_again() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    let mut newest: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    let (mut total, mut slowest) = (0, Duration::ZERO);
    for (round, life) in killed::rounds(20, 500) {
        let acknowledged = run_and_kill(directory.path(), round, life);
        total += acknowledged.values().sum::<u64>();

        let began = Instant::now();
        let engine =
            DiskEngine::open(options(directory.path())).expect("the directory can be opened after a kill");
        slowest = slowest.max(began.elapsed());
        runtime.block_on(async {
            for writer in 0..WRITERS {
                let acknowledged = acknowledged.get(&writer).copied().unwrap_or(0);
                let last = check(&engine, round, writer).await;
                assert!(
                    last >= acknowledged,
                    "round {round}, writer {writer}: {acknowledged} was acknowledged, {last} is there"
                );
                assert!(
                    last <= acknowledged + 1,
                    "round {round}, writer {writer}: {last} was never acknowledged"
                );
                newest.insert((round, writer), last);
            }
            // What earlier rounds left has not changed.
            for ((round, writer), last) in &newest {
                assert_eq!(check(&engine, *round, *writer).await, *last, "round {round}, writer {writer}");
            }
            // And the engine takes writes.
            commit(&engine, 9999, 0, round + 1).await;
        });
    }
    println!("{total} commits acknowledged, none lost or torn; slowest opening {slowest:?}");
    assert!(total > 0, "the children got somewhere");
}

/// How many commits of each writer were acknowledged.
fn run_and_kill(directory: &Path, round: u64, life: Duration) -> BTreeMap<u32, u64> {
    let mut acknowledged = BTreeMap::new();
    killed::run_and_kill(directory, round, life, |line| {
        let (writer, number) = line.split_once(' ').expect("two numbers");
        let writer: u32 = writer.parse().expect("a writer's number");
        let number: u64 = number.parse().expect("a commit's number");
        assert_eq!(acknowledged.insert(writer, number).unwrap_or(0) + 1, number, "in order");
    });
    acknowledged
}

/// The newest number that one writer left, after a look at all its rows.
async fn check(engine: &DiskEngine, round: u64, writer: u32) -> u64 {
    let now = engine.begin().await.expect("a transaction can begin");
    let last = now.get(&last_key(round, writer)).await.expect("a row can be read");
    let last = last.map_or(0, |last| u64::from_be_bytes(last[..].try_into().expect("eight bytes")));
    let limit = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    for part in ["a", "b"] {
        let range =
            KeyRange { start: row(round, writer, part, 0), end: row(round, writer, part, 99_999_999) };
        let found = now.scan(&range, limit).await.expect("rows can be read").rows;
        let first = last.saturating_sub(KEPT) + 1;
        let expected: Vec<(Key, Value)> =
            (first..=last).map(|number| (row(round, writer, part, number), value(writer, number))).collect();
        assert!(
            found == expected,
            "round {round}, writer {writer}, part {part}: rows {first} to {last} and no others"
        );
    }
    last
}
