//! One request and what becomes of it, until the last byte of the answer is sent.

use super::sinks::Sinks;
use crate::faults::Fault;
use crate::net::accept::Peer;
use crate::net::body::ReplyBody;
use hyper::http::{HeaderMap, Method, Request, request};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_model::cost::Cost;
use tepui_model::grant::Grant;
use tepui_model::operation::Kind;
use tepui_model::{ErrorCode, ServiceError, Timestamp, blob, queue, table};
use tepui_wire::address::{AddressError, Target};
use tepui_wire::auth::SigningKeys;
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::version::ServiceVersion;
use tokio::sync::OwnedSemaphorePermit;

/// A request and its answer. Dropped before it is [answered](Self::answered) if the client has gone.
pub(super) struct Exchange<'a> {
    pub(super) received: Received<'a>,
    pub(super) outcome: Outcome,
    /// `None`: no sink wants to hear of it, or all will hear from the answer.
    sinks: Option<&'a Arc<Sinks>>,
}

/// A request as it came in, apart from its body.
pub(super) struct Received<'a> {
    pub(super) request_id: String,
    pub(super) parts: request::Parts,
    pub(super) query: Query,
    pub(super) target: Result<Target, AddressError>,
    /// Of the account that is addressed. `None` if there is no such account.
    pub(super) keys: Option<&'a SigningKeys>,
    pub(super) peer: Peer,
    pub(super) now: Timestamp,
    pub(super) started: Instant,
    /// Of the body, as far as it has been read.
    pub(super) bytes_in: AtomicU64,
}

impl Received<'_> {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Whether a browser asks before it sends a request for a page of another origin.
    pub(super) fn is_preflight(&self) -> bool {
        self.parts.method == Method::OPTIONS
    }

    pub(super) fn target(&self) -> Result<&Target, ServiceError> {
        self.target.as_ref().map_err(|error| match error {
            AddressError::Service(error) => error.clone(),
            AddressError::InvalidUrl { .. } => ErrorCode::InvalidUri.into(),
        })
    }
}

/// What is known of the answer, for its headers, its errors and the log; it grows as the checks go on.
#[derive(Default)]
pub(super) struct Outcome {
    /// `None` as long as none could be negotiated.
    pub(super) version: Option<ServiceVersion>,
    pub(super) caller: Option<Caller>,
    pub(super) operation: Option<OperationKind>,
    pub(super) error_code: Option<&'static str>,
    pub(super) cost: Option<Cost>,
    /// What a test bench has chosen for it.
    pub(super) fault: Option<Box<Fault>>,
    /// What the answer holds of the memory for replies.
    pub(super) memory: Option<OwnedSemaphorePermit>,
}

/// How a caller has shown who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    AccountKey,
    Sas,
    Anonymous,
}

impl From<&Grant> for Caller {
    fn from(grant: &Grant) -> Self {
        match grant {
            Grant::AccountKey => Self::AccountKey,
            Grant::Anonymous => Self::Anonymous,
            Grant::AccountSas { .. }
            | Grant::TableSas { .. }
            | Grant::QueueSas { .. }
            | Grant::BlobSas { .. } => Self::Sas,
        }
    }
}

/// Which operation of which service a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    Table(table::OperationKind),
    Queue(queue::OperationKind),
    Blob(blob::OperationKind),
}

impl OperationKind {
    /// Its number among the operations of its service.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Table(kind) => kind as usize,
            Self::Queue(kind) => kind as usize,
            Self::Blob(kind) => kind as usize,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Table(kind) => kind.name(),
            Self::Queue(kind) => kind.name(),
            Self::Blob(kind) => kind.name(),
        }
    }
}

/// A request whose caller is known.
pub(super) struct Authorized<'a> {
    pub(super) head: Head<'a>,
    pub(super) grant: Grant,
    pub(super) peer: Peer,
    pub(super) request_id: &'a str,
    pub(super) now: Timestamp,
    /// How long the answer may take.
    pub(super) time: Duration,
    /// Of the body, as far as it has been read.
    pub(super) bytes_in: &'a AtomicU64,
}

