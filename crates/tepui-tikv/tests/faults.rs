//! Stores and PD that are killed or paused, under load; and what is kept for how long.

mod shared;

use shared::cluster::{Cluster, cluster};
use shared::dropped::commit_until_done;
use shared::{is_skipped, open, options, range};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_storage::{
    Commit, CommitError, Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, StorageErrorKind, Transaction,
    Value, Write,
};
use tepui_tikv::{TikvEngine, TikvOptions};
use tokio::sync::Mutex;

/// The tests here disturb each other.
static ALONE: Mutex<()> = Mutex::const_new(());

const WRITERS: usize = 8;

/// What a writer was told about its commits, by their numbers.
#[derive(Default)]
struct Told {
    acknowledged: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    open: BTreeSet<u64>,
}

struct Load {
    is_over: AtomicBool,
    acknowledged: AtomicU64,
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_nothing_is_half_there() {
    if is_skipped() {
        return;
    }
    let _alone = ALONE.lock().await;
    let cluster = cluster();
    let options = TikvOptions {
        shared_ranges: vec![range(b"table", b"tablf")],
        ..options(&cluster.endpoint(), "faults")
    };
    let engine = Arc::new(open(options).await);
    commit_until_done(&engine, vec![Write::Put("table".into(), "there".into())]).await;
    let regions = cluster.regions();
    let load = Arc::new(Load { is_over: AtomicBool::new(false), acknowledged: AtomicU64::new(0) });
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(Arc::clone(&engine), Arc::clone(&load), writer)))
        .collect();
    let filler = tokio::spawn(fill(Arc::clone(&engine), Arc::clone(&load)));
    progress(&load, "at first", 200).await;

    let busiest = cluster.busiest_store();
    cluster.kill_store(busiest);
    progress(&load, "after the store that leads most regions was killed", 100).await;
    cluster.start_store(busiest);
    whole(cluster).await;
    progress(&load, "after it was started again", 100).await;

    let busiest = cluster.busiest_store();
    cluster.signal_store(busiest, "STOP");
    // Longer than any call waits.
    tokio::time::sleep(Duration::from_secs(12)).await;
    progress(&load, "while the store that leads most regions is paused", 100).await;
    cluster.signal_store(busiest, "CONT");
    whole(cluster).await;
    progress(&load, "after it went on", 100).await;

    cluster.kill_pd();
    // Longer than any call waits for a timestamp.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let unhealthy = engine.health().await.map_err(|error| error.kind());
    assert_eq!(unhealthy, Err(StorageErrorKind::Unavailable), "without PD");
    tokio::task::block_in_place(|| cluster.start_pd());
    progress(&load, "after PD was killed and started again", 100).await;
    whole(cluster).await;
    assert_eq!(engine.health().await, Ok(()));

    let began = Instant::now();
    while cluster.regions() <= regions {
        assert!(began.elapsed() < Duration::from_secs(120), "no region has split");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    load.is_over.store(true, Ordering::Relaxed);
    filler.await.expect("it does not panic");
    let mut told = Vec::new();
    for writer in writers {
        told.push(writer.await.expect("it does not panic"));
    }
    assert_eq!(cluster.panicked(), None, "a store has panicked");
    judge(&engine, &told).await;
    println!(
        "connections: {}, unknown outcomes: {}, calls that failed: {}, regions: {}",
        engine.stats().connects.get(),
        engine.stats().commits.unknown.get(),
        engine.stats().unavailable.get(),
        cluster.regions()
    );
}

