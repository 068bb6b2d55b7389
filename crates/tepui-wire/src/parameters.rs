//! Parameters of the query string as numbers and texts, and the errors of those that are none.

use crate::query::Query;
use tepui_model::{ErrorCode, ServiceError};

/// The value of a parameter. An empty one counts as absent: generated clients send them.
pub(crate) fn given<'a>(query: &'a Query, name: &str) -> Option<&'a str> {
    query.get_ignore_case(name).filter(|value| !value.is_empty())
}

/// A whole number. One that is too large for us is the largest: it is no less a number.
pub fn integer(query: &Query, name: &'static str) -> Result<Option<i64>, ServiceError> {
    let Some(text) = given(query, name) else { return Ok(None) };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_value(name, text, "not an integer"));
    }
    let saturated = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Ok(Some(text.parse().unwrap_or(saturated)))
}

pub(crate) fn ranged(
    query: &Query,
    name: &'static str,
    least: i64,
    most: i64,
) -> Result<Option<i64>, ServiceError> {
    match integer(query, name)? {
        Some(number) if !(least..=most).contains(&number) => {
            Err(ServiceError::new(ErrorCode::OutOfRangeQueryParameterValue)
                .with_detail("QueryParameterName", name)
                .with_detail("QueryParameterValue", given(query, name).unwrap_or_default())
                .with_detail("MinimumAllowed", least.to_string())
                .with_detail("MaximumAllowed", most.to_string()))
        }
        number => Ok(number),
    }
}

pub(crate) fn missing(name: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::MissingRequiredQueryParameter).with_detail("QueryParameterName", name)
}

pub fn invalid_value(name: &'static str, value: &str, reason: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidQueryParameterValue)
        .with_detail("QueryParameterName", name)
        .with_detail("QueryParameterValue", value)
        .with_detail("Reason", reason)
}
