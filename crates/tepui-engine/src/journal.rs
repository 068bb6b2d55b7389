//! The journal: what was committed and is not in tables yet.
//!
//! A journal is a row of segments, one for each memtable. A segment is a row of groups, each written
//! with one call and synced before the next one is. It lies in a file that may have held an older
//! segment before: writing over a file that has its size already takes half as long to sync as
//! making it grow, and does not wait for whatever else the file system is busy with.
//!
//! The first group of a segment is its head: which segments are needed with it, which one came before, and how many groups
//! that one has. The manifest names the segment that is written to before anything is acknowledged in it. So a segment
//! that is missing, or lacks its end, is noticed; and a segment that the manifest does not lead to was never begun.
//!
//! When fewer bytes than were written are found at the end of the last segment, this is a crash: the group
//! was not acknowledged, and is left out for good. Everything else that is not as it was written
//! stops the opening and names the file.
//!
//! After a failure the journal goes on in a new segment, whose head leaves out the group that failed. Whatever becomes
//! of that one on disk, it was never there.

mod batch;
mod recovery;
mod sector;

pub(crate) use batch::Batch;

use crate::tree::{Expect, JournalEnd, ManifestError};
use crate::{EngineError, Write};
use recovery::{Found, Head, Link};
use sector::{Group, PAGE};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{Create, File, FileSystem, OpenOptions};

/// The number of the group that is the head of a segment.
const FILE_HEAD_GROUP: u32 = 0;

/// Files grow by so much at most, ahead of what is written to them.
const GROWTH: u64 = 4 << 20;

/// How many zeros are written at once.
const ZEROS: usize = 256 << 10;

/// How many files wait to be used again.
const SPARE_FILES: usize = 2;

pub(crate) struct Journal {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    /// Files grow by so much, ahead of what is written to them.
    growth: u64,
    /// Segments that are needed and no longer written to, the oldest first.
    full: VecDeque<(u64, Place)>,
    /// `None`: the journal was read, and nothing was written to it yet.
    current: Option<Current>,
    /// Segments that are in tables. The present head still names them, so that they stay until the next one is there.
    released: Vec<Place>,
    spare: Vec<Place>,
    /// Files that a manifest may name which could not be written for certain. They may be used again once another one was.
    uncertain: Vec<Place>,
    /// The highest number that any segment has had.
    highest: u64,
    /// How many groups the last of `full` has.
    groups: u32,
    /// The last batch that was read, if it may not have reached the disk: a process that was killed leaves it with the operating
    /// system.
    carried: Option<Batch>,
    group: Group,
}

/// A file that a segment lies in.
struct Place {
    path: PathBuf,
    length: u64,
}

struct Current {
    segment: u64,
    place: Place,
    file: Box<dyn File>,
    /// Where the next group goes.
    end: u64,
    growth: u64,
    /// How many groups there are that were synced.
    groups: u32,
}

/// A segment that is on disk, and that nothing names yet.
pub(crate) struct Begun(Current);

impl Begun {
    pub(crate) fn segment(&self) -> u64 {
        self.0.segment
    }
}

