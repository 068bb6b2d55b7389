//! How many calls a second 16 tasks make on a database: `cargo run --release -p tepui-postgres --example rates URL`.

use std::time::{Duration, Instant};
use tepui_postgres::{PostgresEngine, PostgresOptions};
use tepui_storage::{
    Commit, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, StorageError, Transaction, Write,
};

const TASKS: usize = 16;
const TIME: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// A read, a shared guard and a new row.
    Insert,
    Get,
    /// A page of 1,000 rows.
    Scan,
}

fn key(task: usize, number: usize) -> Key {
    format!("row/{task:02}/{number:08}").into()
}

async fn run(engine: &PostgresEngine, work: Work, task: usize, number: usize) -> Result<(), StorageError> {
    let transaction = engine.begin().await?;
    match work {
        Work::Insert => {
            transaction.get_many(&["table".into(), key(task, number)]).await?;
            let write = Write::Put(key(task, number), vec![7; 500].into());
            let commit = Commit::new(vec![Guard::Shared("table".into())], vec![write]);
            transaction.commit(commit).await.map_err(|error| StorageError::failed(error.to_string()))
        }
        Work::Get => engine.get_many(&[key(task, number % 500)]).await.map(drop),
        Work::Scan => {
            let range = KeyRange { start: key(task % 8, 0), end: Key::from_static(b"s") };
            transaction.scan(&range, ScanLimit { max_rows: 1000, max_bytes: 4 << 20 }).await.map(drop)
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), StorageError> {
    let url =
        std::env::args().nth(1).ok_or_else(|| StorageError::failed("the URL of a database is missing"))?;
    let options = PostgresOptions::new(url);
    PostgresEngine::init(&options).await?;
    let engine = PostgresEngine::open(options).await?;
    engine.begin().await?.commit(vec![Write::Put("table".into(), "".into())].into()).await.ok();
    for work in [Work::Insert, Work::Get, Work::Scan] {
        let (began, trips) = (Instant::now(), engine.stats().round_trips.get());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let mut done = 0;
                    while began.elapsed() < TIME {
                        run(&engine, work, task, done).await?;
                        done += 1;
                    }
                    Ok::<usize, StorageError>(done)
                })
            })
            .collect();
        let mut done = 0;
        for task in tasks {
            done += task.await.map_err(|error| StorageError::failed(error.to_string()))??;
        }
        let trips = (engine.stats().round_trips.get() - trips) as f64 / done as f64;
        println!(
            "{work:?}: {:.0} a second, {trips:.2} round trips each",
            done as f64 / began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}
