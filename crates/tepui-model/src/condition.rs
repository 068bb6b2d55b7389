//! If-Match as a type.

use crate::{ErrorCode, ServiceError, Timestamp, etag};

/// What must hold of an existing entity for a write to go ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// `*`: it exists.
    Any,
    /// It has not been written since the caller read it at this timestamp.
    WrittenAt(Timestamp),
    /// A well-formed tag that no entity can have.
    Never,
}

impl Condition {
    /// Parses the value of an `If-Match` header.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(timestamp) = etag::parse(text) {
            return Ok(Self::WrittenAt(timestamp));
        }
        let opaque = text.strip_prefix("W/\"").and_then(|rest| rest.strip_suffix('"'));
        match opaque {
            Some(opaque) if !opaque.contains('"') => Ok(Self::Never),
            _ => Err(ServiceError::new(ErrorCode::InvalidInput).with_message(format!(
                "The etag value '{text}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid."
            ))),
        }
    }

    pub fn accepts(self, written_at: Timestamp) -> bool {
        match self {
            Self::Any => true,
            Self::WrittenAt(timestamp) => timestamp == written_at,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_values() {
        let at = Timestamp::parse_iso("2026-03-10T08:15:30.5Z").unwrap();
        for (text, expected) in [
            ("*", Some(Condition::Any)),
            (r#"W/"datetime'2026-03-10T08%3A15%3A30.5Z'""#, Some(Condition::WrittenAt(at))),
            (r#"W/"datetime'2026-03-10T08%3a15%3a30.5000000Z'""#, Some(Condition::WrittenAt(at))),
            (r#"W/"other""#, Some(Condition::Never)),
            (r#""strong""#, None),
            ("abc", None),
            ("", None),
            (r#"W/"a",W/"b""#, None),
        ] {
            assert_eq!(Condition::parse(text).ok(), expected, "{text}");
        }
    }
}
