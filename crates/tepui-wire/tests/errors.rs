//! Whole error answers, as they go over the wire.

mod snapshot;

use http::{HeaderMap, HeaderValue, Response};
use snapshot::Snapshot;
use tepui_model::{ErrorCode, ServiceError, Stage, Timestamp, TokenFailure};
use tepui_wire::address::Service;
use tepui_wire::auth::{Challenge, refuse_token};
use tepui_wire::error_body::{self, ErrorFormat};
use tepui_wire::table::format::MetadataLevel;
use tepui_wire::version::ServiceVersion;

const REQUEST_ID: &str = "6f4e9f51-0002-0021-4c3b-c0b2d0000000";

fn json_at(level: MetadataLevel) -> ErrorFormat {
    ErrorFormat::OData { content_type: level.content_type() }
}

fn challenge() -> Challenge {
    Challenge::default()
}

fn answer(error: &ServiceError, format: ErrorFormat, service: Service) -> Response<Vec<u8>> {
    let now = Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").expect("a time");
    let mut response = error_body::encode(error, format, service, REQUEST_ID, now, &challenge());
    let mut request_headers = HeaderMap::new();
    request_headers.insert("x-ms-client-request-id", HeaderValue::from_static("mine"));
    let version = ServiceVersion::parse("2019-02-02");
    error_body::finish(response.headers_mut(), service, version, REQUEST_ID, &request_headers);
    response
}

#[test]
fn table_errors() {
    let minimal = json_at(MetadataLevel::Minimal);
    let full = json_at(MetadataLevel::Full);
    let none = json_at(MetadataLevel::None);
    let mut snapshot = Snapshot::default();
    for (title, error, format) in [
        ("of the store", ErrorCode::EntityAlreadyExists.into(), minimal),
        ("of the front end", ErrorCode::TableNotFound.into(), none),
        (
            "with words of its own",
            ServiceError::new(ErrorCode::InvalidInput)
                .with_message("Syntax error at position 3 in '\"é <&'."),
            full,
        ),
        (
            "about one change of a batch",
            ServiceError::new(ErrorCode::InvalidDuplicateRow).at_change(1),
            minimal,
        ),
        ("without JSON", ErrorCode::AtomFormatNotSupported.into(), ErrorFormat::ODataXml),
        ("of an operation in XML", ErrorCode::InvalidXmlDocument.into(), ErrorFormat::Xml),
        ("of authentication", ErrorCode::AuthenticationFailed.into(), minimal),
        ("no credentials", ErrorCode::NoAuthenticationInformation.into(), minimal),
        (
            "a token that is not accepted",
            refuse_token(TokenFailure::Expired, Service::Table, ServiceVersion::NEWEST),
            minimal,
        ),
        (
            "moved to another stage",
            ServiceError::new(ErrorCode::InvalidInput).at_stage(Stage::Store),
            minimal,
        ),
    ] {
        snapshot.add(title, &answer(&error, format, Service::Table));
    }
    snapshot.check("table_errors");
}

/// As it was recorded of the real Queue service, but for the tenant and the ids: no version, and nothing of the client's.
#[test]
fn a_token_that_is_not_accepted() {
    let now = Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").expect("a time");
    let version = ServiceVersion::parse("2023-11-03").expect("a version");
    let challenge =
        Challenge::new("https://login.microsoftonline.com", "72f988bf-86f1-41af-91ab-2d7cd011db47");
    for service in [Service::Queue, Service::Blob] {
        let error = refuse_token(TokenFailure::Audience, service, version);
        let mut response = error_body::encode(
            &error,
            ErrorFormat::Xml,
            service,
            REQUEST_ID,
            now,
            challenge.as_ref().expect("a challenge"),
        );
        let mut request_headers = HeaderMap::new();
        request_headers.insert("x-ms-client-request-id", HeaderValue::from_static("mine"));
        error_body::finish(response.headers_mut(), service, Some(version), REQUEST_ID, &request_headers);
        assert_eq!(response.status(), 401);
        let mut headers: Vec<_> = response
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
            .collect();
        headers.sort_unstable();
        assert_eq!(
            headers,
            [
                ("content-type", "application/xml"),
                ("server", "Microsoft-HTTPAPI/2.0"),
                (
                    "www-authenticate",
                    "Bearer authorization_uri=https://login.microsoftonline.com/\
                     72f988bf-86f1-41af-91ab-2d7cd011db47/oauth2/authorize resource_id=https://storage.azure.com",
                ),
                ("x-ms-error-code", "InvalidAuthenticationInfo"),
                ("x-ms-request-id", REQUEST_ID),
            ]
        );
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>InvalidAuthenticationInfo</Code><Message>\
             Server failed to authenticate the request. Please refer to the information in the www-authenticate \
             header.\nRequestId:{REQUEST_ID}\nTime:2026-03-10T08:15:30.1234567Z</Message>\
             <AuthenticationErrorDetail>Audience validation failed. Audience did not match.\
             </AuthenticationErrorDetail></Error>"
        );
        assert_eq!(String::from_utf8_lossy(response.body()), body);
    }
}

#[test]
fn queue_and_blob_errors() {
    let detailed = ServiceError::new(ErrorCode::AuthenticationFailed)
        .with_detail("AuthenticationErrorDetail", "The Date header in the request is incorrect.");
    let without_keys = ErrorCode::KeyBasedAuthenticationNotPermitted.into();
    let level = json_at(MetadataLevel::None);
    Snapshot::default()
        .add("queue", &answer(&ErrorCode::InvalidUri.into(), ErrorFormat::Xml, Service::Queue))
        .add("blob, whatever the dress", &answer(&detailed, level, Service::Blob))
        .add("no credentials", &answer(&ErrorCode::NoAuthenticationInformation.into(), level, Service::Queue))
        .add("keys are not accepted", &answer(&without_keys, level, Service::Queue))
        .add("a disabled account", &answer(&ErrorCode::AccountIsDisabled.into(), level, Service::Blob))
        .check("queue_and_blob_errors");
}

#[test]
fn urls_that_no_service_sees() {
    Snapshot::default()
        .add("control character", &error_body::invalid_url_page(false))
        .add("zero", &error_body::invalid_url_page(true))
        .check("invalid_url");
}
