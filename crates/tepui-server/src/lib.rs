//! Sockets and the order of checks: everything between a listener and what operations mean.
//!
//! [`Server::start`] opens the data and the listeners, [`Server::run`] serves until it is told to
//! stop. `accept`, `connection` and `body` carry requests and know nothing of their meaning;
//! `pipeline` is where a request is understood.

mod accept;
mod body;
pub mod config;
mod connection;
mod limits;
pub mod pipeline;
pub mod telemetry;

pub use accept::{Handler, Peer, Shared, serve as serve_handler};
pub use body::{Body, BodyError, ReplyBody};
pub use config::{Config, ConfigError};
pub use limits::Limits;

use pipeline::TableHandler;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::net::TcpListener;

/// A server that listens, and serves once it [runs](Self::run).
pub struct Server {
    table: Listener,
    shared: Arc<Shared>,
    handler: Arc<TableHandler>,
}

/// A socket that listens, and where.
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// Why a server could not start.
#[derive(Debug)]
pub enum StartError {
    Config(ConfigError),
    /// The address, and what the system said.
    Listen(String, io::Error),
    /// The data directory, and why it could not be opened.
    Data(PathBuf, String),
}

/// Starts a server and runs it until `shutdown`.
pub async fn serve(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), StartError> {
    Server::start(&config).await?.run(shutdown).await;
    Ok(())
}

impl Server {
    /// Opens the data and the listeners.
    pub async fn start(config: &Config) -> Result<Self, StartError> {
        config.check().map_err(StartError::Config)?;
        // First, as it fails most often: nothing is to be undone then.
        let table = Listener::open(&config.table_host, config.table_port).await?;
        let handler = Arc::new(TableHandler);
        Ok(Self { table, shared: Shared::new(config.limits.clone()), handler })
    }

    /// Where the Table service listens.
    pub fn table_address(&self) -> SocketAddr {
        self.table.address
    }

    /// Serves until `shutdown`, then ends what is under way.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let table = accept::serve(self.table.socket, self.handler, Arc::clone(&self.shared));
        let table = tokio::spawn(table);
        shutdown.await;
        let cut_off = self.shared.stop().await;
        if cut_off > 0 {
            tracing::warn!(connections = cut_off, "connections cut off: their requests took too long");
        }
        let _ = table.await;
    }
}

impl Listener {
    async fn open(host: &str, port: u16) -> Result<Self, StartError> {
        let failed = |error| StartError::Listen(format!("{host}:{port}"), error);
        let socket = TcpListener::bind((host, port)).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "the port is in use by another process: {address}")
            }
            Self::Listen(address, error) => write!(f, "cannot listen ({error}): {address}"),
            Self::Data(path, why) => write!(f, "cannot open the data ({why}): {}", path.display()),
        }
    }
}

impl std::error::Error for StartError {}
