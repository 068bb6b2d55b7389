//! Random operations, snapshots, restores in any order, and resets: what callers see is what a model says.

use super::world::{Seen, World, queue_name};
use super::{in_memory, name, on_disk};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use tepui_model::ErrorCode;
use tepui_model::queue::SequencedOperation;
use tepui_model::table::Written;
use tepui_service::test_bench::{BenchError, ResetScope, ServiceKind};
use tepui_storage::{Engine, Extents, MemoryExtents};

const ACCOUNTS: [&str; 2] = ["one", "two"];
/// Kept with the row of the blob, in a row of its own, and as large bytes.
const SIZES: [usize; 3] = [10, 5_000, 100_000];

/// Runs so many random steps.
async fn run<E: Engine, X: Extents>(world: &World<E, X>, seed: u64, steps: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Seen::default();
    let mut snapshots: BTreeMap<u8, Seen> = BTreeMap::new();
    for step in 0..steps {
        let says = format!("seed {seed}, step {step}");
        let snapshot = random.u8(..3);
        match random.u32(..40) {
            0..3 => {
                let taken = world.bench.take_snapshot(&name(&snapshot.to_string())).await;
                assert_eq!(taken.is_ok(), !snapshots.contains_key(&snapshot), "{says}");
                snapshots.entry(snapshot).or_insert_with(|| model.clone());
            }
            3..7 => {
                let restored = world.bench.restore_snapshot(&name(&snapshot.to_string())).await;
                match snapshots.get(&snapshot) {
                    Some(then) => {
                        restored.unwrap();
                        model = then.clone();
                    }
                    None => assert!(matches!(restored, Err(BenchError::NoSuchSnapshot)), "{says}"),
                }
                assert_eq!(world.see(&ACCOUNTS).await, model, "{says}");
                world.check_rows().await;
            }
            7 => {
                let deleted = world.bench.delete_snapshot(&name(&snapshot.to_string())).await;
                assert_eq!(deleted.is_ok(), snapshots.remove(&snapshot).is_some(), "{says}");
            }
            8 => {
                let account = random.bool().then(|| random.choice(ACCOUNTS).unwrap().to_owned());
                let kinds = [ServiceKind::Blob, ServiceKind::Queue, ServiceKind::Table];
                let service = random.bool().then(|| random.choice(kinds).unwrap());
                let scope = ResetScope { account, service };
                world.bench.reset(&scope).await.unwrap();
                reset(&mut model, &scope);
                assert_eq!(world.see(&ACCOUNTS).await, model, "{says}: {scope:?}");
                world.check_rows().await;
            }
            _ => change(world, &mut model, &mut random).await,
        }
    }
    assert_eq!(world.see(&ACCOUNTS).await, model, "seed {seed}");
    for snapshot in snapshots.into_keys() {
        world.bench.delete_snapshot(&name(&snapshot.to_string())).await.unwrap();
    }
    world.garbage_is_gone().await;
    assert_eq!(world.see(&ACCOUNTS).await, model, "seed {seed}, without garbage");
}

fn reset(model: &mut Seen, scope: &ResetScope) {
    let of_account = |account: &str| scope.account.as_ref().is_none_or(|only| only == account);
    let of_service = |service| scope.service.is_none_or(|only| only == service);
    if of_service(ServiceKind::Table) {
        model.tables.retain(|(account, _), _| !of_account(account));
        model.settings.retain(|account, _| !of_account(account));
    }
    if of_service(ServiceKind::Queue) {
        model.queues.retain(|(account, _), _| !of_account(account));
    }
    if of_service(ServiceKind::Blob) {
        model.containers.retain(|(account, _), _| !of_account(account));
    }
}

