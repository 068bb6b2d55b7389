//! The contract of engines, and what is special about this one, on real PD and three stores.

mod shared;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use shared::cluster::cluster;
use shared::dropped::commit_until_done;
use shared::{crowd, dropped, is_skipped, open, options, range, raw};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_storage::contract::engine::{Liberties, Step, Subject, check, follow};
use tepui_storage::{
    CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, StorageErrorKind, Transaction, Value, Write,
};
use tepui_tikv::{TikvEngine, TikvOptions};
use tokio::runtime::Handle;

struct OnTikv {
    engine: TikvEngine,
    options: TikvOptions,
}

impl OnTikv {
    async fn open(options: TikvOptions) -> Self {
        Self { engine: open(options.clone()).await, options }
    }
}

impl Subject for OnTikv {
    type Engine = TikvEngine;

    fn engine(&self) -> &TikvEngine {
        &self.engine
    }

    fn reopen(&mut self) {
        let options = self.options.clone();
        self.engine = tokio::task::block_in_place(|| Handle::current().block_on(open(options)));
    }

    fn liberties(&self) -> Liberties {
        Liberties {
            begins_with_the_first_read: true,
            ends_pipelines: true,
            // A write of a row that has copies compares values.
            forgets_what_was_changed_back: true,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tikv_keeps_the_contract() {
    if is_skipped() {
        return;
    }
    // The keys of the case that has a crowd. Copies of all would be too many.
    let shared_ranges = vec![range(b"both_kinds_of_guards_are_kept/", b"both_kinds_of_guards_are_kept0")];
    let options = TikvOptions { shared_ranges, ..options(&cluster().endpoint(), "contract") };
    check(&mut OnTikv::open(options).await).await;
}

/// Random histories. One key in three has copies.
#[tokio::test(flavor = "multi_thread")]
async fn tikv_agrees_with_the_model() {
    if is_skipped() {
        return;
    }
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() });
    for case in 0..8 {
        let steps =
            proptest::collection::vec(step(), 60..61).new_tree(&mut runner).expect("steps can be made");
        let steps: Vec<Step> = proptest::strategy::ValueTree::current(&steps);
        let options = TikvOptions {
            shared_ranges: vec![range(&[1], &[2])],
            shared_copies: 4,
            ..options(&cluster().endpoint(), &format!("history-{case}"))
        };
        follow(&mut OnTikv::open(options).await, &steps).await;
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0u8..48;
    let write = (key.clone(), proptest::option::weighted(0.8, 0u16..300));
    prop_oneof![
        10 => (0usize..6, proptest::collection::vec(key.clone(), 0..3), proptest::collection::vec(write, 0..6))
            .prop_map(|(on, guards, writes)| Step::Commit { on, guards, writes }),
        2 => Just(Step::Keep),
        1 => (0usize..6).prop_map(Step::Release),
        1 => Just(Step::Reopen),
        4 => (0usize..6, proptest::collection::vec(key.clone(), 1..4)).prop_map(|(on, keys)| Step::Get { on, keys }),
        4 => (0usize..6, key.clone(), key, 1usize..8, 0usize..900).prop_map(
            |(on, from, to, max_rows, max_bytes)| Step::Scan { on, from, to, max_rows, max_bytes }
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_guard_is_as_good_as_many() {
    if is_skipped() {
        return;
    }
    let shared_ranges = vec![range(b"guards/", b"guards0")];
    let options = TikvOptions { shared_ranges, ..options(&cluster().endpoint(), "crowd") };
    let engine = Arc::new(open(options).await);
    crowd::one_guard_is_as_good_as_many(&engine, "stores", 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_under_a_guard_that_was_deleted() {
    if is_skipped() {
        return;
    }
    dropped::nothing_is_written_under_a_guard_that_was_deleted(&cluster().endpoint(), Duration::ZERO).await;
}

/// Scans go on across the borders of regions, in any pages, and the copies of rows are not among what they find.
#[tokio::test(flavor = "multi_thread")]
async fn scans_cross_regions() {
    if is_skipped() {
        return;
    }
    let options = TikvOptions {
        shared_ranges: vec![range(b"row/0000", b"row/0002")],
        ..options(&cluster().endpoint(), "regions")
    };
    let engine = open(options).await;
    let before = cluster().regions();
    let key = |number: usize| Key::from(format!("row/{number:05}"));
    // The stores look for borders after 12 MB.
    const ROWS: usize = 12_000;
    for start in (0..ROWS).step_by(500) {
        let put = |number| Write::Put(key(number), Value::from(vec![b'v'; 1200 + number % 50]));
        commit_until_done(&engine, (start..start + 500).map(put).collect()).await;
    }
    let began = Instant::now();
    while cluster().regions() < before + 2 {
        assert!(began.elapsed() < Duration::from_secs(120), "regions do not split");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let transaction = engine.begin().await.expect("it begins");
    for (max_rows, max_bytes) in [(usize::MAX, usize::MAX), (1000, 1 << 20), (777, 20_000)] {
        let trips = engine.stats().round_trips.get();
        let mut whole = KeyRange { start: Key::from_static(b"row/"), end: Key::from_static(b"row0") };
        let mut found = Vec::new();
        loop {
            let page = transaction.scan(&whole, ScanLimit { max_rows, max_bytes }).await.expect("it reads");
            assert!(page.rows.len() <= max_rows);
            found.extend(page.rows.into_iter().map(|(key, _)| key));
            let Some(next) = page.next else { break };
            whole.start = next;
        }
        assert!(found.into_iter().eq((0..ROWS).map(key)), "{max_rows} rows");
        let trips = engine.stats().round_trips.get() - trips;
        println!("{ROWS} rows in pages of {max_rows}, {max_bytes} bytes: {trips} round trips");
    }
    for (start, end) in [(&b"row/"[..], &b"row/0002"[..]), (b"row/0002", b"row0")] {
        engine.reclaim(range(start, end)).await.expect("it deletes");
    }
    let left = engine.begin().await.expect("it begins").first(&range(b"", &[0xFF])).await.expect("it reads");
    assert_eq!(left, None);
}

/// A row with copies is many keys. Of hundreds of such rows a commit would not get the locks in time, so it is refused at once, and a
/// reclaim deletes a few at a time.
#[tokio::test(flavor = "multi_thread")]
async fn rows_with_copies_are_written_and_reclaimed_a_few_at_a_time() {
    if is_skipped() {
        return;
    }
    let shared_ranges = vec![range(b"notes/", b"notes0")];
    let engine = open(TikvOptions { shared_ranges, ..options(&cluster().endpoint(), "notes") }).await;
    const ROWS: usize = 512;
    let put = |number| Write::Put(Key::from(format!("notes/{number:03}")), Value::from_static(b"note"));
    let too_many = (0..=TikvEngine::MAX_SHARED_WRITES).map(put).collect::<Vec<_>>();
    let refused = engine.begin().await.expect("it begins").commit(too_many.into()).await;
    assert!(
        matches!(&refused, Err(CommitError::Storage(error)) if error.kind() == StorageErrorKind::Failed),
        "{refused:?}"
    );
    let began = Instant::now();
    for start in (0..ROWS).step_by(16) {
        commit_until_done(&engine, (start..start + 16).map(put).collect()).await;
    }
    println!("{ROWS} rows with 128 copies written within {:?}", began.elapsed());
    let (began, commits) = (Instant::now(), engine.stats().commits.ok.get());
    engine.reclaim(range(b"notes/", b"notes0")).await.expect("it deletes");
    let commits = engine.stats().commits.ok.get() - commits;
    println!("and reclaimed within {:?}, by {commits} commits", began.elapsed());
    assert!(commits >= ROWS as u64 / 16, "{commits} commits");
    let left = engine.begin().await.expect("it begins").first(&range(b"", &[0xFF])).await.expect("it reads");
    assert_eq!(left, None);
}

/// TiKV may lose locks that a write has taken, before it writes. What another one has committed since is not overwritten.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_locks_are_lost_overwrites_nothing() {
    if is_skipped() {
        return;
    }
    let shared_ranges = vec![range(b"guards/", b"guards0")];
    let options = TikvOptions { shared_ranges, ..options(&cluster().endpoint(), "lost") };
    let (engine, other) = (open(options.clone()).await, open(options).await);
    let row = Key::from_static(b"guards/one");
    commit_until_done(&engine, vec![Write::Put(row.clone(), "before".into())]).await;
    let transaction = engine.begin().await.expect("it begins");
    assert_eq!(transaction.get(&row).await, Ok(Some(Value::from_static(b"before"))));
    // The stores lose its locks when it looks for changes, and answer after a second.
    let commit = transaction.commit(vec![Write::Put(row.clone(), "lost".into())].into());
    let meanwhile = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        commit_until_done(&other, vec![Write::Put(row.clone(), "meanwhile".into())]).await;
    };
    let (outcome, ()) = tokio::join!(commit, meanwhile);
    let found = other.begin().await.expect("it begins").get(&row).await;
    assert_eq!(found, Ok(Some(Value::from_static(b"meanwhile"))), "{outcome:?}");
    assert!(outcome.is_err(), "the locks were not lost");
}

/// A write may wait for locks until what it has read may be forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_has_waited_for_too_long_is_refused() {
    if is_skipped() {
        return;
    }
    let endpoint = cluster().endpoint();
    let shared_ranges = vec![range(b"table", b"tablf")];
    let history = Duration::from_secs(3);
    let options = TikvOptions {
        shared_ranges,
        shared_copies: 4,
        history,
        moves_safepoint: false,
        ..options(&endpoint, "waiting")
    };
    let engine = open(options).await;
    let table = Key::from_static(b"table");
    commit_until_done(&engine, vec![Write::Put(table.clone(), "there".into())]).await;
    let client = raw::client(&endpoint).await;
    let transaction = engine.begin().await.expect("it begins");
    let began = Instant::now();
    assert_eq!(transaction.get(&table).await, Ok(Some(Value::from_static(b"there"))));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut other = raw::pessimistic(&client).await;
    other.lock_keys([raw::copy("waiting", &table, 2)]).await.expect("it is free");
    let commit = transaction.commit(vec![Write::Delete(table.clone())].into());
    // Locks are not removed before they are three seconds old.
    let end = async {
        tokio::time::sleep_until((began + history + Duration::from_millis(500)).into()).await;
        other.rollback().await.expect("it can be rolled back");
    };
    let (outcome, ()) = tokio::join!(commit, end);
    assert_eq!(outcome, Err(CommitError::Conflict), "after {:?}", began.elapsed());
    let found = engine.begin().await.expect("it begins").get(&table).await;
    assert_eq!(found, Ok(Some(Value::from_static(b"there"))));
}

/// A process may be killed after its write of a row with copies is there, and before it is committed. The locks have 20 s to live then.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_a_write_that_nobody_ends_are_removed() {
    if is_skipped() {
        return;
    }
    let endpoint = cluster().endpoint();
    let shared_ranges = vec![range(b"table", b"tablf")];
    let options = TikvOptions { shared_ranges, shared_copies: 4, ..options(&endpoint, "killed") };
    let engine = open(options).await;
    let table = Key::from_static(b"table");
    commit_until_done(&engine, vec![Write::Put(table.clone(), "there".into())]).await;
    let client = raw::client(&endpoint).await;
    let mut keys: Vec<Vec<u8>> = (0..4).map(|number| raw::copy("killed", &table, number)).collect();
    keys.push(raw::row("killed", &table));
    let killed = raw::killed_while_committing(&client, &keys).await;
    let began = Instant::now();
    let found = engine.begin().await.expect("it begins").get(&table).await;
    println!("read after {:?}", began.elapsed());
    assert_eq!(found, Ok(Some(Value::from_static(b"there"))));
    commit_until_done(&engine, vec![Write::Delete(table)]).await;
    println!("written after {:?}", began.elapsed());
    // Not by the time to live.
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    drop(killed);
}

/// What a request costs, in round trips.
#[tokio::test(flavor = "multi_thread")]
async fn round_trips_are_counted() {
    if is_skipped() {
        return;
    }
    let engine = open(options(&cluster().endpoint(), "trips")).await;
    let keys: Vec<Key> = (0..100).map(|number| Key::from(format!("{number}"))).collect();
    let writes: Vec<Write> = keys.iter().map(|key| Write::Put(key.clone(), "v".into())).collect();
    let trips = || engine.stats().round_trips.get();
    let before = trips();
    commit_until_done(&engine, writes).await;
    assert_eq!(trips() - before, 4, "a timestamp, and what a commit of any size takes");
    let before = trips();
    let transaction = engine.begin().await.expect("it begins");
    let (one, many) = tokio::join!(transaction.get(b"1"), transaction.get_many(&keys));
    assert!(one.is_ok_and(|one| one.is_some()) && many.is_ok_and(|many| many.iter().all(Option::is_some)));
    assert_eq!(trips() - before, 3, "a timestamp, and two reads at once");
}

/// Nodes that do not agree on what has copies would overlook each other's guards.
#[tokio::test(flavor = "multi_thread")]
async fn other_settings_are_refused() {
    if is_skipped() {
        return;
    }
    let first = options(&cluster().endpoint(), "format");
    let second = TikvOptions { shared_ranges: vec![range(b"a", b"b")], ..first.clone() };
    drop(open(first.clone()).await);
    let refused = TikvEngine::open(second).await.map(drop).expect_err("ranges are others");
    assert_eq!(refused.kind(), StorageErrorKind::Failed, "{refused}");
    drop(open(first).await);
    let nobody = TikvOptions { timeout: Duration::from_secs(2), ..options("127.0.0.1:1", "format") };
    let refused = TikvEngine::open(nobody).await.map(drop).expect_err("nobody listens");
    assert_eq!(refused.kind(), StorageErrorKind::Unavailable, "{refused}");
}
