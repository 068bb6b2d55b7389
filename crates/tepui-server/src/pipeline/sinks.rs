//! What hears of requests: the log, metrics, analytics, those who watch. Sinks are cheap and never block.

use super::exchange::FinishedExchange;
use crate::analytics::Analytics;
use crate::log;
use crate::metrics::Metrics;
use crate::tail::Tail;
use std::sync::Arc;
use tepui_wire::address::Service;

/// The sinks of one service.
#[derive(Clone)]
pub(crate) struct Sinks {
    pub(crate) service: Service,
    pub(crate) metrics: Option<Arc<Metrics>>,
    pub(crate) tail: Option<Arc<Tail>>,
    pub(crate) analytics: Arc<Analytics>,
}

impl Sinks {
    /// Whether any sink wants to hear of all requests. Analytics wants those whose account has asked for it.
    pub(super) fn are_active(&self) -> bool {
        self.metrics.is_some() || self.tail().is_some() || log::logs_exchanges()
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
        if exchange.settings.is_some() {
            self.analytics.record(exchange);
        }
        log::log_exchange(exchange);
    }
}
