//! Sources of copies that are on other servers. Only over plain HTTP, only from hosts that the configuration allows
//! (see `remote_hosts.rs`), and not more slowly than a client may send.

use crate::net::body::ReplyBody;
use crate::net::limits::Limits;
use crate::remote_hosts::{RemoteHosts, without_brackets};
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, ETAG, HOST, HeaderName, HeaderValue, RANGE};
use hyper::http::{HeaderMap, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::fmt::Display;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::blob::{ByteRange, CopySource, SourceHead};
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::blob::source::head as head_of_source;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;

/// How blobs are copied from other servers, if they may be.
#[derive(Debug, Clone)]
pub struct RemoteCopies {
    hosts: Arc<RemoteHosts>,
    limits: Arc<Limits>,
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
    pub fn new(hosts: RemoteHosts, limits: &Limits) -> Self {
        Self { hosts: Arc::new(hosts), limits: Arc::new(limits.clone()) }
    }

    /// Whether something may be fetched from there at all, as far as the URL tells.
    pub(super) fn check(&self, url: &str) -> Result<(), ServiceError> {
        if self.hosts.is_empty() {
            return Err(forbidden("This server does not copy from other servers."));
        }
        if !url.starts_with("http://") {
            return Err(forbidden("This server copies from other servers over http only."));
        }
        Ok(())
    }

    /// Connects to a host, if it is one that may be asked. What its name stands for is looked up once, so that it
    /// cannot be one address when it is checked and another when it is used.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, ServiceError> {
        let listed = self.hosts.allows_host(host, port);
        let found = lookup_host((without_brackets(host), port)).await.map_err(unreachable)?;
        let allowed: Vec<SocketAddr> =
            found.filter(|address| listed || self.hosts.allows_address(address.ip())).collect();
        if allowed.is_empty() {
            return Err(forbidden("This server does not copy from that host."));
        }
        TcpStream::connect(&allowed[..]).await.map_err(unreachable)
    }

    /// Asks for the bytes of a source. `headers`: of the request that names it.
    pub(super) async fn open(
        &self,
        source: &CopySource,
        range: Option<ByteRange>,
        headers: &HeaderMap,
    ) -> Result<Fetched, ServiceError> {
        self.check(&source.url)?;
        let uri = Uri::try_from(&source.url).map_err(unreachable)?;
        let (Some(authority), Some(host)) = (uri.authority(), uri.host()) else {
            return Err(unreachable("no host"));
        };
        let stream = self.connect(host, uri.port_u16().unwrap_or(80)).await?;
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
                Ok(Fetched {
                    head: head_of_source(&head.headers),
                    etag,
                    body,
                    bytes: 0,
                    waited: Duration::ZERO,
                    limits: Arc::clone(&self.limits),
                    _connection: task,
                })
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
        for value in headers.get_all(of_source) {
            asked.append(HeaderName::from_static(name), value.clone());
        }
    }
    Ok(())
}

/// A body on its way from another server.
pub(super) struct Fetched {
    /// What the headers of the server say.
    pub(super) head: SourceHead,
    etag: Option<HeaderValue>,
    body: Incoming,
    /// How many bytes have come, and how long they were waited for.
    bytes: u64,
    waited: Duration,
    limits: Arc<Limits>,
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

    /// The next bytes. Fails if they come too slowly: others wait for their turn.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ServiceError> {
        loop {
            let began = Instant::now();
            let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            self.waited += began.elapsed();
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreachable(error)),
                Some(Ok(frame)) => {
                    let data = frame.into_data().ok();
                    self.bytes += data.as_ref().map_or(0, |bytes| bytes.len() as u64);
                    if self.limits.too_slow(self.bytes, self.waited) {
                        return Err(unreachable("the source sends too slowly"));
                    }
                    if data.is_some() {
                        return Ok(data);
                    }
                }
            }
        }
    }
}

/// A source that may not be requested.
fn forbidden(why: &str) -> ServiceError {
    ServiceError::new(ErrorCode::CannotVerifyCopySource).with_status(403).with_message(why)
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