impl Authorized<'_> {
    pub(super) fn account(&self) -> &str {
        &self.head.target.account
    }

    /// Counts bytes of the body that have been read.
    pub(super) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Ends an answer that takes too long. It is pinned, for it is large, and every call that it passes through
    /// would copy it.
    pub(super) async fn in_time<T>(
        &self,
        answer: Pin<&mut impl Future<Output = Result<T, ServiceError>>>,
    ) -> Result<T, ServiceError> {
        match tokio::time::timeout(self.time, answer).await {
            Ok(answered) => answered,
            Err(_) => Err(ErrorCode::OperationTimedOut.into()),
        }
    }
}

/// A request and its answer, from its arrival to the last byte, as sinks get it.
#[derive(Debug)]
pub struct FinishedExchange {
    pub request_id: String,
    pub client: SocketAddr,
    /// Method, URL and headers.
    pub request: request::Parts,
    /// Empty if the request names none.
    pub account: String,
    pub caller: Option<Caller>,
    pub operation: Option<OperationKind>,
    pub version: Option<ServiceVersion>,
    /// `None` if the client had gone before the answer was ready.
    pub status: Option<u16>,
    pub error_code: Option<&'static str>,
    pub cost: Option<Cost>,
    /// Bytes of the bodies, as they were received and sent.
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub started: Instant,
    /// When the answer was ready to be sent.
    pub answered: Instant,
    /// When its last byte was on the socket, or it was given up.
    pub ended: Instant,
}

impl<'a> Exchange<'a> {
    pub(super) fn begin(received: Received<'a>, sinks: &'a Arc<Sinks>) -> Self {
        let sinks = sinks.are_active().then_some(sinks);
        if let Some(sinks) = sinks {
            sinks.begin();
        }
        Self { received, outcome: Outcome::default(), sinks }
    }

    /// An answer with this status is ready to be sent.
    pub(super) fn answered(mut self, status: u16) -> Answered {
        let memory = self.outcome.memory.take();
        let end = self.sinks.take().map(|sinks| (Arc::clone(sinks), self.finish(Some(status))));
        Answered { memory, end }
    }

    /// What is known of it.
    fn finish(&mut self, status: Option<u16>) -> FinishedExchange {
        let Self { received, outcome, .. } = self;
        let now = Instant::now();
        FinishedExchange {
            request_id: std::mem::take(&mut received.request_id),
            client: received.peer.address,
            request: std::mem::replace(&mut received.parts, Request::new(()).into_parts().0),
            account: match &mut received.target {
                Ok(target) => std::mem::take(&mut target.account),
                Err(_) => String::new(),
            },
            caller: outcome.caller,
            operation: outcome.operation,
            version: outcome.version,
            status,
            error_code: outcome.error_code,
            cost: outcome.cost,
            bytes_in: *received.bytes_in.get_mut(),
            bytes_out: 0,
            started: received.started,
            answered: now,
            ended: now,
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if let Some(sinks) = self.sinks.take() {
            sinks.end(&self.finish(None));
        }
    }
}

/// An exchange whose answer is about to be sent.
pub(super) struct Answered {
    memory: Option<OwnedSemaphorePermit>,
    end: Option<(Arc<Sinks>, FinishedExchange)>,
}

impl Answered {
    /// The body of the answer, at whose end sinks hear of the exchange.
    pub(super) fn body(self, body: ReplyBody) -> ReplyBody {
        let body = body.holding(self.memory);
        let Some((sinks, mut finished)) = self.end else { return body };
        body.at_end(move |bytes_out| {
            finished.bytes_out = bytes_out;
            finished.ended = Instant::now();
            sinks.end(&finished);
        })
    }
}
