//! The rule for names that are also labels of hosts: those of queues and containers.

use crate::{ErrorCode, ServiceError};

/// 3 to 63 lower-case letters, digits and single hyphens between them.
pub(crate) fn check(text: &str) -> Result<(), ServiceError> {
    let spelled = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !spelled || text.starts_with('-') || text.ends_with('-') || text.contains("--") {
        return Err(ErrorCode::InvalidResourceName.into());
    }
    if (3..=63).contains(&text.len()) { Ok(()) } else { Err(bad_length()) }
}

/// The name is too short or too long.
pub(crate) fn bad_length() -> ServiceError {
    ServiceError::new(ErrorCode::OutOfRangeInput)
        .with_message("The specified resource name length is not within the permissible limits.")
}
