//! Whole requests against `authenticate`: signatures from published vectors and from a signer of our own.

use super::*;
use crate::address::{self, AddressRules};
use crate::query::Query;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac as _};
use http::Method;
use proptest::prelude::*;
use sha2::Sha256;
use std::net::Ipv4Addr;
use tepui_model::access_policy::{AccessPolicy, SignedIdentifier};
use tepui_model::account::{Account, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tepui_model::grant::{Grant, KeyBounds};
use tepui_model::permissions::{Permissions, ResourceTypes, Services};
use tepui_model::{Stage, TokenFailure};

mod blob;
mod delegation;

const DATE: &str = "Tue, 10 Mar 2026 08:15:30 GMT";
const NOW: &str = "2026-03-10T08:15:30Z";

/// A request in the making. `uri` is what is on the request line.
struct Request {
    service: Service,
    method: Method,
    host: &'static str,
    uri: String,
    headers: HeaderMap,
    now: Timestamp,
    version: ServiceVersion,
    peer_ip: IpAddr,
    secure: bool,
    without_keys: bool,
    disabled: bool,
}

/// Of what the keys of users are made.
const SECRET: &[u8] = b"of the account";

fn table(method: &str, uri: &str) -> Request {
    Request {
        service: Service::Table,
        method: method.parse().unwrap(),
        host: "127.0.0.1:10002",
        uri: uri.to_owned(),
        headers: HeaderMap::new(),
        now: Timestamp::parse_iso(NOW).unwrap(),
        version: ServiceVersion::parse("2019-02-02").unwrap(),
        peer_ip: Ipv4Addr::LOCALHOST.into(),
        secure: false,
        without_keys: false,
        disabled: false,
    }
}

impl Request {
    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    fn service(mut self, service: Service) -> Self {
        self.service = service;
        self
    }

    fn host(mut self, host: &'static str) -> Self {
        self.host = host;
        self
    }

    fn version(mut self, version: &str) -> Self {
        self.version = ServiceVersion::parse(version).unwrap();
        self
    }

    /// Hands the request to a function that wants all its parts.
    fn run<T>(&self, check: impl FnOnce(&Head<'_>, &Verifier<'_>) -> T) -> T {
        let uri: http::Uri = self.uri.parse().unwrap();
        let mut headers = self.headers.clone();
        headers.insert("host", self.host.parse().unwrap());
        let rules = AddressRules::new(self.service);
        let target = address::parse(&uri, &headers, self.secure, &rules).unwrap();
        let account = Account {
            name: DEVELOPMENT_ACCOUNT.to_owned(),
            keys: vec![decode_key("c2Vjb25k").unwrap(), decode_key(DEVELOPMENT_KEY_BASE64).unwrap()],
        };
        let keys = SigningKeys::new(&account).with_delegation_secret(SECRET);
        let keys = if self.without_keys { keys.without_shared_keys() } else { keys };
        let keys = if self.disabled { keys.disabled() } else { keys };
        let verifier = Verifier {
            keys: &keys,
            now: self.now,
            now_of_clients: self.now,
            peer_ip: self.peer_ip,
            secure: self.secure,
        };
        let head = Head {
            service: self.service,
            method: &self.method,
            target: &target,
            path: &target.path,
            query: &Query::parse(uri.query()),
            headers: &headers,
            case: None,
            version: self.version,
        };
        check(&head, &verifier)
    }

    fn authenticate(&self) -> Result<(), ErrorCode> {
        self.run(|head, verifier| verifier.authenticate(head).map(drop).map_err(|error| error.code))
    }

    fn grant(&self, policy: Option<&SignedIdentifier>) -> Result<Grant, ServiceError> {
        self.run(|head, verifier| match verifier.authenticate(head)? {
            Credentials::AccountKey => Ok(Grant::AccountKey),
            Credentials::Sas(token) => token.resolve(policy, verifier),
            Credentials::Token(_) => Err(refuse_token(TokenFailure::Form, head.service, head.version)),
            Credentials::Anonymous => Ok(Grant::Anonymous),
        })
    }
}

fn sign(text: &str) -> String {
    let key = decode_key(DEVELOPMENT_KEY_BASE64).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).unwrap();
    mac.update(text.as_bytes());
    STANDARD.encode(mac.finalize().into_bytes())
}

fn authorization(scheme: &str, signature: &str) -> String {
    format!("{scheme} {DEVELOPMENT_ACCOUNT}:{signature}")
}

