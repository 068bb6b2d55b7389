//! Data blocks: a few rows each, in key order. The unit of reading from a table.
//!
//! ```text
//! rows       length of the key: u16, length of the value: u32 (TOMBSTONE: there is none), key, value
//! starts     the offset of each row in the block: u32
//! count      how many rows: u32
//! checksum   of all before it: u64
//! ```
//!
//! Numbers are little endian. The checksum also covers the table's id and the offset, so that a block that was written
//! to or read from the wrong place does not pass.

use std::cmp::Ordering;
use std::ops::Range;
use twox_hash::XxHash3_64;

const ROW_HEADER: usize = 6;
const TOMBSTONE: u32 = u32::MAX;
const COUNT_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 8;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockAddress {
    pub(super) table: u64,
    pub(super) offset: u64,
}

impl BlockAddress {
    pub(super) fn checksum(self, bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot(bytes) ^ self.table.rotate_left(40) ^ self.offset
    }
}

/// Collects the rows of a block.
#[derive(Default)]
pub(super) struct DataBlockWriter {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl DataBlockWriter {
    /// Rows must come in key order.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        // Keys and commits are limited in size: the lengths fit.
        self.starts.push(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
        let length = value.map_or(TOMBSTONE, |value| value.len() as u32);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The length of the block so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + self.starts.len() * 4 + COUNT_BYTES + CHECKSUM_BYTES
    }

    /// Appends the block to `out`, and starts a new one.
    pub(super) fn finish(&mut self, address: BlockAddress, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        self.starts.iter().for_each(|start| out.extend_from_slice(&start.to_le_bytes()));
        out.extend_from_slice(&(self.starts.len() as u32).to_le_bytes());
        out.extend_from_slice(&address.checksum(&out[begin..]).to_le_bytes());
        self.bytes.clear();
        self.starts.clear();
    }
}

/// A block that passed its checksum: a part of a buffer, which is passed to each call.
#[derive(Debug, Clone, Default)]
pub(super) struct DataBlock {
    begin: usize,
    /// Where in the buffer the row offsets are.
    starts: usize,
    count: usize,
}

/// Where in the buffer a row is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RowSpan {
    pub(super) key: Range<usize>,
    /// `None`: a tombstone.
    pub(super) value: Option<Range<usize>>,
}

impl DataBlock {
    /// Verifies the block in this part of a buffer. `None`: damaged.
    pub(super) fn check(buffer: &[u8], part: Range<usize>, address: BlockAddress) -> Option<Self> {
        let end = part.end.checked_sub(CHECKSUM_BYTES)?;
        let checksum = u64::from_le_bytes(buffer.get(end..part.end)?.try_into().ok()?);
        if address.checksum(buffer.get(part.start..end)?) != checksum {
            return None;
        }
        let end = end.checked_sub(COUNT_BYTES)?;
        let count = read_u32(buffer, end)? as usize;
        let starts = end.checked_sub(count.checked_mul(4)?)?;
        (starts >= part.start).then_some(Self { begin: part.start, starts, count })
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn row(&self, buffer: &[u8], index: usize) -> Option<RowSpan> {
        if index >= self.count {
            return None;
        }
        let head = self.begin.checked_add(read_u32(buffer, self.starts + index * 4)? as usize)?;
        let head_bytes: [u8; ROW_HEADER] =
            buffer.get(head..head.checked_add(ROW_HEADER)?)?.try_into().ok()?;
        let [a, b, c, d, e, f] = head_bytes;
        let key = head + ROW_HEADER..head + ROW_HEADER + usize::from(u16::from_le_bytes([a, b]));
        let length = u32::from_le_bytes([c, d, e, f]);
        let value = (length != TOMBSTONE).then(|| key.end..key.end + length as usize);
        let end = value.as_ref().map_or(key.end, |value| value.end);
        (end <= self.starts).then_some(RowSpan { key, value })
    }

    /// The first row whose key is not before `key`; the number of rows if there is none.
    pub(super) fn find(&self, buffer: &[u8], key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match buffer.get(self.row(buffer, middle)?.key)?.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        Some(low)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const ADDRESS: BlockAddress = BlockAddress { table: 7, offset: 4711 };

    proptest! {
        #[test]
        fn rows_are_read_back_and_damage_is_noticed(
            rows in prop::collection::btree_map(prop::collection::vec(0u8..4, 1..5),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 1..20),
            before in 0usize..9,
            flip in any::<prop::sample::Index>(),
            probe in prop::collection::vec(0u8..5, 0..6),
        ) {
            let rows: BTreeMap<Vec<u8>, Option<Vec<u8>>> = rows;
            let mut writer = DataBlockWriter::default();
            rows.iter().for_each(|(key, value)| writer.push(key, value.as_deref()));
            let (length, mut buffer) = (writer.len(), vec![1; before]);
            writer.finish(ADDRESS, &mut buffer);
            prop_assert!(writer.is_empty());
            let part = before..buffer.len();
            prop_assert_eq!(part.len(), length);
            let block = DataBlock::check(&buffer, part.clone(), ADDRESS).expect("it is as it was written");
            prop_assert_eq!(block.count(), rows.len());
            for (index, (key, value)) in rows.iter().enumerate() {
                let row = block.row(&buffer, index).expect("there is a row");
                prop_assert_eq!(&buffer[row.key], &key[..]);
                prop_assert_eq!(row.value.map(|value| &buffer[value]), value.as_deref());
                prop_assert_eq!(block.find(&buffer, key), Some(index));
            }
            prop_assert_eq!(block.find(&buffer, &probe), Some(rows.range(..probe).count()));
            prop_assert_eq!(block.row(&buffer, rows.len()), None);

            let elsewhere = BlockAddress { offset: 4712, ..ADDRESS };
            prop_assert!(DataBlock::check(&buffer, part.clone(), elsewhere).is_none());
            let at = before + flip.index(part.len());
            buffer[at] ^= 0x40;
            prop_assert!(DataBlock::check(&buffer, part, ADDRESS).is_none());
        }

        #[test]
        fn foreign_bytes_do_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let sum = ADDRESS.checksum(&bytes).to_le_bytes();
            bytes.extend(sum);
            if let Some(block) = DataBlock::check(&bytes, 0..bytes.len(), ADDRESS) {
                for index in 0..block.count().min(100) {
                    let _ = block.row(&bytes, index);
                }
                let _ = block.find(&bytes, b"key");
            }
        }
    }
}
