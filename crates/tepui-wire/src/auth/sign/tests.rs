//! What is signed here is good for the verifier, and for nothing else than what was signed.

use super::*;
use crate::auth::{Credentials, Verifier, decode_key};
use crate::head::sent::Sent;
use proptest::prelude::*;
use tepui_model::account::DEVELOPMENT_KEY_BASE64;
use tepui_model::grant::{BlobReach, Grant};
use tepui_model::{ErrorCode, ServiceError};

const DATE: &str = "Tue, 10 Mar 2026 08:15:30 GMT";

fn now() -> Timestamp {
    Timestamp::parse_http(DATE).unwrap()
}

fn signer() -> Signer {
    Signer::new("a", decode_key(DEVELOPMENT_KEY_BASE64).unwrap()).unwrap()
}

/// Checks a request, given with its lines of text.
fn verify(text: &str, service: Service, version: &str) -> Result<Grant, ServiceError> {
    let signer = signer();
    let verifier = Verifier {
        keys: &signer.keys,
        now: now(),
        now_of_clients: now(),
        peer_ip: [10, 0, 0, 7].into(),
        secure: true,
    };
    match verifier.authenticate(&Sent::parse(text).head(service, version))? {
        Credentials::AccountKey => Ok(Grant::AccountKey),
        Credentials::Anonymous => Ok(Grant::Anonymous),
        Credentials::Sas(token) => token.resolve(None, &verifier),
        Credentials::Token(token) => panic!("{token:?}"),
    }
}

fn any_service() -> impl Strategy<Value = Service> {
    prop_oneof![Just(Service::Table), Just(Service::Queue), Just(Service::Blob)]
}

fn any_version() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("2009-09-19"),
        Just("2013-08-15"),
        Just("2015-04-05"),
        Just("2019-02-02"),
        Just("2026-10-06")
    ]
}

fn limits(version: &str) -> SasLimits {
    let expiry = Timestamp::parse_iso("2026-04-01").unwrap();
    SasLimits { version: ServiceVersion::parse(version).unwrap(), ..SasLimits::until(expiry) }
}

