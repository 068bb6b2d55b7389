//! Lists: flat, in pages, by folder, from a name on.

use futures::{StreamExt, TryStreamExt, stream};
use object_store::azure::MicrosoftAzure;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};

use crate::support::{Container, in_container};

const FILES: [&str; 7] = ["a", "dir/1", "dir/2", "dir/sub/3", "dirx", "e/4", "z"];

async fn filled(container: &Container) -> MicrosoftAzure {
    let store = container.store();
    for name in FILES {
        store.put(&Path::from(name), name.into()).await.unwrap();
    }
    store
}

fn strings<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
    paths.into_iter().map(Path::to_string).collect()
}

async fn listed(store: &MicrosoftAzure, prefix: Option<&str>) -> Vec<String> {
    let found: Vec<_> = store.list(prefix.map(Path::from).as_ref()).try_collect().await.unwrap();
    strings(found.iter().map(|each| &each.location))
}

/// More blobs than a page may hold, and batches of 256 to remove them.
#[tokio::test]
async fn five_thousand() {
    in_container(async |container| {
        let store = container.store();
        let paths: Vec<_> = (0..5100).map(|number| Path::from(format!("dir/{number:05}"))).collect();
        let puts = paths.iter().map(|path| store.put(path, "x".into()));
        stream::iter(puts).buffer_unordered(16).try_collect::<Vec<_>>().await.unwrap();

        assert_eq!(listed(&store, None).await, strings(&paths));
        let start = Path::from("dir/05050");
        let last: Vec<_> = store.list_with_offset(None, &start).try_collect().await.unwrap();
        assert_eq!(strings(last.iter().map(|each| &each.location)), strings(&paths[5051..]));

        let locations = stream::iter(paths.clone().into_iter().map(Ok)).boxed();
        let removed: Vec<_> = store.delete_stream(locations).try_collect().await.unwrap();
        assert_eq!(removed, paths);
        assert_eq!(listed(&store, None).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn prefix() {
    in_container(async |container| {
        let store = filled(&container).await;
        assert_eq!(listed(&store, None).await, FILES);
        // The client takes a prefix for a folder.
        assert_eq!(listed(&store, Some("dir")).await, FILES[1..4]);
        assert_eq!(listed(&store, Some("dir/sub")).await, FILES[3..4]);
        assert_eq!(listed(&store, Some("di")).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn delimiter() {
    in_container(async |container| {
        let store = filled(&container).await;
        for (prefix, folders, objects) in [
            (None, vec!["dir", "e"], vec!["a", "dirx", "z"]),
            (Some("dir"), vec!["dir/sub"], vec!["dir/1", "dir/2"]),
            (Some("dir/sub"), vec![], vec!["dir/sub/3"]),
            (Some("nothing"), vec![], vec![]),
        ] {
            let found = store.list_with_delimiter(prefix.map(Path::from).as_ref()).await.unwrap();
            assert_eq!(strings(&found.common_prefixes), folders, "{prefix:?}");
            assert_eq!(strings(found.objects.iter().map(|each| &each.location)), objects, "{prefix:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn offset() {
    in_container(async |container| {
        let store = filled(&container).await;
        for (prefix, offset, want) in [
            (None, "dir/2", &FILES[3..]),
            (None, "dir/2x", &FILES[3..]),
            (None, "zz", &[]),
            (Some("dir"), "dir/1", &FILES[2..4]),
            (Some("dir"), "a", &FILES[1..4]),
        ] {
            let (prefix, offset) = (prefix.map(Path::from), Path::from(offset));
            let found: Vec<_> = store.list_with_offset(prefix.as_ref(), &offset).try_collect().await.unwrap();
            assert_eq!(strings(found.iter().map(|each| &each.location)), want, "{offset}");
        }
    })
    .await;
}

#[tokio::test]
async fn pages() {
    in_container(async |container| {
        let store = filled(&container).await;
        for (prefix, delimiter, page_size, want) in [
            (
                None,
                None,
                2,
                vec![vec!["a", "dir/1"], vec!["dir/2", "dir/sub/3"], vec!["dirx", "e/4"], vec!["z"]],
            ),
            (Some("dir"), None, 3, vec![vec!["dir/1", "dir/2", "dir/sub/3"], vec!["dirx"]]),
            (None, Some("/"), 2, vec![vec!["a", "dir/"], vec!["dirx", "e/"], vec!["z"]]),
        ] {
            let (mut found, mut token) = (Vec::new(), None);
            loop {
                let options = PaginatedListOptions {
                    delimiter: delimiter.map(Into::into),
                    max_keys: Some(page_size),
                    page_token: token,
                    ..PaginatedListOptions::default()
                };
                let page = store.list_paginated(prefix, options).await.unwrap();
                let mut names = strings(page.result.objects.iter().map(|each| &each.location));
                names.extend(page.result.common_prefixes.iter().map(|each| format!("{each}/")));
                names.sort();
                found.push(names);
                token = page.page_token;
                if token.is_none() {
                    break;
                }
            }
            assert_eq!(found, want);
        }
    })
    .await;
}

/// What is not yet a blob is in no list, nor is what was removed.
#[tokio::test]
async fn only_what_is_there() {
    in_container(async |container| {
        let store = container.store();
        assert_eq!(listed(&store, None).await, [""; 0]);
        store.put(&Path::from("a"), "x".into()).await.unwrap();
        let mut upload = store.put_multipart(&Path::from("b")).await.unwrap();
        upload.put_part("part".into()).await.unwrap();
        assert_eq!(listed(&store, None).await, ["a"]);
        upload.complete().await.unwrap();
        store.delete(&Path::from("a")).await.unwrap();
        assert_eq!(listed(&store, None).await, ["b"]);
    })
    .await;
}

#[tokio::test]
async fn bulk_delete() {
    in_container(async |container| {
        let store = filled(&container).await;
        let names = ["dir/1", "missing", "z", "dir/missing"].map(|name| Ok(Path::from(name)));
        let found: Vec<_> = store.delete_stream(stream::iter(names).boxed()).collect().await;
        let outcomes: Vec<_> = found
            .iter()
            .map(|each| match each {
                Ok(path) => path.as_ref(),
                Err(Error::NotFound { path, .. }) => {
                    if path.contains("missing") {
                        "not found"
                    } else {
                        path
                    }
                }
                Err(other) => panic!("{other}"),
            })
            .collect();
        assert_eq!(outcomes, ["dir/1", "not found", "z", "not found"]);
        assert_eq!(listed(&store, None).await, ["a", "dir/2", "dir/sub/3", "dirx", "e/4"]);
    })
    .await;
}

#[tokio::test]
async fn delete() {
    in_container(async |container| {
        let store = filled(&container).await;
        store.delete(&Path::from("dir/1")).await.unwrap();
        for name in ["dir/1", "dir"] {
            assert!(matches!(store.delete(&Path::from(name)).await, Err(Error::NotFound { .. })));
            assert!(matches!(store.get(&Path::from(name)).await, Err(Error::NotFound { .. })));
        }
        assert_eq!(listed(&store, Some("dir")).await, FILES[2..4]);
    })
    .await;
}