#[test]
fn shared_key_vectors() {
    let queue = table("GET", "/devstoreaccount1/q1/messages?visibilitytimeout=30&numofmessages=2")
        .service(Service::Queue)
        .with("x-ms-version", "2021-06-08");
    for (case, request, scheme, signature) in [
        (
            "create table",
            table("POST", "/devstoreaccount1/Tables").with("content-type", "application/json"),
            "SharedKey",
            "ZHPC52QauEppVOYR9B5liFhRf8Afkz7Usb6xnsOGaYk=",
        ),
        (
            "host style",
            table("GET", "/Orders(PartitionKey='p1',RowKey='r1')").host("devstoreaccount1.table.local"),
            "SharedKey",
            "Mm5hoaPLpVc9uMVJnwnslC9zRiYMN34rJwreya1SWCc=",
        ),
        (
            "lite",
            table("GET", "/devstoreaccount1/Orders()?$top=5"),
            "SharedKeyLite",
            "sGMPeeeakcjuh/odQbWmUc2bnxW52ySoubq5ig6gxwI=",
        ),
        (
            "lite with comp",
            table("PUT", "/devstoreaccount1/Orders?comp=acl"),
            "SharedKeyLite",
            "o3h6MT0o4RRyCcWPZwuWJGE1iGJQjEncHQSGRNsIkYg=",
        ),
        ("queue", queue, "SharedKey", "ktolDJD2Ju0Lh+u26od0rCx+CTfDXaPj4tba0C6rsaI="),
    ] {
        let request =
            request.with("x-ms-date", DATE).with("authorization", &authorization(scheme, signature));
        assert_eq!(request.authenticate(), Ok(()), "{case}");
        let signer = Signer::new(DEVELOPMENT_ACCOUNT, decode_key(DEVELOPMENT_KEY_BASE64).unwrap()).unwrap();
        let scheme_of = |name| if name == "SharedKey" { Scheme::SharedKey } else { Scheme::SharedKeyLite };
        let made = request.run(|head, _| signer.authorization(head, scheme_of(scheme)));
        assert_eq!(made, authorization(scheme, signature), "{case}");
        let other = request.with("x-ms-date", "Tue, 10 Mar 2026 08:15:31 GMT");
        assert_eq!(other.authenticate(), Err(ErrorCode::AuthenticationFailed), "{case}");
    }
}

#[test]
fn the_date_is_the_one_of_the_protocol_else_that_of_http() {
    let signature = sign(&format!("{DATE}\n/devstoreaccount1/devstoreaccount1/T"));
    let request = || {
        table("GET", "/devstoreaccount1/T").with("authorization", &authorization("SharedKeyLite", &signature))
    };
    assert_eq!(request().with("date", DATE).authenticate(), Ok(()));
    assert_eq!(request().with("date", "nonsense").with("x-ms-date", DATE).authenticate(), Ok(()));
    assert_eq!(request().authenticate(), Err(ErrorCode::AuthenticationFailed));
}

#[test]
fn clocks_may_be_a_quarter_of_an_hour_apart() {
    for (now, good) in [
        ("2026-03-10T08:00:30Z", true),
        ("2026-03-10T08:00:29Z", false),
        ("2026-03-10T08:30:30Z", true),
        ("2026-03-10T08:30:31Z", false),
    ] {
        let signature = sign(&format!("{DATE}\n/devstoreaccount1/devstoreaccount1/T"));
        let mut request = table("GET", "/devstoreaccount1/T")
            .with("x-ms-date", DATE)
            .with("authorization", &authorization("SharedKeyLite", &signature));
        request.now = Timestamp::parse_iso(now).unwrap();
        assert_eq!(request.authenticate().is_ok(), good, "{now}");
    }
}

