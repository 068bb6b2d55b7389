//! Tables: files of rows in the order of their keys, written once and never changed.
//!
//! ```text
//! blocks     rows (block.rs)
//! tail       index (index.rs), number of lines of the filter: u32, filter (filter.rs),
//!            first key, last key (length: u16, bytes), rows: u64, deletions among them: u64
//! foot       where the tail begins: u64, its checksum: u64, MAGIC
//! ```
//!
//! The tail is in memory as long as the table is open. Blocks are read when they are needed and kept by
//! nobody but the page cache of the operating system.

use super::block::{Block, BlockWriter, Place, Row};
use super::filter::{Filter, LINE_BYTES};
use super::index::Index;
use super::{Entry, filter};
use crate::reader::Reader;
use crate::{EngineError, Key, Value};
use bytes::Bytes;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"tepuirow";
const FOOT_BYTES: usize = 24;

/// How much is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// How much a reader's cursor reads at first, and at most: twice as much each time.
const READ_AHEAD: (u64, u64) = (8 << 10, 64 << 10);

/// How much a merge reads at once.
const MERGE_READ: u64 = 256 << 10;

/// Buffers for single blocks up to this size are kept.
const KEPT_BUFFER: usize = 64 << 10;

pub(super) struct Table {
    pub(super) id: u64,
    /// The size of the file.
    pub(super) bytes: u64,
    pub(super) first: Key,
    pub(super) last: Key,
    pub(super) rows: u64,
    /// How many of the rows say that a key was deleted.
    pub(super) deletions: u64,
    path: PathBuf,
    file: File,
    index: Index,
    filter: Filter,
}

impl Table {
    pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
        folder.join(id.to_string())
    }

    pub(super) fn open(folder: &Path, id: u64) -> Result<Self, EngineError> {
        let path = Self::path(folder, id);
        let file = File::open(&path).map_err(|error| failed("open", &path, &error))?;
        // Cursors read as much as they need at once; more would be read in vain.
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        let bytes = file.metadata().map_err(|error| failed("open", &path, &error))?.len();
        let damaged = || damaged(&path);
        let read = |at, length| read(&file, at, length).map_err(|error| failed("read", &path, &error));
        let foot_at = bytes.checked_sub(FOOT_BYTES as u64).ok_or_else(damaged)?;
        let foot = read(foot_at, FOOT_BYTES)?;
        let mut foot = Reader(&foot);
        let (tail_at, checksum) = (foot.u64().ok_or_else(damaged)?, foot.u64().ok_or_else(damaged)?);
        if foot.0 != MAGIC || tail_at > foot_at {
            return Err(damaged());
        }
        let tail = read(tail_at, (foot_at - tail_at) as usize)?;
        if (Place { table: id, offset: tail_at }).checksum(&tail) != checksum {
            return Err(damaged());
        }
        let tail = Tail::read(&mut Reader(&tail)).ok_or_else(damaged)?;
        if tail.index.place(tail.index.len() - 1).1 != tail_at {
            return Err(damaged());
        }
        let Tail { index, filter, first, last, rows, deletions } = tail;
        Ok(Self { id, bytes, first, last, rows, deletions, path, file, index, filter })
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Whether the key lies between the first and the last one.
    pub(super) fn spans(&self, key: &[u8]) -> bool {
        self.first <= key && self.last >= key
    }

    /// `hash` is that of the key.
    pub(super) fn get(&self, key: &[u8], hash: u64) -> Result<Option<Entry>, EngineError> {
        if !self.filter.may_hold(hash) {
            return Ok(None);
        }
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let (begin, end) = self.index.place(self.index.block_of(key));
        let length = (end - begin) as usize;
        if length > KEPT_BUFFER {
            return self.get_in(&mut vec![0; length], begin, key);
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            self.get_in(&mut buffer[..length], begin, key)
        })
    }

    /// Looks for the key in the block that begins there and is as long as `buffer`.
    fn get_in(&self, buffer: &mut [u8], begin: u64, key: &[u8]) -> Result<Option<Entry>, EngineError> {
        let damaged = || damaged(&self.path);
        read_into(&self.file, begin, buffer).map_err(|error| failed("read", &self.path, &error))?;
        let block = Block::check(buffer, 0..buffer.len(), self.place(begin)).ok_or_else(damaged)?;
        let index = block.find(buffer, key).ok_or_else(damaged)?;
        if index == block.count() {
            return Ok(None);
        }
        let row = block.row(buffer, index).ok_or_else(damaged)?;
        if buffer.get(row.key).ok_or_else(damaged)? != key {
            return Ok(None);
        }
        let value = row.value.map(|value| buffer.get(value).map(Value::copy_from_slice).ok_or_else(damaged));
        Ok(Some(value.transpose()?))
    }

    fn place(&self, offset: u64) -> Place {
        Place { table: self.id, offset }
    }
}

