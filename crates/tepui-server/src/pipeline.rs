//! The order in which a request of the Table service is checked and answered.
//!
//! The order is visible protocol: it decides which error wins. `TableHandler::answer` reads as the list.

mod batch;

use crate::accept::{Handler, Peer};
use crate::body::{Body, BodyError, ReplyBody};
use crate::config::Config;
use crate::ids::RequestIds;
use crate::limits::{Limits, PAGE_BYTES, SMALL_BODY_BYTES};
use crate::telemetry::{RequestLine, request_line};
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderValue, TRANSFER_ENCODING};
use hyper::http::{Method, Response, request};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_engine::Engine;
use tepui_model::account::Accounts;
use tepui_model::grant::Grant;
use tepui_model::operation::Effect;
use tepui_model::table::{Operation, OperationKind, QueryCost};
use tepui_model::{Clock, ErrorCode, ServiceError, Stage, Timestamp};
use tepui_service::{TableService, access};
use tepui_wire::address::{self, AddressError, AddressRules, Service, Target};
use tepui_wire::auth::{self, Credentials, KeyRing, Signed};
use tepui_wire::cors;
use tepui_wire::error_body::{self, ErrorDress, Exchange};
use tepui_wire::payload::Payload;
use tepui_wire::query::Query;
use tepui_wire::table::classify::classify;
use tepui_wire::table::decode::{Request, decode};
use tepui_wire::table::encode::{Context, PREFERENCE_APPLIED, PageWriter, encode};
use tepui_wire::table::presentation::{Presentation, error_dress, prefer};
use tepui_wire::table::resource::Resource;
use tepui_wire::version::{self, ServiceVersion, VersionPolicy};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest body of a request.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The longest that an operation may take, whatever the caller asks for.
const MAX_TIME: Duration = Duration::from_secs(30);

/// Answers the requests of the Table service.
pub struct TableHandler<E> {
    service: Arc<TableService<E>>,
    clock: Arc<dyn Clock>,
    ids: RequestIds,
    keys: KeyRing,
    addresses: AddressRules,
    versions: VersionPolicy,
    secondary: bool,
    replies: ReplyMemory,
}

/// What is known of a request, for its answer, its errors and the log; it grows as the checks go on.
struct Known<'a> {
    request_id: &'a str,
    head: &'a request::Parts,
    now: Timestamp,
    query: Query,
    version: Option<ServiceVersion>,
    kind: Option<OperationKind>,
    cost: Option<QueryCost>,
    /// What the answer holds of the memory for replies.
    memory: Option<OwnedSemaphorePermit>,
    error_code: Option<&'static str>,
}

impl<E: Engine> TableHandler<E> {
    pub fn new(
        service: Arc<TableService<E>>,
        clock: Arc<dyn Clock>,
        ids: RequestIds,
        config: &Config,
    ) -> Self {
        let addresses = AddressRules {
            product_style_urls: !config.disable_product_style_url,
            ..AddressRules::new(Service::Table)
        };
        Self {
            service,
            clock,
            ids,
            keys: KeyRing::new(&Accounts::new(config.effective_accounts())),
            addresses,
            versions: if config.skip_api_version_check { VersionPolicy::Skip } else { VersionPolicy::Check },
            secondary: config.secondary,
            replies: ReplyMemory::new(&config.limits),
        }
    }