#[test]
fn paths_are_signed_in_several_forms() {
    for (sent, signed, good) in [
        ("/devstoreaccount1/T('a')", "/devstoreaccount1/T('a')", true),
        ("/devstoreaccount1/T(%27a%27)", "/devstoreaccount1/T('a')", true),
        ("/devstoreaccount1/T('a')", "/devstoreaccount1/T(%27a%27)", true),
        ("/devstoreaccount1/T('%c3%b4')", "/devstoreaccount1/T('%C3%B4')", true),
        ("/devstoreaccount1/T('a+b')", "/devstoreaccount1/T('a+b')", true),
        ("/devstoreaccount1-secondary/T", "/devstoreaccount1-secondary/T", true),
        ("/devstoreaccount1-secondary/T", "/devstoreaccount1/T", true),
        ("/devstoreaccount1-secondary/T(%27a%27)", "/devstoreaccount1/T('a')", true),
        ("/devstoreaccount1-secondary/devstoreaccount1/T", "/devstoreaccount1/T", true),
        ("/devstoreaccount1-secondary/other/T", "/other/T", false),
        ("/devstoreaccount1/devstoreaccount1/T", "/devstoreaccount1/T", false),
        ("/devstoreaccount1/T('a')", "/devstoreaccount1/T('b')", false),
        ("/devstoreaccount1/T('a%2Fb')", "/devstoreaccount1/T('a/b')", false),
        ("/devstoreaccount1/T", "/T", false),
        ("/devstoreaccount1/T", "/devstoreaccount1/t", false),
    ] {
        let signature = sign(&format!("{DATE}\n/devstoreaccount1{signed}"));
        let request = table("GET", sent)
            .with("x-ms-date", DATE)
            .with("authorization", &authorization("SharedKeyLite", &signature));
        assert_eq!(request.authenticate().is_ok(), good, "{sent} {signed}");
    }
}

#[test]
fn tables_sign_the_content_type_as_sent() {
    let content_type = "multipart/mixed; boundary=batch_1";
    let signature =
        sign(&format!("POST\nbWQ1\n{content_type}\n{DATE}\n/devstoreaccount1/devstoreaccount1/$batch"));
    let request = table("POST", "/devstoreaccount1/$batch")
        .with("x-ms-date", DATE)
        .with("content-md5", "bWQ1")
        .with("content-type", content_type)
        .with("authorization", &authorization("SharedKey", &signature));
    assert_eq!(request.authenticate(), Ok(()));
}

#[test]
fn queues_and_blobs_sign_headers_and_parameters() {
    let resource = "/devstoreaccount1/devstoreaccount1/c/b\ncomp:metadata\nx:1,2";
    let headers = format!("x-ms-date:{DATE}\nx-ms-meta-a:two  words\n");
    let folded = format!("x-ms-date:{DATE}\nx-ms-meta-a:two words\n");
    let before = "PUT\n\n\n\n\ntext/plain\n\n\n\n\"e\"\n\n\n";
    for (case, version, length, text, good) in [
        ("zero length, new", "2015-02-21", "0", format!("{before}{headers}{resource}"), true),
        ("zero length, old", "2014-02-14", "0", format!("{before}{headers}{resource}"), false),
        (
            "zero length, old and signed",
            "2014-02-14",
            "0",
            format!("{}{headers}{resource}", before.replacen("\n\n\n\n", "\n\n\n0\n", 1)),
            true,
        ),
        (
            "length",
            "2021-06-08",
            "3",
            format!(
                "{}x-ms-date:{DATE}\nx-ms-empty:\nx-ms-meta-a:two  words\n{resource}",
                before.replacen("\n\n\n\n", "\n\n\n3\n", 1)
            ),
            true,
        ),
        ("folded", "2015-02-21", "0", format!("{before}{folded}{resource}"), true),
    ] {
        let request = table("PUT", "/devstoreaccount1/c/b?X=2&comp=metadata&x=1")
            .service(Service::Blob)
            .version(version)
            .with("content-type", "text/plain")
            .with("content-length", length)
            .with("if-none-match", "\"e\"")
            .with("x-ms-meta-a", " two  words ")
            .with("x-ms-empty", "")
            .with("x-ms-date", DATE)
            .with("date", "ignored")
            .with("authorization", &authorization("SharedKey", &sign(&text)));
        assert_eq!(request.authenticate().is_ok(), good, "{case}");
    }
    let text = format!("GET\n\n\n\nx-ms-date:{DATE}\n/devstoreaccount1/devstoreaccount1/c?comp=list");
    let request = table("GET", "/devstoreaccount1/c?comp=list&restype=container")
        .service(Service::Blob)
        .with("x-ms-date", DATE)
        .with("authorization", &authorization("SharedKeyLite", &sign(&text)));
    assert_eq!(request.authenticate(), Ok(()));
}

