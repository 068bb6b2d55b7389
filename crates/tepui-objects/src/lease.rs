//! Records of leases on volumes, and of volumes that were swept: a line of text with a time.

use bytes::Bytes;
use tepui_storage::StorageError;

/// A time in a record: until when a volume is leased, or when it was swept. Milliseconds since 1970, by the clock of the node
/// that wrote it.
pub(crate) fn encode(ms: u64) -> Bytes {
    format!("tepui 1 {ms}\n").into()
}

pub(crate) fn decode(record: &[u8]) -> Result<u64, StorageError> {
    let text = std::str::from_utf8(record).ok();
    let ms = text.and_then(|text| text.strip_prefix("tepui 1 ")?.strip_suffix('\n')?.parse().ok());
    ms.ok_or_else(|| StorageError::corrupt(format!("not the record of a volume: {}", record.escape_ascii())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back_and_nothing_else_is_one() {
        assert_eq!(decode(&encode(1_795_000_000_123)), Ok(1_795_000_000_123));
        for foreign in ["", "tepui 1 12", "tepui 2 12\n", "tepui 1 x\n", "tepui 1 12\n\n"] {
            assert!(decode(foreign.as_bytes()).is_err(), "{foreign:?}");
        }
    }
}
