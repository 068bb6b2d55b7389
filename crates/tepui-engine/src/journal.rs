//! Looks at fjall's journals before fjall does.
//!
//! When fjall meets something that it cannot read in a journal, it cuts the journal there, and with
//! it every acknowledged commit that follows. Only the last batch, which a crash interrupted and
//! nobody was told about, may be cut. So the journals are read here first, and anything else that
//! is not as it was written stops the opening and names the file.
//!
//! A journal is a row of batches, then zeros:
//!
//! ```text
//! start  1, number of items: u32, sequence number: u64
//! item   2, kind: u8, compression: u8, keyspace: u64, key length: u16,
//!        value length: u32, stored length: u32, key, value
//! clear  4, keyspace: u64
//! end    3, checksum of the items: u64, "FJL" 3
//! ```

use crate::EngineError;
use crate::directory::sync_directory;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8; 4] = b"FJL\x03";
const START_BYTES: usize = 1 + 4 + 8;
const END_BYTES: usize = 1 + 8 + 4;

/// Sequence numbers rise a little with every batch; a leap is a damaged number.
const MAX_LEAP: u64 = 1 << 32;

/// What the kernel writes as a whole. A power cut leaves such pieces of a file unwritten: zeros.
const PAGE: usize = 4096;

/// Checks every journal in `data`, and cuts what a crash left unfinished at the end of the last.
pub(crate) fn check_all(data: &Path) -> Result<(), EngineError> {
    let journals = list(data)?;
    let mut last_number = None;
    for (index, (_, path)) in journals.iter().enumerate() {
        let is_last = index + 1 == journals.len();
        let bytes = read(path).map_err(|error| failed("read", path, &error))?;
        let end = check(&bytes, &mut last_number, is_last)
            .map_err(|flaw| EngineError::Corrupt(format!("{flaw}: {}", path.display())))?;
        if end < bytes.len() {
            tracing::info!(bytes = bytes.len() - end, path = %path.display(), "cut an unfinished batch");
            cut(path, end as u64).map_err(|error| failed("cut", path, &error))?;
        }
    }
    Ok(())
}

/// Replaces the last journal by a fresh copy of it.
///
/// After a failed sync the kernel may go on showing pages that it dropped, and calls them clean:
/// the next sync succeeds without writing them.
pub(crate) fn rewrite_last(data: &Path) -> Result<(), EngineError> {
    check_all(data)?;
    let Some((_, path)) = list(data)?.pop() else { return Ok(()) };
    let copy = path.with_extension("copy");
    let rewrite = || {
        std::fs::write(&copy, read(&path)?)?;
        File::open(&copy)?.sync_all()?;
        std::fs::rename(&copy, &path)?;
        sync_directory(data)
    };
    rewrite().map_err(|error: io::Error| failed("rewrite", &path, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    EngineError::Failed(format!("cannot {what} the journal: {error}: {}", path.display()))
}

/// The journals by number. fjall removes them from the oldest on, so there are no gaps.
fn list(data: &Path) -> Result<Vec<(u64, PathBuf)>, EngineError> {
    let mut journals = Vec::new();
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journals),
        Err(error) => return Err(failed("list", data, &error)),
    };
    for entry in entries {
        let path = entry.map_err(|error| failed("list", data, &error))?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            let number =
                number.ok_or_else(|| EngineError::Corrupt(format!("not a journal: {}", path.display())))?;
            journals.push((number, path));
        }
    }
    journals.sort();
    for pair in journals.windows(2) {
        let [(first, path), (second, _)] = pair else { continue };
        if first + 1 != *second {
            return Err(EngineError::Corrupt(format!(
                "the journal after this one is missing: {}",
                path.display()
            )));
        }
    }
    Ok(journals)
}

/// Whether nothing was ever written to a journal.
pub(crate) fn is_unwritten(path: &Path) -> io::Result<bool> {
    Ok(read(path)?.is_empty())
}

/// What was written to a journal: all of it but the zeros that it was made with.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let written = written_length(&file)?;
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::with_capacity(written as usize);
    file.take(written).read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    Ok(bytes)
}

/// A new journal is a hole of 64 MiB. What lies behind the last data is not worth reading.
#[cfg(target_os = "linux")]
fn written_length(file: &File) -> io::Result<u64> {
    use rustix::fs::{SeekFrom, seek};
    let length = file.metadata()?.len();
    let mut written = 0;
    while let Ok(start) = seek(file, SeekFrom::Data(written)) {
        written = seek(file, SeekFrom::Hole(start)).unwrap_or(length);
        if written >= length {
            break;
        }
    }
    Ok(written.min(length))
}

