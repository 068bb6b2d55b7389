//! PD and three stores that speak TiKV's protocol, which the tests start, and a prefix of keys for each of them. Compiled by
//! tepui-tikv only, which runs these suites as tests of its own.

#[path = "../../../tepui-tikv/tests/shared/mod.rs"]
mod tikv;

use std::sync::atomic::{AtomicUsize, Ordering};
use tepui_storage::Limits;
use tepui_tikv::{TikvEngine, TikvOptions};
pub(crate) use tikv::is_skipped;

pub(crate) const NAME: &str = "tikv";
/// Tests that write thousands of rows one after another, to see that the service lets others run meanwhile or cuts pages: a
/// commit takes tens of milliseconds here.
pub(crate) const TOO_LONG: [&str; 9] = [
    "others_run_while_",
    "while_others_run",
    "very_many_",
    "a_hold_on_one_of_many_keeps_all",
    "a_page_ends_when_enough_was_read",
    "pages_of_containers_with_long_metadata",
    "model::on_disk",
    "crowd::on_disk",
    "on_disk::",
];
/// They wait, most of the time.
pub(crate) const ARGUMENTS: [&str; 2] = ["--test-threads", "12"];
/// How much less crowds do.
pub(crate) const SLOWER: usize = 5;
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