/// What is known of a table without its blocks.
struct Tail {
    index: Index,
    filter: Filter,
    first: Key,
    last: Key,
    rows: u64,
    deletions: u64,
}

impl Tail {
    fn write(&self, out: &mut Vec<u8>) {
        self.index.write(out);
        out.extend_from_slice(&(self.filter.len() as u32).to_le_bytes());
        self.filter.bytes().for_each(|word| out.extend_from_slice(&word));
        for key in [&self.first, &self.last] {
            out.extend_from_slice(&(key.len() as u16).to_le_bytes());
            out.extend_from_slice(key);
        }
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.deletions.to_le_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        let index = Index::read(bytes)?;
        let lines = bytes.u32()? as usize;
        let filter = Filter::read(bytes.take(lines.checked_mul(LINE_BYTES)?)?)?;
        let mut key = || {
            let length = bytes.u16()?;
            bytes.take(usize::from(length)).map(Key::copy_from_slice)
        };
        let (first, last) = (key()?, key()?);
        let tail = Self { index, filter, first, last, rows: bytes.u64()?, deletions: bytes.u64()? };
        (bytes.0.is_empty() && tail.first <= tail.last).then_some(tail)
    }
}

/// Goes through the rows of a table in their order.
pub(super) struct TableCursor {
    table: Arc<Table>,
    /// Several blocks, read at once, and where they begin in the file.
    chunk: Bytes,
    chunk_at: u64,
    /// The block of `row`, its number, and the first one that is not in `chunk`.
    block: Block,
    block_number: usize,
    chunk_end: usize,
    /// Blocks from this one on are not wanted.
    end: usize,
    index: usize,
    /// `None`: there are no more rows.
    row: Option<Row>,
    read_ahead: u64,
}

impl TableCursor {
    /// Stands at the first key that is not before `from`. Rows after `to` may be left out.
    pub(super) fn new(table: Arc<Table>, from: &[u8], to: Option<&[u8]>) -> Result<Self, EngineError> {
        let begin = table.index.block_of(from);
        let end = to.map_or(table.index.len(), |to| table.index.block_of(to) + 1);
        let mut cursor = Self::at(table, begin, end, READ_AHEAD.0)?;
        cursor.index = cursor.block.find(&cursor.chunk, from).ok_or_else(|| cursor.damaged())?;
        cursor.settle()?;
        Ok(cursor)
    }

    /// Stands at the first row of all and reads as much as it can at once.
    pub(super) fn through(table: Arc<Table>) -> Result<Self, EngineError> {
        let end = table.index.len();
        let mut cursor = Self::at(table, 0, end, MERGE_READ)?;
        cursor.settle()?;
        Ok(cursor)
    }

    fn at(table: Arc<Table>, begin: usize, end: usize, read_ahead: u64) -> Result<Self, EngineError> {
        let mut cursor = Self {
            table,
            chunk: Bytes::new(),
            chunk_at: 0,
            block: Block::default(),
            block_number: begin,
            chunk_end: begin,
            end: end.max(begin + 1),
            index: 0,
            row: None,
            read_ahead,
        };
        cursor.enter_block()?;
        Ok(cursor)
    }

    pub(super) fn key(&self) -> Option<&[u8]> {
        self.row.as_ref().map(|row| &self.chunk[row.key.clone()])
    }

    pub(super) fn value(&self) -> Option<&[u8]> {
        self.row.as_ref()?.value.clone().map(|value| &self.chunk[value])
    }

    /// The row that the cursor stands at, without a copy.
    pub(super) fn row(&self) -> Option<(Key, Entry)> {
        let Row { key, value } = self.row.clone()?;
        Some((self.chunk.slice(key), value.map(|value| self.chunk.slice(value))))
    }

    pub(super) fn advance(&mut self) -> Result<(), EngineError> {
        self.index += 1;
        self.settle()
    }

    /// Finds the row at `index`, in the next block if this one has no more.
    fn settle(&mut self) -> Result<(), EngineError> {
        while self.index >= self.block.count() {
            self.block_number += 1;
            if self.block_number >= self.end {
                self.row = None;
                return Ok(());
            }
            self.enter_block()?;
            self.index = 0;
        }
        let row = self.block.row(&self.chunk, self.index).ok_or_else(|| self.damaged())?;
        self.row = Some(row);
        Ok(())
    }

    fn enter_block(&mut self) -> Result<(), EngineError> {
        let (begin, end) = self.table.index.place(self.block_number);
        if self.block_number >= self.chunk_end {
            let blocks = self.table.index.blocks_in(self.block_number, self.read_ahead);
            self.chunk_end = (self.block_number + blocks).min(self.end);
            let (_, chunk_end) = self.table.index.place(self.chunk_end - 1);
            let chunk = read(&self.table.file, begin, (chunk_end - begin) as usize);
            self.chunk = chunk.map_err(|error| failed("read", &self.table.path, &error))?.into();
            self.chunk_at = begin;
            self.read_ahead = (self.read_ahead * 2).min(READ_AHEAD.1.max(self.read_ahead));
        }
        let part = (begin - self.chunk_at) as usize..(end - self.chunk_at) as usize;
        let block = Block::check(&self.chunk, part, self.table.place(begin));
        self.block = block.ok_or_else(|| self.damaged())?;
        Ok(())
    }

