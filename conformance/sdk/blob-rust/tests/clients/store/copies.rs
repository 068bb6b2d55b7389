//! Copies and renames inside a container.

use futures::future::join_all;
use object_store::azure::MicrosoftAzure;
use object_store::path::Path;
use object_store::{Attribute, Attributes, Error, ObjectStore, ObjectStoreExt, PutOptions};

use crate::support::{content, in_container, same};

async fn has(store: &MicrosoftAzure, name: &str, text: &str) {
    let got = store.get(&Path::from(name)).await.unwrap();
    same(&got.bytes().await.unwrap(), text.as_bytes());
}

async fn missing(store: &MicrosoftAzure, name: &str) {
    assert!(matches!(store.head(&Path::from(name)).await, Err(Error::NotFound { .. })), "{name}");
}

#[tokio::test]
async fn copy() {
    in_container(async |container| {
        let (store, source, target) = (container.store(), Path::from("source"), Path::from("dir/target"));
        let attributes = Attributes::from_iter([
            (Attribute::ContentType, "text/csv"),
            (Attribute::Metadata("kind".into()), "x"),
        ]);
        let data = content(5_000_000, 1);
        let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
        store.put_opts(&source, data.clone().into(), options).await.unwrap();
        store.put(&target, "old".into()).await.unwrap();
        store.copy(&source, &target).await.unwrap();
        // The copy is a blob of its own.
        store.put(&source, "new".into()).await.unwrap();
        let got = store.get(&target).await.unwrap();
        assert_eq!(got.attributes, attributes);
        same(&got.bytes().await.unwrap(), &data);
    })
    .await;
}

#[tokio::test]
async fn copy_if_not_exists() {
    in_container(async |container| {
        let (store, source, target) = (container.store(), Path::from("source"), Path::from("target"));
        store.put(&source, "one".into()).await.unwrap();
        store.copy_if_not_exists(&source, &target).await.unwrap();
        has(&store, "target", "one").await;
        store.put(&source, "two".into()).await.unwrap();
        let again = store.copy_if_not_exists(&source, &target).await;
        assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
        has(&store, "target", "one").await;
    })
    .await;
}

#[tokio::test]
async fn one_of_many_copies() {
    in_container(async |container| {
        let (store, target) = (container.store(), Path::from("target"));
        let sources: Vec<_> = (0..8).map(|number| format!("source {number}")).collect();
        for name in &sources {
            store.put(&Path::from(name.as_str()), name.clone().into()).await.unwrap();
        }
        let copies = sources.iter().map(|name| {
            let (store, target) = (&store, &target);
            async move { store.copy_if_not_exists(&Path::from(name.as_str()), target).await }
        });
        let outcomes = join_all(copies).await;
        let winner = outcomes.iter().position(Result::is_ok).unwrap();
        assert_eq!(outcomes.iter().filter(|each| each.is_ok()).count(), 1, "{outcomes:?}");
        has(&store, "target", &sources[winner]).await;
    })
    .await;
}

#[tokio::test]
async fn copy_of_nothing() {
    in_container(async |container| {
        let store = container.store();
        let outcome = store.copy(&Path::from("missing"), &Path::from("target")).await;
        assert!(matches!(outcome, Err(Error::NotFound { .. })), "{outcome:?}");
        missing(&store, "target").await;
    })
    .await;
}

#[tokio::test]
async fn rename() {
    in_container(async |container| {
        let store = container.store();
        store.put(&Path::from("a"), "one".into()).await.unwrap();
        store.rename(&Path::from("a"), &Path::from("dir/b")).await.unwrap();
        missing(&store, "a").await;
        has(&store, "dir/b", "one").await;

        store.put(&Path::from("c"), "two".into()).await.unwrap();
        let taken = store.rename_if_not_exists(&Path::from("c"), &Path::from("dir/b")).await;
        assert!(matches!(taken, Err(Error::AlreadyExists { .. })), "{taken:?}");
        has(&store, "c", "two").await;
        has(&store, "dir/b", "one").await;
        store.rename(&Path::from("c"), &Path::from("dir/b")).await.unwrap();
        missing(&store, "c").await;
        has(&store, "dir/b", "two").await;
    })
    .await;
}
