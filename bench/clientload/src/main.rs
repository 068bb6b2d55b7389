//! clientload: some workloads of azload, with tepui-client instead of azload's own HTTP. The data, the checks and the line
//! that is printed are the same, so that both can be compared; see README.md.

#[path = "../../azload/src/data.rs"]
#[allow(dead_code)]
mod data;
#[path = "../../azload/src/hist.rs"]
mod hist;
#[path = "../../azload/src/proc.rs"]
mod proc;
#[path = "../../azload/src/stats.rs"]
#[allow(dead_code)]
mod stats;

use data::Rng;
use serde_json::json;
use stats::{OpErr, Stats};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tepui_client::{Account, DynamicEntity, EntityKey, Error, Pages, Table, Timestamp, Value};

const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const USAGE: &str =
    "usage: clientload --workload table-get|table-insert|table-query-page --table-endpoint URL
  --connections N     tasks, default 16
  --threads N         threads of the runtime, default 1
  --seconds S --warmup S --preload N --size N --label TEXT     as azload has them
  --operations N      stop after so many instead, for counting instructions
Other options of azload are taken and mean nothing.";

struct Config {
    workload: String,
    tasks: usize,
    preload: u64,
    size: usize,
    table: Table,
    run: String,
}

/// One task and what it remembers.
struct Worker {
    config: Arc<Config>,
    id: u64,
    rng: Rng,
    seq: u64,
    pages: Option<Pages<DynamicEntity>>,
    page_from: u64,
}

#[derive(Clone, Copy)]
enum Until {
    Time(Instant),
    Operations(u64),
}

