//! What hears of requests: the log, metrics, analytics. Sinks are cheap and never block.

use super::exchange::FinishedExchange;
use crate::analytics::Analytics;
use crate::metrics::Metrics;
use crate::telemetry;
use std::sync::Arc;
use tepui_wire::address::Service;

/// The sinks of one service.
#[derive(Clone)]
pub(crate) struct Sinks {
    pub(crate) service: Service,
    pub(crate) metrics: Option<Arc<Metrics>>,
    pub(crate) analytics: Arc<Analytics>,
}

impl Sinks {
    /// Whether any sink wants to hear of all requests. Analytics wants those whose account has asked for it.
    pub(super) fn are_active(&self) -> bool {
        self.metrics.is_some() || telemetry::logs_exchanges()
    }

    /// A request has come in. [`Sinks::end`] follows, whatever happens.
    pub(super) fn begin(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.requests.begin(self.service);
        }
    }

    /// A request has ended.
    pub(super) fn end(&self, exchange: &FinishedExchange) {
        if let Some(metrics) = &self.metrics {
            metrics.requests.end(self.service, exchange);
        }
        if exchange.settings.is_some() {
            self.analytics.record(exchange);
        }
        telemetry::log_exchange(exchange);
    }
}
