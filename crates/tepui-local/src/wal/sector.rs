//! Sectors: the units of the log that a disk writes atomically.
//!
//! ```text
//! checksum of the rest: u64, segment: u64, group: u32, sectors of the group that follow: u32, content
//! ```
//!
//! Each has its own checksum and header. So after a crash a sector that was not written (empty, or from the file's earlier use)
//! is told from one that was damaged later.

use twox_hash::XxHash3_64;

pub(super) const SECTOR: usize = 512;
const HEAD: usize = 24;
const CONTENT: usize = SECTOR - HEAD;

/// Groups are aligned to this: durable bytes are never rewritten together with new ones.
pub(super) const PAGE: usize = 4096;

/// What a sector belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SectorHeader {
    pub(super) segment: u64,
    /// Counted from 0 in each segment.
    pub(super) group: u32,
    /// How many sectors of the group follow.
    pub(super) left: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sector {
    /// Nothing but zeros.
    Empty,
    Written(SectorHeader),
    Damaged,
}

/// Classifies a sector. `bytes` has the length of one.
pub(super) fn inspect(bytes: &[u8]) -> Sector {
    let (checksum, rest) = bytes.split_at(8);
    if checksum == XxHash3_64::oneshot(rest).to_le_bytes() {
        let (segment, group, left) = (number(&rest[..8]), number(&rest[8..12]), number(&rest[12..16]));
        return Sector::Written(SectorHeader { segment, group: group as u32, left: left as u32 });
    }
    if bytes.iter().all(|byte| *byte == 0) { Sector::Empty } else { Sector::Damaged }
}

/// The content of a sector. `bytes` has the length of one.
pub(super) fn content(bytes: &[u8]) -> &[u8] {
    &bytes[HEAD..]
}

/// Little-endian bytes, at most eight.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Cuts the content of a group into sectors, aligned in memory as direct I/O requires.
#[derive(Default)]
pub(super) struct GroupBuffer {
    bytes: Vec<u8>,
    /// Where the sectors begin.
    start: usize,
}

/// The buffer shrinks to this after a larger group.
const MAX_RETAINED_BYTES: usize = 8 << 20;

impl GroupBuffer {
    /// Starts a new group.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(MAX_RETAINED_BYTES);
        self.bytes.reserve(2 * PAGE);
        self.start = self.bytes.as_ptr().align_offset(PAGE);
        self.bytes.resize(self.start, 0);
    }

    pub(super) fn put(&mut self, mut content: &[u8]) {
        while !content.is_empty() {
            let used = (self.bytes.len() - self.start) % SECTOR;
            let room = if used == 0 {
                self.bytes.extend_from_slice(&[0; HEAD]);
                CONTENT
            } else {
                SECTOR - used
            };
            let (now, later) = content.split_at(room.min(content.len()));
            self.bytes.extend_from_slice(now);
            content = later;
        }
    }

    /// The group as it is written: whole pages.
    pub(super) fn finish(&mut self, segment: u64, group: u32) -> &[u8] {
        let length = (self.bytes.len() - self.start).next_multiple_of(SECTOR);
        self.bytes.resize(self.start + length.next_multiple_of(PAGE), 0);
        self.align();
        let sectors = length / SECTOR;
        for (index, sector) in self.bytes[self.start..][..length].chunks_exact_mut(SECTOR).enumerate() {
            let left = (sectors - index - 1) as u32;
            sector[8..16].copy_from_slice(&segment.to_le_bytes());
            sector[16..20].copy_from_slice(&group.to_le_bytes());
            sector[20..24].copy_from_slice(&left.to_le_bytes());
            let checksum = XxHash3_64::oneshot(&sector[8..]).to_le_bytes();
            sector[..8].copy_from_slice(&checksum);
        }
        &self.bytes[self.start..]
    }

    /// Restores the alignment: growing may have moved the bytes.
    fn align(&mut self) {
        let length = self.bytes.len() - self.start;
        self.bytes.reserve(PAGE);
        let start = self.bytes.as_ptr().align_offset(PAGE);
        if start != self.start {
            self.bytes.resize(self.start.max(start) + length, 0);
            self.bytes.copy_within(self.start..self.start + length, start);
            self.bytes.truncate(start + length);
            self.start = start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sectors_say_what_they_are(content in prop::collection::vec(any::<u8>(), 1..20000), flip in any::<u16>()) {
            let mut group = GroupBuffer::default();
            group.clear();
            group.put(&content[..content.len() / 2]);
            group.put(&content[content.len() / 2..]);
            let bytes = group.finish(7, 3);
            prop_assert_eq!((bytes.as_ptr().align_offset(PAGE), bytes.len() % PAGE), (0, 0));
            let mut bytes = bytes.to_vec();
            let sectors = content.len().div_ceil(CONTENT);
            let mut read = Vec::new();
            for (index, sector) in bytes.chunks_exact(SECTOR).enumerate() {
                if index < sectors {
                    let left = (sectors - index - 1) as u32;
                    prop_assert_eq!(inspect(sector), Sector::Written(SectorHeader { segment: 7, group: 3, left }));
                    read.extend_from_slice(super::content(sector));
                } else {
                    prop_assert_eq!(inspect(sector), Sector::Empty);
                }
            }
            prop_assert_eq!(&read[..content.len()], &content[..]);
            let place = usize::from(flip) % bytes.len();
            bytes[place] ^= 0x10;
            let sector = &bytes[place / SECTOR * SECTOR..][..SECTOR];
            prop_assert_eq!(inspect(sector), Sector::Damaged);
        }
    }
}
