//! Text as the Table service orders and measures it: by UTF-16 code units, whatever it is stored as.

use std::cmp::Ordering;

/// The number of UTF-16 code units of a UTF-8 text.
///
/// ```
/// assert_eq!(tepui_model::text::utf16_len("aé😀".as_bytes()), 4);
/// ```
pub fn utf16_len(utf8: &[u8]) -> usize {
    utf8.iter().map(|&byte| usize::from(byte & 0xC0 != 0x80) + usize::from(byte >= 0xF0)).sum()
}

/// Compares two UTF-8 texts in the order of their UTF-16 code units.
///
/// UTF-8 bytes sort by code point. The two orders differ in one place only: in UTF-16 the characters
/// beyond U+FFFF are written with surrogates and so sort before U+E000 to U+FFFF.
///
/// ```
/// use std::cmp::Ordering::Less;
/// use tepui_model::text::utf16_cmp;
/// assert_eq!(utf16_cmp("10".as_bytes(), "2".as_bytes()), Less);
/// assert_eq!(utf16_cmp("😀".as_bytes(), "\u{FF01}".as_bytes()), Less);
/// ```
pub fn utf16_cmp(left: &[u8], right: &[u8]) -> Ordering {
    match left.iter().zip(right).find(|(a, b)| a != b) {
        Some((&a, &b)) => utf16_rank(a).cmp(&utf16_rank(b)),
        None => left.len().cmp(&right.len()),
    }
}

/// Where a byte of UTF-8 sorts among its like so that texts come out in UTF-16 order. The ranks
/// 0xF5 and 0xF6 stand for the lead bytes 0xEE and 0xEF; UTF-8 itself never uses them.
pub fn utf16_rank(byte: u8) -> u8 {
    match byte {
        0xEE => 0xF5,
        0xEF => 0xF6,
        other => other,
    }
}

/// The byte that has the given rank: the inverse of [`utf16_rank`].
pub fn utf8_of_rank(rank: u8) -> u8 {
    match rank {
        0xF5 => 0xEE,
        0xF6 => 0xEF,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_is_that_of_utf16_code_units(a in "\\PC{0,6}", b in "\\PC{0,6}") {
            let expected = a.encode_utf16().cmp(b.encode_utf16());
            prop_assert_eq!(utf16_cmp(a.as_bytes(), b.as_bytes()), expected);
        }

        #[test]
        fn length_is_that_of_utf16_code_units(a in "\\PC{0,12}") {
            prop_assert_eq!(utf16_len(a.as_bytes()), a.encode_utf16().count());
        }
    }

    #[test]
    fn surrogates_sort_before_the_last_characters_of_the_basic_plane() {
        for (less, more) in
            [("\u{D7FF}", "😀"), ("😀", "\u{E000}"), ("a😀", "a\u{FFFD}"), ("\u{E000}", "\u{FFFD}")]
        {
            assert_eq!(utf16_cmp(less.as_bytes(), more.as_bytes()), Ordering::Less, "{less} {more}");
        }
    }
}
