//! Block blobs: whole, in blocks, copied, with everything that belongs to them.

use std::collections::HashMap;
use std::num::NonZero;

use azure_core::http::Etag;
use azure_storage_blob::format_filter_expression;
use azure_storage_blob::models::{
    AccessTier, BlobClientAcquireLeaseResultHeaders, BlobClientChangeLeaseResultHeaders,
    BlobClientCreateSnapshotResultHeaders, BlobClientDeleteOptions, BlobClientDownloadOptions,
    BlobClientGetPropertiesResultHeaders, BlobClientSetPropertiesOptions,
    BlobClientStartCopyFromUrlResultHeaders, BlobClientUploadOptions, BlobTags, BlobType,
    BlockBlobClientUploadBlobFromUrlOptions, BlockListType, BlockLookupList, CopyStatus,
    DeleteSnapshotsOptionType, HttpRange, LeaseState,
};
use futures::TryStreamExt;

use crate::support::{
    body, content, in_container, just_now, read, refused, same, service, soon, text, unique_name,
};

const MEBIBYTE: usize = 1024 * 1024;

fn pairs(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Beyond 4 MiB the client sends blocks and asks for ranges, several at a time.
#[tokio::test]
async fn upload_and_download() {
    in_container(async |container| {
        for size in [0, 1, 100_000, 4 * MEBIBYTE, 9 * MEBIBYTE + 5] {
            let (blob, data) = (container.blob(&format!("dir/{size} ü+%")), content(size, size as u64));
            let put = blob.upload(body(data.clone()), None).await.unwrap();
            same(&read(&blob).await, &data);
            let found = blob.get_properties(None).await.unwrap();
            assert_eq!(found.content_length().unwrap(), Some(size as u64));
            assert_eq!(found.blob_type().unwrap(), Some(BlobType::BlockBlob));
            assert_eq!(found.etag().unwrap(), put.etag);
        }
    })
    .await;
}

#[tokio::test]
async fn small_partitions() {
    in_container(async |container| {
        let (blob, data) = (container.blob("a"), content(2 * MEBIBYTE + 17, 1));
        let options = BlobClientUploadOptions {
            partition_size: NonZero::new(200_000),
            parallel: NonZero::new(4),
            blob_content_type: Some("image/png".to_owned()),
            metadata: Some(pairs(&[("kind", "x")])),
            ..Default::default()
        };
        blob.upload(body(data.clone()), Some(options)).await.unwrap();
        let blocks = blob.block_blob_client().get_block_list(BlockListType::All, None).await.unwrap();
        assert_eq!(blocks.into_model().unwrap().committed_blocks.unwrap().len(), 11);

        let options = || BlobClientDownloadOptions {
            partition_size: NonZero::new(300_000),
            parallel: NonZero::new(3),
            ..Default::default()
        };
        let got = blob.download(Some(options())).await.unwrap();
        assert_eq!(got.properties.content_type.as_deref(), Some("image/png"));
        assert_eq!(got.properties.metadata, pairs(&[("kind", "x")]));
        same(&got.body.collect().await.unwrap(), &data);
        let mut buffer = vec![0; data.len()];
        assert_eq!(blob.download_into(&mut buffer, Some(options())).await.unwrap().len, data.len());
        same(&buffer, &data);
    })
    .await;
}

#[tokio::test]
async fn ranges() {
    in_container(async |container| {
        let blob = container.put("a", "0123456789").await;
        for (range, want) in [
            (HttpRange::new(0, 3), "012"),
            (HttpRange::from_offset(7), "789"),
            (HttpRange::new(8, 100), "89"),
        ] {
            let options = BlobClientDownloadOptions { range: Some(range), ..Default::default() };
            let got = blob.download(Some(options)).await.unwrap();
            same(&got.body.collect().await.unwrap(), want.as_bytes());
        }
        let past_the_end = Some(HttpRange::new(10, 1));
        let options = BlobClientDownloadOptions { range: past_the_end, ..Default::default() };
        refused(blob.download(Some(options)).await, 416, "InvalidRange");
    })
    .await;
}

#[tokio::test]
async fn properties_and_metadata() {
    in_container(async |container| {
        let blob = container.put("a", "x").await;
        let options = BlobClientSetPropertiesOptions {
            blob_content_type: Some("text/csv".to_owned()),
            blob_cache_control: Some("no-cache".to_owned()),
            blob_content_language: Some("de".to_owned()),
            blob_content_disposition: Some("inline".to_owned()),
            blob_content_encoding: Some("br".to_owned()),
            ..Default::default()
        };
        blob.set_properties(Some(options)).await.unwrap();
        blob.set_metadata(&pairs(&[("one", "1"), ("two", "a b")]), None).await.unwrap();
        let found = blob.get_properties(None).await.unwrap();
        assert_eq!(found.content_type().unwrap().as_deref(), Some("text/csv"));
        assert_eq!(found.cache_control().unwrap().as_deref(), Some("no-cache"));
        assert_eq!(found.content_language().unwrap().as_deref(), Some("de"));
        assert_eq!(found.content_disposition().unwrap().as_deref(), Some("inline"));
        assert_eq!(found.content_encoding().unwrap().as_deref(), Some("br"));
        assert_eq!(found.metadata().unwrap(), pairs(&[("one", "1"), ("two", "a b")]));
        assert!(found.creation_time().unwrap().unwrap() > just_now());
        same(&read(&blob).await, b"x");
    })
    .await;
}

#[tokio::test]
async fn blocks() {
    in_container(async |container| {
        let blob = container.blob("a");
        let blocks = blob.block_blob_client();
        for id in ["1", "2", "3"] {
            blocks.stage_block(id.as_bytes(), 1, body(id), None).await.unwrap();
        }
        assert!(!blob.exists().await.unwrap());
        let list = blocks.get_block_list(BlockListType::All, None).await.unwrap().into_model().unwrap();
        assert_eq!(list.uncommitted_blocks.unwrap().len(), 3);
        let chosen = |ids: &[&str]| BlockLookupList {
            latest: Some(ids.iter().map(|id| id.as_bytes().to_vec()).collect()),
            ..Default::default()
        };
        blocks.commit_block_list(chosen(&["3", "1", "3"]).try_into().unwrap(), None).await.unwrap();
        assert_eq!(text(&blob).await, "313");
        let list = blocks.get_block_list(BlockListType::All, None).await.unwrap().into_model().unwrap();
        let committed: Vec<_> =
            list.committed_blocks.unwrap().into_iter().map(|block| block.name.unwrap()).collect();
        assert_eq!(committed, [b"3", b"1", b"3"]);
        assert_eq!(list.uncommitted_blocks.unwrap_or_default().len(), 0);
        refused(
            blocks.commit_block_list(chosen(&["2"]).try_into().unwrap(), None).await,
            400,
            "InvalidBlockList",
        );

        // Old and new blocks together.
        blocks.stage_block(b"4", 1, body("4"), None).await.unwrap();
        let mixed = BlockLookupList {
            committed: Some(vec![b"1".to_vec()]),
            uncommitted: Some(vec![b"4".to_vec()]),
            ..Default::default()
        };
        blocks.commit_block_list(mixed.try_into().unwrap(), None).await.unwrap();
        assert_eq!(text(&blob).await, "14");
    })
    .await;
}

#[tokio::test]
async fn conditions() {
    in_container(async |container| {
        let blob = container.blob("a");
        let new_only = || Some(BlobClientUploadOptions::default().if_not_exists());
        let old = blob.upload(body("one"), new_only()).await.unwrap().etag;
        refused(blob.upload(body("x"), new_only()).await, 409, "BlobAlreadyExists");
        let with = |etag: &Option<Etag>| {
            Some(BlobClientUploadOptions { if_match: etag.clone(), ..Default::default() })
        };
        let new = blob.upload(body("two"), with(&old)).await.unwrap().etag;
        refused(blob.upload(body("x"), with(&old)).await, 412, "ConditionNotMet");
        let options = BlobClientDownloadOptions { if_none_match: new.clone(), ..Default::default() };
        refused(blob.download(Some(options)).await, 304, "ConditionNotMet");
        let since =
            |time| Some(BlobClientDownloadOptions { if_modified_since: Some(time), ..Default::default() });
        refused(blob.download(since(soon())).await, 304, "ConditionNotMet");
        assert!(blob.download(since(just_now())).await.is_ok());
        let options = BlobClientDeleteOptions { if_match: old, ..Default::default() };
        refused(blob.delete(Some(options)).await, 412, "ConditionNotMet");
        assert_eq!(text(&blob).await, "two");
    })
    .await;
}

#[tokio::test]
async fn copies() {
    in_container(async |container| {
        let source = container.put("source", "0123456789").await;
        source.set_metadata(&pairs(&[("kind", "x")]), None).await.unwrap();
        let from = || source.url().to_string();

        let copy = container.blob("started");
        let started = copy.start_copy_from_url(from(), None).await.unwrap();
        assert_eq!(started.copy_status().unwrap(), Some(CopyStatus::Success));
        assert_eq!(text(&copy).await, "0123456789");
        let found = copy.get_properties(None).await.unwrap();
        assert_eq!(found.metadata().unwrap(), pairs(&[("kind", "x")]));
        assert_eq!(found.copy_id().unwrap(), started.copy_id().unwrap());
        refused(
            copy.abort_copy(&started.copy_id().unwrap().unwrap(), None).await,
            409,
            "NoPendingCopyOperation",
        );

        let copy = container.blob("put");
        copy.block_blob_client().upload_blob_from_url(from(), None).await.unwrap();
        assert_eq!(text(&copy).await, "0123456789");
        let new_only = BlockBlobClientUploadBlobFromUrlOptions::default().if_not_exists();
        refused(
            copy.block_blob_client().upload_blob_from_url(from(), Some(new_only)).await,
            409,
            "BlobAlreadyExists",
        );

        let copy = container.blob("blocks");
        copy.block_blob_client().stage_block_from_url(b"1", 0, from(), None).await.unwrap();
        let list = BlockLookupList { latest: Some(vec![b"1".to_vec(), b"1".to_vec()]), ..Default::default() };
        copy.block_blob_client().commit_block_list(list.try_into().unwrap(), None).await.unwrap();
        assert_eq!(text(&copy).await, "01234567890123456789");

        let missing = container.blob("missing").url().to_string();
        refused(container.blob("x").start_copy_from_url(missing, None).await, 404, "BlobNotFound");
    })
    .await;
}

#[tokio::test]
async fn snapshots() {
    in_container(async |container| {
        let blob = container.put("a", "old").await;
        let taken = blob.create_snapshot(None).await.unwrap().snapshot().unwrap().unwrap();
        blob.upload(body("new"), None).await.unwrap();
        assert_eq!(text(&blob.with_snapshot(&taken).unwrap()).await, "old");
        assert_eq!(text(&blob).await, "new");
        refused(blob.delete(None).await, 409, "SnapshotsPresent");
        let delete_snapshots = Some(DeleteSnapshotsOptionType::Include);
        blob.delete(Some(BlobClientDeleteOptions { delete_snapshots, ..Default::default() })).await.unwrap();
        assert!(!blob.exists().await.unwrap());
        assert!(!blob.with_snapshot(&taken).unwrap().exists().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn tags() {
    in_container(async |container| {
        let value = unique_name();
        let blob = container.blob("a b");
        let tags = pairs(&[("run", &value), ("path/of", "a+b:c=d/e.f_g-h i")]);
        let options = BlobClientUploadOptions::default().with_tags(tags.clone());
        blob.upload(body("x"), Some(options)).await.unwrap();
        let found: BlobTags = blob.get_tags(None).await.unwrap().into_model().unwrap();
        assert_eq!(HashMap::from(found), tags);

        let filter = format_filter_expression(&pairs(&[("run", &value)])).unwrap();
        let found: Vec<_> = service().find_blobs_by_tags(&filter, None).unwrap().try_collect().await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name.as_deref(), Some("a b"));
        assert_eq!(found[0].container_name.as_deref(), Some(container.name.as_str()));
        let client = container.official();
        let found: Vec<_> = client.find_blobs_by_tags(&filter, None).unwrap().try_collect().await.unwrap();
        assert_eq!(found.len(), 1);

        let none = BlobTags::from(HashMap::new());
        blob.set_tags(none.try_into().unwrap(), None).await.unwrap();
        let found: BlobTags = blob.get_tags(None).await.unwrap().into_model().unwrap();
        assert_eq!(HashMap::from(found), HashMap::new());
        let found: Vec<_> = client.find_blobs_by_tags(&filter, None).unwrap().try_collect().await.unwrap();
        assert_eq!(found.len(), 0);
    })
    .await;
}

#[tokio::test]
async fn tiers() {
    in_container(async |container| {
        let blob = container.put("a", "x").await;
        for (tier, name) in [(AccessTier::Cool, "Cool"), (AccessTier::Cold, "Cold"), (AccessTier::Hot, "Hot")]
        {
            blob.set_tier(tier, None).await.unwrap();
            assert_eq!(
                blob.get_properties(None).await.unwrap().access_tier().unwrap().as_deref(),
                Some(name)
            );
        }
        blob.set_tier(AccessTier::Archive, None).await.unwrap();
        refused(blob.download(None).await, 409, "BlobArchived");
    })
    .await;
}

#[tokio::test]
async fn leases() {
    in_container(async |container| {
        let blob = container.put("a", "old").await;
        let id = blob.acquire_lease(15, None).await.unwrap().lease_id().unwrap().unwrap();
        assert_eq!(blob.get_properties(None).await.unwrap().lease_state().unwrap(), Some(LeaseState::Leased));
        refused(blob.upload(body("x"), None).await, 412, "LeaseIdMissing");
        refused(blob.delete(None).await, 412, "LeaseIdMissing");
        let with =
            |id: &str| Some(BlobClientUploadOptions { lease_id: Some(id.to_owned()), ..Default::default() });
        blob.upload(body("new"), with(&id)).await.unwrap();
        let proposed = "11111111-2222-3333-4444-555555555555".to_owned();
        let changed = blob.change_lease(id.clone(), proposed.clone(), None).await.unwrap();
        assert_eq!(changed.lease_id().unwrap(), Some(proposed.clone()));
        refused(blob.upload(body("x"), with(&id)).await, 412, "LeaseIdMismatchWithBlobOperation");
        blob.renew_lease(proposed.clone(), None).await.unwrap();
        blob.release_lease(proposed, None).await.unwrap();
        blob.acquire_lease(-1, None).await.unwrap();
        blob.break_lease(None).await.unwrap();
        assert_eq!(blob.get_properties(None).await.unwrap().lease_state().unwrap(), Some(LeaseState::Broken));
        assert_eq!(text(&blob).await, "new");
        blob.delete(None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn delete() {
    in_container(async |container| {
        let blob = container.put("a", "x").await;
        assert!(blob.exists().await.unwrap());
        blob.delete(None).await.unwrap();
        assert!(!blob.exists().await.unwrap());
        refused(blob.delete(None).await, 404, "BlobNotFound");
        refused(blob.download(None).await, 404, "BlobNotFound");
        refused(blob.get_properties(None).await, 404, "BlobNotFound");
    })
    .await;
}
