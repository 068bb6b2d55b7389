//! Metrics for Prometheus: one registry for each server, in the text format 0.0.4.
//!
//! | | |
//! | --- | --- |
//! | `requests.rs` | what clients asked for, and what they got |
//! | `connections.rs` | connections and the memory of bodies |
//! | `throttled.rs` | requests that were refused because there were too many |
//! | `process.rs` | the process and its build |
//!
//! Series are looked up once and then reached by an index, so that a request costs some atomic additions: no lock, no
//! allocation. Only an answer with an error code looks its series up. Labels never name a table, a partition, a container or a client, of which there may be any number.

mod connections;
mod process;
mod requests;
mod throttled;

pub(crate) use requests::RequestMetrics;

use crate::config::Build;
use crate::net::accept::Shared;
use prometheus::core::Collector;
use prometheus::{Encoder, HistogramOpts, Opts, Registry, TextEncoder};
use std::sync::Arc;

/// The metrics of one server.
pub struct Metrics {
    registry: Registry,
    pub(crate) requests: RequestMetrics,
    pub(crate) throttled: throttled::ThrottledMetrics,
}

impl Metrics {
    pub fn new(build: &Build, shared: &Arc<Shared>) -> Self {
        let registry = Registry::new();
        process::register(&registry, build);
        register(&registry, connections::Connections::new(shared));
        let requests = RequestMetrics::register(&registry);
        let throttled = throttled::ThrottledMetrics::register(&registry);
        Self { registry, requests, throttled }
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

/// Latencies, in seconds: 0.25 ms to 16 s, each bucket twice the one before.
const LATENCY_BUCKETS: (f64, f64, usize) = (0.000_25, 2.0, 17);
/// Counts: 1, 2, 5, 10 and so on to a million.
const COUNT_BUCKETS: [f64; 19] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];

fn latency(name: &str, help: &str) -> HistogramOpts {
    let (first, factor, count) = LATENCY_BUCKETS;
    let buckets = (0..count).map(|n| first * factor.powi(n as i32)).collect();
    HistogramOpts::new(name, help).buckets(buckets)
}

fn count(name: &str, help: &str) -> HistogramOpts {
    HistogramOpts::new(name, help).buckets(COUNT_BUCKETS.to_vec())
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
