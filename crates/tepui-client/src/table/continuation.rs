//! Where a query goes on, as a text that can be stored and sent around.

use crate::{Error, ErrorKind};
use std::fmt;
use std::str::FromStr;
use tepui_wire::table::token::PageToken;

/// Where the next page of a query begins. It is good for the same query only: with another it is refused.
///
/// ```
/// use tepui_client::Continuation;
/// let stored = "1.00f3a9c2d4e5b607.8.1!4!cDE-1!4!cjI-";
/// let next: Continuation = stored.parse().unwrap();
/// assert_eq!(next.to_string(), stored);
/// assert!("somewhere".parse::<Continuation>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// Of the query that it belongs to.
    fingerprint: u64,
    partition: String,
    row: Option<String>,
}

/// A text that is no [`Continuation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidContinuation;

impl Continuation {
    pub(super) fn new(fingerprint: u64, token: PageToken) -> Option<Self> {
        match token {
            PageToken::Entity { partition, row } => Some(Self { fingerprint, partition, row }),
            PageToken::Table(_) => None,
        }
    }

    /// What goes to the service, if it is for this query.
    pub(super) fn token(&self, fingerprint: u64) -> Result<PageToken, Error> {
        if self.fingerprint != fingerprint {
            return Err(Error::new(ErrorKind::Refused, "the continuation is of another query"));
        }
        Ok(PageToken::Entity { partition: self.partition.clone(), row: self.row.clone() })
    }
}

/// `1.` fingerprint `.` length of the first token `.` both tokens; without a length there is only one.
impl fmt::Display for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fingerprint, partition, row } = self;
        match row {
            Some(row) => write!(f, "1.{fingerprint:016x}.{}.{partition}{row}", partition.len()),
            None => write!(f, "1.{fingerprint:016x}..{partition}"),
        }
    }
}

impl FromStr for Continuation {
    type Err = InvalidContinuation;

    fn from_str(text: &str) -> Result<Self, InvalidContinuation> {
        let parse = || {
            let (fingerprint, rest) = text.strip_prefix("1.")?.split_once('.')?;
            let (length, tokens) = rest.split_once('.')?;
            let is_hex = fingerprint.len() == 16 && fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
            let fingerprint = u64::from_str_radix(fingerprint, 16).ok().filter(|_| is_hex)?;
            // They go into URLs, and come from headers.
            if !tokens.bytes().all(|byte| byte.is_ascii_graphic()) {
                return None;
            }
            let (partition, row) = match length {
                "" => (tokens, None),
                length => {
                    tokens.split_at_checked(length.parse().ok()?).map(|(first, rest)| (first, Some(rest)))?
                }
            };
            Some(Self { fingerprint, partition: partition.to_owned(), row: row.map(str::to_owned) })
        };
        parse().ok_or(InvalidContinuation)
    }
}

impl fmt::Display for InvalidContinuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text is no continuation of a query")
    }
}

impl std::error::Error for InvalidContinuation {}

/// FNV-1a. Stored continuations depend on it, so it never changes; it need not resist anybody, as services take any
/// token anyway.
pub(super) fn fingerprint(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0xFF]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_are_read_back_and_belong_to_one_query() {
        let token = |row: Option<&str>| PageToken::Entity {
            partition: "1!4!cDE-".to_owned(),
            row: row.map(str::to_owned),
        };
        for row in [None, Some(""), Some("1!4!cjI-"), Some("a.b.c")] {
            let next = Continuation::new(7, token(row)).unwrap();
            assert_eq!(next.to_string().parse(), Ok(next.clone()), "{next}");
            assert_eq!(next.token(7).unwrap(), token(row));
            assert_eq!(next.token(8).unwrap_err().kind(), ErrorKind::Refused);
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "1",
            "1.",
            "2.0000000000000007..x",
            "1.7..x",
            "1.0000000000000007.9.abc",
            "1.0000000000000007.x.abc",
            "1.0000000000000007..a b",
            "1.+000000000000007..x",
        ] {
            assert_eq!(text.parse::<Continuation>(), Err(InvalidContinuation), "{text}");
        }
    }

    #[test]
    fn fingerprints_stay() {
        assert_eq!(fingerprint(&[]), 0xcbf2_9ce4_8422_2325);
        assert_ne!(fingerprint(&["ab", "c"]), fingerprint(&["a", "bc"]));
        assert_eq!(fingerprint(&["people", "Age gt 1"]), fingerprint(&["people", "Age gt 1"]));
    }
}