#[test]
fn all_lines_of_a_header_are_signed() {
    let signed = |list: &str| {
        let before = format!("DELETE\n\n\n\n\n\n\n\n{list}\n\n\n\n");
        let text = format!("{before}x-ms-date:{DATE}\n/devstoreaccount1/devstoreaccount1/c/b");
        let mut request = table("DELETE", "/devstoreaccount1/c/b")
            .service(Service::Blob)
            .with("x-ms-date", DATE)
            .with("authorization", &authorization("SharedKey", &sign(&text)));
        for line in ["\"a\"", "\"b\""] {
            request.headers.append("if-match", line.parse().unwrap());
        }
        request
    };
    assert_eq!(signed("\"a\",\"b\"").authenticate(), Ok(()));
    assert_eq!(signed("\"a\"").authenticate(), Err(ErrorCode::AuthenticationFailed));
    let mut twice = signed("\"a\",\"b\"");
    let again = twice.headers["authorization"].clone();
    twice.headers.append("authorization", again);
    assert_eq!(twice.authenticate(), Err(ErrorCode::InvalidAuthenticationInfo));
}

#[test]
fn headers_in_latin_1_are_signed_in_utf_8() {
    let before = "DELETE\n\n\n\n\n\n\n\n\n\n\n\n";
    let text =
        format!("{before}x-ms-date:{DATE}\nx-ms-if-tags:c='Köln'\n/devstoreaccount1/devstoreaccount1/c/b");
    for (value, good) in
        [(&b"c='K\xF6ln'"[..], true), ("c='Köln'".as_bytes(), true), (&b"c='K\xFCln'"[..], false)]
    {
        let mut request = table("DELETE", "/devstoreaccount1/c/b")
            .service(Service::Blob)
            .with("x-ms-date", DATE)
            .with("authorization", &authorization("SharedKey", &sign(&text)));
        request.headers.insert("x-ms-if-tags", http::HeaderValue::from_bytes(value).unwrap());
        assert_eq!(request.authenticate().is_ok(), good, "{value:?}");
    }
}

#[test]
fn no_two_queries_are_signed_alike() {
    use ErrorCode::InvalidQueryParameterValue;
    let text = format!(
        "DELETE\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{DATE}\n/devstoreaccount1/devstoreaccount1/c/b\na:1\nsnapshot:2"
    );
    for service in [Service::Blob, Service::Queue] {
        for (query, expected) in [
            ("a=1&snapshot=2", Ok(())),
            ("a=1%0Asnapshot:2", Err(InvalidQueryParameterValue)),
            ("a%3A1%0Asnapshot=2", Err(InvalidQueryParameterValue)),
        ] {
            let request = table("DELETE", &format!("/devstoreaccount1/c/b?{query}"))
                .service(service)
                .with("x-ms-date", DATE)
                .with("authorization", &authorization("SharedKey", &sign(&text)));
            assert_eq!(request.authenticate(), expected, "{query}");
        }
    }
}

#[test]
fn callers_of_queues_are_told_what_was_signed_but_no_signature() {
    let signature = sign("something else");
    let request = table("GET", "/devstoreaccount1/q")
        .service(Service::Queue)
        .with("x-ms-date", DATE)
        .with("authorization", &authorization("SharedKey", &signature));
    let error = request.grant(None).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("string to sign") && !text.contains(&signature), "{text}");
}

#[test]
fn of_a_long_string_to_sign_the_beginning_is_told() {
    let signature = sign("something else");
    let in_query = signature.replace('+', "%2B");
    for (case, value, is_whole) in [
        ("short", "x".repeat(7_000), true),
        ("long", "x".repeat(9_000), false),
        ("letters of two bytes", "%C3%A4".repeat(9_000), false),
        ("which begin at other places", "x".to_owned() + &"%C3%A4".repeat(9_000), false),
    ] {
        let by_key = table("GET", &format!("/devstoreaccount1/q?prefix={value}"))
            .with("x-ms-date", DATE)
            .with("authorization", &authorization("SharedKey", &signature));
        let by_sas = table("GET", &format!("/devstoreaccount1/q?sv=2019-02-02&sp={value}&sig={in_query}"));
        for request in [by_key, by_sas] {
            let error = request.service(Service::Queue).grant(None).unwrap_err();
            let [(_, detail)] = &error.details[..] else { panic!("{case}: {error:?}") };
            assert!(detail.contains("tring to sign") && detail.len() < 8_500, "{case}: {}", detail.len());
            assert_eq!(detail.contains('…'), !is_whole, "{case}: {detail}");
        }
    }
}

