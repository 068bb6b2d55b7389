//! Tepui's own Blob service, as what az:// names.

use crate::subject::{Objects, options, stored};
use std::sync::Arc;
use tepui_client_testing::TestServer;
use tepui_objects::{Environment, ObjectExtents, ObjectOptions, open_store};
use tepui_storage::contract::extents::{check, content};
use tepui_storage::{ExtentWriter, Extents, StorageErrorKind};

/// A field of a connection string.
fn field<'a>(connection_string: &'a str, name: &str) -> &'a str {
    let fields = connection_string.split(';').filter_map(|field| field.split_once('='));
    fields.into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_service_keeps_the_contract() {
    let server = TestServer::start().await;
    server.account().container("tepui").unwrap().create_if_missing().await.unwrap();
    let connection_string = server.connection_string();
    let of_key = |key: &str| {
        let variables = [
            ("AZURE_STORAGE_ACCOUNT_NAME", field(&connection_string, "AccountName")),
            ("AZURE_STORAGE_ACCOUNT_KEY", key),
            ("AZURE_STORAGE_ENDPOINT", field(&connection_string, "BlobEndpoint")),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let url = "az://tepui/some/prefix".to_owned();
        ObjectOptions { url, environment: Environment::of(variables), ..options() }
    };
    let options = of_key(field(&connection_string, "AccountKey"));
    let (store, prefix) = open_store(&options).unwrap();
    check(&mut Objects::open(Arc::clone(&store), prefix.clone(), options.clone()).await).await;

    let extents = ObjectExtents::open(options).await.unwrap();
    let long = content(12_000_000, 1);
    let mut writer = extents.begin().await.unwrap();
    writer.write(long.clone().into()).await.unwrap();
    let extent = writer.finish().await.unwrap();
    assert!(extents.read(extent, 0..extent.bytes).await.unwrap().concat() == long);
    let before = stored(&store, &prefix).await.len();
    extents.free(vec![extent; 3]).await.unwrap();
    assert_eq!(stored(&store, &prefix).await.len(), before - 1);

    let refused = ObjectExtents::open(of_key("d3Jvbmc=")).await.map(|extents| extents.store()).unwrap_err();
    assert_eq!(refused.kind(), StorageErrorKind::Failed, "{refused}");
}
