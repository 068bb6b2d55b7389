//! Batches: several requests in one multipart body, and their answers in another.
//!
//! Follows the REST page "Performing entity group transactions". Reading is liberal, because clients
//! differ in line ends, boundaries and headers; writing is exact to the byte, because clients search
//! the text for what they want.

mod read_reply;
mod write_request;

pub use read_reply::read_reply;
pub use write_request::write_request;

use super::format::Shape;
use super::reply::{Context, inserted_body};
use super::request::presentation::{Prefer, accept};
use super::request::{Prepared, Request};
use crate::address::SECONDARY_SUFFIX;
use crate::error_body;
use crate::head::Head;
use crate::multipart::{self, line, path_of, status_line};
use crate::query::Query;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode};
use std::borrow::Cow;
use std::sync::Arc;
use tepui_model::table::change_set::MAX_CHANGES;
use tepui_model::table::{Action, Change, OperationKind, Written};
use tepui_model::{ErrorCode, ServiceError, Stage, Timestamp, etag};

pub use crate::multipart::boundary;

/// What the body of a batch holds.
#[derive(Debug)]
pub enum Batch {
    ChangeSet(Vec<Inner>),
    Query(Inner),
}

/// One request inside a batch.
#[derive(Debug)]
pub struct Inner {
    pub method: Method,
    /// The path after the account, percent-encoded.
    pub path: String,
    pub query: Query,
    /// Only those that count inside a batch. Parts that say the same in a row share them.
    pub headers: Arc<HeaderMap>,
    /// Echoed in the answer, if it was a header of the request itself.
    pub content_id: Option<String>,
    /// Where the body lies in that of the batch.
    pub body: std::ops::Range<usize>,
}

/// Reads the body of a batch. `account_in_path`: the account as it stands in paths, in path style.
pub fn decode(
    content_type: Option<&str>,
    body: &[u8],
    account_in_path: Option<&str>,
) -> Result<Batch, ServiceError> {
    let content_type = content_type.ok_or(ErrorCode::MediaTypeNotSupported)?;
    if !content_type.trim_start().to_ascii_lowercase().starts_with("multipart/mixed") {
        return Err(ErrorCode::MediaTypeNotSupported.into());
    }
    let outer = boundary(content_type).ok_or_else(unreadable)?;
    let parts = multipart::parts(body, 0..body.len(), &outer).ok_or_else(unreadable)?;
    let [part] = &parts[..] else { return Err(unreadable()) };
    let part = multipart::Part::read(body, part.clone()).ok_or_else(unreadable)?;
    match part.header("content-type").and_then(boundary) {
        Some(inner) => {
            let parts = multipart::parts(body, part.content, &inner).ok_or_else(unreadable)?;
            // One too many is enough to refuse them all, however small the others are.
            let mut changes = Vec::with_capacity(parts.len().min(MAX_CHANGES + 1));
            let mut last = LastHeaders::default();
            for range in parts.into_iter().take(MAX_CHANGES + 1) {
                let part = multipart::Part::read(body, range).ok_or_else(unreadable)?;
                changes.push(Inner::read(body, part, account_in_path, &mut last)?);
            }
            if changes.iter().any(|inner| inner.method == Method::GET) {
                return Err(unreadable());
            }
            Ok(Batch::ChangeSet(changes))
        }
        None => {
            let inner = Inner::read(body, part, account_in_path, &mut LastHeaders::default())?;
            if inner.method == Method::GET {
                Ok(Batch::Query(inner))
            } else {
                Ok(Batch::ChangeSet(vec![inner]))
            }
        }
    }
}

fn unreadable() -> ServiceError {
    ErrorCode::InvalidInput.into()
}

/// The headers that count inside a batch, beside `Content-ID`.
const INNER_HEADERS: [&str; 8] = [
    "if-match",
    "if-none-match",
    "prefer",
    "accept",
    "content-type",
    "dataserviceversion",
    "maxdataserviceversion",
    "x-http-method",
];

/// The headers of the part before: most clients write the same ones into every part.
#[derive(Default)]
struct LastHeaders<'a> {
    lines: multipart::Headers<'a>,
    headers: Arc<HeaderMap>,
}

