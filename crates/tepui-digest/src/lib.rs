//! Checksums of Azure Storage: MD5, of several streams at once with SIMD, and CRC64; and messages that have them within.
//!
//! The types of checksums are in `tepui-model`, which has no algorithms.
//!
//! ```
//! use tepui_digest::Checksum as _;
//! use tepui_model::blob::{Crc64Sum, Md5Sum};
//! assert_eq!(Md5Sum::of(b"Hello World").to_string(), "sQqNsWTgdUEFt6mb5y4/5Q==");
//! assert_eq!(Crc64Sum::of(b"Hello World").to_string(), "YeJLfssylmU=");
//! ```

mod crc64;
#[cfg(feature = "digester")]
mod digester;
mod md5;
pub mod structured;

pub use crc64::{Crc64, crc64_of_zeros};
#[cfg(feature = "digester")]
pub use digester::{Digester, StreamMd5};
pub use md5::{LANES, Md5, Md5Lane, Md5Lanes};

use tepui_model::blob::{ChecksumAlgorithms, Checksums, Crc64Sum, Md5Sum};

/// A checksum that can be computed.
pub trait Checksum {
    fn of(bytes: &[u8]) -> Self;
}

impl Checksum for Md5Sum {
    fn of(bytes: &[u8]) -> Self {
        let mut md5 = Md5::new();
        md5.update(bytes);
        Self(md5.finish())
    }
}

impl Checksum for Crc64Sum {
    fn of(bytes: &[u8]) -> Self {
        let mut crc64 = Crc64::new();
        crc64.update(bytes);
        Self(crc64.finish())
    }
}

/// The algorithms of this crate, for those who only know that there are some.
#[derive(Debug, Clone, Copy)]
pub struct Algorithms;

impl ChecksumAlgorithms for Algorithms {
    fn md5(&self, bytes: &[u8]) -> Md5Sum {
        Md5Sum::of(bytes)
    }

    fn crc64(&self, bytes: &[u8]) -> Crc64Sum {
        Crc64Sum::of(bytes)
    }
}

/// Computes checksums of a stream.
#[derive(Debug, Clone)]
pub struct ChecksumHasher {
    md5: Option<Md5>,
    crc64: Crc64,
}

impl ChecksumHasher {
    /// CRC64 always, MD5 on demand: it costs several times as much.
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
    use tepui_model::ErrorCode;

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
    fn declared_checksums_are_compared() {
        let mut hasher = ChecksumHasher::new(true);
        hasher.update(b"Hello ");
        hasher.update(b"World");
        let computed = hasher.finish();
        let (md5, crc64) = (Md5Sum::of(b"Hello World"), Crc64Sum::of(b"Hello World"));
        assert_eq!(computed, Checksums { md5: Some(md5), crc64: Some(crc64) });
        let (bad_md5, bad_crc64) = (Md5Sum([0; 16]), Crc64Sum(0));
        for (md5, crc64, expected) in [
            (None, None, Ok(())),
            (Some(md5), Some(crc64), Ok(())),
            (Some(bad_md5), Some(crc64), Err(ErrorCode::Md5Mismatch)),
            (None, Some(bad_crc64), Err(ErrorCode::Crc64Mismatch)),
        ] {
            let declared = Checksums { md5, crc64 };
            assert_eq!(declared.check(&computed).map_err(|error| error.code), expected, "{declared:?}");
        }
        let without = Checksums { md5: None, ..computed };
        assert_eq!(Checksums::default().answered(&computed), without);
    }
}
