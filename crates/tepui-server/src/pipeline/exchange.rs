//! One request and what becomes of it, until the last byte of the answer is sent.

use super::sinks::Sinks;
use super::{AccountProperties, CachedSettings, body_error, unknown_account};
use crate::accounts::{AccountDirectory, AccountNumber, AccountsSnapshot, ServedAccount};
use crate::faults::Fault;
use crate::net::accept::Peer;
use crate::net::body::{BodyError, ReplyBody};
use crate::targets::Admission;
use hyper::header::{CONTENT_LENGTH, DATE, ETAG, HeaderName, HeaderValue, LAST_MODIFIED};
use hyper::http::StatusCode;
use hyper::http::{HeaderMap, Method, Request, Response, request};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tepui_model::cost::Cost;
use tepui_model::grant::Grant;
use tepui_model::operation::Kind;
use tepui_model::role::Principal;
use tepui_model::{AuthFailure, ErrorCode, ServiceError, Throttle, Timestamp, blob, queue, table};
use tepui_wire::address::{AddressError, Service, Target};
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::version::ServiceVersion;
use tokio::sync::OwnedSemaphorePermit;

/// A request and its answer. Dropped before it is [answered](Self::answered) if the client has gone.
pub(super) struct Exchange<'a> {
    pub(super) received: Received,
    pub(super) outcome: Outcome,
    /// `None`: sinks hear of it from the answer.
    sinks: Option<&'a Arc<Sinks>>,
    settings: &'a dyn CachedSettings,
}

/// A request as it came in, apart from its body.
pub(super) struct Received {
    pub(super) request_id: String,
    pub(super) parts: request::Parts,
    pub(super) query: Query,
    pub(super) target: Result<Target, AddressError>,
    /// All accounts and roles at the moment at which it came.
    pub(super) accounts: Arc<AccountsSnapshot>,
    /// The account that is addressed. `None` if there is no such account.
    pub(super) account: Option<AccountNumber>,
    pub(super) peer: Peer,
    pub(super) now: Timestamp,
    pub(super) started: Instant,
    /// Of the body, as far as it has been read.
    pub(super) body: BodyMeter,
}

/// How much of the body of a request has been read, and how long it was waited for.
#[derive(Debug, Default)]
pub(super) struct BodyMeter {
    bytes: AtomicU64,
    waited_nanos: AtomicU64,
    broke_off: AtomicBool,
}

impl BodyMeter {
    pub(super) fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes that have been read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The body cannot be read to its end.
    pub(super) fn failed(&self, error: BodyError) -> ServiceError {
        if error == BodyError::Broken {
            self.broke_off.store(true, Ordering::Relaxed);
        }
        body_error(error)
    }

    /// Counts the time for which a read has to wait. One that need not costs nothing.
    pub(super) async fn waiting<T>(&self, read: impl Future<Output = T>) -> T {
        let mut read = pin!(read);
        let mut since: Option<Instant> = None;
        let outcome = poll_fn(|cx| {
            let polled = read.as_mut().poll(cx);
            if polled.is_pending() {
                since.get_or_insert_with(Instant::now);
            }
            polled
        })
        .await;
        if let Some(since) = since {
            let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.waited_nanos.fetch_add(nanos, Ordering::Relaxed);
        }
        outcome
    }
}

impl Received {
    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The account that is addressed, if there is one.
    pub(super) fn account(&self) -> Option<&ServedAccount> {
        self.account.map(|number| self.accounts.get(number))
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
    /// Whose token it is, if there is one.
    pub(super) principal: Option<Arc<Principal>>,
    pub(super) operation: Option<OperationKind>,
    pub(super) error_code: Option<&'static str>,
    pub(super) throttle: Option<Throttle>,
    pub(super) auth_failure: Option<AuthFailure>,
    pub(super) cost: Option<Cost>,
    /// What was paid for it, if there are targets.
    pub(super) admission: Option<Admission>,
    /// What a test bench has chosen for it.
    pub(super) fault: Option<Box<Fault>>,
    /// The table that the body of a request names.
    pub(super) named_table: Option<String>,
    /// What the account has settled, looked up for the answer.
    pub(super) properties: Option<AccountProperties>,
    /// What the answer holds of the memory for replies.
    pub(super) memory: Option<OwnedSemaphorePermit>,
}

/// How a caller has shown who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    AccountKey,
    /// By a key of the account, or of a user.
    Sas,
    Token,
    Anonymous,
}

