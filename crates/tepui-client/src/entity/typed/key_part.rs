//! Types that fields of keys can have.

use crate::Guid;
use crate::key::KeyError;
use std::borrow::Cow;

/// A number without a sign, for `{field:06}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a key with a number of digits",
    label = "not u8, u16, u32 or u64"
)]
pub trait KeyUnsigned: Copy {
    fn widen(self) -> u64;
    fn narrow(number: u64) -> Option<Self>;
}

/// A number with a sign, for `{field:signed}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a signed part of a key",
    label = "not i8, i16, i32 or i64"
)]
pub trait KeySigned: Copy {
    fn widen(self) -> i64;
    fn narrow(number: i64) -> Option<Self>;
}

/// Text, or what has one text, for `{field}` and `{field:ordered}`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be text in a key",
    label = "not String or Guid",
    note = "numbers are written `{{field:06}}`, `{{field:signed}}` or `{{field:float}}`, times `{{field:asc}}` or `{{field:desc}}`"
)]
pub trait KeyText: Sized {
    fn to_key_text(&self) -> Cow<'_, str>;
    fn from_key_text(text: String) -> Option<Self>;
}

macro_rules! numbers {
    ($part:ident of $wide:ty: $($narrow:ty),*) => {
        $(impl $part for $narrow {
            fn widen(self) -> $wide {
                self.into()
            }
            fn narrow(number: $wide) -> Option<Self> {
                Self::try_from(number).ok()
            }
        })*
    };
}

numbers!(KeyUnsigned of u64: u8, u16, u32, u64);
numbers!(KeySigned of i64: i8, i16, i32, i64);

impl KeyText for String {
    fn to_key_text(&self) -> Cow<'_, str> {
        self.into()
    }
    fn from_key_text(text: String) -> Option<Self> {
        Some(text)
    }
}

impl KeyText for Guid {
    fn to_key_text(&self) -> Cow<'_, str> {
        self.to_string().into()
    }
    fn from_key_text(text: String) -> Option<Self> {
        Self::parse(&text)
    }
}

#[doc(hidden)]
pub fn narrow_unsigned<T: KeyUnsigned>(number: u64) -> Result<T, KeyError> {
    T::narrow(number).ok_or_else(|| unexpected("a number within its type", number.to_string()))
}

#[doc(hidden)]
pub fn narrow_signed<T: KeySigned>(number: i64) -> Result<T, KeyError> {
    T::narrow(number).ok_or_else(|| unexpected("a number within its type", number.to_string()))
}

#[doc(hidden)]
pub fn parse_text<T: KeyText>(text: String) -> Result<T, KeyError> {
    let found = text.clone();
    T::from_key_text(text).ok_or_else(|| unexpected("a text of its type", found))
}

fn unexpected(expected: &str, found: String) -> KeyError {
    KeyError::Unexpected { expected: expected.to_owned(), found }
}
