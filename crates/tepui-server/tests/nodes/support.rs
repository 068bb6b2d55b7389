//! Servers in one process that share what is in memory, as nodes share a store over a network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tepui_client::{Account, AccountBuilder, Retry};
use tepui_model::account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tepui_server::config::{Config, ServiceName};
use tepui_server::{Server, SharedStorage, StartError};
use tepui_storage::dynamic::{DynEngine, DynExtents};
use tepui_storage::stats::RemoteStats;
use tepui_storage::{Engine, Key, KeyRange, Limits, MemoryEngine, MemoryExtents, StorageError, Value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A store that several nodes share, and that can be out of reach.
#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) rows: MemoryEngine,
    extents: MemoryExtents,
    pub(crate) is_down: Arc<AtomicBool>,
    stats: Arc<RemoteStats>,
    pub(crate) is_closed: Arc<AtomicBool>,
}

impl Store {
    pub(crate) fn shared(&self) -> SharedStorage {
        let is_closed = Arc::clone(&self.is_closed);
        SharedStorage {
            engine: DynEngine::new(self.clone()),
            extents: DynExtents::new(self.extents.clone()),
            stats: Arc::clone(&self.stats),
            close: Box::pin(async move { is_closed.store(true, Ordering::Release) }),
        }
    }

    fn reach(&self) -> Result<(), StorageError> {
        match self.is_down.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(StorageError::unavailable("somebody pulled the plug")),
        }
    }
}

impl Engine for Store {
    type Transaction = <MemoryEngine as Engine>::Transaction;
    type Pipeline = <MemoryEngine as Engine>::Pipeline;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        self.reach()?;
        self.rows.begin().await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.reach()?;
        self.rows.get_many(keys).await
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        self.reach()?;
        self.rows.begin_pipeline().await
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.reach()?;
        self.rows.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        self.reach()
    }

    fn limits(&self) -> Limits {
        self.rows.limits()
    }
}

/// A server. It ends with the runtime that it was started on, if not before.
pub(crate) struct Node {
    addresses: Vec<(ServiceName, SocketAddr)>,
    pub(crate) admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    run: JoinHandle<()>,
}

pub(crate) fn config() -> Config {
    Config { table_port: 0, queue_port: 0, blob_port: 0, admin_port: Some(0), ..Config::default() }
}

impl Node {
    pub(crate) async fn start(store: &Store) -> Self {
        Self::start_with(store, config()).await.expect("it starts")
    }

    pub(crate) async fn start_with(store: &Store, config: Config) -> Result<Self, StartError> {
        let server = Server::start_on(config, store.shared()).await?;
        let addresses = server.addresses();
        let admin = server.admin_address().expect("it has an admin port");
        let (stop, stopped) = oneshot::channel();
        let run = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Ok(Self { addresses, admin, stop: Some(stop), run })
    }

    /// Two nodes on a new store.
    pub(crate) async fn two() -> (Store, [Self; 2]) {
        let store = Store::default();
        let nodes = [Self::start(&store).await, Self::start(&store).await];
        (store, nodes)
    }

    pub(crate) fn address(&self, service: ServiceName) -> SocketAddr {
        self.addresses.iter().find(|(known, _)| *known == service).expect("it is served").1
    }

    pub(crate) fn endpoint(&self, service: ServiceName) -> String {
        format!("http://{}/{DEVELOPMENT_ACCOUNT}", self.address(service))
    }

    pub(crate) fn account(&self) -> Account {
        self.account_with(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64)
    }

    pub(crate) fn account_with(&self, name: &str, key: &str) -> Account {
        let [tables, queues, blobs] = [ServiceName::Table, ServiceName::Queue, ServiceName::Blob]
            .map(|service| format!("http://{}/{name}", self.address(service)));
        let text = format!(
            "AccountName={name};AccountKey={key};TableEndpoint={tables};\
             QueueEndpoint={queues};BlobEndpoint={blobs}"
        );
        let builder = AccountBuilder::from_connection_string(&text).expect("it is a connection string");
        builder.retry(Retry::quick()).build().expect("it is an account")
    }

    /// Asks for an end, which goes on in the background.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("it was not stopped before").send(());
    }

    pub(crate) async fn stopped(self) {
        self.run.await.expect("it ends without a panic");
    }

    /// The status and the body of `/health`.
    pub(crate) async fn health(&self) -> (u16, String) {
        get(self.address(ServiceName::Table), "/health").await
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path}"), "").await
}

/// The status and the body of a request on a connection of its own. Status 0: there is no answer.
pub(crate) async fn ask(address: SocketAddr, what: &str, headers: &str) -> (u16, String) {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("{what} HTTP/1.1\r\nHost: {address}\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = ask.await.unwrap_or_default();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

/// Waits until something is so, for a while.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}
