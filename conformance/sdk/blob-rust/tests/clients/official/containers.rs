//! Containers and the service as a whole.

use std::collections::HashMap;

use azure_storage_blob::BlobContainerClient;
use azure_storage_blob::models::{
    AccessPolicy, AccountKind, BlobContainerClientAcquireLeaseResultHeaders,
    BlobContainerClientCreateOptions, BlobContainerClientDeleteOptions,
    BlobContainerClientGetPropertiesResultHeaders, BlobContainerClientListBlobsOptions,
    BlobServiceClientGetAccountInfoResultHeaders, BlobServiceClientListContainersOptions, BlobType,
    LeaseState, ListBlobsIncludeItem, ListContainersIncludeType, SignedIdentifiers,
};
use futures::TryStreamExt;

use crate::support::{
    Container, body, in_container, just_now, refused, removing, service, soon, unique_name,
};

fn metadata(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[tokio::test]
async fn create_and_delete() {
    let made = Container::unique();
    let container = made.official();
    removing(&[made], async {
        assert!(!container.exists().await.unwrap());
        container.create(None).await.unwrap();
        assert!(container.exists().await.unwrap());
        refused(container.create(None).await, 409, "ContainerAlreadyExists");
        container.delete(None).await.unwrap();
        assert!(!container.exists().await.unwrap());
        refused(container.delete(None).await, 404, "ContainerNotFound");
        refused(container.blob_client("a").upload(body("x"), None).await, 404, "ContainerNotFound");
    })
    .await;
}

#[tokio::test]
async fn properties_and_metadata() {
    let made = Container::unique();
    let container = made.official();
    removing(&[made], async {
        let options = BlobContainerClientCreateOptions {
            metadata: Some(metadata(&[("kind", "x")])),
            ..Default::default()
        };
        container.create(Some(options)).await.unwrap();
        let made = container.get_properties(None).await.unwrap();
        assert_eq!(made.metadata().unwrap(), metadata(&[("kind", "x")]));
        assert_eq!(made.lease_state().unwrap(), Some(LeaseState::Available));
        assert!(made.access().unwrap().is_none() && made.last_modified().unwrap().unwrap() > just_now());
        container.set_metadata(&metadata(&[("one", "1"), ("two", "2")]), None).await.unwrap();
        let changed = container.get_properties(None).await.unwrap();
        assert_eq!(changed.metadata().unwrap(), metadata(&[("one", "1"), ("two", "2")]));
        assert_ne!(changed.etag().unwrap(), made.etag().unwrap());
    })
    .await;
}

#[tokio::test]
async fn list_containers() {
    let prefix = unique_name();
    let names: Vec<_> = (0..5).map(|number| format!("{prefix}-{number}")).collect();
    let containers: Vec<_> = names.iter().map(|name| Container { name: name.clone() }).collect();
    removing(&containers, async {
        for container in &containers {
            let metadata = Some(metadata(&[("kind", "x")]));
            let options = BlobContainerClientCreateOptions { metadata, ..Default::default() };
            container.official().create(Some(options)).await.unwrap();
        }
        let options = BlobServiceClientListContainersOptions {
            prefix: Some(prefix),
            maxresults: Some(2),
            include: Some(vec![ListContainersIncludeType::Metadata]),
            ..Default::default()
        };
        let pages = service().list_containers(Some(options)).unwrap().into_pages();
        let pages: Vec<_> = pages.map_ok(|page| page.into_model().unwrap()).try_collect().await.unwrap();
        assert_eq!(pages.iter().map(|page| page.container_items.len()).collect::<Vec<_>>(), [2, 2, 1]);
        let items: Vec<_> = pages.into_iter().flat_map(|page| page.container_items).collect();
        assert_eq!(items.iter().map(|item| item.name.clone().unwrap()).collect::<Vec<_>>(), names);
        for item in items {
            assert_eq!(item.metadata, Some(metadata(&[("kind", "x")])));
            assert!(item.properties.unwrap().etag.is_some());
        }
    })
    .await;
}

async fn names(
    container: &BlobContainerClient,
    options: BlobContainerClientListBlobsOptions<'_>,
) -> Vec<String> {
    let items: Vec<_> = container.list_blobs(Some(options)).unwrap().try_collect().await.unwrap();
    items.into_iter().map(|item| item.name.unwrap()).collect()
}

#[tokio::test]
async fn list_blobs() {
    in_container(async |container| {
        let all = ["a b", "dir/1", "dir/2", "dir/ü%+", "z"];
        for name in all {
            container.put(name, "text").await;
        }
        let client = container.official();
        let options = BlobContainerClientListBlobsOptions::default;
        assert_eq!(names(&client, options()).await, all);
        let prefix = Some("dir/".to_owned());
        assert_eq!(
            names(&client, BlobContainerClientListBlobsOptions { prefix, ..options() }).await,
            all[1..4]
        );
        let start_from = Some("dir/2".to_owned());
        assert_eq!(
            names(&client, BlobContainerClientListBlobsOptions { start_from, ..options() }).await,
            all[2..]
        );

        let paged = BlobContainerClientListBlobsOptions { maxresults: Some(2), ..options() };
        let pages = client.list_blobs(Some(paged)).unwrap().into_pages();
        let pages: Vec<_> = pages.map_ok(|page| page.into_model().unwrap()).try_collect().await.unwrap();
        assert_eq!(pages.iter().map(|page| page.blob_items.len()).collect::<Vec<_>>(), [2, 2, 1]);
        // A list goes on from the marker of an earlier one.
        let marker = pages[0].next_marker.clone();
        assert_eq!(
            names(&client, BlobContainerClientListBlobsOptions { marker, ..options() }).await,
            all[2..]
        );
        let first = pages[0].blob_items[0].properties.as_ref().unwrap();
        assert_eq!((first.content_length, first.blob_type), (Some(4), Some(BlobType::BlockBlob)));
        assert!(first.etag.is_some() && first.last_modified.unwrap() > just_now());
    })
    .await;
}

#[tokio::test]
async fn list_with_details() {
    in_container(async |container| {
        let blob = container.put("a", "old").await;
        blob.set_metadata(&metadata(&[("kind", "x")]), None).await.unwrap();
        blob.create_snapshot(None).await.unwrap();
        container.blob("b").block_blob_client().stage_block(b"1", 1, body("x"), None).await.unwrap();
        let include = vec![
            ListBlobsIncludeItem::Metadata,
            ListBlobsIncludeItem::Snapshots,
            ListBlobsIncludeItem::UncommittedBlobs,
        ];
        let options = BlobContainerClientListBlobsOptions { include: Some(include), ..Default::default() };
        let client = container.official();
        let items: Vec<_> = client.list_blobs(Some(options)).unwrap().try_collect().await.unwrap();
        let found: Vec<_> = items
            .iter()
            .map(|item| {
                let kind = item.metadata.as_ref().and_then(|metadata| metadata.values.as_ref()?.get("kind"));
                (item.name.as_deref().unwrap(), item.snapshot.is_some(), kind.map(String::as_str))
            })
            .collect();
        assert_eq!(found, [("a", true, Some("x")), ("a", false, Some("x")), ("b", false, None)]);
    })
    .await;
}

#[tokio::test]
async fn access_policy() {
    in_container(async |container| {
        let client = container.official_by_key();
        let expiry = soon().replace_nanosecond(0).unwrap();
        let policy = AccessPolicy {
            expiry: Some(expiry),
            permission: Some("rl".to_owned()),
            ..AccessPolicy::default()
        };
        let policies = SignedIdentifiers::from(HashMap::from([("reader".to_owned(), policy)]));
        client.set_access_policy(policies.try_into().unwrap(), None).await.unwrap();
        let found = client.get_access_policy(None).await.unwrap().into_model().unwrap().items.unwrap();
        let policy = found[0].access_policy.clone().unwrap();
        assert_eq!((found.len(), found[0].id.as_deref()), (1, Some("reader")));
        assert_eq!((policy.expiry, policy.permission.as_deref()), (Some(expiry), Some("rl")));
        refused(container.official().get_access_policy(None).await, 403, "AuthorizationFailure");
    })
    .await;
}

#[tokio::test]
async fn lease() {
    let made = Container::unique();
    let container = made.official();
    removing(&[made], async {
        container.create(None).await.unwrap();
        let id = container.acquire_lease(15, None).await.unwrap().lease_id().unwrap().unwrap();
        assert_eq!(
            container.get_properties(None).await.unwrap().lease_state().unwrap(),
            Some(LeaseState::Leased)
        );
        refused(container.delete(None).await, 412, "LeaseIdMissing");
        refused(container.acquire_lease(15, None).await, 409, "LeaseAlreadyPresent");
        container.renew_lease(id.clone(), None).await.unwrap();
        let options = BlobContainerClientDeleteOptions { lease_id: Some(id), ..Default::default() };
        container.delete(Some(options)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn account() {
    let info = service().get_account_info(None).await.unwrap();
    assert_eq!(info.account_kind().unwrap(), Some(AccountKind::StorageV2));
    let properties = service().get_properties(None).await.unwrap().into_model().unwrap();
    assert!(properties.logging.is_some() && properties.hour_metrics.is_some());
}
