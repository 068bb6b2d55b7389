//! What tokens allow. The client has no credentials of its own but those of Entra, which need HTTPS.

use azure_storage_blob::{BlobClient, BlobClientOptions, StorageError};

use crate::support::{
    Container, KEY, Token, WRONG_KEY, account_token, address, body, in_container, just_now, no_retries,
    refused, service_by, soon, text,
};

fn with_token(container: &Container, name: &str, token: &Token) -> BlobClient {
    let address = address(&format!("/{}/{name}", container.name), token);
    let options = BlobClientOptions { client_options: no_retries(), ..Default::default() };
    BlobClient::new(address, None, Some(options)).unwrap()
}

#[tokio::test]
async fn rights() {
    in_container(async |container| {
        container.put("a", "old").await;
        let with = |letters| with_token(&container, "a", &container.token(letters, soon()));
        let denied = "AuthorizationPermissionMismatch";
        assert_eq!(text(&with("r")).await, "old");
        refused(with("wdl").download(None).await, 403, denied);
        refused(with("rdl").upload(body("x"), None).await, 403, denied);
        refused(with("rwl").delete(None).await, 403, denied);
        assert_eq!(text(&with("r")).await, "old");
        with("w").upload(body("new"), None).await.unwrap();
        assert_eq!(text(&with("r")).await, "new");
        with("d").delete(None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn refused_tokens() {
    in_container(async |container| {
        container.put("a", "x").await;
        let expired = container.token("r", just_now());
        refused(with_token(&container, "a", &expired).download(None).await, 403, "AuthenticationFailed");
        let forged = account_token("r", WRONG_KEY);
        refused(with_token(&container, "a", &forged).download(None).await, 403, "AuthenticationFailed");
        let elsewhere = Container::unique().token("r", soon());
        refused(with_token(&container, "a", &elsewhere).download(None).await, 403, "AuthenticationFailed");
    })
    .await;
}

/// The client reads everything that an error says.
#[tokio::test]
async fn errors() {
    in_container(async |container| {
        container.put("a", "x").await;
        let service = service_by(&account_token("r", KEY));
        let refusal = service.blob_client(&container.name, "a").upload(body("new"), None).await.unwrap_err();
        let error = StorageError::try_from(refusal).unwrap();
        assert_eq!(error.error_code.unwrap().as_ref(), "AuthorizationPermissionMismatch");
        assert!(error.message.unwrap().starts_with("This request is not authorized"));
        assert!(error.request_id.is_some());
        let refusal = service_by(&account_token("r", WRONG_KEY))
            .blob_client(&container.name, "a")
            .download(None)
            .await
            .unwrap_err();
        let error = StorageError::try_from(refusal).unwrap();
        assert_eq!(error.error_code.unwrap().as_ref(), "AuthenticationFailed");
        assert!(error.authentication_error_detail.is_some());
    })
    .await;
}