#[test]
fn credentials_are_missing_or_malformed() {
    use ErrorCode::{AuthenticationFailed, InvalidAuthenticationInfo, NoAuthenticationInformation};
    let good = sign("x");
    let other_account = format!("SharedKey other:{good}");
    for (case, value, version, secure, code, status) in [
        ("none", None, "2020-12-06", false, NoAuthenticationInformation, 401),
        ("none, old", None, "2020-10-02", false, AuthenticationFailed, 403),
        ("empty", Some(""), "2019-02-02", false, InvalidAuthenticationInfo, 400),
        ("scheme only", Some("SharedKey"), "2019-02-02", false, InvalidAuthenticationInfo, 400),
        ("no colon", Some("SharedKey devstoreaccount1"), "2019-02-02", false, InvalidAuthenticationInfo, 400),
        ("no account", Some("SharedKey :AAAA"), "2019-02-02", false, InvalidAuthenticationInfo, 400),
        ("basic", Some("Basic YTpi"), "2019-02-02", false, InvalidAuthenticationInfo, 400),
        (
            "not base64",
            Some("SharedKey devstoreaccount1:#"),
            "2019-02-02",
            false,
            InvalidAuthenticationInfo,
            400,
        ),
        ("short", Some("SharedKey devstoreaccount1:AAAA"), "2019-02-02", false, AuthenticationFailed, 403),
        ("other account", Some(&other_account), "2019-02-02", false, AuthenticationFailed, 403),
        ("token over HTTP", Some("Bearer a.b.c"), "2020-12-06", false, AuthenticationFailed, 403),
        ("token", Some("Bearer a.b.c"), "2020-12-06", true, InvalidAuthenticationInfo, 401),
        ("token, old", Some("Bearer a.b.c"), "2019-07-07", true, AuthenticationFailed, 403),
    ] {
        let mut request = table("GET", "/devstoreaccount1/T").with("x-ms-date", DATE).version(version);
        if let Some(value) = value {
            request = request.with("authorization", value);
        }
        request.secure = secure;
        let error = request.grant(None).unwrap_err();
        assert_eq!(
            (error.code, error.status(), error.stage),
            (code, status, Stage::Authentication),
            "{case}"
        );
    }
}

const FULL: &str = "sp=raud&st=2026-03-01T00:00:00Z&se=2026-04-01T00:00:00Z";

/// A table SAS for `orders` from its parameters.
fn table_sas(parameters: &str) -> Request {
    let query = Query::parse(Some(parameters));
    let value = |name: &str| query.get(name).unwrap_or_default();
    let version = if query.get("sv").is_some() { "" } else { "&sv=2019-02-02" };
    let sv = query.get("sv").unwrap_or("2019-02-02");
    let (resource, caller) = match sv {
        "2012-02-12" => ("/devstoreaccount1/orders", String::new()),
        "2015-02-21" => ("/table/devstoreaccount1/orders", String::new()),
        _ => ("/table/devstoreaccount1/orders", format!("{}\n{}\n", value("sip"), value("spr"))),
    };
    let fields = ["sp", "st", "se"].map(value).join("\n");
    let keys = ["spk", "srk", "epk", "erk"].map(value).join("\n");
    let text = format!("{fields}\n{resource}\n{}\n{caller}{sv}\n{keys}", value("si"));
    let signature = sign(&text).replace('+', "%2B");
    table("GET", &format!("/devstoreaccount1/Orders()?tn=Orders&{parameters}{version}&sig={signature}"))
}

