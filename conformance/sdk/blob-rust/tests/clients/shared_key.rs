//! What azure_storage_blob does not have: signatures by the key of the account. Tokens do not reach everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use azure_core::http::headers::HeaderName;
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request};
use azure_core::time::{OffsetDateTime, to_rfc7231};

use crate::support::{ACCOUNT, KEY, sign};

#[derive(Debug)]
pub(crate) struct SharedKey;

#[async_trait]
impl Policy for SharedKey {
    async fn send(&self, context: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        request.insert_header("x-ms-date", to_rfc7231(&OffsetDateTime::now_utc()));
        let signature = sign(&lines_to_sign(request), KEY);
        request.insert_header("authorization", format!("SharedKey {ACCOUNT}:{signature}"));
        next[0].send(context, request, &next[1..]).await
    }
}

fn lines_to_sign(request: &Request) -> Vec<String> {
    let header =
        |name| request.headers().get_optional_string(&HeaderName::from_static(name)).unwrap_or_default();
    let length = request.body().len().filter(|length| *length > 0).map(|length| length.to_string());
    let mut lines = vec![
        request.method().to_string(),
        header("content-encoding"),
        header("content-language"),
        length.unwrap_or_default(),
        header("content-md5"),
        header("content-type"),
        String::new(),
        header("if-modified-since"),
        header("if-match"),
        header("if-none-match"),
        header("if-unmodified-since"),
        header("range"),
    ];
    let headers: BTreeMap<_, _> =
        request.headers().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    lines.extend(
        headers
            .iter()
            .filter(|(name, _)| name.starts_with("x-ms-"))
            .map(|(name, value)| format!("{name}:{value}")),
    );
    lines.push(format!("/{ACCOUNT}{}", request.url().path()));
    let parameters: BTreeMap<_, _> = request.url().query_pairs().collect();
    lines.extend(parameters.iter().map(|(name, value)| format!("{name}:{value}")));
    lines
}
