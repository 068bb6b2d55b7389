//! What the tests share: the server, tokens, containers that go away, and bytes to store.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;

use azure_core::error::ErrorKind;
use azure_core::http::policies::Policy;
use azure_core::http::{ClientOptions, RequestContent, RetryOptions, Url};
use azure_core::time::{OffsetDateTime, to_rfc3339};
use azure_core::{Bytes, Uuid, base64};
use azure_storage_blob::{
    BlobClient, BlobContainerClient, BlobContainerClientOptions, BlobServiceClient, BlobServiceClientOptions,
};
use futures::FutureExt;
use object_store::RetryConfig;
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use ring::hmac;

use crate::shared_key::SharedKey;

pub(crate) const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
pub(crate) const WRONG_KEY: &str =
    "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmc=";
const VERSION: &str = "2022-11-02";

/// Where the server is. Every client begins here, and wants to know who would encrypt, although nobody does.
pub(crate) fn endpoint() -> String {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| rustls::crypto::ring::default_provider().install_default().unwrap());
    std::env::var("TEPUI_ENDPOINT").expect("TEPUI_ENDPOINT says where the blob service is")
}

pub(crate) fn unique_name() -> String {
    format!("sdk{}", Uuid::new_v4().simple())
}

/// Runs a test in a container of its own.
pub(crate) async fn in_container(test: impl AsyncFnOnce(Container)) {
    let container = Container::unique();
    container.official().create(None).await.unwrap();
    removing(std::slice::from_ref(&container), test(container.clone())).await;
}

/// Runs a test and removes its containers, also if it fails.
pub(crate) async fn removing(containers: &[Container], test: impl Future<Output = ()>) {
    let outcome = AssertUnwindSafe(test).catch_unwind().await;
    for container in containers {
        // Those of some tests are gone already.
        let _ = container.official().delete(None).await;
    }
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

#[derive(Clone)]
pub(crate) struct Container {
    pub(crate) name: String,
}

impl Container {
    pub(crate) fn unique() -> Self {
        Self { name: unique_name() }
    }

    /// As object_store sees it, with the key of the account.
    pub(crate) fn store(&self) -> MicrosoftAzure {
        self.builder().with_access_key(KEY).build().unwrap()
    }

    /// The same without a credential.
    pub(crate) fn builder(&self) -> MicrosoftAzureBuilder {
        MicrosoftAzureBuilder::new()
            .with_account(ACCOUNT)
            .with_container_name(&self.name)
            .with_endpoint(endpoint())
            .with_allow_http(true)
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
    }

    /// As the official client sees it.
    pub(crate) fn official(&self) -> BlobContainerClient {
        service().blob_container_client(&self.name)
    }

    /// The same with the key of the account, for what no token may do.
    pub(crate) fn official_by_key(&self) -> BlobContainerClient {
        let per_try_policies: Vec<Arc<dyn Policy>> = vec![Arc::new(SharedKey)];
        let client_options = ClientOptions { per_try_policies, ..no_retries() };
        let options = BlobContainerClientOptions { client_options, ..Default::default() };
        BlobContainerClient::new(address(&format!("/{}", self.name), &[]), None, Some(options)).unwrap()
    }

    pub(crate) fn blob(&self, name: &str) -> BlobClient {
        self.official().blob_client(name)
    }

    pub(crate) async fn put(&self, name: &str, text: &'static str) -> BlobClient {
        let blob = self.blob(name);
        blob.upload(body(text), None).await.unwrap();
        blob
    }

    /// A token of this container.
    pub(crate) fn token(&self, letters: &str, expiry: OffsetDateTime) -> Token {
        let (expiry, resource) = (seconds(expiry), format!("/blob/{ACCOUNT}/{}", self.name));
        let signed = [letters, "", &expiry, &resource, "", "", "", VERSION, "c", "", "", "", "", "", "", ""];
        let signature = sign(&signed, KEY);
        token([("sp", letters), ("se", &expiry), ("sv", VERSION), ("sr", "c"), ("sig", &signature)])
    }
}

/// The whole service, with a token for the account.
pub(crate) fn service() -> BlobServiceClient {
    service_by(&account_token("rwdxylactfi", KEY))
}

pub(crate) fn service_by(token: &Token) -> BlobServiceClient {
    let options = BlobServiceClientOptions { client_options: no_retries(), ..Default::default() };
    BlobServiceClient::new(address("", token), None, Some(options)).unwrap()
}

pub(crate) fn no_retries() -> ClientOptions {
    ClientOptions { retry: RetryOptions::none(), ..Default::default() }
}

/// The parameters of a shared access signature.
pub(crate) type Token = Vec<(String, String)>;

pub(crate) fn account_token(letters: &str, key: &str) -> Token {
    let expiry = seconds(soon());
    let signature = sign(&[ACCOUNT, letters, "b", "sco", "", &expiry, "", "", VERSION, "", ""], key);
    token([
        ("sp", letters),
        ("ss", "b"),
        ("srt", "sco"),
        ("se", &expiry),
        ("sv", VERSION),
        ("sig", &signature),
    ])
}

fn token<const N: usize>(pairs: [(&str, &str); N]) -> Token {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

pub(crate) fn sign(fields: &[impl AsRef<str>], key: &str) -> String {
    let lines: Vec<_> = fields.iter().map(AsRef::as_ref).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &base64::decode(key).unwrap());
    base64::encode(hmac::sign(&key, lines.join("\n").as_bytes()))
}

/// Where something below the account is, with a token.
pub(crate) fn address(path: &str, token: &[(String, String)]) -> Url {
    let mut url = Url::parse(&format!("{}{path}", endpoint())).unwrap();
    if !token.is_empty() {
        url.query_pairs_mut().extend_pairs(token);
    }
    url
}

pub(crate) fn soon() -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::from_secs(600)
}

pub(crate) fn just_now() -> OffsetDateTime {
    OffsetDateTime::now_utc() - Duration::from_secs(60)
}

fn seconds(time: OffsetDateTime) -> String {
    to_rfc3339(&time.replace_nanosecond(0).unwrap())
}

/// Bytes without a pattern, the same for the same seed.
pub(crate) fn content(size: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes.into()
}

/// Not `assert_eq!`, which would print megabytes.
#[track_caller]
pub(crate) fn same(got: &[u8], want: &[u8]) {
    assert!(got == want, "got {} other bytes than the {} wanted", got.len(), want.len());
}

pub(crate) fn body<T, F>(data: impl Into<Bytes>) -> RequestContent<T, F> {
    let data: Bytes = data.into();
    data.into()
}

pub(crate) async fn read(blob: &BlobClient) -> Bytes {
    blob.download(None).await.unwrap().body.collect().await.unwrap()
}

pub(crate) async fn text(blob: &BlobClient) -> String {
    String::from_utf8(read(blob).await.to_vec()).unwrap()
}

/// Panics unless the call of the official client was answered with this status and code.
#[track_caller]
pub(crate) fn refused<T>(outcome: azure_core::Result<T>, status: u16, code: &str) {
    let Err(error) = outcome else { panic!("not refused, but wanted {status} {code}") };
    match error.kind() {
        ErrorKind::HttpResponse { status: found, error_code, .. } => {
            assert_eq!((u16::from(*found), error_code.as_deref()), (status, Some(code)), "{error}");
        }
        other => panic!("not refused with {status} {code}, but: {other}: {error}"),
    }
}
