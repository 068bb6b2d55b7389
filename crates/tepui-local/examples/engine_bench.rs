//! Measures an engine: loading, commits, gets and scans. Used to choose the defaults of `EngineOptions`.
//!
//! ```text
//! cargo run --release -p tepui-local --example engine_bench -- [name=value…]
//!   dir=PATH      where to work (default: a temporary directory)
//!   engine=disk   or memory
//!   rows=200000   how many rows of 1 KiB to load
//!   seconds=3     how long each measurement lasts
//!   order=random  or ascending: the order in which rows are loaded
//!   memtable=  block=  workers=  wal=    options of the disk engine (MiB; block: bytes)
//!   only=load,commit,get,scan,reopen,reclaim,sync         what to measure
//! ```

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{
    CommitError, Engine, Key, KeyRange, MemoryEngine, ScanLimit, Snapshot, Transaction, Write,
};

const VALUE_BYTES: usize = 1024;

fn main() {
    let settings: HashMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|argument| {
            argument.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be built");
    if settings.get("engine").is_some_and(|engine| engine == "memory") {
        runtime.block_on(measure(MemoryEngine::new(), &settings));
        return;
    }
    let temporary = tempfile::tempdir().expect("a temporary directory can be made");
    let path = settings.get("dir").map_or(temporary.path().to_owned(), Into::into);
    let options = options(path, &settings);
    let began = Instant::now();
    let engine = DiskEngine::open(options.clone()).expect("the directory can be opened");
    println!("open: {:?}", began.elapsed());
    runtime.block_on(measure(engine.clone(), &settings));
    if wanted(&settings, "sync") {
        raw_syncs(&options.path);
    }
    if wanted(&settings, "reopen") {
        engine.close();
        drop(engine);
        let began = Instant::now();
        let engine = DiskEngine::open(options).expect("the directory can be opened again");
        println!("reopen: {:?}, resident {} MiB", began.elapsed(), resident());
        drop(engine);
    }
}

fn options(path: std::path::PathBuf, settings: &HashMap<String, String>) -> EngineOptions {
    let mut options = EngineOptions::new(path);
    let number = |name: &str| settings.get(name).and_then(|value| value.parse::<u64>().ok());
    if let Some(mib) = number("memtable") {
        options.memtable_bytes = mib << 20;
    }
    if let Some(mib) = number("wal") {
        options.wal_bytes = mib << 20;
    }
    if let Some(bytes) = number("block") {
        options.block_bytes = bytes as u32;
    }
    if let Some(workers) = number("workers") {
        options.compaction_threads = workers as usize;
    }
    options
}

fn wanted(settings: &HashMap<String, String>, what: &str) -> bool {
    settings.get("only").is_none_or(|only| only.split(',').any(|name| name == what))
}

async fn measure<E: Engine>(engine: E, settings: &HashMap<String, String>) {
    let engine = Arc::new(engine);
    let rows = settings.get("rows").and_then(|rows| rows.parse().ok()).unwrap_or(200_000u64);
    let seconds = settings.get("seconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(3);
    let lasting = Duration::from_secs(seconds);
    let random = settings.get("order").is_none_or(|order| order == "random");
    if wanted(settings, "load") {
        load(&engine, rows, random).await;
    }
    if wanted(settings, "scan") {
        for (page, tasks) in [(100, 1), (100, 2), (1000, 1), (1000, 2)] {
            run(&engine, &format!("rows by pages of {page}"), Work::Scan(page), rows, tasks, lasting).await;
        }
    }
    if wanted(settings, "get") {
        for tasks in [1, 2] {
            run(&engine, "get", Work::Get, rows, tasks, lasting).await;
        }
    }
    if wanted(settings, "commit") {
        for writers in [1, 16, 64] {
            run(&engine, "commit", Work::Commit, rows, writers, lasting).await;
        }
    }
    if wanted(settings, "reclaim") {
        let began = Instant::now();
        let range = KeyRange { start: key(0), end: key(rows) };
        engine.reclaim(range).await.expect("a range can be reclaimed");
        println!("reclaim of {rows} rows: {:?}", began.elapsed());
    }
    println!("resident {} MiB", resident());
}

/// What the disk can do: appends of one value, each synced. The measure for `commit x1`.
fn raw_syncs(path: &std::path::Path) {
    let file = path.join("raw");
    let append = || -> std::io::Result<f64> {
        let mut writer = std::fs::File::create(&file)?;
        writer.set_len(64 << 20)?;
        writer.sync_all()?;
        let began = Instant::now();
        for number in 0..2000 {
            writer.write_all(&value(number))?;
            writer.sync_data()?;
        }
        Ok(2000.0 / began.elapsed().as_secs_f64())
    };
    let rate = append().expect("a file can be appended to");
    println!("raw appends with fdatasync: {rate:.0}/s");
    std::fs::remove_file(file).expect("a file can be removed");
}

/// Twenty bytes that sort like the number.
fn key(number: u64) -> Key {
    format!("t{number:019}").into_bytes().into()
}

fn value(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut value = vec![0; VALUE_BYTES];
    for byte in &mut value {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = b'a' + (state % 26) as u8;
    }
    value
}

/// A permutation of `0..rows`, near enough.
fn scatter(number: u64, rows: u64) -> u64 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) % rows
}

