//! The types of property values.

use crate::Timestamp;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EdmType {
    String,
    Int32,
    Int64,
    Double,
    Boolean,
    DateTime,
    Guid,
    Binary,
}

impl EdmType {
    /// ```
    /// use tepui_model::table::EdmType;
    /// assert_eq!(EdmType::parse("Edm.Int64"), Some(EdmType::Int64));
    /// assert_eq!(EdmType::Int64.name(), "Edm.Int64");
    /// ```
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("Edm.")? {
            "String" => Self::String,
            "Int32" => Self::Int32,
            "Int64" => Self::Int64,
            "Double" => Self::Double,
            "Boolean" => Self::Boolean,
            "DateTime" => Self::DateTime,
            "Guid" => Self::Guid,
            "Binary" => Self::Binary,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::String => "Edm.String",
            Self::Int32 => "Edm.Int32",
            Self::Int64 => "Edm.Int64",
            Self::Double => "Edm.Double",
            Self::Boolean => "Edm.Boolean",
            Self::DateTime => "Edm.DateTime",
            Self::Guid => "Edm.Guid",
            Self::Binary => "Edm.Binary",
        }
    }
}

/// A value of a property, borrowed from wherever it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueRef<'a> {
    String(TextRef<'a>),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(Timestamp),
    Guid(Guid),
    Binary(&'a [u8]),
}

impl<'a> ValueRef<'a> {
    pub fn string(text: &'a str) -> Self {
        Self::String(TextRef::new(text))
    }

    pub fn edm_type(&self) -> EdmType {
        match self {
            Self::String(_) => EdmType::String,
            Self::Int32(_) => EdmType::Int32,
            Self::Int64(_) => EdmType::Int64,
            Self::Double(_) => EdmType::Double,
            Self::Boolean(_) => EdmType::Boolean,
            Self::DateTime(_) => EdmType::DateTime,
            Self::Guid(_) => EdmType::Guid,
            Self::Binary(_) => EdmType::Binary,
        }
    }
}

/// A text, with what is known of it: writing a plain one as JSON is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextRef<'a> {
    utf8: &'a [u8],
    plain: bool,
}

impl<'a> TextRef<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { utf8: text.as_bytes(), plain: is_plain(text.as_bytes()) }
    }

    pub(crate) fn stored(utf8: &'a [u8], plain: bool) -> Self {
        Self { utf8, plain }
    }

    /// The text as UTF-8.
    pub fn bytes(self) -> &'a [u8] {
        self.utf8
    }

    /// Printable ASCII without `"`, `\`, `<`, `>` and `&`: JSON and XML both write it as it is.
    pub fn is_plain(self) -> bool {
        self.plain
    }

    /// The text; empty if the stored bytes were not UTF-8, which only a bug could have written.
    pub fn as_str(self) -> &'a str {
        std::str::from_utf8(self.utf8).unwrap_or_default()
    }
}

pub(crate) fn is_plain(utf8: &[u8]) -> bool {
    // Bytes are added up without an early exit, so that the compiler looks at many at a time.
    let odd = utf8.iter().fold(0u8, |odd, &byte| {
        let unprintable = u8::from(byte.wrapping_sub(b' ') > b'~' - b' ');
        let quote = u8::from(byte == b'"') | u8::from(byte == b'\\');
        let markup = u8::from(byte == b'<') | u8::from(byte == b'>') | u8::from(byte == b'&');
        odd | unprintable | quote | markup
    });
    odd == 0
}

/// A GUID. Its bytes are in the order of its text, which is also the order in which GUIDs compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// Parses `8-4-4-4-12` hexadecimal digits of any case.
    ///
    /// ```
    /// use tepui_model::table::Guid;
    /// let guid = Guid::parse("8C1BAC20-4ed1-4f3b-9a0e-0123456789ab").unwrap();
    /// assert_eq!(guid.to_string(), "8c1bac20-4ed1-4f3b-9a0e-0123456789ab");
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return None;
        }
        let mut bytes = [0; 16];
        let mut at = 0;
        for (index, byte) in bytes.iter_mut().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                if text[at] != b'-' {
                    return None;
                }
                at += 1;
            }
            *byte = hex_digit(text[at])? << 4 | hex_digit(text[at + 1])?;
            at += 2;
        }
        Some(Self(bytes))
    }

    /// Appends the canonical text.
    pub fn write(self, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for (index, byte) in self.0.into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                out.push(b'-');
            }
            out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(36);
        self.write(&mut text);
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}
