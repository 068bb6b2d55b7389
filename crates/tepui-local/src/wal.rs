//! The write-ahead log (WAL): batches that are committed and not flushed to tables yet. On disk it is the folder `journal`.
//!
//! The log consists of segments, one for each memtable. A segment consists of groups, each written with one call and synced
//! before the next. A segment reuses the file of an older one if it can: overwriting a file that has its size already takes
//! half as long to fsync as growing it, and does not wait for other work of the file system.
//!
//! The first group of a segment is its header: which segments are needed with it, which one came before, and how many groups
//! that one has. The manifest names a segment before anything in it is acknowledged. So a missing or shortened segment is
//! detected, and a segment that the manifest does not lead to was never used.
//!
//! An incomplete group at the end of the last segment is a torn write: it was not acknowledged, and is ignored for good. Any
//! other difference from what was written is damage: opening fails and names the file.
//!
//! After a failed write the log continues in a new segment, whose header excludes the group that failed. Whatever reaches the
//! disk of that group, it was never committed.

mod batch;
pub(crate) mod format_3;
mod recovery;
mod sector;

pub(crate) use batch::WriteBatch;

use crate::lsm::{DirectoryState, ManifestError, SeqNo, WalPosition};
use recovery::{NeededSegment, SegmentFile, SegmentHeader};
use sector::{GroupBuffer, PAGE};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{Create, File, FileSystem, OpenOptions};
use tepui_storage::{StorageError, Write};

/// The group that is the header of a segment.
const HEADER_GROUP: u32 = 0;

/// Files are preallocated in steps of at most this.
const MAX_GROWTH: u64 = 4 << 20;

/// How many zeros are written with one call.
const ZEROS: usize = 256 << 10;

/// How many files are kept for reuse.
const SPARE_FILES: usize = 2;

pub(crate) struct Wal {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    /// Files are preallocated in steps of this.
    growth: u64,
    /// Segments that are needed and no longer written, the oldest first.
    sealed: VecDeque<(u64, LogFile)>,
    /// `None`: the log was read, and nothing was written yet.
    current: Option<ActiveSegment>,
    /// Segments that were flushed. The current header still names them, so they stay until the next one is written.
    released: Vec<LogFile>,
    spare: Vec<LogFile>,
    /// Files named by a manifest of which it is unknown whether it was written. Reusable once another one was.
    uncertain: Vec<LogFile>,
    /// The highest segment number ever used.
    highest: u64,
    /// How many groups the last of `sealed` has.
    groups: u32,
    /// The last batch that was read, if it may not be on disk: a killed process leaves it in the page cache. The next segment
    /// repeats it.
    carried: Option<WriteBatch>,
    group: GroupBuffer,
}

/// A file that holds, or may hold, a segment.
struct LogFile {
    path: PathBuf,
    length: u64,
}

struct ActiveSegment {
    segment: u64,
    file: LogFile,
    handle: Box<dyn File>,
    /// The offset of the next group.
    end: u64,
    growth: u64,
    /// How many groups were synced.
    groups: u32,
}

/// A segment that is on disk and that the manifest does not name yet.
pub(crate) struct NewSegment(ActiveSegment);

impl NewSegment {
    pub(crate) fn segment(&self) -> u64 {
        self.0.segment
    }
}

