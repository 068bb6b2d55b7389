//! Nodes on a database over a network: one test at a time, since some measure time.

use super::*;
use crate::store::{TestedEngine, database};
use tokio::sync::Mutex;

/// Dropping takes several round trips, and what is left is read by way of the network.
const DROPS: usize = 15;

static ALONE: Mutex<()> = Mutex::const_new(());

async fn stays_dropped(kind: Kind) {
    if database::is_skipped() {
        return;
    }
    let _alone = ALONE.lock().await;
    DropTest::new(TestedEngine::in_database()).run(kind, DROPS, async || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_table_stays_dropped_on_a_database() {
    stays_dropped(Kind::Table).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_queue_stays_dropped_on_a_database() {
    stays_dropped(Kind::Queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_container_stays_dropped_on_a_database() {
    stays_dropped(Kind::Container).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_table_is_as_good_as_many_on_a_database() {
    if database::is_skipped() {
        return;
    }
    let _alone = ALONE.lock().await;
    writers::one_table_is_as_good_as_many(TestedEngine::in_database(), database::NAME, 20).await;
}
