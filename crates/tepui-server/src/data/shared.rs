//! Storage over a network, which this process shares with other nodes.

use crate::ids;
use crate::node::Node;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::time::SystemClock;
use tepui_service::{NodeEngine, NodeError, NodeLease};
use tepui_storage::dynamic::{BoxFuture, DynEngine, DynExtents};
use tepui_storage::stats::RemoteStats;

/// How long the end may take: to give back the number of the node, and to close the storage.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Storage that was opened, and that other nodes may use at the same time.
pub struct SharedStorage {
    pub engine: DynEngine,
    pub extents: DynExtents,
    /// What the engine counts.
    pub stats: Arc<RemoteStats>,
    /// Runs when the server has stopped.
    pub close: BoxFuture<'static, ()>,
}

/// Storage that this node has joined.
pub(crate) struct SharedData {
    pub(crate) engine: Arc<NodeEngine<DynEngine>>,
    pub(crate) extents: DynExtents,
    pub(crate) stats: Arc<RemoteStats>,
    lease: NodeLease<DynEngine>,
    close: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl SharedData {
    pub(crate) async fn join(storage: SharedStorage) -> Result<Self, NodeError> {
        let SharedStorage { engine, extents, stats, close } = storage;
        let engine = Arc::new(engine);
        let machine = Arc::new(SystemClock::new());
        let lease = NodeLease::take(Arc::clone(&engine), machine, ids::random()).await?;
        tracing::info!(
            number = lease.clock().number().get(),
            "this node has a number among those of the storage"
        );
        Ok(Self {
            engine: Arc::new(NodeEngine::new(engine, Arc::clone(lease.clock()))),
            extents,
            stats,
            lease,
            close: Mutex::new(Some(close)),
        })
    }

    pub(crate) fn node(&self) -> Node {
        let clock = Arc::clone(self.lease.clock());
        Node::of_several(clock)
    }

    /// Keeps what it has joined, for ever.
    pub(crate) async fn stay(&self) {
        tokio::join!(self.lease.keep(), self.engine.watch());
    }

    /// Gives back what others may use, within a bounded time.
    pub(crate) async fn leave(&self) {
        let leave = async {
            if let Err(error) = self.lease.give_back().await {
                tracing::warn!(%error, "cannot give the number of this node back: it is free after its lease");
            }
        };
        let close = self.close.lock().take();
        let close = async {
            if let Some(close) = close {
                close.await;
            }
        };
        for step in [Box::pin(leave) as BoxFuture<'_, ()>, Box::pin(close)] {
            if tokio::time::timeout(LEAVE_TIMEOUT, step).await.is_err() {
                tracing::warn!("storage does not answer: it is left without a word");
            }
        }
    }
}
