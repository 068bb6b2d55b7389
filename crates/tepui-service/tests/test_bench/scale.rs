//! How long it takes with much stored. `TEPUI_TEST_LARGE=1`: a million entities and 100,000 blobs.

use super::world::World;
use super::{in_memory, name, on_disk};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::grant::KeyBounds;
use tepui_model::table::{Action, Change, ChangeSet, EntityKey, PropertiesBuilder, ValueRef};
use tepui_service::test_bench::ResetScope;
use tepui_storage::{Engine, Extents};

fn is_large() -> bool {
    std::env::var("TEPUI_TEST_LARGE").is_ok_and(|large| large == "1")
}

/// Fills a server with so many entities and blobs.
async fn fill<E: Engine, X: Extents>(world: &Arc<World<E, X>>, entities: usize, blobs: usize) {
    world.create_table("one", "Large").await.unwrap();
    world.create_container("one", "large").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let world = Arc::clone(world);
        tasks.spawn(async move {
            for batch in (0..entities / 100).filter(|batch| batch % 8 == task) {
                let changes = (0..100).map(|row| {
                    let mut properties = PropertiesBuilder::new();
                    properties.push("Value", ValueRef::Int32(row)).unwrap();
                    let key = EntityKey::new("p".to_owned(), format!("{batch:06}-{row:02}"));
                    let action = Action::InsertOrReplace(properties.finish());
                    ("Large".to_owned(), Change { key, action })
                });
                let set = ChangeSet::new(changes.collect()).unwrap();
                world.bench.tables.transact("one", &set, &KeyBounds::default()).await.unwrap();
            }
            for blob in (0..blobs).filter(|blob| blob % 8 == task) {
                // One in a hundred is large.
                let bytes = if blob % 100 == 0 { 20_000 } else { 200 };
                let (name, content) = (format!("{blob:06}"), Bytes::from(vec![7; bytes]));
                world.put_blob("one", "large", &name, content).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

/// Takes a snapshot, writes, restores, resets and restores again. Each must take less than `limit`.
async fn measure<E: Engine, X: Extents>(world: World<E, X>, what: &str, entities: usize, blobs: usize) {
    let limit = Duration::from_secs(1);
    let world = Arc::new(world);
    fill(&world, entities, blobs).await;
    let bench = &world.bench;
    let timed = async |step: &str, work: Pin<Box<dyn Future<Output = ()> + '_>>| {
        let began = Instant::now();
        work.await;
        let took = began.elapsed();
        println!("{what}, {entities} entities, {blobs} blobs: {step} {took:?}");
        assert!(took < limit, "{what}: {step} took {took:?}");
    };
    let base = name("base");
    let restore = || Box::pin(async { _ = bench.restore_snapshot(&base).await.unwrap() });
    let reset = || Box::pin(async { _ = bench.reset(&ResetScope::default()).await.unwrap() });
    timed("snapshot", Box::pin(async { bench.take_snapshot(&base).await.unwrap() })).await;
    for row in 0..1000 {
        world.change("one", "Large", &format!("new {row}"), Some(row)).await.unwrap();
        let _ = world.change("one", "Large", &format!("{row:06}-00"), None).await;
        world.put_blob("one", "large", &format!("{row:06}"), Bytes::from(vec![8; 300])).await.unwrap();
    }
    world.put_blob("one", "large", "new", Bytes::from(vec![8; 1 << 20])).await.unwrap();
    timed("restore after 3,001 changes", restore()).await;
    assert_eq!(world.read_blob("one", "large", "000001").await, Ok(Bytes::from(vec![7; 200])));
    assert!(world.read_blob("one", "large", "new").await.is_err());
    timed("reset", reset()).await;
    assert!(world.change("one", "Large", "x", Some(1)).await.is_err());
    timed("restore after the reset", restore()).await;
    if !is_large() {
        assert_eq!(world.entities("one", "Large").await.len(), entities);
        assert_eq!(world.blob_names("one", "large").await.len(), blobs);
    }
    timed("reset again", reset()).await;
    timed("delete the snapshot", Box::pin(async { bench.delete_snapshot(&base).await.unwrap() })).await;
}

fn sizes() -> (usize, usize) {
    if is_large() { (1_000_000, 100_000) } else { (20_000, 1_000) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_and_resets_cost_what_has_changed() {
    let (entities, blobs) = sizes();
    measure(in_memory(), "in memory", entities, blobs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_and_resets_cost_what_has_changed_on_disk() {
    let (entities, blobs) = sizes();
    let directory = tempfile::tempdir().unwrap();
    measure(on_disk(directory.path()), "on disk", entities, blobs).await;
}

/// The cost of a reset follows the number of tables, queues and containers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tables_are_reset_at_once() {
    let world = in_memory();
    let tables = if is_large() { 10_000 } else { 1_000 };
    for table in 0..tables {
        world.create_table("one", &format!("Table{table}")).await.unwrap();
        world.change("one", &format!("Table{table}"), "a", Some(1)).await.unwrap();
    }
    world.create_table("two", "Other").await.unwrap();
    let began = Instant::now();
    let counts =
        world.bench.reset(&ResetScope { account: Some("one".to_owned()), service: None }).await.unwrap();
    let took = began.elapsed();
    println!("reset of {tables} tables: {took:?}");
    assert_eq!(counts.tables, tables);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(world.see(&["one", "two"]).await.tables.len(), 1);
    world.garbage_is_gone().await;
}
