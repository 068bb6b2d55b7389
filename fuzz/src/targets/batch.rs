//! Batches: the first line is the content type, the rest the body.

use crate::checks::{entity_survives, refused};
use crate::material::{ACCOUNT, NOW, cut_line, some_version};
use http::{HeaderMap, Method};
use tepui_model::ServiceError;
use tepui_model::table::change_set::MAX_CHANGES;
use tepui_model::table::{Action, Change, ChangeSet, Written};
use tepui_wire::address::{Service, Target};
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::table::batch::{self as wire, Batch, Boundaries, ChangeAnswer, Inner};
use tepui_wire::table::request::Prepared;
use tepui_wire::table::request::presentation::Prefer;
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
    let target = Target {
        account: ACCOUNT.to_owned(),
        secondary: false,
        base: "http://h/a".to_owned(),
        raw_path: format!("/{ACCOUNT}/$batch"),
        path: "$batch".to_owned(),
        host_style: false,
    };
    let (method, query, headers) = (&Method::POST, &Query::default(), &HeaderMap::new());
    for (account_in_path, version) in [(Some(ACCOUNT), ServiceVersion::NEWEST), (None, some_version(data))] {
        let service = Service::Table;
        let head = Head {
            service,
            method,
            target: &target,
            path: &target.path,
            query,
            headers,
            case: None,
            version,
        };
        match wire::decode(content_type, body, account_in_path) {
            Ok(Batch::ChangeSet(parts)) => change_set(&head, &parts, body),
            Ok(Batch::Query(inner)) => {
                if let Err(error) = query_part(&head, &inner) {
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

fn change_set(head: &Head<'_>, parts: &[Inner], body: &[u8]) {
    let mut changes = Vec::new();
    let mut requests: Vec<Prepared<'_>> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        assert!(body.get(part.body.clone()).is_some(), "a body outside of the batch");
        match change(head, part, requests.last(), body) {
            Ok((request, change)) => {
                changes.push((request.table().unwrap_or_default().to_owned(), change));
                requests.push(request);
            }
            Err(error) => return refuse(error, parts, index),
        }
    }
    let set = match ChangeSet::new(changes) {
        Ok(set) => set,
        Err(error) => return refuse(error, parts, 0),
    };
    assert!(set.changes().len() <= MAX_CHANGES && set.changes().len() == parts.len());
    let answers: Vec<_> = set
        .changes()
        .iter()
        .zip(&requests)
        .zip(parts)
        .map(|((change, request), part)| ChangeAnswer {
            request,
            change,
            written: Written::Stored(*NOW),
            content_id: part.content_id.as_deref(),
        })
        .collect();
    let answer = wire::encode_change_set(&boundaries(), *NOW, &answers);
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

fn change<'a>(
    head: &Head<'a>,
    part: &'a Inner,
    before: Option<&Prepared<'_>>,
    body: &[u8],
) -> Result<(Prepared<'a>, Change), ServiceError> {
    let request = part.read_change(head)?;
    request.check_name()?;
    let request = request.prepare_part(&wire::part_accept(head), before)?;
    let change = request.decode_change(&body[part.body.clone()])?;
    match &change.action {
        Action::Insert(properties)
        | Action::Update(_, properties)
        | Action::Merge(_, properties)
        | Action::InsertOrReplace(properties)
        | Action::InsertOrMerge(properties) => entity_survives(&change.key, properties),
        Action::Delete(_) => {}
    }
    Ok((request, change))
}

fn query_part(head: &Head<'_>, inner: &Inner) -> Result<(), ServiceError> {
    let request = inner.read_query(head)?;
    request.check_name()?;
    request.prepare_part(&wire::part_accept(head), None)?.decode(&[]).map(drop)
}
