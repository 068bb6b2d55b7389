//! Requests that were refused because there were too many.

use super::{metric, opts};
use prometheus::{IntCounterVec, Registry};
use tepui_wire::address::Service;

/// Refusals, by service and reason.
pub(crate) struct ThrottledMetrics(IntCounterVec);

impl ThrottledMetrics {
    pub(super) fn register(registry: &Registry) -> Self {
        let opts = opts(
            "tepui_requests_throttled_total",
            "Requests that were refused because there were too many, by the limit that was met.",
        );
        Self(metric!(registry, IntCounterVec::new(opts, &["service", "reason"])))
    }

    pub(crate) fn count(&self, service: Service, reason: &str) {
        self.0.with_label_values(&[service.name(), reason]).inc();
    }
}
