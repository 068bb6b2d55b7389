//! Recovery of the log: finds its segments, and where the last one ends.

use super::batch::{self, WriteBatch};
use super::sector::{self, PAGE, SECTOR, Sector, SectorHeader};
use super::{HEADER_GROUP, failed};
use crate::byte_reader::ByteReader;
use crate::lsm::WalPosition;
use std::io;
use std::path::{Path, PathBuf};
use tepui_files::{FileSystem, OpenOptions, read_file};
use tepui_storage::StorageError;

/// The first group of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) segment: u64,
    /// The oldest segment that was still needed when this one was created: this one, if no other was.
    pub(super) oldest: u64,
    /// The segment before this one.
    pub(super) previous: u64,
    /// How many groups that one has.
    pub(super) groups_before: u32,
    /// The first batch after this header repeats the last one of the segment before, which may not be on disk there.
    pub(super) carries: bool,
}

const HEADER_BYTES: usize = 21;

impl SegmentHeader {
    pub(super) fn content(&self) -> [u8; HEADER_BYTES] {
        let mut content = [0; HEADER_BYTES];
        content[..8].copy_from_slice(&self.oldest.to_le_bytes());
        content[8..16].copy_from_slice(&self.previous.to_le_bytes());
        content[16..20].copy_from_slice(&self.groups_before.to_le_bytes());
        content[20] = u8::from(self.carries);
        content
    }
}

/// A file of the log.
pub(super) struct SegmentFile {
    pub(super) path: PathBuf,
    pub(super) length: u64,
    /// `None`: it holds no segment, or its creation was interrupted.
    pub(super) header: Option<SegmentHeader>,
}

/// The log files in `folder`, in no order. Others are ignored.
pub(super) fn find(files: &dyn FileSystem, folder: &Path) -> Result<Vec<SegmentFile>, StorageError> {
    let mut found = Vec::new();
    for name in files.names(folder).map_err(|error| failed("list", folder, &error))? {
        let path = folder.join(name);
        if file_number(&path).is_none() {
            tracing::warn!(path = %path.display(), "not a file of the write-ahead log: ignored");
            continue;
        }
        found.push(inspect(files, path)?);
    }
    Ok(found)
}

/// A segment that is needed.
pub(super) struct NeededSegment {
    pub(super) file: SegmentFile,
    pub(super) header: SegmentHeader,
    pub(super) expected_groups: ExpectedGroups,
    /// Whether its first batch repeats the last one of the segment before.
    pub(super) carries: bool,
}

/// Takes the needed segments out of `found`, in order: those that the headers lead to, from the last one back.
pub(super) fn needed_segments(
    found: &mut Vec<SegmentFile>,
    end: WalPosition,
    folder: &Path,
) -> Result<Vec<NeededSegment>, StorageError> {
    let mut links: Vec<NeededSegment> = Vec::new();
    let (mut segment, mut expected_groups) =
        (end.segment, end.groups.map_or(ExpectedGroups::Last, ExpectedGroups::Groups));
    while segment != 0 {
        let is_it = |file: &SegmentFile| file.header.is_some_and(|header| header.segment == segment);
        let at = found.iter().position(is_it).ok_or_else(|| {
            corrupt(
                &format!("segment {segment} of the write-ahead log is missing, and commits with it"),
                folder,
            )
        })?;
        let file = found.swap_remove(at);
        let Some(header) = file.header else { break };
        links.push(NeededSegment { file, header, expected_groups, carries: header.carries });
        let oldest = links[0].header.oldest;
        if segment == oldest {
            break;
        }
        if header.previous >= segment || header.previous < oldest {
            return Err(corrupt(&format!("segment {oldest} of the write-ahead log is missing"), folder));
        }
        segment = header.previous;
        expected_groups = match header.carries {
            true => ExpectedGroups::LastRepeated(header.groups_before),
            false => ExpectedGroups::Groups(header.groups_before),
        };
    }
    links.reverse();
    Ok(links)
}

/// Fails if a file holds anything but a header.
pub(super) fn check_no_batches(files: &dyn FileSystem, path: &Path) -> Result<(), StorageError> {
    for sector in read_all(files, path)?.chunks_exact(SECTOR) {
        match sector::inspect(sector) {
            Sector::Empty => {}
            Sector::Written(mark) if mark.group == HEADER_GROUP => {}
            _ => return Err(corrupt("there are commits, but the file FORMAT is missing", path)),
        }
    }
    Ok(())
}

/// File names are numbers without a meaning.
pub(super) fn file_number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.parse().ok()
}

