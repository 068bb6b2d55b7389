//! PD and three stores that speak TiKV's protocol, on free ports and in a temporary directory.

use super::process::{Directory, Process, free_port, wait_for};
use super::program;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const STORES: usize = 3;
/// A store may panic while the first replicas are made: then all of it begins again.
const ATTEMPTS: usize = 8;
const READY_LIMIT: Duration = Duration::from_secs(180);
/// Usually it takes a quarter of this. Now and then a replica is never made.
const FIRST_REPLICAS_LIMIT: Duration = Duration::from_secs(60);

/// What keys with the prefix `lost` begin with: the stores lose their locks once.
const LOSES_LOCKS: [u8; 6] = *b"m\x04lost";

pub(crate) struct Cluster {
    pd: Mutex<Option<Process>>,
    stores: [Mutex<Option<Process>>; STORES],
    pd_port: u16,
    peer_port: u16,
    store_ports: [u16; STORES],
    directory: Directory,
}

/// The cluster of this test program. Its processes end with it.
pub(crate) fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(Cluster::start)
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let began = Instant::now();
        for attempt in 1..=ATTEMPTS {
            let cluster = Self::launch();
            if cluster.becomes_ready() {
                println!("a cluster is ready after {} ms, in attempt {attempt}", began.elapsed().as_millis());
                return cluster;
            }
            println!(
                "a store has panicked while the first replicas were made, or they were not made: from the beginning"
            );
        }
        panic!("the first replicas were not made in {ATTEMPTS} attempts");
    }

    fn launch() -> Self {
        let cluster = Self {
            directory: Directory::new(),
            pd_port: free_port(),
            peer_port: free_port(),
            store_ports: std::array::from_fn(|_| free_port()),
            pd: Mutex::new(None),
            stores: std::array::from_fn(|_| Mutex::new(None)),
        };
        cluster.start_pd();
        (0..STORES).for_each(|number| cluster.start_store(number));
        cluster
    }

    /// Where PD is.
    pub(crate) fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.pd_port)
    }

    pub(crate) fn start_pd(&self) {
        let (client, peer) = (self.endpoint(), format!("127.0.0.1:{}", self.peer_port));
        let data = self.directory.path().join("pd");
        // Merges and joint consensus are more than the stores can do.
        let config = format!(
            r#"name = "pd"
data-dir = "{}"
client-urls = "http://{client}"
peer-urls = "http://{peer}"
initial-cluster = "pd=http://{peer}"

[log]
level = "warn"

[schedule]
merge-schedule-limit = 0
enable-joint-consensus = false
max-store-down-time = "1h"

[replication]
max-replicas = {STORES}

[pd-server]
dashboard-address = "none"

[dashboard]
enable-telemetry = false
"#,
            data.display()
        );
        let path = self.directory.path().join("pd.toml");
        std::fs::write(&path, config).expect("the configuration can be written");
        let arguments = [format!("--config={}", path.display())];
        let process = Process::start(&program("pd"), &arguments, self.directory.path().join("pd.log"));
        *lock(&self.pd) = Some(process);
        wait_for("PD", READY_LIMIT, || self.ask("/pd/api/v1/health"));
    }

    pub(crate) fn start_store(&self, number: usize) {
        let data = self.directory.path().join(format!("store-{number}"));
        // What it was receiving when it was killed is not whole, and it would take it for such.
        let _ = std::fs::remove_dir_all(data.join("snap"));
        let arguments = [
            format!("-pd={}", self.endpoint()),
            format!("-address=127.0.0.1:{}", self.store_ports[number]),
            format!("-data-dir={}", data.display()),
            "-log-level=warn".to_owned(),
            format!("-lose-locks-of={}", LOSES_LOCKS.map(|byte| format!("{byte:02x}")).concat()),
        ];
        let log = self.directory.path().join(format!("store-{number}.log"));
        *lock(&self.stores[number]) = Some(Process::start(&program("store"), &arguments, log));
    }

    /// Whether all is ready: `false` if a store has panicked, or if it takes too long.
    fn becomes_ready(&self) -> bool {
        let began = Instant::now();
        while self.panicked().is_none() && began.elapsed() < FIRST_REPLICAS_LIMIT {
            if self.is_whole() {
                return self.panicked().is_none();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// The end of the log of a store that has panicked.
    pub(crate) fn panicked(&self) -> Option<String> {
        let of = |store: &Mutex<Option<Process>>| {
            lock(store).as_ref().filter(|store| store.has_panicked()).map(Process::tail)
        };
        self.stores.iter().find_map(of)
    }

    /// Whether all stores are up, and all regions have a leader and three replicas that are not behind.
    pub(crate) fn is_whole(&self) -> bool {
        let (Some(stores), Some(regions)) = (self.ask("/pd/api/v1/stores"), self.ask("/pd/api/v1/regions"))
        else {
            return false;
        };
        let is_up = |store: &Value| store["store"]["state_name"] == "Up";
        let is_replicated = |region: &Value| {
            let peers = region["peers"].as_array();
            let is_voter = |peer: &Value| peer["role_name"].as_str().is_none_or(|role| role == "Voter");
            let is_complete = peers.is_some_and(|peers| peers.len() == STORES && peers.iter().all(is_voter));
            let pending = region["pending_peers"].as_array().is_some_and(|pending| !pending.is_empty());
            is_complete && !pending && region["leader"]["store_id"].is_number()
        };
        let stores = stores["stores"].as_array();
        let regions = regions["regions"].as_array();
        stores.is_some_and(|stores| stores.len() == STORES && stores.iter().all(is_up))
            && regions.is_some_and(|regions| !regions.is_empty() && regions.iter().all(is_replicated))
    }

    pub(crate) fn regions(&self) -> usize {
        let regions = self.ask("/pd/api/v1/regions");
        regions.and_then(|regions| regions["regions"].as_array().map(Vec::len)).unwrap_or(0)
    }

    /// The safepoint, as PD has it.
    pub(crate) fn safepoint(&self) -> u64 {
        let found = self.ask("/pd/api/v1/gc/safepoint");
        found.and_then(|found| found["gc_safe_point"].as_u64()).unwrap_or(0)
    }

    /// The store that leads most regions.
    pub(crate) fn busiest_store(&self) -> usize {
        let stores = wait_for("the list of stores", READY_LIMIT, || self.ask("/pd/api/v1/stores"));
        let leaders = |number: &usize| {
            let address = format!("127.0.0.1:{}", self.store_ports[*number]);
            let stores = stores["stores"].as_array().map(Vec::as_slice).unwrap_or_default();
            let store = stores.iter().find(|store| store["store"]["address"] == address[..]);
            store.and_then(|store| store["status"]["leader_count"].as_u64()).unwrap_or(0)
        };
        (0..STORES).max_by_key(leaders).unwrap_or(0)
    }

    pub(crate) fn signal_store(&self, number: usize, name: &str) {
        lock(&self.stores[number]).as_ref().expect("it was started").signal(name);
    }

    pub(crate) fn kill_store(&self, number: usize) {
        drop(lock(&self.stores[number]).take());
    }

    pub(crate) fn kill_pd(&self) {
        drop(lock(&self.pd).take());
    }

    /// An answer of PD's HTTP API.
    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.endpoint()).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: pd\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.split(' ').nth(1).filter(|status| *status == "200")?;
        serde_json::from_str(body).ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