    /// Everything that is checked, in the order in which it is.
    async fn answer(
        &self,
        known: &mut Known<'_>,
        target: &Target,
        peer: Peer,
        body: &mut Option<Body>,
    ) -> Result<Response<Payload>, ServiceError> {
        let head = known.head;
        if head.method == Method::OPTIONS {
            let properties = self.service.service_properties(&target.account).await?;
            return Ok(cors::preflight(&properties.cors, &head.headers)?.map(Payload::from));
        }
        let grant = self.authenticate(known, target, peer).await?;
        let version = known.version.ok_or(ErrorCode::InvalidHeaderValue)?;
        let time = time_limit(&known.query)?;
        let resource = Resource::parse(&target.path, &target.account)?;
        let kind = classify(&head.method, &resource, &known.query, &head.headers)?;
        known.kind = Some(kind);
        self.check_secondary(target, kind)?;
        access::check(&grant, kind, resource.table())?;
        let presentation = Presentation::negotiate(kind, &known.query, &head.headers, version, None)?;
        let bytes = read_body(kind, head, body).await?;
        let answer = async {
            if kind == OperationKind::EntityGroupTransaction {
                let answered = self.answer_batch(known, target, &grant, version, &bytes).await;
                return Ok(answered?.map(Payload::from));
            }
            let request = Request {
                kind,
                resource: &resource,
                query: &known.query,
                headers: &head.headers,
                version,
                presentation: &presentation,
            };
            let operation = match decode(&request, &bytes) {
                Ok(operation) => operation,
                Err(error) => return Err(self.table_first(target, &request, error).await),
            };
            let context = Context {
                base: &target.base,
                account: &target.account,
                presentation: &presentation,
                version,
                now: known.now,
            };
            self.carry_out(known, &context, &operation, &grant).await
        };
        match tokio::time::timeout(time, answer).await {
            Ok(answered) => answered,
            Err(_) => Err(ErrorCode::OperationTimedOut.into()),
        }
    }

    /// Runs an operation and writes its answer.
    async fn carry_out(
        &self,
        known: &mut Known<'_>,
        context: &Context<'_>,
        operation: &Operation,
        grant: &Grant,
    ) -> Result<Response<Payload>, ServiceError> {
        let bounds = access::bounds(grant);
        if let Operation::QueryEntities(query) = operation {
            let memory = self.replies.reserve().await?;
            let mut writer = PageWriter::new(context, &query.table);
            let page = self.service.query_entities(context.account, query, bounds, &mut writer).await?;
            let response = writer.finish(&page);
            known.cost = Some(page.cost);
            known.memory = ReplyMemory::keep(memory, response.body().len());
            return Ok(response);
        }
        let reply = self.service.execute(context.account, operation, bounds).await?;
        Ok(encode(context, operation, reply)?.map(Payload::from))
    }

    /// Who asks, and what they may do.
    async fn authenticate(
        &self,
        known: &mut Known<'_>,
        target: &Target,
        peer: Peer,
    ) -> Result<Grant, ServiceError> {
        let head = known.head;
        // Fidelity: there is no such account, so there is nothing to ask it. scenario: unknown-account
        let keys = self.keys.get(&target.account).ok_or(ErrorCode::ResourceNotFound)?;
        let sas_version = auth::sas_version(&known.query);
        let version = version::negotiate(&head.headers, &known.query, sas_version, self.versions);
        let signed = Signed {
            service: Service::Table,
            method: &head.method,
            headers: &head.headers,
            query: &known.query,
            target,
            keys,
            now: known.now,
            version: *version.as_ref().unwrap_or(&ServiceVersion::NEWEST),
            peer_ip: peer.address.ip(),
            secure: peer.tls,
        };
        let grant = match auth::authenticate(&signed)? {
            Credentials::AccountKey => Grant::AccountKey,
            Credentials::Sas(token) => {
                known.version = version.as_ref().ok().copied();
                let policy = match (token.policy_id(), token.table()) {
                    (Some(id), Some(table)) => {
                        self.service.signed_identifier(&target.account, table, id).await?
                    }
                    _ => None,
                };
                token.resolve(policy.as_ref(), &signed)?
            }
        };
        known.version = Some(version?);
        Ok(grant)
    }

    /// The secondary endpoint is for reading.
    fn check_secondary(&self, target: &Target, kind: OperationKind) -> Result<(), ServiceError> {
        if !target.secondary {
            return match kind {
                OperationKind::GetServiceStats => Err(ErrorCode::InvalidQueryParameterValue.into()),
                _ => Ok(()),
            };
        }
        if !self.secondary {
            return Err(ServiceError::new(ErrorCode::InsufficientAccountPermissions).with_message(
                "The account being accessed does not have sufficient permissions to execute this operation.",
            ));
        }
        match kind.effect() {
            Effect::Read => Ok(()),
            Effect::Write => Err(ErrorCode::InsufficientAccountPermissions.into()),
        }
    }