impl Journal {
    /// Reads the journal. `each` gets every batch that is not in tables, in order: those up to `flushed` are. The journal must
    /// be the one that the manifest names; if nothing is expected, it must be empty.
    pub(crate) fn read(
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        segment_bytes: u64,
        expected: (Expect, JournalEnd),
        flushed: u64,
        mut each: impl FnMut(Batch),
    ) -> Result<Self, EngineError> {
        let (expect, end) = expected;
        let mut found = recovery::find(&**files, folder)?;
        let highest =
            found.iter().filter_map(|file| Some(file.head?.segment)).max().unwrap_or(0).max(end.segment);
        if expect == Expect::Nothing {
            for file in &found {
                recovery::check_no_batches(&**files, &file.path)?;
            }
        }
        let mut journal = Self {
            files: Arc::clone(files),
            folder: folder.to_owned(),
            growth: segment_bytes.clamp(PAGE as u64, GROWTH).next_multiple_of(PAGE as u64),
            full: VecDeque::new(),
            current: None,
            released: Vec::new(),
            spare: Vec::new(),
            uncertain: Vec::new(),
            highest,
            groups: 0,
            carried: None,
            group: Group::default(),
        };
        let mut last_number = None;
        for Link { file, head, extent, carries } in recovery::chain(&mut found, end, folder)? {
            let mut newest = 0;
            let mut is_first = true;
            let mut gap = false;
            let is_last = head.segment == end.segment;
            let groups = recovery::read_segment(&**files, &file.path, head.segment, &extent, |batch| {
                newest = batch.number;
                // The first batch of a segment may be the last one of the segment before, written once more.
                let is_again = std::mem::take(&mut is_first) && carries && last_number == Some(batch.number);
                let follows =
                    last_number.map_or(batch.number <= flushed + 1, |last| batch.number == last + 1);
                gap |= !is_again && !follows;
                last_number = Some(batch.number);
                if is_last && end.groups.is_none() {
                    journal.carried = (batch.number > flushed).then(|| batch.clone());
                }
                if batch.number > flushed && !is_again {
                    each(batch);
                }
            })?;
            if gap {
                return Err(recovery::corrupt("commits are missing before those in this file", &file.path));
            }
            journal.groups = groups;
            let place = Place { path: file.path, length: file.length };
            // Everything in it is in tables, and everything before it too.
            if newest <= flushed && journal.full.is_empty() {
                journal.released.push(place);
            } else {
                journal.full.push_back((head.segment, place));
            }
        }
        let place = |file: Found| Place { path: file.path, length: file.length };
        journal.spare = found.into_iter().map(place).collect();
        Ok(journal)
    }

    /// Writes a batch, which is on disk when this returns. After a failure nothing more can be written to this segment.
    pub(crate) fn write(&mut self, number: u64, writes: &[Write]) -> io::Result<()> {
        let current = self.current.as_mut().ok_or_else(|| io::Error::other("the journal was not begun"))?;
        current.append(&mut self.group, number, writes)?;
        current.sync()
    }

    /// The number of the segment that is written to; 0 if there is none yet.
    pub(crate) fn segment(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.segment)
    }

    /// The segment that is written to, and how far.
    pub(crate) fn end(&self) -> Option<JournalEnd> {
        let current = self.current.as_ref()?;
        Some(JournalEnd { segment: current.segment, groups: Some(current.groups) })
    }

    /// How much was written to this segment.
    pub(crate) fn bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.end)
    }

    /// How many segments are needed.
    pub(crate) fn segments(&self) -> usize {
        self.full.len() + 1
    }

    /// Makes the next segment, to be named by the manifest and handed to [`Journal::go_on`].
    pub(crate) fn begin(&mut self) -> io::Result<Begun> {
        // Never the same number twice: it is not known what became of the one before on disk.
        self.highest += 1;
        let last = self.full.back().map(|(last, _)| (*last, self.groups));
        let last = self.current.as_ref().map(|current| (current.segment, current.groups)).or(last);
        let (previous, groups_before) = last.unwrap_or((0, 0));
        let carried = self.carried.as_ref().filter(|_| self.current.is_none() && last.is_some());
        let oldest = self.full.front().map(|(oldest, _)| *oldest);
        let oldest = oldest.or(last.map(|(last, _)| last)).unwrap_or(self.highest);
        let head =
            Head { segment: self.highest, oldest, previous, groups_before, carries: carried.is_some() };
        let in_use =
            self.full.iter().map(|(_, place)| place).chain(self.current.iter().map(|current| &current.place));
        let in_use = in_use.chain(&self.released).chain(&self.uncertain);
        let place = next_place(&self.folder, &mut self.spare, in_use);
        let kept = Place { path: place.path.clone(), length: 0 };
        let begin = || {
            let mut next =
                Current::begin(&*self.files, &self.folder, self.growth, head, place, &mut self.group)?;
            if self.current.is_none() {
                // Files that were found may be there only as long as the power is.
                self.files.sync_directory(&self.folder)?;
            }
            if let Some(Batch { number, writes }) = carried {
                next.append(&mut self.group, *number, writes)?;
                next.sync()?;
            }
            Ok(Begun(next))
        };
        let begun = begin();
        if begun.is_err() {
            self.spare.push(kept);
        }
        begun
    }

    /// Goes on in a segment that the manifest names.
    pub(crate) fn go_on(&mut self, Begun(next): Begun) {
        self.carried = None;
        if let Some(done) = self.current.replace(next) {
            self.full.push_back((done.segment, done.place));
        }
        // What only the segment before has named is not needed any more.
        self.spare.append(&mut self.released);
        self.spare.append(&mut self.uncertain);
        for place in self.spare.drain(SPARE_FILES.min(self.spare.len())..) {
            if let Err(error) = self.files.remove_file(&place.path) {
                tracing::warn!(%error, path = %place.path.display(), "cannot remove a file of the journal");
            }
        }
    }

    /// Gives up a segment that the manifest does not name, or may name.
    pub(crate) fn abandon(&mut self, Begun(begun): Begun, error: &ManifestError) {
        match error {
            ManifestError::Nothing(_) => self.spare.push(begun.place),
            ManifestError::Maybe(_) => self.uncertain.push(begun.place),
        }
    }

    /// What is in the segments up to this one is in tables now.
    pub(crate) fn release(&mut self, segment: u64) {
        while self.full.front().is_some_and(|(number, _)| *number <= segment) {
            self.released.extend(self.full.pop_front().map(|(_, place)| place));
        }
    }
}