async fn load<E: Engine>(engine: &Arc<E>, rows: u64, random: bool) {
    let began = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let slowest = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (engine, next, slowest) = (Arc::clone(engine), Arc::clone(&next), Arc::clone(&slowest));
            tokio::spawn(async move {
                loop {
                    let first = next.fetch_add(100, Ordering::Relaxed);
                    if first >= rows {
                        return;
                    }
                    let numbers = first..(first + 100).min(rows);
                    let place = |number| if random { scatter(number, rows) } else { number };
                    let puts: Vec<Write> =
                        numbers.map(|number| Write::Put(key(place(number)), value(number).into())).collect();
                    let began = Instant::now();
                    write(&*engine, puts).await;
                    slowest.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a loading task ends");
    }
    println!(
        "load: {:.0} rows/s in batches of 100 by 16 writers, slowest commit {} ms",
        rows as f64 / began.elapsed().as_secs_f64(),
        slowest.load(Ordering::Relaxed)
    );
}

async fn write<E: Engine>(engine: &E, writes: Vec<Write>) {
    loop {
        let transaction = engine.begin().await.expect("a transaction can begin");
        match transaction.commit(writes.clone().into()).await {
            Ok(()) => return,
            Err(CommitError::Conflict) => {}
            Err(error) => panic!("a commit fails: {error}"),
        }
    }
}

/// One measured step.
#[derive(Clone, Copy)]
enum Work {
    /// A transaction with one get.
    Get,
    /// A transaction with one page of so many rows.
    Scan(usize),
    /// A get of the key, and a commit of a new value.
    Commit,
}

async fn step<E: Engine>(engine: &E, work: Work, rows: u64, random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let number = *random % rows;
    let snapshot = engine.begin().await.expect("a transaction can begin");
    match work {
        Work::Get => {
            snapshot.get(&key(number)).await.expect("a row can be read");
            1
        }
        Work::Scan(page) => {
            let range = KeyRange { start: key(number), end: key(rows) };
            let limit = ScanLimit { max_rows: page, max_bytes: 4 << 20 };
            snapshot.scan(&range, limit).await.expect("a range can be read").rows.len() as u64
        }
        Work::Commit => {
            snapshot.get(&key(number)).await.expect("a row can be read");
            let put = Write::Put(key(number), value(*random).into());
            match snapshot.commit(vec![put].into()).await {
                Ok(()) => 1,
                Err(CommitError::Conflict) => 0,
                Err(error) => panic!("a commit fails: {error}"),
            }
        }
    }
}

async fn run<E: Engine>(engine: &Arc<E>, what: &str, work: Work, rows: u64, tasks: u64, lasting: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let handles: Vec<_> = (0..tasks)
        .map(|task| {
            let (stop, engine) = (Arc::clone(&stop), Arc::clone(engine));
            let mut random = (task + 1).wrapping_mul(0x2545_F491_4F6C_DD1D) | 1;
            tokio::spawn(async move {
                let (mut done, mut latencies) = (0, Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    // Many steps per yield would starve the timer that ends this.
                    done += step(&*engine, work, rows, &mut random).await;
                    latencies.push(began.elapsed().as_nanos() as u64);
                    if latencies.len() % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                (done, latencies)
            })
        })
        .collect();
    tokio::time::sleep(lasting).await;
    stop.store(true, Ordering::Relaxed);
    let (mut done, mut latencies) = (0, Vec::new());
    for handle in handles {
        let (count, more) = handle.await.expect("a measured task ends");
        done += count;
        latencies.extend(more);
    }
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    println!(
        "{what} x{tasks}: {:.0}/s, p10 {:.1} us, p50 {:.1} us, p99 {:.1} us, max {:.1} ms",
        done as f64 / began.elapsed().as_secs_f64(),
        at(0.1),
        at(0.5),
        at(0.99),
        at(1.0) / 1000.0
    );
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 10
}
