//! One line of an analytics log, version 1.0 or 2.0, byte for byte as the readers of Azure's logs expect it.
//!
//! Whether a field is quoted depends on the field, not on its content: one that is quoted is also HTML-encoded, and an empty one
//! is written as nothing. The other fields hold nothing that a client could have written as it likes.

use super::operation;
use super::status::{RequestStatus, Requester};
use crate::pipeline::{FinishedExchange, OperationKind};
use crate::redact::without_signature;
use hyper::header::{
    CONTENT_LENGTH, HOST, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, REFERER, USER_AGENT,
};
use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;
use tepui_model::role::{Principal, PrincipalName};
use tepui_model::{Timestamp, blob};
use tepui_wire::address::Service;
use tepui_wire::error_body::{CLIENT_REQUEST_ID, VERSION};
use tepui_wire::percent;
use tepui_wire::table::request::resource::Resource;

/// The version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogVersion {
    V1,
    /// With fields about the holder of a token. Tables have none.
    V2,
}

impl LogVersion {
    pub(crate) fn of(exchange: &FinishedExchange) -> Self {
        let asked = exchange.settings.as_ref().map(|settings| settings.shared().logging.version.as_str());
        match (exchange.service, asked) {
            (Service::Blob | Service::Queue, Some("2.0")) => Self::V2,
            _ => Self::V1,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::V1 => "1.0",
            Self::V2 => "2.0",
        }
    }
}

/// Writes the line of a request, or its three lines if it is a copy that has begun. Returns how many.
pub(crate) fn write(out: &mut Vec<u8>, exchange: &FinishedExchange, version: LogVersion) -> u64 {
    let name = operation::name(exchange);
    let key = object_key(exchange);
    let etag = exchange.answer.as_ref().and_then(|answer| answer.etag.as_ref()).map(HeaderValue::as_bytes);
    write_line(out, exchange, version, &Part { name, count: 0, key: &key, etag });
    if !is_begun_copy(exchange) {
        return 1;
    }
    let source = header(exchange, &COPY_SOURCE).unwrap_or_default();
    let source = without_signature(&String::from_utf8_lossy(source));
    write_line(out, exchange, version, &Part { name: "CopyBlobSource", count: 1, key: &source, etag: None });
    write_line(out, exchange, version, &Part { name: "CopyBlobDestination", count: 2, key: &key, etag });
    3
}

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-ms-copy-source");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const X_MS_CONTENT_MD5: HeaderName = HeaderName::from_static("x-ms-content-md5");

fn is_begun_copy(exchange: &FinishedExchange) -> bool {
    exchange.operation == Some(OperationKind::Blob(blob::OperationKind::CopyBlob))
        && exchange.status.is_some_and(|status| status < 300)
}

/// What the lines of one request differ in.
struct Part<'a> {
    name: &'a str,
    count: u32,
    key: &'a str,
    etag: Option<&'a [u8]>,
}

