//! The client of TiKV: deadlines around every call, and a new client when one keeps failing.

use crate::TikvOptions;
use crate::orphans::Orphans;
use crate::outcome::{early_lock, lost_transaction, unavailable};
use parking_lot::{Mutex, RwLock};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_storage::StorageError;
use tepui_storage::stats::RemoteStats;
use tikv_client::transaction::HeartbeatOption;
use tikv_client::{Backoff, CheckLevel, Config, Error, RetryOptions, TransactionClient, TransactionOptions};

/// How long one message to a store or to PD may take. A store that is paused is given up after it.
const RPC_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest answer: many rows of a scan, or one large value.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// A client that has gone on failing for this long is replaced, and failures further apart than `CALM` are not one.
const REPLACED_AFTER: Duration = Duration::from_secs(5);
const CALM: Duration = Duration::from_secs(3);

/// How long a read waits when it has met a lock whose transaction is not found.
const ORPHAN_PAUSE: Duration = Duration::from_millis(20);

/// How often the client tries again, after 2 ms, 4 ms and so on up to half a second. Where a region has no leader: for some five
/// seconds, which is longer than an election takes.
const REGION_RETRIES: Backoff = Backoff::no_jitter_backoff(2, 500, 17);
/// A read that meets a lock: longer than the locks of a process that was killed are respected, which is 3 s.
const READ_LOCK_RETRIES: Backoff = Backoff::no_jitter_backoff(2, 500, 17);
/// A commit that meets one: for a quarter of a second. Then it is a conflict.
const COMMIT_LOCK_RETRIES: Backoff = Backoff::no_jitter_backoff(2, 500, 7);
/// A commit that takes its locks first: for an eighth. Then it takes fewer of them at once, and it should not be given up before,
/// because the client does not clean up then.
const LOCKING_RETRIES: Backoff = Backoff::no_jitter_backoff(2, 500, 6);

/// The options for reads.
pub(crate) fn read_options() -> TransactionOptions {
    options(TransactionOptions::new_optimistic(), READ_LOCK_RETRIES)
}

/// The options for commits.
pub(crate) fn commit_options() -> TransactionOptions {
    options(TransactionOptions::new_optimistic(), COMMIT_LOCK_RETRIES)
}

/// The options for commits that take their locks first.
pub(crate) fn locking_options() -> TransactionOptions {
    options(TransactionOptions::new_pessimistic(), LOCKING_RETRIES)
}

/// Heartbeats would keep the locks of a commit that hangs; without them others roll it back after some seconds. A transaction
/// that only reads is dropped, which is no mistake.
fn options(kind: TransactionOptions, locks: Backoff) -> TransactionOptions {
    kind.retry_options(RetryOptions::new(REGION_RETRIES, locks))
        .heartbeat_option(HeartbeatOption::NoHeartbeat)
        .drop_check(CheckLevel::None)
}

pub(crate) struct Connection {
    endpoints: Vec<String>,
    timeout: Duration,
    client: RwLock<TransactionClient>,
    failures: Mutex<Failures>,
    orphans: Orphans,
    under_way: AtomicU64,
    stats: Arc<RemoteStats>,
}

/// Why a call has failed.
enum Failure {
    Client(Error),
    NoAnswer,
}

/// A time during which calls have failed.
#[derive(Default)]
struct Failures {
    since: Option<Instant>,
    last: Option<Instant>,
    is_replacing: bool,
}

impl Connection {
    /// `keys` is the range of all keys of the engine.
    pub(crate) async fn open(options: &TikvOptions, keys: Range<Vec<u8>>) -> Result<Self, StorageError> {
        let stats = Arc::new(RemoteStats::default());
        let client = connect(&options.endpoints, options.timeout).await?;
        stats.connects.add(1);
        Ok(Self {
            endpoints: options.endpoints.clone(),
            timeout: options.timeout,
            client: RwLock::new(client),
            failures: Mutex::default(),
            orphans: Orphans::new(keys),
            under_way: AtomicU64::new(0),
            stats,
        })
    }

    pub(crate) fn stats(&self) -> &Arc<RemoteStats> {
        &self.stats
    }

    pub(crate) fn client(&self) -> TransactionClient {
        self.client.read().clone()
    }

