//! Names of tables.

use crate::{ErrorCode, ServiceError, label};
use std::fmt;

/// The name of a table as its creator wrote it. Two names that differ in case only mean the same table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName(String);

impl TableName {
    /// 3 to 63 letters and digits, the first a letter, and not the name of the table collection.
    ///
    /// ```
    /// use tepui_model::table::TableName;
    /// assert!(TableName::parse("People").is_ok());
    /// assert!(TableName::parse("9lives").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        // Fidelity: characters are judged before the length. scenario: create-table-bad-names
        let spelled = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let starts = !text.starts_with(|first: char| first.is_ascii_digit());
        if !(spelled && starts) {
            return Err(ErrorCode::InvalidResourceName.into());
        }
        if !(3..=63).contains(&text.len()) {
            return Err(label::bad_length().at_stage(crate::Stage::Store));
        }
        if text.eq_ignore_ascii_case("tables") {
            return Err(ServiceError::new(ErrorCode::InvalidInput).at_stage(crate::Stage::Store));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use ErrorCode::*;
        let long = "a".repeat(63);
        let too_long = "a".repeat(64);
        for (text, expected) in [
            ("abc", Ok(())),
            ("A1b2C3", Ok(())),
            (&long, Ok(())),
            (&too_long, Err(OutOfRangeInput)),
            ("ab", Err(OutOfRangeInput)),
            ("", Err(OutOfRangeInput)),
            ("1abc", Err(InvalidResourceName)),
            ("my_table", Err(InvalidResourceName)),
            ("naïve", Err(InvalidResourceName)),
            ("$MetricsHourPrimaryTransactionsTable", Err(InvalidResourceName)),
            ("Tables", Err(InvalidInput)),
            ("tABLES", Err(InvalidInput)),
        ] {
            assert_eq!(TableName::parse(text).map(drop).map_err(|e| e.code), expected, "{text}");
        }
    }
}
