//! Continuation tokens.

use crate::checks::refused;
use tepui_wire::table::token as wire;

pub(super) const WORDS: &[&str] = &[
    "1!",
    "!",
    "1!0!",
    "1!4!cDE-",
    "1!8!",
    "cDE-",
    "-",
    "*",
    "_",
    "=",
    "+",
    "/",
    "\n",
    "18446744073709551616",
    "+4",
];

/// A token is the same once read and made again. The first line is one for a partition, the second for a row.
pub fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (partition, row) = text.split_once('\n').unwrap_or((text, ""));
    match wire::decode(partition) {
        Ok(key) => assert_eq!(wire::decode(&wire::encode(&key)), Ok(key)),
        Err(error) => refused(&error),
    }
    match wire::decode_entity(Some(partition), Some(row)) {
        Ok(next) => assert_eq!(next.is_none(), partition.is_empty()),
        Err(error) => refused(&error),
    }
    match wire::decode_table(partition) {
        Ok(name) => assert_eq!(wire::decode_table(&wire::encode_table(&name)), Ok(name)),
        Err(error) => refused(&error),
    }
    let token = wire::encode(text);
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!*_-".contains(&byte)), "{token}");
    assert_eq!(wire::decode(&token).as_deref(), Ok(text));
}
