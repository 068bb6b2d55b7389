//! Metrics for Prometheus: one registry for each server, in the text format 0.0.4.
//!
//! | | |
//! | --- | --- |
//! | `requests.rs` | what clients asked for, and what they got |
//! | `connections.rs` | connections, the memory of bodies and answers |
//! | `storage.rs` | commits, tables, extents, the disk |
//! | `queues.rs` | messages |
//! | `tokens.rs` | bearer tokens |
//! | `process.rs` | the process, its build, its log, and whether it is ready |
//! | `collected.rs` | families whose numbers are kept elsewhere |
//!
//! Series are looked up once and then reached by an index, so that a request costs some atomic additions: no lock, no
//! allocation. Only an answer with an error code looks its series up. Labels never name a table, a partition, a container or a client, of which there may be any number.

mod collected;
mod connections;
mod process;
mod queues;
mod requests;
mod storage;
mod tokens;

pub(crate) use requests::RequestMetrics;

use crate::analytics::Analytics;
use crate::config::Build;
use crate::data::Data;
use crate::net::accept::{ListenerCounts, Shared};
use crate::pipeline::ReplyMemory;
use connections::Watched;
use prometheus::core::Collector;
use prometheus::{Encoder, HistogramOpts, Opts, Registry, TextEncoder};
use std::sync::Arc;
use tepui_identity::Directory;
use tepui_service::{BlobStats, QueueStats};
use tepui_storage::stats::{COUNT_BOUNDS, LATENCY_BOUNDS};
use tepui_wire::address::Service;

/// The metrics of one server.
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestMetrics,
    watched: Watched,
}

impl Metrics {
    pub fn new(build: &Build, shared: &Arc<Shared>, analytics: Arc<Analytics>) -> Self {
        let registry = Registry::new();
        let watched = Watched::default();
        connections::register(&registry, shared, &watched);
        let requests = RequestMetrics::register(&registry, watched.clone());
        process::register(&registry, build, analytics);
        Self { registry, requests, watched }
    }

    /// From here on there are metrics of storage.
    pub(crate) fn watch_data(&self, data: &Data, shared: &Arc<Shared>, blobs: &Arc<BlobStats>) {
        storage::register(&self.registry, data.clone(), Arc::clone(blobs));
        process::register_readiness(&self.registry, data.clone(), shared);
    }

    /// From here on there are metrics of messages.
    pub(crate) fn watch_queues(&self, stats: &Arc<QueueStats>) {
        queues::register(&self.registry, Arc::clone(stats));
    }

    /// From here on there are metrics of bearer tokens.
    pub(crate) fn watch_tokens(&self, tokens: &Arc<Directory>) {
        tokens::register(&self.registry, Arc::clone(tokens));
    }

    /// What the listener of a port is to count.
    pub(crate) fn watch_listener(&self, port: &'static str) -> Arc<ListenerCounts> {
        self.watched.watch_listener(port)
    }

    /// From here on there are metrics of the memory for answers of a service.
    pub(crate) fn watch_replies(&self, service: Service, replies: &Arc<ReplyMemory>) {
        self.watched.watch_replies(service, replies);
    }

    /// The media type of [`Metrics::render`].
    pub const CONTENT_TYPE: &'static str = prometheus::TEXT_FORMAT;

    /// Every series, as text.
    pub fn render(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(64 * 1024);
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        text
    }
}

fn latency(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::new(name, help).buckets(LATENCY_BOUNDS.map(|bound| bound as f64 / 1e9).to_vec())
}

fn count(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::new(name, help).buckets(COUNT_BOUNDS.map(|bound| bound as f64).to_vec())
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help)
}

/// Registers what was just made under a name of its own.
fn register<C: Collector + 'static>(registry: &Registry, collector: C) {
    if let Err(error) = registry.register(Box::new(collector)) {
        // A name that is used twice: a mistake of this code, which a test finds.
        tracing::error!(%error, "a metric cannot be registered");
    }
}

/// A metric of valid name and labels, registered.
macro_rules! metric {
    ($registry:expr, $metric:expr) => {{
        let metric = $metric.expect("names and labels of metrics are valid");
        $crate::metrics::register($registry, metric.clone());
        metric
    }};
}
use metric;
