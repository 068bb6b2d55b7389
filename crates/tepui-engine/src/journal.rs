//! The journal: what was committed and is not in tables yet.
//!
//! A journal is a row of segments, one for each memtable. A segment is a row of groups, each written
//! with one call and synced before the next one is. It lies in a file that may have held an older
//! segment before: writing over a file that has its size already takes half as long to sync as
//! making it grow, and does not wait for whatever else the file system is busy with.
//!
//! The first group of a segment is its head: which segments are needed with it, and how many groups
//! the one before it has. So a segment that is missing, or lacks its end, is noticed.
//!
//! When fewer bytes than were written are found at the end of the last segment, this is a crash: the group
//! was not acknowledged, and is left out for good. Everything else that is not as it was written
//! stops the opening and names the file.

mod batch;
mod recovery;
mod sector;

pub(crate) use batch::Batch;

use crate::directory::sync_directory;
use crate::{EngineError, Write};
use recovery::{Extent, Found, Head};
use sector::Group;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The number of the group that is the head of a segment.
const FILE_HEAD_GROUP: u32 = 0;

/// Files grow by so much, ahead of what is written to them.
const GROWTH: u64 = 4 << 20;

/// How many files wait to be used again.
const SPARE_FILES: usize = 2;

pub(crate) struct Journal {
    folder: PathBuf,
    /// Segments that are needed and no longer written to, the oldest first.
    full: VecDeque<(u64, Place)>,
    current: Current,
    spare: Vec<Place>,
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
    file: File,
    /// Where the next group goes.
    end: u64,
    groups: u32,
}

impl Journal {
    /// Opens the journal in `folder`, and makes one if there is none. `each` gets every batch that
    /// is needed, in order.
    pub(crate) fn open(folder: &Path, mut each: impl FnMut(Batch)) -> Result<Self, EngineError> {
        std::fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))?;
        let found = recovery::find(folder)?;
        let newest = found.last().and_then(|file| file.head);
        let (oldest, last) = newest.map_or((1, 0), |head| (head.oldest, head.segment));
        let (mut full, mut spare) = (VecDeque::new(), Vec::new());
        // What the next head has to say about the last segment of all.
        let mut groups = 0;
        let needed: Vec<Option<Head>> =
            found.iter().map(|file| file.head.filter(|head| head.segment >= oldest)).collect();
        for (index, Found { path, length, head }) in found.into_iter().enumerate() {
            if head.is_none() {
                recovery::check_headless(&path, last)?;
            }
            let Some(head) = needed[index] else {
                spare.push(Place { path, length });
                continue;
            };
            let expected = full.back().map_or(oldest, |(before, _)| before + 1);
            if head.segment != expected {
                return Err(recovery::corrupt("the segment of a journal before this one is missing", &path));
            }
            let extent = match needed.get(index + 1).copied().flatten() {
                Some(next) => Extent::Groups(next.groups_before),
                None => Extent::Last,
            };
            groups = recovery::read_segment(&path, head.segment, &extent, &mut each)?;
            full.push_back((head.segment, Place { path, length }));
        }
        let head = Head { segment: last + 1, oldest, groups_before: groups };
        let place = next_place(folder, &mut spare, full.iter().map(|(_, place)| place));
        let mut group = Group::default();
        let current = Current::begin(folder, head, place, &mut group)
            .map_err(|error| failed("begin", folder, &error))?;
        Ok(Self { folder: folder.to_owned(), full, current, spare, group })
    }

    /// Writes a group. It is on disk after [`Journal::sync`].
    pub(crate) fn append(&mut self, number: u64, writes: &[Write]) -> io::Result<()> {
        self.group.clear();
        batch::put(&mut self.group, number, writes);
        self.current.append(&mut self.group)
    }

    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.current.file.sync_data()
    }

    /// The number of the segment that is written to.
    pub(crate) fn segment(&self) -> u64 {
        self.current.segment
    }

    /// How much was written to this segment.
    pub(crate) fn bytes(&self) -> u64 {
        self.current.end
    }

    /// How many segments are needed.
    pub(crate) fn segments(&self) -> usize {
        self.full.len() + 1
    }

    /// Begins the next segment.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        let head = Head {
            segment: self.current.segment + 1,
            oldest: self.full.front().map_or(self.current.segment, |(oldest, _)| *oldest),
            groups_before: self.current.groups,
        };
        let in_use = self.full.iter().map(|(_, place)| place).chain([&self.current.place]);
        let place = next_place(&self.folder, &mut self.spare, in_use);
        let next = Current::begin(&self.folder, head, place, &mut self.group)?;
        let done = std::mem::replace(&mut self.current, next);
        self.full.push_back((done.segment, done.place));
        // Only now: before, the newest head still named what these files hold.
        for place in self.spare.drain(SPARE_FILES.min(self.spare.len())..) {
            if let Err(error) = std::fs::remove_file(&place.path) {
                tracing::warn!(%error, path = %place.path.display(), "cannot remove a file of the journal");
            }
        }
        Ok(())
    }

    /// What is in the segments up to this one is in tables now.
    pub(crate) fn release(&mut self, segment: u64) {
        while self.full.front().is_some_and(|(number, _)| *number <= segment) {
            self.spare.extend(self.full.pop_front().map(|(_, place)| place));
        }
    }
}

