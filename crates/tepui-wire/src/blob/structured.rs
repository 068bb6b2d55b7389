//! Headers of structured messages: callers ask for them with `x-ms-structured-body`, and the answer repeats that. The bytes
//! of such messages have checksums, and are made and read by `tepui-digest`.

use super::headers::{self, STRUCTURED_BODY};
use crate::request_headers::RequestHeaders;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use tepui_model::ServiceError;

const VALUE: &str = "XSM/1.0; properties=crc64";
const NAME: HeaderName = HeaderName::from_static(STRUCTURED_BODY);
const PLAIN_LENGTH: &str = "x-ms-structured-content-length";

/// Whether a request asks for this form, of what it sends or of what it wants to read.
pub fn is_asked(headers: &HeaderMap) -> Result<bool, ServiceError> {
    Ok(headers.contains_key(NAME) && asks(&RequestHeaders::new(headers))?)
}

pub(super) fn asks(headers: &RequestHeaders<'_>) -> Result<bool, ServiceError> {
    let known = |text: &str| {
        let without_blanks = |text: &str| text.replace(' ', "").to_ascii_lowercase();
        (without_blanks(text) == without_blanks(VALUE)).then_some(())
    };
    Ok(headers::word(headers, STRUCTURED_BODY, known)?.is_some())
}

/// How many bytes an upload in this form has without what is around them.
pub(super) fn plain_bytes(headers: &RequestHeaders<'_>) -> Result<u64, ServiceError> {
    headers::number(headers, PLAIN_LENGTH)?.ok_or_else(|| headers::missing(PLAIN_LENGTH))
}

/// Says in an answer that the upload was read in this form.
pub fn mark_upload(answer: &mut HeaderMap) {
    answer.insert(NAME, HeaderValue::from_static(VALUE));
}

/// Says in an answer that its body comes in this form, and how long it is without it and in it.
pub fn mark_download(answer: &mut HeaderMap, plain_bytes: u64, encoded_bytes: u64) {
    mark_upload(answer);
    answer.insert(HeaderName::from_static(PLAIN_LENGTH), plain_bytes.into());
    answer.insert(CONTENT_LENGTH, encoded_bytes.into());
}

#[cfg(test)]
#[path = "structured_tests.rs"]
mod tests;
