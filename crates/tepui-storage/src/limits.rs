//! Limits of keys and commits.

use crate::{Commit, KeyRange, StorageError};
use std::ops::Bound;

/// What an engine accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest key. Keys have at least one byte.
    pub max_key_bytes: usize,
    /// The most that one commit may write, keys and values together.
    pub max_commit_bytes: usize,
}

/// The bounds of a range of keys.
pub type ScanBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl Limits {
    /// The limits of the engines in memory and on a local disk.
    pub const LOCAL: Self = Self { max_key_bytes: 65_535, max_commit_bytes: 64 << 20 };

    /// Whether a key has a valid length.
    pub fn is_valid_key(&self, key: &[u8]) -> bool {
        (1..=self.max_key_bytes).contains(&key.len())
    }

    /// Refuses a commit that exceeds a limit.
    pub fn check(&self, commit: &Commit) -> Result<(), StorageError> {
        let Self { max_key_bytes, max_commit_bytes } = self;
        if let Some(key) = commit.checked_keys().find(|key| !self.is_valid_key(key)) {
            return Err(StorageError::failed(format!("a key has 1 to {max_key_bytes} bytes: {}", key.len())));
        }
        if commit.bytes() > *max_commit_bytes {
            let message = format!("a commit writes at most {max_commit_bytes} bytes: {}", commit.bytes());
            return Err(StorageError::failed(message));
        }
        Ok(())
    }

    /// The range as bounds of valid length; `None` if it is empty.
    pub fn bounds<'a>(&self, range: &'a KeyRange) -> Option<ScanBounds<'a>> {
        if range.start >= range.end {
            return None;
        }
        // No key is longer, so a longer bound can be cut.
        let start = match range.start.get(..self.max_key_bytes) {
            Some(cut) if range.start.len() > self.max_key_bytes => Bound::Excluded(cut),
            _ => Bound::Included(&range.start[..]),
        };
        let end = match range.end.get(..self.max_key_bytes) {
            Some(cut) if range.end.len() > self.max_key_bytes => Bound::Included(cut),
            _ => Bound::Excluded(&range.end[..]),
        };
        Some((start, end))
    }
}