#[test]
fn sas_vectors() {
    let policy = SignedIdentifier {
        id: "pol1".to_owned(),
        policy: Some(AccessPolicy { start: None, expiry: None, permission: None }),
    };
    let account = "/devstoreaccount1/Tables?sp=rwdlacu&ss=t&srt=sco&st=2026-03-01T00:00:00Z\
                   &se=2026-04-01T00%3A00%3A00Z&spr=https,http";
    for (case, uri, policy) in [
        (
            "table",
            format!(
                "/devstoreaccount1/Orders()?tn=Orders&{FULL}&spr=https%2Chttp&sv=2019-02-02&spk=p1&srk=r1\
                 &epk=p1&erk=r9&sig=7//I4/Cpi718tWnI0f2cpq3JSvY4egmyCRcLHJvRdAM="
            ),
            None,
        ),
        (
            "table with policy",
            "/devstoreaccount1/Orders()?tn=orders&sp=r&se=2026-04-01T00:00:00Z&si=pol1&sv=2019-02-02\
             &sig=8pwUXiJ9cMyCF/8dli1fsoIfFVEpmMOVQmOw0hQKkaY%3D"
                .to_owned(),
            Some(&policy),
        ),
        (
            "account",
            format!("{account}&sv=2019-02-02&sig=z9vcB/wpaH7u1XOYYOA8SSyNfiPpNZHxf9zz4xNA6ig="),
            None,
        ),
        (
            "account, encryption scope",
            format!("{account}&sv=2021-06-08&sig=vczG05LdqO56NE9pOE0yB7tpjqtZ3nKvMZ74vDc1zak="),
            None,
        ),
    ] {
        assert!(table("GET", &uri).grant(policy).is_ok(), "{case}");
        let error = table("GET", &uri.replace("2026-04", "2026-05")).grant(policy).unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthenticationFailed, "{case}");
    }
}

#[test]
fn grants_say_what_was_signed() {
    let table_grant = |permissions: &str, bounds, modern_errors| Grant::TableSas {
        table: "Orders".to_owned(),
        permissions: Permissions::parse(permissions),
        bounds,
        modern_errors,
        delegator: None,
    };
    let bounds = KeyBounds {
        start_partition: Some("p 1".to_owned()),
        start_row: Some("r1".to_owned()),
        ..KeyBounds::EVERYTHING
    };
    for (parameters, expected) in [
        (FULL.to_owned(), table_grant("raud", KeyBounds::EVERYTHING, true)),
        (format!("{FULL}&spk=p%201&srk=r1&epk="), table_grant("raud", bounds, true)),
        (format!("{FULL}&sv=2012-02-12"), table_grant("raud", KeyBounds::EVERYTHING, false)),
        (format!("{FULL}&sv=2015-02-21&sip=1.2.3.4"), table_grant("raud", KeyBounds::EVERYTHING, false)),
        (format!("{FULL}&sv=2033-01-01"), table_grant("raud", KeyBounds::EVERYTHING, true)),
    ] {
        assert_eq!(table_sas(&parameters).grant(None), Ok(expected), "{parameters}");
    }
    let account = table(
        "GET",
        "/devstoreaccount1/Tables?sp=rwdlacu&ss=t&srt=sco&st=2026-03-01T00:00:00Z&se=2026-04-01T00:00:00Z\
         &spr=https,http&sv=2019-02-02&sig=z9vcB/wpaH7u1XOYYOA8SSyNfiPpNZHxf9zz4xNA6ig=",
    );
    let expected = Grant::AccountSas {
        services: Services::TABLE,
        resource_types: ResourceTypes::parse("sco"),
        permissions: Permissions::parse("rwdlacu"),
    };
    assert_eq!(account.grant(None), Ok(expected));
}

#[test]
fn sas_is_refused() {
    use ErrorCode::{
        AuthenticationFailed as Failed, AuthorizationProtocolMismatch as Protocol,
        AuthorizationSourceIPMismatch as SourceIp,
    };
    let se = "se=2026-04-01T00:00:00Z";
    for (parameters, expected) in [
        (format!("{FULL}&{se}"), Some(Failed)),
        (format!("{FULL}&skoid=x"), Some(Failed)),
        (format!("{FULL}&sv=2011-08-18"), Some(Failed)),
        (format!("{FULL}&sv=x"), Some(Failed)),
        (format!("{FULL}&ss=t"), Some(Failed)),
        (format!("{FULL}&srk=r1"), Some(Failed)),
        (format!("{FULL}&spr=http"), Some(Failed)),
        (format!("{FULL}&sip=nowhere"), Some(Failed)),
        (se.to_owned(), Some(Failed)),
        ("sp=r".to_owned(), Some(Failed)),
        ("sp=r&se=soon".to_owned(), Some(Failed)),
        ("sp=r&se=2026-03-10T08:15:30Z".to_owned(), Some(Failed)),
        ("sp=r&se=2026-03-10T08:15:31Z".to_owned(), None),
        ("sp=r&se=2026-03-11".to_owned(), None),
        ("sp=r&se=2026-03-11T00:00Z&st=2026-03-12T00:00Z".to_owned(), Some(Failed)),
        (format!("sp=r&{se}&st=2026-03-10T08:15:35Z"), None),
        (format!("sp=r&{se}&st=2026-03-10T08:15:36Z"), Some(Failed)),
        (format!("{FULL}&sip=127.0.0.1"), None),
        (format!("{FULL}&sip=127.0.0.2"), Some(SourceIp)),
        (format!("{FULL}&sip=126.0.0.0-127.0.0.1"), None),
        (format!("{FULL}&sip=127.0.0.2-127.0.0.9"), Some(SourceIp)),
        (format!("{FULL}&spr=https"), Some(Protocol)),
        (format!("{FULL}&spr=https&sip=127.0.0.2"), Some(SourceIp)),
    ] {
        let outcome = table_sas(&parameters).grant(None).err();
        assert_eq!(outcome.as_ref().map(|error| error.code), expected, "{parameters}");
        if let Some(error) = outcome {
            let family = if error.code == Failed { Stage::Authentication } else { Stage::Store };
            assert_eq!(error.stage, family, "{parameters}");
        }
    }
    let mut request = table_sas(&format!("{FULL}&spr=https&sip=127.0.0.1"));
    request.secure = true;
    request.peer_ip = "::ffff:127.0.0.1".parse().unwrap();
    assert!(request.grant(None).is_ok());
}

