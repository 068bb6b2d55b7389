//! Blob batches: several requests in one multipart body, and their answers in another.
//!
//! Follows the REST page "Blob Batch". Each request inside has credentials of its own and is answered on its
//! own. Reading is liberal, because clients differ in line ends, boundaries and paths.

use crate::address::{Service, Target};
use crate::head::Head;
use crate::multipart::{self, HttpRequest, Part, boundary, path_of, status_line};
use crate::query::Query;
use crate::version::ServiceVersion;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use std::ops::Range;
use tepui_model::blob::OperationKind;
use tepui_model::{ErrorCode, ServiceError};

/// The most requests that a batch has.
pub const MAX_PARTS: usize = 256;

/// One request inside a batch.
#[derive(Debug)]
pub struct Inner {
    pub method: Method,
    /// How it would be addressed if it came alone.
    pub target: Target,
    pub query: Query,
    pub headers: HeaderMap,
    /// Repeated in the answer.
    pub content_id: Option<String>,
    /// What it takes in the batch.
    pub bytes: usize,
}

/// Reads the body of a batch that was addressed to `envelope`.
pub fn decode(
    content_type: Option<&str>,
    body: &[u8],
    envelope: &Target,
) -> Result<Vec<Inner>, ServiceError> {
    let boundary = content_type.and_then(boundary).ok_or_else(|| refused("no boundary"))?;
    let parts = multipart::parts(body, 0..body.len(), &boundary).ok_or_else(|| refused("no delimiter"))?;
    if parts.is_empty() || parts.len() > MAX_PARTS {
        return Err(refused("no requests, or too many"));
    }
    let read = |range: Range<usize>| {
        let bytes = range.len();
        let part = Part::read(body, range)?;
        let content_id =
            part.header("content-id").filter(|id| !id.contains(char::is_control)).map(str::to_owned);
        Inner::read(HttpRequest::read(body, part.content)?, bytes, content_id, envelope)
    };
    parts.into_iter().map(|range| read(range).ok_or_else(|| refused("not a request"))).collect()
}

fn refused(cause: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidInput).with_cause(cause)
}

