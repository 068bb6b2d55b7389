//! Names of queues.

use crate::{ServiceError, label};
use std::fmt;

/// The name of a queue: 3 to 63 lower-case letters, digits and single hyphens between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(String);

impl QueueName {
    /// ```
    /// use tepui_model::queue::QueueName;
    /// assert!(QueueName::parse("jobs-low").is_ok());
    /// assert!(QueueName::parse("Jobs").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        label::check(text)?;
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn names() {
        use ErrorCode::*;
        let (long, too_long) = ("a".repeat(63), "a".repeat(64));
        for (text, expected) in [
            ("abc", Ok(())),
            ("0-9", Ok(())),
            (&long, Ok(())),
            (&too_long, Err(OutOfRangeInput)),
            ("ab", Err(OutOfRangeInput)),
            ("", Err(OutOfRangeInput)),
            ("Abc", Err(InvalidResourceName)),
            ("a--b", Err(InvalidResourceName)),
            ("-abc", Err(InvalidResourceName)),
            ("abc-", Err(InvalidResourceName)),
            ("a_b", Err(InvalidResourceName)),
            ("naïve", Err(InvalidResourceName)),
            ("{}a", Err(InvalidResourceName)),
        ] {
            assert_eq!(QueueName::parse(text).map(drop).map_err(|e| e.code), expected, "{text}");
        }
    }
}
