//! Entity group transactions: every part goes through the same checks as a lone request.

use super::{Admitted, FrontDoor, Known, Tables};
use hyper::header::CONTENT_TYPE;
use hyper::http::Response;
use std::sync::Arc;
use tepui_model::grant::Grant;
use tepui_model::table::{Change, ChangeSet, Operation, OperationKind, Reply};
use tepui_model::{ErrorCode, ServiceError, Stage};
use tepui_service::access;
use tepui_storage::Engine;
use tepui_wire::address::Target;
use tepui_wire::payload::Payload;
use tepui_wire::query::Query;
use tepui_wire::table::batch::{self, Batch, Boundaries, ChangeAnswer, Inner};
use tepui_wire::table::classify::classify;
use tepui_wire::table::decode::{Request, decode, decode_change};
use tepui_wire::table::encode::Context;
use tepui_wire::table::presentation::{Prefer, Presentation, accept, prefer};
use tepui_wire::table::resource::Resource;
use tepui_wire::version::ServiceVersion;

/// One change of a batch, decoded.
struct Decoded {
    table: String,
    kind: OperationKind,
    change: Change,
    presentation: Arc<Presentation>,
}

impl<E: Engine> Tables<E> {
    pub(super) async fn answer_batch(
        &self,
        door: &FrontDoor<Self>,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        body: &[u8],
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let target = admitted.target;
        let ids = &Boundaries::new(&door.ids.next(), &door.ids.next());
        let account_in_path = (!target.host_style).then_some(&*target.account);
        let content_type = known.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match batch::decode(content_type, body, account_in_path)? {
            Batch::Query(inner) => {
                let answered = self.answer_inner_query(known, admitted, &inner).await;
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
                let answered = self.apply(known, admitted, &parts, body, ids).await;
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
        parts: &[Inner],
        body: &[u8],
        ids: &Boundaries,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let Admitted { target, grant, version, .. } = admitted;
        let outer_accept = accept(&known.head.headers);
        let mut decoded: Vec<Decoded> = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| (&parts[before], &decoded[before]));
            match decode_part(part, before, target, grant, *version, outer_accept.as_deref(), body) {
                Ok(change) => decoded.push(change),
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
        let mut presentations = Vec::with_capacity(decoded.len());
        let mut changes = Vec::with_capacity(decoded.len());
        for Decoded { table, change, presentation, .. } in decoded {
            presentations.push((table.clone(), presentation));
            changes.push((table, change));
        }
        let operation = Operation::EntityGroupTransaction(ChangeSet::new(changes)?);
        let reply = self.service.execute(&target.account, &operation, access::bounds(grant)).await?;
        let (Operation::EntityGroupTransaction(set), Reply::Transaction(written)) = (&operation, reply)
        else {
            return Err(ErrorCode::InternalError.into());
        };
        let answers: Vec<_> = set
            .changes()
            .iter()
            .zip(written)
            .zip(&presentations)
            .zip(parts)
            .map(|(((change, written), (table, presentation)), part)| ChangeAnswer {
                context: Context {
                    base: &target.base,
                    account: &target.account,
                    presentation,
                    version: *version,
                    now: known.now,
                },
                table,
                change,
                written,
                content_id: part.content_id.as_deref(),
            })
            .collect();
        Ok(batch::encode_change_set(ids, &answers))
    }

    async fn answer_inner_query(
        &self,
        known: &mut Known<'_, OperationKind>,
        admitted: &Admitted<'_>,
        inner: &Inner,
    ) -> Result<Response<Vec<u8>>, ServiceError> {
        let Admitted { target, grant, version, .. } = admitted;
        let version = *version;
        let query = Query::parse(inner.raw_query.as_deref());
        let resource = Resource::parse(&inner.path, &target.account)?;
        let kind = classify(&inner.method, &resource, &query, &inner.headers)?;
        if !matches!(kind, OperationKind::GetEntity | OperationKind::QueryEntities) {
            return Err(ErrorCode::InvalidInput.into());
        }
        access::check(grant, kind, resource.table())?;
        resource.check_name()?;
        let outer_accept = accept(&known.head.headers);
        let accept = Some(part_accept(outer_accept.as_deref(), version));
        let presentation = Presentation::negotiate(kind, &query, &inner.headers, version, accept)?;
        let request = Request {
            kind,
            resource: &resource,
            query: &query,
            headers: &inner.headers,
            version,
            presentation: &presentation,
        };
        let operation = decode(&request, &[])?;
        let context = Context {
            base: &target.base,
            account: &target.account,
            presentation: &presentation,
            version,
            now: known.now,
        };
        let response = self.carry_out(known, &context, &operation, admitted).await?;
        Ok(response.map(Payload::into_whole))
    }
}

/// The table that a refused part is about, if that was clear, and why it was refused.
type Refusal = Box<(Option<String>, ServiceError)>;

/// Decodes a part. What the one `before` has settled about the same headers is not settled again.
fn decode_part(
    part: &Inner,
    before: Option<(&Inner, &Decoded)>,
    target: &Target,
    grant: &Grant,
    version: ServiceVersion,
    outer_accept: Option<&str>,
    body: &[u8],
) -> Result<Decoded, Refusal> {
    use OperationKind::*;
    let unclear = |error: ServiceError| Box::new((None, error));
    let query = Query::parse(part.raw_query.as_deref());
    let resource = Resource::parse(&part.path, &target.account).map_err(unclear)?;
    let kind = classify(&part.method, &resource, &query, &part.headers).map_err(unclear)?;
    let is_change = matches!(
        kind,
        InsertEntity
            | UpdateEntity
            | MergeEntity
            | InsertOrReplaceEntity
            | InsertOrMergeEntity
            | DeleteEntity
    );
    if !is_change {
        return Err(unclear(ErrorCode::InvalidInput.into()));
    }
    access::check(grant, kind, resource.table()).map_err(|code| unclear(code.into()))?;
    resource.check_name().map_err(unclear)?;
    let table = resource.table().unwrap_or_default().to_owned();
    let refused = |error: ServiceError| Box::new((Some(table.clone()), error));
    let presentation = match before {
        Some((inner, decoded))
            if decoded.kind == kind
                && inner.raw_query == part.raw_query
                && Arc::ptr_eq(&inner.headers, &part.headers) =>
        {
            Arc::clone(&decoded.presentation)
        }
        _ => {
            let accept = Some(part_accept(outer_accept, version));
            Arc::new(Presentation::negotiate(kind, &query, &part.headers, version, accept).map_err(refused)?)
        }
    };
    let request = Request {
        kind,
        resource: &resource,
        query: &query,
        headers: &part.headers,
        version,
        presentation: &presentation,
    };
    let change = decode_change(&request, body.get(part.body.clone()).unwrap_or_default()).map_err(refused)?;
    Ok(Decoded { table, kind, change, presentation })
}

/// What a part accepts that does not say so itself: what the batch does, unless that is only about the batch.
fn part_accept(outer: Option<&str>, version: ServiceVersion) -> &str {
    let is_about_parts = |accept: &&str| {
        accept.contains("json") || (!version.atom_removed() && accept.contains("application/atom+xml"))
    };
    outer.filter(is_about_parts).unwrap_or("application/json;odata=minimalmetadata")
}

fn log_failure(request_id: &str, error: &ServiceError) {
    if error.code == ErrorCode::InternalError {
        tracing::error!(request_id, %error, "internal error");
    }
}
