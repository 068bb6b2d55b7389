//! A table that is dropped while others write into it.

use super::{open, options, range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tepui_storage::{
    Commit, CommitError, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, Transaction, Write,
};
use tepui_tikv::{TikvEngine, TikvOptions};

/// Two nodes, whose writers pause after each row: one creates and drops a table, both write into it. What was written under a
/// table that is dropped was written before that.
pub(crate) async fn nothing_is_written_under_a_guard_that_was_deleted(endpoint: &str, pause: Duration) {
    const ROUNDS: usize = 20;
    let options = TikvOptions {
        shared_ranges: vec![range(b"table", b"tablf")],
        // The machine may have other work.
        timeout: Duration::from_secs(30),
        ..options(endpoint, "dropped")
    };
    let nodes = [Arc::new(open(options.clone()).await), Arc::new(open(options).await)];
    let table = Key::from_static(b"table");
    let (is_over, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let engine = Arc::clone(&nodes[writer % nodes.len()]);
            let (table, is_over, written) = (table.clone(), Arc::clone(&is_over), Arc::clone(&written));
            tokio::spawn(async move {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let transaction = engine.begin().await.expect("it begins");
                    let Some(round) = transaction.get(&table).await.expect("it reads") else { continue };
                    number += 1;
                    tokio::time::sleep(pause).await;
                    let row = format!("rows/{}/{writer}/{number}", String::from_utf8_lossy(&round));
                    let commit =
                        Commit::new(vec![Guard::Shared(table.clone())], vec![Write::Put(row.into(), round)]);
                    match transaction.commit(commit).await {
                        Ok(()) => drop(written.fetch_add(1, Ordering::Relaxed)),
                        Err(CommitError::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    let mut counts = Vec::new();
    let mut longest = Duration::ZERO;
    for round in 0..ROUNDS {
        let name = format!("{round:03}");
        commit_until_done(&nodes[0], vec![Write::Put(table.clone(), name.clone().into())]).await;
        let before = written.load(Ordering::Relaxed);
        let began = Instant::now();
        while written.load(Ordering::Relaxed) < before + 10 {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody writes in round {round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let began = Instant::now();
        commit_until_done(&nodes[0], vec![Write::Delete(table.clone())]).await;
        longest = longest.max(began.elapsed());
        counts.push(rows_of(&nodes[0], &name).await);
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("it does not panic");
    }
    let written = written.load(Ordering::Relaxed);
    println!("{ROUNDS} tables dropped, within {longest:?} at most, while {written} rows were written");
    for (round, count) in counts.iter().enumerate() {
        assert_eq!(rows_of(&nodes[1], &format!("{round:03}")).await, *count, "round {round}");
        assert!(*count >= 5, "round {round}: {count}");
    }
}

pub(crate) async fn commit_until_done(engine: &TikvEngine, writes: Vec<Write>) {
    loop {
        let transaction = engine.begin().await.expect("it begins");
        match transaction.commit(writes.clone().into()).await {
            Ok(()) => return,
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn rows_of(engine: &TikvEngine, round: &str) -> usize {
    let (start, end) = (format!("rows/{round}/"), format!("rows/{round}0"));
    let range = KeyRange { start: start.into(), end: end.into() };
    let all = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    let page = engine.begin().await.expect("it begins").scan(&range, all).await.expect("it reads");
    page.rows.len()
}
