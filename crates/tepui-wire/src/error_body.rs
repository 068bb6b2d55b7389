//! Errors as HTTP answers: the only place where a [`ServiceError`] becomes a status, headers and a body.
//!
//! The Table service has four families of answers, told apart by who raised the error. See the REST page
//! "Status and error codes".

use crate::address::Service;
use crate::auth::Challenge;
use crate::version::ServiceVersion;
use crate::xml::{self, DECLARATION, escape};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tepui_model::{ErrorCode, ServiceError, Stage, Timestamp};

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
pub const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
pub const VERSION: HeaderName = HeaderName::from_static("x-ms-version");
pub const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");

const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const SERVER_OF_TABLES: HeaderValue =
    HeaderValue::from_static("Windows-Azure-Table/1.0 Microsoft-HTTPAPI/2.0");
const SERVER_OF_QUEUES: HeaderValue =
    HeaderValue::from_static("Windows-Azure-Queue/1.0 Microsoft-HTTPAPI/2.0");
const SERVER_OF_BLOBS: HeaderValue = HeaderValue::from_static("Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0");
/// What answers that no service has seen say of themselves.
const SERVER_OF_HTTP_LAYER: HeaderValue = HeaderValue::from_static("Microsoft-HTTPAPI/2.0");
const METADATA_NAMESPACE: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

/// The form of an error's body. Authentication errors, and all errors of queues and blobs, are XML
/// whatever is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// JSON, with the content type that the caller accepts.
    OData { content_type: &'static str },
    /// Atom's error, for callers of the Table service who accept no JSON.
    ODataXml,
    /// The error of the operations whose bodies are XML: access policies, service properties, stats.
    Xml,
}

