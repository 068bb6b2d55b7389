//! Reads a journal after a crash: finds its segments, and where the last one ends.

use super::batch::{self, Batch};
use super::sector::{self, Mark, PAGE, SECTOR, Sector};
use super::{FILE_HEAD_GROUP, failed};
use crate::EngineError;
use crate::reader::Reader;
use crate::tree::JournalEnd;
use std::io;
use std::path::{Path, PathBuf};
use tepui_files::{FileSystem, OpenOptions, read_file};

/// What the first group of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) segment: u64,
    /// The oldest segment that was still needed when this one began: this one, if no other was.
    pub(super) oldest: u64,
    /// The segment before this one.
    pub(super) previous: u64,
    /// How many groups that one has.
    pub(super) groups_before: u32,
    /// The last group of the segment before is the first one after this head, too: it may not be on disk there.
    pub(super) carries: bool,
}

const HEAD_BYTES: usize = 21;

impl Head {
    pub(super) fn content(&self) -> [u8; HEAD_BYTES] {
        let mut content = [0; HEAD_BYTES];
        content[..8].copy_from_slice(&self.oldest.to_le_bytes());
        content[8..16].copy_from_slice(&self.previous.to_le_bytes());
        content[16..20].copy_from_slice(&self.groups_before.to_le_bytes());
        content[20] = u8::from(self.carries);
        content
    }
}

/// A file of a journal.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) length: u64,
    /// `None`: no segment was begun in it, or it was interrupted there.
    pub(super) head: Option<Head>,
}

/// The files in `folder`, in no order. Others are left alone.
pub(super) fn find(files: &dyn FileSystem, folder: &Path) -> Result<Vec<Found>, EngineError> {
    let mut found = Vec::new();
    for name in files.names(folder).map_err(|error| failed("list", folder, &error))? {
        let path = folder.join(name);
        if file_number(&path).is_none() {
            tracing::warn!(path = %path.display(), "not a file of the journal: left alone");
            continue;
        }
        found.push(look(files, path)?);
    }
    Ok(found)
}

/// A segment that is needed.
pub(super) struct Link {
    pub(super) file: Found,
    pub(super) head: Head,
    pub(super) extent: Extent,
    /// Whether its first batch is also the last one of the segment before.
    pub(super) carries: bool,
}

/// Takes the segments that are needed out of `found`, in their order: those that the last one leads to.
pub(super) fn chain(
    found: &mut Vec<Found>,
    end: JournalEnd,
    folder: &Path,
) -> Result<Vec<Link>, EngineError> {
    let mut links: Vec<Link> = Vec::new();
    let (mut segment, mut extent) = (end.segment, end.groups.map_or(Extent::Last, Extent::Groups));
    while segment != 0 {
        let is_it = |file: &Found| file.head.is_some_and(|head| head.segment == segment);
        let at = found.iter().position(is_it).ok_or_else(|| {
            corrupt(&format!("segment {segment} of the journal is missing, and commits with it"), folder)
        })?;
        let file = found.swap_remove(at);
        let Some(head) = file.head else { break };
        links.push(Link { file, head, extent, carries: head.carries });
        let oldest = links[0].head.oldest;
        if segment == oldest {
            break;
        }
        if head.previous >= segment || head.previous < oldest {
            return Err(corrupt(&format!("segment {oldest} of the journal is missing"), folder));
        }
        segment = head.previous;
        extent = match head.carries {
            true => Extent::LastRepeated(head.groups_before),
            false => Extent::Groups(head.groups_before),
        };
    }
    links.reverse();
    Ok(links)
}

/// There is nothing in a file but a head.
pub(super) fn check_no_batches(files: &dyn FileSystem, path: &Path) -> Result<(), EngineError> {
    for sector in read_all(files, path)?.chunks_exact(SECTOR) {
        match sector::look(sector) {
            Sector::Empty => {}
            Sector::Written(mark) if mark.group == FILE_HEAD_GROUP => {}
            _ => return Err(corrupt("there are commits, but the file FORMAT is missing", path)),
        }
    }
    Ok(())
}

/// The files' names are numbers that mean nothing.
pub(super) fn file_number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.parse().ok()
}