#[cfg(not(target_os = "linux"))]
fn written_length(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

fn cut(path: &Path, end: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(end)?;
    file.sync_all()
}

/// Where the whole batches end. `bytes` does not end with a zero.
fn check(bytes: &[u8], last_number: &mut Option<u64>, is_last: bool) -> Result<usize, &'static str> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let flaw = match batch(rest) {
            Ok((length, number)) => {
                let rises = last_number.is_none_or(|last| number > last && number - last < MAX_LEAP);
                if !rises {
                    return Err("the batches of a journal are out of order");
                }
                *last_number = Some(number);
                at += length;
                continue;
            }
            Err(flaw) => flaw,
        };
        // A journal that has a successor was synced as a whole before the successor was made.
        let unfinished = is_last && !has_batch(&rest[1..]) && is_unfinished(rest, at, &flaw);
        return if unfinished { Ok(at) } else { Err("a journal is damaged") };
    }
    Ok(at)
}

#[derive(Debug, PartialEq)]
enum Flaw {
    /// The bytes end too early.
    Short,
    /// A byte is not what could have been written there.
    Wrong,
}

/// The length and the sequence number of the batch that `bytes` begin with.
fn batch(bytes: &[u8]) -> Result<(usize, u64), Flaw> {
    let mut reader = Reader { bytes, at: 0 };
    reader.expect(START)?;
    let items = u32::from_le_bytes(reader.array()?);
    let number = u64::from_le_bytes(reader.array()?);
    for _ in 0..items {
        match reader.byte()? {
            ITEM => {
                // Kinds of value that a batch can hold; and this engine does not compress journals.
                if ![0, 1, 2].contains(&reader.byte()?) || reader.byte()? != 0 {
                    return Err(Flaw::Wrong);
                }
                reader.skip(8)?;
                let key = u16::from_le_bytes(reader.array()?) as usize;
                let value = u32::from_le_bytes(reader.array()?) as usize;
                if u32::from_le_bytes(reader.array()?) as usize != value {
                    return Err(Flaw::Wrong);
                }
                reader.skip(key + value)?;
            }
            CLEAR => reader.skip(8)?,
            _ => return Err(Flaw::Wrong),
        }
    }
    let checksum = xxh3_64(&bytes[START_BYTES..reader.at]);
    reader.expect(END)?;
    if u64::from_le_bytes(reader.array()?) != checksum || reader.array()? != *MAGIC {
        return Err(Flaw::Wrong);
    }
    Ok((reader.at, number))
}

/// Whether a whole batch begins anywhere in `bytes`.
fn has_batch(bytes: &[u8]) -> bool {
    (0..bytes.len())
        .any(|at| bytes[at] == START && looks_like_start(&bytes[at..]) && batch(&bytes[at..]).is_ok())
}

/// A cheap look before the checksum is computed: an item, uncompressed, of one of the few keyspaces.
fn looks_like_start(bytes: &[u8]) -> bool {
    let kind = bytes.get(START_BYTES).copied();
    let keyspace = bytes.get(START_BYTES + 5..START_BYTES + 11);
    kind == Some(CLEAR)
        || (kind == Some(ITEM) && keyspace.is_some_and(|high| high.iter().all(|byte| *byte == 0)))
}

/// Whether the flawed last batch is one that a crash interrupted. `at` is its place in the file.
fn is_unfinished(rest: &[u8], at: usize, flaw: &Flaw) -> bool {
    // The process was killed: the beginning of a batch is there, and nothing after it.
    let has_end = rest.len() >= END_BYTES
        && rest[rest.len() - END_BYTES] == END
        && rest[rest.len() - MAGIC.len()..] == *MAGIC;
    if *flaw == Flaw::Short && !has_end {
        return true;
    }
    // The power was cut: pages of the batch reached the disk in any order, or not at all.
    let mut page = 0;
    while page < rest.len() {
        let next = (at + page + 1).next_multiple_of(PAGE) - at;
        if next <= rest.len() && rest[page..next].iter().all(|byte| *byte == 0) {
            return true;
        }
        page = next;
    }
    false
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn skip(&mut self, count: usize) -> Result<(), Flaw> {
        self.at = self.at.checked_add(count).filter(|at| *at <= self.bytes.len()).ok_or(Flaw::Short)?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let from = self.at;
        self.skip(N)?;
        self.bytes[from..self.at].try_into().map_err(|_| Flaw::Short)
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn expect(&mut self, tag: u8) -> Result<(), Flaw> {
        if self.byte()? == tag { Ok(()) } else { Err(Flaw::Wrong) }
    }
}

#[cfg(test)]
mod tests;
