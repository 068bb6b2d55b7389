//! Backups: a checkpoint as files, in a directory or in a tar archive.
//!
//! ```text
//! BACKUP                    what it is: see `info.rs`
//! rows/MANIFEST             the manifest, which names no segment of the log
//! rows/ID                   the sorted tables
//! extents/VOLUME/OFFSET     the volumes, without their larger holes
//! CHECKSUMS                 SHA-256 of all files above, as the program `sha256sum` writes it
//! ```
//!
//! CHECKSUMS comes last: without it a backup is not complete. There is no file FORMAT, so that no server takes a backup for a
//! data directory.
//!
//! A backup goes from a source (a [`Checkpoint`], a directory, an archive) to a sink (a directory, an archive, a data directory that is
//! restored) one file after the other, through [`Transfer`], which computes the checksums and compares them.

mod archive;
mod directory;
mod info;
mod restore;

pub use archive::{TarSink, read_tar};
pub use directory::{DirectorySink, read_directory};
pub use restore::RestoreSink;

use crate::checkpoint::Checkpoint;
use info::BackupInfo;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Read};
use tepui_files::{File, OpenOptions};

const INFO: &str = "BACKUP";
const CHECKSUMS: &str = "CHECKSUMS";
const ROWS: &str = "rows";
const EXTENTS: &str = "extents";

/// How much is read with one call.
const BUFFER_BYTES: usize = 256 << 10;

/// Where a backup goes.
pub trait BackupSink {
    /// Takes one file.
    fn file(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<()>;

    /// All files were taken, and these are their checksums. Everything is durable when this returns, if the sink promises that.
    fn finish(&mut self, checksums: &str) -> io::Result<()>;
}

/// Moves a backup from a source to a sink.
pub struct Transfer<'a> {
    sink: &'a mut dyn BackupSink,
    /// Called with the bytes of each step. An error ends the transfer.
    progress: &'a mut dyn FnMut(u64) -> io::Result<()>,
    checksums: String,
}

impl<'a> Transfer<'a> {
    pub fn new(sink: &'a mut dyn BackupSink, progress: &'a mut dyn FnMut(u64) -> io::Result<()>) -> Self {
        Self { sink, progress, checksums: String::new() }
    }

    fn file(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut hashed =
            HashedReader { content, left: length, sha256: Sha256::new(), progress: self.progress };
        self.sink.file(name, length, &mut hashed)?;
        if hashed.left > 0 {
            return Err(damaged(&format!("the file is too short: {name}")));
        }
        for byte in hashed.sha256.finalize() {
            let _ = write!(self.checksums, "{byte:02x}");
        }
        let _ = writeln!(self.checksums, "  {name}");
        Ok(())
    }

    /// `expected`: the checksums of the source, if it has any.
    fn finish(self, expected: Option<&str>) -> io::Result<()> {
        if let Some(expected) = expected
            && expected != self.checksums
        {
            let differing = expected.lines().zip(self.checksums.lines()).find(|(one, other)| one != other);
            let name = differing
                .and_then(|(line, _)| line.split_once("  "))
                .map_or("files are missing", |(_, name)| name);
            return Err(damaged(&format!("a checksum does not match: {name}")));
        }
        self.sink.finish(&self.checksums)
    }
}

struct HashedReader<'a> {
    content: &'a mut (dyn Read + 'a),
    left: u64,
    sha256: Sha256,
    progress: &'a mut (dyn FnMut(u64) -> io::Result<()> + 'a),
}

impl Read for HashedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.content.read(&mut buffer[..wanted])?;
        self.left -= count as u64;
        self.sha256.update(&buffer[..count]);
        (self.progress)(count as u64)?;
        Ok(count)
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the backup is damaged: {what}"))
}

impl Checkpoint {
    /// Writes it as a backup.
    pub fn write_to(&self, mut transfer: Transfer<'_>) -> io::Result<()> {
        let info = BackupInfo::of(self).to_string();
        transfer.file(INFO, info.len() as u64, &mut info.as_bytes())?;
        let (name, mut bytes) = self.tables.manifest();
        transfer.file(&format!("{ROWS}/{name}"), bytes.len() as u64, &mut bytes)?;
        for (id, path, length) in self.tables.tables() {
            let file = self.files.open(path, OpenOptions::read())?;
            let mut reader = FileReader { file: &*file, position: 0, after_end: AfterEnd::Nothing };
            transfer.file(&format!("{ROWS}/{id}"), length, &mut reader)?;
        }
        for volume in self.volumes.iter().filter(|volume| !volume.pieces.is_empty()) {
            let file = volume.open(&*self.files)?;
            for piece in &volume.pieces {
                // What is cut off meanwhile was never finished.
                let mut reader =
                    FileReader { file: &*file, position: piece.start, after_end: AfterEnd::Zeros };
                let name = format!("{EXTENTS}/{}/{}", volume.file.name(), piece.start);
                transfer.file(&name, piece.end - piece.start, &mut reader)?;
            }
        }
        transfer.finish(None)
    }
}

struct FileReader<'a> {
    file: &'a dyn File,
    position: u64,
    after_end: AfterEnd,
}

/// What is read after the end of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterEnd {
    Nothing,
    Zeros,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = self.file.read_at(buffer, self.position)?;
        if count == 0 && self.after_end == AfterEnd::Zeros {
            buffer.fill(0);
            count = buffer.len();
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// Copies to a place in a file.
fn copy_to(
    file: &dyn File,
    mut offset: u64,
    content: &mut dyn Read,
    mut write: impl FnMut(&dyn File, u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let mut filled = 0;
        while filled < buffer.len() {
            match content.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if filled == 0 {
            return Ok(());
        }
        write(file, offset, &buffer[..filled])?;
        offset += filled as u64;
    }
}
