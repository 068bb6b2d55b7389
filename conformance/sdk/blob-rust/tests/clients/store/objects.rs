//! Bytes, ranges and attributes, there and back.

use std::collections::HashMap;
use std::time::Duration;

use azure_storage_blob::models::{BlobClientGetPropertiesResultHeaders, BlobTags};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutOptions, TagSet,
};

use crate::support::{content, in_container, same};

const MEBIBYTE: usize = 1024 * 1024;

#[tokio::test]
async fn put_and_get() {
    in_container(async |container| {
        let store = container.store();
        for (size, seed) in [(0, 1), (1, 2), (100_000, 3), (5 * MEBIBYTE, 4)] {
            let (path, data) = (Path::from(format!("dir/{size}")), content(size, seed));
            let put = store.put(&path, data.clone().into()).await.unwrap();
            let got = store.get(&path).await.unwrap();
            assert_eq!((got.meta.size, &got.meta.e_tag), (size as u64, &put.e_tag));
            same(&got.bytes().await.unwrap(), &data);
        }
    })
    .await;
}

#[tokio::test]
async fn overwrite() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let old = store.put(&path, "a longer text".into()).await.unwrap();
        let new = store.put(&path, "short".into()).await.unwrap();
        assert_ne!(old.e_tag, new.e_tag);
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"short");
    })
    .await;
}

#[tokio::test]
async fn streamed_get() {
    in_container(async |container| {
        let (store, path, data) = (container.store(), Path::from("a"), content(5 * MEBIBYTE, 5));
        store.put(&path, data.clone().into()).await.unwrap();
        let mut stream = store.get(&path).await.unwrap().into_stream();
        let (mut found, mut pieces) = (Vec::new(), 0);
        while let Some(piece) = stream.next().await {
            found.extend_from_slice(&piece.unwrap());
            pieces += 1;
        }
        assert!(pieces > 1);
        same(&found, &data);
    })
    .await;
}

#[tokio::test]
async fn ranges() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        store.put(&path, "0123456789".into()).await.unwrap();
        for (range, want) in [
            (GetRange::Bounded(0..3), "012"),
            (GetRange::Bounded(9..10), "9"),
            (GetRange::Bounded(8..100), "89"),
            (GetRange::Offset(7), "789"),
        ] {
            let got = store.get_opts(&path, GetOptions::new().with_range(Some(range))).await.unwrap();
            assert_eq!((got.meta.size, got.range.end - got.range.start), (10, want.len() as u64));
            same(&got.bytes().await.unwrap(), want.as_bytes());
        }
        same(&store.get_range(&path, 2..5).await.unwrap(), b"234");
        let past_the_end = store.get_range(&path, 10..11).await.unwrap_err().to_string();
        assert!(past_the_end.contains("InvalidRange"), "{past_the_end}");
        // The client does not send a range from the end: the service has none.
        let from_the_end = GetOptions::new().with_range(Some(GetRange::Suffix(2)));
        assert!(matches!(store.get_opts(&path, from_the_end).await, Err(Error::NotSupported { .. })));
    })
    .await;
}

/// The client joins ranges that are close to each other, and asks for the others at the same time.
#[tokio::test]
async fn several_ranges() {
    in_container(async |container| {
        let (store, path, data) = (container.store(), Path::from("a"), content(5 * MEBIBYTE, 6));
        store.put(&path, data.clone().into()).await.unwrap();
        let ranges = [0..10, 5_000_000..5_242_880, 100..200_000, 3_000_000..3_000_001, 4_999_990..5_000_010];
        let found = store.get_ranges(&path, &ranges).await.unwrap();
        assert_eq!(found.len(), ranges.len());
        for (piece, range) in found.iter().zip(ranges) {
            same(piece, &data[range.start as usize..range.end as usize]);
        }
    })
    .await;
}

