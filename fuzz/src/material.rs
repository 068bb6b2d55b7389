//! What the targets share: an account, a time, and requests read from bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use sha2::Sha256;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;
use tepui_model::Timestamp;
use tepui_model::account::{Account, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tepui_wire::address::{Service, Target};
use tepui_wire::auth::{SigningKeys, Verifier, decode_key};
use tepui_wire::head::Head;
use tepui_wire::query::Query;
use tepui_wire::version::ServiceVersion;

pub(crate) const ACCOUNT: &str = DEVELOPMENT_ACCOUNT;
pub(crate) const SERVICES: [Service; 3] = [Service::Table, Service::Queue, Service::Blob];
/// As many headers as the server takes.
const MAX_HEADERS: usize = 100;

/// The time at which everything happens. The dates in the corpus are near it.
pub(crate) static NOW: LazyLock<Timestamp> =
    LazyLock::new(|| Timestamp::parse_iso("2026-03-10T08:15:30Z").expect("a date"));

pub(crate) static KEYS: LazyLock<SigningKeys> = LazyLock::new(|| {
    let key = decode_key(DEVELOPMENT_KEY_BASE64).expect("the development key is base64");
    let account = Account { name: ACCOUNT.to_owned(), keys: vec![key] };
    SigningKeys::new(&account).with_delegation_secret(b"of users")
});

/// The signature of a text by the account's key.
pub(crate) fn sign(text: &[u8]) -> String {
    let key = decode_key(DEVELOPMENT_KEY_BASE64).expect("the development key is base64");
    sign_with(key.bytes(), text)
}

pub(crate) fn sign_with(key: &[u8], text: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(text);
    STANDARD.encode(mac.finalize().into_bytes())
}

/// A request as text: the first line, headers, a blank line, the body. Line ends of one or two characters.
#[derive(Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: &'a [u8],
}

impl<'a> Sent<'a> {
    /// `None` if the HTTP layer would not let it through either.
    pub(crate) fn read(data: &'a [u8]) -> Option<Self> {
        let (line, mut rest) = cut_line(data);
        let mut words = line.split(|byte| *byte == b' ');
        let method = Method::from_bytes(words.next()?).ok()?;
        let uri = Uri::try_from(words.next()?).ok()?;
        let mut headers = HeaderMap::new();
        while !rest.is_empty() {
            let (line, after) = cut_line(rest);
            rest = after;
            if line.is_empty() {
                break;
            }
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = HeaderName::from_bytes(&line[..colon]).ok()?;
            let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
            if headers.len() == MAX_HEADERS {
                return None;
            }
            headers.append(name, value);
        }
        Some(Self { method, uri, headers, body: rest })
    }

    /// Its head, as it is read in this version.
    pub(crate) fn head<'s>(
        &'s self,
        service: Service,
        version: ServiceVersion,
        query: &'s Query,
        target: &'s Target,
    ) -> Head<'s> {
        let Self { method, headers, .. } = self;
        Head { service, method, target, path: &target.path, query, headers, case: None, version }
    }
}

/// What credentials are checked against.
pub(crate) fn verifier() -> Verifier<'static> {
    Verifier {
        keys: &KEYS,
        now: *NOW,
        now_of_clients: *NOW,
        peer_ip: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7)),
        secure: false,
    }
}

/// The first line without its end, and what follows.
pub(crate) fn cut_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (data[..end].strip_suffix(b"\r").unwrap_or(&data[..end]), &data[end + 1..]),
        None => (data, b""),
    }
}

/// A version for each set of rules that there have been: the data picks one.
pub(crate) fn some_version(data: &[u8]) -> ServiceVersion {
    let texts =
        ["2008-10-27", "2009-09-19", "2012-02-12", "2013-08-15", "2015-04-05", "2018-11-09", "2026-10-06"];
    ServiceVersion::parse(texts[data.len() % texts.len()]).expect("a version that there was")
}