    /// Which error wins when a body is not right. Fidelity: a missing table does. scenario: insert-bad-body-missing-table
    async fn table_first(&self, target: &Target, request: &Request<'_>, error: ServiceError) -> ServiceError {
        use OperationKind::*;
        let judges_body = matches!(
            request.kind,
            InsertEntity | UpdateEntity | MergeEntity | InsertOrReplaceEntity | InsertOrMergeEntity
        );
        match request.resource.table() {
            Some(table) if judges_body => {
                self.service.require_table(&target.account, table).await.err().unwrap_or(error)
            }
            _ => error,
        }
    }

    fn refuse(&self, known: &mut Known<'_>, error: &ServiceError) -> Response<Payload> {
        known.error_code = Some(error.code.name());
        if error.status() >= 500 || error.cause.is_some() {
            tracing::debug!(request_id = known.request_id, %error, "request failed");
        }
        if error.code == ErrorCode::InternalError {
            tracing::error!(request_id = known.request_id, %error, "internal error");
        }
        let version = known.version.unwrap_or(ServiceVersion::NEWEST);
        let dress = match known.head.method {
            Method::OPTIONS => ErrorDress::Xml,
            _ => error_dress(known.kind, &known.query, &known.head.headers, version),
        };
        let mut response = error_body::encode(error, dress, Service::Table, known.request_id, known.now);
        // Fidelity: a refusal by the store says too which preference was heard. scenario: insert-conflict-keeps-preference
        let is_insert = matches!(known.kind, Some(OperationKind::InsertEntity | OperationKind::CreateTable));
        if is_insert
            && error.stage == Stage::Store
            && version.has_prefer()
            && let Some(applied) = prefer(&known.head.headers).applied()
        {
            response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(applied));
        }
        response.map(Payload::from)
    }

    /// Adds what every answer has.
    async fn finish(&self, known: &Known<'_>, target: Option<&Target>, response: &mut Response<Payload>) {
        let exchange = Exchange {
            service: Service::Table,
            request_id: known.request_id,
            version: known.version,
            request_headers: &known.head.headers,
        };
        error_body::finish(response.headers_mut(), &exchange);
        if let Some(target) = target
            && known.head.method != Method::OPTIONS
            && let Ok(properties) = self.service.service_properties(&target.account).await
            && !properties.cors.is_empty()
        {
            cors::apply(&properties.cors, &known.head.method, &known.head.headers, response.headers_mut());
        }
    }
}

impl<E: Engine> Handler for TableHandler<E> {
    async fn handle(&self, peer: Peer, head: request::Parts, body: Body) -> Response<ReplyBody> {
        let started = Instant::now();
        let request_id = self.ids.next();
        let mut body = Some(body);
        let mut known = Known {
            request_id: &request_id,
            head: &head,
            now: self.clock.now(),
            query: Query::parse(head.uri.query()),
            version: None,
            kind: None,
            cost: None,
            memory: None,
            error_code: None,
        };
        let target = address::parse(&head.uri, &head.headers, peer.tls, &self.addresses);
        let response = match &target {
            Err(AddressError::InvalidUrl { close }) => {
                error_body::invalid_url_page(*close).map(Payload::from)
            }
            Err(AddressError::Service(error)) => {
                let mut response = self.refuse(&mut known, error);
                self.finish(&known, None, &mut response).await;
                response
            }
            Ok(target) => {
                let answered = self.answer(&mut known, target, peer, &mut body).await;
                let mut response = answered.unwrap_or_else(|error| self.refuse(&mut known, &error));
                self.finish(&known, Some(target), &mut response).await;
                response
            }
        };
        if let Some(unread) = body {
            // A client that is still sending would not hear the answer.
            let _ = unread.read_whole(MAX_BODY_BYTES).await;
        }
        let plan = known.cost.map(|cost| cost.to_string());
        request_line(&RequestLine {
            request_id: &request_id,
            account: target.as_ref().map_or("", |target| &target.account),
            operation: known.kind.map_or("", OperationKind::name),
            path: head.uri.path(),
            status: response.status().as_u16(),
            error_code: known.error_code,
            bytes: response.body().len() as u64,
            microseconds: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
            plan: plan.as_deref(),
        });
        let memory = known.memory.take();
        response.map(|body| ReplyBody::pieces(body.into_pieces()).holding(memory))
    }

