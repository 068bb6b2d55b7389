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

use super::exchange::{self, Authorized, Outcome, Received};
use super::faults;
use super::reply_memory::ReplyMemory;
use super::{
    AccountProperties, AccountSettings, CachedSettings, Front, ServiceHandler, admit, answer_key_request,
    check_host, check_secondary, preflight, read_body, respond,
};
use crate::net::accept::{Handler, Peer};
use crate::net::body::{Body, ReplyBody};
use crate::net::limits::{Limits, PAGE_BYTES};
use crate::targets::Scope;
use hyper::http::{Response, request};
use std::pin::pin;
use std::sync::Arc;
use tepui_digest::Algorithms;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    BlobPath, Call, ContainerName, HttpProperties, ListBlobs, Operation, OperationKind, Reply,
    UploadOperation, UploadOrigin,
};
use tepui_model::grant::Grant;
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::blob::{Answer, Caller};
use tepui_service::phase::{self, Phase};
use tepui_service::{BlobService, CoopBudget};
use tepui_storage::{Engine, Extents};
use tepui_wire::access::blob as access;
use tepui_wire::address::Target;
use tepui_wire::auth::SasToken;
use tepui_wire::blob::reply::{self, Asked, BlobListWriter, BlockListWriter, Context, encode};
use tepui_wire::blob::request::{Prepared, Request, too_large};
use tepui_wire::head::BodyUse;

/// The handler of the Blob service.
pub struct Blobs<E, X> {
    front: Front,
    service: Arc<BlobService<E, X>>,
    remote: RemoteCopies,
    pub(super) memory: Arc<ReplyMemory>,
    copies: Arc<BackgroundCopies>,
}

impl<E: Engine, X: Extents> Blobs<E, X> {
    pub fn new(
        front: Front,
        service: Arc<BlobService<E, X>>,
        remote: RemoteCopies,
        copies: Arc<BackgroundCopies>,
        limits: &Limits,
    ) -> Self {
        let memory = front.reply_memory(limits);
        Self { front, service, remote, memory, copies }
    }

    /// Reads a body that is read whole, and what it asks for.
    async fn decode(
        &self,
        authorized: &Authorized<'_>,
        prepared: Prepared,
        body_use: BodyUse,
        body: &mut Option<Body>,
    ) -> Result<(Call, bytes::Bytes), ServiceError> {
        let container = prepared.call().container().cloned();
        let decoded = match read_body(body_use, authorized, body).await {
            Ok(bytes) => decode_in_turns(prepared, &bytes).await.map(|call| (call, bytes)),
            Err(error) => Err(limited(error, body_use)),
        };
        match decoded {
            Ok(decoded) => Ok(decoded),
            Err(error) => Err(self.container_first(authorized, container.as_ref(), error).await),
        }
    }

    /// Which error wins when there is something wrong with a body. Fidelity: a missing container does.
    async fn container_first(
        &self,
        authorized: &Authorized<'_>,
        container: Option<&ContainerName>,
        error: ServiceError,
    ) -> ServiceError {
        let Some(container) = container else { return error };
        let found = self.service.require_container(authorized.account(), container);
        authorized.in_time(pin!(found)).await.err().unwrap_or(error)
    }

    /// Carries out an operation that brings no bytes along.
    async fn carry_out(
        &self,
        authorized: &Authorized<'_>,
        caller: Caller<'_>,
        operation: &Operation,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let answer = self.service.execute(caller, operation);
        let Answer { reply, content } = authorized.in_time(pin!(answer)).await?;
        let response = encode_with_overrides(authorized, operation, reply)?;
        match content {
            Some(content) => download::respond(authorized, &self.memory, response, content).await,
            None => Ok(response.map(ReplyBody::from)),
        }
    }

