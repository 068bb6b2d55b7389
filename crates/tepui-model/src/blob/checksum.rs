//! Checksums in requests and replies: MD5 and CRC64, in Base64. `tepui-digest` computes them.

use crate::{ErrorCode, ServiceError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// An MD5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Md5Sum(pub [u8; 16]);

impl Md5Sum {
    /// ```
    /// use tepui_model::blob::Md5Sum;
    /// let text = "sQqNsWTgdUEFt6mb5y4/5Q==";
    /// assert_eq!(Md5Sum::parse(text).map(|md5| md5.to_string()).as_deref(), Ok(text));
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

/// The stored MD5 of a blob. Fidelity: where it is not compared with the content, any bytes are accepted.
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
    /// ```
    /// use tepui_model::blob::Crc64Sum;
    /// assert_eq!(Crc64Sum::parse("YeJLfssylmU="), Some(Crc64Sum(0x6596_32CB_7E4B_E261)));
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

/// How checksums are computed. For those who compare them without having the algorithms, which a client does not need.
pub trait ChecksumAlgorithms {
    fn md5(&self, bytes: &[u8]) -> Md5Sum;
    fn crc64(&self, bytes: &[u8]) -> Crc64Sum;
}

/// Declared or computed checksums: none, one, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksums {
    pub md5: Option<Md5Sum>,
    pub crc64: Option<Crc64Sum>,
}

impl Checksums {
    /// Compares declared checksums with computed ones. What was not computed is not compared.
    pub fn check(&self, computed: &Self) -> Result<(), ServiceError> {
        if let (Some(declared), Some(found)) = (self.md5, computed.md5)
            && declared != found
        {
            return Err(ServiceError::new(ErrorCode::Md5Mismatch)
                .with_detail("UserSpecifiedMd5", declared.to_string())
                .with_detail("ServerCalculatedMd5", found.to_string()));
        }
        if let (Some(declared), Some(found)) = (self.crc64, computed.crc64)
            && declared != found
        {
            return Err(ServiceError::new(ErrorCode::Crc64Mismatch)
                .with_detail("UserSpecifiedCrc", declared.to_string())
                .with_detail("ServerCalculatedCrc", found.to_string()));
        }
        Ok(())
    }

    /// The checksums of the reply to a request that declares these: the MD5 if it declares one, else the CRC64.
    pub fn answered(&self, computed: &Self) -> Self {
        match self.md5 {
            Some(_) => Self { md5: computed.md5, crc64: None },
            None => Self { md5: None, crc64: computed.crc64 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_refused() {
        for text in ["", "x", "AAAAAAAAAAA", "AAAAAAAAAAAAAAAA", "sQqNsWTgdUEFt6mb5y4/5Q"] {
            assert_eq!(Md5Sum::parse(text), Err(ErrorCode::InvalidMd5), "{text}");
            assert_eq!(Crc64Sum::parse(text), None, "{text}");
        }
    }
}
