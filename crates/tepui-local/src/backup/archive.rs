//! A backup as a tar archive, read and written as a stream.

use super::{BackupSink, CHECKSUMS, Transfer, damaged};
use std::io::{self, Read, Write};

/// No file of checksums is longer: there is a line for each table and for 64 parts of each volume at most.
const MAX_CHECKSUMS_BYTES: u64 = 256 << 20;

/// Writes a backup as an archive. The caller makes it durable.
pub struct TarSink<W: Write> {
    archive: tar::Builder<W>,
}

impl<W: Write> TarSink<W> {
    pub fn new(to: W) -> Self {
        Self { archive: tar::Builder::new(to) }
    }

    /// The stream, once the backup is finished.
    pub fn into_inner(self) -> io::Result<W> {
        self.archive.into_inner()
    }
}

impl<W: Write> BackupSink for TarSink<W> {
    fn file(&mut self, name: &str, length: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(length);
        header.set_mode(0o600);
        // A header promises a length: what is missing is an error before anything else is written.
        let mut counted = Counted { content, left: length };
        self.archive.append_data(&mut header, name, &mut counted)?;
        match counted.left {
            0 => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn finish(&mut self, checksums: &str) -> io::Result<()> {
        self.file(CHECKSUMS, checksums.len() as u64, &mut checksums.as_bytes())?;
        self.archive.finish()?;
        self.archive.get_mut().flush()
    }
}

struct Counted<'a> {
    content: &'a mut dyn Read,
    left: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}

/// Moves a backup out of an archive.
pub fn read_tar(from: impl Read, mut transfer: Transfer<'_>) -> io::Result<()> {
    let mut archive = tar::Archive::new(from);
    for entry in archive.entries()? {
        let mut entry = entry.map_err(not_an_archive)?;
        let path = entry.path()?.into_owned();
        let name = path.to_str().ok_or_else(|| damaged("not a file of a backup"))?;
        if !entry.header().entry_type().is_file() {
            return Err(damaged(&format!("not a file of a backup: {name}")));
        }
        let length = entry.size();
        if name != CHECKSUMS {
            transfer.file(name, length, &mut entry)?;
            continue;
        }
        if length > MAX_CHECKSUMS_BYTES {
            return Err(damaged("its checksums cannot be read"));
        }
        let mut checksums = String::new();
        entry.read_to_string(&mut checksums)?;
        return transfer.finish(Some(&checksums));
    }
    Err(damaged(&format!("it is not complete, or is none: there is no file {CHECKSUMS} in the archive")))
}

fn not_an_archive(error: io::Error) -> io::Error {
    damaged(&format!("the archive cannot be read: {error}"))
}
