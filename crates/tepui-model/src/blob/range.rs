//! Ranges of bytes and of pages.

use crate::{ErrorCode, ServiceError};

/// Pages begin and end at multiples of this.
pub const PAGE_BYTES: u64 = 512;

/// Bytes from one to another, both included, or from one to the end of the blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    pub last: Option<u64>,
}

impl ByteRange {
    /// Parses `bytes=0-511` and `bytes=512-`. `None` for everything else: suffixes, several ranges, garbage.
    ///
    /// ```
    /// use tepui_model::blob::ByteRange;
    /// assert_eq!(ByteRange::parse("bytes=6-"), Some(ByteRange { first: 6, last: None }));
    /// assert_eq!(ByteRange::parse("bytes=-6"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (unit, range) = text.trim().split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (first, last) = range.split_once('-')?;
        // Numbers beyond what there can be are as good as the largest.
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
        };
        let first = number(first.trim())?;
        let last = match last.trim() {
            "" => None,
            text => Some(number(text)?),
        };
        last.is_none_or(|last| first <= last).then_some(Self { first, last })
    }

    /// The part of the range that a blob of this length has: where it starts and where it ends, the end not
    /// included. Nothing of an empty blob is in any range.
    pub fn within(self, blob_bytes: u64) -> Result<std::ops::Range<u64>, ErrorCode> {
        if self.first >= blob_bytes {
            return Err(ErrorCode::InvalidRange);
        }
        let end = self.last.map_or(blob_bytes, |last| last.saturating_add(1).min(blob_bytes));
        Ok(self.first..end)
    }

    /// `None`: it has no end of its own.
    pub fn bytes(self) -> Option<u64> {
        self.last.map(|last| (last - self.first).saturating_add(1))
    }
}

/// Whole pages: the first byte, and the one after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    start: u64,
    end: u64,
}

impl PageRange {
    /// `None` if it does not begin and end where pages do.
    pub fn new(range: ByteRange) -> Option<Self> {
        let end = range.last?.checked_add(1)?;
        let whole = range.first.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES);
        whole.then_some(Self { start: range.first, end })
    }

    pub fn start(self) -> u64 {
        self.start
    }

    /// Not included.
    pub fn end(self) -> u64 {
        self.end
    }

    pub fn bytes(self) -> u64 {
        self.end - self.start
    }

    pub fn check_within(self, blob_bytes: u64) -> Result<(), ServiceError> {
        if self.end <= blob_bytes { Ok(()) } else { Err(ErrorCode::InvalidPageRange.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u64, last: impl Into<Option<u64>>) -> Option<ByteRange> {
        Some(ByteRange { first, last: last.into() })
    }

    #[test]
    fn headers() {
        for (text, expected) in [
            ("bytes=0-0", range(0, 0)),
            ("bytes=6-33554431", range(6, 33_554_431)),
            ("bytes=6-", range(6, None)),
            (" Bytes = 1 - 2 ", range(1, 2)),
            ("bytes=18446744073709551615-", range(u64::MAX, None)),
            ("bytes=0-18446744073709551616", range(0, u64::MAX)),
            ("bytes=99999999999999999999-", range(u64::MAX, None)),
            ("bytes=2-1", None),
            ("bytes=-5", None),
            ("bytes=0-1,3-4", None),
            ("bytes=+1-2", None),
            ("pages=0-1", None),
            ("bytes", None),
            ("", None),
        ] {
            assert_eq!(ByteRange::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn ranges_are_cut_to_the_blob() {
        for (first, last, length, expected) in [
            (0, Some(0), 11, Ok(0..1)),
            (6, Some(33_554_431), 11, Ok(6..11)),
            (6, None, 11, Ok(6..11)),
            (10, Some(u64::MAX), 11, Ok(10..11)),
            (11, None, 11, Err(ErrorCode::InvalidRange)),
            (0, Some(5), 0, Err(ErrorCode::InvalidRange)),
        ] {
            assert_eq!(ByteRange { first, last }.within(length), expected, "{first} {last:?} {length}");
        }
    }

    #[test]
    fn pages() {
        for (first, last, expected) in [
            (0, Some(511), Some(512)),
            (512, Some(2047), Some(1536)),
            (0, Some(512), None),
            (1, Some(511), None),
            (0, None, None),
            (0, Some(u64::MAX), None),
        ] {
            let pages = PageRange::new(ByteRange { first, last });
            assert_eq!(pages.map(PageRange::bytes), expected, "{first} {last:?}");
        }
        let pages = PageRange::new(ByteRange { first: 512, last: Some(1023) }).unwrap();
        assert!(pages.check_within(1024).is_ok() && pages.check_within(1023).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_range_or_not(text in "(bytes=)?[0-9,= -]{0,24}", length: u64) {
            if let Some(range) = ByteRange::parse(&text) {
                let _ = range.bytes();
                if let Ok(within) = range.within(length) {
                    prop_assert!(within.start < within.end && within.end <= length);
                }
            }
        }
    }
}