impl Current {
    /// Makes `place` hold a new segment, which is on disk when this returns.
    fn begin(
        files: &dyn FileSystem,
        folder: &Path,
        growth: u64,
        head: Head,
        place: Place,
        group: &mut Group,
    ) -> io::Result<Self> {
        let is_new = place.length == 0;
        let file = open_file(files, &place.path)?;
        let mut current =
            Self { segment: head.segment, place, file, end: 0, growth, groups: FILE_HEAD_GROUP };
        match current.put_head(group, head) {
            // A file system that cannot write past the page cache, and says so late.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                current.file = files.open(&current.place.path, OpenOptions::write())?;
                current.put_head(group, head)?;
            }
            put => put?,
        }
        current.file.sync_all()?;
        current.groups += 1;
        if is_new {
            files.sync_directory(folder)?;
        }
        Ok(current)
    }

    fn put_head(&mut self, group: &mut Group, head: Head) -> io::Result<()> {
        // Also if it was tried before and the end of the file was already thought to be further on.
        self.end = 0;
        group.clear();
        group.put(&head.content());
        self.put(group)
    }

    /// Writes a batch. It counts after [`Current::sync`].
    fn append(&mut self, group: &mut Group, number: u64, writes: &[Write]) -> io::Result<()> {
        group.clear();
        batch::put(group, number, writes);
        self.put(group)
    }

    fn put(&mut self, group: &mut Group) -> io::Result<()> {
        let bytes = group.finish(self.segment, self.groups);
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        if self.end > self.place.length {
            self.grow()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.groups += 1;
        Ok(())
    }

    /// Fills the file with zeros some way ahead: space that is only reserved would have to be marked as
    /// written with every group.
    fn grow(&mut self) -> io::Result<()> {
        let zeros = vec![0; ZEROS + PAGE];
        let zeros = &zeros[zeros.as_ptr().align_offset(PAGE)..][..ZEROS];
        let length = self.end.next_multiple_of(self.growth);
        self.place.length = self.end;
        while self.place.length < length {
            let count = (length - self.place.length).min(ZEROS as u64);
            self.file.write_all_at(&zeros[..count as usize], self.place.length)?;
            self.place.length += count;
        }
        Ok(())
    }
}

/// Opens a file of the journal for writing, past the page cache where that can be done: nobody reads it, and
/// the way to the disk is shorter.
fn open_file(files: &dyn FileSystem, path: &Path) -> io::Result<Box<dyn File>> {
    let options = OpenOptions::create(Create::IfMissing);
    files.open(path, options.direct()).or_else(|_| files.open(path, options))
}

/// A file for the next segment: one that is no longer needed, or a new one.
fn next_place<'a>(folder: &Path, spare: &mut Vec<Place>, in_use: impl Iterator<Item = &'a Place>) -> Place {
    spare.pop().unwrap_or_else(|| {
        let highest = in_use.filter_map(|place| recovery::file_number(&place.path)).max();
        let number = highest.map_or(0, |highest| highest + 1);
        Place { path: folder.join(number.to_string()), length: 0 }
    })
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    let message = format!("cannot {what} the journal: {error}: {}", path.display());
    crate::store::io_error(error, &message)
}

#[cfg(test)]
mod tests;
