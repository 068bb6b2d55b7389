//! The requests of the Blob service.
//!
//! | | |
//! | --- | --- |
//! | `upload.rs` | bytes that come with a request |
//! | `download.rs` | bytes that follow an answer |
//! | `copy.rs`, `remote.rs` | bytes that are read from elsewhere: this server, or another |
//! | `background.rs` | copies that go on after the answer |
//! | `batch.rs` | several requests in one |

mod background;
mod batch;
mod copy;
mod download;
mod remote;
mod upload;

pub use background::BackgroundCopies;
pub use remote::RemoteCopies;

use super::reply_memory::ReplyMemory;
use super::{Admitted, FrontDoor, Known, Served, read_body};
use crate::body::{Body, ReplyBody};
use crate::limits::{Limits, PAGE_BYTES};
use hyper::http::Response;
use std::pin::pin;
use std::sync::Arc;
use tepui_engine::Engine;
use tepui_extents::Extents;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{ContainerName, HttpProperties, ListBlobs, Operation, OperationKind, Reply};
use tepui_model::grant::Grant;
use tepui_model::service_properties::CorsRule;
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::blob::{Answer, Caller};
use tepui_service::{BlobService, Pace};
use tepui_wire::access::blob as access;
use tepui_wire::address::{Service, Target};
use tepui_wire::auth::SasToken;
use tepui_wire::blob::reply::{self, BlobListWriter, BlockListWriter, Context, encode};
use tepui_wire::blob::request::{Prepared, Request, too_large};
use tepui_wire::error_body::ErrorDress;
use tepui_wire::head::BodyUse;
use tepui_wire::version::ServiceVersion;

/// The Blob service behind the front door.
pub struct Blobs<E, X> {
    service: Arc<BlobService<E, X>>,
    remote: RemoteCopies,
    memory: ReplyMemory,
    copies: Arc<BackgroundCopies>,
}

impl<E: Engine, X: Extents> Blobs<E, X> {
    pub fn new(
        service: Arc<BlobService<E, X>>,
        remote: RemoteCopies,
        copies: Arc<BackgroundCopies>,
        limits: &Limits,
    ) -> Self {
        Self { service, remote, memory: ReplyMemory::new(limits), copies }
    }

    /// Reads a body that is read whole, and what it asks for.
    async fn decode(
        &self,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        prepared: Prepared,
        (body_use, max_bytes): (BodyUse, usize),
        body: &mut Option<Body>,
    ) -> Result<(Operation, bytes::Bytes), ServiceError> {
        let container = prepared.operation().container().cloned();
        let decoded = match read_body(body_use, known.head, body).await {
            Ok(bytes) => decode_in_turns(prepared, &bytes).await.map(|operation| (operation, bytes)),
            Err(error) if error.code == ErrorCode::RequestBodyTooLarge => Err(too_large(max_bytes as u64)),
            Err(error) => Err(error),
        };
        match decoded {
            Ok(decoded) => Ok(decoded),
            Err(error) => Err(self.container_first(admitted, container.as_ref(), error).await),
        }
    }

    /// Which error wins when there is something wrong with a body. Fidelity: a missing container does.
    async fn container_first(
        &self,
        admitted: &Admitted<'_>,
        container: Option<&ContainerName>,
        error: ServiceError,
    ) -> ServiceError {
        let Some(container) = container else { return error };
        let found = self.service.require_container(&admitted.target.account, container);
        admitted.in_time(pin!(found)).await.err().unwrap_or(error)
    }

    /// Carries out an operation that brings no bytes along.
    async fn carry_out(
        &self,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        caller: Caller<'_>,
        operation: &Operation,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let answer = self.service.execute(caller, operation, None);
        let answer = admitted.in_time(pin!(answer)).await?;
        self.respond(known, admitted, operation, answer).await
    }

    /// Carries out an operation whose answer may be long.
    async fn answer_page(
        &self,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        caller: Caller<'_>,
        operation: &Operation,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let mut bytes = PAGE_BYTES;
        let (memory, answer) = loop {
            let memory = self.memory.reserve(&admitted.target.account, bytes).await?;
            let answer = self.service.execute(caller, operation, None);
            let answer = admitted.in_time(pin!(answer)).await?;
            // There is no other answer that is read whole and may be longer than a page.
            let Reply::BlockList(list) = &answer.reply else { break (memory, answer) };
            bytes = reply::most_block_list_bytes(list);
            if self.memory.is_enough(&memory, bytes) {
                break (memory, answer);
            }
            // Both are given up before more is waited for: if all had something and waited for more, nobody would get it.
        };
        let response = match answer.reply {
            Reply::BlockList(list) => encode_in_turns(BlockListWriter::new(list)).await,
            reply => encode(&context(known, admitted, None), operation, reply)?,
        };
        known.memory = ReplyMemory::keep(memory, response.body().len());
        Ok(response.map(ReplyBody::from))
    }

    async fn list_blobs(
        &self,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        caller: Caller<'_>,
        query: &ListBlobs,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let memory = self.memory.reserve_page(&admitted.target.account).await?;
        let mut writer = BlobListWriter::new(&context(known, admitted, None), query);
        let next = self.service.list_blobs(caller, query, &mut writer);
        let next = admitted.in_time(pin!(next)).await?;
        let response = writer.finish(next.as_ref());
        known.memory = ReplyMemory::keep(memory, response.body().len());
        Ok(response.map(ReplyBody::from))
    }