proptest! {
    #[test]
    fn signed_requests_are_good(
        service in any_service(),
        version in any_version(),
        lite in any::<bool>(),
        path in "/([a-z0-9%]|%20|%27|\\(|\\)|/){0,20}",
        query in "((comp|restype|timeout|prefix|A)=[a-z0-9%]{0,5}&?){0,4}",
        headers in "((x-ms-[a-c]|content-type|content-md5|if-match|range): [a-z0-9 =/]{0,9}\n){0,5}",
        other in "[a-z]{1,5}",
    ) {
        // A line feed in a parameter is refused, whatever its signature.
        prop_assume!(!query.to_ascii_lowercase().contains("%0a"));
        let scheme = if lite { Scheme::SharedKeyLite } else { Scheme::SharedKey };
        let text = format!("PUT {path}?{query}\n{headers}x-ms-date: {DATE}");
        let sent = Sent::parse(&text);
        let made = signer().authorization(&sent.head(service, version), scheme);
        let signed = format!("{text}\nauthorization: {made}");
        prop_assert_eq!(verify(&signed, service, version), Ok(Grant::AccountKey), "{}", signed);
        let elsewhere = signed.replacen("PUT /", &format!("PUT /{other}-"), 1);
        let code = verify(&elsewhere, service, version).map_err(|error| error.code);
        prop_assert_eq!(code, Err(ErrorCode::AuthenticationFailed), "{}", elsewhere);
    }

    #[test]
    fn account_tokens_say_what_was_asked_for(
        service in any_service(),
        services in "[bqt]{1,3}",
        types in "[sco]{1,3}",
        letters in "[rwdxylacuptfi]{1,13}",
        version in prop_oneof![Just("2015-04-05"), Just("2019-02-02"), Just("2026-10-06")],
    ) {
        let sas = AccountSas {
            services: Services::parse(&services),
            resource_types: ResourceTypes::parse(&types),
            permissions: Permissions::parse(&letters),
            limits: limits(version),
        };
        let token = signer().account_sas(&sas).unwrap();
        let AccountSas { services, resource_types, permissions, .. } = sas;
        let expected = Grant::AccountSas { services, resource_types, permissions };
        prop_assert_eq!(verify(&format!("GET /x?{token}"), service, version), Ok(expected));
        let forged = token.replace("se=2026-04", "se=2026-05");
        let outcome = verify(&format!("GET /x?{forged}"), service, version);
        prop_assert!(outcome.is_err());
    }

    #[test]
    fn table_tokens_say_what_was_asked_for(
        name in "[A-Za-z]{3,8}",
        letters in "[raud]{1,4}",
        start in proptest::option::of("[ -~é]{1,8}"),
        row in proptest::option::of("[ -~é]{1,8}"),
        version in prop_oneof![Just("2012-02-12"), Just("2015-04-05"), Just("2026-10-06")],
    ) {
        let bounds = KeyBounds {
            start_row: row.filter(|_| start.is_some()),
            start_partition: start,
            ..KeyBounds::EVERYTHING
        };
        let sas = ServiceSas {
            resource: SasResource::Table { name: &name, bounds: &bounds },
            permissions: Permissions::parse(&letters),
            policy_id: None,
            limits: limits(version),
        };
        let token = signer().service_sas(&sas).unwrap();
        let modern_errors = ServiceVersion::parse(version).unwrap().has_sas_mismatch_errors();
        let permissions = sas.permissions;
        let expected = Grant::TableSas { table: name.clone(), permissions, bounds: bounds.clone(), modern_errors, delegator: None };
        prop_assert_eq!(verify(&format!("GET /{name}()?{token}"), Service::Table, version), Ok(expected));
    }

    #[test]
    fn blob_tokens_are_for_their_blob(
        name in "[a-z]{1,5}( |/|é)?[a-z]{1,5}",
        content_type in proptest::option::of("[a-z/ ;=]{1,9}"),
        version in prop_oneof![Just("2012-02-12"), Just("2018-11-09"), Just("2026-10-06")],
    ) {
        let says = HttpProperties { content_type, ..HttpProperties::default() };
        let signed = |resource| {
            let permissions = Permissions::READ;
            let sas = ServiceSas { resource, permissions, policy_id: None, limits: limits(version) };
            signer().service_sas(&sas).unwrap()
        };
        let path: String = name.bytes().fold(String::new(), |mut path, byte| {
            percent::push_escape(byte, &mut path);
            path
        });
        let reach_of = |path: &str, token: &str| {
            match verify(&format!("GET /c/{path}?{token}"), Service::Blob, version) {
                Ok(Grant::BlobSas { reach, .. }) => Some(reach),
                _ => None,
            }
        };
        let token = signed(SasResource::Blob { container: "c", name: &name, says: &says });
        prop_assert_eq!(reach_of(&path, &token), Some(BlobReach::Blob));
        prop_assert_eq!(reach_of("other", &token), None);
        let token = signed(SasResource::Container { name: "c", says: &says });
        prop_assert_eq!(reach_of(&path, &token), Some(BlobReach::Container));
        let moment = "2026-03-04T05:06:07.0201905Z";
        if ServiceVersion::parse(version).unwrap().signs_snapshot() {
            let token = signed(SasResource::Snapshot { container: "c", name: &name, moment, says: &says });
            prop_assert_eq!(reach_of(&path, &format!("{token}&snapshot={moment}")), Some(BlobReach::Snapshot));
            prop_assert_eq!(reach_of(&path, &token), None);
        }
    }
}

#[test]
fn queue_tokens_are_for_their_queue() {
    let sas = ServiceSas {
        resource: SasResource::Queue { name: "jobs" },
        permissions: Permissions::READ | Permissions::PROCESS,
        policy_id: None,
        limits: SasLimits {
            addresses: Some(([10, 0, 0, 1].into(), [10, 0, 0, 9].into())),
            ..limits("2019-02-02")
        },
    };
    let token = signer().service_sas(&sas).unwrap();
    let verify = |path: &str| verify(&format!("GET /{path}?{token}"), Service::Queue, "2019-02-02");
    assert!(matches!(verify("jobs/messages"), Ok(Grant::QueueSas { .. })));
    assert!(verify("other/messages").is_err());
}

#[test]
fn versions_without_such_a_token() {
    let sas = AccountSas {
        services: Services::TABLE,
        resource_types: ResourceTypes::OBJECT,
        permissions: Permissions::READ,
        limits: limits("2013-08-15"),
    };
    assert_eq!(signer().account_sas(&sas), None);
}

#[test]
fn letters_are_in_the_order_that_azure_expects() {
    let every = "abcdefghijklmnopqrstuvwxyz";
    let sas = AccountSas {
        services: Services::parse(every),
        resource_types: ResourceTypes::parse(every),
        permissions: Permissions::parse(every),
        limits: limits("2019-02-02"),
    };
    let token = signer().account_sas(&sas).unwrap();
    for part in
        ["ss=bqtf&", "srt=sco&", "sp=rwdxylacuptfi&", "spr=https%2Chttp&", "se=2026-04-01T00%3A00%3A00Z&"]
    {
        assert!(token.contains(part), "{token}");
    }
}
