//! Frames: the pieces in which an extent is stored, each with its checksum.
//!
//! ```text
//! checksum of the rest: u64, volume: u64, offset in the volume: u64,
//! number in the extent: u32, bytes of content: u32, content, zeros up to a multiple of a sector
//! ```
//!
//! All frames of an extent but the last have the same size, so the frame of a byte is found by arithmetic.
//! Each says where it belongs, so that a misplaced one is detected.

use crate::extents::aligned_buffer::AlignedBuffer;
use bytes::{Buf, Bytes};
use std::ops::Range;
use tepui_storage::{Extent, PIECE_BYTES};
use twox_hash::XxHash3_64;

/// The size of a frame, unless it is the last one of its extent.
pub(crate) const FRAME_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 32;
pub(crate) const CONTENT_BYTES: usize = FRAME_BYTES - HEADER_BYTES;
const _: () = assert!(CONTENT_BYTES as u64 == PIECE_BYTES, "callers align their reads to frames");

/// Extents begin and end at multiples of this, so that each can be released to the file system on its own.
pub(crate) const SECTOR_BYTES: usize = 4096;

/// Where a frame belongs, and how much it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) volume: u64,
    pub(crate) offset: u64,
    /// Counted from 0 in each extent.
    pub(crate) index: u32,
    pub(crate) length: u32,
}

impl FrameHeader {
    /// The header of the frame with this index in an extent.
    fn of(extent: Extent, index: u64) -> Self {
        let length =
            extent.bytes.saturating_sub(index.saturating_mul(CONTENT_BYTES as u64)).min(CONTENT_BYTES as u64);
        Self {
            volume: extent.volume,
            offset: extent.offset.saturating_add(index.saturating_mul(FRAME_BYTES as u64)),
            index: index as u32,
            length: length as u32,
        }
    }

    fn disk_bytes(self) -> usize {
        (HEADER_BYTES + self.length as usize).next_multiple_of(SECTOR_BYTES)
    }