    fn damaged(&self) -> EngineError {
        damaged(&self.table.path)
    }
}

/// Writes a table. What is not finished is removed.
pub(super) struct TableWriter {
    folder: PathBuf,
    id: u64,
    file: File,
    block_bytes: usize,
    out: Vec<u8>,
    /// How much is in the file, or in `out`.
    length: u64,
    block: BlockWriter,
    block_first: Vec<u8>,
    /// The last key of the block before.
    last_before: Option<Vec<u8>>,
    first: Key,
    last: Vec<u8>,
    index: Index,
    hashes: Vec<u64>,
    deletions: u64,
    finished: bool,
}

impl TableWriter {
    pub(super) fn new(folder: &Path, id: u64, block_bytes: usize) -> Result<Self, EngineError> {
        let path = Table::path(folder, id);
        let file = File::create(&path).map_err(|error| failed("create", &path, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            id,
            file,
            block_bytes,
            out: Vec::with_capacity(WRITE_BYTES + block_bytes),
            length: 0,
            block: BlockWriter::default(),
            block_first: Vec::new(),
            last_before: None,
            first: Key::new(),
            last: Vec::new(),
            index: Index::default(),
            hashes: Vec::new(),
            deletions: 0,
            finished: false,
        })
    }

    /// The rows must come in the order of their keys.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), EngineError> {
        if self.hashes.is_empty() {
            self.first = Key::copy_from_slice(key);
        }
        if self.block.is_empty() {
            replace(&mut self.block_first, key);
        }
        self.block.push(key, value);
        replace(&mut self.last, key);
        self.hashes.push(filter::hash(key));
        self.deletions += u64::from(value.is_none());
        if self.block.len() >= self.block_bytes {
            self.finish_block()?;
        }
        Ok(())
    }

    /// How large the table is by now.
    pub(super) fn len(&self) -> u64 {
        self.length + self.block.len() as u64
    }

    fn finish_block(&mut self) -> Result<(), EngineError> {
        let before = self.out.len();
        self.block.finish(Place { table: self.id, offset: self.length }, &mut self.out);
        self.length += (self.out.len() - before) as u64;
        self.index.push(self.last_before.as_deref(), &self.block_first, self.length);
        replace(self.last_before.get_or_insert_default(), &self.last);
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), EngineError> {
        let written = self.file.write_all(&self.out);
        written.map_err(|error| failed("write", &Table::path(&self.folder, self.id), &error))?;
        self.out.clear();
        Ok(())
    }

    /// The table is on disk when this returns, but not yet its name. There must be a row.
    pub(super) fn finish(mut self) -> Result<Table, EngineError> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let tail = Tail {
            index: std::mem::take(&mut self.index),
            filter: Filter::new(&self.hashes),
            first: std::mem::take(&mut self.first),
            last: Key::copy_from_slice(&self.last),
            rows: self.hashes.len() as u64,
            deletions: self.deletions,
        };
        let before = self.out.len();
        tail.write(&mut self.out);
        let checksum = Place { table: self.id, offset: self.length }.checksum(&self.out[before..]);
        self.out.extend_from_slice(&self.length.to_le_bytes());
        self.out.extend_from_slice(&checksum.to_le_bytes());
        self.out.extend_from_slice(&MAGIC);
        self.write_out()?;
        let path = Table::path(&self.folder, self.id);
        self.file.sync_all().map_err(|error| failed("sync", &path, &error))?;
        self.finished = true;
        Table::open(&self.folder, self.id)
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed now is when the directory is opened again.
            let _ = std::fs::remove_file(Table::path(&self.folder, self.id));
        }
    }
}

fn replace(held: &mut Vec<u8>, bytes: &[u8]) {
    held.clear();
    held.extend_from_slice(bytes);
}

/// So many bytes of the file.
#[cfg(unix)]
fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    // Not filled with zeros first, as a slice would have to be.
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = offset + bytes.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(not(unix))]
fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    read_into(file, offset, &mut bytes)?;
    Ok(bytes)
}

#[cfg(unix)]
fn read_into(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_into(file: &File, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                offset += count as u64;
                buffer = &mut buffer[count..];
            }
        }
    }
    Ok(())
}

fn damaged(path: &Path) -> EngineError {
    EngineError::Corrupt(format!("a table is damaged: {}", path.display()))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    crate::store::io_error(error, &format!("cannot {what} a table: {error}: {}", path.display()))
}
