//! Keys as TiKV has them.
//!
//! Every key begins with `m`, the length of the prefix and the prefix, so that no two prefixes overlap, and a byte that says
//! what follows:
//!
//! | | |
//! | --- | --- |
//! | `0x01` | rows of this crate, by their names |
//! | `0x02` | copies of rows that commits guard together: key, number of the copy |
//! | `0x03` | rows: key |

use std::ops::{Bound, Range};
use tepui_storage::{Key, KeyRange, Limits, StorageError};

/// The longest prefix.
const MAX_PREFIX_BYTES: usize = 64;

/// TiKV refuses keys of more than 8 KiB, as it encodes them: 9 bytes for each 8, and 9 for the rest.
const MAX_TIKV_KEY_BYTES: usize = 8192;

/// The limits of keys and commits.
///
/// A commit is sent in parts, so that its size is limited by time and not by messages. 16 MiB are four times the largest
/// batch of entities.
pub(crate) const LIMITS: Limits = Limits { max_key_bytes: 7168, max_commit_bytes: 16 << 20 };

/// The largest value: one Raft entry of TiKV holds it, with room for the rest. These have 8 MB at most.
pub(crate) const MAX_VALUE_BYTES: usize = 6 << 20;

/// The most rows with copies that a commit writes. Each is as many keys as it has copies, and all of them are locked first: of
/// hundreds of such rows a commit would not get the locks in time, however often it is repeated.
pub(crate) const MAX_SHARED_WRITES: usize = 32;

// The first byte, the length of the prefix, the prefix, the space, the key and the number of a copy.
const _: () = {
    let longest = 3 + MAX_PREFIX_BYTES + LIMITS.max_key_bytes + 1;
    assert!((longest / 8 + 1) * 9 <= MAX_TIKV_KEY_BYTES);
};

/// Names of rows of this crate.
pub(crate) const FORMAT: &str = "format";
pub(crate) const SAFEPOINT_LEASE: &str = "safepoint-lease";

const OWN: u8 = 0x01;
const COPIES: u8 = 0x02;
const ROWS: u8 = 0x03;

/// Encodes the keys of one prefix.
pub(crate) struct Keys {
    /// All but the space.
    prefix: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Result<Self, StorageError> {
        let length =
            u8::try_from(prefix.len()).ok().filter(|length| usize::from(*length) <= MAX_PREFIX_BYTES);
        let Some(length) = length else {
            let message =
                format!("the prefix of keys has at most {MAX_PREFIX_BYTES} bytes: {}", prefix.len());
            return Err(StorageError::failed(message));
        };
        Ok(Self { prefix: [&[b'm', length], prefix.as_bytes()].concat() })
    }

    pub(crate) fn own(&self, name: &str) -> Vec<u8> {
        [&self.prefix, &[OWN][..], name.as_bytes()].concat()
    }

    pub(crate) fn copy(&self, key: &[u8], number: u8) -> Vec<u8> {
        [&self.prefix, &[COPIES][..], key, &[number]].concat()
    }

    pub(crate) fn row(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, &[ROWS][..], key].concat()
    }

    /// All keys with this prefix.
    pub(crate) fn all(&self) -> Range<Vec<u8>> {
        self.prefix.clone()..[&self.prefix, &[ROWS + 1][..]].concat()
    }

    /// The key of a row.
    pub(crate) fn key_of<'a>(&self, row: &'a [u8]) -> Option<&'a [u8]> {
        row.strip_prefix(&self.prefix[..])?.strip_prefix(&[ROWS])
    }

    /// From the first row of a range to the end of it; `None` if it is empty.
    pub(crate) fn rows(&self, range: &KeyRange) -> Option<(Vec<u8>, Vec<u8>)> {
        let (start, end) = LIMITS.bounds(range)?;
        let start = match start {
            Bound::Excluded(key) => after(self.row(key)),
            Bound::Included(key) => self.row(key),
            Bound::Unbounded => self.row(&[]),
        };
        let end = match end {
            Bound::Included(key) => after(self.row(key)),
            Bound::Excluded(key) => self.row(key),
            Bound::Unbounded => [&self.prefix, &[ROWS + 1][..]].concat(),
        };
        (start < end).then_some((start, end))
    }
}

