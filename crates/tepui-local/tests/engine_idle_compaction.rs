//! An idle store flushes and compacts tombstones, so that the space of deleted rows is freed.

use std::sync::Arc;
use std::time::Duration;
use tepui_files::SimulatedFiles;
use tepui_local::{DiskEngine, EngineOptions, Stepper};
use tepui_storage::{CommitPipeline, Engine, Snapshot, Write};

const ROWS: usize = 200;
const VALUE_BYTES: usize = 1000;

#[tokio::test(start_paused = true)]
async fn tombstones_in_a_memtable_give_space_back() {
    let files = SimulatedFiles::new(1);
    let mut options = EngineOptions::new("/data");
    options.files = Arc::new(files.clone());
    options.memtable_bytes = 64 << 10;
    let (engine, mut stepper) = DiskEngine::open_stepped(options).expect("a directory can be created");
    let key = |number: usize| format!("key {number:03}").into();
    for number in 0..ROWS {
        let put = Write::Put(key(number), vec![b'v'; VALUE_BYTES].into());
        commit(&engine, &mut stepper, vec![put]).await;
        stepper.flush();
    }
    // So few that the memtable is far from full.
    commit(&engine, &mut stepper, (10..ROWS).map(|number| Write::Delete(key(number))).collect()).await;
    assert!(table_bytes(&files) > 64 << 10, "{} bytes", table_bytes(&files));
    for _ in 0..60 {
        stepper.commit();
        stepper.flush();
        stepper.compact(true);
        stepper.remove_obsolete();
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(table_bytes(&files) < 2 * 10 * VALUE_BYTES as u64, "{} bytes", table_bytes(&files));
    let snapshot = engine.begin().await.expect("a transaction can begin");
    for (number, is_there) in [(9, true), (10, false)] {
        let found = snapshot.get(format!("key {number:03}").as_bytes()).await.expect("it can be read");
        assert_eq!(found.is_some(), is_there, "{number}");
    }
}

async fn commit(engine: &DiskEngine, stepper: &mut Stepper, writes: Vec<Write>) {
    let pipeline = engine.begin_pipeline().await.expect("a pipeline can begin");
    let committing = pipeline.submit(writes.into());
    stepper.commit();
    committing.await.expect("it is written");
}

fn table_bytes(files: &SimulatedFiles) -> u64 {
    let files = files.list();
    files.iter().filter(|(path, _)| path.starts_with("/data/rows")).map(|(_, bytes)| bytes).sum()
}
