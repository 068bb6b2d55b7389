//! The requests of the Table service.

use super::admission::scope_of;
use super::exchange::{self, Authorized, Exchange, Outcome, Received};
use super::faults;
use super::reply_memory::ReplyMemory;
use super::{
    AccountProperties, AccountSettings, CachedSettings, Front, ServiceHandler, admit, answer_key_request,
    check_host, check_secondary, error_response, preflight, read_body, respond,
};
use crate::net::accept::{Handler, Peer};
use crate::net::body::{Body, ReplyBody};
use crate::net::limits::{Limits, SMALL_BODY_BYTES};
use crate::targets::Scope;
use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::http::{HeaderMap, Response, request};
use std::pin::pin;
use std::sync::Arc;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::cost::Cost;
use tepui_model::operation::{Effect, Kind};
use tepui_model::table::{Call, Operation, OperationKind, Reply};
use tepui_model::{ErrorCode, ServiceError, Stage};
use tepui_service::TableService;
use tepui_service::phase::{self, Phase};
use tepui_storage::Engine;
use tepui_wire::access::table::bounds;
use tepui_wire::address::Target;
use tepui_wire::auth::SasToken;
use tepui_wire::head::BodyUse;
use tepui_wire::payload::Payload;
use tepui_wire::table::reply::{PREFERENCE_APPLIED, PageWriter, encode, encode_change};
use tepui_wire::table::request::presentation::{error_format, prefer};
use tepui_wire::table::request::{Prepared, Request};
use tepui_wire::version::ServiceVersion;

/// The handler of the Table service.
pub struct Tables<E> {
    pub(super) front: Front,
    pub(super) service: Arc<TableService<E>>,
    replies: Arc<ReplyMemory>,
}

impl<E: Engine> Tables<E> {
    pub fn new(front: Front, service: Arc<TableService<E>>, limits: &Limits) -> Self {
        let replies = front.reply_memory(limits);
        Self { front, service, replies }
    }

    /// Does what was asked for and writes the answer.
    pub(super) async fn carry_out(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        request: &Prepared<'_>,
        call: &Call,
    ) -> Result<Response<Payload>, ServiceError> {
        let bounds = bounds(&authorized.grant);
        let (account, now) = (authorized.account(), authorized.now);
        match call {
            Call::Operation(Operation::GetEntity { table, key }) => {
                let scope = Scope::Partition { table, key: &key.partition_key };
                self.front.admit_to(authorized, outcome, scope, 1)?;
                let found = self.service.get_entity(account, table, key, bounds).await;
                phase::enter(Phase::Reply);
                outcome.cost = match &found {
                    Ok(entity) => Some(Cost::of_point_read(Some(entity))),
                    // There is a receipt for that, other than for refusals.
                    Err(error) if error.code == ErrorCode::ResourceNotFound => {
                        Some(Cost::of_point_read(None))
                    }
                    Err(_) => None,
                };
                self.front.record(authorized, scope, outcome.cost.map_or(1, |cost| cost.units));
                Ok(encode(request, now, Reply::Entity(found?)).map(Payload::from))
            }
            Call::Operation(operation) => {
                if let Operation::CreateTable { name } = operation {
                    outcome.named_table = Some(name.to_string());
                }
                // On the heap, like batches: these are rare.
                let reply = Box::pin(self.service.execute(account, operation, bounds)).await;
                phase::enter(Phase::Reply);
                let reply = reply?;
                if let Reply::Tables(page) = &reply {
                    outcome.cost = Some(page.cost);
                }
                if let Operation::CreateTable { name } = operation {
                    self.front.table_created(outcome, name.as_str());
                }
                Ok(encode(request, now, reply).map(Payload::from))
            }
            Call::Change { table, change } => {
                let scope = Scope::Partition { table, key: &change.key.partition_key };
                let cost = Cost::of_change(change);
                self.front.admit_to(authorized, outcome, scope, cost.units)?;
                let written = self.service.change_entity(account, table, change, bounds).await?;
                phase::enter(Phase::Reply);
                outcome.cost = Some(cost);
                self.front.record_changes(authorized, scope, std::slice::from_ref(change), cost.units);
                Ok(encode_change(request, now, change, written).map(Payload::from))
            }
            Call::Query(query) => {
                let partition = self.front.partition_of(query);
                let scope = scope_of(&query.table, partition.as_deref());
                self.front.admit_to(authorized, outcome, scope, 1)?;
                let memory = self.replies.reserve_page(account).await?;
                let mut writer = PageWriter::new(request, now, &query.table);
                let page =
                    self.service.query_entities(account, query, bounds, authorized.time, &mut writer).await?;
                phase::enter(Phase::Reply);
                let response = writer.finish(&page);
                outcome.cost = Some(page.cost);
                self.front.record(authorized, scope, page.cost.units);
                outcome.memory = ReplyMemory::keep(memory, response.body().len());
                Ok(response)
            }
        }
    }

    /// Which error wins when a body is not right. Fidelity: a missing table does. scenario: insert-bad-body-missing-table
    async fn table_first(
        &self,
        target: &Target,
        request: &Prepared<'_>,
        error: ServiceError,
    ) -> ServiceError {
        match request.table() {
            Some(table) if request.is_about_body() => {
                self.service.require_table(&target.account, table).await.err().unwrap_or(error)
            }
            _ => error,
        }
    }
}

