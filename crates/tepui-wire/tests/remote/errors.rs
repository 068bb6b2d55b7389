//! Errors: what the server encodes in any of its formats, clients read as the same error.

use crate::arrived::{answered, now};
use http::{Response, StatusCode};
use proptest::prelude::*;
use tepui_model::{ErrorCode, ServiceError};
use tepui_wire::address::Service;
use tepui_wire::auth::Challenge;
use tepui_wire::error_body::{ErrorFormat, encode, remove_body};
use tepui_wire::remote::RemoteError;

const FORMATS: [(Service, ErrorFormat); 5] = [
    (Service::Table, ErrorFormat::OData { content_type: "application/json" }),
    (Service::Table, ErrorFormat::ODataXml),
    (Service::Table, ErrorFormat::Xml),
    (Service::Queue, ErrorFormat::Xml),
    (Service::Blob, ErrorFormat::Xml),
];

#[test]
fn every_code_is_read_in_every_format() {
    for code in ErrorCode::ALL {
        for (service, format) in FORMATS {
            let error = ServiceError::new(*code);
            let read = RemoteError::read(&answered(encode(
                &error,
                format,
                service,
                "id",
                now(),
                &Challenge::default(),
            )));
            assert_eq!(read.status.as_u16(), error.status());
            assert_eq!(read.known_code(), Some(*code), "{service:?} {format:?}");
            assert_eq!(read.request_id.as_deref(), Some("5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11"));
            if read.status != StatusCode::NOT_MODIFIED {
                assert_eq!(read.message, error.message());
            }
        }
    }
}

#[test]
fn without_a_body_the_headers_tell() {
    for service in [Service::Table, Service::Queue, Service::Blob] {
        let error = ServiceError::new(ErrorCode::ResourceNotFound);
        let mut response = encode(&error, ErrorFormat::Xml, service, "id", now(), &Challenge::default());
        remove_body(&mut response);
        let read = RemoteError::read(&response);
        assert_eq!(
            (read.status, read.known_code()),
            (StatusCode::NOT_FOUND, Some(ErrorCode::ResourceNotFound))
        );
        assert_eq!(read.request_id, None);
    }
}

#[test]
fn what_no_service_has_written_is_read_too() {
    for (body, code, message) in [
        ("<html><body>502 Bad Gateway</body></html>", "", ""),
        ("{\"error\":{\"code\":\"ServerBusy\",\"message\":\"Later.\"}}", "ServerBusy", "Later."),
        (
            "{\"odata.error\":{\"code\":\"NewCode\",\"message\":{\"lang\":\"en-US\",\"value\":\"1:x\"}}}",
            "NewCode",
            "1:x",
        ),
        ("{broken", "", ""),
        ("<Error><Code>Broken", "", ""),
        (
            "\u{FEFF}<?xml version=\"1.0\"?><Error><Code>X</Code><Message>a\nRequestId:7\nTime:now</Message></Error>",
            "X",
            "a",
        ),
        ("", "", ""),
    ] {
        let mut response = Response::new(body.as_bytes().to_vec());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response.headers_mut().insert("retry-after", "3".parse().unwrap());
        let read = RemoteError::read(&response);
        assert_eq!((read.code.as_str(), read.message.as_str()), (code, message), "{body}");
        assert_eq!((read.retry_after_seconds, read.change), (Some(3), None));
    }
}

proptest! {
    #[test]
    fn messages_and_details_are_read(
        message in "[\t\n -\u{D7FF}\u{E000}-\u{FFFD}]{1,30}",
        detail in "[!-~<&]{1,9}",
    ) {
        prop_assume!(!message.contains("\nRequestId:"));
        for (service, format) in FORMATS {
            let error = ServiceError::new(ErrorCode::InvalidInput)
                .with_message(message.as_str())
                .with_detail("HeaderValue", detail.as_str());
            let read = RemoteError::read(&encode(&error, format, service, "id", now(), &Challenge::default()));
            prop_assert_eq!(&read.message, &message);
            prop_assert_eq!(read.request_id.as_deref(), Some("id"));
            if service != Service::Table {
                prop_assert_eq!(read.details, vec![("HeaderValue".to_owned(), detail.clone())]);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_refusal(body in proptest::collection::vec(any::<u8>(), 0..60), text in "[{}<>\":a-z/ ]{0,40}") {
        for body in [body, text.into_bytes()] {
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::BAD_REQUEST;
            prop_assert_eq!(RemoteError::read(&response).status, StatusCode::BAD_REQUEST);
        }
    }
}
