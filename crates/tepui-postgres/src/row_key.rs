//! Keys as columns.
//!
//! An entry of a B-tree index has at most 2,704 bytes, and keys up to 65,535. So the index has the first 2,000 bytes of a key
//! (`p`) and, if there are more, their hash (`h`, of the whole key); the rest of the key (`t`) is beside the value. The order of
//! keys is that of the pairs of `p` and `t`: a key that is shorter than `p` may be has an empty `t`.

use bytes::BytesMut;
use sha2::{Digest as _, Sha256};
use std::error::Error;
use tepui_storage::Key;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// How much of a key is in the index.
pub(crate) const INDEXED_BYTES: usize = 2000;

/// A key as columns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey<'a> {
    /// The first bytes.
    pub(crate) p: &'a [u8],
    /// The hash of the key if it has more bytes.
    pub(crate) h: Hash,
    /// The other bytes.
    pub(crate) t: &'a [u8],
}

/// Nothing, or a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hash(Option<[u8; 32]>);

impl AsRef<[u8]> for Hash {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |hash| &hash[..])
    }
}

impl ToSql for Hash {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.as_ref().to_sql(of, out)
    }

    fn accepts(of: &Type) -> bool {
        <&[u8] as ToSql>::accepts(of)
    }

    to_sql_checked!();
}

/// The two parts of a key, or of any other bound of a range.
pub(crate) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at_checked(INDEXED_BYTES).unwrap_or((key, &[]))
}

impl<'a> RowKey<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Self {
        let (p, t) = split(key);
        let h = (!t.is_empty()).then(|| Sha256::digest(key).into());
        Self { p, h: Hash(h), t }
    }

    /// What `t` is in a row that only marks a key for the time of a commit: what it never is otherwise.
    pub(crate) fn marker(&self) -> &'static [u8] {
        if self.t.is_empty() { &[0] } else { &[] }
    }
}

/// The key of a row.
pub(crate) fn join(p: &[u8], t: &[u8]) -> Key {
    if t.is_empty() { Key::copy_from_slice(p) } else { [p, t].concat().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys that differ near the end of what is indexed.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let tail = proptest::collection::vec(0u8..3, 0..12);
        (INDEXED_BYTES - 6..=INDEXED_BYTES + 2, 0u8..2, tail).prop_map(|(length, first, tail)| {
            let mut key = vec![1; length];
            key[0] = first;
            key.extend(tail);
            key
        })
    }

    proptest! {
        #[test]
        fn parts_are_ordered_as_keys_are(first in key(), second in key()) {
            prop_assert_eq!(split(&first).cmp(&split(&second)), first.cmp(&second));
            let row = RowKey::new(&first);
            prop_assert!(row.p.len() <= INDEXED_BYTES && row.h.as_ref().is_empty() == row.t.is_empty());
            prop_assert_eq!(&join(row.p, row.t)[..], &first[..]);
            prop_assert_ne!(row.marker(), row.t);
            let same = RowKey::new(&second);
            prop_assert_eq!((row.p, row.h) == (same.p, same.h), first == second);
        }
    }
}
