//! The texts that Shared Key signatures are made over, for each service and scheme.

use super::shared_key::Scheme;
use crate::address::Service;
use crate::head::Head;
use http::header::{self, HeaderName};
use std::borrow::Cow;

const X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// How blanks inside the values of `x-ms-` headers are signed: clients do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blanks {
    AsSent,
    Folded,
}

/// The string to sign of a head, as if its path were the given one.
pub(super) fn text(head: &Head<'_>, scheme: Scheme, path: &str, blanks: Blanks) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    write(&mut text, head, scheme, path, blanks);
    text
}

fn write(out: &mut Vec<u8>, head: &Head<'_>, scheme: Scheme, path: &str, blanks: Blanks) {
    match (head.service, scheme) {
        (Service::Table, Scheme::SharedKey) => {
            line(out, head.method.as_str().as_bytes());
            line(out, &value(head, &CONTENT_MD5));
            line(out, &value(head, &header::CONTENT_TYPE));
            line(out, &date(head));
            resource_with_comp(out, head, path);
        }
        (Service::Table, Scheme::SharedKeyLite) => {
            line(out, &date(head));
            resource_with_comp(out, head, path);
        }
        (Service::Queue | Service::Blob, Scheme::SharedKey) => {
            line(out, head.method.as_str().as_bytes());
            for name in &SIGNED_HEADERS {
                line(out, &signed_value(head, name));
            }
            x_ms_headers(out, head, blanks);
            resource_with_query(out, head, path);
        }
        (Service::Queue | Service::Blob, Scheme::SharedKeyLite) => {
            line(out, head.method.as_str().as_bytes());
            for name in &[CONTENT_MD5, header::CONTENT_TYPE, header::DATE] {
                line(out, &signed_value(head, name));
            }
            x_ms_headers(out, head, blanks);
            resource_with_comp(out, head, path);
        }
    }
}

static SIGNED_HEADERS: [HeaderName; 11] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LENGTH,
    CONTENT_MD5,
    header::CONTENT_TYPE,
    header::DATE,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
];

/// When the request was made, in the words of the client: `x-ms-date`, else `Date`.
pub(super) fn date<'a>(head: &Head<'a>) -> Cow<'a, [u8]> {
    let date = value(head, &X_MS_DATE);
    if date.is_empty() { value(head, &header::DATE) } else { date }
}

/// What a header says. Lines of it are one list, all of which is signed.
fn value<'a>(head: &Head<'a>, name: &HeaderName) -> Cow<'a, [u8]> {
    let mut lines = head.headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
    let first = Cow::Borrowed(lines.next().unwrap_or_default());
    lines.fold(first, |all, line| Cow::Owned([&all, line].join(&b',')))
}

/// A standard header as queues and blobs sign it.
fn signed_value<'a>(head: &Head<'a>, name: &HeaderName) -> Cow<'a, [u8]> {
    let sent = value(head, name);
    let left_out = (*name == header::DATE && head.headers.contains_key(X_MS_DATE))
        || (*name == header::CONTENT_LENGTH && *sent == *b"0" && head.version.signs_no_zero_length());
    if left_out { Cow::Borrowed(b"") } else { sent }
}

fn line(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.push(b'\n');
}

fn x_ms_headers(out: &mut Vec<u8>, head: &Head<'_>, blanks: Blanks) {
    let sent = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes().trim_ascii()));
    let mut sent: Vec<(&str, &[u8])> = sent.filter(|(name, _)| name.starts_with("x-ms-")).collect();
    // Stable: the values of one header stay in the order in which they were sent.
    sent.sort_by_key(|(name, _)| *name);
    for values in sent.chunk_by(|(name, _), (next, _)| name == next) {
        if values.iter().all(|(_, value)| value.is_empty()) && !head.version.signs_empty_headers() {
            continue;
        }
        for (index, (name, value)) in values.iter().enumerate() {
            if index == 0 {
                out.extend_from_slice(name.as_bytes());
                out.push(b':');
            } else {
                out.push(b',');
            }
            match blanks {
                Blanks::AsSent => out.extend_from_slice(value),
                Blanks::Folded => put_folded(out, value),
            }
        }
        out.push(b'\n');
    }
}

/// Every run of blanks as one.
fn put_folded(out: &mut Vec<u8>, value: &[u8]) {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (index, word) in words.enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b" " });
        out.extend_from_slice(word);
    }
}

/// The account and the path. Where the path begins with the account too, it is there twice.
fn resource(out: &mut Vec<u8>, head: &Head<'_>, path: &str) {
    out.push(b'/');
    out.extend_from_slice(head.target.account.as_bytes());
    out.extend_from_slice(path.as_bytes());
}

fn resource_with_comp(out: &mut Vec<u8>, head: &Head<'_>, path: &str) {
    resource(out, head, path);
    if let Some(comp) = head.query.get_ignore_case("comp") {
        out.extend_from_slice(b"?comp=");
        out.extend_from_slice(comp.as_bytes());
    }
}

fn resource_with_query(out: &mut Vec<u8>, head: &Head<'_>, path: &str) {
    resource(out, head, path);
    let mut pairs: Vec<(String, &str)> =
        head.query.iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    pairs.sort_unstable();
    let mut before = None;
    for (name, value) in &pairs {
        if before == Some(name) {
            out.push(b',');
        } else {
            out.push(b'\n');
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
        }
        out.extend_from_slice(value.as_bytes());
        before = Some(name);
    }
}