fn look(files: &dyn FileSystem, path: PathBuf) -> Result<Found, EngineError> {
    let read = || -> io::Result<(u64, Vec<u8>)> {
        let file = files.open(&path, OpenOptions::read())?;
        let length = file.length()?;
        let sector = file.read_vec(0, length.min(SECTOR as u64) as usize)?;
        Ok((length, sector))
    };
    let (length, mut bytes) = read().map_err(|error| failed("read", &path, &error))?;
    bytes.resize(SECTOR, 0);
    // A head that is damaged is missed only if someone needs its segment.
    let head = match sector::look(&bytes) {
        Sector::Written(mark) if mark.group == FILE_HEAD_GROUP && mark.left == 0 => read_head(mark, &bytes),
        _ => None,
    };
    Ok(Found { path, length, head })
}

fn read_head(mark: Mark, bytes: &[u8]) -> Option<Head> {
    let mut reader = Reader(sector::content(bytes));
    let (oldest, previous, groups_before) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let [carries] = reader.array()?;
    Some(Head { segment: mark.segment, oldest, previous, groups_before, carries: carries != 0 })
}

/// Which groups of a segment there must be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Extent {
    /// So many, the head included.
    Groups(u32),
    /// The same, but the last one may be missing: it is in the next segment, too.
    LastRepeated(u32),
    /// Nothing came after this segment: its last group may be unfinished.
    Last,
}

/// Reads the batches of a segment in their order, and returns how many groups it has, the head included.
pub(super) fn read_segment(
    files: &dyn FileSystem,
    path: &Path,
    segment: u64,
    extent: &Extent,
    mut each: impl FnMut(Batch),
) -> Result<u32, EngineError> {
    let bytes = read_all(files, path)?;
    let damaged = || corrupt("a journal is damaged", path);
    let (mut at, mut group) = (0, 0);
    loop {
        if matches!(extent, Extent::Groups(count) | Extent::LastRepeated(count) if *count == group) {
            return Ok(group);
        }
        let Some((content, length)) = whole_group(bytes.get(at..).unwrap_or_default(), segment, group) else {
            break;
        };
        if group != FILE_HEAD_GROUP {
            each(batch::read(&content).ok_or_else(damaged)?);
        }
        at += length.next_multiple_of(PAGE);
        group += 1;
    }
    match extent {
        Extent::LastRepeated(count) if *count == group + 1 => Ok(group),
        Extent::Groups(_) | Extent::LastRepeated(_) => Err(damaged()),
        Extent::Last => {
            check_tail(&bytes[at.min(bytes.len())..], segment, group).ok_or_else(damaged)?;
            Ok(group)
        }
    }
}

/// The group that `bytes` begin with, if all of it is there: its content, and its length on disk.
fn whole_group(bytes: &[u8], segment: u64, group: u32) -> Option<(Vec<u8>, usize)> {
    let Sector::Written(first) = sector::look(bytes.get(..SECTOR)?) else { return None };
    let length = (first.left as usize + 1) * SECTOR;
    let mut content = Vec::with_capacity(length);
    let mut left = first.left;
    for sector in bytes.get(..length)?.chunks_exact(SECTOR) {
        if sector::look(sector) != Sector::Written(Mark { segment, group, left }) {
            return None;
        }
        content.extend_from_slice(sector::content(sector));
        left = left.wrapping_sub(1);
    }
    Some((content, length))
}

/// Whether `bytes` are what a crash can leave behind the last whole group: parts of one more, and what
/// the file held before. Nobody was told that this one is there.
///
/// One sector may be neither: a write that ended in it, before it failed. Nothing of the group follows that one.
fn check_tail(bytes: &[u8], segment: u64, unfinished: u32) -> Option<()> {
    let mut ends_here = false;
    for sector in bytes.chunks_exact(SECTOR) {
        match sector::look(sector) {
            Sector::Empty => {}
            Sector::Written(mark) if mark.segment < segment => {}
            Sector::Written(mark) if mark.segment == segment && mark.group == unfinished && !ends_here => {}
            Sector::Damaged if !ends_here => ends_here = true,
            _ => return None,
        }
    }
    Some(())
}

/// All of a file, and zeros up to the end of a sector.
pub(super) fn read_all(files: &dyn FileSystem, path: &Path) -> Result<Vec<u8>, EngineError> {
    let mut bytes = read_file(files, path).map_err(|error| failed("read", path, &error))?;
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    Ok(bytes)
}

pub(super) fn corrupt(what: &str, path: &Path) -> EngineError {
    EngineError::Corrupt(format!("{what}: {}", path.display()))
}