impl Wal {
    /// Reads the log. `each` gets every batch after `flushed`, in order. The log must be the one that the manifest names; in a
    /// new directory it must be empty.
    pub(crate) fn read(
        files: &Arc<dyn FileSystem>,
        folder: &Path,
        segment_bytes: u64,
        expected: (DirectoryState, WalPosition),
        flushed: SeqNo,
        mut each: impl FnMut(WriteBatch),
    ) -> Result<Self, StorageError> {
        let (state, end) = expected;
        let mut found = recovery::find(&**files, folder)?;
        let highest =
            found.iter().filter_map(|file| Some(file.header?.segment)).max().unwrap_or(0).max(end.segment);
        if state == DirectoryState::New {
            for file in &found {
                recovery::check_no_batches(&**files, &file.path)?;
            }
        }
        let mut wal = Self {
            files: Arc::clone(files),
            folder: folder.to_owned(),
            growth: segment_bytes.clamp(PAGE as u64, MAX_GROWTH).next_multiple_of(PAGE as u64),
            sealed: VecDeque::new(),
            current: None,
            released: Vec::new(),
            spare: Vec::new(),
            uncertain: Vec::new(),
            highest,
            groups: 0,
            carried: None,
            group: GroupBuffer::default(),
        };
        let mut last_seq_no = None;
        for NeededSegment { file, header, expected_groups, carries } in
            recovery::needed_segments(&mut found, end, folder)?
        {
            let mut newest = 0;
            let mut is_first = true;
            let mut gap = false;
            let is_last = header.segment == end.segment;
            let groups =
                recovery::read_segment(&**files, &file.path, header.segment, &expected_groups, |batch| {
                    newest = batch.seq_no;
                    // The first batch of a segment may repeat the last one of the segment before.
                    let is_repeated =
                        std::mem::take(&mut is_first) && carries && last_seq_no == Some(batch.seq_no);
                    let follows =
                        last_seq_no.map_or(batch.seq_no <= flushed + 1, |last| batch.seq_no == last + 1);
                    gap |= !is_repeated && !follows;
                    last_seq_no = Some(batch.seq_no);
                    if is_last && end.groups.is_none() {
                        wal.carried = (batch.seq_no > flushed).then(|| batch.clone());
                    }
                    if batch.seq_no > flushed && !is_repeated {
                        each(batch);
                    }
                })?;
            if gap {
                return Err(recovery::corrupt("commits are missing before those in this file", &file.path));
            }
            wal.groups = groups;
            let file = LogFile { path: file.path, length: file.length };
            // Everything in it was flushed, and everything before it too.
            if newest <= flushed && wal.sealed.is_empty() {
                wal.released.push(file);
            } else {
                wal.sealed.push_back((header.segment, file));
            }
        }
        let file = |file: SegmentFile| LogFile { path: file.path, length: file.length };
        wal.spare = found.into_iter().map(file).collect();
        Ok(wal)
    }

    /// Writes a batch, which is durable when this returns. After a failure nothing more can be written to this segment.
    pub(crate) fn write(&mut self, seq_no: SeqNo, writes: &[Write]) -> io::Result<()> {
        let current = self.current.as_mut().ok_or_else(|| io::Error::other("the log has no segment yet"))?;
        current.append(&mut self.group, seq_no, writes)?;
        current.sync()
    }

    /// The number of the active segment; 0 if there is none yet.
    pub(crate) fn segment(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.segment)
    }

    /// The active segment, and how far it was written.
    pub(crate) fn end(&self) -> Option<WalPosition> {
        let current = self.current.as_ref()?;
        Some(WalPosition { segment: current.segment, groups: Some(current.groups) })
    }

    /// The bytes of the active segment.
    pub(crate) fn bytes(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| current.end)
    }

    /// The bytes of all its files, those kept for reuse as well.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let files = self.sealed.iter().map(|(_, file)| file);
        let files = files.chain(self.current.iter().map(|current| &current.file));
        let files = files.chain(&self.released).chain(&self.spare).chain(&self.uncertain);
        files.map(|file| file.length).sum()
    }

    /// How many segments are needed.
    pub(crate) fn segments(&self) -> usize {
        self.sealed.len() + 1
    }

    /// Writes the header of the next segment, which the manifest is to name before [`Wal::switch_to`].
    pub(crate) fn create_segment(&mut self) -> io::Result<NewSegment> {
        // Never the same number twice: what is on disk of a failed one is unknown.
        self.highest += 1;
        let last = self.sealed.back().map(|(last, _)| (*last, self.groups));
        let last = self.current.as_ref().map(|current| (current.segment, current.groups)).or(last);
        let (previous, groups_before) = last.unwrap_or((0, 0));
        let carried = self.carried.as_ref().filter(|_| self.current.is_none() && last.is_some());
        let oldest = self.sealed.front().map(|(oldest, _)| *oldest);
        let oldest = oldest.or(last.map(|(last, _)| last)).unwrap_or(self.highest);
        let header = SegmentHeader {
            segment: self.highest,
            oldest,
            previous,
            groups_before,
            carries: carried.is_some(),
        };
        let in_use =
            self.sealed.iter().map(|(_, file)| file).chain(self.current.iter().map(|current| &current.file));
        let in_use = in_use.chain(&self.released).chain(&self.uncertain);
        let file = next_file(&self.folder, &mut self.spare, in_use);
        let kept = LogFile { path: file.path.clone(), length: 0 };
        let create = || {
            let mut next = ActiveSegment::create(
                &*self.files,
                &self.folder,
                self.growth,
                header,
                file,
                &mut self.group,
            )?;
            if self.current.is_none() {
                // The names of files that were found may not be durable yet.
                self.files.sync_directory(&self.folder)?;
            }
            if let Some(WriteBatch { seq_no, writes }) = carried {
                next.append(&mut self.group, *seq_no, writes)?;
                next.sync()?;
            }
            Ok(NewSegment(next))
        };
        let created = create();
        if created.is_err() {
            self.spare.push(kept);
        }
        created
    }

    /// Makes a segment the active one. The manifest names it.
    pub(crate) fn switch_to(&mut self, NewSegment(next): NewSegment) {
        self.carried = None;
        if let Some(done) = self.current.replace(next) {
            self.sealed.push_back((done.segment, done.file));
        }
        // Only the header of the segment before has named these.
        self.spare.append(&mut self.released);
        self.spare.append(&mut self.uncertain);
        for file in self.spare.drain(SPARE_FILES.min(self.spare.len())..) {
            if let Err(error) = self.files.remove_file(&file.path) {
                tracing::warn!(%error, path = %file.path.display(), "cannot remove a file of the write-ahead log");
            }
        }
    }

    /// Gives up a segment after the write of its manifest has failed.
    pub(crate) fn abandon(&mut self, NewSegment(segment): NewSegment, error: &ManifestError) {
        match error {
            ManifestError::NotWritten(_) => self.spare.push(segment.file),
            ManifestError::Unknown(_) => self.uncertain.push(segment.file),
        }
    }

    /// The segments up to this one were flushed.
    pub(crate) fn release(&mut self, segment: u64) {
        while self.sealed.front().is_some_and(|(sealed, _)| *sealed <= segment) {
            self.released.extend(self.sealed.pop_front().map(|(_, file)| file));
        }
    }
}

