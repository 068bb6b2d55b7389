//! Restores that fail: either nothing has changed, or nothing can be read until one succeeds.

use super::engine::{Fault, TestEngine};
use super::name;
use super::world::World;
use std::sync::Arc;
use tepui_service::test_bench::BenchError;
use tepui_storage::MemoryExtents;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_fails_leaves_no_mixture() {
    for (case, fault, is_readable) in [
        ("refused", Fault::Refused, true),
        ("it may have happened", Fault::UnknownKept, false),
        ("it may happen", Fault::UnknownLost, false),
    ] {
        let engine = TestEngine::new();
        let control = engine.control().clone();
        let world = World::new(Arc::new(engine), Arc::new(MemoryExtents::new()));
        world.create_table("one", "Cats").await.unwrap();
        world.change("one", "Cats", "a", Some(1)).await.unwrap();
        world.bench.take_snapshot(&name("base")).await.unwrap();
        world.change("one", "Cats", "a", Some(2)).await.unwrap();
        *control.fault.lock().unwrap() = Some(fault);
        let failed = world.bench.restore_snapshot(&name("base")).await;
        assert!(matches!(failed, Err(BenchError::Failed(_))), "{case}: {failed:?}");
        let written = world.change("one", "Cats", "b", Some(3)).await;
        assert_eq!(written.is_ok(), is_readable, "{case}: {written:?}");
        world.bench.restore_snapshot(&name("base")).await.unwrap();
        let values: Vec<_> =
            world.entities("one", "Cats").await.into_values().map(|(value, _)| value).collect();
        assert_eq!(values, [1], "{case}");
        world.change("one", "Cats", "a", Some(4)).await.unwrap();
        world.bench.restore_snapshot(&name("base")).await.unwrap();
        assert_eq!(world.entities("one", "Cats").await["a"].0, 1, "{case}");
        world.check_rows().await;
    }
}
