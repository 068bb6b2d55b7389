//! The requests of the Queue service.

use super::reply_memory::ReplyMemory;
use super::{Admitted, FrontDoor, Known, Served, read_body};
use crate::body::{Body, ReplyBody};
use crate::limits::{Limits, PAGE_BYTES};
use hyper::http::Response;
use std::pin::pin;
use std::sync::Arc;
use tepui_engine::Engine;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::queue::message::MAX_TEXT_BYTES;
use tepui_model::queue::{Operation, OperationKind, QueueName};
use tepui_model::service_properties::CorsRule;
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::QueueService;
use tepui_wire::address::Service;
use tepui_wire::auth::SasToken;
use tepui_wire::error_body::ErrorDress;
use tepui_wire::queue::reply::encode;
use tepui_wire::queue::request::Request;
use tepui_wire::version::ServiceVersion;

/// A message in an answer: a text of the largest size that is nothing but `&amp;`, and what is around it.
const MAX_MESSAGE_BYTES: usize = 5 * MAX_TEXT_BYTES + 1024;

/// The Queue service behind the front door.
pub struct Queues<E: Engine> {
    service: Arc<QueueService<E>>,
    replies: ReplyMemory,
}

impl<E: Engine> Queues<E> {
    pub fn new(service: Arc<QueueService<E>>, limits: &Limits) -> Self {
        Self { service, replies: ReplyMemory::new(limits) }
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

impl<E: Engine> Served for Queues<E> {
    const SERVICE: Service = Service::Queue;
    // Fidelity: unlike tables. scenario: queue-version-wins
    const VERSION_FIRST: bool = true;
    type Kind = OperationKind;

    async fn cors(&self, account: &str) -> Result<Vec<CorsRule>, ServiceError> {
        Ok(self.service.service_properties(account).await?.cors.clone())
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

    async fn answer(
        &self,
        door: &FrontDoor<Self>,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        body: &mut Option<Body>,
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let Admitted { target, grant, .. } = admitted;
        let head = admitted.head(known);
        let request = Request::read(&head)?;
        known.kind = Some(request.kind());
        door.check_secondary(target, request.kind())?;
        request.check_access(grant)?;
        let prepared = request.prepare()?;
        let bytes = read_body(request.body(), known.head, body).await.map_err(limited);
        let answer = async {
            let queue = prepared.queue().cloned();
            let operation = match bytes.and_then(|bytes| prepared.decode(&bytes)) {
                Ok(operation) => operation,
                Err(error) => return Err(self.queue_first(&target.account, queue.as_ref(), error).await),
            };
            // Before anything is done: messages that cannot be sent must not be taken.
            let memory = match most_bytes(&operation) {
                0 => None,
                bytes => Some(self.replies.reserve(&target.account, bytes).await?),
            };
            let reply = self.service.execute(&target.account, &operation).await;
            let reply = reply.map_err(|error| request.quoted(error))?;
            let response = encode(&head, reply)?;
            let memory = memory.and_then(|memory| ReplyMemory::keep(memory, response.body().len()));
            Ok((response.map(ReplyBody::from), memory))
        };
        let (response, memory) = admitted.in_time(pin!(answer)).await?;
        known.memory = memory;
        Ok(response)
    }

    fn error_dress(&self, _known: &Known<'_, OperationKind>, _version: ServiceVersion) -> ErrorDress {
        ErrorDress::Xml
    }

    fn health(&self) -> Result<(), String> {
        self.service.health().map_err(|error| error.to_string())
    }
}

/// How large the answer may be, if it may be large.
fn most_bytes(operation: &Operation) -> usize {
    match operation {
        Operation::GetMessages { count, .. } | Operation::PeekMessages { count, .. } => {
            count * MAX_MESSAGE_BYTES
        }
        Operation::ListQueues(_) => PAGE_BYTES,
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
