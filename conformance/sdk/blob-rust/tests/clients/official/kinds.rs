//! Append blobs and page blobs.

use azure_storage_blob::models::{
    AppendBlobClientAppendBlockFromUrlOptions, AppendBlobClientAppendBlockOptions,
    AppendBlobClientAppendBlockResultHeaders, AppendBlobClientCreateOptions,
    BlobClientGetPropertiesResultHeaders, BlobType, HttpRange, PageBlobClientCreateOptions,
    PageBlobClientSetSequenceNumberOptions, PageBlobClientUploadPagesOptions, SequenceNumberActionType,
};
use futures::TryStreamExt;
use futures::future::join_all;

use crate::support::{body, content, in_container, read, refused, same, text};

#[tokio::test]
async fn append() {
    in_container(async |container| {
        let source = container.put("source", "0123456789").await;
        let blob = container.blob("log");
        let log = blob.append_blob_client();
        log.create(None).await.unwrap();
        let new_only = AppendBlobClientCreateOptions::default().if_not_exists();
        refused(log.create(Some(new_only)).await, 409, "BlobAlreadyExists");
        log.append_block(body("one"), 3, None).await.unwrap();
        let at = |position| {
            Some(AppendBlobClientAppendBlockOptions { append_position: Some(position), ..Default::default() })
        };
        let second = log.append_block(body("two"), 3, at(3)).await.unwrap();
        assert_eq!(second.blob_append_offset().unwrap().as_deref(), Some("3"));
        assert_eq!(second.blob_committed_block_count().unwrap(), Some(2));
        refused(log.append_block(body("x"), 1, at(3)).await, 412, "AppendPositionConditionNotMet");
        let options = AppendBlobClientAppendBlockFromUrlOptions {
            source_range: Some(HttpRange::new(2, 3)),
            ..Default::default()
        };
        log.append_block_from_url(source.url().to_string(), 0, Some(options)).await.unwrap();
        assert_eq!(text(&blob).await, "onetwo234");

        let appends = (0..10).map(|_| log.append_block(body("x"), 1, None));
        for outcome in join_all(appends).await {
            outcome.unwrap();
        }
        assert_eq!(text(&blob).await, "onetwo234xxxxxxxxxx");
        log.seal(None).await.unwrap();
        refused(log.append_block(body("x"), 1, None).await, 409, "BlobIsSealed");
        let found = blob.get_properties(None).await.unwrap();
        assert_eq!(found.blob_type().unwrap(), Some(BlobType::AppendBlob));
        assert_eq!(
            (found.is_sealed().unwrap(), found.blob_committed_block_count().unwrap()),
            (Some(true), Some(13))
        );
    })
    .await;
}

#[tokio::test]
async fn pages() {
    in_container(async |container| {
        let blob = container.blob("disk");
        let disk = blob.page_blob_client();
        disk.create(8192, Some(PageBlobClientCreateOptions::default().if_not_exists())).await.unwrap();
        let data = content(1024, 1);
        disk.upload_pages(body(data.clone()), 1024, HttpRange::new(512, 1024), None).await.unwrap();
        disk.upload_pages(body(data.clone()), 1024, HttpRange::new(4096, 1024), None).await.unwrap();
        disk.clear_pages(HttpRange::new(4096, 512), None).await.unwrap();
        let mut want = vec![0; 8192];
        want[512..1536].copy_from_slice(&data);
        want[4608..5120].copy_from_slice(&data[512..]);
        same(&read(&blob).await, &want);

        let lists: Vec<_> = disk.list_page_ranges(None).unwrap().try_collect().await.unwrap();
        let ranges: Vec<_> = lists
            .into_iter()
            .flat_map(|list| list.into_model().unwrap().page_ranges)
            .map(|range| (range.start.unwrap(), range.end.unwrap()))
            .collect();
        assert_eq!(ranges, [(512, 1535), (4608, 5119)]);

        disk.resize(1024, None).await.unwrap();
        want.truncate(1024);
        same(&read(&blob).await, &want);
        refused(
            disk.upload_pages(body(data.clone()), 1024, HttpRange::new(512, 1024), None).await,
            416,
            "InvalidPageRange",
        );
    })
    .await;
}

#[tokio::test]
async fn sequence_number() {
    in_container(async |container| {
        let blob = container.blob("disk");
        let disk = blob.page_blob_client();
        disk.create(512, None).await.unwrap();
        let to =
            PageBlobClientSetSequenceNumberOptions { blob_sequence_number: Some(7), ..Default::default() };
        disk.set_sequence_number(SequenceNumberActionType::Update, Some(to)).await.unwrap();
        disk.set_sequence_number(SequenceNumberActionType::Increment, None).await.unwrap();
        let found = blob.get_properties(None).await.unwrap();
        assert_eq!(found.blob_sequence_number().unwrap(), Some(8));
        assert_eq!(found.blob_type().unwrap(), Some(BlobType::PageBlob));
        let below = |number| PageBlobClientUploadPagesOptions {
            if_sequence_number_less_than: Some(number),
            ..Default::default()
        };
        let page = content(512, 2);
        let put =
            |number| disk.upload_pages(body(page.clone()), 512, HttpRange::new(0, 512), Some(below(number)));
        refused(put(8).await, 412, "SequenceNumberConditionNotMet");
        put(9).await.unwrap();
        same(&read(&blob).await, &page);
    })
    .await;
}

#[tokio::test]
async fn wrong_kind() {
    in_container(async |container| {
        let blob = container.put("a", "x").await;
        refused(blob.append_blob_client().append_block(body("x"), 1, None).await, 409, "InvalidBlobType");
        refused(blob.page_blob_client().resize(512, None).await, 409, "InvalidBlobType");
        assert_eq!(text(&blob).await, "x");
    })
    .await;
}
