//! Clients that write numbered steps, and what a copy of their data must look like: the state after one of those steps.

use crate::support::Server;
use crate::support::blob::{BLOCK_BLOB, noise};
use crate::support::http::Client;
use crate::support::table::{Applied, Change, properties};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a client does: its steps, and how to find the last one in a copy.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Table,
    Queue,
    Blobs,
    Blocks,
}

const CLIENTS: [Kind; 6] = [Kind::Table, Kind::Table, Kind::Queue, Kind::Queue, Kind::Blobs, Kind::Blocks];

/// How many changes each batch of a table has.
const BATCH: u64 = 7;
/// How many blobs a client writes to in turns.
const NAMES: u64 = 9;

struct Counters {
    attempted: AtomicU64,
    acknowledged: AtomicU64,
}

pub(crate) struct Load {
    counters: Vec<Arc<Counters>>,
    stop: Arc<AtomicBool>,
    pause: Arc<AtomicBool>,
    threads: std::cell::RefCell<Vec<JoinHandle<Duration>>>,
}

impl Load {
    pub(crate) fn start(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let pause = Arc::default();
        let mut load = Self { counters: Vec::new(), stop, pause, threads: Vec::new().into() };
        for (number, kind) in CLIENTS.into_iter().enumerate() {
            let counters =
                Arc::new(Counters { attempted: AtomicU64::new(0), acknowledged: AtomicU64::new(0) });
            load.counters.push(Arc::clone(&counters));
            let mut writer = Writer::new(server, kind, number);
            writer.create();
            let (stop, pause) = (Arc::clone(&load.stop), Arc::clone(&load.pause));
            let work = move || {
                let mut slowest = Duration::ZERO;
                for step in 1.. {
                    while pause.load(Ordering::SeqCst) && !stop.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    counters.attempted.store(step, Ordering::SeqCst);
                    let begun = Instant::now();
                    writer.step(step);
                    slowest = slowest.max(begun.elapsed());
                    counters.acknowledged.store(step, Ordering::SeqCst);
                }
                slowest
            };
            load.threads.borrow_mut().push(std::thread::spawn(work));
        }
        load
    }

    pub(crate) fn acknowledged(&self) -> Vec<u64> {
        self.counters.iter().map(|counters| counters.acknowledged.load(Ordering::SeqCst)).collect()
    }

    pub(crate) fn attempted(&self) -> Vec<u64> {
        self.counters.iter().map(|counters| counters.attempted.load(Ordering::SeqCst)).collect()
    }

    /// Lets the clients wait, so that there is less to check.
    pub(crate) fn pause(&self, is_paused: bool) {
        self.pause.store(is_paused, Ordering::SeqCst);
    }

    pub(crate) fn stop_clients(&self) -> Duration {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.threads.take().into_iter().map(|thread| thread.join().unwrap());
        ended.max().unwrap_or_default()
    }

    /// Ends all clients. Returns how long their slowest step took.
    pub(crate) fn stop(self) -> Duration {
        self.stop_clients()
    }

    /// Every client's data must be as after one of its steps, from `before` to `after`.
    pub(crate) fn check(&self, server: &Server, before: &[u64], after: &[u64]) {
        for (number, kind) in CLIENTS.into_iter().enumerate() {
            let steps = Writer::new(server, kind, number).steps_found();
            assert!(
                before[number] <= steps && steps <= after[number],
                "{kind:?} {number}: {steps} steps, {} were acknowledged before the backup and {} begun after it",
                before[number],
                after[number]
            );
        }
    }
}

struct Writer {
    kind: Kind,
    client: Client,
    name: String,
    seed: u64,
}

impl Writer {
    fn new(server: &Server, kind: Kind, number: usize) -> Self {
        let client = match kind {
            Kind::Table => server.client(),
            Kind::Queue => Client::connect(server.queue_port).unwrap(),
            Kind::Blobs | Kind::Blocks => server.blobs(),
        };
        Self { kind, client, name: format!("load{number}"), seed: (number as u64 + 1) << 32 }
    }

    fn create(&mut self) {
        match self.kind {
            Kind::Table => self.client.create_table(&self.name),
            Kind::Queue => self.client.create_queue(&self.name),
            Kind::Blobs | Kind::Blocks => self.client.create_container(&self.name),
        }
    }

    fn step(&mut self, step: u64) {
        match self.kind {
            Kind::Table => self.table_step(step),
            Kind::Queue => {
                let reply = self.client.put_message(&self.name, &step.to_string()).unwrap();
                assert_eq!(reply.status, 201, "{}", reply.text());
            }
            Kind::Blobs => self.blob_step(step),
            Kind::Blocks => self.block_step(step),
        }
    }

    fn steps_found(&mut self) -> u64 {
        match self.kind {
            Kind::Table => self.table_steps(),
            Kind::Queue => self.queue_steps(),
            Kind::Blobs | Kind::Blocks => self.blob_steps(),
        }
    }

