//! The requests of the Queue service.

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
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::cost::{Cost, units};
use tepui_model::queue::message::MAX_TEXT_BYTES;
use tepui_model::queue::{Call, Operation, OperationKind, QueueName, Reply, SequencedOperation};
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::QueueService;
use tepui_service::phase::{self, Phase};
use tepui_storage::Engine;
use tepui_wire::auth::SasToken;
use tepui_wire::queue::reply::encode;
use tepui_wire::queue::request::Request;

/// A message in an answer: a text of the largest size that is nothing but `&amp;`, and what is around it.
const MAX_MESSAGE_BYTES: usize = 5 * MAX_TEXT_BYTES + 1024;

/// The handler of the Queue service.
pub struct Queues<E: Engine> {
    pub(super) front: Front,
    service: Arc<QueueService<E>>,
    replies: Arc<ReplyMemory>,
}

impl<E: Engine> Queues<E> {
    pub fn new(front: Front, service: Arc<QueueService<E>>, limits: &Limits) -> Self {
        let replies = front.reply_memory(limits);
        Self { front, service, replies }
    }

    /// Which error wins when a body is not right: a missing queue does.
    async fn queue_first(
        &self,
        account: &str,
        queue: Option<&QueueName>,
        error: ServiceError,
    ) -> ServiceError {
        match queue {
            Some(queue) => self.service.require_queue(account, queue.as_str()).await.err().unwrap_or(error),
            None => error,
        }
    }
}

impl<E: Engine> ServiceHandler for Queues<E> {
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
        let authorized = admit(&self.front, self, received, outcome, body).await?;
        let Authorized { head, grant, .. } = &authorized;
        let request = Request::read(head)?;
        outcome.operation = Some(exchange::OperationKind::Queue(request.kind()));
        self.front.admit_request(&authorized, outcome, body.as_ref())?;
        faults::before_work(&self.front, received, outcome).await?;
        check_secondary(&self.front, head.target, request.kind())?;
        request.check_access(grant)?;
        if request.kind() == OperationKind::GetUserDelegationKey {
            return Box::pin(answer_key_request(&self.front, &authorized, request.body(), body)).await;
        }
        let prepared = request.prepare()?;
        let bytes = read_body(request.body(), &authorized, body).await.map_err(limited);
        let answer = async {
            let queue = prepared.queue().cloned();
            let call = match bytes.and_then(|bytes| prepared.decode(&bytes)) {
                Ok(call) => call,
                Err(error) => {
                    return Err(self.queue_first(authorized.account(), queue.as_ref(), error).await);
                }
            };
            let scope = call.queue().map(|queue| Scope::Queue(queue.as_str()));
            if let Some(scope) = scope {
                self.front.admit_to(&authorized, outcome, scope, units(call.text_bytes()))?;
            }
            // Before anything is done: messages that cannot be sent must not be taken.
            let memory = match most_bytes(&call) {
                0 => None,
                bytes => Some(self.replies.reserve(authorized.account(), bytes).await?),
            };
            let reply = self.service.execute(authorized.account(), &call).await;
            phase::enter(Phase::Reply);
            let reply = reply.map_err(|error| request.quoted(error))?;
            outcome.cost = match &reply {
                Reply::Queues(page) => Some(page.cost),
                reply => Cost::of_messages(reply, call.text_bytes()),
            };
            if let Some(scope) = scope {
                self.front.record(&authorized, scope, outcome.cost.map_or(1, |cost| cost.units));
            }
            let response = encode(head, reply)?;
            let memory = memory.and_then(|memory| ReplyMemory::keep(memory, response.body().len()));
            Ok((response.map(ReplyBody::from), memory))
        };
        let (response, memory) = authorized.in_time(pin!(answer)).await?;
        outcome.memory = memory;
        Ok(response)
    }
}

impl<E: Engine> Handler for Queues<E> {
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

impl<E: Engine> CachedSettings for Queues<E> {
    fn cached(&self, account: &str) -> Option<AccountProperties> {
        self.service.cached_properties(account).map(AccountProperties::Common)
    }
}

impl<E: Engine> AccountSettings for Queues<E> {
    async fn properties(&self, account: &str) -> Result<AccountProperties, ServiceError> {
        self.service.service_properties(account).await.map(AccountProperties::Common)
    }

    async fn policy(
        &self,
        account: &str,
        token: &SasToken,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        match (token.policy_id(), token.queue()) {
            (Some(id), Some(queue)) => self.service.signed_identifier(account, queue, id).await,
            _ => Ok(None),
        }
    }
}

/// How large the answer may be, if it may be large.
fn most_bytes(call: &Call) -> usize {
    match call {
        Call::Sequenced(SequencedOperation::GetMessages { count, .. })
        | Call::Operation(Operation::PeekMessages { count, .. }) => count * MAX_MESSAGE_BYTES,
        Call::Operation(Operation::ListQueues(_)) => PAGE_BYTES,
        _ => 0,
    }
}

/// A body that is too large as a whole has too large a text.
fn limited(error: ServiceError) -> ServiceError {
    match error.code {
        ErrorCode::RequestBodyTooLarge => error.with_detail("MaxLimit", MAX_TEXT_BYTES.to_string()),
        _ => error,
    }
}