fn write_line(out: &mut Vec<u8>, exchange: &FinishedExchange, version: LogVersion, part: &Part<'_>) {
    let status = RequestStatus::of(exchange);
    let server = exchange.server_latency();
    let answer = exchange.answer.as_ref();
    let mut line = Line { out };
    line.first(version.text());
    line.plain(exchange.started_at.to_iso_7());
    line.plain(part.name);
    line.plain(status.log_word(exchange));
    line.plain_or(exchange.status.filter(|_| !exchange.broke_off), operation::UNKNOWN);
    line.plain(milliseconds(exchange.end_to_end_latency().max(server)));
    line.plain(milliseconds(server));
    line.plain(authentication(status.requester));
    match status.requester {
        Requester::Key | Requester::Bearer => line.plain(&exchange.account),
        Requester::Sas | Requester::Anonymous => line.empty(),
    }
    line.plain(&exchange.account);
    line.plain(exchange.service.name());
    line.quoted(url(exchange).as_bytes());
    line.quoted(part.key.as_bytes());
    line.plain(&exchange.request_id);
    line.plain(part.count);
    line.plain(exchange.client);
    line.plain(version_header(exchange));
    line.plain(exchange.request_head_bytes());
    line.plain(exchange.bytes_in);
    line.plain_or(answer.map(|answer| answer.head_bytes), "");
    line.plain_or(answer.map(|_| exchange.bytes_out), "");
    line.plain(content_length(exchange));
    let md5 = header(exchange, &CONTENT_MD5).or_else(|| header(exchange, &X_MS_CONTENT_MD5));
    line.quoted(md5.unwrap_or_default());
    line.quoted(answer.and_then(|answer| answer.content_md5.as_ref()).map_or(b"", HeaderValue::as_bytes));
    line.quoted(part.etag.unwrap_or_default());
    line.plain(answer.and_then(|answer| answer.last_modified.as_ref()).map_or(String::new(), long_date));
    line.quoted(&conditions(exchange));
    line.quoted(header(exchange, &USER_AGENT).unwrap_or_default());
    let referrer = header(exchange, &REFERER).map(String::from_utf8_lossy);
    line.quoted(referrer.map_or(String::new(), |url| without_signature(&url)).as_bytes());
    line.quoted(header(exchange, &CLIENT_REQUEST_ID).unwrap_or_default());
    if version == LogVersion::V2 {
        write_owner(&mut line, exchange.principal.as_deref());
    }
    line.out.push(b'\n');
}

/// The fields about the owner of a token: user, tenant, application, audience, issuer, name, a reserved one, and what the
/// token allows. Those that nobody keeps are empty, and so are all without a token.
fn write_owner(line: &mut Line<'_>, owner: Option<&Principal>) {
    let application = owner.and_then(|owner| {
        owner.names.iter().find_map(|name| match name {
            PrincipalName::Client(id) => Some(id.as_str()),
            PrincipalName::Object(_) | PrincipalName::Subject(_) | PrincipalName::Group(_) => None,
        })
    });
    let text = |field: fn(&Principal) -> &str| owner.map_or("", field).as_bytes();
    line.quoted(text(|owner| &owner.object_id));
    line.quoted(text(|owner| &owner.tenant_id));
    line.quoted(application.unwrap_or_default().as_bytes());
    line.empty();
    line.quoted(text(|owner| &owner.issuer));
    (0..3).for_each(|_| line.empty());
}

/// Writes fields. Writing to a vector cannot fail.
struct Line<'a> {
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    fn first(&mut self, value: &str) {
        self.out.extend_from_slice(value.as_bytes());
    }

    fn empty(&mut self) {
        self.out.push(b';');
    }

    fn plain(&mut self, value: impl Display) {
        let _ = write!(self.out, ";{value}");
    }

    fn plain_or(&mut self, value: Option<impl Display>, absent: &str) {
        match value {
            Some(value) => self.plain(value),
            None => self.plain(absent),
        }
    }

    fn quoted(&mut self, value: &[u8]) {
        self.empty();
        if value.is_empty() {
            return;
        }
        self.out.push(b'"');
        for chunk in value.utf8_chunks() {
            chunk.valid().chars().for_each(|char| self.encoded(char));
            // What is no UTF-8 was meant as Latin-1, if anything.
            chunk.invalid().iter().for_each(|byte| self.encoded(char::from(*byte)));
        }
        self.out.push(b'"');
    }

    fn encoded(&mut self, char: char) {
        let entity = match char {
            '&' => "&amp;",
            '"' => "&quot;",
            '<' => "&lt;",
            '>' => "&gt;",
            '\'' => "&#39;",
            ' '..='~' => return self.out.push(char as u8),
            _ => {
                let _ = write!(self.out, "&#{};", u32::from(char));
                return;
            }
        };
        self.out.extend_from_slice(entity.as_bytes());
    }
}

fn header<'a>(exchange: &'a FinishedExchange, name: &HeaderName) -> Option<&'a [u8]> {
    exchange.request.headers.get(name).map(HeaderValue::as_bytes)
}