/// Fidelity: a refusal by the store says too which preference was heard. scenario: insert-conflict-keeps-preference
fn decorate_error(
    kind: Option<OperationKind>,
    headers: &HeaderMap,
    version: ServiceVersion,
    error: &ServiceError,
    response: &mut Response<Vec<u8>>,
) {
    let is_insert = matches!(kind, Some(OperationKind::InsertEntity | OperationKind::CreateTable));
    if is_insert
        && error.stage == Stage::Store
        && version.has_prefer()
        && let Some(applied) = prefer(headers).applied()
    {
        response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(applied));
    }
}

impl<E: Engine> ServiceHandler for Tables<E> {
    fn front(&self) -> &Front {
        &self.front
    }

    async fn answer(
        &self,
        received: &Received,
        outcome: &mut Outcome,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        use OperationKind::*;
        check_host(&self.front, received)?;
        if received.is_preflight() {
            return preflight(self, received).await;
        }
        let authorized = admit(&self.front, self, received, outcome, body).await?;
        let Authorized { head, grant, .. } = &authorized;
        let request = Request::read(head)?;
        let kind = request.kind();
        outcome.operation = Some(exchange::OperationKind::Table(kind));
        self.front.admit_request(&authorized, outcome, body.as_ref())?;
        faults::before_work(&self.front, received, outcome).await?;
        // What a batch does is known once it is decoded.
        let done = if kind == EntityGroupTransaction { QueryEntities } else { kind };
        check_secondary(&self.front, head.target, done)?;
        request.check_access(grant)?;
        request.check_name()?;
        let body_use = request.body();
        if kind == GetUserDelegationKey {
            return Box::pin(answer_key_request(&self.front, &authorized, body_use, body)).await;
        }
        let request = request.prepare()?;
        let bytes = match body_use {
            BodyUse::Whole { .. } => read_body(body_use, &authorized, body).await?,
            BodyUse::Nothing | BodyUse::Streamed => Bytes::new(),
        };
        // Before anything is changed: the answer to a change must not fail. One that repeats a body is about as long.
        let echo = match kind {
            InsertEntity | EntityGroupTransaction if bytes.len() > SMALL_BODY_BYTES => {
                Some(self.replies.reserve(authorized.account(), 2 * bytes.len()).await?)
            }
            _ => None,
        };
        let answer = async {
            if kind == EntityGroupTransaction {
                // On the heap: a batch is rarer than what would have to make room for it.
                let answer = Box::pin(self.answer_batch(&authorized, outcome, &bytes));
                return Ok(answer.await?.map(Payload::from));
            }
            let call = match request.decode(&bytes) {
                Ok(call) => call,
                Err(error) => return Err(self.table_first(head.target, &request, error).await),
            };
            self.carry_out(&authorized, outcome, &request, &call).await
        };
        let response = authorized.in_time(pin!(answer)).await?;
        let bytes = response.body().len();
        match echo {
            _ if outcome.memory.is_some() => {}
            Some(echo) => outcome.memory = ReplyMemory::keep(echo, bytes),
            None if kind.effect() == Effect::Read => {
                outcome.memory = self.replies.hold(authorized.account(), bytes)?
            }
            None => {}
        }
        Ok(response.map(|page| ReplyBody::pieces(page.into_pieces())))
    }

    fn error_response(&self, exchange: &mut Exchange<'_>, error: &ServiceError) -> Response<ReplyBody> {
        let Exchange { received, outcome, .. } = exchange;
        let kind = match outcome.operation {
            Some(exchange::OperationKind::Table(kind)) => Some(kind),
            _ => None,
        };
        let (headers, version) = (received.headers(), outcome.version.unwrap_or(ServiceVersion::NEWEST));
        let format = error_format(kind, &received.query, headers, version);
        let mut response = error_response(&self.front, received, outcome, error, format);
        decorate_error(kind, headers, version, error, &mut response);
        response.map(ReplyBody::from)
    }
}

impl<E: Engine> Handler for Tables<E> {
    const HAS_METADATA: bool = false;

    fn handle(
        &self,
        peer: Peer,
        parts: request::Parts,
        body: Body,
    ) -> impl Future<Output = Response<ReplyBody>> + Send {
        respond(self, peer, parts, body)
    }

    async fn health(&self) -> Result<(), String> {
        self.service.health().await.map_err(|error| error.to_string())
    }
}

impl<E: Engine> CachedSettings for Tables<E> {
    fn cached(&self, account: &str) -> Option<AccountProperties> {
        self.service.cached_properties(account).map(AccountProperties::Common)
    }
}

impl<E: Engine> AccountSettings for Tables<E> {
    async fn properties(&self, account: &str) -> Result<AccountProperties, ServiceError> {
        self.service.service_properties(account).await.map(AccountProperties::Common)
    }

    async fn policy(
        &self,
        account: &str,
        token: &SasToken,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        match (token.policy_id(), token.table()) {
            (Some(id), Some(table)) => self.service.signed_identifier(account, table, id).await,
            _ => Ok(None),
        }
    }
}