fn main() {
    let mut options = HashMap::<String, String>::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let (Some(name), Some(value)) = (name.strip_prefix("--"), arguments.next()) else {
            eprintln!("{USAGE}");
            std::process::exit(2)
        };
        options.insert(name.to_owned(), value);
    }
    let text = |name: &str, unsaid: &str| options.get(name).cloned().unwrap_or_else(|| unsaid.to_owned());
    let number =
        |name: &str, unsaid: f64| options.get(name).and_then(|text| text.parse().ok()).unwrap_or(unsaid);
    let (workload, url) = (text("workload", ""), text("table-endpoint", ""));
    if !matches!(workload.as_str(), "table-get" | "table-insert" | "table-query-page") || url.is_empty() {
        eprintln!("{USAGE}");
        std::process::exit(2)
    }
    let tasks = number("connections", 16.0).max(1.0) as usize;
    let account = Account::at(url.as_str()).shared_key(text("account", "devstoreaccount1"), text("key", KEY));
    let account = account.parallel(tasks).build().unwrap_or_else(|error| fail(&workload, &error));
    #[allow(clippy::disallowed_methods)]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (preload, run) = (number("preload", 10_000.0) as u64, format!("{:x}", now.as_millis()));
    let is_fresh = workload == "table-insert";
    let name = if is_fresh { format!("azl{run}") } else { format!("azlread{preload}") };
    let table = account.table(&name).unwrap_or_else(|error| fail(&workload, &error));
    let size = number("size", 1024.0) as usize;
    let config = Arc::new(Config { workload: workload.clone(), tasks, preload, size, table, run });

    let threads = number("threads", 1.0).max(1.0) as usize;
    let runtime = match threads {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    }
    .expect("a runtime");
    if let Err(error) = runtime.block_on(set_up(&config)) {
        fail(&workload, &error);
    }
    let new = |id| Worker {
        config: config.clone(),
        id,
        rng: Rng(id << 40 | 0x1234_5678),
        seq: 0,
        pages: None,
        page_from: 0,
    };
    let mut workers: Vec<Worker> = (0..tasks as u64).map(new).collect();
    let phase = |workers: Vec<Worker>, until: Until| {
        // A task of the runtime, as in azload, so that one thread does it all.
        let all = async move {
            let tasks: Vec<_> = workers.into_iter().map(|worker| tokio::spawn(worker.run(until))).collect();
            let (mut workers, mut all) = (Vec::new(), Stats::new());
            for task in tasks {
                let (worker, stats) = task.await.expect("tasks do not panic");
                workers.push(worker);
                all.merge(stats);
            }
            (workers, all)
        };
        runtime.block_on(all)
    };
    let of_time = |seconds: f64| Until::Time(Instant::now() + Duration::from_secs_f64(seconds));
    let mut early = Stats::new();
    let warm_up = number("warmup", 2.0);
    if warm_up > 0.0 {
        (workers, early) = phase(workers, of_time(warm_up));
    }
    let address = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
    let server = port.and_then(proc::pid_of_port).map(|pid| pid.to_string());
    let snapshot = || {
        let server = server.as_deref().and_then(proc::cpu_of).unwrap_or(0.0);
        (proc::cpu_of("self").unwrap_or(0.0), server, proc::machine().unwrap_or_default())
    };
    let (before, started) = (snapshot(), Instant::now());
    let until = match options.get("operations").and_then(|text| text.parse::<u64>().ok()) {
        Some(operations) => Until::Operations(operations / tasks as u64),
        None => of_time(number("seconds", 10.0)),
    };
    let (_, mut stats) = phase(workers, until);
    let wall = started.elapsed().as_secs_f64();
    let after = snapshot();
    for (kind, count) in early.errors {
        *stats.errors.entry(kind).or_insert(0) += count;
    }
    if is_fresh && let Err(error) = runtime.block_on(config.table.delete_table()) {
        eprintln!("clientload: cleaning up: {error}");
    }
    stats.samples.iter().for_each(|sample| eprintln!("clientload: {workload}: {sample}"));

    let round = |number: f64| (number * 1000.0).round() / 1000.0;
    let per_second = |count: u64| round(count as f64 / wall);
    let (client, server_cores) = ((after.0 - before.0) / wall, (after.1 - before.1) / wall);
    let others = (after.2.0 - before.2.0) / wall - client - server_cores;
    println!(
        "{}",
        json!({
            "label": text("label", ""), "workload": workload, "connections": tasks, "threads": threads, "seconds": round(wall),
            "ops": stats.ops, "ops_s": per_second(stats.ops), "entities_s": per_second(stats.entities),
            "p50_ms": round(stats.hist.q(0.5)), "p90_ms": round(stats.hist.q(0.9)), "p99_ms": round(stats.hist.q(0.99)),
            "p999_ms": round(stats.hist.q(0.999)), "max_ms": round(stats.hist.max_ms()), "mean_ms": round(stats.hist.mean_ms()),
            "errors": stats.errors, "error_count": stats.errors.values().sum::<u64>(),
            "client_cpu": round(client), "server_cpu": round(server_cores), "other_cpu": round(others.max(0.0)),
            "server_rss_mb": round(server.as_deref().and_then(proc::rss_of).unwrap_or_default().0),
            "client_us_per_op": round((after.0 - before.0) * 1e6 / stats.ops.max(1) as f64),
            "steal": round((after.2.1 - before.2.1) / wall),
        })
    );
    if stats.ops == 0 {
        std::process::exit(1);
    }
}

fn fail(workload: &str, error: &Error) -> ! {
    println!("{}", json!({"label": "", "workload": workload, "ops_s": 0, "failed": error.to_string()}));
    std::process::exit(1)
}

/// The table, and what is only read: the same as azload's.
async fn set_up(config: &Config) -> Result<(), Error> {
    config.table.create_if_missing().await?;
    let (first, last) = (0, config.preload.saturating_sub(1));
    if config.workload == "table-insert" {
        return Ok(());
    }
    for index in [last, first] {
        if config.table.get(&key(index)).await?.is_none() {
            let all = (0..config.preload).map(|index| entity(key(index), index, config.size));
            let report = config.table.bulk().upsert_replace(all).await;
            assert!(report.is_all_written(), "{} of {} were loaded", report.written(), config.preload);
        }
    }
    Ok(())
}

fn key(index: u64) -> EntityKey {
    EntityKey::new(data::pk(index), data::rk(index))
}

/// The entity that azload writes, to the byte.
fn entity(key: EntityKey, index: u64, size: usize) -> DynamicEntity {
    let mut body = Vec::with_capacity(size + 64);
    data::entity(&mut body, &key.partition_key, &key.row_key, index, size);
    let payload = body
        .iter()
        .rposition(|byte| *byte == b':')
        .map_or(&b""[..], |colon| &body[colon + 2..body.len() - 2]);
    entity_with(key, index, String::from_utf8_lossy(payload).into_owned())
}

