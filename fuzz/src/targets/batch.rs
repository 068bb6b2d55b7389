//! Batches: the first line is the content type, the rest the body.

use crate::checks::{entity_survives, refused};
use crate::material::{ACCOUNT, NOW, cut_line, some_version};
use tepui_model::ServiceError;
use tepui_model::table::change_set::MAX_CHANGES;
use tepui_model::table::{Action, Change, ChangeSet, OperationKind, Written};
use tepui_wire::query::Query;
use tepui_wire::table::batch::{self as wire, Batch, Boundaries, ChangeAnswer, Inner};
use tepui_wire::table::classify::classify;
use tepui_wire::table::decode::{Request, decode, decode_change};
use tepui_wire::table::encode::Context;
use tepui_wire::table::presentation::{Prefer, Presentation};
use tepui_wire::table::resource::Resource;
use tepui_wire::version::ServiceVersion;

pub(super) const WORDS: &[&str] = &[
    "multipart/mixed; boundary=b",
    "multipart/mixed; boundary=c",
    "boundary=",
    "\"",
    "--b\r\n",
    "--b--\r\n",
    "--c\r\n",
    "--c--\r\n",
    "--",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "Content-Type: application/http\r\n",
    "Content-Transfer-Encoding: binary\r\n",
    "Content-Type: multipart/mixed; boundary=c\r\n\r\n",
    "POST http://127.0.0.1:10002/devstoreaccount1/T HTTP/1.1\r\n",
    "PUT /devstoreaccount1/T(PartitionKey='p',RowKey='r') HTTP/1.1\r\n",
    "MERGE ",
    "DELETE ",
    "GET ",
    "PATCH ",
    " HTTP/1.1\r\n",
    "If-Match: *\r\n",
    "If-Match: W/\"datetime'2026-03-10T08%3A15%3A30.5Z'\"\r\n",
    "Content-ID: 1\r\n",
    "Prefer: return-no-content\r\n",
    "X-HTTP-Method: MERGE\r\n",
    "Accept: application/json\r\n",
    "Content-Type: application/json\r\n",
    "{\"PartitionKey\":\"p\",\"RowKey\":\"r\"}",
    "?$filter=A%20eq%201",
];

/// Every part goes the way that the server sends it, up to the answer.
pub fn batch(data: &[u8]) {
    let (content_type, body) = cut_line(data);
    let content_type = std::str::from_utf8(content_type).ok();
    for (account_in_path, version) in [(Some(ACCOUNT), ServiceVersion::NEWEST), (None, some_version(data))] {
        match wire::decode(content_type, body, account_in_path) {
            Ok(Batch::ChangeSet(parts)) => change_set(&parts, body, version),
            Ok(Batch::Query(inner)) => {
                if let Err(error) = query(&inner, version) {
                    refused(&error);
                    let answer = wire::encode_query_refusal(&boundaries(), &error.at_change(0), "id", *NOW);
                    assert!(answer.body().ends_with(b"--batchresponse_b--\r\n"));
                }
            }
            Err(error) => refused(&error),
        }
    }
}

fn boundaries() -> Boundaries {
    Boundaries::new("b", "c")
}

fn change_set(parts: &[Inner], body: &[u8], version: ServiceVersion) {
    let mut changes = Vec::new();
    let mut presentations = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        assert!(body.get(part.body.clone()).is_some(), "a body outside of the batch");
        match change(part, body, version) {
            Ok((table, change, presentation)) => {
                changes.push((table, change));
                presentations.push(presentation);
            }
            Err(error) => return refuse(error, parts, index),
        }
    }
    let tables: Vec<String> = changes.iter().map(|(table, _)| table.clone()).collect();
    let set = match ChangeSet::new(changes) {
        Ok(set) => set,
        Err(error) => return refuse(error, parts, 0),
    };
    assert!(set.changes().len() <= MAX_CHANGES && set.changes().len() == parts.len());
    let answers: Vec<_> = set
        .changes()
        .iter()
        .zip(&tables)
        .zip(&presentations)
        .zip(parts)
        .map(|(((change, table), presentation), part)| ChangeAnswer {
            context: Context { base: "http://h/a", account: ACCOUNT, presentation, version, now: *NOW },
            table,
            change,
            written: Written::Stored(*NOW),
            content_id: part.content_id.as_deref(),
        })
        .collect();
    let answer = wire::encode_change_set(&boundaries(), &answers);
    assert!(answer.body().ends_with(b"--changesetresponse_c--\r\n--batchresponse_b--\r\n"));
}

fn refuse(error: ServiceError, parts: &[Inner], index: usize) {
    refused(&error);
    let error = wire::indexed(error, parts.len(), index);
    let part = parts.get(error.change.unwrap_or(0));
    let content_id = part.and_then(|part| part.content_id.as_deref());
    let answer = wire::encode_refusal(&boundaries(), &error, content_id, Prefer::Unsaid, "id", *NOW);
    assert!(answer.body().ends_with(b"--changesetresponse_c--\r\n--batchresponse_b--\r\n"));
}

fn change(
    part: &Inner,
    body: &[u8],
    version: ServiceVersion,
) -> Result<(String, Change, Presentation), ServiceError> {
    use OperationKind::*;
    let query = Query::parse(part.raw_query.as_deref());
    let resource = Resource::parse(&part.path, ACCOUNT)?;
    let kind = classify(&part.method, &resource, &query, &part.headers)?;
    if !matches!(
        kind,
        InsertEntity
            | UpdateEntity
            | MergeEntity
            | InsertOrReplaceEntity
            | InsertOrMergeEntity
            | DeleteEntity
    ) {
        return Err(tepui_model::ErrorCode::InvalidInput.into());
    }
    let presentation =
        Presentation::negotiate(kind, &query, &part.headers, version, Some("application/json"))?;
    let request = Request {
        kind,
        resource: &resource,
        query: &query,
        headers: &part.headers,
        version,
        presentation: &presentation,
    };
    let change = decode_change(&request, &body[part.body.clone()])?;
    match &change.action {
        Action::Insert(properties)
        | Action::Update(_, properties)
        | Action::Merge(_, properties)
        | Action::InsertOrReplace(properties)
        | Action::InsertOrMerge(properties) => entity_survives(&change.key, properties),
        Action::Delete(_) => {}
    }
    Ok((resource.table().unwrap_or_default().to_owned(), change, presentation))
}

fn query(inner: &Inner, version: ServiceVersion) -> Result<(), ServiceError> {
    let query = Query::parse(inner.raw_query.as_deref());
    let resource = Resource::parse(&inner.path, ACCOUNT)?;
    let kind = classify(&inner.method, &resource, &query, &inner.headers)?;
    let presentation = Presentation::negotiate(kind, &query, &inner.headers, version, None)?;
    let request = Request {
        kind,
        resource: &resource,
        query: &query,
        headers: &inner.headers,
        version,
        presentation: &presentation,
    };
    decode(&request, &[]).map(drop)
}