/// Makes the answer to a request that failed. [`finish`] adds what every answer has. `challenge`: what is said to those who
/// should bring a token.
pub fn encode(
    error: &ServiceError,
    format: ErrorFormat,
    service: Service,
    request_id: &str,
    now: Timestamp,
    challenge: &Challenge,
) -> Response<Vec<u8>> {
    let is_authentication = error.stage == Stage::Authentication;
    let format = if is_authentication || service != Service::Table { ErrorFormat::Xml } else { format };
    let message = full_message(error, request_id, now);
    let (content_type, body) = match format {
        ErrorFormat::OData { content_type } => {
            (HeaderValue::from_static(content_type), json_body(error, &message))
        }
        ErrorFormat::ODataXml => (
            HeaderValue::from_static("application/xml;charset=utf-8"),
            table_xml_body("", " xmlns=", error, &message),
        ),
        ErrorFormat::Xml => {
            let body = match service {
                Service::Table => table_xml_body("m:", " xmlns:m=", error, &message),
                Service::Queue | Service::Blob => xml_body(error, &message, xml::mark(service)),
            };
            (HeaderValue::from_static("application/xml"), body)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    // Fidelity: OData errors carry their code in the body only. scenario: error-families
    if format == ErrorFormat::Xml {
        headers.insert(ERROR_CODE, HeaderValue::from_static(error.code.name()));
    } else {
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if error.stage == Stage::Store {
            headers.insert(header::CACHE_CONTROL, NO_CACHE);
        }
    }
    if let Some(bytes) = error.resource_bytes {
        headers.insert(header::CONTENT_RANGE, text_value(&format!("bytes */{bytes}")));
    }
    for (name, text) in &error.details {
        if let Some(header) = copy_source_header(name) {
            headers.insert(header, text_value(text));
        }
    }
    if error.status() == StatusCode::NOT_MODIFIED.as_u16() {
        remove_body(&mut response);
    }
    let headers = response.headers_mut();
    let is_challenged = error.status() == StatusCode::UNAUTHORIZED.as_u16();
    // A token that is not accepted is refused before any service sees it.
    let is_refused_token = is_challenged && error.code == ErrorCode::InvalidAuthenticationInfo;
    if is_authentication && (service == Service::Table || is_refused_token) {
        headers.insert(header::SERVER, SERVER_OF_HTTP_LAYER);
    }
    if is_challenged {
        headers.insert(header::WWW_AUTHENTICATE, challenge.header().clone());
    }
    response
}

/// Leaves only the head of an error: for an answer that has no body, such as every answer to HEAD.
///
/// Fidelity: neither the type nor the length of the body is told. Clients that find a type of XML parse the body,
/// and fail on the one that is not there. scenario: blob-head-errors
pub fn remove_body(response: &mut Response<Vec<u8>>) {
    response.headers_mut().remove(header::CONTENT_TYPE);
    response.body_mut().clear();
}

/// What is told of the source of a copy is told in headers, too.
fn copy_source_header(detail: &str) -> Option<HeaderName> {
    match detail {
        "CopySourceStatusCode" => Some(HeaderName::from_static("x-ms-copy-source-status-code")),
        "CopySourceErrorCode" => Some(HeaderName::from_static("x-ms-copy-source-error-code")),
        _ => None,
    }
}

/// What a header cannot hold is left out.
fn text_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// The JSON of an error, also for the parts of a batch. An error about one change begins with its index.
///
/// Fidelity: no blanks, and the members in this order, because clients search this text.
/// scenario: batch-fourth-fails
pub fn odata_json(error: &ServiceError, request_id: &str, now: Timestamp) -> Vec<u8> {
    json_body(error, &full_message(error, request_id, now))
}

/// The longest client request id that is echoed.
const MAX_CLIENT_REQUEST_ID_BYTES: usize = 1024;

/// Adds the headers that answers of a service have in common: who answers, in which version, to which
/// request. `Date` is left to the HTTP layer. `version` is `None` as long as none could be negotiated.
pub fn finish(
    response: &mut HeaderMap,
    service: Service,
    version: Option<ServiceVersion>,
    request_id: &str,
    request_headers: &HeaderMap,
) {
    if let Ok(id) = HeaderValue::from_str(request_id) {
        response.insert(REQUEST_ID, id);
    }
    // As the answer to a token that is not accepted was recorded: from the HTTP layer, and without the caller's id. The Table
    // service repeats it there, too.
    let is_silent = service != Service::Table && response.contains_key(header::SERVER);
    if let Some(id) = request_headers.get(CLIENT_REQUEST_ID)
        && id.len() <= MAX_CLIENT_REQUEST_ID_BYTES
        && !(is_silent && response.contains_key(header::WWW_AUTHENTICATE))
    {
        response.insert(CLIENT_REQUEST_ID, id.clone());
    }
    // Fidelity: an answer that no service has seen names no version either. scenario: error-families
    if response.contains_key(header::SERVER) {
        return;
    }
    let server = match service {
        Service::Table => SERVER_OF_TABLES,
        Service::Queue => SERVER_OF_QUEUES,
        Service::Blob => SERVER_OF_BLOBS,
    };
    response.insert(header::SERVER, server);
    if let Some(version) = version.filter(|version| version.answers_version()) {
        response.insert(VERSION, HeaderValue::from_static(version.text()));
    }
}

/// Makes an answer one that no service has seen: it names none, and no version.
pub fn mark_http_layer(response: &mut HeaderMap) {
    response.insert(header::SERVER, SERVER_OF_HTTP_LAYER);
}

/// The answer to a URL that is refused before any service sees it. Complete: [`finish`] is not for it.
pub fn invalid_url_page(close: bool) -> Response<Vec<u8>> {
    const PAGE: &str = concat!(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\"\"http://www.w3.org/TR/html4/strict.dtd\">\r\n",
        "<HTML><HEAD><TITLE>Bad Request</TITLE>\r\n",
        "<META HTTP-EQUIV=\"Content-Type\" Content=\"text/html; charset=us-ascii\"></HEAD>\r\n",
        "<BODY><h2>Bad Request - Invalid URL</h2>",
        "<hr><p>HTTP Error 400. The request URL is invalid.</p>\r\n",
        "</BODY></HTML>\r\n",
    );
    let mut response = Response::new(PAGE.as_bytes().to_vec());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=us-ascii"));
    headers.insert(header::SERVER, SERVER_OF_HTTP_LAYER);
    if close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The message as clients see it: where in the batch, what, and of which request when.
fn full_message(error: &ServiceError, request_id: &str, now: Timestamp) -> String {
    let index = error.change.map(|index| format!("{index}:")).unwrap_or_default();
    format!("{index}{}\nRequestId:{request_id}\nTime:{}", error.message(), now.to_iso_7())
}

fn json_body(error: &ServiceError, message: &str) -> Vec<u8> {
    let mut out = String::with_capacity(128 + message.len());
    out.push_str("{\"odata.error\":{\"code\":\"");
    out.push_str(error.code.name());
    out.push_str("\",\"message\":{\"lang\":\"en-US\",\"value\":\"");
    push_json_text(message, &mut out);
    out.push_str("\"}}}");
    out.into_bytes()
}

/// Text between the quotes of JSON, in ASCII only.
fn push_json_text(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
}

/// The Table service's error in XML, its elements with or without a prefix.
fn table_xml_body(prefix: &str, declares: &str, error: &ServiceError, message: &str) -> Vec<u8> {
    let mut out = String::with_capacity(256 + message.len());
    out.push_str(DECLARATION);
    out.push_str(&format!("<{prefix}error{declares}\"{METADATA_NAMESPACE}\">"));
    out.push_str(&format!("<{prefix}code>{}</{prefix}code>", error.code.name()));
    out.push_str(&format!("<{prefix}message xml:lang=\"en-US\">"));
    out.push_str(&escape(message));
    out.push_str(&format!("</{prefix}message></{prefix}error>"));
    out.into_bytes()
}

/// The error of queues and blobs.
fn xml_body(error: &ServiceError, message: &str, mark: &str) -> Vec<u8> {
    let mut out = String::with_capacity(128 + message.len());
    out.push_str(mark);
    out.push_str(DECLARATION);
    out.push_str(&format!("<Error><Code>{}</Code><Message>", error.code.name()));
    out.push_str(&escape(message));
    out.push_str("</Message>");
    for (name, text) in &error.details {
        if text.is_empty() {
            out.push_str(&format!("<{name} />"));
            continue;
        }
        out.push_str(&format!("<{name}>"));
        out.push_str(&escape(text));
        out.push_str(&format!("</{name}>"));
    }
    out.push_str("</Error>");
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    const NOW: Timestamp = Timestamp::EARLIEST_STORABLE;

    #[test]
    fn batch_errors_begin_with_the_index() {
        let error = ServiceError::new(ErrorCode::EntityAlreadyExists).at_change(3);
        let body = String::from_utf8(odata_json(&error, "id", NOW)).unwrap();
        assert_eq!(
            body,
            "{\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"lang\":\"en-US\",\"value\":\
             \"3:The specified entity already exists.\\nRequestId:id\\nTime:1601-01-01T00:00:00.0000000Z\"}}}"
        );
    }

    #[test]
    fn every_code_becomes_an_answer_with_its_status() {
        for code in ErrorCode::ALL {
            let error = ServiceError::new(*code);
            for format in [
                ErrorFormat::OData { content_type: "application/json" },
                ErrorFormat::ODataXml,
                ErrorFormat::Xml,
            ] {
                let response = encode(&error, format, Service::Table, "id", NOW, &Challenge::default());
                assert_eq!(response.status().as_u16(), code.status(), "{code:?}");
            }
        }
    }

    #[test]
    fn without_its_body_an_error_keeps_its_code() {
        for service in [Service::Table, Service::Queue, Service::Blob] {
            let error = ServiceError::new(ErrorCode::ResourceNotFound);
            let mut response = encode(&error, ErrorFormat::Xml, service, "id", NOW, &Challenge::default());
            remove_body(&mut response);
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            assert_eq!(response.headers()[ERROR_CODE], "ResourceNotFound");
            assert!(!response.headers().contains_key(header::CONTENT_TYPE) && response.body().is_empty());
        }
    }

    #[test]
    fn client_request_ids_are_echoed_up_to_a_length() {
        for (length, echoed) in [(1, true), (1024, true), (1025, false)] {
            let mut request_headers = HeaderMap::new();
            request_headers.insert(CLIENT_REQUEST_ID, "x".repeat(length).parse().unwrap());
            let mut headers = HeaderMap::new();
            finish(&mut headers, Service::Table, None, "id", &request_headers);
            assert_eq!(headers.contains_key(CLIENT_REQUEST_ID), echoed, "{length}");
        }
    }

    proptest! {
        #[test]
        fn json_text_is_ascii_and_reads_back(text in any::<String>()) {
            let mut out = String::from("\"");
            push_json_text(&text, &mut out);
            out.push('"');
            prop_assert!(out.is_ascii());
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