    /// Single changes and batches; each batch also counts itself in one entity.
    fn table_step(&mut self, step: u64) {
        let entity = |row: String| {
            Change::new("POST", row, properties(json!({"Step": step, "Text": "x".repeat(300)})))
        };
        if !step.is_multiple_of(3) {
            let reply = self.client.change(&self.name, "p", &entity(format!("{step:08}"))).unwrap();
            assert_eq!(reply.status, 204, "{}", reply.text());
            return;
        }
        let mut changes: Vec<Change> = (0..BATCH).map(|part| entity(format!("{step:08}-{part}"))).collect();
        changes.push(Change::new("PUT", "last", properties(json!({"Step": step}))));
        let applied = self.client.batch(&self.name, "p", &changes).unwrap();
        assert!(matches!(applied, Applied::All(_)), "{applied:?}");
    }

    fn table_steps(&mut self) -> u64 {
        let read = |client: &mut Client, name: &str, row: &str| client.get(name, "p", row).unwrap();
        for step in 1.. {
            let rows: Vec<String> = match step % 3 {
                0 => (0..BATCH).map(|part| format!("{step:08}-{part}")).collect(),
                _ => vec![format!("{step:08}")],
            };
            let found = rows.iter().filter(|row| read(&mut self.client, &self.name, row).is_some()).count();
            assert!(found == 0 || found == rows.len(), "{}: a part of batch {step}", self.name);
            if found == rows.len() {
                continue;
            }
            let last = step - 1;
            for later in last + 1..last + 30 {
                for row in [format!("{later:08}"), format!("{later:08}-0")] {
                    assert!(read(&mut self.client, &self.name, &row).is_none(), "{row} without {step}");
                }
            }
            let counted =
                read(&mut self.client, &self.name, "last").map_or(0, |last| last["Step"].as_u64().unwrap());
            assert_eq!(counted, last / 3 * 3, "{}", self.name);
            return last;
        }
        unreachable!("a table ends")
    }

    fn queue_steps(&mut self) -> u64 {
        let count = self.client.count_messages(&self.name).unwrap();
        let mut found = Vec::new();
        loop {
            let messages = self.client.get_messages(&self.name, 32, 600).unwrap();
            if messages.is_empty() {
                break;
            }
            found.extend(messages.iter().map(|message| message.text.parse::<u64>().unwrap()));
        }
        found.sort_unstable();
        assert_eq!(found, (1..=count).collect::<Vec<_>>(), "{}", self.name);
        count
    }

    /// What a step makes of which blob: some bytes, or nothing.
    fn blob_of(&self, step: u64) -> (String, Option<Vec<u8>>) {
        let name = format!("blob{}", step % NAMES);
        // In the row, in a row of its own, in an extent, in an extent of many frames.
        let lengths = [100, 9_000, 40_000, 1_300_000];
        let content = !step.is_multiple_of(13);
        (
            name,
            content.then(|| {
                noise(self.seed + step, lengths[step as usize % lengths.len()] + step as usize % 99)
            }),
        )
    }

    fn blob_step(&mut self, step: u64) {
        let (name, content) = self.blob_of(step);
        let path = format!("/{}/{name}", self.name);
        let reply = match content {
            Some(content) => {
                let number = step.to_string();
                self.client.blob("PUT", &path, &[BLOCK_BLOB, ("x-ms-meta-step", &number)], &content).unwrap()
            }
            None => self.client.blob("DELETE", &path, &[], b"").unwrap(),
        };
        assert!(matches!(reply.status, 201 | 202 | 404), "{}", reply.text());
    }

    /// The same in blocks. Only the list of them shows.
    fn block_step(&mut self, step: u64) {
        let (name, Some(content)) = self.blob_of(step) else { return self.blob_step(step) };
        let path = format!("/{}/{name}", self.name);
        let mut list = "<BlockList>".to_owned();
        for (index, block) in content.chunks(content.len().div_ceil(3)).enumerate() {
            let id = ["AAAA", "BBBB", "CCCC"][index];
            let reply =
                self.client.blob("PUT", &format!("{path}?comp=block&blockid={id}"), &[], block).unwrap();
            assert_eq!(reply.status, 201, "{}", reply.text());
            list += &format!("<Latest>{id}</Latest>");
        }
        let number = step.to_string();
        let headers = [("x-ms-meta-step", number.as_str())];
        let body = format!("{list}</BlockList>");
        let reply =
            self.client.blob("PUT", &format!("{path}?comp=blocklist"), &headers, body.as_bytes()).unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    fn blob_steps(&mut self) -> u64 {
        let mut found = BTreeMap::new();
        for name in (0..NAMES).map(|name| format!("blob{name}")) {
            let reply = self.client.get_blob(&format!("/{}/{name}", self.name));
            if reply.status == 200 {
                let step: u64 = reply.header("x-ms-meta-step").unwrap().parse().unwrap();
                assert!(
                    Some(reply.body) == self.blob_of(step).1,
                    "{} {name}: the bytes of step {step}",
                    self.name
                );
                found.insert(name, step);
            }
        }
        // Which step leads to exactly these? The last one that does: a delete of what is not there changes nothing.
        let last = found.values().max().copied().unwrap_or(0);
        let mut expected = BTreeMap::new();
        let mut matching = None;
        for step in 0..=last + 2 {
            if step > 0 {
                let (name, content) = self.blob_of(step);
                match content {
                    Some(_) => drop(expected.insert(name, step)),
                    None => drop(expected.remove(&name)),
                }
            }
            if expected == found {
                matching = Some(step);
            }
        }
        matching.unwrap_or_else(|| panic!("{}: no step leads to {found:?}", self.name))
    }
}