/// Nearly the same, made without its JSON: that is for the client to do.
fn new_entity(key: EntityKey, index: u64, size: usize) -> DynamicEntity {
    const REST_BYTES: usize = 330;
    let mut payload = Vec::with_capacity(size);
    data::filler(&mut payload, index, size.saturating_sub(REST_BYTES));
    entity_with(key, index, String::from_utf8(payload).unwrap_or_default())
}

fn entity_with(key: EntityKey, index: u64, payload: String) -> DynamicEntity {
    let when = format!("2024-03-{:02}T10:11:12.5Z", index % 28 + 1);
    DynamicEntity::new(key.partition_key, key.row_key)
        .with("Name", format!("name-{index:012}"))
        .with("Count", (index % 100) as i32)
        .with("Big", (index * 1_000_003) as i64)
        .with("Flag", index.is_multiple_of(2))
        .with("Ratio", index as f64 + 0.25)
        .with("When", Timestamp::parse_iso(&when).expect("a time"))
        .with("Id", tepui_client::Guid::parse(&data::guid(index)).expect("a GUID"))
        .with("Payload", payload)
}

impl Worker {
    async fn run(mut self, until: Until) -> (Self, Stats) {
        let mut stats = Stats::new();
        loop {
            let goes_on = match until {
                Until::Time(time) => Instant::now() < time,
                Until::Operations(count) => stats.ops < count,
            };
            if !goes_on {
                return (self, stats);
            }
            let started = Instant::now();
            self.seq += 1;
            match self.one().await {
                Ok(entities) => {
                    stats.hist.add(started.elapsed());
                    stats.ops += 1;
                    stats.entities += entities;
                }
                Err(error) => stats.err(&error),
            }
        }
    }

    async fn one(&mut self) -> Result<u64, OpErr> {
        let config = self.config.clone();
        match config.workload.as_str() {
            "table-insert" => {
                let partition = self.rng.below(1000);
                let index = self.seq * config.tasks as u64 + self.id;
                let key = EntityKey::new(format!("p{partition:06}"), format!("{}-{index:014}", config.run));
                config.table.insert(&new_entity(key, index, config.size)).await.map_err(failed)?;
                Ok(1)
            }
            "table-get" => {
                let index = self.rng.below(config.preload.max(1));
                let found = config.table.get(&key(index)).await.map_err(failed)?;
                let found = found.ok_or_else(|| OpErr::Check("the entity is not there".to_owned()))?;
                self.check(&found, index, self.seq.is_multiple_of(64))?;
                Ok(1)
            }
            _ => self.page(&config).await,
        }
    }

    async fn page(&mut self, config: &Config) -> Result<u64, OpErr> {
        let pages = self.pages.get_or_insert_with(|| config.table.scan().pages());
        let page = pages.next_page().await.map_err(failed)?;
        let Some(page) = page else { return Err(OpErr::Check("no page".to_owned())) };
        let (from, to) = (self.page_from, (self.page_from + 1000).min(config.preload));
        if page.entities.len() as u64 != to - from {
            return Err(OpErr::Check(format!("{} entities from {from} to {to}", page.entities.len())));
        }
        let is_full = self.seq.is_multiple_of(64);
        for (index, found) in (from..to).zip(&page.entities) {
            if is_full || index == from || index + 1 == to {
                self.check(found, index, is_full)?;
            }
        }
        self.page_from = if to == config.preload { 0 } else { to };
        if to == config.preload {
            self.pages = None;
        }
        Ok(to - from)
    }

    /// Keys and a property, or everything.
    fn check(&self, found: &DynamicEntity, index: u64, all: bool) -> Result<(), OpErr> {
        let name = found.get("Name").and_then(Value::as_str);
        let is_right =
            found.key == key(index) && name.is_some_and(|name| name == format!("name-{index:012}"));
        match is_right && (!all || *found == entity(key(index), index, self.config.size)) {
            true => Ok(()),
            false => Err(OpErr::Check(format!("another entity than {index}"))),
        }
    }
}

fn failed(error: Error) -> OpErr {
    match error.status() {
        Some(status) => OpErr::Status(status, error.to_string()),
        None => OpErr::Io(error.to_string()),
    }
}