    /// Carries out an operation whose answer may be long.
    async fn answer_page(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        caller: Caller<'_>,
        operation: &Operation,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let mut bytes = PAGE_BYTES;
        let (memory, answer) = loop {
            let memory = self.memory.reserve(authorized.account(), bytes).await?;
            let answer = self.service.execute(caller, operation);
            let answer = authorized.in_time(pin!(answer)).await?;
            // There is no other answer that is read whole and may be longer than a page.
            let Reply::BlockList(list) = &answer.reply else { break (memory, answer) };
            bytes = reply::block_list_memory_bytes(list);
            if self.memory.is_enough(&memory, bytes) {
                break (memory, answer);
            }
            // Both are released before waiting for more: requests that hold some and wait for more would deadlock.
        };
        phase::enter(Phase::Reply);
        outcome.cost = match &answer.reply {
            Reply::Containers(page) => Some(page.cost),
            Reply::Found(page) => Some(page.cost),
            _ => None,
        };
        let response = match answer.reply {
            Reply::BlockList(list) => encode_in_turns(BlockListWriter::new(list)).await,
            reply => encode(&context(authorized, None), operation, reply)?,
        };
        outcome.memory = ReplyMemory::keep(memory, response.body().len());
        Ok(response.map(ReplyBody::from))
    }

    async fn list_blobs(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        caller: Caller<'_>,
        query: &ListBlobs,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let memory = self.memory.reserve_page(authorized.account()).await?;
        let mut writer = BlobListWriter::new(&context(authorized, None), query);
        let page = self.service.list_blobs(caller, query, &mut writer);
        let page = authorized.in_time(pin!(page)).await?;
        phase::enter(Phase::Reply);
        let response = writer.finish(page.next.as_ref());
        outcome.cost = Some(page.cost);
        outcome.memory = ReplyMemory::keep(memory, response.body().len());
        Ok(response.map(ReplyBody::from))
    }
}

/// The work of one step of decoding or encoding, for the budget of its time slice.
const STEP_WORK: usize = 4096;

/// Reads a body, and lets others run meanwhile if it is long.
async fn decode_in_turns(prepared: Prepared, body: &[u8]) -> Result<Call, ServiceError> {
    let coop = CoopBudget::default();
    let mut decoding = prepared.begin(body, &Algorithms)?;
    loop {
        if let Some(call) = decoding.step()? {
            return Ok(call);
        }
        coop.spend(STEP_WORK).await;
    }
}

/// Makes the answer to Get Block List, and lets others run meanwhile if it is long.
async fn encode_in_turns(mut writer: BlockListWriter) -> Response<Vec<u8>> {
    let coop = CoopBudget::default();
    while writer.step() {
        coop.spend(STEP_WORK).await;
    }
    writer.finish()
}

fn context<'a>(authorized: &'a Authorized<'_>, overrides: Option<&'a HttpProperties>) -> Context<'a> {
    let may_read_tags = access::may_read_tags(&authorized.grant, &authorized.head);
    Context { head: authorized.head, overrides, may_read_tags }
}

impl<E: Engine, X: Extents> ServiceHandler for Blobs<E, X> {
    fn front(&self) -> &Front {
        &self.front
    }

