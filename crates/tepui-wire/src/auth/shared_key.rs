//! Requests signed with an account key.

use super::shared_key_string_to_sign::{self, Blanks};
use super::signing_keys::{Signature, SignatureError, SigningKeys};
use super::{Verifier, failed, told};
use crate::address::{SECONDARY_SUFFIX, Service};
use crate::head::Head;
use crate::percent;
use crate::query::Query;
use http::{HeaderMap, HeaderValue};
use std::time::Duration;
use tepui_model::{AuthFailure, ErrorCode, ServiceError, Timestamp};

/// The two ways to sign a request as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    SharedKey,
    SharedKeyLite,
}

impl Scheme {
    /// As in `Authorization`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SharedKey => "SharedKey",
            Self::SharedKeyLite => "SharedKeyLite",
        }
    }
}

/// How far the clock of a client may be off, either way.
const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// Checks `account:signature`, the value of an `Authorization` header after its scheme.
pub(super) fn check(
    head: &Head<'_>,
    verifier: &Verifier<'_>,
    scheme: Scheme,
    value: &str,
) -> Result<(), ServiceError> {
    let malformed = || ServiceError::new(ErrorCode::InvalidAuthenticationInfo);
    let (account, signature) = value.trim().split_once(':').ok_or_else(malformed)?;
    if account.is_empty() {
        return Err(malformed());
    }
    let signature = Signature::decode(signature.as_bytes()).map_err(|error| match error {
        SignatureError::NotBase64 => malformed(),
        SignatureError::WrongLength => failed("the signature has the wrong length"),
    })?;
    if account != head.target.account {
        return Err(failed("the account in the Authorization header is not the one addressed"));
    }
    check_date(head, verifier.now_of_clients)?;
    if scheme == Scheme::SharedKey && head.service != Service::Table {
        check_unambiguous(head.query)?;
    }
    if verifies(head, verifier.keys, scheme, &signature) { Ok(()) } else { Err(mismatch(head, scheme)) }
}

/// Parameters are signed as lines of `name:value`. One that has a line feed, or a name with a colon, would be signed like
/// others that say something else.
fn check_unambiguous(query: &Query) -> Result<(), ServiceError> {
    let is_ambiguous = |(name, value): &(&str, &str)| name.contains([':', '\n']) || value.contains('\n');
    match query.iter().find(is_ambiguous) {
        None => Ok(()),
        Some((name, value)) => Err(ServiceError::new(ErrorCode::InvalidQueryParameterValue)
            .with_detail("QueryParameterName", name)
            .with_detail("QueryParameterValue", value)
            .with_detail("Reason", "it cannot be signed")),
    }
}

fn check_date(head: &Head<'_>, now: Timestamp) -> Result<(), ServiceError> {
    let date =
        std::str::from_utf8(&shared_key_string_to_sign::date(head)).ok().and_then(Timestamp::parse_http);
    match date {
        Some(date) if now.since(date) <= MAX_SKEW && date.since(now) <= MAX_SKEW => Ok(()),
        _ => {
            let error = failed("The Date header in the request is incorrect.");
            Err(error.with_auth_failure(AuthFailure::Time))
        }
    }
}

/// Whether the signature is that of the head, in any of the forms that clients sign.
fn verifies(head: &Head<'_>, keys: &SigningKeys, scheme: Scheme, signature: &Signature) -> bool {
    verifies_as_sent(head, keys, scheme, signature)
        || latin_1_as_utf_8(head.headers).is_some_and(|headers| {
            verifies_as_sent(&Head { headers: &headers, ..*head }, keys, scheme, signature)
        })
}

