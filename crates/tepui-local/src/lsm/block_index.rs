//! The index of a table: which block a key is in.
//!
//! It has one fence key for each block: not after the first key of the block, and after every key of the block before
//! it. The shortest such key is taken.

use super::levels::LostRange;
use super::sorted_table::TableMeta;
use crate::byte_reader::ByteReader;
use tepui_storage::Key;

/// Which block a key is in, and where the blocks are. Searchable once it was read back.
#[derive(Default)]
pub(super) struct BlockIndex {
    /// All fences, one after the other. The first is empty.
    fences: Vec<u8>,
    /// Where each fence ends.
    fence_ends: Vec<u32>,
    /// Where each block ends in the file.
    block_ends: Vec<u64>,
    /// The length of the common prefix of all fences but the first.
    shared: usize,
    /// The eight bytes after it, of each fence but the first: most searches end here.
    heads: Vec<u64>,
}

impl BlockIndex {
    /// Adds a block that ends at `end`; `last` is the last key of the block before it, if there is one.
    pub(super) fn push(&mut self, last: Option<&[u8]>, first: &[u8], end: u64) {
        let fence = last.map_or(0, |last| (shared(last, first) + 1).min(first.len()));
        self.push_fence(&first[..fence], end);
    }

    fn push_fence(&mut self, fence: &[u8], end: u64) {
        self.fences.extend_from_slice(fence);
        self.fence_ends.push(self.fences.len() as u32);
        self.block_ends.push(end);
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.block_ends.len()
    }

    /// The only block that can hold the key.
    pub(super) fn block_of(&self, key: &[u8]) -> usize {
        if self.len() < 2 {
            return 0;
        }
        let shared = &self.fence(1)[..self.shared];
        let Some(rest) = key.strip_prefix(shared) else {
            return if key < shared { 0 } else { self.len() - 1 };
        };
        let head = head(rest);
        let mut low = self.heads.partition_point(|other| *other < head);
        let mut high = low;
        if self.heads.get(low) == Some(&head) {
            high += self.heads[low..].partition_point(|other| *other == head);
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.fence(middle + 1) <= key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Where a block begins and ends in the file.
    pub(super) fn block_range(&self, block: usize) -> (u64, u64) {
        let begin = block.checked_sub(1).map_or(0, |before| self.block_ends[before]);
        (begin, self.block_ends[block])
    }

    /// The keys that a block may hold.
    pub(super) fn range(&self, block: usize, table: &TableMeta) -> LostRange {
        let start = if block == 0 { table.first.clone() } else { Key::copy_from_slice(self.fence(block)) };
        match block + 1 < self.len() {
            true => LostRange { start, end: Key::copy_from_slice(self.fence(block + 1)) },
            false => LostRange::up_to(start, &table.last),
        }
    }

    /// How many blocks from `block` on can be read at once without reading more than `bytes`; at least one.
    pub(super) fn blocks_in(&self, block: usize, bytes: u64) -> usize {
        let (begin, _) = self.block_range(block);
        self.block_ends[block..].partition_point(|end| end - begin <= bytes).max(1)
    }

    fn fence(&self, block: usize) -> &[u8] {
        let begin = block.checked_sub(1).map_or(0, |before| self.fence_ends[before]);
        &self.fences[begin as usize..self.fence_ends[block] as usize]
    }

    /// ```text
    /// count: u32, then for each block
    /// where it ends: u64, length of the fence: u16, fence
    /// ```
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u32).to_le_bytes());
        for (block, end) in self.block_ends.iter().enumerate() {
            let fence = self.fence(block);
            out.extend_from_slice(&end.to_le_bytes());
            out.extend_from_slice(&(fence.len() as u16).to_le_bytes());
            out.extend_from_slice(fence);
        }
    }

    /// Reads what [`BlockIndex::write`] wrote. `None`: it is something else.
    pub(super) fn read(bytes: &mut ByteReader<'_>) -> Option<Self> {
        let mut index = Self::default();
        for _ in 0..bytes.u32()? {
            let end = bytes.u64()?;
            if index.block_ends.last().is_some_and(|before| *before >= end) {
                return None;
            }
            let fence = bytes.u16()?;
            index.push_fence(bytes.take(usize::from(fence))?, end);
        }
        index.fences.shrink_to_fit();
        index.fence_ends.shrink_to_fit();
        index.block_ends.shrink_to_fit();
        if index.len() == 0 || !index.fence(0).is_empty() {
            return None;
        }
        if index.len() > 1 {
            index.shared = shared(index.fence(1), index.fence(index.len() - 1));
            let head = |block| head(index.fence(block).get(index.shared..).unwrap_or_default());
            index.heads = (1..index.len()).map(head).collect();
        }
        index.heads.is_sorted().then_some(index)
    }
}

/// How many bytes both begin with.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first eight bytes, so that numbers compare as bytes do, or are equal.
fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let count = bytes.len().min(8);
    head[..count].copy_from_slice(&bytes[..count]);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// With much in common, longer than a head and shorter.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        let tail = prop::collection::vec(0u8..3, 1..6);
        (prop::sample::select(vec![&b""[..], b"\x01", b"\x01\x01\x02\x02\x01\x01\x02\x02\x01"]), tail)
            .prop_map(|(begin, tail)| [begin, &tail[..]].concat())
    }

    proptest! {
        #[test]
        fn every_key_is_in_its_block(
            keys in prop::collection::btree_set(key(), 1..60),
            probe in key(),
            sizes in prop::collection::vec(1usize..5, 60),
        ) {
            let keys: Vec<Vec<u8>> = keys.into_iter().collect();
            let (mut index, mut left, mut last) = (BlockIndex::default(), &keys[..], None);
            let mut blocks = Vec::new();
            for size in sizes {
                let (block, rest) = left.split_at(size.min(left.len()));
                let [first, ..] = block else { break };
                index.push(last, first, 100 * (blocks.len() as u64 + 1));
                last = block.last().map(|key| &key[..]);
                blocks.push(block);
                left = rest;
            }
            let mut bytes = Vec::new();
            index.write(&mut bytes);
            let read = BlockIndex::read(&mut ByteReader(&bytes)).expect("it was just written");
            prop_assert_eq!(read.len(), blocks.len());
            for (number, block) in blocks.iter().enumerate() {
                prop_assert!(block.iter().all(|key| read.block_of(key) == number));
                prop_assert_eq!(read.block_range(number), (100 * number as u64, 100 * (number as u64 + 1)));
                prop_assert_eq!(read.blocks_in(number, 250), 2.min(blocks.len() - number));
                prop_assert_eq!(read.blocks_in(number, 0), 1);
            }
            // Others are between two blocks, or before or after all.
            let last = |number: usize| blocks[number].last().expect("a block has keys");
            let number = read.block_of(&probe);
            prop_assert!(number == 0 || last(number - 1) < &probe);
            prop_assert!(number + 1 == blocks.len() || probe < blocks[number + 1][0]);
        }
    }
}
