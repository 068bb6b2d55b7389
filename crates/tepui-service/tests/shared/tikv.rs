//! PD and three stores that speak TiKV's protocol, which the tests start, and a prefix of keys for each of them. Compiled by
//! tepui-tikv only, which runs these suites as tests of its own.

#[path = "../../../tepui-tikv/tests/shared/mod.rs"]
mod tikv;

use std::sync::atomic::{AtomicUsize, Ordering};
use tepui_storage::Limits;
use tepui_tikv::{TikvEngine, TikvOptions};
pub(crate) use tikv::is_skipped;

pub(crate) const NAME: &str = "tikv";
pub(crate) const LIMITS: Limits = TikvEngine::LIMITS;

/// An empty store.
pub(crate) async fn open() -> TikvEngine {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let prefix = format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    // It takes seconds, and others may be waiting on this thread.
    let endpoint = tokio::task::spawn_blocking(|| tikv::cluster::cluster().endpoint());
    let endpoint = endpoint.await.expect("a cluster can be started");
    tikv::open(TikvOptions {
        shared_ranges: tepui_service::shared_guard_ranges(),
        // Of the whole cluster, and nothing is as old as that.
        moves_safepoint: false,
        ..tikv::options(&endpoint, &prefix)
    })
    .await
}
