//! Batches: every request inside is checked, carried out and answered as if it came alone.

use super::{Blobs, allowed, caller, check_details, told};
use crate::body::ReplyBody;
use crate::pipeline::reply_memory::ReplyMemory;
use crate::pipeline::{Admitted, FrontDoor, Known, Presented};
use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use tepui_model::blob::{ContainerName, OperationKind};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Engine, Extents};
use tepui_wire::address::Service;
use tepui_wire::blob::batch::{self, Inner, PartAnswer};
use tepui_wire::blob::classify::classify;
use tepui_wire::blob::decode::{Request, prepare};
use tepui_wire::blob::encode::{Context, encode};
use tepui_wire::error_body::{self, ErrorDress, Exchange};
use tepui_wire::query::Query;
use tepui_wire::request_headers::RequestHeaders;

/// How many requests of a batch are under way at a time: they share what it costs to wait for the disk.
const AT_A_TIME: usize = 16;

/// What the answer to one of them takes in that to the batch.
const MAX_ANSWER_BYTES: usize = 2048;

impl<E: Engine, X: Extents> Blobs<E, X> {
    pub(super) async fn answer_batch(
        &self,
        door: &FrontDoor<Self>,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        container: Option<&ContainerName>,
        body: &[u8],
    ) -> Result<Response<ReplyBody>, ServiceError> {
        let content_type = known.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let parts = batch::decode(content_type, body, admitted.target)?;
        let kinds = parts.iter().map(kind_of).collect::<Result<Vec<_>, _>>()?;
        batch::check_kinds(&kinds)?;
        let memory = self.memory.reserve(&admitted.target.account, parts.len() * MAX_ANSWER_BYTES).await?;
        let answers = async {
            let mut answers = Vec::with_capacity(parts.len());
            for some in parts.iter().zip(&kinds).collect::<Vec<_>>().chunks(AT_A_TIME) {
                let parts = some
                    .iter()
                    .map(|(part, kind)| self.answer_part(door, known, admitted, container, part, **kind));
                answers.extend(together(parts).await);
            }
            Ok(answers)
        };
        let answers = admitted.in_time(pin!(answers)).await?;
        let response = batch::encode(&door.ids.next(), &answers);
        let memory = ReplyMemory::keep(memory, response.body().len());
        Ok(response.map(|body| ReplyBody::from(body).holding(memory)))
    }

    async fn answer_part(
        &self,
        door: &FrontDoor<Self>,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        container: Option<&ContainerName>,
        part: &Inner,
        kind: OperationKind,
    ) -> PartAnswer {
        let request_id = door.ids.next();
        let answered = self.carry_out_part(door, known, admitted, container, part, kind).await;
        let (mut response, reason) = match answered {
            Ok(response) => (response, None),
            Err(error) => {
                if error.code == ErrorCode::InternalError {
                    tracing::error!(request_id, %error, "internal error");
                }
                let refusal =
                    error_body::encode(&error, ErrorDress::Xml, Service::Blob, &request_id, known.now);
                (refusal, Some(error.message().to_owned()))
            }
        };
        let exchange = Exchange {
            service: Service::Blob,
            request_id: &request_id,
            version: Some(admitted.version),
            request_headers: &part.headers,
        };
        error_body::finish(response.headers_mut(), &exchange);
        PartAnswer { content_id: part.content_id.clone(), response, reason }
    }

    async fn carry_out_part(
        &self,
        door: &FrontDoor<Self>,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        container: Option<&ContainerName>,
        part: &Inner,
        kind: OperationKind,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let Inner { method, target, headers, .. } = part;
        let query = Query::parse(part.raw_query.as_deref());
        let version = admitted.version;
        let presented = Presented {
            method,
            headers,
            query: &query,
            target,
            version,
            peer: admitted.peer,
            now: known.now,
        };
        let grant = door.grant(&presented).await?;
        let resource = part.resource()?;
        let allowed = allowed(&grant, kind, &resource, headers, version)?;
        if container.is_some_and(|container| resource.container() != Some(container.as_str())) {
            let error = ServiceError::new(ErrorCode::InvalidInput);
            return Err(error.with_cause("not in the container of the batch"));
        }
        let rules = &door.addresses;
        let listed = RequestHeaders::new(headers);
        let request =
            Request { kind, resource: &resource, query: &query, headers: &listed, version, target, rules };
        let prepared = prepare(&request)?;
        check_details(&prepared, &grant).map_err(|error| told(error, &grant, headers, version))?;
        let operation = prepared.decode(b"")?;
        let answer = self.service.execute(caller(target, allowed), &operation, None).await;
        let answer = answer.map_err(|error| told(error, &grant, headers, version))?;
        let (base, account) = (&target.base, &target.account);
        let context =
            Context { base, account, query: &query, version, overrides: None, may_read_tags: false };
        encode(&context, &operation, answer.reply)
    }
}

fn kind_of(part: &Inner) -> Result<OperationKind, ServiceError> {
    let query = Query::parse(part.raw_query.as_deref());
    classify(&part.method, &part.resource()?, &query, &RequestHeaders::new(&part.headers))
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
