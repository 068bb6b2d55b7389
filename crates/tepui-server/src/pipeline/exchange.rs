//! One request and what becomes of it.

use crate::accept::Peer;
use hyper::http::{HeaderMap, Method, request};
use std::future::Future;
use std::pin::Pin;
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
    pub(super) operation: Option<OperationKind>,
    pub(super) error_code: Option<&'static str>,
    /// What the answer cost, for the log.
    pub(super) plan: Option<QueryCost>,
    /// What the answer holds of the memory for replies.
    pub(super) memory: Option<OwnedSemaphorePermit>,
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
}

impl Authorized<'_> {
    pub(super) fn account(&self) -> &str {
        &self.head.target.account
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
