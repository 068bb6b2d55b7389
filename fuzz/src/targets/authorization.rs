//! Requests signed with an account key, of every service.

use crate::checks::{refused, told_as_a_whole};
use crate::material::{SERVICES, Sent, sign, some_version, verifier};
use http::header::{AUTHORIZATION, DATE, HeaderValue};
use tepui_model::ServiceError;
use tepui_wire::address::{self, AddressRules, Service};
use tepui_wire::auth::Credentials;
use tepui_wire::head::Head;
use tepui_wire::query::Query;

pub(super) const WORDS: &[&str] = &[
    "Authorization: SharedKey devstoreaccount1:",
    "Authorization: SharedKeyLite devstoreaccount1:",
    "Authorization: Bearer x",
    "SharedKey",
    "SharedKeyLite",
    " ",
    ":",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "AAAA",
    "=",
    "x-ms-date: Tue, 10 Mar 2026 08:15:30 GMT\r\n",
    "Date: Tue, 10 Mar 2026 08:15:30 GMT\r\n",
    "x-ms-version: 2019-02-02\r\n",
    "x-ms-meta-a:  b  c \r\n",
    "x-ms-",
    "Content-MD5: x\r\n",
    "Content-Length: 0\r\n",
    "Content-Type: application/json\r\n",
    "If-Match: *\r\n",
    "?comp=acl",
    "&comp=list",
    "%27",
    "%c3%b4",
    "%2f",
    "%",
    "-secondary",
    "\u{E4}",
];

/// A request is let in if it is signed as its service wants it, and only then.
pub fn authorization(data: &[u8]) {
    let Some(mut request) = Sent::read(data) else { return };
    for service in SERVICES {
        let version = some_version(data);
        let Ok(target) = address::parse(&request.uri, &request.headers, false, &AddressRules::new(service))
        else {
            continue;
        };
        let query = Query::parse(request.uri.query());
        let head = request.head(service, version, &query, &target);
        let Err(error) = verifier().authenticate(&head) else { continue };
        refused(&error);
        if query.get("sig").is_some() && !request.headers.contains_key(AUTHORIZATION) {
            continue;
        }
        let Some(text) = string_to_sign(&head, &error) else { continue };
        let scheme = request.headers[AUTHORIZATION].to_str().unwrap_or_default().trim().split(' ').next();
        let scheme = scheme.unwrap_or_default().to_owned();
        for (signature, good) in [(sign(&text), true), (sign(b"another text"), false)] {
            let value = format!("{scheme} {}:{signature}", target.account);
            let Ok(value) = HeaderValue::from_str(&value) else { continue };
            request.headers.insert(AUTHORIZATION, value);
            let outcome = verifier().authenticate(&request.head(service, version, &query, &target));
            assert_eq!(matches!(outcome, Ok(Credentials::AccountKey)), good, "{service:?} {outcome:?}");
        }
    }
}

/// What a client has to sign, once everything is right but the signature.
fn string_to_sign(request: &Head<'_>, error: &ServiceError) -> Option<Vec<u8>> {
    let detail = error.details.first().map(|(_, text)| text.as_str())?;
    if request.service != Service::Table {
        let (_, quoted) = detail.split_once("Server used following string to sign: '")?;
        let text = told_as_a_whole(quoted.strip_suffix("'.")?)?;
        // What is not UTF-8 cannot be compared.
        return (!text.contains('\u{FFFD}')).then(|| text.into());
    }
    if detail != "the signature does not match" {
        return None;
    }
    // Lines of a header are one list.
    let header = |name: &str| {
        let lines = request.headers.get_all(name).into_iter().map(|value| value.as_bytes().trim_ascii());
        lines.collect::<Vec<_>>().join(&b',')
    };
    let date =
        Some(header("x-ms-date")).filter(|date| !date.is_empty()).unwrap_or_else(|| header(DATE.as_str()));
    let (md5, content_type) = (header("content-md5"), header("content-type"));
    let lite = request.headers[AUTHORIZATION].as_bytes().trim_ascii().starts_with(b"SharedKeyLite");
    let head = [request.method.as_str().as_bytes(), &md5];
    let mut lines: Vec<&[u8]> = if lite { vec![] } else { head.to_vec() };
    if !lite {
        lines.push(&content_type);
    }
    lines.push(&date);
    let mut resource = format!("/{}{}", request.target.account, request.target.raw_path);
    if let Some(comp) = request.query.get_ignore_case("comp") {
        resource += &format!("?comp={comp}");
    }
    lines.push(resource.as_bytes());
    Some(lines.join(&b'\n'))
}
