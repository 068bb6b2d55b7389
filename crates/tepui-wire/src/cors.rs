//! Cross-origin requests of browsers: preflights, and the headers on ordinary answers.

use http::{HeaderMap, Method, Response};
use tepui_model::service_properties::CorsRule;
use tepui_model::{ErrorCode, ServiceError};

/// Answers an OPTIONS request. Needs no credentials, and the resource need not exist.
pub fn preflight(_rules: &[CorsRule], _headers: &HeaderMap) -> Result<Response<Vec<u8>>, ServiceError> {
    Err(ErrorCode::CorsPreflightFailure.into())
}

/// Adds what browsers want to see on the answer to an ordinary request. The other headers must be
/// there already, because the exposed ones are looked up among them.
pub fn apply(_rules: &[CorsRule], _method: &Method, _request: &HeaderMap, _response: &mut HeaderMap) {}