    async fn answer(
        &self,
        received: &Received,
        outcome: &mut Outcome,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        check_host(&self.front, received)?;
        if received.is_preflight() {
            return preflight(self, received).await;
        }
        let authorized = &admit(&self.front, self, received, outcome, body).await?;
        let Authorized { head, grant, .. } = authorized;
        let request = Request::read(head, &self.front.addresses)?;
        outcome.operation = Some(exchange::OperationKind::Blob(request.kind()));
        self.front.admit_request(authorized, outcome, body.as_ref())?;
        faults::before_work(&self.front, received, outcome).await?;
        check_secondary(&self.front, head.target, request.kind())?;
        let allowed = request.check_access(grant)?;
        if request.kind() == OperationKind::GetUserDelegationKey {
            return Box::pin(answer_key_request(&self.front, authorized, request.body(), body)).await;
        }
        let prepared = match request.prepare() {
            Ok(prepared) => prepared,
            Err(error) if is_about_length(&error) => {
                let container = request.container_name().ok();
                return Err(self.container_first(authorized, container.as_ref(), error).await);
            }
            Err(error) => return Err(error),
        };
        access::check_details(grant, &prepared, head)?;
        let caller = caller(head.target, allowed);
        let body_use = request.body();
        let (call, bytes) = match body_use {
            BodyUse::Whole { .. } => self.decode(authorized, prepared, body_use, body).await?,
            BodyUse::Streamed | BodyUse::Nothing => (prepared.decode(b"", &Algorithms)?, bytes::Bytes::new()),
        };
        if let Some(path) = call.blob() {
            let scope = scope(path);
            self.front.admit_to(authorized, outcome, scope, 1)?;
            self.front.record(authorized, scope, 1);
        }
        // Boxed: what is large, and rare.
        let answered = match call {
            Call::Batch { container } => {
                Box::pin(self.answer_batch(authorized, container.as_ref(), &bytes)).await
            }
            Call::List(query) => Box::pin(self.list_blobs(authorized, outcome, caller, &query)).await,
            Call::Upload(UploadOperation::CopyBlob(copy)) if copy.goes_on() => {
                Box::pin(self.answer_background(authorized, caller, copy)).await
            }
            Call::Upload(operation) => match operation.origin() {
                UploadOrigin::Request(upload) => {
                    let declared = upload.bytes;
                    self.answer_upload(authorized, caller, operation, declared, body).await
                }
                UploadOrigin::Source(source) => {
                    let source = source.clone();
                    Box::pin(self.answer_fetched(authorized, caller, operation, &source)).await
                }
            },
            Call::Operation(operation) => match (&operation, operation.source()) {
                (
                    Operation::ListContainers(_)
                    | Operation::FindBlobsByTags(_)
                    | Operation::GetPageRanges(_)
                    | Operation::GetBlockList { .. },
                    _,
                ) => Box::pin(self.answer_page(authorized, outcome, caller, &operation)).await,
                (_, Some(source)) => {
                    Box::pin(self.answer_shared(authorized, caller, &operation, source)).await
                }
                (_, None) => self.carry_out(authorized, caller, &operation).await,
            },
        };
        answered.map_err(|error| access::redact_error(error, grant, head))
    }
}

impl<E: Engine, X: Extents> Handler for Blobs<E, X> {
    const HAS_METADATA: bool = true;

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

impl<E: Engine, X: Extents> CachedSettings for Blobs<E, X> {
    fn cached(&self, account: &str) -> Option<AccountProperties> {
        self.service.cached_properties(account).map(AccountProperties::Blob)
    }
}

impl<E: Engine, X: Extents> AccountSettings for Blobs<E, X> {
    async fn properties(&self, account: &str) -> Result<AccountProperties, ServiceError> {
        self.service.service_properties(account).await.map(AccountProperties::Blob)
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
}

/// Where the load on a blob counts.
fn scope(path: &BlobPath) -> Scope<'_> {
    Scope::Blob { container: path.container.as_str(), blob: path.blob.as_str() }
}

fn caller(target: &Target, allowed: Allowed) -> Caller<'_> {
    Caller { allowed, ..Caller::owner(&target.account) }
}

/// The error for a body that is too large says how large it may be.
fn limited(error: ServiceError, body_use: BodyUse) -> ServiceError {
    match body_use {
        BodyUse::Whole { max_bytes, .. } if error.code == ErrorCode::RequestBodyTooLarge => {
            too_large(max_bytes as u64)
        }
        _ => error,
    }
}

/// Errors that a missing container comes before.
fn is_about_length(error: &ServiceError) -> bool {
    matches!(error.code, ErrorCode::MissingContentLengthHeader | ErrorCode::RequestBodyTooLarge)
}

/// The head of the answer to an operation that succeeded.
fn encode_with_overrides<'a>(
    authorized: &Authorized<'_>,
    asked: impl Into<Asked<'a>>,
    reply: Reply,
) -> Result<Response<Vec<u8>>, ServiceError> {
    let overrides = overrides(authorized);
    encode(&context(authorized, overrides.as_ref()), asked, reply)
}

/// What a SAS says instead of the blob. That of an account cannot: such words are not signed with it.
fn overrides(authorized: &Authorized<'_>) -> Option<HttpProperties> {
    matches!(authorized.grant, Grant::BlobSas { .. }).then(|| reply::overrides(authorized.head.query))
}
