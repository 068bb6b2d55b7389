//! Entity group transactions: every part goes through the same checks as a lone request.

use super::{Admitted, FrontDoor, Known, Tables};
use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use tepui_engine::Engine;
use tepui_model::grant::Grant;
use tepui_model::table::{Change, ChangeSet, Operation, OperationKind, Reply};
use tepui_model::{ErrorCode, ServiceError, Stage};
use tepui_wire::access::table::bounds;
use tepui_wire::head::Head;
use tepui_wire::payload::Payload;
use tepui_wire::table::batch::{self, Batch, Boundaries, ChangeAnswer, Inner};
use tepui_wire::table::request::Prepared;
use tepui_wire::table::request::presentation::{Prefer, prefer};

impl<E: Engine> Tables<E> {
    pub(super) async fn answer_batch(
        &self,
        door: &FrontDoor<Self>,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        head: &Head<'_>,
        body: &[u8],
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let target = admitted.target;
        let ids = &Boundaries::new(&door.ids.next(), &door.ids.next());
        let account_in_path = (!target.host_style).then_some(&*target.account);
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match batch::decode(content_type, body, account_in_path)? {
            Batch::Query(inner) => {
                let answered = self.answer_inner_query(known, admitted, head, &inner).await;
                Ok(match answered {
                    Ok(response) => batch::encode_query(ids, &response),
                    Err(error) => {
                        known.error_code = Some(error.code.name());
                        batch::encode_query_refusal(ids, &error.at_change(0), known.request_id, known.now)
                    }
                })
            }
            Batch::ChangeSet(parts) => {
                door.check_secondary(target, OperationKind::EntityGroupTransaction)?;
                let answered = self.apply(known, admitted, head, &parts, body, ids).await;
                Ok(answered.unwrap_or_else(|error| {
                    known.error_code = Some(error.code.name());
                    log_failure(known.request_id, &error);
                    let error = batch::indexed(error, parts.len(), 0);
                    let part = parts.get(error.change.unwrap_or(0));
                    let content_id = part.and_then(|part| part.content_id.as_deref());
                    let heard = part.map_or(Prefer::Unsaid, |part| prefer(&part.headers));
                    batch::encode_refusal(ids, &error, content_id, heard, known.request_id, known.now)
                }))
            }
        }
    }

    /// Carries out a change set, or says which change was refused.
    async fn apply(
        &self,
        known: &Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        head: &Head<'_>,
        parts: &[Inner],
        body: &[u8],
        ids: &Boundaries,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let Admitted { target, grant, .. } = admitted;
        let accept = batch::part_accept(head);
        let mut requests: Vec<Prepared<'_>> = Vec::with_capacity(parts.len());
        let mut changes = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            match decode_part(part, requests.last(), head, grant, &accept, body) {
                Ok((request, change)) => {
                    requests.push(request);
                    changes.push(change);
                }
                Err(refusal) => {
                    let (table, error) = *refusal;
                    let missing = match table {
                        Some(table) if error.stage != Stage::Store || error.status() == 400 => {
                            self.service.require_table(&target.account, &table).await.err()
                        }
                        _ => None,
                    };
                    return Err(
                        missing.map_or_else(|| error.at_change(index), |missing| missing.at_change(0))
                    );
                }
            }
        }
        let operation = Operation::EntityGroupTransaction(ChangeSet::new(changes)?);
        let reply = self.service.execute(&target.account, &operation, bounds(grant)).await?;
        let (Operation::EntityGroupTransaction(set), Reply::Transaction(written)) = (&operation, reply)
        else {
            return Err(ErrorCode::InternalError.into());
        };
        let answers: Vec<_> = set
            .changes()
            .iter()
            .zip(written)
            .zip(&requests)
            .zip(parts)
            .map(|(((change, written), request), part)| ChangeAnswer {
                request,
                change,
                written,
                content_id: part.content_id.as_deref(),
            })
            .collect();
        Ok(batch::encode_change_set(ids, known.now, &answers))
    }

    async fn answer_inner_query(
        &self,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        head: &Head<'_>,
        inner: &Inner,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let request = inner.read_query(head)?;
        request.check_access(&admitted.grant)?;
        request.check_name()?;
        let request = request.prepare_part(&batch::part_accept(head), None)?;
        let operation = request.decode(&[])?;
        let response = self.carry_out(known, &request, &operation, admitted).await?;
        Ok(response.map(Payload::into_whole))
    }
}

/// The table that a refused part is about, if that was clear, and why it was refused.
type Refusal = Box<(Option<String>, ServiceError)>;

/// Decodes a part of a batch with the head `batch`, which comes after another.
fn decode_part<'a>(
    part: &'a Inner,
    before: Option<&Prepared<'_>>,
    batch: &Head<'a>,
    grant: &Grant,
    accept: &str,
    body: &[u8],
) -> Result<(Prepared<'a>, (String, Change)), Refusal> {
    let unclear = |error: ServiceError| Box::new((None, error));
    let request = part.read_change(batch).map_err(unclear)?;
    request.check_access(grant).map_err(unclear)?;
    request.check_name().map_err(unclear)?;
    let table = request.table().unwrap_or_default().to_owned();
    let refused = |error: ServiceError| Box::new((Some(table.clone()), error));
    let request = request.prepare_part(accept, before).map_err(refused)?;
    let change = request.decode_change(body.get(part.body.clone()).unwrap_or_default()).map_err(refused)?;
    Ok((request, (table, change)))
}

fn log_failure(request_id: &str, error: &ServiceError) {
    if error.code == ErrorCode::InternalError {
        tracing::error!(request_id, %error, "internal error");
    }
}