#[test]
fn policies_fill_what_the_token_leaves_open() {
    let later = Timestamp::parse_iso("2026-04-01").unwrap();
    let policy = |start, expiry, permission: Option<&str>| SignedIdentifier {
        id: "p".to_owned(),
        policy: Some(AccessPolicy { start, expiry, permission: permission.map(str::to_owned) }),
    };
    let full = policy(None, Some(later), Some("r"));
    let other = SignedIdentifier { id: "P".to_owned(), ..full.clone() };
    let bare = SignedIdentifier { id: "p".to_owned(), policy: None };
    let both = "sp=r&se=2026-04-01T00:00:00Z&si=p";
    for (case, parameters, policy, good) in [
        ("all from the policy", "si=p", Some(full.clone()), true),
        ("all from the token", both, Some(bare.clone()), true),
        ("some from each", "si=p&sp=r", Some(policy(None, Some(later), None)), true),
        ("no such policy", both, None, false),
        ("another policy", both, Some(other), false),
        ("expiry nowhere", "si=p", Some(policy(None, None, Some("r"))), false),
        ("permission nowhere", "si=p", Some(policy(None, Some(later), Some(""))), false),
        ("expiry in both", "si=p&se=2026-04-01T00:00:00Z", Some(full.clone()), false),
        ("permission in both", "si=p&sp=r", Some(full), false),
        ("not yet", "si=p", Some(policy(Some(later), Some(later.next()), Some("r"))), false),
    ] {
        let request = table_sas(parameters);
        request.run(|head, verifier| match verifier.authenticate(head) {
            Ok(Credentials::Sas(token)) => {
                assert_eq!((token.policy_id(), token.table()), (Some("p"), Some("Orders")), "{case}");
            }
            other => panic!("{case}: {other:?}"),
        });
        let outcome = request.grant(policy.as_ref());
        assert_eq!(outcome.is_ok(), good, "{case}");
        assert!(good || outcome.unwrap_err().code == ErrorCode::AuthenticationFailed, "{case}");
    }
}

