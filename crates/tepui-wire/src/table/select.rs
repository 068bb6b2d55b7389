//! `$select`: which properties of an entity an answer holds.

use tepui_model::{ErrorCode, ServiceError};

const MAX_NAMES: usize = 255;

/// A parsed `$select`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Select {
    sent: Option<String>,
    names: Option<Vec<String>>,
}

impl Select {
    /// All properties: `$select` was not sent.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the value of `$select`, percent-decoded. Blank means everything, and so does `*`.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        if text.trim().is_empty() {
            return Ok(Self::everything());
        }
        let mut names: Vec<String> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if names.iter().any(|known| known == name) {
                continue;
            }
            if names.len() == MAX_NAMES {
                return Err(ErrorCode::InvalidInput.into());
            }
            names.push(name.to_owned());
        }
        let everything = names.is_empty() || names.iter().any(|name| name == "*");
        Ok(Self { sent: Some(text.to_owned()), names: (!everything).then_some(names) })
    }

    /// The names, each once, in the order in which they were sent; `None` for everything.
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// The list as it was sent, for `odata.metadata`.
    pub fn as_sent(&self) -> Option<&str> {
        self.sent.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, expected) in [
            ("", None),
            ("  ", None),
            ("*", None),
            ("A,*", None),
            (",", None),
            ("A", Some(vec!["A"])),
            ("age, sex", Some(vec!["age", "sex"])),
            (" A ,b, A,a", Some(vec!["A", "b", "a"])),
        ] {
            let select = Select::parse(text).unwrap();
            let names = select.names().map(|names| names.iter().map(String::as_str).collect());
            assert_eq!(names, expected, "{text}");
        }
        assert_eq!(Select::parse("age, sex").unwrap().as_sent(), Some("age, sex"));
        assert_eq!(Select::parse(" ").unwrap().as_sent(), None);
    }

    #[test]
    fn a_list_has_at_most_255_names() {
        let list = |count: usize| (0..count).map(|i| format!("P{i}")).collect::<Vec<_>>().join(",");
        assert!(Select::parse(&list(255)).is_ok());
        assert_eq!(Select::parse(&list(256)).unwrap_err().code, ErrorCode::InvalidInput);
    }
}
