//! The test bench: snapshots, restores and resets of all three services, against a plain model that is cloned.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod concurrency;
#[path = "../shared/engine.rs"]
mod engine;
mod failures;
mod model;
mod scale;
mod world;

use std::sync::Arc;
use tepui_local::{DiskEngine, DiskExtents, EngineOptions, ExtentsOptions};
use tepui_service::test_bench::SnapshotName;
use tepui_storage::{MemoryEngine, MemoryExtents};
use world::World;

type InMemory = World<MemoryEngine, MemoryExtents>;
type OnDisk = World<DiskEngine, DiskExtents>;

fn in_memory() -> InMemory {
    World::new(Arc::new(MemoryEngine::new()), Arc::new(MemoryExtents::new()))
}

fn on_disk(path: &std::path::Path) -> OnDisk {
    let mut engine = EngineOptions::new(path);
    engine.resident_range = tepui_service::catalogue_versions();
    // Small, so that a snapshot outlives flushes and compactions.
    engine.memtable_bytes = 64 << 10;
    let extents = DiskExtents::open(ExtentsOptions::new(path.join("extents"))).unwrap();
    World::new(Arc::new(DiskEngine::open(engine).unwrap()), Arc::new(extents))
}

fn name(text: &str) -> SnapshotName {
    SnapshotName::parse(text).unwrap()
}
