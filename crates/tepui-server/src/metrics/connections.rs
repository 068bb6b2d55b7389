//! Connections, read from the server's own counts when they are asked for.

use super::opts;
use crate::net::accept::Shared;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Opts};
use std::sync::{Arc, Weak};

/// The gauges of connections.
pub(super) struct Connections {
    shared: Weak<Shared>,
    open: IntGauge,
}

impl Connections {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let gauge = |opts: Opts| IntGauge::with_opts(opts).expect("names of metrics are valid");
        Self { shared: Arc::downgrade(shared), open: gauge(opts("tepui_connections", "Open connections.")) }
    }
}

impl Collector for Connections {
    fn desc(&self) -> Vec<&Desc> {
        self.open.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        if let Some(shared) = self.shared.upgrade() {
            self.open.set(shared.open_connections() as i64);
        }
        self.open.collect()
    }
}
