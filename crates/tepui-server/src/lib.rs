//! Sockets and the order of checks: everything between a listener and what operations mean.
//!
//! [`Server::start`] opens the data and the listeners, [`Server::run`] serves until it is
//! stopped. `net` carries requests and knows nothing of their meaning; `pipeline` is where a request is
//! understood.

pub mod accounts;
mod admin;
mod analytics;
pub mod config;
mod control;
mod data;
mod faults;
mod identity;
mod ids;
pub mod log;
mod metrics;
mod net;
pub mod new_file;
mod node;
pub mod pipeline;
mod proxies;
mod redact;
mod remote_hosts;
mod seed;
mod tail;
pub mod targets;
mod test_clock;
mod tls;

pub use config::{Config, ConfigError};
pub use control::with_socket_path;
pub use data::{NoExtents, SharedStorage};
pub use ids::RequestIds;
pub use net::accept::{Handler, Peer, Shared, serve as serve_handler};
pub use net::body::{Body, BodyError, BrokenReply, Pieces, ReplyBody};
pub use net::limits::Limits;
pub use proxies::{Network, TrustedProxies};
pub use remote_hosts::{ListedHost, RemoteHosts};
pub use seed::SeedError;
pub use tls::{Tls, TlsError};

use accounts::AccountEditor;
use admin::accounts::AccountsArea;
use admin::clock::ClockArea;
use admin::faults::FaultsArea;
use admin::managed_identity::ManagedIdentity;
use admin::messages::MessagesArea;
use admin::partitions::PartitionsArea;
use admin::requests::RequestsArea;
use admin::reset::ResetArea;
use admin::roles::RolesArea;
use admin::seed::SeedArea;
use admin::snapshots::SnapshotsArea;
use admin::token::TokenArea;
use admin::{Admin, Area, Guard};
use analytics::{Analytics, CapacityMeter, LogRetention, LogWriter, MetricsKeeper, MetricsWriter};
use config::{AdminToken, ServiceName};
use control::ControlSocket;
use data::Data;
use faults::Faults;
use identity::Identity;
use metrics::Metrics;
use node::Node;
use pipeline::{BackgroundCopies, Blobs, Directory, Front, Load, Queues, RemoteCopies, Tables};
use seed::Seeder;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tail::Tail;
use targets::Targets;
use tepui_local::Checkpoint;
use tepui_model::Clock;
use tepui_model::account::Account;
use tepui_service::test_bench::{GarbagePause, TestBench};
use tepui_service::{
    BlobService, GarbageCollector, NodeError, QueueService, StoreAccess, TableOptions, TableService,
    WorkLeases,
};
use tepui_storage::StorageError;
use tepui_storage::dynamic::BoxFuture;
use tepui_storage::rewindable::RewindableEngine;
use tepui_wire::address::Service;
use test_clock::TestClock;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A server that listens, and serves once it [runs](Self::run).
pub struct Server {
    ports: Ports,
    shared: Arc<Shared>,
    data: Data,
    control: Option<ControlSocket>,
    identity: Identity,
    config: Config,
}

/// A socket that listens, and where.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// All that listen.
struct Ports {
    listeners: Vec<(ServiceName, Listener)>,
    admin: Option<AdminPort>,
}

/// The listener of the admin port, and the token of its API.
struct AdminPort {
    listener: Listener,
    token: AdminToken,
    /// Nobody knows the token but this server.
    is_token_new: bool,
}

