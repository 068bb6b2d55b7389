//! Bytes that begin at a multiple of a sector in memory: writing past the page cache asks for that.

use crate::frame::SECTOR;
use std::ops::{Deref, DerefMut};

pub(crate) struct Aligned {
    bytes: Vec<u8>,
    /// Where they begin.
    start: usize,
    /// How many there will be, if there are more than come at first.
    full: usize,
}

impl Aligned {
    /// For few bytes that come at once, or else for `full` of them.
    pub(crate) fn new(full: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, full }
    }

    /// Makes room for so many bytes in all.
    fn reserve(&mut self, length: usize) {
        if length <= self.bytes.capacity().saturating_sub(self.start) && self.bytes.capacity() > 0 {
            return;
        }
        let room = if self.is_empty() { length.next_multiple_of(SECTOR) } else { length.max(self.full) };
        let mut bytes: Vec<u8> = Vec::with_capacity(room + SECTOR);
        let start = bytes.as_ptr().align_offset(SECTOR);
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

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}