fn milliseconds(time: Duration) -> u128 {
    time.as_millis().min(i32::MAX as u128)
}

fn authentication(requester: Requester) -> &'static str {
    match requester {
        Requester::Key => "authenticated",
        Requester::Sas => "sas",
        Requester::Anonymous => "anonymous",
        Requester::Bearer => "bearer",
    }
}

/// The URL of the request, without its signature.
fn url(exchange: &FinishedExchange) -> String {
    let uri = &exchange.request.uri;
    let host = match uri.authority() {
        Some(authority) => authority.as_str().into(),
        None => String::from_utf8_lossy(header(exchange, &HOST).unwrap_or_default()),
    };
    let scheme = if exchange.secure { "https" } else { "http" };
    without_signature(&format!("{scheme}://{host}{}", uri.path_and_query().map_or("/", |path| path.as_str())))
}

/// What is addressed: the account, then a table, a queue, or a container and a blob.
fn object_key(exchange: &FinishedExchange) -> String {
    let FinishedExchange { account, path, .. } = exchange;
    let decoded = || percent::decode(path).map_or_else(|| path.clone(), |path| path.into_owned());
    let object = match exchange.service {
        Service::Blob => decoded(),
        Service::Queue => decoded().split('/').next().unwrap_or_default().to_owned(),
        Service::Table => match (&exchange.named_table, Resource::parse(path, account)) {
            (Some(table), _) => table.clone(),
            (None, Ok(Resource::Service)) => String::new(),
            (None, Ok(Resource::Tables)) => "Tables".to_owned(),
            (None, Ok(resource)) => resource.table().map_or_else(decoded, str::to_owned),
            (None, Err(_)) => decoded().split(['(', '/']).next().unwrap_or_default().to_owned(),
        },
    };
    if object.is_empty() { format!("/{account}") } else { format!("/{account}/{object}") }
}

/// The version that the client asks for, if that can be one; else the one that was found for it.
fn version_header(exchange: &FinishedExchange) -> String {
    const MAX_VERSION_BYTES: usize = 32;
    let sent = header(exchange, &VERSION).and_then(|value| std::str::from_utf8(value).ok());
    let is_plain = |text: &&str| {
        text.len() <= MAX_VERSION_BYTES
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
    };
    match (sent.filter(is_plain), exchange.version) {
        (Some(sent), _) => sent.to_owned(),
        (None, Some(version)) => version.to_string(),
        (None, None) => String::new(),
    }
}

/// The length that was declared, or else what was received.
fn content_length(exchange: &FinishedExchange) -> u64 {
    let declared = header(exchange, &CONTENT_LENGTH).and_then(|value| std::str::from_utf8(value).ok());
    declared.and_then(|text| text.trim().parse().ok()).unwrap_or(exchange.bytes_in)
}

/// `Tuesday, 10-Mar-26 08:15:30 GMT`.
fn long_date(value: &HeaderValue) -> String {
    const WEEKDAYS: [&str; 7] =
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let Some(date) = value.to_str().ok().and_then(Timestamp::parse_http) else { return String::new() };
    let short = date.to_http();
    let weekday = WEEKDAYS.iter().find(|name| short.starts_with(&name[..3])).unwrap_or(&WEEKDAYS[0]);
    // `Tue, 10 Mar 2026 08:15:30 GMT`
    format!("{weekday}, {}-{}-{} {} GMT", &short[5..7], &short[8..11], &short[14..16], &short[17..25])
}

fn conditions(exchange: &FinishedExchange) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, header) in [
        ("If-Match", IF_MATCH),
        ("If-None-Match", IF_NONE_MATCH),
        ("If-Modified-Since", IF_MODIFIED_SINCE),
        ("If-Unmodified-Since", IF_UNMODIFIED_SINCE),
    ] {
        let Some(value) = exchange.request.headers.get(header) else { continue };
        text.extend_from_slice(if text.is_empty() { b"" } else { b";" });
        text.extend_from_slice(name.as_bytes());
        text.push(b'=');
        text.extend_from_slice(value.as_bytes());
    }
    text
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
