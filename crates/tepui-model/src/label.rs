//! The rule for names that are also labels of hosts: those of queues and containers.

use crate::ErrorCode;

/// 3 to 63 lower-case letters, digits and single hyphens between them.
pub(crate) fn check(text: &str) -> Result<(), ErrorCode> {
    let spelled = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !spelled || text.starts_with('-') || text.ends_with('-') || text.contains("--") {
        return Err(ErrorCode::InvalidResourceName);
    }
    if (3..=63).contains(&text.len()) { Ok(()) } else { Err(ErrorCode::OutOfRangeInput) }
}
