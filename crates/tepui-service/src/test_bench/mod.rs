//! The test bench: named snapshots of everything that is stored, and reset. For servers that tests run against.
//!
//! Both are seen as a whole or not at all: requests that begin meanwhile wait, and what was decided before is decided again.
//!
//! While there is a snapshot, no garbage is collected: what it refers to, rows and large bytes, stays as it is. So what is
//! deleted takes up space until the last snapshot is deleted.

mod reset;
mod rewind;

pub use reset::{ResetCounts, ResetScope, ServiceKind};

use crate::blob::Interrupted;
use crate::gc::GarbageCollector;
use crate::transact::storage_error;
use crate::{BlobService, QueueService, TableService};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::{Clock, ErrorCode, ServiceError};
use tepui_storage::rewindable::{RewindableEngine, SnapshotError, SnapshotInfo};
use tepui_storage::{Engine, Extents};
use tokio::sync::{RwLock, watch};

/// How long to wait for commits that are under way.
const EXCLUSIVE_WAIT: Duration = Duration::from_secs(10);

/// The longest name of a snapshot.
const MAX_NAME_BYTES: usize = 64;

/// The name of a snapshot: letters, digits, `.`, `_` and `-`, at most 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotName(String);

impl SnapshotName {
    pub fn parse(text: &str) -> Option<Self> {
        let spelled = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_valid = (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(spelled);
        is_valid.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why the test bench did not do what it was asked for. Nothing has changed, unless it is `Failed`.
#[derive(Debug)]
pub enum BenchError {
    NoSuchSnapshot,
    SnapshotExists,
    TooManySnapshots,
    Failed(ServiceError),
}

impl From<ServiceError> for BenchError {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error)
    }
}

/// The services of a server, and the engine that all of them use.
pub struct TestBench<E: Engine, X: Extents> {
    pub engine: Arc<RewindableEngine<E>>,
    pub tables: Arc<TableService<RewindableEngine<E>>>,
    pub queues: Arc<QueueService<RewindableEngine<E>>>,
    pub blobs: Arc<BlobService<RewindableEngine<E>, X>>,
    pub collector: Arc<GarbageCollector<RewindableEngine<E>>>,
    pub clock: Arc<dyn Clock>,
    pub garbage: Arc<GarbagePause>,
}

impl<E: Engine, X: Extents> TestBench<E, X> {
    /// The snapshots, the oldest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.engine.snapshots()
    }

    /// Takes a snapshot of everything that is stored.
    pub async fn take_snapshot(self: &Arc<Self>, name: &SnapshotName) -> Result<(), BenchError> {
        let (bench, name) = (Arc::clone(self), name.clone());
        complete(tokio::spawn(async move {
            let paused = bench.garbage.pause().await;
            let taken = bench.take(&name).await;
            if !bench.engine.has_snapshots() {
                paused.resume();
            }
            taken
        }))
        .await
    }

    async fn take(&self, name: &SnapshotName) -> Result<(), BenchError> {
        let alone = self.engine.exclusive(EXCLUSIVE_WAIT).await.map_err(storage_error)?;
        alone.take_snapshot(name.as_str()).await.map_err(|error| match error {
            SnapshotError::Exists => BenchError::SnapshotExists,
            SnapshotError::TooMany => BenchError::TooManySnapshots,
            SnapshotError::Storage(error) => BenchError::Failed(storage_error(error)),
        })
    }

    /// Goes back to a snapshot, which stays. Returns how many rows were changed.
    pub async fn restore_snapshot(self: &Arc<Self>, name: &SnapshotName) -> Result<usize, BenchError> {
        let (bench, name) = (Arc::clone(self), name.clone());
        complete(tokio::spawn(async move {
            let alone = bench.engine.exclusive(EXCLUSIVE_WAIT).await.map_err(storage_error)?;
            let rewound = alone.rewind(name.as_str(), rewind::decide).await;
            bench.forget_settings();
            drop(alone);
            let rows = rewound.map_err(ServiceError::from)?.ok_or(BenchError::NoSuchSnapshot)?;
            // Copies that were under way then and are over now.
            bench.blobs.fail_interrupted_copies(Interrupted::OfOtherProcesses).await?;
            Ok(rows)
        }))
        .await
    }

