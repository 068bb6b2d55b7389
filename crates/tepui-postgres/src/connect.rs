//! One connection, to the host that accepts writes.

use crate::options::{Endpoint, Endpoints};
use crate::outcome::connect_failure;
use crate::statements::{SETTINGS, Statements};
use crate::tls::Tls;
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_storage::StorageError;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client};

/// How long a host is given before another one is asked, too.
const HEAD_START: Duration = Duration::from_millis(300);
/// A transaction that is older is ended by the server. Nobody holds one for longer than a request takes.
const MAX_IDLE_IN_TRANSACTION: Duration = Duration::from_secs(120);

/// Makes connections.
pub(crate) struct Connector {
    endpoints: Endpoints,
    tls: Tls,
    /// How long a statement waits for a lock.
    lock_timeout: Duration,
    /// The host that was connected to last.
    last: AtomicUsize,
}

/// A connection to a server that accepts writes.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// Which connections were made together with it, in the sense of [`Pool`](crate::pool::Pool).
    pub(crate) generation: u64,
    /// The number of warnings that the server has sent.
    warnings: Arc<AtomicU64>,
    driver: JoinHandle<()>,
}

impl Connection {
    pub(crate) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Acquire)
    }

    /// Closes it without a word: the server may never answer.
    pub(crate) fn abort(&self) {
        self.driver.abort();
    }
}

impl Connector {
    pub(crate) fn new(endpoints: Endpoints, lock_timeout: Duration) -> Result<Self, StorageError> {
        let tls = Tls::new(&endpoints.verification)?;
        Ok(Self { endpoints, tls, lock_timeout, last: AtomicUsize::new(0) })
    }

    /// Connects to the first host that answers and accepts writes. The one that did so last is asked first.
    pub(crate) async fn connect(&self) -> Result<Connection, StorageError> {
        let count = self.endpoints.hosts.len();
        let first = self.last.load(Ordering::Relaxed);
        let mut waiting = (0..count).map(|step| (first + step) % count);
        let mut attempts = FuturesUnordered::new();
        let mut failed = None;
        loop {
            let next = waiting.next().and_then(|index| Some((index, self.endpoints.hosts.get(index)?)));
            let is_last = next.is_none();
            if let Some((index, host)) = next {
                attempts.push(async move { (index, self.connect_to(host).await) });
            }
            let done = match is_last {
                true => attempts.next().await,
                false => match timeout(HEAD_START, attempts.next()).await {
                    Ok(done) => done,
                    Err(_) => continue,
                },
            };
            match done {
                Some((index, Ok(connection))) => {
                    self.last.store(index, Ordering::Relaxed);
                    return Ok(connection);
                }
                // What is wrong for good says more than that a host is down.
                Some((_, Err(error))) if keeps(failed.as_ref(), &error) => {}
                Some((_, Err(error))) => failed = Some(error),
                None => {
                    return Err(failed.unwrap_or_else(|| StorageError::unavailable("no host is known")));
                }
            }
        }
    }

    async fn connect_to(&self, host: &Endpoint) -> Result<Connection, StorageError> {
        let Endpoint { config, name } = host;
        match timeout(self.endpoints.connect_timeout, self.open(host)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(connect_failure(name, error)),
            Err(_) => {
                let database = config.get_dbname().unwrap_or_default();
                let message = format!("cannot connect to {name}: no answer in time (database {database})");
                Err(StorageError::unavailable(message))
            }
        }
    }

    async fn open(&self, host: &Endpoint) -> Result<Connection, tokio_postgres::Error> {
        let (client, mut connection) = host.config.connect(self.tls.clone()).await?;
        let warnings = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&warnings);
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message
                    && notice.parsed_severity().is_none_or(|severity| severity == Severity::Warning)
                {
                    counted.fetch_add(1, Ordering::AcqRel);
                }
            }
        });
        let connection = Connection { client, generation: 0, warnings, driver };
        let timeouts = [
            format!("SET lock_timeout = {}", self.lock_timeout.as_millis()),
            format!("SET idle_in_transaction_session_timeout = {}", MAX_IDLE_IN_TRANSACTION.as_millis()),
        ];
        let settings = SETTINGS.into_iter().chain(timeouts.iter().map(|setting| &setting[..]));
        // Sent together. That the server knows none of them is no reason to fail; that it is gone is seen by the next call.
        let refused = join_all(settings.map(|setting| connection.client.batch_execute(setting))).await;
        let is_lost = |error: &tokio_postgres::Error| error.as_db_error().is_none();
        match refused.into_iter().filter_map(Result::err).find(is_lost) {
            Some(lost) => Err(lost),
            None => Ok(connection),
        }
    }
}

/// Whether the error that is known says as much as another one.
fn keeps(known: Option<&StorageError>, other: &StorageError) -> bool {
    use tepui_storage::StorageErrorKind::Unavailable;
    known.is_some_and(|known| known.kind() != Unavailable && other.kind() == Unavailable)
}

impl Connection {
    /// Prepares what is run again and again.
    pub(crate) async fn prepare(&self) -> Result<Statements, tokio_postgres::Error> {
        Statements::prepare(&self.client).await
    }
}
