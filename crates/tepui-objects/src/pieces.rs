//! How an extent is stored in its object: in pieces, each followed by its checksum.
//!
//! ```text
//! content of a piece, PIECE_BYTES or less in the last one; checksum: u64
//! ```
//!
//! All pieces but the last have the same size, so the piece of a byte is found by arithmetic, and a range of content is one range
//! of the object. The checksum also covers where the piece belongs and whether it is the last one, so that objects which were
//! exchanged, cut or moved are detected.

use bytes::{Bytes, BytesMut};
use std::ops::Range;
use tepui_storage::{Extent, PIECE_BYTES};
use twox_hash::XxHash3_64;

const CHECKSUM_BYTES: u64 = 8;
const STORED_PIECE_BYTES: u64 = PIECE_BYTES + CHECKSUM_BYTES;

/// An extent without its length, which is known when it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) store: u64,
    pub(crate) volume: u64,
    pub(crate) offset: u64,
}

impl Place {
    pub(crate) fn of(extent: Extent) -> Self {
        Self { store: extent.store.0, volume: extent.volume, offset: extent.offset }
    }

    fn checksum(self, index: u64, is_last: bool, content: &[u8]) -> [u8; 8] {
        let mut place = [0; 33];
        let numbers = [self.store, self.volume, self.offset, index];
        for (field, number) in place.chunks_mut(8).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        place[32] = u8::from(is_last);
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&place), content).to_le_bytes()
    }
}

/// How many pieces an extent has. One of no bytes has a piece, too.
fn count(bytes: u64) -> u64 {
    bytes.div_ceil(PIECE_BYTES).max(1)
}

/// The size of the object of an extent.
pub(crate) fn stored_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(count(bytes).saturating_mul(CHECKSUM_BYTES))
}

/// Cuts content into pieces.
pub(crate) struct PieceWriter {
    place: Place,
    index: u64,
    /// Content of the piece that is not full yet, or that may be the last.
    piece: BytesMut,
    /// Pieces with their checksums.
    stored: Vec<Bytes>,
    stored_bytes: usize,
}

impl PieceWriter {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, index: 0, piece: BytesMut::new(), stored: Vec::new(), stored_bytes: 0 }
    }

    pub(crate) fn push(&mut self, mut content: Bytes) {
        while !content.is_empty() {
            if self.piece.len() as u64 == PIECE_BYTES {
                self.end_piece(false);
            }
            let part = content.split_to(content.len().min(PIECE_BYTES as usize - self.piece.len()));
            if self.piece.is_empty() {
                // The whole piece at once if there is more of it, so that it does not grow step by step.
                let expected = if content.is_empty() { part.len() } else { PIECE_BYTES as usize };
                self.piece.reserve(expected + CHECKSUM_BYTES as usize);
            }
            self.piece.extend_from_slice(&part);
        }
    }

    fn end_piece(&mut self, is_last: bool) {
        let checksum = self.place.checksum(self.index, is_last, &self.piece);
        self.piece.extend_from_slice(&checksum);
        self.stored_bytes += self.piece.len();
        self.stored.push(std::mem::take(&mut self.piece).freeze());
        self.index += 1;
    }

    /// How many bytes of whole pieces wait to be taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// The pieces since the last call, up to exactly so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) -> Vec<Bytes> {
        let (mut taken, mut left) = (Vec::new(), bytes.min(self.stored_bytes));
        self.stored_bytes -= left;
        let mut rest = std::mem::take(&mut self.stored).into_iter();
        for mut piece in rest.by_ref() {
            if left >= piece.len() {
                left -= piece.len();
                taken.push(piece);
                continue;
            }
            if left > 0 {
                taken.push(piece.split_to(left));
            }
            self.stored.push(piece);
            break;
        }
        self.stored.extend(rest);
        taken
    }

    /// All that is left.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        self.end_piece(true);
        self.stored
    }
}

/// The pieces that hold a range of an extent's content, which is not empty.
pub(crate) struct PieceRange {
    extent: Extent,
    range: Range<u64>,
    first: u64,
    last: u64,
}

impl PieceRange {
    pub(crate) fn new(extent: Extent, range: Range<u64>) -> Self {
        let (first, last) = (range.start / PIECE_BYTES, range.end.saturating_sub(1) / PIECE_BYTES);
        Self { extent, range, first, last }
    }

    /// Their range in the object.
    pub(crate) fn stored(&self) -> Range<u64> {
        let end = (self.last + 1).saturating_mul(STORED_PIECE_BYTES);
        self.first * STORED_PIECE_BYTES..end.min(stored_bytes(self.extent.bytes))
    }

