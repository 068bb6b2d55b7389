//! One request and what becomes of it, until the last byte of the answer is sent.

use crate::accept::Peer;
use crate::telemetry;
use hyper::http::{HeaderMap, Method, request};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_model::grant::Grant;
use tepui_model::operation::Kind;
use tepui_model::table::QueryCost;
use tepui_model::{ErrorCode, ServiceError, Timestamp, blob, queue, table};
use tepui_wire::address::{AddressError, Target};
use tepui_wire::auth::SigningKeys;
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::version::ServiceVersion;
use tokio::sync::OwnedSemaphorePermit;

/// A request and its answer.
pub(super) struct Exchange<'a> {
    pub(super) received: Received<'a>,
    pub(super) outcome: Outcome,
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
    /// What the answer cost, for the log.
    pub(super) plan: Option<QueryCost>,
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
pub(super) enum OperationKind {
    Table(table::OperationKind),
    Queue(queue::OperationKind),
    Blob(blob::OperationKind),
}

impl OperationKind {
    pub(super) fn name(self) -> &'static str {
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

/// A request and its answer, from its arrival to the last byte: what sinks are told.
#[derive(Debug)]
pub struct FinishedExchange {
    pub request_id: String,
    pub client: SocketAddr,
    /// Method, URL and headers.
    pub request: request::Parts,
    /// Empty if the request names none.
    pub account: String,
    pub caller: Option<Caller>,
    /// The name of the operation, if it is known.
    pub operation: Option<&'static str>,
    pub version: Option<ServiceVersion>,
    pub status: u16,
    pub error_code: Option<&'static str>,
    /// How a query was run.
    pub plan: Option<QueryCost>,
    /// Bytes of the bodies, as they were received and sent.
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub started: Instant,
    /// When the answer was ready to be sent.
    pub answered: Instant,
    /// When its last byte was on the socket, or it was given up.
    pub ended: Instant,
}

impl Exchange<'_> {
    /// What is known when an answer with this status is ready to be sent, and the memory that it holds.
    pub(super) fn answered(self, status: u16) -> (FinishedExchange, Option<OwnedSemaphorePermit>) {
        let Self { received, outcome } = self;
        let now = Instant::now();
        let finished = FinishedExchange {
            request_id: received.request_id,
            client: received.peer.address,
            request: received.parts,
            account: received.target.map(|target| target.account).unwrap_or_default(),
            caller: outcome.caller,
            operation: outcome.operation.map(OperationKind::name),
            version: outcome.version,
            status,
            error_code: outcome.error_code,
            plan: outcome.plan,
            bytes_in: received.bytes_in.into_inner(),
            bytes_out: 0,
            started: received.started,
            answered: now,
            ended: now,
        };
        (finished, outcome.memory)
    }
}

impl FinishedExchange {
    /// The end of an answer of which so many bytes were sent: sinks are told. They are cheap and never block.
    pub(super) fn end(mut self, bytes_out: u64) {
        self.bytes_out = bytes_out;
        self.ended = Instant::now();
        telemetry::log_exchange(&self);
    }
}