#[test]
fn queue_and_blob_sas_sign_their_own_lines() {
    let signed = |service, uri: &str, text: &str| {
        let separator = if uri.contains('?') { '&' } else { '?' };
        let signature = sign(text).replace('+', "%2B");
        let uri = format!("/devstoreaccount1/{uri}{separator}sig={signature}");
        table("GET", &uri).service(service).authenticate().is_ok()
    };
    let account = "devstoreaccount1";
    for (service, uri, text) in [
        (
            Service::Queue,
            "q/messages?sp=r&se=e&sv=2019-02-02&spr=https",
            format!("r\n\ne\n/queue/{account}/q\n\n\nhttps\n2019-02-02"),
        ),
        (Service::Queue, "q?sp=r&sv=2012-02-12", format!("r\n\n\n/{account}/q\n\n2012-02-12")),
        (
            Service::Blob,
            "c/d%20e/f?sr=b&sp=r&sv=2020-12-06&rsct=t&ses=s",
            format!("r\n\n\n/blob/{account}/c/d e/f\n\n\n\n2020-12-06\nb\n\ns\n\n\n\n\nt"),
        ),
        (
            Service::Blob,
            "c/f?sr=bs&snapshot=t1&sv=2018-11-09",
            format!("\n\n\n/blob/{account}/c/f\n\n\n\n2018-11-09\nbs\nt1\n\n\n\n\n"),
        ),
        (
            Service::Blob,
            "c?restype=container&sr=c&sv=2015-04-05",
            format!("\n\n\n/blob/{account}/c\n\n\n\n2015-04-05\n\n\n\n\n"),
        ),
        (Service::Blob, "c/f?sr=c&sv=2013-08-15", format!("\n\n\n/{account}/c\n\n2013-08-15\n\n\n\n\n")),
        (
            Service::Blob,
            "c/d/e/f?sr=d&sdd=2&sv=2020-02-10",
            format!("\n\n\n/blob/{account}/c/d/e\n\n\n\n2020-02-10\nd\n\n\n\n\n\n"),
        ),
    ] {
        // Times that are none are refused only after the signature.
        let uri = uri.replace("se=e", "se=2026-04-01");
        let text = text.replace("\ne\n", "\n2026-04-01\n");
        assert!(signed(service, &uri, &text), "{uri}");
        assert!(!signed(service, &uri, &format!("{text} ")), "{uri}");
    }
}

#[test]
fn a_queue_sas_is_for_the_queue_of_the_path() {
    let text = "rp\n\n2026-04-01\n/queue/devstoreaccount1/jobs\n\n\n\n2019-02-02";
    let signature = sign(text).replace('+', "%2B");
    let request = |path: &str| {
        let uri = format!("/devstoreaccount1/{path}?sp=rp&se=2026-04-01&sv=2019-02-02&sig={signature}");
        table("GET", &uri).service(Service::Queue)
    };
    let expected = Grant::QueueSas {
        queue: "jobs".to_owned(),
        permissions: Permissions::parse("rp"),
        modern_errors: true,
        delegator: None,
    };
    for path in ["jobs", "jobs/", "/jobs", "jobs/messages", "jobs/messages/1", "j%6Fbs/messages"] {
        assert_eq!(request(path).grant(None), Ok(expected.clone()), "{path}");
    }
    for path in ["", "Jobs", "jobs2/messages", "jobs%2Fmessages", "other/jobs"] {
        let code = request(path).grant(None).map_err(|error| error.code);
        assert_eq!(code, Err(ErrorCode::AuthenticationFailed), "{path}");
    }
}

#[test]
fn policies_of_queues_fill_their_sas() {
    let text = "\n\n\n/queue/devstoreaccount1/jobs\np\n\n\n2019-02-02";
    let signature = sign(text).replace('+', "%2B");
    let uri = format!("/devstoreaccount1/jobs/messages?si=p&sv=2019-02-02&sig={signature}");
    let request = table("GET", &uri).service(Service::Queue);
    let policy = AccessPolicy {
        start: None,
        expiry: Timestamp::parse_iso("2026-04-01"),
        permission: Some("raup".to_owned()),
    };
    let stored = SignedIdentifier { id: "p".to_owned(), policy: Some(policy) };
    let expected = Grant::QueueSas {
        queue: "jobs".to_owned(),
        permissions: Permissions::parse("raup"),
        modern_errors: true,
        delegator: None,
    };
    assert_eq!(request.grant(Some(&stored)), Ok(expected));
    assert!(request.grant(None).is_err());
    request.run(|head, verifier| match verifier.authenticate(head) {
        Ok(Credentials::Sas(token)) => {
            assert_eq!((token.policy_id(), token.queue(), token.table()), (Some("p"), Some("jobs"), None));
        }
        other => panic!("not a SAS: {other:?}"),
    });
}

proptest! {
    #[test]
    fn any_credentials_are_accepted_or_not(
        value in "(SharedKey |SharedKeyLite |Bearer |)[ -~]{0,60}",
        query in "(s[vprei]|sig|ss|srt|tn|[se][pr]k|[&=%]|2019-02-02|[a-z0-9]){0,30}",
    ) {
        let uri = format!("/devstoreaccount1/T?{query}");
        prop_assert!(table("GET", &uri).with("x-ms-date", DATE).with("authorization", &value).authenticate().is_err());
        prop_assert!(table("GET", &uri).authenticate().is_err());
    }
}
