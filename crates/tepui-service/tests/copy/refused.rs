//! What is refused, and what a comparison finds.

use super::*;
use tepui_storage::{Commit, ExtentWriter, Transaction, Write};

async fn write<E: Engine>(engine: &E, writes: Vec<Write>) {
    engine.begin().await.unwrap().commit(Commit::from(writes)).await.unwrap();
}

fn told<T: std::fmt::Debug>(outcome: Result<T, CopyError>) -> String {
    outcome.unwrap_err().to_string()
}

/// Rows in a target, as a copy that was interrupted after `rows` rows of the state.
async fn unfinished_copy(
    source: &Storage<MemoryEngine, MemoryExtents>,
) -> Storage<MemoryEngine, MemoryExtents> {
    let target = memory();
    let mut copying = Box::pin(copy(source, &target));
    // It runs until its first row is there.
    loop {
        tokio::select! {
            biased;
            done = &mut copying => panic!("{done:?}"),
            () = tokio::task::yield_now() => {}
        }
        if unfinished(&*target.engine).await.unwrap() {
            drop(copying);
            return target;
        }
    }
}

#[tokio::test]
async fn targets_that_are_not_empty() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    World::of(&target, PLAIN).create_queue("mine").await;
    let before = rows(&*target.engine).await;
    assert!(told(copy(&source, &target).await).contains("the target is not empty"));
    assert_eq!(rows(&*target.engine).await, before);
    let target = memory();
    copy(&source, &target).await.unwrap();
    assert!(told(copy(&source, &target).await).contains("tepui storage verify"));
}

#[tokio::test]
async fn sources_that_have_changed_or_are_others() {
    let source = memory();
    fill(&source).await;
    let target = unfinished_copy(&source).await;
    let state = rows(&*target.engine).await;
    assert!(told(copy(&memory(), &target).await).contains("another source"));
    World::of(&source, PLAIN).put_message("jobs", "one more", 0, None).await;
    assert!(told(copy(&source, &target).await).contains("the source has changed"));
    assert_eq!(rows(&*target.engine).await, state);
    // Nor is an unfinished copy a source, or compared with anything.
    assert!(told(copy(&target, &memory()).await).contains("not finished"));
    assert!(told(compare(&source, &target).await).contains("not finished"));
}

#[tokio::test]
async fn storages_in_use() {
    let (source, target) = (memory(), memory());
    fill(&source).await;
    // The lease of a node: version, owner, end.
    let lease = |owner: u128, seconds| {
        let until = clock_start().saturating_add(std::time::Duration::from_secs(seconds));
        let lease = [&[1][..], &owner.to_le_bytes(), &until.ticks().to_le_bytes()].concat();
        vec![Write::Put(Key::from_static(&[0x46, 0, 0, 0, 0, 0, 0, 0, 3]), lease.into())]
    };
    write(&*source.engine, lease(9, 30)).await;
    assert!(told(copy(&source, &target).await).contains("the source is in use"));
    assert!(told(copy(&target, &source).await).contains("the target is in use"));
    assert!(told(compare(&source, &target).await).contains("the source is in use"));
    // Given back, or expired by any clock.
    write(&*source.engine, lease(0, 30)).await;
    copy(&source, &target).await.unwrap();
    write(&*target.engine, lease(9, 0)).await;
    assert!(told(copy(&target, &memory()).await).contains("the source is in use"));
    let clock = clock();
    clock.advance(std::time::Duration::from_secs(2));
    let again = memory();
    copy_storage(&target, &again, &clock, 1, &Arc::default()).await.unwrap();
    let leases = |rows: Vec<(Key, Value)>| rows.iter().filter(|(key, _)| key[0] == 0x46).count();
    assert_eq!(leases(rows(&*again.engine).await), 0, "leases are not copied");
}

