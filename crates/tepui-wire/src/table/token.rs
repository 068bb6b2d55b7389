//! Continuation tokens: keys in a form that headers and URLs carry as it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tepui_model::table::Continuation;
use tepui_model::{ErrorCode, ServiceError};

/// Where the next page of a query begins, in the words of the service: opaque to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageToken {
    Table(String),
    /// Without a row: the start of the partition.
    Entity {
        partition: String,
        row: Option<String>,
    },
}

impl PageToken {
    /// As this service spells it.
    pub(super) fn of_table(name: &str) -> Self {
        Self::Table(encode_table(name))
    }

    /// As this service spells it.
    pub(super) fn of_entity(from: &Continuation) -> Self {
        Self::Entity { partition: encode(&from.partition_key), row: Some(encode(&from.row_key)) }
    }
}

/// The token for a key: `1!` length `!` base64, with the three characters that URLs mind exchanged.
pub fn encode(key: &str) -> String {
    let text = STANDARD.encode(key);
    let safe = text.replace('+', "*").replace('/', "_").replace('=', "-");
    // An empty key has an empty text, and its token is still not empty.
    format!("1!{}!{safe}", safe.len())
}

/// The key in a token.
pub fn decode(token: &str) -> Result<String, ServiceError> {
    let key = || {
        let (length, safe) = token.strip_prefix("1!")?.split_once('!')?;
        if length.parse() != Ok(safe.len()) {
            return None;
        }
        let text = safe.replace('*', "+").replace('_', "/").replace('-', "=");
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    };
    key().ok_or_else(|| ErrorCode::InvalidInput.into())
}

/// Where a query for entities goes on, from its two parameters.
pub fn decode_entity(
    partition: Option<&str>,
    row: Option<&str>,
) -> Result<Option<Continuation>, ServiceError> {
    let given = |token: Option<&str>| token.filter(|token| !token.is_empty()).map(decode).transpose();
    let Some(partition_key) = given(partition)? else { return Ok(None) };
    Ok(Some(Continuation { partition_key, row_key: given(row)?.unwrap_or_default() }))
}

/// The token for a table's name, which is in lower case. Azure adds an id that nobody looks at.
pub fn encode_table(name: &str) -> String {
    encode(&format!("{name}\u{1}00"))
}

pub fn decode_table(token: &str) -> Result<String, ServiceError> {
    let decoded = decode(token)?;
    let name = decoded.split('\u{1}').next().unwrap_or_default();
    Ok(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_tokens() {
        assert_eq!(encode("p1"), "1!4!cDE-");
        assert_eq!(encode(""), "1!0!");
        assert_eq!(decode("1!0!").as_deref(), Ok(""));
        for token in ["", "p1", "1!4!cDE", "2!4!cDE-", "1!4!%%%%", "1!x!cDE-", "1!4!_-_-"] {
            assert_eq!(decode(token).map_err(|error| error.code), Err(ErrorCode::InvalidInput), "{token}");
        }
        assert_eq!(decode_table(&encode_table("people")).as_deref(), Ok("people"));
    }

    #[test]
    fn a_row_alone_or_missing() {
        let next =
            |p: &str, r: &str| Some(Continuation { partition_key: p.to_owned(), row_key: r.to_owned() });
        assert_eq!(decode_entity(None, Some("1!4!cDE-")), Ok(None));
        assert_eq!(decode_entity(Some("1!4!cDE-"), None), Ok(next("p1", "")));
        assert_eq!(decode_entity(Some("1!4!cDE-"), Some("")), Ok(next("p1", "")));
        assert_eq!(decode_entity(Some("1!0!"), Some("1!4!cjM-")), Ok(next("", "r3")));
    }

    proptest! {
        #[test]
        fn tokens_are_read_back_and_safe(key in any::<String>()) {
            let token = encode(&key);
            prop_assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!*_-".contains(&byte)));
            prop_assert_eq!(decode(&token), Ok(key));
        }
    }
}
