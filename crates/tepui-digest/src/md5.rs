//! MD5, of several streams at once.
//!
//! Every step of MD5 depends on the one before, so that most execution units of a core are idle. Different streams are
//! independent: [`Md5Lanes`] computes four of them with SIMD in little more time than one.

mod block;

use block::{Block, State};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use wide::u32x4;

const BLOCK: usize = block::BYTES;

/// The number of SIMD lanes.
pub const LANES: usize = 4;

/// The MD5 of a stream.
///
/// ```
/// use tepui_digest::Md5;
/// let mut sum = Md5::new();
/// sum.update(b"Hello ");
/// sum.update(b"World");
/// assert_eq!(sum.finish()[..4], [0xb1, 0x0a, 0x8d, 0xb1]);
/// ```
#[derive(Debug, Clone)]
pub struct Md5 {
    state: State<u32>,
    /// The bytes of an incomplete block.
    partial_block: [u8; BLOCK],
    /// All bytes so far.
    bytes: u64,
}

impl Md5 {
    pub fn new() -> Self {
        Self { state: block::START, partial_block: [0; BLOCK], bytes: 0 }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        let partial = self.partial_bytes();
        if partial > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - partial));
            self.partial_block[partial..][..now.len()].copy_from_slice(now);
            self.bytes += now.len() as u64;
            bytes = later;
            if self.partial_bytes() > 0 {
                return;
            }
            self.state = block::add(self.state, block::words(&self.partial_block), &block::CONSTANTS);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for whole in blocks {
            self.state = block::add(self.state, block::words(whole), &block::CONSTANTS);
        }
        self.partial_block[..rest.len()].copy_from_slice(rest);
        self.bytes += bytes.len() as u64;
    }

    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.bytes.wrapping_mul(8).to_le_bytes();
        // A one, zeros as long as needed, and the length at the end of a block.
        let mut end = [0; 2 * BLOCK];
        end[0] = 0x80;
        let zeros = (2 * BLOCK - 9 - self.partial_bytes()) % BLOCK;
        end[1 + zeros..][..8].copy_from_slice(&bits);
        self.update(&end[..1 + zeros + 8]);
        let mut sum = [0; 16];
        for (bytes, word) in sum.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        sum
    }

    fn partial_bytes(&self) -> usize {
        (self.bytes % BLOCK as u64) as usize
    }
}

impl Default for Md5 {
    fn default() -> Self {
        Self::new()
    }
}

/// A stream, and the next bytes of it.
#[derive(Debug)]
pub struct Md5Lane<T> {
    pub sum: Md5,
    pub pieces: VecDeque<Bytes>,
    /// The stream.
    pub owner: T,
}

impl<T> Md5Lane<T> {
    /// Processes bytes alone until the first piece starts with a whole block. Returns the number of whole blocks, `None` if
    /// nothing is left.
    fn align(&mut self) -> Option<usize> {
        loop {
            let first = self.pieces.front_mut()?;
            let partial = self.sum.partial_bytes();
            let unaligned = if partial > 0 { BLOCK - partial } else { 0 };
            let alone = if first.len() < unaligned + BLOCK { first.len() } else { unaligned };
            if alone == 0 && !first.is_empty() {
                return Some(first.len() / BLOCK);
            }
            self.sum.update(&first.split_to(alone));
            if first.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// The whole blocks of its first piece.
    fn blocks(&self) -> &[Block] {
        self.pieces.front().map_or(&[], |first| first.as_chunks::<BLOCK>().0)
    }

    fn advance(&mut self, blocks: usize) {
        if let Some(first) = self.pieces.front_mut() {
            first.advance(blocks * BLOCK);
            self.sum.bytes += (blocks * BLOCK) as u64;
        }
    }
}

/// Computes the MD5 of several streams at once.
#[derive(Debug)]
pub struct Md5Lanes<T> {
    lanes: Vec<Md5Lane<T>>,
}

impl<T> Md5Lanes<T> {
    pub fn new() -> Self {
        Self { lanes: Vec::with_capacity(LANES) }
    }

    pub fn is_full(&self) -> bool {
        self.lanes.len() == LANES
    }

    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Adds a stream. Must not be full.
    pub fn add(&mut self, lane: Md5Lane<T>) {
        self.lanes.push(lane);
    }

    /// Runs until all bytes of one stream are processed, and returns it. `None` if there is no stream, or after
    /// `max_bytes` of each.
    pub fn run(&mut self, max_bytes: usize) -> Option<Md5Lane<T>> {
        let mut blocks_left = max_bytes.div_ceil(BLOCK);
        while blocks_left > 0 {
            let mut blocks = blocks_left;
            for at in 0..self.lanes.len() {
                match self.lanes[at].align() {
                    Some(whole) => blocks = blocks.min(whole),
                    None => return Some(self.lanes.swap_remove(at)),
                }
            }
            match &mut self.lanes[..] {
                [] => return None,
                [lane] => {
                    // One stream gains nothing from SIMD.
                    let first = lane.pieces.front_mut()?;
                    lane.sum.update(&first.split_to(blocks * BLOCK));
                }
                several => update_lanes(several, blocks),
            }
            blocks_left -= blocks;
        }
        None
    }
}

impl<T> Default for Md5Lanes<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// [`block::CONSTANTS`] for each lane.
static LANE_CONSTANTS: [u32x4; 64] = {
    let mut lanes = [u32x4::ZERO; 64];
    let mut index = 0;
    while index < 64 {
        lanes[index] = u32x4::new([block::CONSTANTS[index]; LANES]);
        index += 1;
    }
    lanes
};

/// Processes the same number of blocks of each stream. Unused lanes repeat the first stream.
fn update_lanes<T>(lanes: &mut [Md5Lane<T>], blocks: usize) {
    let four: [&Md5Lane<T>; LANES] = std::array::from_fn(|lane| lanes.get(lane).unwrap_or(&lanes[0]));
    let mut state: State<u32x4> =
        std::array::from_fn(|word| u32x4::new(four.map(|lane| lane.sum.state[word])));
    // Hidden from the compiler, which would add them last, on the critical path: an eighth of the time.
    let constants = std::hint::black_box(&LANE_CONSTANTS);
    let streams = four.map(|lane| &lane.blocks()[..blocks]);
    for index in 0..blocks {
        // Transpose four words of each stream to four vectors of one word of each.
        let of_lanes = streams.map(|blocks| block::words(&blocks[index]));
        let mut words = [u32x4::ZERO; 16];
        for (quarter, words) in words.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            *words = u32x4::transpose(of_lanes.map(|of| u32x4::new(of.as_chunks::<LANES>().0[quarter])));
        }
        state = block::add(state, words, constants);
    }
    let state = state.map(u32x4::to_array);
    for (at, lane) in lanes.iter_mut().enumerate() {
        lane.sum.state = std::array::from_fn(|word| state[word][at]);
        lane.advance(blocks);
    }
}

#[cfg(test)]
#[path = "md5/tests.rs"]
mod tests;
