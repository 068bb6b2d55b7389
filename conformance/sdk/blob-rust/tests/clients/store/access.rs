//! Keys, tokens, signed addresses, and none of them.

use std::time::Duration;

use azure_storage_blob::models::{
    BlobContainerClientSetAccessPolicyOptions, PublicAccessType, SignedIdentifiers,
};
use futures::{StreamExt, TryStreamExt};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::path::Path;
use object_store::signer::Signer;
use object_store::{Error, ObjectStore, ObjectStoreExt, RetryConfig};
use reqwest::{Method, StatusCode};

use crate::support::{Container, KEY, WRONG_KEY, account_token, in_container, just_now, same, soon};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn wrong_key() {
    in_container(async |container| {
        container.put("a", "x").await;
        let (store, path) =
            (container.builder().with_access_key(WRONG_KEY).build().unwrap(), Path::from("a"));
        let outcomes = [
            store.get(&path).await.err(),
            store.put(&path, "new".into()).await.err(),
            store.copy(&path, &Path::from("b")).await.err(),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Some(Error::PermissionDenied { .. })), "{outcome:?}");
        }
        // The client has no kind of its own for lists and batches that are refused.
        let list = store.list(None).try_collect::<Vec<_>>().await.unwrap_err().to_string();
        let delete = store.delete(&path).await.unwrap_err().to_string();
        assert!(
            list.contains("AuthenticationFailed") && delete.contains("AuthenticationFailed"),
            "{list} {delete}"
        );
        same(&container.store().get(&path).await.unwrap().bytes().await.unwrap(), b"x");
    })
    .await;
}

#[tokio::test]
async fn no_container() {
    let container = Container::unique();
    let (store, path) = (container.store(), Path::from("a"));
    let outcomes = [
        store.get(&path).await.err(),
        store.head(&path).await.err(),
        store.put(&path, "new".into()).await.err(),
        store.put_multipart(&path).await.unwrap().put_part("x".into()).await.err(),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Some(Error::NotFound { .. })), "{outcome:?}");
    }
    let list = store.list(None).try_collect::<Vec<_>>().await.unwrap_err().to_string();
    assert!(list.contains("ContainerNotFound"), "{list}");
}

#[tokio::test]
async fn container_token() {
    in_container(async |container| {
        let token = container.token("rwdl", soon());
        let store = container.builder().with_sas_authorization(token).build().unwrap();
        ordinary_work(&store).await;
    })
    .await;
}

#[tokio::test]
async fn token_of_the_account() {
    in_container(async |container| {
        let token = account_token("rwdl", KEY);
        let store = container.builder().with_sas_authorization(token).build().unwrap();
        ordinary_work(&store).await;
    })
    .await;
}

/// A little of everything.
async fn ordinary_work(store: &impl ObjectStore) {
    let (path, copy) = (Path::from("dir/a b+c"), Path::from("copy"));
    store.put(&path, "one".into()).await.unwrap();
    same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"one");
    store.copy(&path, &copy).await.unwrap();
    same(&store.get_range(&copy, 1..3).await.unwrap(), b"ne");
    let mut upload = store.put_multipart(&path).await.unwrap();
    upload.put_part("two ".into()).await.unwrap();
    upload.put_part("parts".into()).await.unwrap();
    upload.complete().await.unwrap();
    same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"two parts");
    let listed: Vec<_> = store.list(None).map_ok(|each| each.location).try_collect().await.unwrap();
    assert_eq!(listed, [copy.clone(), path.clone()]);
    let after: Vec<_> =
        store.list_with_offset(None, &copy).map_ok(|each| each.location).try_collect().await.unwrap();
    assert_eq!(after, std::slice::from_ref(&path));
    let removed = store.delete_stream(futures::stream::iter([Ok(path.clone()), Ok(copy.clone())]).boxed());
    assert_eq!(removed.try_collect::<Vec<_>>().await.unwrap(), [path.clone(), copy]);
    assert!(matches!(store.head(&path).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn token_to_read() {
    in_container(async |container| {
        container.put("a", "x").await;
        let token = container.token("rl", soon());
        let (store, path) =
            (container.builder().with_sas_authorization(token).build().unwrap(), Path::from("a"));
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"x");
        assert_eq!(store.list(None).count().await, 1);
        let put = store.put(&path, "new".into()).await;
        assert!(matches!(put, Err(Error::PermissionDenied { .. })), "{put:?}");
        let delete = store.delete(&path).await.unwrap_err().to_string();
        assert!(delete.contains("403"), "{delete}");
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"x");
    })
    .await;
}

