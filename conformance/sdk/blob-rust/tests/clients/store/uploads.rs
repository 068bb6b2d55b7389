//! Uploads in parts.

use futures::future::join_all;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, ObjectStore, ObjectStoreExt, PutMultipartOptions, TagSet, WriteMultipart,
};

use crate::support::{content, in_container, same};

const MEBIBYTE: usize = 1024 * 1024;

#[tokio::test]
async fn parts_at_the_same_time() {
    in_container(async |container| {
        let (store, path, data) =
            (container.store(), Path::from("dir/large"), content(20 * MEBIBYTE + 17, 1));
        let mut tags = TagSet::default();
        tags.push("kind", "large");
        let attributes = Attributes::from_iter([
            (Attribute::ContentType, "image/png"),
            (Attribute::Metadata("kind".into()), "x"),
        ]);
        let options = PutMultipartOptions { attributes: attributes.clone(), tags, ..Default::default() };
        let mut upload = store.put_multipart_opts(&path, options).await.unwrap();
        let chunks: Vec<_> = data.chunks(3 * MEBIBYTE).map(|chunk| chunk.to_vec()).collect();
        let mut parts: Vec<_> = chunks.into_iter().map(|chunk| upload.put_part(chunk.into())).collect();
        // Their order is that of the calls, whichever is sent first.
        parts.reverse();
        for outcome in join_all(parts).await {
            outcome.unwrap();
        }
        assert!(matches!(store.head(&path).await, Err(Error::NotFound { .. })));
        let put = upload.complete().await.unwrap();

        let got = store.get(&path).await.unwrap();
        assert_eq!((&got.attributes, &got.meta.e_tag), (&attributes, &put.e_tag));
        same(&got.bytes().await.unwrap(), &data);
        same(&store.get_range(&path, 3_145_720..6_291_470).await.unwrap(), &data[3_145_720..6_291_470]);
    })
    .await;
}

#[tokio::test]
async fn writer() {
    in_container(async |container| {
        let (store, path, data) = (container.store(), Path::from("a"), content(12 * MEBIBYTE, 2));
        let mut writer = WriteMultipart::new(store.put_multipart(&path).await.unwrap());
        for piece in data.chunks(700_000) {
            writer.wait_for_capacity(4).await.unwrap();
            writer.write(piece);
        }
        writer.finish().await.unwrap();
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), &data);
    })
    .await;
}

/// Parts that are known by name, as programs use them that share one upload.
#[tokio::test]
async fn parts_by_name() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let id = store.create_multipart(&path).await.unwrap();
        let mut parts = Vec::new();
        for (index, text) in ["one ", "two ", "three"].into_iter().enumerate() {
            parts.push(store.put_part(&path, &id, index, text.into()).await.unwrap());
        }
        parts.swap(0, 1);
        store.complete_multipart(&path, &id, parts).await.unwrap();
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"two one three");
    })
    .await;
}

#[tokio::test]
async fn abort() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        store.put(&path, "old".into()).await.unwrap();
        for name in ["a", "b"] {
            let mut upload = store.put_multipart(&Path::from(name)).await.unwrap();
            upload.put_part(content(MEBIBYTE, 3).into()).await.unwrap();
            upload.abort().await.unwrap();
        }
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"old");
        assert!(matches!(store.get(&Path::from("b")).await, Err(Error::NotFound { .. })));
    })
    .await;
}

#[tokio::test]
async fn empty_upload() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        store.put_multipart(&path).await.unwrap().complete().await.unwrap();
        let got = store.get(&path).await.unwrap();
        assert_eq!(got.meta.size, 0);
        same(&got.bytes().await.unwrap(), b"");
    })
    .await;
}

/// The blocks of one upload are gone when another one of the same blob is complete.
#[tokio::test]
async fn two_uploads_of_one_blob() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a"));
        let mut first = store.put_multipart(&path).await.unwrap();
        let mut second = store.put_multipart(&path).await.unwrap();
        first.put_part("first".into()).await.unwrap();
        second.put_part("second".into()).await.unwrap();
        second.complete().await.unwrap();
        let lost = first.complete().await.unwrap_err().to_string();
        assert!(lost.contains("InvalidBlockList"), "{lost}");
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"second");
    })
    .await;
}
