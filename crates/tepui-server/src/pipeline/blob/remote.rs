//! Sources of copies that are on other servers. Only over plain HTTP, and only if the configuration allows it:
//! whoever may write a blob could otherwise make this server ask any other that it can reach.

use crate::body::ReplyBody;
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, ETAG, HOST, HeaderName, HeaderValue, RANGE};
use hyper::http::{HeaderMap, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use tepui_model::blob::{ByteRange, CopySource, SourceHead};
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::blob::source::head as head_of_source;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Whether blobs may be copied from other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteCopies {
    Refused,
    Allowed,
}

/// Conditions on the source, and what they are called where it is.
const CONDITIONS: [(&str, &str); 5] = [
    ("x-ms-source-if-match", "if-match"),
    ("x-ms-source-if-none-match", "if-none-match"),
    ("x-ms-source-if-modified-since", "if-modified-since"),
    ("x-ms-source-if-unmodified-since", "if-unmodified-since"),
    ("x-ms-source-if-tags", "x-ms-if-tags"),
];

impl RemoteCopies {
    /// Whether something may be fetched from there at all.
    pub(super) fn check(self, url: &str) -> Result<(), ServiceError> {
        let refused = |why: &str| {
            let error = ServiceError::new(ErrorCode::CannotVerifyCopySource).with_status(403);
            Err(error.with_message(why))
        };
        match self {
            Self::Refused => refused("This server does not copy from other servers."),
            Self::Allowed if !url.starts_with("http://") => {
                refused("This server copies from other servers over http only.")
            }
            Self::Allowed => Ok(()),
        }
    }

    /// Asks for the bytes of a source. `headers`: of the request that names it.
    pub(super) async fn open(
        self,
        source: &CopySource,
        range: Option<ByteRange>,
        headers: &HeaderMap,
    ) -> Result<Fetched, ServiceError> {
        self.check(&source.url)?;
        let uri = Uri::try_from(&source.url).map_err(unreachable)?;
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return Err(unreachable("no host"));
        };
        let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _ = connection.await;
        });
        let mut request = Request::new(ReplyBody::empty());
        *request.uri_mut() = path_of(&uri).map_err(unreachable)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(unreachable)?;
        ask(request.headers_mut(), host, source, range, headers)?;
        let response = sender.send_request(request).await.map_err(unreachable)?;
        match (response.status(), range) {
            (StatusCode::PARTIAL_CONTENT, _) | (StatusCode::OK, None) => {
                let (head, body) = response.into_parts();
                let etag = head.headers.get(ETAG).cloned();
                Ok(Fetched { head: head_of_source(&head.headers), etag, body, _connection: task })
            }
            (StatusCode::OK, Some(_)) => Err(unreachable("the source does not serve ranges")),
            (status, _) => Err(refused_with(status, response.headers())),
        }
    }
}

/// What goes on the request line to the server itself.
fn path_of(uri: &Uri) -> Result<Uri, hyper::http::Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder().path_and_query(path).build()
}

fn ask(
    asked: &mut HeaderMap,
    host: HeaderValue,
    source: &CopySource,
    range: Option<ByteRange>,
    headers: &HeaderMap,
) -> Result<(), ServiceError> {
    asked.insert(HOST, host);
    if let Some(range) = range {
        let last = range.last.map(|last| last.to_string()).unwrap_or_default();
        let range = format!("bytes={}-{last}", range.first);
        asked.insert(RANGE, HeaderValue::from_str(&range).map_err(unreachable)?);
    }
    if let Some(authorization) = &source.authorization {
        asked.insert(AUTHORIZATION, HeaderValue::from_str(authorization).map_err(unreachable)?);
    }
    for (of_source, name) in CONDITIONS {
        if let Some(value) = headers.get(of_source) {
            asked.insert(HeaderName::from_static(name), value.clone());
        }
    }
    Ok(())
}

/// A body on its way from another server.
pub(super) struct Fetched {
    /// What the server said before the bytes.
    pub(super) head: SourceHead,
    etag: Option<HeaderValue>,
    body: Incoming,
    /// Ends with this.
    _connection: JoinSet<()>,
}

impl Fetched {
    /// Headers that ask for the same source once more, as it was found.
    pub(super) fn ask_again(&self, headers: &HeaderMap) -> HeaderMap {
        let mut again = headers.clone();
        if let Some(etag) = &self.etag {
            again.insert(HeaderName::from_static(CONDITIONS[0].0), etag.clone());
        }
        again
    }

    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ServiceError> {
        loop {
            match poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreachable(error)),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

fn unreachable(cause: impl Display) -> ServiceError {
    ServiceError::new(ErrorCode::CannotVerifyCopySource).with_cause(cause)
}

/// The source's own status; one that is no refusal is none that a caller could use.
fn refused_with(status: StatusCode, headers: &HeaderMap) -> ServiceError {
    let error = ServiceError::new(ErrorCode::CannotVerifyCopySource).with_cause(status);
    let tells = status == StatusCode::NOT_MODIFIED || status.is_client_error();
    let error = if tells { error.with_status(status.as_u16()) } else { error };
    let code = headers.get("x-ms-error-code").and_then(|code| code.to_str().ok());
    error.with_copy_source(status.as_u16(), code, None)
}
