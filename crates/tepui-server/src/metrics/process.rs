//! The process and its build.

use super::{metric, opts};
use crate::config::Build;
use prometheus::{IntGaugeVec, Registry};

pub(super) fn register(registry: &Registry, build: &Build) {
    let info = metric!(
        registry,
        IntGaugeVec::new(
            opts("tepui_build_info", "The version that runs; always 1."),
            &["version", "revision"]
        )
    );
    info.with_label_values(&[build.version, build.revision]).set(1);
    #[cfg(target_os = "linux")]
    super::register(registry, prometheus::process_collector::ProcessCollector::for_self());
}