#[tokio::test]
async fn token_that_expired() {
    in_container(async |container| {
        container.put("a", "x").await;
        let token = container.token("rl", just_now());
        let store = container.builder().with_sas_authorization(token).build().unwrap();
        let outcome = store.get(&Path::from("a")).await;
        assert!(matches!(outcome, Err(Error::PermissionDenied { .. })), "{outcome:?}");
    })
    .await;
}

#[tokio::test]
async fn signed_addresses() {
    in_container(async |container| {
        let (store, path, http) = (container.store(), Path::from("dir/a.txt"), reqwest::Client::new());
        let address = store.signed_url(Method::PUT, &path, HOUR).await.unwrap();
        let put = http
            .put(address.clone())
            .header("x-ms-blob-type", "BlockBlob")
            .body("signed")
            .send()
            .await
            .unwrap();
        assert_eq!(put.status(), StatusCode::CREATED);
        assert_eq!(http.get(address).send().await.unwrap().status(), StatusCode::FORBIDDEN);

        let paths = [path.clone(), Path::from("missing")];
        let addresses = store.signed_urls(Method::GET, &paths, HOUR).await.unwrap();
        let got = http.get(addresses[0].clone()).send().await.unwrap();
        assert_eq!(got.status(), StatusCode::OK);
        same(&got.bytes().await.unwrap(), b"signed");
        assert_eq!(http.get(addresses[1].clone()).send().await.unwrap().status(), StatusCode::NOT_FOUND);
        let mut elsewhere = addresses[1].clone();
        elsewhere.set_path(addresses[0].path());
        assert_eq!(http.get(elsewhere).send().await.unwrap().status(), StatusCode::FORBIDDEN);

        let address = store.signed_url(Method::DELETE, &path, HOUR).await.unwrap();
        assert_eq!(http.delete(address).send().await.unwrap().status(), StatusCode::ACCEPTED);
        assert!(matches!(store.head(&path).await, Err(Error::NotFound { .. })));
    })
    .await;
}

/// The client signs such a name as it is escaped in the address, where the service wants it as it is.
#[tokio::test]
async fn signed_address_of_an_odd_name() {
    in_container(async |container| {
        let (store, path) = (container.store(), Path::from("a b"));
        store.put(&path, "x".into()).await.unwrap();
        let address = store.signed_url(Method::GET, &path, HOUR).await.unwrap();
        assert_eq!(reqwest::get(address).await.unwrap().status(), StatusCode::FORBIDDEN);
    })
    .await;
}

#[tokio::test]
async fn nobody() {
    in_container(async |container| {
        container.put("a", "x").await;
        let (store, path) = (container.builder().with_skip_signature(true).build().unwrap(), Path::from("a"));
        assert!(store.get(&path).await.is_err());
        let everybody = BlobContainerClientSetAccessPolicyOptions {
            access: Some(PublicAccessType::Container),
            ..Default::default()
        };
        let none = SignedIdentifiers::default().try_into().unwrap();
        container.official_by_key().set_access_policy(none, Some(everybody)).await.unwrap();
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"x");
        assert_eq!(store.list(None).count().await, 1);
        assert!(store.put(&path, "new".into()).await.is_err());
        same(&store.get(&path).await.unwrap().bytes().await.unwrap(), b"x");
    })
    .await;
}

/// The settings for an emulator: the account is in the path, and its key is known.
#[tokio::test]
async fn emulator() {
    in_container(async |container| {
        // The client finds it by AZURITE_BLOB_STORAGE_URL.
        let store = MicrosoftAzureBuilder::new()
            .with_use_emulator(true)
            .with_container_name(&container.name)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .build()
            .unwrap();
        ordinary_work(&store).await;
    })
    .await;
}