impl Current {
    /// Makes `place` hold a new segment, which is on disk when this returns.
    fn begin(folder: &Path, head: Head, place: Place, group: &mut Group) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&place.path)?;
        let is_new = place.length == 0;
        let mut current = Self { segment: head.segment, place, file, end: 0, groups: FILE_HEAD_GROUP };
        group.clear();
        group.put(&head.content());
        current.append(group)?;
        current.file.sync_all()?;
        if is_new {
            sync_directory(folder)?;
        }
        Ok(current)
    }

    fn append(&mut self, group: &mut Group) -> io::Result<()> {
        let bytes = group.finish(self.segment, self.groups);
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(bytes)?;
        self.end += bytes.len() as u64;
        self.groups += 1;
        if self.end > self.place.length {
            self.grow()?;
        }
        Ok(())
    }

    /// Fills the file with zeros some way ahead: space that is only reserved would have to be marked as
    /// written with every group.
    fn grow(&mut self) -> io::Result<()> {
        let zeros = [0; 64 << 10];
        let length = self.end.next_multiple_of(GROWTH);
        self.place.length = self.end;
        while self.place.length < length {
            let count = (length - self.place.length).min(zeros.len() as u64);
            self.file.write_all(&zeros[..count as usize])?;
            self.place.length += count;
        }
        Ok(())
    }
}

/// A file for the next segment: one that is no longer needed, or a new one.
fn next_place<'a>(folder: &Path, spare: &mut Vec<Place>, in_use: impl Iterator<Item = &'a Place>) -> Place {
    spare.pop().unwrap_or_else(|| {
        let highest = in_use.filter_map(|place| recovery::file_number(&place.path)).max();
        let number = highest.map_or(0, |highest| highest + 1);
        Place { path: folder.join(number.to_string()), length: 0 }
    })
}

/// Replaces the file of the last segment by a fresh copy of it.
///
/// After a failed sync the kernel may go on showing pages that it dropped, and calls them clean:
/// the next sync succeeds without writing them.
pub(crate) fn rewrite_last(folder: &Path) -> Result<(), EngineError> {
    let Some(last) = recovery::find(folder)?.pop() else { return Ok(()) };
    let copy = last.path.with_extension("copy");
    let bytes = recovery::read_all(&last.path)?;
    let rewrite = || {
        std::fs::write(&copy, &bytes)?;
        OpenOptions::new().write(true).open(&copy)?.sync_all()?;
        std::fs::rename(&copy, &last.path)?;
        sync_directory(folder)
    };
    rewrite().map_err(|error: io::Error| failed("rewrite", &last.path, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    let message = format!("cannot {what} the journal: {error}: {}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => EngineError::Unavailable(message),
        _ => EngineError::Failed(message),
    }
}

#[cfg(test)]
mod tests;