#[tokio::test]
async fn two_copies_at_once() {
    let source = memory();
    fill(&source).await;
    let target = unfinished_copy(&source).await;
    // The first one goes on after the second one has begun, and is stopped.
    let (first, second) = (copy_storage_of(&source, &target, 1), copy_storage_of(&source, &target, 2));
    let (first, second) = tokio::join!(first, second);
    let stopped = [&first, &second].iter().filter(|outcome| outcome.is_err()).count();
    for error in [&first, &second].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert!(error.to_string().contains("another process copies"), "{error}");
    }
    assert!(stopped <= 1 || unfinished(&*target.engine).await.unwrap());
    if unfinished(&*target.engine).await.unwrap() {
        copy(&source, &target).await.unwrap();
    }
    equal(&source, &target).await;
}

async fn copy_storage_of(
    source: &Storage<MemoryEngine, MemoryExtents>,
    target: &Storage<MemoryEngine, MemoryExtents>,
    run: u128,
) -> Result<CopyReport, CopyError> {
    copy_storage(source, target, &clock(), run, &Arc::default()).await
}

#[tokio::test]
async fn damaged_sources() {
    for (case, first_byte) in [("a count", 0xA5), ("a blob", 0xA0), ("pieces", 0xA3)] {
        let source = memory();
        fill(&source).await;
        let rows = rows(&*source.engine).await;
        let (key, _) = rows.iter().find(|(key, _)| key[0] == first_byte).unwrap();
        write(&*source.engine, vec![Write::Put(key.clone(), "nonsense".into())]).await;
        assert!(told(copy(&source, &memory()).await).contains("the source is damaged"), "{case}");
        write(&*source.engine, vec![Write::Delete(key.clone())]).await;
        assert!(told(copy(&source, &memory()).await).contains("the source is damaged"), "{case}");
    }
}

#[tokio::test]
async fn differences_are_found() {
    let source = memory();
    fill(&source).await;
    let find = |rows: &[(Key, Value)], first_byte: u8| {
        rows.iter()
            .find(|(key, _)| key[0] == first_byte)
            .map(|(key, value)| (key.clone(), value.clone()))
            .unwrap()
    };
    for (case, first_byte) in [
        ("an entity", 0x80),
        ("a queue's state", 0x50),
        ("a blob", 0xA0),
        ("a message", 0x91),
        ("a count", 0xA5),
    ] {
        let target = memory();
        copy(&source, &target).await.unwrap();
        compare(&source, &target).await.unwrap();
        let (key, value) = find(&rows(&*target.engine).await, first_byte);
        let mut changed = value.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        for writes in [Write::Delete(key.clone()), Write::Put(key.clone(), changed.into())] {
            write(&*target.engine, vec![writes]).await;
            assert!(told(compare(&source, &target).await).contains("differ"), "{case}");
        }
        write(&*target.engine, vec![Write::Put(key.clone(), value.clone())]).await;
        compare(&source, &target).await.unwrap();
        // One more.
        let key = Key::from([&key[..], &[7]].concat());
        write(&*target.engine, vec![Write::Put(key, value)]).await;
        assert!(told(compare(&source, &target).await).contains("differ"), "{case}");
    }
}

/// The bytes of an extent are compared, and not only its name and its length.
#[tokio::test]
async fn other_bytes_are_found() {
    let source = memory();
    let world = World::of(&source, PLAIN);
    world.create_container("pics").await;
    world.put_blob("pics", "a", Default::default(), &world::bytes(50_000, 1)).await;
    let target = memory();
    copy(&source, &target).await.unwrap();
    compare(&source, &target).await.unwrap();
    // A store of extents with other bytes in the same place.
    let forged = Storage { engine: Arc::clone(&target.engine), extents: Arc::new(MemoryExtents::new()) };
    let mut writer = forged.extents.begin().await.unwrap();
    writer.write(world::bytes(50_000, 2).into()).await.unwrap();
    writer.finish().await.unwrap();
    let found = told(compare(&source, &forged).await);
    assert!(found.contains("the bytes of an extent are not the same"), "{found}");
    let lost = Storage { engine: Arc::clone(&target.engine), extents: Arc::new(MemoryExtents::new()) };
    assert!(matches!(compare(&source, &lost).await, Err(CopyError::Storage(_))));
}