impl<'a> LastHeaders<'a> {
    /// The headers of the next part.
    fn next(&mut self, lines: multipart::Headers<'a>) -> Result<Arc<HeaderMap>, ServiceError> {
        if self.lines != lines {
            let mut headers = HeaderMap::with_capacity(8);
            for (name, value) in &lines {
                let known = INNER_HEADERS.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name));
                if let Some(known) = known {
                    // Never left out: a write that loses its condition would go ahead.
                    let value = HeaderValue::from_bytes(value).map_err(|_| unreadable())?;
                    headers.append(HeaderName::from_static(known), value);
                }
            }
            *self = Self { lines, headers: Arc::new(headers) };
        }
        Ok(Arc::clone(&self.headers))
    }
}

impl Inner {
    fn read<'a>(
        body: &'a [u8],
        part: multipart::Part<'a>,
        account_in_path: Option<&str>,
        last: &mut LastHeaders<'a>,
    ) -> Result<Self, ServiceError> {
        let mut request = multipart::HttpRequest::read(body, part.content).ok_or_else(unreadable)?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| unreadable())?;
        let path = path_of(request.target);
        let (path, raw_query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        let path = match account_in_path {
            Some(account) => {
                // Requests at the secondary endpoint name it, or not.
                let rest = path.strip_prefix(account);
                let rest = rest.map(|rest| rest.strip_prefix(SECONDARY_SUFFIX).unwrap_or(rest));
                rest.and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
            }
            None => path,
        };
        let mut content_id = None;
        // These differ from part to part, and do not matter for what follows.
        request.headers.retain(|(name, value)| {
            let is_id = name.eq_ignore_ascii_case(b"content-id");
            if is_id && content_id.is_none() {
                content_id = std::str::from_utf8(value)
                    .ok()
                    .filter(|id| !id.contains(char::is_control))
                    .map(str::to_owned);
            }
            !is_id && !name.eq_ignore_ascii_case(b"content-length")
        });
        let headers = last.next(request.headers)?;
        let query = Query::parse(raw_query);
        Ok(Self { method, path: path.to_owned(), query, headers, content_id, body: request.body })
    }

    fn head<'a>(&'a self, batch: &Head<'a>) -> Head<'a> {
        Head {
            method: &self.method,
            path: &self.path,
            query: &self.query,
            headers: &self.headers,
            case: None,
            ..*batch
        }
    }

    /// What a part of a change set asks for: to change one entity. `batch`: the head of the whole.
    pub fn read_change<'a>(&'a self, batch: &Head<'a>) -> Result<Request<'a>, ServiceError> {
        use OperationKind::*;
        let request = Request::read(&self.head(batch))?;
        match request.kind() {
            InsertEntity
            | UpdateEntity
            | MergeEntity
            | InsertOrReplaceEntity
            | InsertOrMergeEntity
            | DeleteEntity => Ok(request),
            _ => Err(unreadable()),
        }
    }

    /// What the only part of a batch without changes asks for: entities.
    pub fn read_query<'a>(&'a self, batch: &Head<'a>) -> Result<Request<'a>, ServiceError> {
        let request = Request::read(&self.head(batch))?;
        match request.kind() {
            OperationKind::GetEntity | OperationKind::QueryEntities => Ok(request),
            _ => Err(unreadable()),
        }
    }
}

/// What a part accepts that does not say so itself: what the batch does, unless that is only about the batch.
pub fn part_accept<'a>(batch: &Head<'a>) -> Cow<'a, str> {
    let is_about_parts = |accept: &Cow<'_, str>| {
        accept.contains("json") || (!batch.version.atom_removed() && accept.contains("application/atom+xml"))
    };
    accept(batch.headers)
        .filter(is_about_parts)
        .unwrap_or(Cow::Borrowed("application/json;odata=minimalmetadata"))
}

/// The answer to one change of a batch that succeeded.
pub struct ChangeAnswer<'a> {
    pub request: &'a Prepared<'a>,
    pub change: &'a Change,
    pub written: Written,
    pub content_id: Option<&'a str>,
}

