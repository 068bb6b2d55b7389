//! Reads a journal after a crash: finds its segments, and where the last one ends.

use super::batch::{self, Batch};
use super::sector::{self, Mark, PAGE, SECTOR, Sector};
use super::{FILE_HEAD_GROUP, failed};
use crate::EngineError;
use crate::reader::Reader;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What the first group of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) segment: u64,
    /// The oldest segment that was still needed when this one began.
    pub(super) oldest: u64,
    /// How many groups the segment before this one has.
    pub(super) groups_before: u32,
}

impl Head {
    pub(super) fn content(&self) -> [u8; 12] {
        let mut content = [0; 12];
        content[..8].copy_from_slice(&self.oldest.to_le_bytes());
        content[8..].copy_from_slice(&self.groups_before.to_le_bytes());
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

/// The files in `folder`, in the order of their segments; those without one come first.
pub(super) fn find(folder: &Path) -> Result<Vec<Found>, EngineError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| failed("list", folder, &error))? {
        let path = entry.map_err(|error| failed("list", folder, &error))?.path();
        if path.extension().is_some() {
            // Half a copy.
            std::fs::remove_file(&path).map_err(|error| failed("remove", &path, &error))?;
            continue;
        }
        if file_number(&path).is_none() {
            return Err(corrupt("not a file of a journal", &path));
        }
        found.push(look(path)?);
    }
    found.sort_by_key(|file| file.head.map(|head| head.segment));
    Ok(found)
}

/// The files' names are numbers that mean nothing.
pub(super) fn file_number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.parse().ok()
}

fn look(path: PathBuf) -> Result<Found, EngineError> {
    let read = || -> io::Result<(u64, Vec<u8>)> {
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        let mut sector = Vec::with_capacity(SECTOR);
        file.take(SECTOR as u64).read_to_end(&mut sector)?;
        Ok((length, sector))
    };
    let (length, mut bytes) = read().map_err(|error| failed("read", &path, &error))?;
    bytes.resize(SECTOR, 0);
    let head = match sector::look(&bytes) {
        Sector::Empty => None,
        Sector::Damaged => return Err(corrupt("a journal is damaged", &path)),
        Sector::Written(mark) => {
            let head = (mark.group == FILE_HEAD_GROUP && mark.left == 0).then(|| read_head(mark, &bytes));
            Some(head.flatten().ok_or_else(|| corrupt("a journal does not begin with its head", &path))?)
        }
    };
    Ok(Found { path, length, head })
}

fn read_head(mark: Mark, bytes: &[u8]) -> Option<Head> {
    let mut reader = Reader(sector::content(bytes));
    let oldest = reader.u64()?;
    let groups_before = reader.u32()?;
    Some(Head { segment: mark.segment, oldest, groups_before })
}

/// Nothing in a file without a head may be newer than `last`: a head is on disk before what follows it.
pub(super) fn check_headless(path: &Path, last: u64) -> Result<(), EngineError> {
    for sector in read_all(path)?.chunks_exact(SECTOR) {
        match sector::look(sector) {
            Sector::Empty => {}
            Sector::Written(mark) if mark.segment <= last => {}
            _ => return Err(corrupt("a journal has lost its head", path)),
        }
    }
    Ok(())
}

/// Which groups of a segment there must be.
pub(super) enum Extent {
    /// So many, the head included.
    Groups(u32),
    /// Nothing came after this segment: its last group may be unfinished.
    Last,
}

/// Reads the batches of a segment in their order, and returns how many groups it has, the head included.
pub(super) fn read_segment(
    path: &Path,
    segment: u64,
    extent: &Extent,
    mut each: impl FnMut(Batch),
) -> Result<u32, EngineError> {
    let bytes = read_all(path)?;
    let damaged = || corrupt("a journal is damaged", path);
    let (mut at, mut group) = (0, 0);
    loop {
        if matches!(extent, Extent::Groups(count) if *count == group) {
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
        Extent::Groups(_) => Err(damaged()),
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
fn check_tail(bytes: &[u8], segment: u64, unfinished: u32) -> Option<()> {
    let is_left_over = |sector: &[u8]| match sector::look(sector) {
        Sector::Empty => true,
        Sector::Written(mark) => {
            mark.segment < segment || mark.segment == segment && mark.group == unfinished
        }
        Sector::Damaged => false,
    };
    bytes.chunks_exact(SECTOR).all(is_left_over).then_some(())
}

/// All of a file, and zeros up to the end of a sector.
pub(super) fn read_all(path: &Path) -> Result<Vec<u8>, EngineError> {
    let mut bytes = std::fs::read(path).map_err(|error| failed("read", path, &error))?;
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    Ok(bytes)
}

pub(super) fn corrupt(what: &str, path: &Path) -> EngineError {
    EngineError::Corrupt(format!("{what}: {}", path.display()))
}
