//! A buffer that is aligned in memory as direct I/O requires.

use crate::extents::frame::SECTOR_BYTES;
use std::ops::{Deref, DerefMut};

pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
    /// Where they begin.
    start: usize,
    /// The capacity, once more than the first bytes come.
    full: usize,
}

impl AlignedBuffer {
    /// For few bytes that come at once, or up to `full` of them.
    pub(crate) fn new(full: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, full }
    }

    /// Makes room for so many bytes in all.
    fn reserve(&mut self, length: usize) {
        if length <= self.bytes.capacity().saturating_sub(self.start) && self.bytes.capacity() > 0 {
            return;
        }
        let room =
            if self.is_empty() { length.next_multiple_of(SECTOR_BYTES) } else { length.max(self.full) };
        let mut bytes: Vec<u8> = Vec::with_capacity(room + SECTOR_BYTES);
        let start = bytes.as_ptr().align_offset(SECTOR_BYTES);
        bytes.resize(start, 0);
        bytes.extend_from_slice(self);
        (self.bytes, self.start) = (bytes, start);
    }

    /// Appends pieces, one after the other.
    pub(crate) fn extend(&mut self, pieces: [&[u8]; 2]) {
        self.reserve(self.len() + pieces[0].len() + pieces[1].len());
        pieces.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
    }

    /// Adds zeros up to this length.
    pub(crate) fn pad(&mut self, length: usize) {
        self.reserve(length);
        self.bytes.resize(self.start + length, 0);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}