/// Why a server could not start.
#[derive(Debug)]
pub enum StartError {
    Config(ConfigError),
    /// The certificate cannot be used.
    Tls(TlsError),
    /// What the port is for, the address, and what the system said.
    Listen(&'static str, String, io::Error),
    /// The data could not be opened.
    Data(StorageError),
    /// The bytes of large blobs could not be opened.
    Extents(StorageError),
    /// The server could not join the nodes that share its storage.
    Node(NodeError),
    /// The accounts that are stored could not be read.
    Accounts(String),
    /// The server could not be seeded.
    Seed(SeedError),
    /// The key of the development issuer could not be read or made.
    Identity(io::Error),
}

impl Ports {
    /// Before the data is opened, as it fails most often and leaves nothing behind.
    async fn open(config: &Config) -> Result<Self, StartError> {
        config.check().map_err(StartError::Config)?;
        let mut listeners = Vec::new();
        for service in ServiceName::ALL.iter().copied().filter(|service| config.services.contains(service)) {
            let (host, port) = config.address(service);
            listeners.push((service, Listener::open(service.name(), host, port).await?));
        }
        identity::check_addresses(config, listeners.iter().map(|(_, listener)| listener.address))
            .map_err(StartError::Config)?;
        let admin = match config.effective_admin_port() {
            Some(port) => Some(AdminPort {
                listener: Listener::open("admin", &config.admin_host, port).await?,
                token: config.admin_token.clone().unwrap_or_else(AdminToken::random),
                is_token_new: config.admin_token.is_none(),
            }),
            None => None,
        };
        Ok(Self { listeners, admin })
    }
}

/// Starts a server and runs it until `shutdown`.
pub async fn serve(config: Config, shutdown: impl Future<Output = ()> + Send) -> Result<(), StartError> {
    Server::start(config).await?.run(shutdown).await;
    Ok(())
}

impl Server {
    /// Opens the listeners, and data that is local or in memory.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let ports = Ports::open(&config).await?;
        let data = Data::open(&config).await?;
        Self::start_with(config, ports, data).await
    }

    /// Opens the listeners, and joins the nodes that share a storage, which was opened before. What the configuration says of
    /// where data is does not count.
    pub async fn start_on(config: Config, storage: SharedStorage) -> Result<Self, StartError> {
        if config.test_bench {
            let message = "a test bench needs storage of its own, local or in memory";
            return Err(StartError::Config(ConfigError(message.to_owned())));
        }
        let ports = Ports::open(&config).await?;
        let data = Data::join(storage).await?;
        Self::start_with(config, ports, data).await
    }

    fn start_with(config: Config, ports: Ports, data: Data) -> BoxFuture<'static, Result<Self, StartError>> {
        Box::pin(Self::open(config, ports, data))
    }

    async fn open(config: Config, ports: Ports, data: Data) -> Result<Self, StartError> {
        let accounts = data.open_accounts(&config).await?;
        config.check_names(|name| accounts.current().serves(name)).map_err(StartError::Config)?;
        let identity = Identity::open(&config, &data, accounts).await?;
        // After the data: nobody else makes certificates in a directory that is in use.
        let tls = Tls::open(&config).map_err(StartError::Tls)?;
        if let Some(path) = &config.seed {
            data.seed(&config, &identity.accounts, path).await.map_err(StartError::Seed)?;
        }
        let control = match &data {
            Data::Memory(..) | Data::Shared(_) => None,
            Data::Disk(_, _, directory) => ControlSocket::open(directory),
        };
        Ok(Self {
            control,
            ports,
            shared: Shared::of_server(
                TrustedProxies(config.trusted_proxies.clone()),
                tls,
                config.limits.clone(),
            ),
            data,
            identity,
            config,
        })
    }

    /// The accounts that are configured, with the keys that are good for them now.
    pub fn configured_accounts(&self) -> Vec<Account> {
        let current = self.identity.accounts.current();
        let configured = self.config.effective_accounts().into_iter();
        configured.filter_map(|account| current.account(&account.name).map(|found| found.account())).collect()
    }

    /// The services that are served, and where each listens.
    pub fn addresses(&self) -> Vec<(ServiceName, SocketAddr)> {
        self.ports.listeners.iter().map(|(service, listener)| (*service, listener.address)).collect()
    }

    /// Where the admin port is, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.ports.admin.as_ref().map(|admin| admin.listener.address)
    }

    /// The token of the admin API, if it was made for this run and not configured: somebody has to be told.
    pub fn new_admin_token(&self) -> Option<&AdminToken> {
        self.ports.admin.as_ref().filter(|admin| admin.is_token_new).map(|admin| &admin.token)
    }

    /// TLS, if it is configured: its certificate can be read again.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        self.shared.tls()
    }

    /// What is stored now, for a backup: everything that was acknowledged before. Neither reads nor writes wait for it.
    pub async fn checkpoint(&self) -> io::Result<Checkpoint> {
        self.data.checkpoint().await
    }

    /// Serves until `shutdown`, then ends what is under way and closes the data.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) {
        self.run_until(Box::pin(shutdown)).await;
    }

    /// In a box and without type parameters, as [`Self::start_with`]: so all of it is compiled with this crate, once, and not again
    /// with each program and test that runs a server.
    fn run_until(self, shutdown: BoxFuture<'_, ()>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Self { ports, shared, data, control, identity, config } = self;
            let (stop, stopped) = watch::channel(false);
            let commands = control.map(|control| {
                let data = data.clone();
                tokio::spawn(async move { control.serve(&data, stopped).await })
            });
            let watching = shared.tls().map(|tls| tokio::spawn(Arc::clone(tls).watch()));
            let serving = run_all(ports, &data, &config, &identity, shared, shutdown);
            let _ = data.while_joined(serving).await;
            if let Some(watching) = watching {
                watching.abort();
            }
            let _ = stop.send(true);
            if let Some(commands) = commands {
                let _ = commands.await;
            }
            data.close().await;
        })
    }
}