/// Writes a megabyte now and then, so that regions split meanwhile: the stores look for borders after 12 MB.
async fn fill(engine: Arc<TikvEngine>, load: Arc<Load>) {
    for part in 0.. {
        if load.is_over.load(Ordering::Relaxed) {
            return;
        }
        let row =
            |number: usize| Write::Put(format!("m/{part:04}/{number:04}").into(), vec![b'm'; 2000].into());
        if let Ok(transaction) = engine.begin().await {
            // Nobody asks what became of it.
            let _ = transaction.commit((0..500).map(row).collect::<Vec<_>>().into()).await;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

/// Writes two rows with each commit, far from one another, under a guard that all writers share.
async fn write(engine: Arc<TikvEngine>, load: Arc<Load>, writer: usize) -> Told {
    let mut told = Told::default();
    let mut number = 0;
    while !load.is_over.load(Ordering::Relaxed) {
        number += 1;
        let Ok(transaction) = engine.begin().await else { continue };
        let Ok(found) = transaction.get(b"table").await else { continue };
        assert_eq!(found, Some(Value::from_static(b"there")));
        let value = Value::from(number.to_string());
        let row = |half: &str| Write::Put(row_key(half, writer, number), value.clone());
        let commit = Commit::new(vec![Guard::Shared("table".into())], vec![row("a"), row("z")]);
        match transaction.commit(commit).await {
            Ok(()) => {
                told.acknowledged.insert(number);
                load.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(CommitError::Conflict | CommitError::Storage(_)) => drop(told.refused.insert(number)),
            Err(CommitError::Unknown(_)) => drop(told.open.insert(number)),
        }
    }
    told
}

fn row_key(half: &str, writer: usize, number: u64) -> Key {
    format!("{half}/{writer}/{number:08}").into()
}

/// Waits until so many more commits were acknowledged.
async fn progress(load: &Load, when: &str, commits: u64) {
    let (began, before) = (Instant::now(), load.acknowledged.load(Ordering::Relaxed));
    let mut first = None;
    loop {
        let done = load.acknowledged.load(Ordering::Relaxed) - before;
        if done > 0 && first.is_none() {
            first = Some(began.elapsed());
        }
        if done >= commits {
            println!(
                "{when}: the first of {commits} commits after {first:?}, the last after {:?}",
                began.elapsed()
            );
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(90),
            "{when}: {done} commits within {:?}",
            began.elapsed()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn whole(cluster: &Cluster) {
    let began = Instant::now();
    while !tokio::task::block_in_place(|| cluster.is_whole()) {
        assert!(began.elapsed() < Duration::from_secs(120), "the cluster is not whole again");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Compares what is there with what the writers were told.
async fn judge(engine: &TikvEngine, told: &[Told]) {
    let halves = [rows(engine, "a").await, rows(engine, "z").await];
    let (mut acknowledged, mut refused, mut open, mut happened) = (0, 0, 0, 0);
    for (writer, told) in told.iter().enumerate() {
        let is_there = |number: &u64| {
            let [first, second] = ["a", "z"].map(|half| row_key(half, writer, *number));
            let [first, second] = [halves[0].get(&first), halves[1].get(&second)];
            assert_eq!(first, second, "commit {number} of writer {writer} is half there");
            first.inspect(|value| assert_eq!(***value, *number.to_string().as_bytes())).is_some()
        };
        for number in &told.acknowledged {
            assert!(is_there(number), "commit {number} of writer {writer} was acknowledged and is lost");
        }
        for number in &told.refused {
            assert!(!is_there(number), "commit {number} of writer {writer} was refused and is there");
        }
        happened += told.open.iter().filter(|number| is_there(number)).count();
        acknowledged += told.acknowledged.len();
        refused += told.refused.len();
        open += told.open.len();
    }
    assert_eq!(halves[0].len(), acknowledged + happened, "rows that nobody has written");
    println!("{acknowledged} acknowledged, {refused} refused, {open} open, of which {happened} are there");
}

async fn rows(engine: &TikvEngine, half: &str) -> BTreeMap<Key, Value> {
    let range = KeyRange { start: format!("{half}/").into(), end: format!("{half}0").into() };
    let all = ScanLimit { max_rows: usize::MAX, max_bytes: usize::MAX };
    let page = engine.begin().await.expect("it begins").scan(&range, all).await.expect("it reads");
    page.rows.into_iter().collect()
}

/// The safepoint follows, by one of two nodes; transactions that are older than what is kept are refused, and the others
/// find all rows.
#[tokio::test(flavor = "multi_thread")]
async fn old_states_are_given_up() {
    if is_skipped() {
        return;
    }
    let _alone = ALONE.lock().await;
    let history = Duration::from_secs(20);
    let options = TikvOptions { history, ..options(&cluster().endpoint(), "safepoint") };
    let nodes = [open(options.clone()).await, open(options).await];
    let key = Key::from_static(b"key");
    let put = |value: usize| vec![Write::Put(key.clone(), value.to_string().into())];
    commit_until_done(&nodes[0], put(0)).await;
    let (reader, writer) =
        (nodes[0].begin().await.expect("it begins"), nodes[1].begin().await.expect("it begins"));
    assert_eq!(reader.get(&key).await, Ok(Some("0".into())));
    assert_eq!(writer.get(&key).await, Ok(Some("0".into())));
    let began = Instant::now();
    let mut safepoints = BTreeSet::from([cluster().safepoint()]);
    let mut rounds = 0;
    // The other tests advance nothing: their histories are long.
    while safepoints.len() < 4 {
        assert!(began.elapsed() < Duration::from_secs(120), "the safepoint does not move: {safepoints:?}");
        rounds += 1;
        commit_until_done(&nodes[rounds % 2], put(rounds)).await;
        if began.elapsed() < history / 2 {
            assert_eq!(reader.get(&key).await, Ok(Some("0".into())), "it is kept");
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        safepoints.insert(cluster().safepoint());
    }
    while began.elapsed() <= history {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let found = reader.get(&key).await.map_err(|error| error.kind());
    assert_eq!(found, Err(StorageErrorKind::TooOld));
    assert_eq!(
        writer.commit(vec![Write::Put("other".into(), "".into())].into()).await,
        Err(CommitError::Conflict)
    );
    let now = nodes[1].begin().await.expect("it begins");
    assert_eq!(now.get(&key).await, Ok(Some(rounds.to_string().into())));
}