impl From<&Grant> for Caller {
    fn from(grant: &Grant) -> Self {
        match grant {
            Grant::AccountKey => Self::AccountKey,
            Grant::Anonymous => Self::Anonymous,
            Grant::Token(_) => Self::Token,
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
    pub(super) body: &'a BodyMeter,
    /// What was known when the request came, and the accounts of now.
    pub(super) received: &'a Received,
    pub(super) accounts: &'a AccountDirectory,
}

impl Authorized<'_> {
    pub(super) fn account(&self) -> &str {
        &self.head.target.account
    }

    /// Fails if the account was deleted since the request came, even if there is a new one of its name: bodies take their time.
    pub(super) fn check_account(&self) -> Result<(), ServiceError> {
        let (now, before) = (self.accounts.current(), self.received.account());
        if Arc::ptr_eq(&now, &self.received.accounts) {
            return Ok(());
        }
        let is_still = |account: &ServedAccount| before.is_some_and(|before| account.is_still(before));
        match now.account(self.account()).is_some_and(is_still) {
            true => Ok(()),
            false => Err(unknown_account(self.head.target)),
        }
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
    pub service: Service,
    pub request_id: String,
    pub client: SocketAddr,
    /// Whether it came over TLS.
    pub secure: bool,
    /// Method, URL and headers.
    pub request: request::Parts,
    /// Empty if the request names none.
    pub account: String,
    /// What is addressed within the account, percent-encoded, without a slash in front.
    pub path: String,
    /// The table that the body names, as the body of Create Table does.
    pub named_table: Option<String>,
    pub caller: Option<Caller>,
    /// Whose token it is, if there is one that is good.
    pub principal: Option<Arc<Principal>>,
    pub operation: Option<OperationKind>,
    pub version: Option<ServiceVersion>,
    /// The client broke off while it sent the body. The answer says so, but hardly anybody hears it.
    pub broke_off: bool,
    /// `None` if the client had gone before the answer was ready.
    pub status: Option<u16>,
    pub error_code: Option<&'static str>,
    /// What was too much, if it was refused for that.
    pub throttle: Option<Throttle>,
    /// What is wrong with its credentials, if it was refused for that.
    pub auth_failure: Option<AuthFailure>,
    pub cost: Option<Cost>,
    /// Bytes of the bodies, as they were received and sent.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Analytics settings of the account, if they ask for anything: see [`AccountProperties::wants_analytics`].
    pub settings: Option<AccountProperties>,
    /// What analytics wants to know of the answer. `None` without [`FinishedExchange::settings`], and if there is no answer.
    pub answer: Option<AnswerHead>,
    /// When the head of the request had come, by the clock of the server.
    pub started_at: Timestamp,
    /// How long the body of the request was waited for.
    pub body_wait: Duration,
    pub started: Instant,
    /// When the answer was ready to be sent.
    pub answered: Instant,
    /// When its last byte was on the socket, or it was given up.
    pub ended: Instant,
}

impl FinishedExchange {
    /// From the head of the request to the last byte of the answer.
    pub fn end_to_end_latency(&self) -> Duration {
        self.ended.saturating_duration_since(self.started)
    }

    /// The part of it that is not spent on reading the request or sending the answer.
    pub fn server_latency(&self) -> Duration {
        self.answered.saturating_duration_since(self.started).saturating_sub(self.body_wait)
    }

    /// When it ended, by the clock of the server.
    pub fn ended_at(&self) -> Timestamp {
        self.started_at.saturating_add(self.end_to_end_latency())
    }

    /// The bytes of the head of the request, as it was on the wire if there was one space after each colon.
    pub fn request_head_bytes(&self) -> u64 {
        let request::Parts { method, uri, headers, .. } = &self.request;
        let target = match uri.authority() {
            Some(_) => uri.to_string().len(),
            None => uri.path_and_query().map_or(1, |path| path.as_str().len()),
        };
        (method.as_str().len() + target + "  HTTP/1.1\r\n\r\n".len() + header_bytes(headers)) as u64
    }
}

#[cfg(test)]
impl FinishedExchange {
    /// A request of the Table service that was answered with 200 and ten bytes.
    pub(crate) fn example(method: &str, url: &str, headers: &[(&str, &str)]) -> Self {
        let mut request = Request::builder().method(method).uri(url).header("host", "127.0.0.1:10002");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (request, ()) = request.body(()).unwrap().into_parts();
        let path = request.uri.path().split('/').skip(2).collect::<Vec<_>>().join("/");
        let now = Instant::now();
        Self {
            service: Service::Table,
            request_id: "668a4744-7eb3-4e8f-b8d3-fbfd3829715b".to_owned(),
            client: ([192, 0, 2, 7], 53389).into(),
            secure: false,
            request,
            account: "devstoreaccount1".to_owned(),
            path,
            named_table: None,
            caller: None,
            principal: None,
            operation: None,
            version: Some(ServiceVersion::NEWEST),
            broke_off: false,
            status: Some(200),
            throttle: None,
            auth_failure: None,
            error_code: None,
            cost: None,
            bytes_in: 0,
            bytes_out: 10,
            settings: None,
            answer: Some(AnswerHead {
                head_bytes: 100,
                body_bytes: 10,
                etag: None,
                last_modified: None,
                content_md5: None,
            }),
            started_at: Timestamp::parse_iso("2026-03-10T08:15:30.0719766Z").unwrap(),
            body_wait: Duration::ZERO,
            started: now,
            answered: now,
            ended: now,
        }
    }
}

/// What analytics wants to know of an answer.
#[derive(Debug)]
pub struct AnswerHead {
    /// The bytes of the head on the wire.
    pub head_bytes: u64,
    /// The bytes of the body, if all of it is sent.
    pub body_bytes: u64,
    pub etag: Option<HeaderValue>,
    pub last_modified: Option<HeaderValue>,
    pub content_md5: Option<HeaderValue>,
}

impl AnswerHead {
    fn of(response: &Response<ReplyBody>, method: &Method) -> Self {
        const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
        let (status, headers, body_bytes) = (response.status(), response.headers(), response.body().len());
        let mut head_bytes = status.canonical_reason().map_or(0, str::len)
            + "HTTP/1.1 200 \r\n\r\n".len()
            + header_bytes(headers);
        // What hyper adds.
        if !headers.contains_key(DATE) {
            head_bytes += "date: Tue, 10 Mar 2026 08:15:30 GMT\r\n".len();
        }
        let has_length = !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if has_length && !headers.contains_key(CONTENT_LENGTH) && (*method != Method::HEAD || body_bytes > 0)
        {
            head_bytes += "content-length: \r\n".len() + body_bytes.to_string().len();
        }
        Self {
            head_bytes: head_bytes as u64,
            body_bytes,
            etag: headers.get(ETAG).cloned(),
            last_modified: headers.get(LAST_MODIFIED).cloned(),
            content_md5: headers.get(CONTENT_MD5).cloned(),
        }
    }
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len()).sum()
}

impl<'a> Exchange<'a> {
    pub(super) fn begin(received: Received, sinks: &'a Arc<Sinks>, settings: &'a dyn CachedSettings) -> Self {
        sinks.begin();
        Self { received, outcome: Outcome::default(), sinks: Some(sinks), settings }
    }

