//! Batches: every request inside is checked, carried out and answered as if it came alone.

use super::{Blobs, caller, scope};
use crate::net::body::ReplyBody;
use crate::pipeline::authenticate_within;
use crate::pipeline::exchange::Authorized;
use crate::pipeline::reply_memory::ReplyMemory;
use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tepui_digest::Algorithms;
use tepui_model::blob::{Call, ContainerName};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Engine, Extents};
use tepui_wire::access::blob as access;
use tepui_wire::address::Service;
use tepui_wire::blob::batch::{self, Inner, PartAnswer};
use tepui_wire::blob::reply::{Context, encode};
use tepui_wire::blob::request::Request;
use tepui_wire::error_body::{self, ErrorFormat};

/// How many requests of a batch are under way at a time: they share what it costs to wait for the disk.
const AT_A_TIME: usize = 16;

/// What the answer to one of them takes in that to the batch, beside what it repeats of the request.
const MAX_ANSWER_BYTES: usize = 2048;
/// What a byte of a request takes where it is repeated: five in XML, as `&amp;`, and one in an id.
const REPEATED: usize = 6;

/// The most that the answers to requests take.
fn most_answer_bytes(parts: &[Inner]) -> usize {
    parts.iter().map(|part| MAX_ANSWER_BYTES + REPEATED * part.bytes).sum()
}

impl<E: Engine, X: Extents> Blobs<E, X> {
    pub(super) async fn answer_batch(
        &self,
        authorized: &Authorized<'_>,
        container: Option<&ContainerName>,
        body: &[u8],
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let content_type = authorized.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let parts = batch::decode(content_type, body, authorized.head.target)?;
        let read = |part| Request::read(&Inner::head(part, authorized.head.version), &self.front.addresses);
        let requests = parts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        batch::check_kinds(&requests.iter().map(Request::kind).collect::<Vec<_>>())?;
        let memory = self.memory.reserve(authorized.account(), most_answer_bytes(&parts)).await?;
        let answers = async {
            let mut answers = Vec::with_capacity(parts.len());
            for (parts, requests) in parts.chunks(AT_A_TIME).zip(requests.chunks(AT_A_TIME)) {
                let answer = |(part, request)| self.answer_part(authorized, container, part, request);
                answers.extend(together(parts.iter().zip(requests).map(answer)).await);
            }
            Ok(answers)
        };
        let answers = authorized.in_time(pin!(answers)).await?;
        let response = batch::encode(&self.front.ids.next(), &answers);
        let memory = ReplyMemory::keep(memory, response.body().len());
        Ok(response.map(|body| ReplyBody::from(body).holding(memory)))
    }

    async fn answer_part(
        &self,
        authorized: &Authorized<'_>,
        container: Option<&ContainerName>,
        part: &Inner,
        request: &Request<'_>,
    ) -> PartAnswer {
        let request_id = self.front.ids.next();
        let answered = self.carry_out_part(authorized, container, request).await;
        let (mut response, reason) = match answered {
            Ok(response) => (response, None),
            Err(error) => {
                if error.code == ErrorCode::InternalError {
                    tracing::error!(request_id, %error, "internal error");
                }
                let refusal = error_body::encode(
                    &error,
                    ErrorFormat::Xml,
                    Service::Blob,
                    &request_id,
                    authorized.now,
                    self.front.directory.challenge(),
                );
                (refusal, Some(error.message().to_owned()))
            }
        };
        let (headers, version) = (response.headers_mut(), Some(authorized.head.version));
        error_body::finish(headers, Service::Blob, version, &request_id, &part.headers);
        PartAnswer { content_id: part.content_id.clone(), response, reason }
    }

    async fn carry_out_part(
        &self,
        authorized: &Authorized<'_>,
        container: Option<&ContainerName>,
        request: &Request<'_>,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let head = request.head();
        let grant = authenticate_within(&self.front, self, authorized, head).await?;
        let allowed = request.check_access(&grant)?;
        if container.is_some_and(|container| request.container() != Some(container.as_str())) {
            let error = ServiceError::new(ErrorCode::InvalidInput);
            return Err(error.with_cause("not in the container of the batch"));
        }
        let prepared = request.prepare()?;
        access::check_details(&grant, &prepared, head)?;
        // Only deletions and changes of tiers are let in.
        let Call::Operation(operation) = prepared.decode(b"", &Algorithms)? else {
            return Err(ErrorCode::InvalidInput.into());
        };
        if let Some(path) = operation.blob() {
            self.front.admit_part(authorized, scope(path))?;
        }
        let answer = self.service.execute(caller(head.target, allowed), &operation).await;
        let answer = answer.map_err(|error| access::redact_error(error, &grant, head))?;
        let context = Context { head: *head, overrides: None, may_read_tags: false };
        encode(&context, &operation, answer.reply)
    }
}

/// Runs futures side by side, and has their outcomes in order.
async fn together<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut under_way: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        let mut all = Poll::Ready(());
        for (future, outcome) in under_way.iter_mut().filter(|(_, outcome)| outcome.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => *outcome = Some(done),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    })
    .await;
    under_way.into_iter().filter_map(|(_, outcome)| outcome).collect()
}
