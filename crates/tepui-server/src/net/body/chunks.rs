//! A [`Buf`] of several pieces, written to the socket with one vectored write.

use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Pieces of a reply that are written together.
#[derive(Debug, Default)]
pub struct Chunks {
    /// Empty only at the end.
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// The share of the memory budget of replies. Hyper queues the pieces until the client reads them, and may drop the
    /// body long before that.
    pub(super) memory: Option<Arc<OwnedSemaphorePermit>>,
    /// Travels with the last pieces.
    pub(super) end: Option<ReplyEnd>,
}

/// Calls back when the last byte of a reply is on the socket, or the reply is given up, with the bytes that were sent.
pub(super) struct ReplyEnd {
    pub(super) sent: u64,
    pub(super) call: Option<Box<dyn FnOnce(u64) + Send>>,
}

impl Drop for ReplyEnd {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            call(self.sent);
        }
    }
}

impl fmt::Debug for ReplyEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplyEnd({} bytes sent)", self.sent)
    }
}

impl Chunks {
    pub(super) fn of(bytes: Bytes) -> Self {
        Self { first: bytes, ..Self::default() }
    }

    pub(super) fn extend(&mut self, pieces: Vec<Bytes>) {
        self.rest.extend(pieces);
        self.skip_empty();
    }

    fn skip_empty(&mut self) {
        while self.first.is_empty()
            && let Some(next) = self.rest.pop_front()
        {
            self.first = next;
        }
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = std::iter::once(&self.first).chain(&self.rest).filter(|piece| !piece.is_empty());
        slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut bytes: usize) {
        if let Some(end) = &mut self.end {
            end.sent += bytes as u64;
        }
        while bytes > self.first.len() && !self.rest.is_empty() {
            bytes -= self.first.len();
            self.first = self.rest.pop_front().unwrap_or_default();
        }
        self.first.advance(bytes);
        self.skip_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(pieces: [&'static str; 5]) -> Chunks {
        let mut chunks = Chunks::default();
        chunks.extend(pieces.map(Bytes::from).to_vec());
        chunks
    }

    #[test]
    fn chunks_are_their_pieces_however_they_are_consumed() {
        for pieces in [["one ", "", "two ", "three", ""], ["", "", "one two three", "", ""], [""; 5]] {
            let whole = pieces.concat();
            for step in 1..=whole.len().max(1) {
                let (mut chunks, mut taken) = (chunks(pieces), String::new());
                while chunks.has_remaining() {
                    assert_eq!(chunks.remaining() + taken.len(), whole.len());
                    assert!(!chunks.chunk().is_empty());
                    let mut slices = [IoSlice::new(&[]); 8];
                    let count = chunks.chunks_vectored(&mut slices);
                    let seen: Vec<u8> =
                        slices[..count].iter().flat_map(|slice| slice.iter().copied()).collect();
                    assert_eq!(seen, whole.as_bytes()[taken.len()..], "{pieces:?} by {step}");
                    let bytes = step.min(seen.len());
                    taken += std::str::from_utf8(&seen[..bytes]).unwrap();
                    chunks.advance(bytes);
                }
                assert_eq!((taken.as_str(), chunks.chunk().len()), (whole.as_str(), 0));
            }
        }
        let (chunks, mut slices) = (chunks(["one ", "", "two ", "three", ""]), [IoSlice::new(&[]); 1]);
        assert_eq!(chunks.chunks_vectored(&mut slices), 1);
        assert_eq!(&*slices[0], b"one ");
    }
}