impl Inner {
    fn read(
        request: HttpRequest<'_>,
        bytes: usize,
        content_id: Option<String>,
        envelope: &Target,
    ) -> Option<Self> {
        let method = Method::from_bytes(request.method.as_bytes()).ok()?;
        let mut headers = HeaderMap::with_capacity(request.headers.len());
        for (name, value) in &request.headers {
            // Never left out: a deletion that loses its condition would go ahead.
            headers.append(HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
        }
        let path = path_of(request.target);
        let (path, raw_query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        // In path style some clients write the account into the paths of the requests, others do not.
        let in_path =
            envelope.raw_path.trim_start_matches('/').split('/').next().filter(|_| !envelope.host_style);
        let after_account = in_path.and_then(|account| path.strip_prefix(account)?.strip_prefix('/'));
        let target = Target {
            raw_path: format!("/{path}"),
            path: after_account.unwrap_or(path).trim_start_matches('/').to_owned(),
            ..envelope.clone()
        };
        Some(Self { method, target, query: Query::parse(raw_query), headers, content_id, bytes })
    }

    /// The head that it would have if it came alone. `version`: of the batch.
    pub fn head(&self, version: ServiceVersion) -> Head<'_> {
        let Self { method, target, query, headers, .. } = self;
        let service = Service::Blob;
        Head { service, method, target, path: &target.path, query, headers, case: None, version }
    }
}

/// Whether requests of these kinds can be in one batch: all delete, or all set tiers.
pub fn check_kinds(kinds: &[OperationKind]) -> Result<(), ServiceError> {
    use OperationKind::*;
    let deletes =
        |kind: &OperationKind| matches!(kind, DeleteBlob | DeleteBlobVersion | DeleteBlobPermanently);
    let sets_tier = |kind: &OperationKind| *kind == SetBlobTier;
    match kinds.iter().all(deletes) || kinds.iter().all(sets_tier) {
        true => Ok(()),
        false => Err(refused("not all of one kind")),
    }
}

/// The answer to one request of a batch.
#[derive(Debug)]
pub struct PartAnswer {
    pub content_id: Option<String>,
    /// Finished, as if it were sent alone.
    pub response: Response<Vec<u8>>,
    /// What is said behind the status of a request that failed.
    pub reason: Option<String>,
}

/// The answer to a batch: one part for each request, in their order. `id`: of the boundary.
pub fn encode(id: &str, answers: &[PartAnswer]) -> Response<Vec<u8>> {
    let boundary = format!("batchresponse_{id}");
    let mut out = Vec::with_capacity(64 + answers.len() * 512);
    for answer in answers {
        out.extend_from_slice(format!("--{boundary}\r\nContent-Type: application/http\r\n").as_bytes());
        if let Some(id) = &answer.content_id {
            multipart::line(&mut out, "Content-ID", id);
        }
        out.extend_from_slice(b"\r\n");
        push_answer(answer, &mut out);
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let mut response = Response::new(out);
    *response.status_mut() = StatusCode::ACCEPTED;
    if let Ok(value) = HeaderValue::try_from(format!("multipart/mixed; boundary={boundary}")) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

fn push_answer(answer: &PartAnswer, out: &mut Vec<u8>) {
    let PartAnswer { response, reason, .. } = answer;
    match reason.as_deref().and_then(|reason| reason.lines().next()) {
        Some(reason) => {
            out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", response.status().as_str()).as_bytes());
        }
        None => status_line(out, response.status()),
    }
    for (name, value) in response.headers() {
        let name = match name.as_str() {
            "content-type" => "Content-Type",
            "server" => "Server",
            other => other,
        };
        multipart::line(out, name, &String::from_utf8_lossy(value.as_bytes()));
    }
    let body = response.body();
    if body.is_empty() {
        return out.extend_from_slice(b"\r\n");
    }
    multipart::line(out, "Content-Length", &body.len().to_string());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::AddressRules;
    use crate::blob::request::Request;
    use proptest::prelude::*;

    fn envelope(host_style: bool) -> Target {
        Target {
            account: "acct".to_owned(),
            secondary: false,
            base: "http://h/acct".to_owned(),
            raw_path: if host_style { "/c" } else { "/acct/c" }.to_owned(),
            path: "c".to_owned(),
            host_style,
        }
    }

    fn part(id: &str, request: &str) -> String {
        format!(
            "--b=1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n{id}\r\n{request}\r\n"
        )
    }

    fn read(body: &str, host_style: bool) -> Result<Vec<Inner>, ErrorCode> {
        decode(Some("multipart/mixed; boundary=\"b=1\""), body.as_bytes(), &envelope(host_style))
            .map_err(|error| error.code)
    }

    #[test]
    fn requests_are_read() {
        for (target, host_style, path, raw_path) in [
            ("/acct/c/b%20c", false, "c/b%20c", "/acct/c/b%20c"),
            ("/c/b", false, "c/b", "/c/b"),
            ("/c/b?", true, "c/b", "/c/b"),
            ("/acct/b", true, "acct/b", "/acct/b"),
            ("https://h/c/b", true, "c/b", "/c/b"),
        ] {
            let request =
                format!("DELETE {target} HTTP/1.1\r\nx-ms-date: d\r\nAuthorization: SharedKey a:b\r\n\r\n");
            let body = part("Content-ID: 7\r\n", &request) + "--b=1--\r\n";
            let inner = read(&body, host_style).unwrap().pop().unwrap();
            assert_eq!(
                (inner.target.path.as_str(), inner.target.raw_path.as_str()),
                (path, raw_path),
                "{target}"
            );
            assert_eq!(
                (inner.method.as_str(), inner.content_id.as_deref()),
                ("DELETE", Some("7")),
                "{target}"
            );
            assert_eq!(inner.headers["authorization"], "SharedKey a:b", "{target}");
        }
        let bare = part("", "PUT /c/b?comp=tier HTTP/1.1\nx-ms-access-tier: Cool\n\n").replace("\r\n", "\n");
        let inner = read(&bare, true).unwrap().pop().unwrap();
        assert_eq!((inner.query.get("comp"), inner.content_id), (Some("tier"), None));
    }

    #[test]
    fn batches_are_refused() {
        let one = part("", "DELETE /c/b HTTP/1.1\r\n\r\n");
        for (case, body, good) in [
            ("one", one.clone(), true),
            ("the most", one.repeat(MAX_PARTS), true),
            ("too many", one.repeat(MAX_PARTS + 1), false),
            ("none", "--b=1--\r\n".to_owned(), false),
            ("nothing", String::new(), false),
            ("no request", part("", "rubbish"), false),
            ("a long path", part("", &format!("DELETE /c/{} HTTP/1.1\r\n\r\n", "b".repeat(60_000))), true),
            ("a longer one", part("", &format!("DELETE /c/{} HTTP/1.1\r\n\r\n", "b".repeat(70_000))), false),
            (
                "a long id",
                part(&format!("Content-ID: {}\r\n", "7".repeat(70_000)), "DELETE /c/b HTTP/1.1\r\n\r\n"),
                false,
            ),
            (
                "a condition that cannot be read",
                part("", "DELETE /c/b HTTP/1.1\r\nIf-Match: a\u{1}\r\n\r\n"),
                false,
            ),
        ] {
            assert_eq!(read(&body, true).is_ok(), good, "{case}");
        }
        assert!(decode(Some("multipart/mixed"), one.as_bytes(), &envelope(true)).is_err());
        assert!(decode(None, one.as_bytes(), &envelope(true)).is_err());
    }

    #[test]
    fn kinds_do_not_mix() {
        use OperationKind::*;
        for (kinds, good) in [
            (&[DeleteBlob, DeleteBlobVersion][..], true),
            (&[SetBlobTier, SetBlobTier], true),
            (&[SetBlobTier, DeleteBlob], false),
            (&[GetBlob], false),
            (&[Batch], false),
        ] {
            assert_eq!(check_kinds(kinds).is_ok(), good, "{kinds:?}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_no_harm(
            body in "(--b=1(--)?\r?\n|Content-ID: [0-9]\r\n|DELETE /c/b HTTP/1.1\r\n|\r?\n|x: y|[a-z: ]){0,20}"
        ) {
            for inner in read(&body, false).unwrap_or_default() {
                let _ = Request::read(&inner.head(ServiceVersion::NEWEST), &AddressRules::new(Service::Blob));
            }
        }
    }
}
