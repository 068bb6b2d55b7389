//! Why a key cannot be written or read.

use super::MAX_UNITS_EVERYWHERE;
use crate::{Error, ErrorKind};
use std::fmt;

/// Why parts do not make a key, or a key is not made of the expected parts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The number has more digits than the part. Written with more of them, it would sort in a wrong place.
    TooManyDigits { value: u64, digits: usize },
    /// NaN is neither below nor above another number.
    NotANumber,
    /// `/ \ # ?` and control characters are allowed in no key.
    Character { character: char, text: String },
    /// The text holds the separator that is to end it.
    Separator { separator: char, text: String },
    /// Longer than [`MAX_UNITS_EVERYWHERE`].
    TooLong { units: usize },
    /// Load cannot be spread over so many buckets: 2 to 1,000 are possible.
    Buckets { count: u16 },
    /// The key reads otherwise than its parts say.
    Unexpected { expected: String, found: String },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyDigits { value, digits } => {
                write!(f, "the number does not fit into {digits} digits: {value}")
            }
            Self::NotANumber => f.write_str("NaN has no place in an order of keys"),
            Self::Character { character, text } => {
                write!(f, "keys must not hold {character:?}, ordered text may: {text:?}")
            }
            Self::Separator { separator, text } => {
                write!(f, "the text holds the separator {separator:?}, ordered text may: {text:?}")
            }
            Self::TooLong { units } => {
                write!(f, "the key is longer than {MAX_UNITS_EVERYWHERE} UTF-16 code units: {units}")
            }
            Self::Buckets { count } => write!(f, "the number of buckets must be 2 to 1000: {count}"),
            Self::Unexpected { expected, found } => {
                write!(f, "the key has something else in place of {expected}: {found:?}")
            }
        }
    }
}

impl std::error::Error for KeyError {}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self::new(ErrorKind::KeyInvalid, error.to_string()).with_source(error)
    }
}