/// Serves all listeners until `shutdown`.
async fn run_all(
    Ports { listeners, admin }: Ports,
    data: &Data,
    config: &Config,
    identity: &Identity,
    shared: Arc<Shared>,
    shutdown: BoxFuture<'_, ()>,
) {
    let (engine, extents) = data.stores();
    let engine = &Arc::new(match config.test_bench {
        true => RewindableEngine::on(engine),
        false => RewindableEngine::off(engine),
    });
    let node = data.node();
    let test_clock = config.test_bench.then(|| Arc::new(TestClock::new()));
    let clock: Arc<dyn Clock> = match &test_clock {
        Some(clock) => Arc::<TestClock>::clone(clock),
        None => Arc::clone(&node.clock),
    };
    let collector = Arc::new(GarbageCollector::new(Arc::clone(engine)));
    let tables = Arc::new(TableService::new(
        Arc::clone(engine),
        Arc::clone(&clock),
        Arc::clone(&collector),
        TableOptions::default(),
    ));
    let queues = Arc::new(QueueService::new(
        Arc::clone(engine),
        Arc::clone(&clock),
        Arc::clone(&collector),
        node.queue_options(),
    ));
    let blobs = Arc::new(BlobService::new(
        Arc::clone(engine),
        extents,
        Arc::clone(&clock),
        ids::random_ids(),
        node.blob_options(config),
    ));
    // Whichever services are served: what was deleted or has expired is removed.
    let (sweeper, cleaner) = (Arc::clone(&queues), Arc::clone(&blobs));
    let Node { access, .. } = node;
    let leases = Arc::new(WorkLeases::new(Arc::clone(engine), Arc::clone(&clock), access, ids::random()));
    let mut chores = JoinSet::new();
    let garbage = Arc::new(GarbagePause::default());
    let (pause, collects, of_tables) = (Arc::clone(&garbage), Arc::clone(&collector), Arc::clone(&leases));
    chores.spawn(async move { pause.run_between(|| collects.run(&of_tables)).await });
    let of_queues = Arc::clone(&leases);
    chores.spawn(async move { sweeper.sweep(&of_queues).await });
    let (pause, of_blobs) = (Arc::clone(&garbage), Arc::clone(&leases));
    chores.spawn(async move { pause.run_between(|| cleaner.collect_garbage(&of_blobs)).await });
    let bench = Arc::new(TestBench {
        engine: Arc::clone(engine),
        tables: Arc::clone(&tables),
        queues: Arc::clone(&queues),
        blobs: Arc::clone(&blobs),
        collector,
        clock: Arc::clone(&clock),
        garbage,
    });
    let accounts = &identity.accounts;
    if let Some(tokens) = &identity.tokens {
        chores.spawn(Arc::clone(tokens).keep_keys_fresh());
    }
    let directory: Arc<dyn Directory> = Arc::new(identity.directory(&clock));
    let analytics = Arc::new(Analytics::default());
    let (dropped, forgetting) = (Arc::clone(&bench), Arc::clone(&analytics));
    let editor = Arc::new(AccountEditor::new(
        Arc::clone(engine),
        Arc::clone(&clock),
        access,
        Arc::clone(accounts),
        Box::new(move || dropped.after_drops()),
        Box::new(move |name| forgetting.forget_account(name)),
    ));
    let (tended, of_accounts) = (Arc::clone(&editor), Arc::clone(&leases));
    chores.spawn(async move { tended.run(&of_accounts).await });
    let faults = config.test_bench.then(|| Arc::new(Faults::default()));
    let tail = admin.as_ref().map(|_| Arc::new(Tail::new(Arc::clone(&clock))));
    let (stop_analytics, stopped) = watch::channel(false);
    let flush_after = Duration::from_secs(config.analytics_flush_seconds);
    let log_writer = LogWriter::new(Arc::clone(&analytics), Arc::clone(&blobs), flush_after);
    let log_writer = tokio::spawn(log_writer.run(stopped));
    let (stop_metrics, stopped) = watch::channel(false);
    let metrics_writer =
        MetricsWriter::new(Arc::clone(&tables), Arc::clone(&clock), Arc::clone(&analytics), flush_after);
    let metrics_writer = tokio::spawn(metrics_writer.run(stopped));
    let retention = LogRetention {
        blobs: Arc::clone(&blobs),
        tables: Arc::clone(&tables),
        clock: Arc::clone(&clock),
        analytics: Arc::clone(&analytics),
    };
    chores.spawn(retention.run());
    chores.spawn(MetricsKeeper::new(Arc::clone(&tables), Arc::clone(&clock)).run(Arc::clone(&leases)));
    let capacity = CapacityMeter::new(Arc::clone(&tables), Arc::clone(&blobs), Arc::clone(&clock));
    chores.spawn(capacity.run(Arc::clone(&leases)));
    let copies = BackgroundCopies::new();
    let mut accepting = JoinSet::new();
    let metrics =
        admin.as_ref().map(|_| Arc::new(Metrics::new(&config.build, &shared, Arc::clone(&analytics))));
    let load = Load {
        targets: config.targets.figures().map(|figures| Arc::new(Targets::new(figures))),
        // Only the admin API tells.
        heat: metrics.is_some().then(Arc::default),
    };
    // What the listener of a port counts, for whoever asks.
    let counts = |port| match &metrics {
        Some(metrics) => metrics.watch_listener(port),
        None => Arc::default(),
    };
    if let (Some(AdminPort { listener, token, .. }), Some(metrics), Some(tail)) = (admin, &metrics, &tail) {
        metrics.watch_data(data, &shared, blobs.stats());
        metrics.watch_queues(queues.stats());
        if let Some(tokens) = &identity.tokens {
            metrics.watch_tokens(tokens);
        }
        // Those of test benches are there in any case, to be refused with a reason.
        let addresses = listeners.iter().map(|(service, listener)| (*service, listener.address)).collect();
        let scheme = if shared.tls().is_some() { "https" } else { "http" };
        let areas: Vec<Box<dyn Area>> = vec![
            Box::new(AccountsArea::new(Arc::clone(&editor), scheme, addresses)),
            Box::new(RolesArea::new(Arc::clone(&editor))),
            Box::new(ClockArea::new(test_clock.unwrap_or_default())),
            Box::new(FaultsArea::new(faults.clone().unwrap_or_default())),
            Box::new(MessagesArea::new(Arc::clone(&queues))),
            Box::new(PartitionsArea::new(load.heat.clone().unwrap_or_default())),
            Box::new(RequestsArea::new(Arc::clone(tail))),
            Box::new(SnapshotsArea::new(Arc::clone(&bench), Arc::clone(&analytics), editor)),
            Box::new(ResetArea::new(Arc::clone(&bench), Arc::clone(&analytics), Arc::clone(accounts))),
            Box::new(SeedArea::new(Seeder::of(&bench, config, accounts))),
            Box::new(TokenArea::new(identity.issuer.clone(), Arc::clone(&clock))),
        ];
        let guard = Guard::new(config, listener.address, token);
        let managed = identity.issuer.clone().map(|issuer| ManagedIdentity::new(issuer, Arc::clone(&clock)));
        let handler = Admin::new(guard, Arc::clone(metrics), config.test_bench, areas);
        let handler = Arc::new(handler.with_managed_identity(managed));
        let counts = counts("admin");
        accepting.spawn(net::accept::serve_counted(listener.socket, handler, Arc::clone(&shared), counts));
    }
    for (service, listener) in listeners {
        let (shared, counts) = (Arc::clone(&shared), counts(service.name()));
        let front = |service| {
            let (metrics, analytics) = (metrics.clone(), Arc::clone(&analytics));
            let accounts = Arc::clone(accounts);
            Front::new(service, Arc::clone(&clock), config, accounts, listener.address, metrics, analytics)
                .with_directory(Arc::clone(&directory))
                .with_load(load.clone())
                .with_faults(faults.clone())
                .with_tail(tail.clone())
        };
        match service {
            ServiceName::Blob => {
                let remote = RemoteCopies::new(config.remote_hosts(), &config.limits);
                let front = front(Service::Blob);
                let blobs =
                    Blobs::new(front, Arc::clone(&blobs), remote, Arc::clone(&copies), &config.limits);
                accepting.spawn(net::accept::serve_counted(listener.socket, Arc::new(blobs), shared, counts));
            }
            ServiceName::Queue => {
                let queues = Queues::new(front(Service::Queue), Arc::clone(&queues), &config.limits);
                accepting.spawn(net::accept::serve_counted(
                    listener.socket,
                    Arc::new(queues),
                    shared,
                    counts,
                ));
            }
            ServiceName::Table => {
                let tables = Tables::new(front(Service::Table), Arc::clone(&tables), &config.limits);
                accepting.spawn(net::accept::serve_counted(
                    listener.socket,
                    Arc::new(tables),
                    shared,
                    counts,
                ));
            }
        }
    }
    shutdown.await;
    shared.drain(Duration::from_secs(config.drain_seconds)).await;
    if let Some(tail) = tail {
        tail.close();
    }
    let cut_off = shared.stop().await;
    if cut_off > 0 {
        tracing::warn!(connections = cut_off, "connections cut off: their requests took too long");
    }
    accepting.join_all().await;
    let end = async {
        copies.stop().await;
        // After the last request.
        let _ = stop_analytics.send(true);
        let _ = log_writer.await;
        // Writing logs is counted, too.
        let _ = stop_metrics.send(true);
        let _ = metrics_writer.await;
    };
    match access {
        StoreAccess::Exclusive => {
            end.await;
            chores.shutdown().await;
        }
        // A store that does not answer must not keep the process from ending.
        StoreAccess::Shared => {
            if tokio::time::timeout(END_TIMEOUT, end).await.is_err() {
                tracing::warn!("storage does not answer: the last lines of Storage Analytics may be lost");
            }
            chores.shutdown().await;
            let given_back = tokio::time::timeout(GIVE_BACK_TIMEOUT, leases.give_back()).await;
            if !matches!(given_back, Ok(Ok(()))) {
                tracing::warn!("the leases on background work are not given back: others wait for their end");
            }
        }
    }
}

