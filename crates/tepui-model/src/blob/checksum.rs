//! Checksums that callers send along and answers repeat: MD5 and CRC64, as base64.

use super::crc64::Crc64;
use super::md5::Md5;
use crate::{ErrorCode, ServiceError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// An MD5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Md5Sum(pub [u8; 16]);

impl Md5Sum {
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Md5::new();
        sum.update(bytes);
        Self(sum.finish())
    }

    /// ```
    /// use tepui_model::blob::Md5Sum;
    /// let text = "sQqNsWTgdUEFt6mb5y4/5Q==";
    /// assert_eq!(Md5Sum::parse(text), Ok(Md5Sum::of(b"Hello World")));
    /// assert_eq!(Md5Sum::of(b"Hello World").to_string(), text);
    /// ```
    pub fn parse(text: &str) -> Result<Self, ErrorCode> {
        decode(text).map(Self).ok_or(ErrorCode::InvalidMd5)
    }

    /// As headers and lists have it: in Base64.
    pub fn base64(self) -> [u8; 24] {
        let mut text = [0; 24];
        // 16 bytes become 24: it fits.
        let _ = STANDARD.encode_slice(self.0, &mut text);
        text
    }
}

impl fmt::Display for Md5Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.base64()).unwrap_or_default())
    }
}

/// What a blob says of the MD5 of its content. Fidelity: where nobody compares it with the content, any bytes will do.
/// scenario: set-properties-odd-md5
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentMd5 {
    Sum(Md5Sum),
    Other(Box<[u8]>),
}

impl ContentMd5 {
    pub fn parse(text: &str) -> Result<Self, ErrorCode> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| ErrorCode::InvalidMd5)?;
        Ok(Self::from_bytes(&bytes))
    }

    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        match bytes.try_into() {
            Ok(sum) => Self::Sum(Md5Sum(sum)),
            Err(_) => Self::Other(bytes.into()),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Sum(sum) => &sum.0,
            Self::Other(bytes) => bytes,
        }
    }

    /// `None` if it is no MD5.
    pub fn sum(&self) -> Option<Md5Sum> {
        match self {
            Self::Sum(sum) => Some(*sum),
            Self::Other(_) => None,
        }
    }
}

impl From<Md5Sum> for ContentMd5 {
    fn from(sum: Md5Sum) -> Self {
        Self::Sum(sum)
    }
}

impl fmt::Display for ContentMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sum(sum) => sum.fmt(f),
            Self::Other(bytes) => f.write_str(&STANDARD.encode(bytes)),
        }
    }
}

/// A CRC64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Crc64Sum(pub u64);

impl Crc64Sum {
    pub fn of(bytes: &[u8]) -> Self {
        let mut sum = Crc64::new();
        sum.update(bytes);
        Self(sum.finish())
    }

    /// ```
    /// use tepui_model::blob::Crc64Sum;
    /// assert_eq!(Crc64Sum::parse("YeJLfssylmU="), Some(Crc64Sum::of(b"Hello World")));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        decode(text).map(|bytes| Self(u64::from_le_bytes(bytes)))
    }
}

impl fmt::Display for Crc64Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.to_le_bytes()))
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// What a caller says of the bytes that it sends. Nothing, one of them, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksums {
    pub md5: Option<Md5Sum>,
    pub crc64: Option<Crc64Sum>,
}

impl Checksums {
    /// Compares what was said with what was computed. A sum that was not computed is not looked at.
    pub fn check(&self, computed: &Self) -> Result<(), ServiceError> {
        if let (Some(said), Some(found)) = (self.md5, computed.md5)
            && said != found
        {
            return Err(ServiceError::new(ErrorCode::Md5Mismatch)
                .with_detail("UserSpecifiedMd5", said.to_string())
                .with_detail("ServerCalculatedMd5", found.to_string()));
        }
        if let (Some(said), Some(found)) = (self.crc64, computed.crc64)
            && said != found
        {
            return Err(ServiceError::new(ErrorCode::Crc64Mismatch)
                .with_detail("UserSpecifiedCrc", said.to_string())
                .with_detail("ServerCalculatedCrc", found.to_string()));
        }
        Ok(())
    }

    /// What the answer says of bytes that were sent like this, once they are found good: the MD5 if one was
    /// sent, the CRC64 if not.
    pub fn answered(&self, computed: &Self) -> Self {
        match self.md5 {
            Some(_) => Self { md5: computed.md5, crc64: None },
            None => Self { md5: None, crc64: computed.crc64 },
        }
    }
}

/// Sums up bytes that come piece by piece.
#[derive(Debug, Clone)]
pub struct Summing {
    md5: Option<Md5>,
    crc64: Crc64,
}

impl Summing {
    /// CRC64 always, MD5 if wanted: it costs several times as much.
    pub fn new(with_md5: bool) -> Self {
        Self { md5: with_md5.then(Md5::new), crc64: Crc64::new() }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.crc64.update(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
    }

    pub fn finish(self) -> Checksums {
        let md5 = self.md5.map(|md5| Md5Sum(md5.finish()));
        Checksums { md5, crc64: Some(Crc64Sum(self.crc64.finish())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sums() {
        for (text, expected) in [
            ("", "AAAAAAAAAAA="),
            ("Hello", "7YooR2vuA24="),
            ("Hello World", "YeJLfssylmU="),
            ("Hello World!", "peH8Xsgc5QI="),
        ] {
            assert_eq!(Crc64Sum::of(text.as_bytes()).to_string(), expected, "{text}");
            assert_eq!(Crc64Sum::parse(expected), Some(Crc64Sum::of(text.as_bytes())), "{text}");
        }
        assert_eq!(Md5Sum::of(b"H").to_string(), "wdn1D4aCWhojAuwkScFxlg==");
    }

    #[test]
    fn sums_are_refused() {
        for text in ["", "x", "AAAAAAAAAAA", "AAAAAAAAAAAAAAAA", "sQqNsWTgdUEFt6mb5y4/5Q"] {
            assert_eq!(Md5Sum::parse(text), Err(ErrorCode::InvalidMd5), "{text}");
            assert_eq!(Crc64Sum::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_said_is_compared() {
        let mut summing = Summing::new(true);
        summing.update(b"Hello ");
        summing.update(b"World");
        let computed = summing.finish();
        let (md5, crc64) = (Md5Sum::of(b"Hello World"), Crc64Sum::of(b"Hello World"));
        assert_eq!(computed, Checksums { md5: Some(md5), crc64: Some(crc64) });
        let (bad_md5, bad_crc64) = (Md5Sum([0; 16]), Crc64Sum(0));
        for (md5, crc64, expected) in [
            (None, None, Ok(())),
            (Some(md5), Some(crc64), Ok(())),
            (Some(bad_md5), Some(crc64), Err(ErrorCode::Md5Mismatch)),
            (None, Some(bad_crc64), Err(ErrorCode::Crc64Mismatch)),
        ] {
            let said = Checksums { md5, crc64 };
            assert_eq!(said.check(&computed).map_err(|error| error.code), expected, "{said:?}");
        }
        let without = Checksums { md5: None, ..computed };
        assert_eq!(Checksums::default().answered(&computed), without);
    }
}