/// The answer to a change set: one part for each change.
pub fn encode_change_set(
    ids: &Boundaries,
    now: Timestamp,
    answers: &[ChangeAnswer<'_>],
) -> Response<Vec<u8>> {
    let mut out = Vec::with_capacity(256 + answers.len() * 640);
    ids.open(&mut out);
    for answer in answers {
        ids.open_part(&mut out);
        write_change(&mut out, now, answer);
    }
    ids.close(&mut out);
    accepted(ids, out)
}

/// The answer to a change set that was refused: one part, whatever number of changes there were.
pub fn encode_refusal(
    ids: &Boundaries,
    error: &ServiceError,
    content_id: Option<&str>,
    prefer: Prefer,
    request_id: &str,
    now: Timestamp,
) -> Response<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    ids.open(&mut out);
    ids.open_part(&mut out);
    write_error(&mut out, error, content_id, prefer, request_id, now);
    ids.close(&mut out);
    accepted(ids, out)
}

/// The answer to a query in a batch: the very answer that the query alone would get.
pub fn encode_query(ids: &Boundaries, answer: &Response<Vec<u8>>) -> Response<Vec<u8>> {
    let mut out = Vec::with_capacity(answer.body().len() + 1024);
    ids.open_query(&mut out);
    status_line(&mut out, answer.status());
    line(&mut out, "DataServiceVersion", "3.0;");
    for (name, shown) in [
        ("content-type", "Content-Type"),
        ("x-content-type-options", "X-Content-Type-Options"),
        ("cache-control", "Cache-Control"),
        ("etag", "ETag"),
        ("x-ms-continuation-nextpartitionkey", "x-ms-continuation-NextPartitionKey"),
        ("x-ms-continuation-nextrowkey", "x-ms-continuation-NextRowKey"),
        ("x-ms-continuation-nexttablename", "x-ms-continuation-NextTableName"),
    ] {
        if let Some(value) = answer.headers().get(name).and_then(|value| value.to_str().ok()) {
            line(&mut out, shown, value);
        }
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(answer.body());
    out.extend_from_slice(b"\r\n");
    ids.close_query(&mut out);
    accepted(ids, out)
}

/// The answer to a query in a batch that was refused.
pub fn encode_query_refusal(
    ids: &Boundaries,
    error: &ServiceError,
    request_id: &str,
    now: Timestamp,
) -> Response<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    ids.open_query(&mut out);
    write_error(&mut out, error, None, Prefer::Unsaid, request_id, now);
    ids.close_query(&mut out);
    accepted(ids, out)
}

/// Whether the message of an error about the only change of a set names its index.
///
/// Fidelity: it does if the front end found it, it does not if the store did. scenario: batch-error-index-single
pub fn indexed(error: ServiceError, changes: usize, index: usize) -> ServiceError {
    let at = error.change.unwrap_or(index);
    if changes == 1 && error.stage == Stage::Store {
        return ServiceError { change: None, ..error };
    }
    error.at_change(at)
}

fn write_change(out: &mut Vec<u8>, now: Timestamp, answer: &ChangeAnswer<'_>) {
    let ChangeAnswer { request, change, written, content_id } = answer;
    let context = &Context::new(request, now);
    let presentation = context.presentation;
    let links = context.links(request.table().unwrap_or_default());
    let inserted = match &change.action {
        Action::Insert(properties) => Some(properties),
        _ => None,
    };
    let body = inserted
        .filter(|_| presentation.prefer != Prefer::ReturnNoContent)
        .map(|properties| inserted_body(context, &links, change, properties, *written));
    status_line(out, if body.is_some() { StatusCode::CREATED } else { StatusCode::NO_CONTENT });
    if let Some(id) = content_id {
        line(out, "Content-ID", id);
    }
    if body.is_some() {
        line(out, "DataServiceVersion", "3.0;");
        line(out, "Content-Type", presentation.format.content_type(Shape::Entry));
    }
    out.extend_from_slice(b"X-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n");
    if let Some(applied) = presentation.prefer.applied() {
        line(out, "Preference-Applied", applied);
    }
    if body.is_none() {
        line(out, "DataServiceVersion", "3.0;");
    }
    if inserted.is_some() {
        let location = links.entity_url(&change.key.partition_key, &change.key.row_key);
        line(out, "Location", &location);
        if body.is_none() {
            line(out, "DataServiceId", &location);
        }
    }
    if let Written::Stored(timestamp) = written {
        out.extend_from_slice(b"ETag: ");
        etag::write(*timestamp, out);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.as_deref().unwrap_or_default());
    out.extend_from_slice(b"\r\n");
}

