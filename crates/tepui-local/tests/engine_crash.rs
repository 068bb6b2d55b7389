//! A child process commits from several tasks and is killed in the middle, again and again.
//!
//! What it acknowledged must be there, whole and in order, and nothing may be there in part.
//! `TEPUI_CRASH_ROUNDS` asks for more rounds than the few that every run makes, and
//! `TEPUI_CRASH_SEED` for the same times of death as an earlier run.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, Value, Write};

const WRITERS: u32 = 8;

/// Each writer deletes the rows that are this far behind its newest.
const KEPT: u64 = 40;

fn options(path: &Path) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    // Small, so that rounds die during flushes and compactions too.
    options.memtable_bytes = 512 << 10;
    options
}

fn row(round: u32, writer: u32, part: &str, number: u64) -> Key {
    format!("{round:04}/{writer:02}/{part}/{number:08}").into()
}

fn value(writer: u32, number: u64) -> Value {
    let length = (number * 37 + u64::from(writer) * 211) % 3000;
    vec![(number % 251) as u8; length as usize].into()
}

fn last_key(round: u32, writer: u32) -> Key {
    format!("{round:04}/{writer:02}/last").into()
}

/// The child: every commit writes two rows and the number of the newest, and deletes two old ones.
#[test]
fn child() {
    let Ok(path) = std::env::var("TEPUI_CRASH_DIRECTORY") else { return };
    let round: u32 =
        std::env::var("TEPUI_CRASH_ROUND").ok().and_then(|round| round.parse().ok()).expect("a round");
    let engine = DiskEngine::open(options(Path::new(&path))).expect("the directory can be opened");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for number in 1.. {
                        commit(&engine, round, writer, number).await;
                        // One write call per line: a line is whole or not there.
                        let line = format!("done {writer} {number}\n");
                        std::io::stdout().write_all(line.as_bytes()).expect("the parent listens");
                        std::io::stdout().flush().expect("the parent listens");
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("a writer goes on until it is killed");
        }
    });
}

async fn commit(engine: &DiskEngine, round: u32, writer: u32, number: u64) {
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
        let now = engine.snapshot().await.expect("a snapshot can be taken");
        match engine.commit(now.version(), vec![], writes.clone()).await {
            Ok(()) => return,
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("a commit fails: {error}"),
        }
    }
}

#[test]
fn killed_again_and_again() {
    let rounds = number_from("TEPUI_CRASH_ROUNDS").unwrap_or(8) as u32;
    let seed = number_from("TEPUI_CRASH_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("TEPUI_CRASH_SEED={seed}");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    let mut newest: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let (mut total, mut slowest) = (0, Duration::ZERO);
    let mut random = seed | 1;
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let acknowledged = run_and_kill(directory.path(), round, Duration::from_millis(20 + random % 500));
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
            commit(&engine, 9999, 0, u64::from(round) + 1).await;
        });
    }
    println!(
        "{total} commits acknowledged in {rounds} rounds, none lost or torn; slowest opening {slowest:?}"
    );
    assert!(total > 0, "the children got somewhere");
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// How many commits of each writer were acknowledged.
fn run_and_kill(directory: &Path, round: u32, life: Duration) -> BTreeMap<u32, u64> {
    let mut child = Command::new(std::env::current_exe().expect("a test knows its path"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("TEPUI_CRASH_DIRECTORY", directory)
        .env("TEPUI_CRASH_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child can be started");
    let lines = BufReader::new(child.stdout.take().expect("the child's output is piped")).lines();
    let mut acknowledged = BTreeMap::new();
    let mut killer = None;
    for line in lines {
        let line = line.expect("the child writes text");
        // libtest may have begun the line.
        let Some((_, done)) = line.split_once("done ") else { continue };
        let mut numbers = done.split(' ');
        let (Some(writer), Some(number)) = (numbers.next(), numbers.next()) else { continue };
        let writer: u32 = writer.parse().expect("a writer's number");
        let number: u64 = number.parse().expect("a commit's number");
        assert_eq!(acknowledged.insert(writer, number).unwrap_or(0) + 1, number, "in order");
        // Its life begins with its first commit.
        let id = child.id();
        killer.get_or_insert_with(|| {
            std::thread::spawn(move || {
                std::thread::sleep(life);
                Command::new("kill")
                    .args(["-KILL", &id.to_string()])
                    .status()
                    .expect("the child can be killed");
            })
        });
    }
    let status = child.wait().expect("the child ends");
    assert!(!status.success(), "the child was killed");
    killer.expect("the child made a commit").join().expect("the killer ends");
    acknowledged
}

/// The newest number that one writer left, after a look at all its rows.
async fn check(engine: &DiskEngine, round: u32, writer: u32) -> u64 {
    let now = engine.snapshot().await.expect("a snapshot can be taken");
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
