//! The texts that Shared Key signatures are made over, for each service and scheme.

use super::Signed;
use super::keys::Sink;
use super::shared_key::Scheme;
use crate::address::Service;
use http::header::{self, HeaderName};

const X_MS_DATE: HeaderName = HeaderName::from_static("x-ms-date");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// How blanks inside the values of `x-ms-` headers are signed: clients do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blanks {
    AsSent,
    Folded,
}

/// Writes the string to sign of a request, as if its path were the given one.
pub(super) fn write(out: &mut impl Sink, request: &Signed<'_>, scheme: Scheme, path: &str, blanks: Blanks) {
    match (request.service, scheme) {
        (Service::Table, Scheme::SharedKey) => {
            line(out, request.method.as_str().as_bytes());
            line(out, value(request, &CONTENT_MD5));
            line(out, value(request, &header::CONTENT_TYPE));
            line(out, date(request));
            resource_with_comp(out, request, path);
        }
        (Service::Table, Scheme::SharedKeyLite) => {
            line(out, date(request));
            resource_with_comp(out, request, path);
        }
        (Service::Queue | Service::Blob, Scheme::SharedKey) => {
            line(out, request.method.as_str().as_bytes());
            for name in &SIGNED_HEADERS {
                line(out, signed_value(request, name));
            }
            x_ms_headers(out, request, blanks);
            resource_with_query(out, request, path);
        }
        (Service::Queue | Service::Blob, Scheme::SharedKeyLite) => {
            line(out, request.method.as_str().as_bytes());
            for name in &[CONTENT_MD5, header::CONTENT_TYPE, header::DATE] {
                line(out, signed_value(request, name));
            }
            x_ms_headers(out, request, blanks);
            resource_with_comp(out, request, path);
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
pub(super) fn date<'a>(request: &Signed<'a>) -> &'a [u8] {
    match value(request, &X_MS_DATE) {
        b"" => value(request, &header::DATE),
        date => date,
    }
}

fn value<'a>(request: &Signed<'a>, name: &HeaderName) -> &'a [u8] {
    request.headers.get(name).map(|value| value.as_bytes().trim_ascii()).unwrap_or_default()
}

/// A standard header as queues and blobs sign it.
fn signed_value<'a>(request: &Signed<'a>, name: &HeaderName) -> &'a [u8] {
    let sent = value(request, name);
    let left_out = (*name == header::DATE && request.headers.contains_key(X_MS_DATE))
        || (*name == header::CONTENT_LENGTH && sent == b"0" && request.version.signs_no_zero_length());
    if left_out { b"" } else { sent }
}

fn line(out: &mut impl Sink, bytes: &[u8]) {
    out.put(bytes);
    out.put(b"\n");
}

fn x_ms_headers(out: &mut impl Sink, request: &Signed<'_>, blanks: Blanks) {
    let mut names: Vec<&HeaderName> =
        request.headers.keys().filter(|name| name.as_str().starts_with("x-ms-")).collect();
    names.sort_unstable_by_key(|name| name.as_str());
    for name in names {
        let values = || request.headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
        if values().all(<[u8]>::is_empty) && !request.version.signs_empty_headers() {
            continue;
        }
        out.put(name.as_str().as_bytes());
        for (index, value) in values().enumerate() {
            out.put(if index == 0 { b":" } else { b"," });
            match blanks {
                Blanks::AsSent => out.put(value),
                Blanks::Folded => put_folded(out, value),
            }
        }
        out.put(b"\n");
    }
}

/// Every run of blanks as one.
fn put_folded(out: &mut impl Sink, value: &[u8]) {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (index, word) in words.enumerate() {
        out.put(if index == 0 { b"" } else { b" " });
        out.put(word);
    }
}

/// The account and the path. Where the path begins with the account too, it is there twice.
fn resource(out: &mut impl Sink, request: &Signed<'_>, path: &str) {
    out.put(b"/");
    out.put(request.target.account.as_bytes());
    out.put(path.as_bytes());
}

fn resource_with_comp(out: &mut impl Sink, request: &Signed<'_>, path: &str) {
    resource(out, request, path);
    if let Some(comp) = request.query.get_ignore_case("comp") {
        out.put(b"?comp=");
        out.put(comp.as_bytes());
    }
}

fn resource_with_query(out: &mut impl Sink, request: &Signed<'_>, path: &str) {
    resource(out, request, path);
    let mut pairs: Vec<(String, &str)> =
        request.query.iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    pairs.sort_unstable();
    let mut before = None;
    for (name, value) in &pairs {
        if before == Some(name) {
            out.put(b",");
        } else {
            out.put(b"\n");
            out.put(name.as_bytes());
            out.put(b":");
        }
        out.put(value.as_bytes());
        before = Some(name);
    }
}
