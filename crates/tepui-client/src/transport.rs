//! Connections to one service: opened, kept alive and used again. One request at a time on each, as HTTP/1.1 has it.
//!
//! The pool is our own because callers must know what hyper's does not tell: whether a request can have reached the
//! service. What certainly has not is sent again without a second thought; for the rest see [`SendError`].

mod io;
#[cfg(feature = "tls")]
mod tls;

#[cfg(feature = "tls")]
pub(crate) use tls::Trust;
/// Without TLS there is none.
#[cfg(not(feature = "tls"))]
pub(crate) enum Trust {}

use bytes::{Bytes, BytesMut};
use http::header::{HOST, HeaderValue};
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::io::{Error as IoError, ErrorKind as IoErrorKind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Servers close what is idle, often after two minutes.
const MAX_IDLE: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The service has not seen the request.
    NotSent(Cause),
    /// The certificate of the service is not good, so nothing was sent.
    #[cfg(feature = "tls")]
    NotTrusted(Cause),
    /// The service may have seen the request, and carried it out.
    Lost(Cause),
    /// The answer is larger than the caller takes.
    AnswerTooLarge,
}

/// The connections to one service.
pub(crate) struct Pool {
    host: String,
    port: u16,
    host_header: HeaderValue,
    #[cfg(feature = "tls")]
    tls: Option<tls::Tls>,
    /// The one that was used last is taken first.
    idle: Mutex<Vec<Idle>>,
    max_idle: usize,
}

struct Idle {
    connection: SendRequest<Whole>,
    since: Instant,
}

impl Pool {
    /// `None` if the URL names no host, or TLS is not built in.
    pub(crate) fn new(url: &Uri, max_idle: usize, trust: Option<&Trust>) -> Option<Self> {
        let authority = url.authority()?;
        let secure = url.scheme_str() == Some("https");
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if secure && trust.is_none() {
            return None;
        }
        Some(Self {
            #[cfg(feature = "tls")]
            tls: match secure {
                true => Some(tls::Tls::new(&host, trust?)?),
                false => None,
            },
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            host_header: HeaderValue::from_str(authority.as_str()).ok()?,
            host,
            idle: Mutex::default(),
            max_idle,
        })
    }

    /// Sends a request and receives the answer whole. The URL of the request is absolute, and of this service.
    pub(crate) async fn exchange<B>(
        &self,
        request: Request<B>,
        body: Bytes,
        max_answer_bytes: usize,
    ) -> Result<Response<Bytes>, SendError> {
        let mut request = request.map(|_| Whole(Some(body)));
        request.headers_mut().insert(HOST, self.host_header.clone());
        if let Some(path) = request.uri().path_and_query().cloned() {
            *request.uri_mut() = path.into();
        }
        // What was idle may turn out to be closed. A new one is not tried twice.
        while let Some(mut connection) = self.take_idle().await {
            match connection.try_send_request(request).await {
                Ok(response) => return self.receive(connection, response, max_answer_bytes).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(SendError::Lost(error.into_error().into())),
                },
            }
        }
        let mut connection = self.connect().await.map_err(not_sent)?;
        match connection.try_send_request(request).await {
            Ok(response) => self.receive(connection, response, max_answer_bytes).await,
            Err(mut error) => Err(match error.take_message() {
                Some(_) => SendError::NotSent(error.into_error().into()),
                None => SendError::Lost(error.into_error().into()),
            }),
        }
    }

    async fn take_idle(&self) -> Option<SendRequest<Whole>> {
        loop {
            let Idle { mut connection, since } =
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
            if since.elapsed() < MAX_IDLE && connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn receive(
        &self,
        connection: SendRequest<Whole>,
        response: Response<Incoming>,
        max_bytes: usize,
    ) -> Result<Response<Bytes>, SendError> {
        let (head, body) = response.into_parts();
        let body = collect(body, max_bytes).await?;
        if !connection.is_closed() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
            if idle.len() < self.max_idle {
                idle.push(Idle { connection, since: Instant::now() });
            }
        }
        Ok(Response::from_parts(head, body))
    }

    async fn connect(&self) -> Result<SendRequest<Whole>, Cause> {
        timeout(CONNECT_TIMEOUT, self.connect_patiently()).await.map_err(|_| "no connection in time")?
    }

    async fn connect_patiently(&self) -> Result<SendRequest<Whole>, Cause> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return hand_over(tls.connect(stream).await?).await;
        }
        hand_over(stream).await
    }
}

fn not_sent(cause: Cause) -> SendError {
    #[cfg(feature = "tls")]
    if tls::is_certificate_error(&*cause) {
        return SendError::NotTrusted(cause);
    }
    SendError::NotSent(cause)
}

/// Has a task of its own for the connection, which ends with it.
async fn hand_over<S>(stream: S) -> Result<SendRequest<Whole>, Cause>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::Builder::new().handshake(io::HyperIo::new(stream)).await?;
    tokio::spawn(async move {
        // Whoever waits for an answer is told of the error.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn collect(mut body: Incoming, max_bytes: usize) -> Result<Bytes, SendError> {
    let expected = body.size_hint().exact().unwrap_or_default();
    if expected > max_bytes as u64 {
        return Err(SendError::AnswerTooLarge);
    }
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.map_err(|error| SendError::Lost(error.into()))?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > max_bytes {
            return Err(SendError::AnswerTooLarge);
        }
        // Most answers are one piece, which need not be copied.
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve((expected as usize).max(first.len() + data.len()));
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    let received = if rest.is_empty() { first } else { rest.freeze() };
    if expected > received.len() as u64 {
        return Err(SendError::Lost(IoError::from(IoErrorKind::UnexpectedEof).into()));
    }
    Ok(received)
}

/// A body that is at hand.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}