impl ActiveSegment {
    /// Starts a segment in a file. Durable when this returns.
    fn create(
        files: &dyn FileSystem,
        folder: &Path,
        growth: u64,
        header: SegmentHeader,
        file: LogFile,
        group: &mut GroupBuffer,
    ) -> io::Result<Self> {
        let is_new = file.length == 0;
        let handle = open_file(files, &file.path)?;
        let mut current =
            Self { segment: header.segment, file, handle, end: 0, growth, groups: HEADER_GROUP };
        match current.put_header(group, header) {
            // Some file systems refuse direct I/O only when they are written to.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                current.handle = files.open(&current.file.path, OpenOptions::write())?;
                current.put_header(group, header)?;
            }
            put => put?,
        }
        current.handle.sync_all()?;
        current.groups += 1;
        if is_new {
            files.sync_directory(folder)?;
        }
        Ok(current)
    }

    fn put_header(&mut self, group: &mut GroupBuffer, header: SegmentHeader) -> io::Result<()> {
        // An earlier attempt may have moved it.
        self.end = 0;
        group.clear();
        group.put(&header.content());
        self.put(group)
    }

    /// Writes a batch, which is durable after [`ActiveSegment::sync`].
    fn append(&mut self, group: &mut GroupBuffer, seq_no: SeqNo, writes: &[Write]) -> io::Result<()> {
        group.clear();
        batch::put(group, seq_no, writes);
        self.put(group)
    }

    fn put(&mut self, group: &mut GroupBuffer) -> io::Result<()> {
        let bytes = group.finish(self.segment, self.groups);
        self.handle.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        if self.end > self.file.length {
            self.grow()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.handle.sync_data()?;
        self.groups += 1;
        Ok(())
    }

    /// Preallocates by writing zeros: space that is only reserved would change the metadata of the file with every group.
    fn grow(&mut self) -> io::Result<()> {
        let zeros = vec![0; ZEROS + PAGE];
        let zeros = &zeros[zeros.as_ptr().align_offset(PAGE)..][..ZEROS];
        let length = self.end.next_multiple_of(self.growth);
        self.file.length = self.end;
        while self.file.length < length {
            let count = (length - self.file.length).min(ZEROS as u64);
            self.handle.write_all_at(&zeros[..count as usize], self.file.length)?;
            self.file.length += count;
        }
        Ok(())
    }
}

/// Opens a file for writing, with direct I/O where possible: the log is not read, so the page cache is of no use.
fn open_file(files: &dyn FileSystem, path: &Path) -> io::Result<Box<dyn File>> {
    let options = OpenOptions::create(Create::IfMissing);
    files.open(path, options.direct()).or_else(|_| files.open(path, options))
}

/// A file for the next segment: a spare one, or a new one.
fn next_file<'a>(
    folder: &Path,
    spare: &mut Vec<LogFile>,
    in_use: impl Iterator<Item = &'a LogFile>,
) -> LogFile {
    spare.pop().unwrap_or_else(|| {
        let highest = in_use.filter_map(|file| recovery::file_number(&file.path)).max();
        let number = highest.map_or(0, |highest| highest + 1);
        LogFile { path: folder.join(number.to_string()), length: 0 }
    })
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StorageError {
    let message = format!("cannot {what} the write-ahead log: {}", path.display());
    crate::io_error::io_error(error, message)
}

#[cfg(test)]
mod tests;