    /// The content, from the bytes of [`PieceRange::stored`]. `Err`: the number of the first damaged piece.
    pub(crate) fn content(&self, mut stored: Bytes) -> Result<Vec<Bytes>, u64> {
        let (place, pieces) = (Place::of(self.extent), count(self.extent.bytes));
        let mut found = Vec::with_capacity((self.last - self.first + 1) as usize);
        for index in self.first..=self.last {
            let begins = index * PIECE_BYTES;
            let length = self.extent.bytes.saturating_sub(begins).min(PIECE_BYTES);
            if (stored.len() as u64) < length + CHECKSUM_BYTES {
                return Err(index);
            }
            let piece = stored.split_to(length as usize);
            let checksum = stored.split_to(CHECKSUM_BYTES as usize);
            if place.checksum(index, index + 1 == pieces, &piece) != checksum[..] {
                return Err(index);
            }
            let from = self.range.start.saturating_sub(begins).min(length);
            let to = self.range.end.saturating_sub(begins).min(length);
            found.push(piece.slice(from as usize..to as usize));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tepui_storage::StoreId;

    const PLACE: Place = Place { store: 3, volume: 5, offset: 7 };

    fn extent(bytes: u64) -> Extent {
        Extent { store: StoreId(3), volume: 5, offset: 7, bytes }
    }

    fn content(bytes: usize) -> Bytes {
        (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect()
    }

    fn stored(content: &Bytes, at_once: usize) -> Bytes {
        let mut writer = PieceWriter::new(PLACE);
        content.chunks(at_once).for_each(|part| writer.push(content.slice_ref(part)));
        writer.finish().concat().into()
    }

    #[test]
    fn any_range_is_found_in_few_bytes() {
        const P: usize = PIECE_BYTES as usize;
        for bytes in [0, 1, P - 1, P, P + 1, 3 * P, 3 * P + 5] {
            let content = content(bytes);
            let object = stored(&content, 1000);
            assert_eq!(object.len() as u64, stored_bytes(bytes as u64));
            for (from, to) in [(0, bytes), (0, 1), (P - 1, P + 1), (P, 2 * P), (2 * P + 3, 2 * P + 4)] {
                let (from, to) = (from.min(bytes), to.min(bytes));
                if from == to {
                    continue;
                }
                let range = PieceRange::new(extent(bytes as u64), from as u64..to as u64);
                let part = range.stored();
                let part = object.slice(part.start as usize..part.end as usize);
                assert!(part.len() <= to - from + 2 * STORED_PIECE_BYTES as usize);
                assert!(range.content(part).unwrap().concat() == content[from..to], "{bytes} {from} {to}");
            }
        }
    }

    #[test]
    fn what_is_not_what_was_written_is_detected() {
        let bytes = 2 * PIECE_BYTES + 5;
        let object = stored(&content(bytes as usize), 70_000);
        let whole = |extent: Extent, object: &Bytes| {
            let range = PieceRange::new(extent, 0..extent.bytes);
            range.content(object.slice(..(range.stored().end as usize).min(object.len()))).map(drop)
        };
        let extent = extent(bytes);
        assert_eq!(whole(extent, &object), Ok(()));
        for (case, other, damaged) in [
            ("another store", Extent { store: StoreId(4), ..extent }, 0),
            ("another volume", Extent { volume: 6, ..extent }, 0),
            ("another offset", Extent { offset: 8, ..extent }, 0),
            ("shorter by whole pieces", Extent { bytes: 2 * PIECE_BYTES, ..extent }, 1),
            ("shorter", Extent { bytes: bytes - 1, ..extent }, 2),
            ("longer", Extent { bytes: bytes + 1, ..extent }, 2),
        ] {
            assert_eq!(whole(other, &object), Err(damaged), "{case}");
        }
        for (at, damaged) in [(0, 0), (PIECE_BYTES, 0), (STORED_PIECE_BYTES, 1), (object.len() as u64 - 1, 2)]
        {
            let mut flipped = object.to_vec();
            flipped[at as usize] ^= 0x10;
            assert_eq!(whole(extent, &flipped.into()), Err(damaged), "{at}");
        }
        // Pieces that were exchanged.
        let (first, second) = (0..STORED_PIECE_BYTES as usize, STORED_PIECE_BYTES as usize);
        let mut exchanged = object.to_vec();
        exchanged.copy_within(first, second);
        assert_eq!(whole(extent, &exchanged.into()), Err(1));
    }

    proptest! {
        #[test]
        fn parts_are_the_object(bytes in 0..400_000usize, at_once in 1..200_000usize, part in 1..150_000usize) {
            let content = content(bytes);
            let mut writer = PieceWriter::new(PLACE);
            let mut parts = Vec::new();
            for chunk in content.chunks(at_once) {
                writer.push(content.slice_ref(chunk));
                while writer.waiting_bytes() >= part {
                    let taken = writer.take(part).concat();
                    prop_assert_eq!(taken.len(), part);
                    parts.extend(taken);
                }
            }
            parts.extend(writer.finish().concat());
            prop_assert!(parts == stored(&content, 1_000_000));
        }
    }
}