/// The first key after `key`.
pub(crate) fn after(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// A value as it is stored. The last byte is there so that none is empty: not everything that speaks TiKV's protocol tells
/// an empty value from an absent one.
pub(crate) fn encode_value(value: &[u8]) -> Vec<u8> {
    [value, &[1]].concat()
}

pub(crate) fn decode_value(mut stored: Vec<u8>) -> Result<tepui_storage::Value, StorageError> {
    match stored.pop() {
        Some(1) => Ok(stored.into()),
        _ => Err(StorageError::corrupt("a value in TiKV does not end as one of ours")),
    }
}

/// Ranges whose keys are guarded by many commits at once.
pub(crate) fn is_within(ranges: &[KeyRange], key: &Key) -> bool {
    ranges.iter().any(|range| range.contains(key))
}

/// Whether a range may have keys that are within one of these.
pub(crate) fn meets(ranges: &[KeyRange], range: &KeyRange) -> bool {
    ranges.iter().any(|other| other.start < range.end && range.start < other.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &[u8], end: &[u8]) -> KeyRange {
        KeyRange { start: Key::copy_from_slice(start), end: Key::copy_from_slice(end) }
    }

    #[test]
    fn keys_of_different_prefixes_do_not_overlap() {
        let (short, long) = (Keys::new("a").unwrap(), Keys::new("ab").unwrap());
        let (start, end) = short.rows(&range(b"", &[0xFF; 9])).unwrap();
        for key in
            [long.row(b"x"), long.own("format"), long.copy(b"x", 0), short.own("format"), short.copy(b"x", 7)]
        {
            assert!(key < start || key >= end);
        }
        let row = short.row(b"x");
        assert!(start < row && row < end);
        assert_eq!(short.key_of(&row), Some(&b"x"[..]));
        assert_eq!(long.key_of(&row), None);
        assert!(Keys::new(&"p".repeat(MAX_PREFIX_BYTES)).is_ok());
        assert!(Keys::new(&"p".repeat(MAX_PREFIX_BYTES + 1)).is_err());
    }

    #[test]
    fn a_copy_belongs_to_one_key() {
        let keys = Keys::new("").unwrap();
        // `a` with the number of `b`, and so on.
        let copies =
            [keys.copy(b"a", b'b'), keys.copy(b"ab", 0), keys.copy(b"ab", b'b'), keys.copy(b"abb", 0)];
        for (index, copy) in copies.iter().enumerate() {
            assert!(!copies.iter().skip(index + 1).any(|other| other == copy));
        }
    }

    #[test]
    fn ranges_that_have_keys_in_common_meet() {
        let shared = [range(b"b", b"c"), range(b"f", b"g")];
        for (case, start, end, expected) in [
            ("before", &b"a"[..], &b"b"[..], false),
            ("between", b"c", b"f", false),
            ("behind", b"g", b"h", false),
            ("within", b"b1", b"b2", true),
            ("around", b"a", b"h", true),
            ("across the start", b"a", b"b1", true),
            ("across the end", b"f1", b"h", true),
        ] {
            assert_eq!(meets(&shared, &range(start, end)), expected, "{case}");
        }
    }

    #[test]
    fn values_come_back() {
        for value in [&b""[..], b"\x01", b"some"] {
            assert_eq!(decode_value(encode_value(value)).unwrap(), value);
        }
        assert!(decode_value(Vec::new()).is_err());
        assert!(decode_value(b"other".to_vec()).is_err());
    }

    #[test]
    fn empty_ranges_have_no_rows() {
        let keys = Keys::new("p").unwrap();
        assert_eq!(keys.rows(&range(b"b", b"b")), None);
        assert_eq!(keys.rows(&range(b"c", b"b")), None);
        let long = vec![b'x'; LIMITS.max_key_bytes + 1];
        let cut = keys.row(&long[..LIMITS.max_key_bytes]);
        assert_eq!(keys.rows(&range(b"a", &long)), Some((keys.row(b"a"), after(cut.clone()))));
        assert_eq!(keys.rows(&range(&long, b"y")), Some((after(cut), keys.row(b"y"))));
    }
}
