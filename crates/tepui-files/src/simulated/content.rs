//! The content of a simulated file, and what is done to it.

use super::CrashOutcome;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What a disk writes as a whole.
pub(super) const SECTOR_BYTES: u64 = 512;
/// What takes up space as a whole.
pub(super) const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];

/// Pages that are not there are holes.
#[derive(Clone, Default)]
pub(super) struct Content {
    length: u64,
    pages: BTreeMap<u64, Arc<Page>>,
}

/// One change of a file.
pub(super) enum Change {
    Write(u64, Box<[u8]>),
    SetLength(u64),
    Punch(Range<u64>),
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// How many pages take up space.
    pub(super) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The first range at or after `from` that takes up space.
    pub(super) fn next_data(&self, from: u64) -> Option<Range<u64>> {
        let mut pages = self.pages.range(from / PAGE_BYTES..).map(|(page, _)| *page);
        let first = pages.next()?;
        let last = pages.zip(first + 1..).take_while(|(page, next)| page == next).last();
        let end = (last.map_or(first, |(page, _)| page) + 1) * PAGE_BYTES;
        let range = from.max(first * PAGE_BYTES)..end.min(self.length);
        (!range.is_empty()).then_some(range)
    }

    /// Fills the buffer as far as the file goes, and says how far.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let length = self.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < length {
            let (page, at, count) = piece(offset + done as u64, length - done);
            let part = &mut buffer[done..done + count];
            match self.pages.get(&page) {
                Some(page) => part.copy_from_slice(&page[at..at + count]),
                None => part.fill(0),
            }
            done += count;
        }
        length
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut done = 0;
        while done < bytes.len() {
            let (page, at, count) = piece(offset + done as u64, bytes.len() - done);
            let page = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(page)[at..at + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
        self.length = self.length.max(offset + bytes.len() as u64);
    }

    fn set_length(&mut self, length: u64) {
        if length < self.length {
            self.clear(length..self.length.next_multiple_of(PAGE_BYTES));
        }
        self.length = length;
    }

    /// Whole pages become holes, parts of pages zeros.
    fn clear(&mut self, range: Range<u64>) {
        let mut at = range.start;
        while at < range.end {
            let (page, within, count) = piece(at, (range.end - at).min(PAGE_BYTES) as usize);
            if count as u64 == PAGE_BYTES {
                self.pages.remove(&page);
            } else if let Some(page) = self.pages.get_mut(&page) {
                Arc::make_mut(page)[within..within + count].fill(0);
            }
            at += count as u64;
        }
    }
}

/// The page at an offset, where in it that is, and how many of `left` bytes lie in it.
fn piece(offset: u64, left: usize) -> (u64, usize, usize) {
    let within = (offset % PAGE_BYTES) as usize;
    (offset / PAGE_BYTES, within, left.min(PAGE_BYTES as usize - within))
}

impl Change {
    /// How many pages it takes up that were free.
    pub(super) fn new_pages(&self, content: &Content) -> u64 {
        let Self::Write(offset, bytes) = self else { return 0 };
        let pages = offset / PAGE_BYTES..(offset + bytes.len() as u64).div_ceil(PAGE_BYTES);
        pages.filter(|page| !content.pages.contains_key(page)).count() as u64
    }

    pub(super) fn apply(&self, content: &mut Content) {
        match self {
            Self::Write(offset, bytes) => content.write(bytes, *offset),
            Self::SetLength(length) => content.set_length(*length),
            Self::Punch(range) => content.clear(range.start..range.end.min(content.length)),
        }
    }

    /// Applies what a crash leaves of the change.
    pub(super) fn apply_after_crash(
        &self,
        content: &mut Content,
        outcome: CrashOutcome,
        random: &mut fastrand::Rng,
    ) {
        if !outcome.survives(random) {
            return;
        }
        let Self::Write(offset, bytes) = self else { return self.apply(content) };
        // Half of those that are there are torn.
        if outcome == CrashOutcome::Everything || random.bool() {
            return self.apply(content);
        }
        let mut at = *offset;
        let end = offset + bytes.len() as u64;
        while at < end {
            let next = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
            if random.bool() {
                content.write(&bytes[(at - offset) as usize..(next - offset) as usize], at);
            }
            at = next;
        }
        // The length may be on the disk before the bytes are.
        if random.bool() {
            content.length = content.length.max(end);
        }
    }
}
