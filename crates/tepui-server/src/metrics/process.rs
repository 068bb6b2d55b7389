//! The process, its build, its log, and whether it is ready.

use super::{collected, metric, opts};
use crate::analytics::Analytics;
use crate::config::Build;
use crate::data::Data;
use crate::log;
use crate::net::accept::Shared;
use prometheus::{IntGauge, IntGaugeVec, Registry};
use std::sync::Arc;
use tepui_model::Clock;
use tepui_model::time::SystemClock;

pub(super) fn register(registry: &Registry, build: &Build, analytics: Arc<Analytics>) {
    let info = metric!(
        registry,
        IntGaugeVec::new(
            opts("tepui_build_info", "The version that runs; always 1."),
            &["version", "revision"]
        )
    );
    info.with_label_values(&[build.version, build.revision]).set(1);
    let started = metric!(
        registry,
        IntGauge::with_opts(opts("tepui_start_time_seconds", "When the server was started, since 1970."))
    );
    started.set(i64::try_from(SystemClock::new().now().unix_seconds()).unwrap_or(i64::MAX));
    collected::register(registry, move |families| {
        families.counter(
            "tepui_log_lines_dropped_total",
            "Lines that could not be written fast enough, of the log (server) and of Storage Analytics (analytics).",
            &[
                (&[("log", "server")], log::dropped_lines() as f64),
                (&[("log", "analytics")], analytics.dropped_log_lines() as f64),
            ],
        );
        families.counter(
            "tepui_analytics_requests_dropped_total",
            "Requests that are in no row of the metrics tables of Storage Analytics.",
            &[(&[], analytics.dropped_metrics_requests() as f64)],
        );
    });
    #[cfg(target_os = "linux")]
    super::register(registry, prometheus::process_collector::ProcessCollector::for_self());
}

/// Ready is who serves, and whose storage takes writes.
pub(super) fn register_readiness(registry: &Registry, data: Data, shared: &Arc<Shared>) {
    let shared = Arc::downgrade(shared);
    collected::register(registry, move |families| {
        let is_ready = data.takes_writes() && shared.upgrade().is_some_and(|shared| shared.is_ready());
        families.gauge(
            "tepui_ready",
            "Whether requests are served and writes are taken: 1, or 0.",
            &[(&[], f64::from(u8::from(is_ready)))],
        );
    });
}
