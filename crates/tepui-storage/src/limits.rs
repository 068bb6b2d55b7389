//! Limits of keys and commits: the same for every engine, so that a service can change engines.

use crate::{EngineError, Key, KeyRange, Write};
use std::ops::Bound;

/// The longest key. Keys have at least one byte.
pub const MAX_KEY_BYTES: usize = 65_535;

/// The most that one commit may write, keys and values together.
pub const MAX_COMMIT_BYTES: usize = 64 << 20;

/// Whether a key has a valid length.
pub fn is_valid_key(key: &[u8]) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
}

/// Refuses a commit that breaks a limit.
pub fn check(guards: &[Key], writes: &[Write]) -> Result<(), EngineError> {
    let mut bytes = 0;
    for key in guards.iter().chain(writes.iter().map(Write::key)) {
        if !is_valid_key(key) {
            return Err(EngineError::Failed(format!("a key has 1 to {MAX_KEY_BYTES} bytes: {}", key.len())));
        }
    }
    for write in writes {
        bytes += write.key().len();
        if let Write::Put(_, value) = write {
            bytes += value.len();
        }
    }
    if bytes > MAX_COMMIT_BYTES {
        return Err(EngineError::Failed(format!(
            "a commit writes at most {MAX_COMMIT_BYTES} bytes: {bytes}"
        )));
    }
    Ok(())
}

/// The bounds of a range of keys.
pub type ScanBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The range as bounds of valid length; `None` if it is empty.
pub fn bounds(range: &KeyRange) -> Option<ScanBounds<'_>> {
    if range.start >= range.end {
        return None;
    }
    // No key is longer, so a longer bound can be cut.
    let start = match range.start.get(..MAX_KEY_BYTES) {
        Some(cut) if range.start.len() > MAX_KEY_BYTES => Bound::Excluded(cut),
        _ => Bound::Included(&range.start[..]),
    };
    let end = match range.end.get(..MAX_KEY_BYTES) {
        Some(cut) if range.end.len() > MAX_KEY_BYTES => Bound::Included(cut),
        _ => Bound::Excluded(&range.end[..]),
    };
    Some((start, end))
}
