//! Random populations, copied to and fro with random interruptions.

use super::*;
use proptest::prelude::*;
use tepui_model::table::ValueRef;

#[derive(Debug, Clone)]
enum Step {
    Entity(u8, String, String, i64),
    Message(String, u8),
    Blob(u8, usize),
    Snapshot(u8),
    CopyBlob(u8, u8),
    Block(u8, u8, usize),
    DeleteBlob(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![0..100usize, 1000..20_000usize, 60_000..150_000usize];
    prop_oneof![
        (0..3u8, "[a-z\u{0}é]{0,8}", "\\PC{0,8}", any::<i64>())
            .prop_map(|(table, partition, row, value)| Step::Entity(table, partition, row, value)),
        ("\\PC{1,30}", 0..4u8).prop_map(|(text, hidden)| Step::Message(text, hidden)),
        (0..6u8, length.clone()).prop_map(|(name, length)| Step::Blob(name, length)),
        (0..6u8).prop_map(Step::Snapshot),
        (0..6u8, 0..6u8).prop_map(|(from, to)| Step::CopyBlob(from, to)),
        (0..6u8, 0..3u8, length).prop_map(|(name, id, length)| Step::Block(name, id, length.max(1))),
        (0..6u8).prop_map(Step::DeleteBlob),
    ]
}

async fn carry_out(world: &World<MemoryEngine, MemoryExtents>, steps: &[Step]) {
    for table in 0..3 {
        world.create_table(&format!("Table{table}")).await;
    }
    world.create_queue("jobs").await;
    world.create_container("pics").await;
    // Which blobs are there.
    let mut blobs = [false; 6];
    let mut seed = 0u8;
    for step in steps {
        seed = seed.wrapping_add(1);
        match step {
            Step::Entity(table, partition, row, value) => {
                // Characters that keys cannot have are left out.
                let valid = |key: &str| {
                    key.replace(['/', '\\', '#', '?'], "").replace(|c: char| c.is_control() && c != '\0', "")
                };
                let (partition, row) = (valid(partition), valid(row));
                let keys = (partition.as_str(), row.as_str());
                world.put_entity(&format!("Table{table}"), keys, &[("V", ValueRef::Int64(*value))]).await;
            }
            Step::Message(text, hidden) => {
                world.put_message("jobs", text, u64::from(*hidden) * 100, Some(5000)).await;
            }
            Step::Blob(name, length) => {
                world
                    .put_blob("pics", &name.to_string(), Default::default(), &world::bytes(*length, seed))
                    .await;
                blobs[usize::from(*name)] = true;
            }
            Step::Snapshot(name) if blobs[usize::from(*name)] => {
                world.snapshot("pics", &name.to_string()).await
            }
            Step::CopyBlob(from, to) if blobs[usize::from(*from)] => {
                world.copy_blob("pics", &from.to_string(), &to.to_string()).await;
                blobs[usize::from(*to)] = true;
            }
            Step::Block(name, id, length) => {
                let (name, id) = (name.to_string(), id.to_string());
                world.put_block("pics", &name, &id, &world::bytes(*length, seed)).await;
            }
            Step::DeleteBlob(name) if blobs[usize::from(*name)] => {
                world.delete_blob("pics", &name.to_string()).await;
                blobs[usize::from(*name)] = false;
            }
            Step::Snapshot(_) | Step::CopyBlob(..) | Step::DeleteBlob(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn populations_are_the_same_there_and_back(
        steps in prop::collection::vec(any_step(), 0..120),
        versions: bool,
        collects: bool,
        ends in prop::collection::vec(0..4000u64, 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let account = if versions { VERSIONED } else { PLAIN };
            let source = memory();
            let world = World::of(&source, account);
            carry_out(&world, &steps).await;
            if collects {
                world.blobs.collect_garbage_once().await.unwrap();
            }
            drop(world);
            let folder = tempfile::tempdir().unwrap();
            let there = disk(folder.path(), StoreId(3));
            for end in ends {
                let patience = std::time::Duration::from_micros(end * 5);
                let _ = tokio::time::timeout(patience, copy(&source, &there)).await;
            }
            // Unless the last one has reached its end; its last commit may do so after it was given up.
            while unfinished(&*there.engine).await.unwrap() || rows(&*there.engine).await.is_empty() {
                match copy(&source, &there).await {
                    Ok(_) => break,
                    Err(error) => assert!(!unfinished(&*there.engine).await.unwrap(), "{error}"),
                }
            }
            let back = memory();
            copy(&there, &back).await.unwrap();
            compare(&source, &back).await.unwrap();
            let seen = World::of(&source, account).see().await;
            assert_eq!(seen, World::of(&there, account).see().await);
            assert_eq!(seen, World::of(&back, account).see().await);
        });
    }
}