    fn encode(self) -> [u8; HEADER_BYTES - 8] {
        let mut bytes = [0; HEADER_BYTES - 8];
        bytes[..8].copy_from_slice(&self.volume.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.index.to_le_bytes());
        bytes[20..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    fn put(self, frame: &mut [u8]) {
        frame[8..HEADER_BYTES].copy_from_slice(&self.encode());
        let checksum = XxHash3_64::oneshot(&frame[8..]).to_le_bytes();
        frame[..8].copy_from_slice(&checksum);
    }

    fn matches(self, frame: &[u8]) -> bool {
        frame[8..HEADER_BYTES] == self.encode()
            && frame[..8] == XxHash3_64::oneshot(&frame[8..]).to_le_bytes()
    }
}

/// The range of an extent in its volume. An extent of no bytes has a frame too, and so an offset of its own.
pub(crate) fn disk_range(extent: Extent) -> Range<u64> {
    let last = FrameHeader::of(extent, extent.bytes.saturating_sub(1) / CONTENT_BYTES as u64);
    extent.offset..last.offset.saturating_add(last.disk_bytes() as u64)
}

/// Whether `bytes` begin with the frame of an extent that has this index.
pub(crate) fn is_frame_of(extent: Extent, index: u64, bytes: &[u8]) -> bool {
    let header = FrameHeader::of(extent, index);
    bytes.get(..header.disk_bytes()).is_some_and(|frame| header.matches(frame))
}

/// The frames that hold a part of an extent's content.
pub(crate) struct FrameRange {
    extent: Extent,
    /// The part of the content, not empty.
    range: Range<u64>,
    first: u64,
    last: u64,
}

impl FrameRange {
    pub(crate) fn new(extent: Extent, range: Range<u64>) -> Self {
        let (first, last) = (range.start / CONTENT_BYTES as u64, (range.end - 1) / CONTENT_BYTES as u64);
        Self { extent, range, first, last }
    }

    pub(crate) fn volume(&self) -> u64 {
        self.extent.volume
    }

    /// Their range in the volume.
    pub(crate) fn disk_range(&self) -> Range<u64> {
        let last = FrameHeader::of(self.extent, self.last);
        FrameHeader::of(self.extent, self.first).offset..last.offset.saturating_add(last.disk_bytes() as u64)
    }

    /// The content, from the bytes of [`FrameRange::disk_range`]; or the header that the first damaged frame should have.
    pub(crate) fn content(&self, bytes: &Bytes) -> Result<Vec<Bytes>, FrameHeader> {
        let mut pieces = Vec::with_capacity((self.last - self.first + 1) as usize);
        for (index, at) in (self.first..=self.last).zip((0..).step_by(FRAME_BYTES)) {
            let header = FrameHeader::of(self.extent, index);
            let frame = at..at + header.disk_bytes();
            if !header.matches(&bytes[frame.clone()]) {
                return Err(header);
            }
            let begins = index * CONTENT_BYTES as u64;
            let from = self.range.start.saturating_sub(begins) as usize;
            let to = (self.range.end - begins).min(CONTENT_BYTES as u64) as usize;
            pieces.push(bytes.slice(at + HEADER_BYTES + from..at + HEADER_BYTES + to));
        }
        Ok(pieces)
    }
}

/// Cuts content into frames.
pub(crate) struct FrameBuffer {
    bytes: AlignedBuffer,
    max_bytes: usize,
}

impl FrameBuffer {
    pub(crate) fn new(max_frames: usize) -> Self {
        Self { bytes: AlignedBuffer::new(max_frames * FRAME_BYTES), max_bytes: max_frames * FRAME_BYTES }
    }

    /// Takes as much of the content as fits.
    pub(crate) fn take(&mut self, content: &mut Bytes) {
        while !content.is_empty() && !self.is_full() {
            let used = self.bytes.len() % FRAME_BYTES;
            let head = if used == 0 { HEADER_BYTES } else { 0 };
            let count = content.len().min(FRAME_BYTES - used - head);
            self.bytes.extend([&[0; HEADER_BYTES][..head], &content[..count]]);
            content.advance(count);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() == self.max_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The frames as they are written at `offset`: the next ones of the extent that begins at `start`. Either they are full, or
    /// the extent ends with them.
    pub(crate) fn finish(&mut self, volume: u64, start: u64, offset: u64) -> &[u8] {
        if self.bytes.is_empty() {
            self.bytes.pad(HEADER_BYTES);
        }
        let last = (self.bytes.len() - 1) % FRAME_BYTES + 1 - HEADER_BYTES;
        self.bytes.pad(self.bytes.len().next_multiple_of(SECTOR_BYTES));
        let frames = self.bytes.len().div_ceil(FRAME_BYTES);
        for (number, frame) in self.bytes.chunks_mut(FRAME_BYTES).enumerate() {
            let offset = offset + (number * FRAME_BYTES) as u64;
            let index = ((offset - start) / FRAME_BYTES as u64) as u32;
            let length = if number + 1 == frames { last } else { CONTENT_BYTES } as u32;
            FrameHeader { volume, offset, index, length }.put(frame);
        }
        &self.bytes
    }

    /// The space they take on disk, at most.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.bytes.len().max(1).next_multiple_of(SECTOR_BYTES) as u64
    }

    /// How much content there is. Valid before [`FrameBuffer::finish`], which pads the last frame.
    pub(crate) fn content_bytes(&self) -> u64 {
        (self.bytes.len() - self.bytes.len().div_ceil(FRAME_BYTES) * HEADER_BYTES) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tepui_storage::StoreId;

    proptest! {
        #[test]
        fn frames_hold_the_content_and_notice_changes(
            length in prop_oneof![0..200usize, 4000..4200usize, 65_000..66_000usize, 0..400_000usize],
            from in any::<prop::sample::Index>(),
            to in any::<prop::sample::Index>(),
            flip in any::<prop::sample::Index>(),
        ) {
            let content = Bytes::from((0..length).map(|index| (index * 7 % 253) as u8).collect::<Vec<u8>>());
            let mut frames = FrameBuffer::new(8);
            let mut left = content.clone();
            frames.take(&mut left);
            prop_assert!(left.is_empty());
            prop_assert_eq!(frames.content_bytes(), length as u64);
            let extent = Extent { store: StoreId::LOCAL, volume: 3, offset: 8192, bytes: length as u64 };
            let written = Bytes::copy_from_slice(frames.finish(3, 8192, 8192));
            prop_assert_eq!(disk_range(extent), 8192..8192 + written.len() as u64);

            let (from, to) = (from.index(length + 1), to.index(length + 1));
            let (from, to) = (from.min(to), from.max(to));
            if from < to {
                let frames_read = FrameRange::new(extent, from as u64..to as u64);
                let at = (frames_read.disk_range().start - 8192) as usize..(frames_read.disk_range().end - 8192) as usize;
                let pieces = frames_read.content(&written.slice(at.clone())).expect("nothing was changed");
                prop_assert_eq!(pieces.concat(), &content[from..to]);

                let mut changed = written[at].to_vec();
                let place = flip.index(changed.len());
                changed[place] ^= 0x10;
                prop_assert!(frames_read.content(&changed.into()).is_err());
            }
        }
    }

    #[test]
    fn a_frame_from_elsewhere_is_noticed() {
        let mut frames = FrameBuffer::new(1);
        frames.take(&mut Bytes::from_static(b"content"));
        let written = Bytes::copy_from_slice(frames.finish(3, 8192, 8192));
        let right = Extent { store: StoreId::LOCAL, volume: 3, offset: 8192, bytes: 7 };
        for (case, extent, found) in [
            ("right", right, true),
            ("volume", Extent { volume: 4, ..right }, false),
            ("offset", Extent { offset: 4096, ..right }, false),
            ("length", Extent { bytes: 8, ..right }, false),
        ] {
            assert_eq!(FrameRange::new(extent, 0..7).content(&written).is_ok(), found, "{case}");
        }
    }

    #[test]
    fn an_extent_that_cannot_be_does_no_harm() {
        let extent = Extent { store: StoreId::LOCAL, volume: 1, offset: u64::MAX - 5, bytes: u64::MAX };
        assert_eq!(disk_range(extent).start, u64::MAX - 5);
        FrameRange::new(extent, 7..u64::MAX).disk_range();
    }
}