    /// The answer is ready to be sent.
    pub(super) fn answered(mut self, response: &Response<ReplyBody>) -> Answered {
        let memory = self.outcome.memory.take();
        let settings = self.outcome.properties.take().or_else(|| self.cached_settings());
        let settings = settings.filter(AccountProperties::wants_analytics);
        let Some(sinks) = self.sinks.take().filter(|sinks| settings.is_some() || sinks.are_active()) else {
            return Answered { memory, end: None };
        };
        let answer = settings.as_ref().map(|_| AnswerHead::of(response, &self.received.parts.method));
        let finished = self.finish(sinks.service, Some(response.status().as_u16()));
        Answered { memory, end: Some((Arc::clone(sinks), FinishedExchange { settings, answer, ..finished })) }
    }

    /// The settings of the account, if it exists and was asked before. For requests that were given up, and for a store that
    /// fails.
    fn cached_settings(&self) -> Option<AccountProperties> {
        let target = self.received.target.as_ref().ok()?;
        self.received.account.and_then(|_| self.settings.cached(&target.account))
    }

    /// What is known of it.
    fn finish(&mut self, service: Service, status: Option<u16>) -> FinishedExchange {
        let Self { received, outcome, .. } = self;
        let now = Instant::now();
        let (account, path) = match &mut received.target {
            Ok(target) => (std::mem::take(&mut target.account), std::mem::take(&mut target.path)),
            Err(_) => Default::default(),
        };
        FinishedExchange {
            service,
            request_id: std::mem::take(&mut received.request_id),
            client: received.peer.address,
            secure: received.peer.tls,
            request: std::mem::replace(&mut received.parts, Request::new(()).into_parts().0),
            account,
            path,
            named_table: outcome.named_table.take(),
            caller: outcome.caller,
            principal: outcome.principal.take(),
            operation: outcome.operation,
            version: outcome.version,
            broke_off: *received.body.broke_off.get_mut(),
            status,
            error_code: outcome.error_code,
            throttle: outcome.throttle,
            auth_failure: outcome.auth_failure,
            cost: outcome.cost,
            bytes_in: *received.body.bytes.get_mut(),
            bytes_out: 0,
            settings: None,
            answer: None,
            started_at: received.now,
            body_wait: Duration::from_nanos(*received.body.waited_nanos.get_mut()),
            started: received.started,
            answered: now,
            ended: now,
        }
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let Some(sinks) = self.sinks.take() else { return };
        let settings = self.cached_settings().filter(AccountProperties::wants_analytics);
        if settings.is_some() || sinks.are_active() {
            let finished = self.finish(sinks.service, None);
            sinks.end(&FinishedExchange { settings, ..finished });
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
