//! Many writers at once.

use crate::shared::{commit, engine, put};
use std::time::{Duration, Instant};
use tepui_postgres::PostgresEngine;
use tepui_postgres_testing::{PostgresServer, is_skipped};
use tepui_storage::{Commit, CommitError, Engine, Guard, Key, Snapshot, Transaction, Write};

const WRITERS: usize = 16;

/// Commits of all writers until a time is over; none of them conflicts.
async fn rate(engine: &PostgresEngine, run: &str, guard: impl Fn(usize) -> Key) -> f64 {
    let began = Instant::now();
    let writers = (0..WRITERS).map(|writer| {
        let (engine, guard, run) = (engine.clone(), guard(writer), run.to_owned());
        tokio::spawn(async move {
            let mut commits = 0;
            while began.elapsed() < Duration::from_millis(1500) {
                let transaction = engine.begin().await.expect("it asks nothing");
                assert!(transaction.get(&guard).await.expect("it can be read").is_some());
                let writes = vec![put(format!("row/{run}/{writer}/{commits}"), "x".repeat(100))];
                let commit = Commit::new(vec![Guard::Shared(guard.clone())], writes);
                assert_eq!(transaction.commit(commit).await, Ok(()), "guards are shared");
                commits += 1;
            }
            commits
        })
    });
    let mut commits = 0;
    for writer in writers.collect::<Vec<_>>() {
        commits += writer.await.expect("no writer fails");
    }
    f64::from(commits) / began.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_table_are_as_fast_as_those_of_many() {
    if is_skipped() {
        return;
    }
    let engine = engine(PostgresServer::shared()).await;
    let tables: Vec<Write> = (0..WRITERS).map(|table| put(format!("table/{table}"), "")).collect();
    commit(&engine, tables).await.expect("nobody else writes");
    // Other tests run at the same time: one of a few rounds has to show it.
    let mut ratios = Vec::new();
    for round in 0..5 {
        let one = rate(&engine, &format!("one/{round}"), |_| "table/0".into()).await;
        let many = rate(&engine, &format!("many/{round}"), |writer| format!("table/{writer}").into()).await;
        ratios.push(one / many);
        if one >= 0.8 * many {
            return;
        }
    }
    panic!("writers of one table are slower: {ratios:?}");
}

/// Commits of rivals that touch some of a few keys in several ways.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rivals_wait_for_each_other_and_not_in_a_circle() {
    if is_skipped() {
        return;
    }
    const KEYS: usize = 12;
    let server = PostgresServer::start();
    let engine = crate::shared::open(&server.url()).await;
    let key = |number: usize| Key::from(format!("{number:02}"));
    commit(&engine, (0..KEYS).map(|number| put(key(number), "0")).collect::<Vec<_>>())
        .await
        .expect("nobody else");
    let rival = |seed: u64| {
        let engine = engine.clone();
        async move {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut done = 0;
            for _ in 0..150 {
                let transaction = engine.begin().await.expect("it asks nothing");
                let numbers: Vec<usize> = (0..5).map(|_| random.usize(..KEYS)).collect();
                let keys: Vec<Key> = numbers.iter().copied().map(key).collect();
                let found = transaction.get_many(&keys).await.expect("it can be read");
                let (mut guards, mut writes) = (Vec::new(), Vec::new());
                for (key, value) in keys.into_iter().zip(found) {
                    match random.u8(..3) {
                        0 => guards.push(Guard::Shared(key)),
                        1 => guards.push(Guard::Unchanged(key)),
                        _ => writes.push(Write::Put(key, value.expect("it is there"))),
                    }
                }
                match transaction.commit(Commit::new(guards, writes)).await {
                    Ok(()) => done += 1,
                    Err(CommitError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            done
        }
    };
    let done: Vec<u32> = futures_util::future::join_all((0..8).map(rival)).await;
    assert!(done.iter().sum::<u32>() > 100, "{done:?}");
    assert_eq!(server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"), "0");
    assert!(!server.log().contains("deadlock detected"));
}

/// Each commit moves something from one row to another: rows come and go, and the sum stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_where_rows_come_and_go() {
    if is_skipped() {
        return;
    }
    const KEYS: usize = 8;
    let engine = engine(PostgresServer::shared()).await;
    let key = |number: usize| Key::from(format!("{number:02}"));
    let encode = |amount: u32| tepui_storage::Value::from(amount.to_string());
    let decode = |value: &Option<tepui_storage::Value>| -> u32 {
        let text = value.as_ref().map_or("0", |value| std::str::from_utf8(value).expect("digits"));
        text.parse().expect("a number")
    };
    commit(&engine, vec![put(key(0), encode(40))]).await.expect("nobody else writes");
    let mover = |seed: u64| {
        let engine = engine.clone();
        async move {
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..80 {
                let (from, to, other) = (random.usize(..KEYS), random.usize(..KEYS), random.usize(..KEYS));
                let transaction = engine.begin().await.expect("it asks nothing");
                let keys = [key(from), key(to), key(other)];
                let found = transaction.get_many(&keys).await.expect("it can be read");
                let (have, there) = (decode(&found[0]), decode(&found[1]));
                if from == to || have == 0 {
                    continue;
                }
                let moved = random.u32(1..=have);
                let left = match have - moved {
                    0 => Write::Delete(key(from)),
                    left => Write::Put(key(from), encode(left)),
                };
                let guard =
                    if random.bool() { Guard::Unchanged(key(other)) } else { Guard::Shared(key(other)) };
                let writes = vec![left, Write::Put(key(to), encode(there + moved))];
                match transaction.commit(Commit::new(vec![guard], writes)).await {
                    Ok(()) | Err(CommitError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    futures_util::future::join_all((0..6).map(mover)).await;
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let found = engine.get_many(&keys).await.expect("it can be read");
    assert_eq!(found.iter().map(decode).sum::<u32>(), 40, "{found:?}");
}