async fn change<E: Engine, X: Extents>(world: &World<E, X>, model: &mut Seen, random: &mut fastrand::Rng) {
    let account = random.choice(ACCOUNTS).unwrap();
    let table = random.choice(["Cats", "Dogs"]).unwrap();
    let queue = random.choice(["jobs", "mail"]).unwrap();
    let container = random.choice(["photos", "films"]).unwrap();
    let (row, blob) = (random.u8(..6).to_string(), format!("blob {}", random.u8(..4)));
    let owned = |name: &str| (account.to_owned(), name.to_owned());
    match random.u32(..26) {
        0..2 => {
            let created = world.create_table(account, table).await;
            assert_eq!(created.is_ok(), !model.tables.contains_key(&owned(table)));
            model.tables.entry(owned(table)).or_default();
        }
        2 => {
            let deleted = world.delete_table(account, table).await;
            assert_eq!(deleted.is_ok(), model.tables.remove(&owned(table)).is_some());
        }
        3..10 => {
            let value = random.u32(..4).ne(&0).then(|| random.i32(..));
            let written = world.change(account, table, &row, value).await;
            match (model.tables.get_mut(&owned(table)), value) {
                (None, _) => assert_eq!(written, Err(ErrorCode::TableNotFound)),
                (Some(entities), None) => {
                    assert_eq!(written.is_ok(), entities.remove(&row).is_some());
                }
                (Some(entities), Some(value)) => {
                    let Ok(Written::Stored(at)) = written else { panic!("{written:?}") };
                    let before = entities.insert(row, (value, at));
                    assert!(before.is_none_or(|(_, before)| before < at), "a timestamp must rise");
                }
            }
        }
        10 => {
            let days = random.u32(1..300);
            world.set_logging_days(account, days).await;
            model.settings.insert(account.to_owned(), days);
        }
        11..13 => {
            world.create_queue(account, queue).await.unwrap();
            model.queues.entry(owned(queue)).or_default();
        }
        13 => {
            let delete = SequencedOperation::DeleteQueue { queue: queue_name(queue) };
            let deleted = world.queue(account, delete).await;
            assert_eq!(deleted.is_ok(), model.queues.remove(&owned(queue)).is_some());
        }
        14..17 => {
            let text = Bytes::from(format!("{:0>100}", random.u32(..)));
            let put = world.put_message(account, queue, text.clone()).await;
            match model.queues.get_mut(&owned(queue)) {
                Some(messages) => messages.push(text),
                None => assert_eq!(put, Err(ErrorCode::QueueNotFound)),
            }
        }
        17..19 => {
            let consumed = world.consume(account, queue).await;
            match model.queues.get_mut(&owned(queue)) {
                Some(messages) => {
                    let expected = (!messages.is_empty()).then(|| messages.remove(0));
                    assert_eq!(consumed, Ok(expected));
                }
                None => assert_eq!(consumed, Err(ErrorCode::QueueNotFound)),
            }
        }
        19..21 => {
            let created = world.create_container(account, container).await;
            assert_eq!(created.is_ok(), !model.containers.contains_key(&owned(container)));
            model.containers.entry(owned(container)).or_default();
        }
        21 => {
            let deleted = world.delete_container(account, container).await;
            assert_eq!(deleted.is_ok(), model.containers.remove(&owned(container)).is_some());
        }
        22..24 => {
            let size = random.choice(SIZES).unwrap();
            let bytes = Bytes::from(vec![random.u8(..); size]);
            let put = world.put_blob(account, container, &blob, bytes.clone()).await;
            match model.containers.get_mut(&owned(container)) {
                Some(blobs) => drop(blobs.insert(blob, bytes)),
                None => assert_eq!(put, Err(ErrorCode::ContainerNotFound)),
            }
        }
        24 => {
            // Two references to the same bytes.
            let _ = world.snapshot_blob(account, container, &blob).await;
        }
        _ => {
            let deleted = world.delete_blob(account, container, &blob).await;
            let blobs = model.containers.get_mut(&owned(container));
            assert_eq!(deleted.is_ok(), blobs.is_some_and(|blobs| blobs.remove(&blob).is_some()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restores_and_resets_agree_with_the_model() {
    let seed: u64 = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in seed..seed + 12 {
        run(&in_memory(), seed, 250).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restores_and_resets_agree_with_the_model_on_disk() {
    let seed: u64 = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in seed..seed + 3 {
        let directory = tempfile::tempdir().unwrap();
        run(&on_disk(directory.path()), seed, 250).await;
    }
}

/// Large bytes that a restore leaves behind are freed once there is no snapshot, and none before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bytes_come_and_go_with_snapshots() {
    let world = in_memory();
    let bytes = |world: &World<_, MemoryExtents>| world.extents.bytes();
    let content = |byte| Bytes::from(vec![byte; 100_000]);
    world.create_container("one", "photos").await.unwrap();
    world.put_blob("one", "photos", "kept", content(1)).await.unwrap();
    world.bench.take_snapshot(&name("base")).await.unwrap();
    for round in 0..3 {
        world.put_blob("one", "photos", &format!("new {round}"), content(2)).await.unwrap();
        world.put_blob("one", "photos", "short-lived", content(3)).await.unwrap();
        world.delete_blob("one", "photos", "short-lived").await.unwrap();
        world.delete_blob("one", "photos", "kept").await.unwrap();
        world.bench.restore_snapshot(&name("base")).await.unwrap();
        assert_eq!(world.read_blob("one", "photos", "kept").await, Ok(content(1)));
        assert_eq!(world.blob_names("one", "photos").await, ["kept"]);
    }
    assert!(bytes(&world) >= 700_000, "nothing is freed while there is a snapshot");
    world.bench.delete_snapshot(&name("base")).await.unwrap();
    world.garbage_is_gone().await;
    assert_eq!(bytes(&world), 100_000);
    assert_eq!(world.read_blob("one", "photos", "kept").await, Ok(content(1)));

    world.bench.take_snapshot(&name("base")).await.unwrap();
    world.bench.reset(&ResetScope::default()).await.unwrap();
    assert_eq!(world.see(&["one"]).await, Seen::default());
    world.bench.restore_snapshot(&name("base")).await.unwrap();
    assert_eq!(world.read_blob("one", "photos", "kept").await, Ok(content(1)));
    world.bench.reset(&ResetScope::default()).await.unwrap();
    world.bench.delete_snapshot(&name("base")).await.unwrap();
    world.garbage_is_gone().await;
    assert_eq!(bytes(&world), 0);
}

/// A name that is taken back is free again, and what was cached of it is not used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_remembered_outlives_a_restore() {
    let world = in_memory();
    world.create_table("one", "Cats").await.unwrap();
    world.set_logging_days("one", 5).await;
    world.change("one", "Cats", "a", Some(1)).await.unwrap();
    world.bench.take_snapshot(&name("base")).await.unwrap();
    let before = world.see(&["one"]).await;
    for _ in 0..3 {
        world.delete_table("one", "Cats").await.unwrap();
        world.create_table("one", "Cats").await.unwrap();
        world.change("one", "Cats", "b", Some(2)).await.unwrap();
        world.set_logging_days("one", 7).await;
        assert_eq!(world.entities("one", "Cats").await.len(), 1);
        world.bench.restore_snapshot(&name("base")).await.unwrap();
        assert_eq!(world.see(&["one"]).await, before);
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let Ok(Written::Stored(at)) = world.change("one", "Cats", "a", Some(3)).await else { panic!() };
    assert!(at > before.tables[&("one".to_owned(), "Cats".to_owned())]["a"].1);
}
