//! What is below a prefix: whose it is, and what was damaged.

use crate::subject::{options, prefix, put, stored};
use futures_util::future::join_all;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use std::sync::Arc;
use tepui_objects::{ObjectExtents, ObjectOptions, object_store};
use tepui_storage::contract::extents::content;
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StorageErrorKind, StoreId};

async fn open(store: &Arc<dyn ObjectStore>, options: ObjectOptions) -> Result<ObjectExtents, StorageError> {
    ObjectExtents::open_on(Arc::clone(store), prefix(), options).await
}

async fn written(extents: &ObjectExtents, bytes: usize, seed: usize) -> Extent {
    let mut writer = extents.begin().await.unwrap();
    writer.write(content(bytes, seed).into()).await.unwrap();
    writer.finish().await.unwrap()
}

fn in_memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

#[tokio::test]
async fn nodes_that_open_an_empty_prefix_at_once_agree_on_what_it_is() {
    for _ in 0..20 {
        let store = in_memory();
        let opened = join_all((0..8).map(|_| async {
            tokio::task::yield_now().await;
            let extents = open(&store, options()).await.unwrap();
            // Others still look whether the prefix is empty.
            written(&extents, 10, 1).await;
            extents.store()
        }));
        let opened = opened.await;
        assert!(opened.iter().all(|number| *number == opened[0]), "{opened:?}");
        assert_ne!(opened[0], StoreId::LOCAL);
        assert_eq!(open(&store, options()).await.unwrap().store(), opened[0]);
    }
}

#[tokio::test]
async fn a_prefix_with_other_objects_is_refused_and_left_alone() {
    for (name, refused) in [("some/prefix/readme.txt", true), ("some/prefixes", false), ("other/x", false)] {
        let store = in_memory();
        put(&store, &Path::from(name), "x").await;
        match open(&store, options()).await {
            Ok(_) => assert!(!refused, "{name}"),
            Err(error) => {
                assert!(refused && error.message().contains("other objects"), "{name}: {error}");
                assert!(store.head(&prefix().join("tepui-store")).await.is_err());
            }
        }
    }
}

#[tokio::test]
async fn another_installation_and_a_newer_format_are_refused() {
    let store = in_memory();
    let of = |installation| ObjectOptions { installation: Some(installation), ..options() };
    let first = open(&store, of(1)).await.unwrap().store();
    assert_eq!(open(&store, of(1)).await.unwrap().store(), first);
    let refused = open(&store, of(2)).await.map(|extents| extents.store()).unwrap_err();
    assert!(refused.message().contains("another installation"), "{refused}");
    put(&store, &prefix().join("tepui-store"), "tepui store\nformat 2\n").await;
    let refused = open(&store, of(1)).await.map(|extents| extents.store()).unwrap_err();
    assert!(refused.message().contains("newer"), "{refused}");
}

#[tokio::test]
async fn objects_that_are_not_what_was_written_are_not_served() {
    let store = in_memory();
    let extents = open(&store, options()).await.unwrap();
    let (one, other) = (written(&extents, 200_000, 1).await, written(&extents, 200_000, 2).await);
    let names: Vec<Path> = stored(&store, &prefix()).await.into_iter().map(|(name, _)| name).collect();
    let object = store.get(&names[0]).await.unwrap().bytes().await.unwrap();
    let exchanged = store.get(&names[1]).await.unwrap().bytes().await.unwrap();
    let mut flipped = object.to_vec();
    flipped[150_000] ^= 1;
    let mut longer = object.to_vec();
    longer.push(0);
    for (case, damaged) in [
        ("that of another extent", exchanged.to_vec()),
        ("a bit", flipped),
        ("cut", object[..object.len() - 1].to_vec()),
        ("cut before what is read", object[..70_000].to_vec()),
        ("empty", Vec::new()),
        ("longer", longer),
    ] {
        put(&store, &names[0], damaged).await;
        let read = extents.read(one, 140_000..200_000).await;
        assert!(matches!(&read, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{case}: {read:?}");
        // The others are as good as before.
        assert!(extents.read(other, 0..200_000).await.unwrap().concat() == content(200_000, 2));
    }
    put(&store, &names[0], object.to_vec()).await;
    assert!(extents.read(one, 0..200_000).await.unwrap().concat() == content(200_000, 1));
    // Only the pieces that are needed are read, so damage elsewhere does no harm.
    let mut flipped = object.to_vec();
    flipped[10] ^= 1;
    put(&store, &names[0], flipped).await;
    assert!(extents.read(one, 140_000..200_000).await.unwrap().concat() == content(200_000, 1)[140_000..]);
    store.delete(&names[0]).await.unwrap();
    let read = extents.read(one, 0..1).await;
    assert!(matches!(&read, Err(error) if error.kind() == StorageErrorKind::Corrupt), "{read:?}");
}
