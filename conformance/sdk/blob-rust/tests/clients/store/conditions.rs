//! Writes and reads that happen only if the blob is as expected.

use std::time::Duration;

use futures::future::join_all;
use object_store::azure::MicrosoftAzure;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};

use crate::support::in_container;

async fn text(store: &MicrosoftAzure, path: &Path) -> String {
    String::from_utf8(store.get(path).await.unwrap().bytes().await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn create_only() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        store.put_opts(&path, "one".into(), PutMode::Create.into()).await.unwrap();
        let again = store.put_opts(&path, "two".into(), PutMode::Create.into()).await;
        assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
        assert_eq!(text(&store, &path).await, "one");
        store.delete(&path).await.unwrap();
        store.put_opts(&path, "three".into(), PutMode::Create.into()).await.unwrap();
        assert_eq!(text(&store, &path).await, "three");
    })
    .await;
}

#[tokio::test]
async fn one_creator() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let attempts = (0..10).map(|number| {
            let (store, path) = (&store, &path);
            async move { store.put_opts(path, format!("{number}").into(), PutMode::Create.into()).await }
        });
        let outcomes = join_all(attempts).await;
        let winner = outcomes.iter().position(Result::is_ok).unwrap();
        assert_eq!(outcomes.iter().filter(|each| each.is_ok()).count(), 1);
        let others = outcomes.iter().filter(|each| matches!(each, Err(Error::AlreadyExists { .. }))).count();
        assert_eq!(others, 9, "{outcomes:?}");
        assert_eq!(text(&store, &path).await, winner.to_string());
    })
    .await;
}

#[tokio::test]
async fn update() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let old: UpdateVersion = store.put(&path, "one".into()).await.unwrap().into();
        let new = store.put_opts(&path, "two".into(), PutMode::Update(old.clone()).into()).await.unwrap();
        let stale = store.put_opts(&path, "x".into(), PutMode::Update(old).into()).await;
        assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
        assert_eq!(text(&store, &path).await, "two");
        store.delete(&path).await.unwrap();
        let gone = store.put_opts(&path, "x".into(), PutMode::Update(new.into()).into()).await;
        assert!(matches!(gone, Err(Error::Precondition { .. })), "{gone:?}");
        assert!(matches!(store.head(&path).await, Err(Error::NotFound { .. })));
    })
    .await;
}

/// Read, change, and write if it is still what was read: no step of any writer is lost.
#[tokio::test]
async fn counter() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("counter"));
        store.put(&path, "0".into()).await.unwrap();
        let writers = (0..8).map(|_| async {
            for _ in 0..5 {
                loop {
                    let got = store.get(&path).await.unwrap();
                    let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: None };
                    let count: u32 = str::from_utf8(&got.bytes().await.unwrap()).unwrap().parse().unwrap();
                    let next = (count + 1).to_string();
                    match store.put_opts(&path, next.into(), PutMode::Update(version).into()).await {
                        Ok(_) => break,
                        Err(Error::Precondition { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        });
        join_all(writers).await;
        assert_eq!(text(&store, &path).await, "40");
    })
    .await;
}

#[tokio::test]
async fn conditional_get() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let old = store.put(&path, "one".into()).await.unwrap().e_tag;
        let new = store.put(&path, "two".into()).await.unwrap().e_tag;
        let time = store.head(&path).await.unwrap().last_modified;
        let (before, hour) = (time - Duration::from_secs(3600), Duration::from_secs(3600));
        let options = GetOptions::new;
        for (title, options, want) in [
            ("match", options().with_if_match(new.clone()), "two"),
            ("match any", options().with_if_match(Some("*")), "two"),
            ("match old", options().with_if_match(old.clone()), "Precondition"),
            ("none match", options().with_if_none_match(new.clone()), "NotModified"),
            ("none match old", options().with_if_none_match(old.clone()), "two"),
            ("modified", options().with_if_modified_since(Some(before)), "two"),
            ("not modified", options().with_if_modified_since(Some(time)), "NotModified"),
            ("unmodified", options().with_if_unmodified_since(Some(time + hour)), "two"),
            ("not unmodified", options().with_if_unmodified_since(Some(before)), "Precondition"),
            ("range of another", options().with_if_match(old.clone()).with_range(Some(0..1)), "Precondition"),
            ("range", options().with_if_match(new.clone()).with_range(Some(0..1)), "t"),
        ] {
            // The client asks for the properties of a range as well, and takes offence at those of the whole.
            let heads: &[bool] = if options.range.is_some() { &[false] } else { &[false, true] };
            for &head in heads {
                let found = match store.get_opts(&path, options.clone().with_head(head)).await {
                    Ok(got) if head => {
                        assert_eq!(got.meta.e_tag, new, "{title}");
                        want.to_owned()
                    }
                    Ok(got) => String::from_utf8(got.bytes().await.unwrap().to_vec()).unwrap(),
                    Err(Error::Precondition { .. }) => "Precondition".to_owned(),
                    Err(Error::NotModified { .. }) => "NotModified".to_owned(),
                    Err(other) => panic!("{title}: {other}"),
                };
                assert_eq!(found, want, "{title}, head: {head}");
            }
        }
    })
    .await;
}