    pub(crate) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes a call that reads.
    pub(crate) async fn read<T>(
        self: &Arc<Self>,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StorageError> {
        let began = Instant::now();
        let answer = self.call(self.timeout, call).await;
        self.stats.read.observe_time(began.elapsed());
        answer
    }

    /// Makes a call that reads, and again while it meets locks whose transaction is not found, or that last longer than it waits:
    /// it is just being committed, or nobody ends it any more.
    pub(crate) async fn read_rows<T, F>(self: &Arc<Self>, call: impl Fn() -> F) -> Result<T, StorageError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let began = Instant::now();
        let answer = loop {
            let timeout = self.timeout.saturating_sub(began.elapsed());
            match self.attempt(timeout, call()).await {
                Err(Failure::Client(error))
                    if lost_transaction(&error).or_else(|| early_lock(&error)).is_some() =>
                {
                    self.orphans.meet(self, &error);
                    tokio::time::sleep(ORPHAN_PAUSE).await;
                }
                answer => break answer,
            }
        };
        self.stats.read.observe_time(began.elapsed());
        answer.map_err(|failure| self.give_up(failure, began))
    }

    /// Makes a call that takes one round trip.
    pub(crate) async fn call<T>(
        self: &Arc<Self>,
        timeout: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StorageError> {
        let began = Instant::now();
        self.attempt(timeout, call).await.map_err(|failure| self.give_up(failure, began))
    }

    async fn attempt<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Failure> {
        let _under_way = UnderWay::enter(self);
        self.stats.round_trips.add(1);
        match tokio::time::timeout(timeout, call).await {
            Ok(answer) => answer.map_err(Failure::Client),
            Err(_) => Err(Failure::NoAnswer),
        }
    }

    fn give_up(self: &Arc<Self>, failure: Failure, began: Instant) -> StorageError {
        self.note_failure(began);
        match failure {
            Failure::Client(error) => unavailable(&error),
            Failure::NoAnswer => no_answer(began.elapsed()),
        }
    }

    /// Looks at why locks could not be taken.
    pub(crate) fn note_conflict(self: &Arc<Self>, error: &Error) {
        self.orphans.meet(self, error);
    }

    /// Notes that a call has failed that began at that time, and replaces the client if it has been going on failing.
    pub(crate) fn note_failure(self: &Arc<Self>, began: Instant) {
        self.stats.unavailable.add(1);
        let now = Instant::now();
        let mut failures = self.failures.lock();
        // Calls that wait in vain are failures for as long as they wait.
        if failures.last.is_none_or(|last| began.saturating_duration_since(last) > CALM) {
            failures.since = Some(began);
        }
        failures.last = Some(now);
        let goes_on = failures.since.is_some_and(|since| now.duration_since(since) >= REPLACED_AFTER);
        if goes_on && !failures.is_replacing {
            failures.is_replacing = true;
            drop(failures);
            tokio::spawn(Arc::clone(self).replace());
        }
    }

    async fn replace(self: Arc<Self>) {
        match connect(&self.endpoints, self.timeout).await {
            Ok(client) => {
                tracing::info!("a new client of TiKV, because the last one kept failing");
                *self.client.write() = client;
                self.stats.connects.add(1);
            }
            Err(error) => tracing::warn!(%error, "cannot make a new client of TiKV"),
        }
        *self.failures.lock() = Failures::default();
    }
}

async fn connect(endpoints: &[String], timeout: Duration) -> Result<TransactionClient, StorageError> {
    let config =
        Config::default().with_timeout(RPC_TIMEOUT).with_grpc_max_decoding_message_size(MAX_ANSWER_BYTES);
    let connecting = TransactionClient::new_with_config(endpoints.to_vec(), config);
    match tokio::time::timeout(timeout, connecting).await {
        Ok(connected) => connected.map_err(|error| unavailable(&error)),
        Err(_) => Err(no_answer(timeout)),
    }
}

pub(crate) fn no_answer(timeout: Duration) -> StorageError {
    StorageError::unavailable(format!("TiKV: no answer within {} ms", timeout.as_millis()))
}

/// Counts calls under way.
pub(crate) struct UnderWay<'a>(&'a Connection);

impl<'a> UnderWay<'a> {
    pub(crate) fn enter(connection: &'a Connection) -> Self {
        let before = connection.under_way.fetch_add(1, Ordering::Relaxed);
        connection.stats.in_use.set(before + 1);
        Self(connection)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let before = self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.stats.in_use.set(before.saturating_sub(1));
    }
}
