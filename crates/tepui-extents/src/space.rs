//! Memory that is read into. What a large read takes is kept for the next one: memory would have to be cleared
//! first, which takes a good part of the time that reading does.

use crate::frame::FRAME;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// The memory of a large read: four frames.
const LARGE_BYTES: usize = 4 * FRAME;
/// How many of them a thread keeps, at most.
const MAX_KEPT: usize = 4;

thread_local! {
    /// Nothing is kept on threads that take none, such as the many that may block.
    static KEPT: RefCell<Option<Vec<Vec<u8>>>> = const { RefCell::new(None) };
}

/// Some bytes, to be read into. There is anything in them.
pub(crate) struct Space {
    bytes: Vec<u8>,
    length: usize,
}

impl Space {
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

impl Drop for Space {
    fn drop(&mut self) {
        if self.bytes.len() == LARGE_BYTES {
            // Not when the thread is ending.
            let _ = KEPT.try_with(|kept| match &mut *kept.borrow_mut() {
                Some(kept) if kept.len() < MAX_KEPT => kept.push(std::mem::take(&mut self.bytes)),
                _ => {}
            });
        }
    }
}

impl Deref for Space {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl DerefMut for Space {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl AsRef<[u8]> for Space {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_large_reads_is_used_again() {
        let (small, large) = (Space::new(100), Space::new(LARGE_BYTES - 1));
        assert_eq!((small.len(), large.len()), (100, LARGE_BYTES - 1));
        let place = large.as_ptr();
        drop((small, large));
        let larger = Space::new(LARGE_BYTES + 1);
        assert!(larger.len() == LARGE_BYTES + 1 && larger.as_ptr() != place);
        let again = Space::new(LARGE_BYTES);
        assert_eq!((again.len(), again.as_ptr()), (LARGE_BYTES, place));
    }

    #[test]
    fn a_thread_keeps_few_and_none_that_it_did_not_take() {
        let kept = || KEPT.with_borrow(|kept| kept.as_ref().map(Vec::len));
        let many: Vec<Space> = (0..3 * MAX_KEPT).map(|_| Space::new(LARGE_BYTES)).collect();
        let elsewhere = std::thread::spawn(move || {
            drop(many);
            kept()
        });
        assert_eq!(elsewhere.join().unwrap(), None);
        let many: Vec<Space> = (0..3 * MAX_KEPT).map(|_| Space::new(LARGE_BYTES)).collect();
        drop(many);
        assert_eq!(kept(), Some(MAX_KEPT));
    }
}
