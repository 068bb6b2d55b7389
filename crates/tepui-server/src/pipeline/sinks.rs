//! What hears of requests: the log, metrics, those who watch. Sinks are cheap and never block.

use super::exchange::FinishedExchange;
use crate::metrics::Metrics;
use crate::tail::Tail;
use crate::telemetry;
use std::sync::Arc;
use tepui_wire::address::Service;

/// The sinks of one service.
#[derive(Clone)]
pub(crate) struct Sinks {
    pub(crate) service: Service,
    pub(crate) metrics: Option<Arc<Metrics>>,
    pub(crate) tail: Option<Arc<Tail>>,
}

impl Sinks {
    /// Whether any sink wants to hear of requests.
    pub(super) fn are_active(&self) -> bool {
        self.metrics.is_some() || self.tail().is_some() || telemetry::logs_exchanges()
    }

    /// Those who watch, if there are any.
    fn tail(&self) -> Option<&Tail> {
        self.tail.as_deref().filter(|tail| tail.has_listeners())
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
        if let Some(tail) = self.tail() {
            tail.publish(self.service, exchange);
        }
        telemetry::log_exchange(exchange);
    }
}