fn inspect(files: &dyn FileSystem, path: PathBuf) -> Result<SegmentFile, StorageError> {
    let read = || -> io::Result<(u64, Vec<u8>)> {
        let file = files.open(&path, OpenOptions::read())?;
        let length = file.length()?;
        let sector = file.read_vec(0, length.min(SECTOR as u64) as usize)?;
        Ok((length, sector))
    };
    let (length, mut bytes) = read().map_err(|error| failed("read", &path, &error))?;
    bytes.resize(SECTOR, 0);
    // A damaged header is noticed if its segment is needed.
    let header = match sector::inspect(&bytes) {
        Sector::Written(mark) if mark.group == HEADER_GROUP && mark.left == 0 => read_header(mark, &bytes),
        _ => None,
    };
    Ok(SegmentFile { path, length, header })
}

fn read_header(mark: SectorHeader, bytes: &[u8]) -> Option<SegmentHeader> {
    let mut reader = ByteReader(sector::content(bytes));
    let (oldest, previous, groups_before) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let [carries] = reader.array()?;
    Some(SegmentHeader { segment: mark.segment, oldest, previous, groups_before, carries: carries != 0 })
}

/// Which groups a segment must have.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExpectedGroups {
    /// This many, the header included.
    Groups(u32),
    /// The same, but the last one may be missing: the next segment repeats it.
    LastRepeated(u32),
    /// It is the last segment: its last group may be torn.
    Last,
}

/// Reads the batches of a segment in order. Returns how many groups it has, the header included.
pub(super) fn read_segment(
    files: &dyn FileSystem,
    path: &Path,
    segment: u64,
    expected_groups: &ExpectedGroups,
    mut each: impl FnMut(WriteBatch),
) -> Result<u32, StorageError> {
    let bytes = read_all(files, path)?;
    let damaged = |at: usize| corrupt(&format!("the write-ahead log is damaged at offset {at}"), path);
    let (mut at, mut group) = (0, 0);
    loop {
        if matches!(expected_groups, ExpectedGroups::Groups(count) | ExpectedGroups::LastRepeated(count) if *count == group)
        {
            return Ok(group);
        }
        let Some((content, length)) = whole_group(bytes.get(at..).unwrap_or_default(), segment, group) else {
            break;
        };
        if group != HEADER_GROUP {
            each(batch::read(&content).ok_or_else(|| damaged(at))?);
        }
        at += length.next_multiple_of(PAGE);
        group += 1;
    }
    match expected_groups {
        ExpectedGroups::LastRepeated(count) if *count == group + 1 => Ok(group),
        ExpectedGroups::Groups(_) | ExpectedGroups::LastRepeated(_) => Err(damaged(at)),
        ExpectedGroups::Last => {
            check_tail(&bytes[at.min(bytes.len())..], segment, group).ok_or_else(|| damaged(at))?;
            Ok(group)
        }
    }
}

/// The group that `bytes` begin with, if it is complete: its content, and its length on disk.
fn whole_group(bytes: &[u8], segment: u64, group: u32) -> Option<(Vec<u8>, usize)> {
    let Sector::Written(first) = sector::inspect(bytes.get(..SECTOR)?) else { return None };
    let length = (first.left as usize + 1) * SECTOR;
    let mut content = Vec::with_capacity(length);
    let mut left = first.left;
    for sector in bytes.get(..length)?.chunks_exact(SECTOR) {
        if sector::inspect(sector) != Sector::Written(SectorHeader { segment, group, left }) {
            return None;
        }
        content.extend_from_slice(sector::content(sector));
        left = left.wrapping_sub(1);
    }
    Some((content, length))
}

/// Whether `bytes` are what a crash can leave after the last complete group: parts of one more, which was not acknowledged, and
/// the earlier content of the file.
///
/// One sector may be neither: a write was torn within it. Nothing of the group follows that one.
fn check_tail(bytes: &[u8], segment: u64, unfinished: u32) -> Option<()> {
    let mut ends_here = false;
    for sector in bytes.chunks_exact(SECTOR) {
        match sector::inspect(sector) {
            Sector::Empty => {}
            Sector::Written(mark) if mark.segment < segment => {}
            Sector::Written(mark) if mark.segment == segment && mark.group == unfinished && !ends_here => {}
            Sector::Damaged if !ends_here => ends_here = true,
            _ => return None,
        }
    }
    Some(())
}

/// A whole file, padded with zeros to the end of a sector.
pub(super) fn read_all(files: &dyn FileSystem, path: &Path) -> Result<Vec<u8>, StorageError> {
    let mut bytes = read_file(files, path).map_err(|error| failed("read", path, &error))?;
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    Ok(bytes)
}

pub(super) fn corrupt(what: &str, path: &Path) -> StorageError {
    StorageError::corrupt(format!("{what}: {}", path.display()))
}