#[tokio::test]
async fn head() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("dir/a"));
        let put = store.put(&path, "0123456789".into()).await.unwrap();
        let found = store.head(&path).await.unwrap();
        assert_eq!((found.location, found.size, found.e_tag), (path.clone(), 10, put.e_tag));
        let age = std::time::SystemTime::from(found.last_modified).elapsed().unwrap();
        assert!(age < Duration::from_secs(60));
        assert!(matches!(store.head(&Path::from("dir")).await, Err(Error::NotFound { .. })));
        // The service lists ETags without their quotation marks, and the client leaves it at that.
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        let mut want = store.head(&path).await.unwrap();
        want.e_tag = want.e_tag.map(|tag| tag.trim_matches('"').to_owned());
        assert_eq!(listed, [want]);
        let listed_tag = GetOptions::new().with_if_match(listed[0].e_tag.clone());
        assert!(store.get_opts(&path, listed_tag).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn attributes() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let attributes = Attributes::from_iter([
            (Attribute::ContentType, "text/csv; charset=utf-8"),
            (Attribute::CacheControl, "max-age=60"),
            (Attribute::ContentDisposition, "attachment; filename=\"a b.csv\""),
            (Attribute::ContentEncoding, "gzip"),
            (Attribute::ContentLanguage, "de"),
            (Attribute::Metadata("kind".into()), "some value"),
            (Attribute::Metadata("other_kind".into()), "=,;"),
        ]);
        let options = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
        store.put_opts(&path, "not really compressed".into(), options).await.unwrap();
        let got = store.get(&path).await.unwrap();
        assert_eq!(got.attributes, attributes);
        same(&got.bytes().await.unwrap(), b"not really compressed");
        let head = store.get_opts(&path, GetOptions::new().with_head(true)).await.unwrap();
        assert_eq!(head.attributes, attributes);
        store.put(&path, "plain".into()).await.unwrap();
        let plain = Attributes::from_iter([(Attribute::ContentType, "application/octet-stream")]);
        assert_eq!(store.get(&path).await.unwrap().attributes, plain);
    })
    .await;
}

/// The client writes tiers and tags but does not read them: the official one does.
#[tokio::test]
async fn tier_and_tags() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let mut tags = TagSet::default();
        tags.push("project", "one two");
        tags.push("path/of", "a+b:c=d/e.f_g-h");
        let attributes = Attributes::from_iter([(Attribute::StorageClass, "Cool")]);
        let options = PutOptions { attributes, tags, ..PutOptions::default() };
        store.put_opts(&path, "x".into(), options).await.unwrap();
        let blob = container.blob("a");
        let found: BlobTags = blob.get_tags(None).await.unwrap().into_model().unwrap();
        let want = HashMap::from([("project", "one two"), ("path/of", "a+b:c=d/e.f_g-h")]);
        let want: HashMap<_, _> = want.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        assert_eq!(HashMap::from(found), want);
        let properties = blob.get_properties(None).await.unwrap();
        assert_eq!(properties.access_tier().unwrap().as_deref(), Some("Cool"));
        assert_eq!(properties.tag_count().unwrap(), Some(2));
    })
    .await;
}

#[tokio::test]
async fn odd_names() {
    in_container(async |container| {
        let store = container.store();
        let names = [
            "a b/c  d",
            "a+b/c%20d/100%",
            "%2F/%25/%zz",
            "question?mark#hash",
            "quotes'and\"more<x>&amp;",
            "ümlaut/日本語/😀",
            "a:b;c,d=e@f!g$h(i)*j",
            "[x]{y}|^`~",
            ".hidden/..x/...",
        ];
        // `Path::from` would write percent signs into the names.
        let paths = names.map(|name| Path::parse(name).unwrap());
        for (path, name) in paths.iter().zip(names) {
            store.put(path, name.into()).await.unwrap();
        }
        let mut listed: Vec<_> = store.list(None).map_ok(|found| found.location).try_collect().await.unwrap();
        let mut want = paths.to_vec();
        listed.sort();
        want.sort();
        assert_eq!(listed, want);
        for (path, name) in paths.iter().zip(names) {
            same(&store.get(path).await.unwrap().bytes().await.unwrap(), name.as_bytes());
            let target = Path::parse(format!("copy of/{name}")).unwrap();
            store.copy(path, &target).await.unwrap();
            same(&store.get(&target).await.unwrap().bytes().await.unwrap(), name.as_bytes());
            store.delete(&target).await.unwrap();
        }
        let removed = store.delete_stream(futures::stream::iter(paths.clone().map(Ok)).boxed());
        assert_eq!(removed.try_collect::<Vec<_>>().await.unwrap(), paths);
        assert_eq!(store.list(None).count().await, 0);
    })
    .await;
}
