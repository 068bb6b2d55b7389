//! Entity group transactions: every part goes through the same checks as a lone request.

use super::exchange::{Authorized, Outcome};
use super::{Tables, check_secondary};
use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use tepui_model::cost::Cost;
use tepui_model::grant::Grant;
use tepui_model::table::{Change, ChangeSet, OperationKind};
use tepui_model::{ErrorCode, ServiceError, Stage};
use tepui_storage::Engine;
use tepui_wire::access::table::bounds;
use tepui_wire::head::Head;
use tepui_wire::payload::Payload;
use tepui_wire::table::batch::{self, Batch, Boundaries, ChangeAnswer, Inner};
use tepui_wire::table::request::Prepared;
use tepui_wire::table::request::presentation::{Prefer, prefer};

impl<E: Engine> Tables<E> {
    pub(super) async fn answer_batch(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        body: &[u8],
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let Authorized { head, request_id, now, .. } = authorized;
        let target = head.target;
        let ids = &Boundaries::new(&self.front.ids.next(), &self.front.ids.next());
        let account_in_path = (!target.host_style).then_some(&*target.account);
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match batch::decode(content_type, body, account_in_path)? {
            Batch::Query(inner) => {
                let answered = self.answer_inner_query(authorized, outcome, &inner).await;
                Ok(match answered {
                    Ok(response) => batch::encode_query(ids, &response),
                    Err(error) => {
                        outcome.error_code = Some(error.code.name());
                        batch::encode_query_refusal(ids, &error.at_change(0), request_id, *now)
                    }
                })
            }
            Batch::ChangeSet(parts) => {
                check_secondary(&self.front, target, OperationKind::EntityGroupTransaction)?;
                let answered = self.apply(authorized, outcome, &parts, body, ids).await;
                Ok(answered.unwrap_or_else(|error| {
                    outcome.error_code = Some(error.code.name());
                    log_failure(request_id, &error);
                    let error = batch::indexed(error, parts.len(), 0);
                    let part = parts.get(error.change.unwrap_or(0));
                    let content_id = part.and_then(|part| part.content_id.as_deref());
                    let heard = part.map_or(Prefer::Unsaid, |part| prefer(&part.headers));
                    batch::encode_refusal(ids, &error, content_id, heard, request_id, *now)
                }))
            }
        }
    }

    /// Carries out a change set, or says which change was refused.
    async fn apply(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        parts: &[Inner],
        body: &[u8],
        ids: &Boundaries,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let Authorized { head, grant, .. } = authorized;
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
                            self.service.require_table(authorized.account(), &table).await.err()
                        }
                        _ => None,
                    };
                    return Err(
                        missing.map_or_else(|| error.at_change(index), |missing| missing.at_change(0))
                    );
                }
            }
        }
        outcome.named_table = changes.first().map(|(table, _)| table.clone());
        let set = ChangeSet::new(changes)?;
        let written = self.service.transact(authorized.account(), &set, bounds(grant)).await?;
        outcome.cost = Some(Cost::of_changes(set.changes()));
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
        Ok(batch::encode_change_set(ids, authorized.now, &answers))
    }

    async fn answer_inner_query(
        &self,
        authorized: &Authorized<'_>,
        outcome: &mut Outcome,
        inner: &Inner,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let head = &authorized.head;
        let request = inner.read_query(head)?;
        request.check_access(&authorized.grant)?;
        request.check_name()?;
        let request = request.prepare_part(&batch::part_accept(head), None)?;
        let call = request.decode(&[])?;
        let response = self.carry_out(authorized, outcome, &request, &call).await?;
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
