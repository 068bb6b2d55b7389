//! Restores and resets under load: nobody sees half of one, and nothing decided before takes effect after.

use super::{in_memory, name};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tepui_service::test_bench::ResetScope;

/// As many entities as are changed together.
const ROWS: i32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_under_load_is_seen_whole() {
    let world = Arc::new(in_memory());
    world.create_table("one", "Cats").await.unwrap();
    world.create_queue("one", "jobs").await.unwrap();
    world.create_container("one", "photos").await.unwrap();
    for row in 0..ROWS {
        world.change("one", "Cats", &format!("{row:03}"), Some(0)).await.unwrap();
    }
    world.put_message("one", "jobs", "first".into()).await.unwrap();
    world.bench.take_snapshot(&name("base")).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let mut load = tokio::task::JoinSet::new();
    for writer in 1..4 {
        let (world, stop, done) = (Arc::clone(&world), Arc::clone(&stop), Arc::clone(&done));
        load.spawn(async move {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let row = format!("{:03}", (round * 7 + writer) % ROWS);
                world.change("one", "Cats", &row, Some(writer)).await.unwrap();
                world.put_message("one", "jobs", Bytes::from(format!("{writer} {round}"))).await.unwrap();
                let blob = format!("{writer} {}", round % 3);
                let bytes = Bytes::from(vec![writer as u8; 40_000]);
                world.put_blob("one", "photos", &blob, bytes).await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let reader = {
        let (world, stop) = (Arc::clone(&world), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut clean = 0;
            while !stop.load(Ordering::Relaxed) {
                let values = world.entities("one", "Cats").await;
                assert_eq!(values.len(), ROWS as usize);
                clean += usize::from(values.values().all(|(value, _)| *value == 0));
                tokio::task::yield_now().await;
            }
            clean
        })
    };
    for _ in 0..30 {
        let before = done.load(Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < before + 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        world.bench.restore_snapshot(&name("base")).await.unwrap();
        world.check_rows().await;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }
    reader.await.unwrap();
    world.bench.restore_snapshot(&name("base")).await.unwrap();
    let seen = world.see(&["one"]).await;
    let owned = |name: &str| ("one".to_owned(), name.to_owned());
    assert!(seen.tables[&owned("Cats")].values().all(|(value, _)| *value == 0));
    assert_eq!(seen.queues[&owned("jobs")], ["first"]);
    assert!(seen.containers[&owned("photos")].is_empty());
    world.bench.delete_snapshot(&name("base")).await.unwrap();
    world.garbage_is_gone().await;
    assert_eq!(world.extents.bytes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_under_load_leaves_nothing_of_before() {
    let world = Arc::new(in_memory());
    let stop = Arc::new(AtomicBool::new(false));
    let mut load = tokio::task::JoinSet::new();
    for writer in 0..3 {
        let (world, stop) = (Arc::clone(&world), Arc::clone(&stop));
        load.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                // Any of them may fail, if there was a reset since the one before.
                let _ = world.create_table("one", "Cats").await;
                let _ = world.change("one", "Cats", &writer.to_string(), Some(writer)).await;
                let _ = world.create_queue("one", "jobs").await;
                let _ = world.put_message("one", "jobs", "text".into()).await;
                let _ = world.create_container("one", "photos").await;
                let _ = world.put_blob("one", "photos", "blob", Bytes::from(vec![1; 40_000])).await;
            }
        });
    }
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        world.bench.reset(&ResetScope::default()).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = load.join_next().await {
        ended.unwrap();
    }
    world.bench.reset(&ResetScope::default()).await.unwrap();
    world.garbage_is_gone().await;
    assert_eq!(world.extents.bytes(), 0);
}
