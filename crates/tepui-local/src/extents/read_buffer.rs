//! Buffers for reads. Those of large reads are reused by thread: clearing new memory takes a good part of the time of a read.

use crate::extents::frame::FRAME_BYTES;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// The buffer of a large read: four frames.
const LARGE_BYTES: usize = 4 * FRAME_BYTES;
/// How many of them a thread keeps at most.
const MAX_KEPT: usize = 4;

thread_local! {
    /// `None` on threads that allocate no buffers, such as those for blocking work.
    static KEPT: RefCell<Option<Vec<Vec<u8>>>> = const { RefCell::new(None) };
}

/// Uncleared bytes to be read into.
pub(crate) struct ReadBuffer {
    bytes: Vec<u8>,
    length: usize,
}

impl ReadBuffer {
    pub(crate) fn new(length: usize) -> Self {
        let is_large = (LARGE_BYTES / 2 + 1..=LARGE_BYTES).contains(&length);
        let bytes = if is_large {
            let kept = KEPT.with_borrow_mut(|kept| kept.get_or_insert_default().pop());
            kept.unwrap_or_else(|| vec![0; LARGE_BYTES])
        } else {
            vec![0; length]
        };
        Self { bytes, length }
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if self.bytes.len() == LARGE_BYTES {
            // Fails when the thread is ending.
            let _ = KEPT.try_with(|kept| match &mut *kept.borrow_mut() {
                Some(kept) if kept.len() < MAX_KEPT => kept.push(std::mem::take(&mut self.bytes)),
                _ => {}
            });
        }
    }
}

impl Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_large_reads_are_reused() {
        let (small, large) = (ReadBuffer::new(100), ReadBuffer::new(LARGE_BYTES - 1));
        assert_eq!((small.len(), large.len()), (100, LARGE_BYTES - 1));
        let place = large.as_ptr();
        drop((small, large));
        let larger = ReadBuffer::new(LARGE_BYTES + 1);
        assert!(larger.len() == LARGE_BYTES + 1 && larger.as_ptr() != place);
        let again = ReadBuffer::new(LARGE_BYTES);
        assert_eq!((again.len(), again.as_ptr()), (LARGE_BYTES, place));
    }

    #[test]
    fn a_thread_keeps_few_buffers_and_only_if_it_allocates_some() {
        let kept = || KEPT.with_borrow(|kept| kept.as_ref().map(Vec::len));
        let many: Vec<ReadBuffer> = (0..3 * MAX_KEPT).map(|_| ReadBuffer::new(LARGE_BYTES)).collect();
        let elsewhere = std::thread::spawn(move || {
            drop(many);
            kept()
        });
        assert_eq!(elsewhere.join().unwrap(), None);
        let many: Vec<ReadBuffer> = (0..3 * MAX_KEPT).map(|_| ReadBuffer::new(LARGE_BYTES)).collect();
        drop(many);
        assert_eq!(kept(), Some(MAX_KEPT));
    }
}