    /// The answer to an operation that succeeded.
    async fn respond(
        &self,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        operation: &Operation,
        answer: Answer<E::Snapshot, X>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let overrides = overrides(known, &admitted.grant);
        let context = context(known, admitted, overrides.as_ref());
        let response = encode(&context, operation, answer.reply)?;
        match answer.content {
            Some(content) => download::respond(known, admitted, &self.memory, response, content).await,
            None => Ok(response.map(ReplyBody::from)),
        }
    }
}

/// The work of one step of decoding or encoding, for the pace.
const STEP_WORK: usize = 4096;

/// Reads a body, and lets others run meanwhile if it is long.
async fn decode_in_turns(prepared: Prepared, body: &[u8]) -> Result<Operation, ServiceError> {
    let pace = Pace::default();
    let mut decoding = prepared.begin(body)?;
    loop {
        if let Some(operation) = decoding.step()? {
            return Ok(operation);
        }
        pace.work(STEP_WORK).await;
    }
}

/// Makes the answer to Get Block List, and lets others run meanwhile if it is long.
async fn encode_in_turns(mut writer: BlockListWriter) -> Response<Vec<u8>> {
    let pace = Pace::default();
    while writer.step() {
        pace.work(STEP_WORK).await;
    }
    writer.finish()
}

fn context<'a>(
    known: &'a Known<'_, OperationKind>,
    admitted: &'a Admitted<'_>,
    overrides: Option<&'a HttpProperties>,
) -> Context<'a> {
    let may_read_tags = access::check_tags(&admitted.grant).is_ok();
    Context { head: admitted.head(known), overrides, may_read_tags }
}

impl<E: Engine, X: Extents> Served for Blobs<E, X> {
    const SERVICE: Service = Service::Blob;
    const VERSION_FIRST: bool = true;
    type Kind = OperationKind;

    async fn cors(&self, account: &str) -> Result<Vec<CorsRule>, ServiceError> {
        Ok(self.service.service_properties(account).await?.shared.cors.clone())
    }

    // Fidelity: only the Blob service has such a setting. scenario: blob-default-version
    async fn default_version(&self, account: &str) -> Result<Option<ServiceVersion>, ServiceError> {
        let properties = self.service.service_properties(account).await?;
        Ok(properties.default_version.as_deref().and_then(ServiceVersion::floor))
    }

    async fn policy(
        &self,
        account: &str,
        token: &SasToken,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        match (token.policy_id(), token.container().map(ContainerName::parse)) {
            (Some(id), Some(Ok(container))) => self.service.signed_identifier(account, &container, id).await,
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
        let Admitted { target, grant, .. } = admitted;
        let head = admitted.head(known);
        let request = Request::read(&head, &door.addresses)?;
        known.kind = Some(request.kind());
        door.check_secondary(target, request.kind())?;
        let allowed = request.check_access(grant)?;
        let prepared = match request.prepare() {
            Ok(prepared) => prepared,
            Err(error) if is_about_length(&error) => {
                let container = request.container_name().ok();
                return Err(self.container_first(admitted, container.as_ref(), error).await);
            }
            Err(error) => return Err(error),
        };
        access::check_details(grant, &prepared, &head)?;
        let caller = caller(target, allowed);
        let answered = match request.body() {
            body_use @ BodyUse::Whole { max_bytes, .. } => {
                let read = self.decode(known, admitted, prepared, (body_use, max_bytes), body);
                let (operation, bytes) = read.await?;
                match operation {
                    Operation::Batch { container } => {
                        // Boxed: it is large, and rare.
                        Box::pin(self.answer_batch(door, known, admitted, container.as_ref(), &bytes)).await
                    }
                    operation => self.carry_out(known, admitted, caller, &operation).await,
                }
            }
            BodyUse::Streamed => {
                let operation = prepared.decode(b"")?;
                self.answer_upload(known, admitted, caller, operation, body).await
            }
            BodyUse::Nothing => {
                let operation = prepared.decode(b"")?;
                match (&operation, operation.source()) {
                    (Operation::ListBlobs(query), _) => {
                        Box::pin(self.list_blobs(known, admitted, caller, query)).await
                    }
                    (
                        Operation::ListContainers(_)
                        | Operation::FindBlobsByTags(_)
                        | Operation::GetPageRanges(_)
                        | Operation::GetBlockList { .. },
                        _,
                    ) => Box::pin(self.answer_page(known, admitted, caller, &operation)).await,
                    (_, Some(_)) if operation.goes_on() => {
                        Box::pin(self.answer_background(known, admitted, caller, operation)).await
                    }
                    (_, Some(_)) => {
                        Box::pin(self.answer_copy(door, known, admitted, caller, operation)).await
                    }
                    (_, None) => self.carry_out(known, admitted, caller, &operation).await,
                }
            }
        };
        answered.map_err(|error| access::redact_error(error, grant, &head))
    }

    fn error_dress(&self, _known: &Known<'_, OperationKind>, _version: ServiceVersion) -> ErrorDress {
        ErrorDress::Xml
    }

    fn health(&self) -> Result<(), String> {
        self.service.health().map_err(|error| error.to_string())
    }
}

fn caller(target: &Target, allowed: Allowed) -> Caller<'_> {
    Caller { allowed, ..Caller::owner(&target.account) }
}

/// Errors that a missing container comes before.
fn is_about_length(error: &ServiceError) -> bool {
    matches!(error.code, ErrorCode::MissingContentLengthHeader | ErrorCode::RequestBodyTooLarge)
}

/// What a SAS says instead of the blob. That of an account cannot: such words are not signed with it.
fn overrides(known: &Known<'_, OperationKind>, grant: &Grant) -> Option<HttpProperties> {
    matches!(grant, Grant::BlobSas { .. }).then(|| reply::overrides(known.query))
}