/// How long the last writes to storage over a network may take when the server stops.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to give back the leases on background work.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections that may wait to be accepted, as far as the system allows. The SYN of a
/// client beyond them is dropped and sent again after a second: with tokio's 128, that happens in a burst of clients.
/// A longer backlog would make clients wait behind connections that send nothing.
const BACKLOG: u32 = 1024;

impl Listener {
    async fn open(name: &'static str, host: &str, port: u16) -> Result<Self, StartError> {
        let failed = |error| StartError::Listen(name, format!("{host}:{port}"), error);
        let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in tokio::net::lookup_host((host, port)).await.map_err(failed)? {
            outcome = Self::listen(address);
            if outcome.is_ok() {
                break;
            }
        }
        outcome.map_err(failed)
    }

    fn listen(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Elsewhere it lets two processes share a port.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(BACKLOG)?;
        Ok(Self { address: socket.local_addr()?, socket })
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::Listen(_, address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "the port is in use by another process: {address}")
            }
            Self::Listen(_, address, error) => write!(f, "cannot listen ({error}): {address}"),
            Self::Data(error) => error.fmt(f),
            Self::Extents(error) => error.fmt(f),
            Self::Node(error) => error.fmt(f),
            Self::Accounts(error) => write!(f, "cannot read the accounts that are stored: {error}"),
            Self::Seed(error) => write!(f, "cannot seed the server: {error}"),
            Self::Identity(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}