    fn health(&self) -> Result<(), String> {
        self.service.health().map_err(|error| error.to_string())
    }
}

/// The memory for pages of entities. Clients that read slowly keep theirs for as long as they take, so
/// there is only so much for all of them.
struct ReplyMemory {
    kib: Arc<Semaphore>,
    patience: Duration,
}

impl ReplyMemory {
    fn new(limits: &Limits) -> Self {
        let kib = (limits.reply_memory_bytes / 1024).min(u32::MAX as usize);
        Self { kib: Arc::new(Semaphore::new(kib)), patience: limits.body_memory_timeout }
    }

    /// Enough for a page.
    async fn reserve(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        const PAGE_KIB: u32 = (PAGE_BYTES / 1024) as u32;
        if let Ok(permit) = Arc::clone(&self.kib).try_acquire_many_owned(PAGE_KIB) {
            return Ok(permit);
        }
        let permit = tokio::time::timeout(self.patience, Arc::clone(&self.kib).acquire_many_owned(PAGE_KIB));
        match permit.await {
            Ok(Ok(permit)) => Ok(permit),
            _ => {
                Err(ServiceError::new(ErrorCode::ServerBusy).with_cause("there is no memory for a page now"))
            }
        }
    }

    /// What a page of this size keeps of what was reserved. Small ones do not count.
    fn keep(mut reserved: OwnedSemaphorePermit, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= SMALL_BODY_BYTES {
            None
        } else {
            reserved.split(bytes.div_ceil(1024).min(reserved.num_permits()))
        }
    }
}

/// How long the request may take.
fn time_limit(query: &Query) -> Result<Duration, ServiceError> {
    let Some(text) = query.get("timeout") else { return Ok(MAX_TIME) };
    match text.parse::<u64>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds).min(MAX_TIME)),
        _ => Err(ErrorCode::InvalidQueryParameterValue.into()),
    }
}

async fn read_body(
    kind: OperationKind,
    head: &request::Parts,
    body: &mut Option<Body>,
) -> Result<Bytes, ServiceError> {
    use OperationKind::*;
    let wants_body = kind.effect() == Effect::Write && !matches!(kind, DeleteEntity | DeleteTable);
    if wants_body
        && !head.headers.contains_key(CONTENT_LENGTH)
        && !head.headers.contains_key(TRANSFER_ENCODING)
    {
        return Err(ErrorCode::MissingContentLengthHeader.into());
    }
    let waits = head.headers.contains_key(EXPECT);
    if waits
        && body.as_ref().and_then(Body::declared_bytes).is_some_and(|bytes| bytes > MAX_BODY_BYTES as u64)
    {
        // The client has not begun to send, and now it will not.
        *body = None;
        return Err(ErrorCode::RequestBodyTooLarge.into());
    }
    let Some(body) = body.take() else { return Ok(Bytes::new()) };
    body.read_whole(MAX_BODY_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => ErrorCode::RequestBodyTooLarge.into(),
        BodyError::TimedOut => ErrorCode::OperationTimedOut.into(),
        BodyError::Broken => ErrorCode::InvalidInput.into(),
        BodyError::Busy => ServiceError::new(ErrorCode::ServerBusy).with_cause(error),
    })
}

/// The text of a header that may be missing or unreadable.
fn content_type(head: &request::Parts) -> Option<&str> {
    head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
}