/// Headers with their values in Latin-1 written in UTF-8: Python's blocking client sends the one and signs the other.
/// `None` if there are none.
fn latin_1_as_utf_8(headers: &HeaderMap) -> Option<HeaderMap> {
    let is_latin_1 = |value: &HeaderValue| std::str::from_utf8(value.as_bytes()).is_err();
    if !headers.values().any(is_latin_1) {
        return None;
    }
    let mut headers = headers.clone();
    for value in headers.values_mut().filter(|value| is_latin_1(value)) {
        let text: String = value.as_bytes().iter().map(|byte| char::from(*byte)).collect();
        *value = HeaderValue::from_bytes(text.as_bytes()).ok()?;
    }
    Some(headers)
}

fn verifies_as_sent(head: &Head<'_>, keys: &SigningKeys, scheme: Scheme, signature: &Signature) -> bool {
    let with = |path: &str, blanks| {
        keys.verify(signature, &shared_key_string_to_sign::text(head, scheme, path, blanks))
    };
    let as_sent = head.target.raw_path.as_str();
    with(as_sent, Blanks::AsSent)
        || other_forms(head).iter().any(|path| path != as_sent && with(path, Blanks::AsSent))
        || (head.service != Service::Table && with(as_sent, Blanks::Folded))
}

/// Other forms of the path that clients are known to sign while they send this one.
///
/// Fidelity: a path need not be signed as it is sent. scenario: auth-path-spellings
fn other_forms(head: &Head<'_>) -> Vec<String> {
    let as_sent = head.target.raw_path.as_str();
    let mut forms = Vec::new();
    for path in std::iter::once(as_sent.to_owned()).chain(without_secondary(head)) {
        forms.push(decode_some(&path, |byte| percent::is_unreserved(byte) || is_sub_delimiter(byte)));
        forms.push(path.replace('\'', "%27"));
        forms.push(decode_some(&path, |_| false));
        forms.push(path);
    }
    forms
}

/// With the account in the path as it is called, not as it is addressed. Where the path of the primary follows the
/// secondary address, that path alone.
fn without_secondary(head: &Head<'_>) -> Vec<String> {
    let target = head.target;
    let account = format!("/{}", target.account);
    let after = target.raw_path.strip_prefix(&account).and_then(|after| after.strip_prefix(SECONDARY_SUFFIX));
    match after {
        Some(after) if target.secondary && !target.host_style => {
            let primary = after.starts_with(&format!("{account}/")).then(|| after.to_owned());
            std::iter::once(format!("{account}{after}")).chain(primary).collect()
        }
        _ => Vec::new(),
    }
}

/// Decodes the escapes of some characters, and writes those of the others in upper case.
fn decode_some(path: &str, wanted: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match percent::escape(rest.as_bytes()) {
            Some(byte) => {
                if wanted(byte) {
                    out.push(char::from(byte));
                } else {
                    percent::push_escape(byte, &mut out);
                }
                rest = &rest[3..];
            }
            None => {
                out.push('%');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn is_sub_delimiter(byte: u8) -> bool {
    b"!$&'()*+,;=".contains(&byte)
}

fn mismatch(head: &Head<'_>, scheme: Scheme) -> ServiceError {
    if head.service == Service::Table {
        return failed("the signature does not match");
    }
    let text = shared_key_string_to_sign::text(head, scheme, &head.target.raw_path, Blanks::AsSent);
    failed(format!(
        "The MAC signature found in the HTTP request is not the same as any computed signature. \
         Server used following string to sign: '{}'.",
        told(&text)
    ))
    .with_cause("the signature does not match")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_or_written_in_upper_case() {
        let all = |byte: u8| percent::is_unreserved(byte) || is_sub_delimiter(byte);
        for (path, decoded, upper) in [
            ("/a/T", "/a/T", "/a/T"),
            ("/T(%27a%2c%c3%b4%27)", "/T('a,%C3%B4')", "/T(%27a%2C%C3%B4%27)"),
            ("/%2F%%4", "/%2F%%4", "/%2F%%4"),
        ] {
            assert_eq!(decode_some(path, all), decoded, "{path}");
            assert_eq!(decode_some(path, |_| false), upper, "{path}");
        }
    }
}
