//! Requests of browsers. The body of the request holds the rules, as service properties.

use crate::checks::refused;
use crate::material::Sent;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use tepui_wire::cors as wire;
use tepui_wire::version::ServiceVersion;
use tepui_wire::xml::parse_service_properties;

pub(super) const WORDS: &[&str] = &[
    "OPTIONS",
    "GET",
    "Origin: ",
    "http://a.b",
    "https://x.c.d",
    "https://*.c.d",
    "*",
    "*.",
    "://",
    ",",
    " ",
    "Access-Control-Request-Method: ",
    "Access-Control-Request-Headers: ",
    "x-ms-*",
    "x-ms-meta-a",
    "\r\n",
    "<CorsRule>",
    "</CorsRule>",
    "<AllowedOrigins>",
    "</AllowedOrigins>",
    "<AllowedMethods>",
    "<AllowedHeaders>",
    "<ExposedHeaders>",
    "<MaxAgeInSeconds>",
    "4294967295",
    "\u{E4}",
];

/// Only the origin that asks is allowed, or all are.
pub fn cors(data: &[u8]) {
    let Some(request) = Sent::read(data) else { return };
    let rules = match parse_service_properties(request.body, ServiceVersion::NEWEST) {
        Ok(change) => change.cors.unwrap_or_default(),
        Err(error) => return refused(&error),
    };
    let any = rules.iter().any(|rule| rule.allowed_origins.iter().any(|origin| origin == "*"));
    let origin = request.headers.get(ORIGIN);
    let fits = |answer: &HeaderMap| match answer.get(ACCESS_CONTROL_ALLOW_ORIGIN) {
        Some(allowed) => (any && allowed == "*") || Some(allowed) == origin,
        None => true,
    };
    match wire::preflight(&rules, &request.headers) {
        Ok(answer) => assert!(answer.status() == 200 && fits(answer.headers()), "{answer:?}"),
        Err(error) => refused(&error),
    }
    let mut answer = HeaderMap::new();
    answer.insert(HeaderName::from_static("x-ms-request-id"), HeaderValue::from_static("1"));
    wire::apply(&rules, &request.method, &request.headers, &mut answer);
    assert!(fits(&answer), "{answer:?}");
}