    /// Deletes a snapshot. After the last one, garbage is collected again.
    pub async fn delete_snapshot(self: &Arc<Self>, name: &SnapshotName) -> Result<(), BenchError> {
        let (bench, name) = (Arc::clone(self), name.clone());
        complete(tokio::spawn(async move {
            let paused = bench.garbage.pause().await;
            let deleted = bench.engine.delete_snapshot(name.as_str());
            if !bench.engine.has_snapshots() {
                paused.resume();
            }
            if deleted { Ok(()) } else { Err(BenchError::NoSuchSnapshot) }
        }))
        .await
    }

    /// Deletes everything in a scope, as if it had never been. Costs what there is of tables, queues and containers, not what
    /// is in them: that is removed in the background.
    pub async fn reset(self: &Arc<Self>, scope: &ResetScope) -> Result<ResetCounts, BenchError> {
        let (bench, scope) = (Arc::clone(self), scope.clone());
        complete(tokio::spawn(async move {
            let alone = bench.engine.exclusive(EXCLUSIVE_WAIT).await.map_err(storage_error)?;
            let counts = reset::reset(&alone, &scope, bench.clock.tick()).await;
            bench.forget_settings();
            drop(alone);
            bench.collector.wake();
            Ok(counts?)
        }))
        .await
    }

    /// To be called when tables, queues and containers were dropped by others than their services.
    pub fn after_drops(&self) {
        self.forget_settings();
        self.collector.wake();
    }

    /// Nothing else of what is stored is remembered for longer than a version says.
    fn forget_settings(&self) {
        self.tables.forget_settings();
        self.queues.forget_settings();
        self.blobs.forget_settings();
    }
}

/// Everything here runs in a task of its own, because it must not end half-way when the caller has gone.
async fn complete<T>(task: tokio::task::JoinHandle<Result<T, BenchError>>) -> Result<T, BenchError> {
    let panicked = |panic: tokio::task::JoinError| {
        BenchError::Failed(ServiceError::new(ErrorCode::InternalError).with_cause(panic.to_string()))
    };
    task.await.unwrap_or_else(|panic| Err(panicked(panic)))
}

/// Stops the collection of garbage while there are snapshots.
pub struct GarbagePause {
    is_paused: watch::Sender<bool>,
    /// Held shared by what collects garbage, alone while that is stopped.
    collecting: RwLock<()>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
}

impl Default for GarbagePause {
    fn default() -> Self {
        Self {
            is_paused: watch::Sender::new(false),
            collecting: RwLock::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }
}

/// A pause that was just begun, or goes on.
struct Paused<'a> {
    pause: &'a GarbagePause,
    _changing: tokio::sync::MutexGuard<'a, ()>,
}

impl GarbagePause {
    /// Runs `work`, which collects garbage and can be cancelled at any time, whenever there is no pause. Never returns.
    pub async fn run_between<F: Future<Output = ()>>(&self, work: impl Fn() -> F) {
        let mut is_paused = self.is_paused.subscribe();
        loop {
            // The sender is `self`: it is not closed.
            let _ = is_paused.wait_for(|is_paused| !is_paused).await;
            let collecting = self.collecting.read().await;
            tokio::select! {
                biased;
                _ = is_paused.wait_for(|is_paused| *is_paused) => {}
                () = work() => {}
            }
            drop(collecting);
        }
    }

    /// Stops what collects garbage, and returns when it has stopped.
    async fn pause(&self) -> Paused<'_> {
        let changing = self.changing.lock().await;
        self.is_paused.send_replace(true);
        drop(self.collecting.write().await);
        Paused { pause: self, _changing: changing }
    }
}

impl Paused<'_> {
    fn resume(self) {
        self.pause.is_paused.send_replace(false);
    }
}
