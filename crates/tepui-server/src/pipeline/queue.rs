//! The requests of the Queue service.

use super::{Admitted, FrontDoor, Known, Served, read_body};
use crate::body::{Body, ReplyBody};
use hyper::http::Response;
use std::pin::pin;
use std::sync::Arc;
use tepui_engine::Engine;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::queue::OperationKind;
use tepui_model::queue::message::MAX_TEXT_BYTES;
use tepui_model::service_properties::CorsRule;
use tepui_model::{ErrorCode, ServiceError};
use tepui_service::{QueueService, access};
use tepui_wire::address::Service;
use tepui_wire::auth::SasToken;
use tepui_wire::error_body::ErrorDress;
use tepui_wire::queue::classify::classify;
use tepui_wire::queue::decode::{Request, prepare};
use tepui_wire::queue::encode::{Context, encode};
use tepui_wire::queue::resource::Resource;
use tepui_wire::version::ServiceVersion;

/// A text of the largest size whose every character is escaped, and what is around it.
const MAX_BODY_BYTES: usize = 6 * MAX_TEXT_BYTES + 1024;

/// The Queue service behind the front door.
pub struct Queues<E: Engine> {
    service: Arc<QueueService<E>>,
}

impl<E: Engine> Queues<E> {
    pub fn new(service: Arc<QueueService<E>>) -> Self {
        Self { service }
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
        use OperationKind::*;
        let Admitted { target, grant, version, .. } = admitted;
        let head = known.head;
        let resource = Resource::parse(&target.path)?;
        let kind = classify(&head.method, &resource, &known.query)?;
        known.kind = Some(kind);
        door.check_secondary(target, kind)?;
        access::check_queue(grant, kind, resource.queue())?;
        let request = Request {
            kind,
            resource: &resource,
            query: &known.query,
            headers: &head.headers,
            version: *version,
        };
        let prepared = prepare(&request)?;
        let wants_body = matches!(kind, PutMessage | SetAcl | SetServiceProperties);
        let bytes = read_body(wants_body, MAX_BODY_BYTES, head, body).await.map_err(limited)?;
        let answer = async {
            let queue = prepared.queue().cloned();
            let operation = match (prepared.decode(&bytes), queue) {
                (Ok(operation), _) => operation,
                // A queue that is missing is told before what is wrong with a body for it.
                (Err(error), Some(queue)) => {
                    let missing = self.service.require_queue(&target.account, queue.as_str()).await;
                    return Err(missing.err().unwrap_or(error));
                }
                (Err(error), None) => return Err(error),
            };
            let reply = self.service.execute(&target.account, &operation).await;
            let reply = reply.map_err(|error| request.quoted(error))?;
            let context = Context {
                base: &target.base,
                account: &target.account,
                query: &known.query,
                version: *version,
            };
            Ok(encode(&context, &operation, reply)?.map(ReplyBody::from))
        };
        admitted.in_time(pin!(answer)).await
    }

    fn error_dress(&self, _known: &Known<'_, OperationKind>, _version: ServiceVersion) -> ErrorDress {
        ErrorDress::Xml
    }

    fn health(&self) -> Result<(), String> {
        self.service.health().map_err(|error| error.to_string())
    }
}

/// A body that is too large as a whole has too large a text.
fn limited(error: ServiceError) -> ServiceError {
    match error.code {
        ErrorCode::RequestBodyTooLarge => error.with_detail("MaxLimit", MAX_TEXT_BYTES.to_string()),
        _ => error,
    }
}
