//! The write-ahead log of format 3: segments are numbered without gaps, and the header of each says which is the oldest that is
//! needed, and how many groups the segment before it has. The last segment is the one with the highest number.

use super::batch::WriteBatch;
use super::recovery::{ExpectedGroups, corrupt, file_number, read_all, read_segment};
use super::sector::{self, SECTOR, Sector};
use super::{HEADER_GROUP, failed};
use crate::byte_reader::ByteReader;
use std::path::{Path, PathBuf};
use tepui_files::{FileSystem, OpenOptions};
use tepui_storage::StorageError;

#[derive(Clone, Copy)]
struct Header {
    segment: u64,
    oldest: u64,
    groups_before: u32,
}

/// `each` gets every batch that the newest header says is needed, in order.
pub(crate) fn read(
    files: &dyn FileSystem,
    folder: &Path,
    mut each: impl FnMut(WriteBatch) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut segments = Vec::new();
    let mut without_header = Vec::new();
    for name in files.names(folder).map_err(|error| failed("list", folder, &error))? {
        let path = folder.join(name);
        if file_number(&path).is_none() {
            continue;
        }
        match header(files, &path)? {
            Some(header) => segments.push((header, path)),
            None => without_header.push(path),
        }
    }
    segments.sort_by_key(|(header, _)| header.segment);
    let Some((newest, _)) = segments.last() else {
        return check_files_without_header(files, &without_header, 0);
    };
    let (oldest, last) = (newest.oldest, newest.segment);
    check_files_without_header(files, &without_header, last)?;
    segments.retain(|(header, _)| header.segment >= oldest);
    let mut failure = None;
    for (index, (header, path)) in segments.iter().enumerate() {
        if header.segment != oldest + index as u64 {
            return Err(corrupt("the segment of the write-ahead log before this one is missing", path));
        }
        let extent = segments
            .get(index + 1)
            .map_or(ExpectedGroups::Last, |(next, _)| ExpectedGroups::Groups(next.groups_before));
        read_segment(files, path, header.segment, &extent, |batch| {
            if failure.is_none() {
                failure = each(batch).err();
            }
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
    }
    Ok(())
}

/// `None`: no segment was begun in the file.
fn header(files: &dyn FileSystem, path: &Path) -> Result<Option<Header>, StorageError> {
    let read = || {
        let file = files.open(path, OpenOptions::read())?;
        let length = file.length()?.min(SECTOR as u64);
        file.read_vec(0, length as usize)
    };
    let mut bytes = read().map_err(|error| failed("read", path, &error))?;
    bytes.resize(SECTOR, 0);
    let mark = match sector::inspect(&bytes) {
        Sector::Empty => return Ok(None),
        Sector::Written(mark) if mark.group == HEADER_GROUP && mark.left == 0 => mark,
        _ => return Err(corrupt("a segment of the write-ahead log does not begin with its header", path)),
    };
    let mut reader = ByteReader(sector::content(&bytes));
    let fields = reader.u64().zip(reader.u32());
    let (oldest, groups_before) = fields
        .ok_or_else(|| corrupt("a segment of the write-ahead log does not begin with its header", path))?;
    Ok(Some(Header { segment: mark.segment, oldest, groups_before }))
}

/// Nothing in a file without a header may be newer than `last`: a header is on disk before what follows it.
fn check_files_without_header(
    files: &dyn FileSystem,
    paths: &[PathBuf],
    last: u64,
) -> Result<(), StorageError> {
    for path in paths {
        for sector in read_all(files, path)?.chunks_exact(SECTOR) {
            match sector::inspect(sector) {
                Sector::Empty => {}
                Sector::Written(mark) if mark.segment <= last => {}
                _ => return Err(corrupt("a segment of the write-ahead log has lost its header", path)),
            }
        }
    }
    Ok(())
}
