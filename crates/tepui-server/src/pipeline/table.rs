//! The requests of the Table service.

use super::reply_memory::ReplyMemory;
use super::{Admitted, FrontDoor, Known, Served, read_body};
use crate::body::{Body, ReplyBody};
use crate::limits::{Limits, SMALL_BODY_BYTES};
use hyper::header::HeaderValue;
use hyper::http::Response;
use std::pin::pin;
use std::sync::Arc;
use tepui_engine::Engine;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::operation::{Effect, Kind};
use tepui_model::service_properties::CorsRule;
use tepui_model::table::{Operation, OperationKind};
use tepui_model::{ServiceError, Stage};
use tepui_service::TableService;
use tepui_wire::access::table::bounds;
use tepui_wire::address::{Service, Target};
use tepui_wire::auth::SasToken;
use tepui_wire::error_body::ErrorDress;
use tepui_wire::payload::Payload;
use tepui_wire::table::reply::{PREFERENCE_APPLIED, PageWriter, encode};
use tepui_wire::table::request::presentation::{error_dress, prefer};
use tepui_wire::table::request::{Prepared, Request};
use tepui_wire::version::ServiceVersion;

/// The Table service behind the front door.
pub struct Tables<E> {
    pub(super) service: Arc<TableService<E>>,
    replies: ReplyMemory,
}

impl<E: Engine> Tables<E> {
    pub fn new(service: Arc<TableService<E>>, limits: &Limits) -> Self {
        Self { service, replies: ReplyMemory::new(limits) }
    }

    /// Runs an operation and writes its answer.
    pub(super) async fn carry_out(
        &self,
        known: &mut Known<'_, OperationKind>,
        request: &Prepared<'_>,
        operation: &Operation,
        admitted: &Admitted<'_>,
    ) -> Result<Response<Payload>, ServiceError> {
        let bounds = bounds(&admitted.grant);
        let (account, now) = (&admitted.target.account, known.now);
        if let Operation::QueryEntities(query) = operation {
            let memory = self.replies.reserve_page(account).await?;
            let mut writer = PageWriter::new(request, now, &query.table);
            let page =
                self.service.query_entities(account, query, bounds, admitted.time, &mut writer).await?;
            let response = writer.finish(&page);
            known.plan = Some(page.cost);
            known.memory = ReplyMemory::keep(memory, response.body().len());
            return Ok(response);
        }
        let reply = self.service.execute(account, operation, bounds).await?;
        Ok(encode(request, now, operation, reply)?.map(Payload::from))
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

impl<E: Engine> Served for Tables<E> {
    const SERVICE: Service = Service::Table;
    const VERSION_FIRST: bool = false;
    type Kind = OperationKind;

    async fn cors(&self, account: &str) -> Result<Vec<CorsRule>, ServiceError> {
        Ok(self.service.service_properties(account).await?.cors.clone())
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

    async fn answer(
        &self,
        door: &FrontDoor<Self>,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        use OperationKind::*;
        let Admitted { target, grant, .. } = admitted;
        let head = admitted.head(known);
        let request = Request::read(&head)?;
        let kind = request.kind();
        known.kind = Some(kind);
        // What a batch does is known once it is decoded.
        door.check_secondary(target, if kind == EntityGroupTransaction { QueryEntities } else { kind })?;
        request.check_access(grant)?;
        request.check_name()?;
        let body_use = request.body();
        let request = request.prepare()?;
        let bytes = read_body(body_use, known.head, body).await?;
        // Before anything is done: what is changed must be told. An answer that repeats a body is about as long.
        let echo = match kind {
            InsertEntity | EntityGroupTransaction if bytes.len() > SMALL_BODY_BYTES => {
                Some(self.replies.reserve(&target.account, 2 * bytes.len()).await?)
            }
            _ => None,
        };
        let answer = async {
            if kind == EntityGroupTransaction {
                return Ok(self.answer_batch(door, known, admitted, &head, &bytes).await?.map(Payload::from));
            }
            let operation = match request.decode(&bytes) {
                Ok(operation) => operation,
                Err(error) => return Err(self.table_first(target, &request, error).await),
            };
            self.carry_out(known, &request, &operation, admitted).await
        };
        let response = admitted.in_time(pin!(answer)).await?;
        let bytes = response.body().len();
        match echo {
            _ if known.memory.is_some() => {}
            Some(echo) => known.memory = ReplyMemory::keep(echo, bytes),
            None if kind.effect() == Effect::Read => {
                known.memory = self.replies.hold(&admitted.target.account, bytes)?
            }
            None => {}
        }
        Ok(response.map(|page| ReplyBody::pieces(page.into_pieces())))
    }

    fn error_dress(&self, known: &Known<'_, OperationKind>, version: ServiceVersion) -> ErrorDress {
        error_dress(known.kind, known.query, &known.head.headers, version)
    }

    fn dress_refusal(
        &self,
        known: &Known<'_, OperationKind>,
        error: &ServiceError,
        version: ServiceVersion,
        response: &mut Response<Vec<u8>>,
    ) {
        // Fidelity: a refusal by the store says too which preference was heard. scenario: insert-conflict-keeps-preference
        let is_insert = matches!(known.kind, Some(OperationKind::InsertEntity | OperationKind::CreateTable));
        if is_insert
            && error.stage == Stage::Store
            && version.has_prefer()
            && let Some(applied) = prefer(&known.head.headers).applied()
        {
            response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(applied));
        }
    }

    fn health(&self) -> Result<(), String> {
        self.service.health().map_err(|error| error.to_string())
    }
}