fn write_error(
    out: &mut Vec<u8>,
    error: &ServiceError,
    content_id: Option<&str>,
    prefer: Prefer,
    request_id: &str,
    now: Timestamp,
) {
    status_line(out, StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if let Some(id) = content_id {
        line(out, "Content-ID", id);
    }
    line(out, "X-Content-Type-Options", "nosniff");
    if error.stage == Stage::Store {
        line(out, "Cache-Control", "no-cache");
    }
    if let Some(applied) = prefer.applied() {
        line(out, "Preference-Applied", applied);
    }
    line(out, "DataServiceVersion", "3.0;");
    line(out, "Content-Type", "application/json;odata=minimalmetadata;streaming=true;charset=utf-8");
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&error_body::odata_json(error, request_id, now));
    out.extend_from_slice(b"\r\n");
}

/// The two boundaries of a batch, or of the answer to one, from ids that were passed in.
pub struct Boundaries {
    batch: String,
    change_set: String,
}

impl Boundaries {
    pub fn new(batch_id: &str, change_set_id: &str) -> Self {
        Self {
            batch: format!("batchresponse_{batch_id}"),
            change_set: format!("changesetresponse_{change_set_id}"),
        }
    }

    /// Those of a client's batch.
    pub fn of_request(batch_id: &str, change_set_id: &str) -> Self {
        Self { batch: format!("batch_{batch_id}"), change_set: format!("changeset_{change_set_id}") }
    }

    fn open(&self, out: &mut Vec<u8>) {
        let Self { batch, change_set } = self;
        let head = format!("--{batch}\r\nContent-Type: multipart/mixed; boundary={change_set}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
    }

    fn open_part(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"--");
        out.extend_from_slice(self.change_set.as_bytes());
        out.extend_from_slice(
            b"\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        );
    }

    fn close(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("--{}--\r\n--{}--\r\n", self.change_set, self.batch).as_bytes());
    }

    fn open_query(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"--");
        out.extend_from_slice(self.batch.as_bytes());
        out.extend_from_slice(
            b"\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
        );
    }

    fn close_query(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("--{}--\r\n", self.batch).as_bytes());
    }
}

fn accepted(ids: &Boundaries, body: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let content_type = format!("multipart/mixed; boundary={}", ids.batch);
    if let Ok(value) = HeaderValue::try_from(content_type) {
        headers.insert(http::header::CONTENT_TYPE, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(parts: &str) -> Result<Vec<Inner>, ErrorCode> {
        let body = format!("--b\nContent-Type: multipart/mixed; boundary=c\n\n{parts}--c--\n--b--\n");
        match decode(Some("multipart/mixed; boundary=b"), body.as_bytes(), None) {
            Ok(Batch::ChangeSet(changes)) => Ok(changes),
            Ok(Batch::Query(_)) => panic!("not a query"),
            Err(error) => Err(error.code),
        }
    }

    #[test]
    fn a_condition_is_never_lost() {
        for (value, expected) in [
            ("*", Ok(&b"*"[..])),
            ("W/\"a\"", Ok(b"W/\"a\"")),
            ("ä", Ok("ä".as_bytes())),
            ("a\rb", Err(ErrorCode::InvalidInput)),
            ("a\u{1}b", Err(ErrorCode::InvalidInput)),
        ] {
            let part =
                format!("--c\n\nPUT /T(PartitionKey='p',RowKey='r') HTTP/1.1\nIf-Match: {value}\n\n{{}}\n");
            let found = changes(&part).map(|changes| changes[0].headers["if-match"].as_bytes().to_vec());
            assert_eq!(found, expected.map(<[u8]>::to_vec), "{value:?}");
        }
    }

    #[test]
    fn long_heads_are_refused() {
        for (bytes, expected) in [(60_000, Ok(1)), (70_000, Err(ErrorCode::InvalidInput))] {
            let part = format!("--c\n\nPUT /T?x={} HTTP/1.1\n\n{{}}\n", "a".repeat(bytes));
            assert_eq!(changes(&part).map(|changes| changes.len()), expected, "{bytes}");
        }
    }

    #[test]
    fn parts_are_read_up_to_one_too_many() {
        for (parts, read) in [(1, 1), (100, 100), (101, 101), (1000, 101)] {
            assert_eq!(changes(&"--c\n\nPUT /T HTTP/1.1\n\n".repeat(parts)).unwrap().len(), read);
        }
    }
}
