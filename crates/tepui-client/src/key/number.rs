//! Numbers in keys.

use super::reader::unexpected;
use super::{KeyError, KeyReader, KeyWriter};
use std::fmt::Write;

/// Of a 64-bit number in hexadecimal.
const HEX_DIGITS: usize = 16;
const SIGN: u64 = 1 << 63;

impl KeyWriter {
    /// The number with leading zeros. One with more digits is refused: it would sort before smaller ones.
    ///
    /// ```
    /// use tepui_client::key::KeyWriter;
    /// assert_eq!(KeyWriter::new().padded(223, 6).finish().unwrap(), "000223");
    /// assert!(KeyWriter::new().padded(1_000_000, 6).finish().is_err());
    /// ```
    pub fn padded(self, value: u64, digits: usize) -> Self {
        self.with(|key| write_padded(key, value, digits))
    }

    /// The number, moved so that the smallest one is all zeros.
    ///
    /// ```
    /// use tepui_client::key::KeyWriter;
    /// assert_eq!(KeyWriter::new().signed(-1).finish().unwrap(), "7fffffffffffffff");
    /// assert_eq!(KeyWriter::new().signed(0).finish().unwrap(), "8000000000000000");
    /// ```
    pub fn signed(self, value: i64) -> Self {
        self.with(|key| write_hex(key, value.cast_unsigned() ^ SIGN))
    }

    /// The bits of the number, changed so that they sort as numbers do, infinities at the ends. Both zeros are one
    /// key, because they are equal; NaN is refused.
    ///
    /// ```
    /// use tepui_client::key::KeyWriter;
    /// let key = |value| KeyWriter::new().float(value).finish();
    /// assert!(key(-1.5).unwrap() < key(-0.0).unwrap() && key(-0.0) == key(0.0));
    /// assert!(key(f64::NAN).is_err());
    /// ```
    pub fn float(self, value: f64) -> Self {
        self.with(|key| {
            if value.is_nan() {
                return Err(KeyError::NotANumber);
            }
            // Adding zero turns the negative zero into the other.
            let bits = (value + 0.0).to_bits();
            write_hex(key, if bits & SIGN == 0 { bits | SIGN } else { !bits })
        })
    }
}

impl KeyReader<'_> {
    /// The inverse of [`KeyWriter::padded`].
    pub fn padded(&mut self, digits: usize) -> Result<u64, KeyError> {
        let expected = format!("{digits} digits");
        let text = self.fixed(digits, &expected)?;
        let number = || text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?;
        number().ok_or_else(|| unexpected(expected, text))
    }

    /// The inverse of [`KeyWriter::signed`].
    pub fn signed(&mut self) -> Result<i64, KeyError> {
        self.hex().map(|bits| (bits ^ SIGN).cast_signed())
    }

    /// The inverse of [`KeyWriter::float`].
    pub fn float(&mut self) -> Result<f64, KeyError> {
        let found = self.rest();
        let bits = self.hex()?;
        let value = f64::from_bits(if bits & SIGN == 0 { !bits } else { bits & !SIGN });
        // The writer never writes these; another key of the same number would make it two.
        if value.is_nan() || value.to_bits() == SIGN {
            return Err(unexpected("a number", found));
        }
        Ok(value)
    }

    fn hex(&mut self) -> Result<u64, KeyError> {
        let text = self.fixed(HEX_DIGITS, "16 hexadecimal digits")?;
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let bits = || text.bytes().all(is_digit).then(|| u64::from_str_radix(text, 16).ok())?;
        bits().ok_or_else(|| unexpected("16 hexadecimal digits", text))
    }
}

pub(super) fn write_padded(key: &mut String, value: u64, digits: usize) -> Result<(), KeyError> {
    let start = key.len();
    // Writing to a String does not fail.
    let _ = write!(key, "{value:0digits$}");
    if key.len() - start == digits { Ok(()) } else { Err(KeyError::TooManyDigits { value, digits }) }
}

fn write_hex(key: &mut String, bits: u64) -> Result<(), KeyError> {
    let _ = write!(key, "{bits:016x}");
    Ok(())
}
