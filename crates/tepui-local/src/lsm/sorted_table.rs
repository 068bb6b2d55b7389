//! Sorted tables (SSTs): immutable files of rows in key order.
//!
//! ```text
//! blocks     rows (block.rs)
//! tail       index (block_index.rs), cache lines of the Bloom filter: u32, Bloom filter (bloom_filter.rs),
//!            first key, last key (length: u16, bytes), rows: u64, tombstones among them: u64
//! footer     where the tail begins: u64, its checksum: u64, MAGIC
//! ```
//!
//! The tail is in memory as long as the table is open (table_cache.rs). Blocks are read when they are needed and cached by
//! the operating system only.

use super::block::{BlockAddress, DataBlock, DataBlockWriter, RowSpan};
use super::block_index::BlockIndex;
use super::bloom_filter::{BloomFilter, CACHE_LINE_BYTES};
use super::levels::LostRange;
use super::manifest::{put_key, read_key};
use super::table_cache::{OpenGuard, TableCache};
use super::{ReadError, StoredValue, bloom_filter};
use crate::blocking::ReadMode;
use crate::byte_reader::ByteReader;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tepui_files::{Create, File, FileSystem, OpenOptions};
use tepui_storage::{Key, StorageError, StorageErrorKind, Value};

const MAGIC: [u8; 8] = *b"tepuirow";
const FOOTER_BYTES: usize = 24;

/// The extension of a file that was found damaged and is no longer part of the tree.
pub(super) const DAMAGED: &str = "damaged";

/// How much is written with one call.
const WRITE_BYTES: usize = 1 << 20;

/// Read-ahead of a reader's cursor: at first and at most. Doubles with each read.
const READ_AHEAD: (u64, u64) = (8 << 10, 64 << 10);

/// How much a compaction reads with one call.
const COMPACTION_READ_BYTES: u64 = 256 << 10;

/// Buffers for single blocks are reused up to this size.
const MAX_REUSED_BUFFER: usize = 64 << 10;

/// What is known of a table without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableMeta {
    pub(super) id: u64,
    /// The size of the file.
    pub(super) bytes: u64,
    pub(super) rows: u64,
    /// How many of the rows are tombstones.
    pub(super) tombstones: u64,
    pub(super) first: Key,
    pub(super) last: Key,
}

pub(super) struct SortedTable {
    pub(super) meta: TableMeta,
    pub(super) path: PathBuf,
    files: Arc<dyn FileSystem>,
    cache: Arc<TableCache>,
    /// `None`: not open.
    contents: RwLock<Option<Arc<OpenTable>>>,
    /// Held while it is being opened.
    opening: Mutex<()>,
    /// Read from since the cache last asked.
    used: AtomicBool,
    /// A checksum did not match.
    damaged: AtomicBool,
}

/// An open table.
struct OpenTable {
    file: Box<dyn File>,
    index: BlockIndex,
    filter: BloomFilter,
    _counted: OpenGuard,
}

impl SortedTable {
    pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
        folder.join(id.to_string())
    }

    /// A table that the manifest lists. Only the size of its file is checked.
    pub(super) fn listed(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        folder: &Path,
        meta: TableMeta,
    ) -> Result<Self, StorageError> {
        let path = Self::path(folder, meta.id);
        let length = files.open(&path, OpenOptions::read()).and_then(|file| file.length());
        if length.map_err(|error| failed("open", &path, &error))? != meta.bytes {
            return Err(StorageError::corrupt(format!("a table does not have its size: {}", path.display())));
        }
        Ok(Self::new(files, cache, path, meta))
    }

    pub(super) fn new(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        path: PathBuf,
        meta: TableMeta,
    ) -> Self {
        Self {
            meta,
            path,
            files: Arc::clone(files),
            cache: Arc::clone(cache),
            contents: RwLock::new(None),
            opening: Mutex::new(()),
            used: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        }
    }

    /// Opens the table if need be.
    fn contents(self: &Arc<Self>, mode: ReadMode) -> Result<Arc<OpenTable>, ReadError> {
        if let Some(contents) = &*self.contents.read() {
            return Ok(Arc::clone(contents));
        }
        if mode == ReadMode::Cached {
            return Err(ReadError::WouldBlock);
        }
        let _opening = self.opening.lock();
        if let Some(contents) = &*self.contents.read() {
            return Ok(Arc::clone(contents));
        }
        let contents = Arc::new(self.load()?);
        *self.contents.write() = Some(Arc::clone(&contents));
        self.cache.opened(self);
        Ok(contents)
    }

    /// A table of which only the size is known.
    pub(super) fn found(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        folder: &Path,
        id: u64,
        bytes: u64,
    ) -> Result<Self, StorageError> {
        let unknown = TableMeta { id, bytes, rows: 0, tombstones: 0, first: Key::new(), last: Key::new() };
        let mut table = Self::listed(files, cache, folder, unknown)?;
        let (_, TableTail { first, last, rows, tombstones, .. }, _) = table.open()?;
        table.meta = TableMeta { id, bytes, rows, tombstones, first, last };
        Ok(table)
    }

    fn load(&self) -> Result<OpenTable, StorageError> {
        let (file, TableTail { index, filter, first, last, .. }, bytes) = self.open()?;
        if (first, last) != (self.meta.first.clone(), self.meta.last.clone()) {
            return Err(self.damaged());
        }
        Ok(OpenTable { file, index, filter, _counted: self.cache.count(bytes) })
    }

    /// The file, its tail, and the length of the tail.
    pub(super) fn open(&self) -> Result<(Box<dyn File>, TableTail, u64), StorageError> {
        let path = &self.path;
        let file =
            self.files.open(path, OpenOptions::read()).map_err(|error| failed("open", path, &error))?;
        // Cursors do their own read-ahead.
        file.advise_random_reads();
        let damaged = || self.damaged();
        let read = |at, length| file.read_vec(at, length).map_err(|error| failed("read", path, &error));
        let footer_at = self.meta.bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(damaged)?;
        let footer = read(footer_at, FOOTER_BYTES)?;
        let mut footer = ByteReader(&footer);
        let (tail_at, checksum) = (footer.u64().ok_or_else(damaged)?, footer.u64().ok_or_else(damaged)?);
        if footer.0 != MAGIC || tail_at > footer_at {
            return Err(damaged());
        }
        let tail = read(tail_at, (footer_at - tail_at) as usize)?;
        if self.address(tail_at).checksum(&tail) != checksum {
            return Err(damaged());
        }
        let bytes = tail.len() as u64;
        let tail = TableTail::read(&mut ByteReader(&tail)).ok_or_else(damaged)?;
        if tail.index.block_range(tail.index.len() - 1).1 != tail_at {
            return Err(damaged());
        }
        Ok((file, tail, bytes))
    }

    /// Opens it before the first reader needs it.
    pub(super) fn preload(self: &Arc<Self>) {
        if let Err(error) = self.contents(ReadMode::Blocking) {
            tracing::warn!(%error, table = self.meta.id, "cannot open a new table yet");
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.contents.read().is_some()
    }

    /// Whether it was read from since the last call.
    pub(super) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Closes the file once no reader holds it. It is opened again when needed.
    pub(super) fn close(&self) {
        drop(self.contents.write().take());
    }

    /// Removes the file. A damaged one is renamed instead, for analysis.
    pub(super) fn remove(&self) -> io::Result<()> {
        match self.damaged.load(Ordering::Relaxed) {
            false => self.files.remove_file(&self.path),
            true => self.files.rename(&self.path, &self.path.with_extension(DAMAGED)),
        }
    }

    /// Whether the key lies between the first and the last one.
    pub(super) fn spans(&self, key: &[u8]) -> bool {
        self.meta.first <= key && self.meta.last >= key
    }

    /// `hash` is that of the key.
    pub(super) fn get(
        self: &Arc<Self>,
        key: &[u8],
        hash: u64,
        mode: ReadMode,
    ) -> Result<Option<StoredValue>, ReadError> {
        let contents = self.contents(mode)?;
        if !contents.filter.may_contain(hash) {
            return Ok(None);
        }
        self.mark_used();
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let (begin, end) = contents.index.block_range(contents.index.block_of(key));
        let length = (end - begin) as usize;
        if length > MAX_REUSED_BUFFER {
            return self.get_in(&contents, &mut vec![0; length], begin, key, mode);
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            self.get_in(&contents, &mut buffer[..length], begin, key, mode)
        })
    }

    fn mark_used(&self) {
        // Stored only if it changes: every read comes by here.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Looks for the key in the block at `begin`, which is as long as `buffer`.
    fn get_in(
        &self,
        contents: &OpenTable,
        buffer: &mut [u8],
        begin: u64,
        key: &[u8],
        mode: ReadMode,
    ) -> Result<Option<StoredValue>, ReadError> {
        let damaged = || self.damaged();
        self.read_into(contents, buffer, begin, mode)?;
        let block = DataBlock::check(buffer, 0..buffer.len(), self.address(begin)).ok_or_else(damaged)?;
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

    fn read_into(
        &self,
        contents: &OpenTable,
        buffer: &mut [u8],
        begin: u64,
        mode: ReadMode,
    ) -> Result<(), ReadError> {
        let read = match mode {
            ReadMode::Blocking => contents.file.read_exact_at(buffer, begin).map(|()| true),
            ReadMode::Cached => contents.file.read_cached_at(buffer, begin),
        };
        match read {
            Ok(true) => Ok(()),
            Ok(false) => Err(ReadError::WouldBlock),
            Err(error) => Err(failed("read", &self.path, &error).into()),
        }
    }

    pub(super) fn address(&self, offset: u64) -> BlockAddress {
        BlockAddress { table: self.meta.id, offset }
    }

    fn damaged(&self) -> StorageError {
        self.damaged.store(true, Ordering::Relaxed);
        StorageError::corrupt(format!("a table is damaged: {}", self.path.display()))
    }
}

/// Everything but the blocks.
pub(super) struct TableTail {
    pub(super) index: BlockIndex,
    pub(super) filter: BloomFilter,
    pub(super) first: Key,
    pub(super) last: Key,
    pub(super) rows: u64,
    pub(super) tombstones: u64,
}

impl TableTail {
    fn write(&self, out: &mut Vec<u8>) {
        self.index.write(out);
        out.extend_from_slice(&(self.filter.len() as u32).to_le_bytes());
        self.filter.bytes().for_each(|word| out.extend_from_slice(&word));
        put_key(out, &self.first);
        put_key(out, &self.last);
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.tombstones.to_le_bytes());
    }

    fn read(bytes: &mut ByteReader<'_>) -> Option<Self> {
        let index = BlockIndex::read(bytes)?;
        let lines = bytes.u32()? as usize;
        let filter = BloomFilter::read(bytes.take(lines.checked_mul(CACHE_LINE_BYTES)?)?)?;
        let (first, last) = (read_key(bytes)?, read_key(bytes)?);
        let tail = Self { index, filter, first, last, rows: bytes.u64()?, tombstones: bytes.u64()? };
        (bytes.0.is_empty() && tail.first <= tail.last).then_some(tail)
    }
}

/// Iterates over the rows of a table in key order.
pub(super) struct TableCursor {
    table: Arc<SortedTable>,
    contents: Arc<OpenTable>,
    mode: ReadMode,
    /// Several blocks, read with one call, and where they begin in the file.
    chunk: Bytes,
    chunk_at: u64,
    /// The block of `row`, its number, and the first one that is not in `chunk`.
    block: DataBlock,
    block_number: usize,
    chunk_end: usize,
    /// The first block that is not read.
    end: usize,
    index: usize,
    /// `None`: there are no more rows.
    row: Option<RowSpan>,
    read_ahead: u64,
    /// Where damaged blocks are recorded, for compactions. `None`: damage is an error.
    lost: Option<LostRanges>,
}

/// Ranges found damaged during a compaction.
pub(super) type LostRanges = Arc<Mutex<Vec<LostRange>>>;

impl TableCursor {
    /// Starts at the first key that is not before `from`. May end at the first key after `to`.
    pub(super) fn new(
        table: Arc<SortedTable>,
        from: &[u8],
        to: Option<&[u8]>,
        mode: ReadMode,
    ) -> Result<Self, ReadError> {
        table.mark_used();
        let contents = table.contents(mode)?;
        let begin = contents.index.block_of(from);
        let end = to.map_or(contents.index.len(), |to| contents.index.block_of(to) + 1);
        let mut cursor = Self::at(table, contents, begin, end, READ_AHEAD.0, mode, None)?;
        cursor.index = cursor.block.find(&cursor.chunk, from).ok_or_else(|| cursor.damaged())?;
        cursor.load_row()?;
        Ok(cursor)
    }

    /// Reads the whole table with large reads. Skips damaged blocks and records them in `lost`. `None`: no row can be read.
    pub(super) fn for_compaction(
        table: Arc<SortedTable>,
        lost: &LostRanges,
    ) -> Result<Option<Self>, StorageError> {
        let contents = match table.contents(ReadMode::Blocking) {
            Err(ReadError::Storage(error)) if error.kind() == StorageErrorKind::Corrupt => {
                tracing::error!(%error, "a table cannot be read: its rows are lost");
                let range = LostRange::up_to(table.meta.first.clone(), &table.meta.last);
                lost.lock().push(range);
                return Ok(None);
            }
            contents => contents.map_err(StorageError::from)?,
        };
        let end = contents.index.len();
        let lost = Some(Arc::clone(lost));
        let mut cursor = Self::at(table, contents, 0, end, COMPACTION_READ_BYTES, ReadMode::Blocking, lost)?;
        cursor.load_row()?;
        Ok(Some(cursor))
    }

    fn at(
        table: Arc<SortedTable>,
        contents: Arc<OpenTable>,
        begin: usize,
        end: usize,
        read_ahead: u64,
        mode: ReadMode,
        lost: Option<LostRanges>,
    ) -> Result<Self, ReadError> {
        let mut cursor = Self {
            table,
            contents,
            mode,
            chunk: Bytes::new(),
            chunk_at: 0,
            block: DataBlock::default(),
            block_number: begin,
            chunk_end: begin,
            end: end.max(begin + 1),
            index: 0,
            row: None,
            read_ahead,
            lost,
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

    /// The current row, without a copy.
    pub(super) fn row(&self) -> Option<(Key, StoredValue)> {
        let RowSpan { key, value } = self.row.clone()?;
        Some((self.chunk.slice(key), value.map(|value| self.chunk.slice(value))))
    }

    pub(super) fn advance(&mut self) -> Result<(), ReadError> {
        self.index += 1;
        self.load_row()
    }

    /// Loads the row at `index`, from the next block if this one is exhausted.
    fn load_row(&mut self) -> Result<(), ReadError> {
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

    fn enter_block(&mut self) -> Result<(), ReadError> {
        let index = &self.contents.index;
        let (begin, end) = index.block_range(self.block_number);
        if self.block_number >= self.chunk_end {
            let blocks = index.blocks_in(self.block_number, self.read_ahead);
            let chunk_end = (self.block_number + blocks).min(self.end);
            let (_, end) = index.block_range(chunk_end - 1);
            let length = (end - begin) as usize;
            self.chunk = match self.mode {
                ReadMode::Blocking => {
                    let read = self.contents.file.read_vec(begin, length);
                    read.map_err(|error| failed("read", &self.table.path, &error))?.into()
                }
                ReadMode::Cached => {
                    let mut chunk = vec![0; length];
                    self.table.read_into(&self.contents, &mut chunk, begin, self.mode)?;
                    chunk.into()
                }
            };
            self.chunk_end = chunk_end;
            self.chunk_at = begin;
            self.read_ahead = (self.read_ahead * 2).min(READ_AHEAD.1.max(self.read_ahead));
        }
        let part = (begin - self.chunk_at) as usize..(end - self.chunk_at) as usize;
        self.block = match (DataBlock::check(&self.chunk, part, self.table.address(begin)), &self.lost) {
            (Some(block), _) => block,
            (None, None) => return Err(self.damaged().into()),
            (None, Some(lost)) => {
                let error = self.damaged();
                tracing::error!(%error, block = self.block_number, "a block cannot be read: its rows are lost");
                let range = self.contents.index.range(self.block_number, &self.table.meta);
                lost.lock().push(range);
                DataBlock::default()
            }
        };
        Ok(())
    }

    fn damaged(&self) -> StorageError {
        self.table.damaged()
    }
}

/// Writes a table. Its file is removed unless it was finished.
pub(super) struct TableWriter {
    files: Arc<dyn FileSystem>,
    cache: Arc<TableCache>,
    path: PathBuf,
    id: u64,
    file: Box<dyn File>,
    /// The bytes in the file.
    written: u64,
    block_bytes: usize,
    out: Vec<u8>,
    /// The bytes in the file and in `out`.
    length: u64,
    block: DataBlockWriter,
    block_first: Vec<u8>,
    /// The last key of the block before.
    last_before: Option<Vec<u8>>,
    first: Key,
    last: Vec<u8>,
    index: BlockIndex,
    hashes: Vec<u64>,
    tombstones: u64,
    finished: bool,
}

impl TableWriter {
    pub(super) fn new(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        folder: &Path,
        id: u64,
        block_bytes: usize,
    ) -> Result<Self, StorageError> {
        Self::at(files, cache, SortedTable::path(folder, id), id, block_bytes)
    }

    /// The same in any file.
    pub(super) fn at(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        path: PathBuf,
        id: u64,
        block_bytes: usize,
    ) -> Result<Self, StorageError> {
        let file = files
            .open(&path, OpenOptions::create(Create::Truncate))
            .map_err(|error| failed("create", &path, &error))?;
        Ok(Self {
            files: Arc::clone(files),
            cache: Arc::clone(cache),
            path,
            id,
            file,
            written: 0,
            block_bytes,
            out: Vec::with_capacity(WRITE_BYTES + block_bytes),
            length: 0,
            block: DataBlockWriter::default(),
            block_first: Vec::new(),
            last_before: None,
            first: Key::new(),
            last: Vec::new(),
            index: BlockIndex::default(),
            hashes: Vec::new(),
            tombstones: 0,
            finished: false,
        })
    }

    /// Rows must come in key order.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), StorageError> {
        if self.hashes.is_empty() {
            self.first = Key::copy_from_slice(key);
        } else if key <= &self.last[..] {
            // Such a table would be refused by the next start.
            return Err(StorageError::failed(format!("a bug: rows out of order: {}", self.path.display())));
        }
        if self.block.is_empty() {
            replace(&mut self.block_first, key);
        }
        self.block.push(key, value);
        replace(&mut self.last, key);
        self.hashes.push(bloom_filter::hash(key));
        self.tombstones += u64::from(value.is_none());
        if self.block.len() >= self.block_bytes {
            self.finish_block()?;
        }
        Ok(())
    }

    /// The size of the table so far.
    pub(super) fn len(&self) -> u64 {
        self.length + self.block.len() as u64
    }

    fn finish_block(&mut self) -> Result<(), StorageError> {
        let before = self.out.len();
        self.block.finish(BlockAddress { table: self.id, offset: self.length }, &mut self.out);
        self.length += (self.out.len() - before) as u64;
        self.index.push(self.last_before.as_deref(), &self.block_first, self.length);
        replace(self.last_before.get_or_insert_default(), &self.last);
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), StorageError> {
        let written = self.file.write_all_at(&self.out, self.written);
        written.map_err(|error| failed("write", &self.path, &error))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// Its content is durable when this returns, its name after the folder was synced. There must be a row.
    pub(super) fn finish(mut self) -> Result<Arc<SortedTable>, StorageError> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let tail = TableTail {
            index: std::mem::take(&mut self.index),
            filter: BloomFilter::new(&self.hashes),
            first: std::mem::take(&mut self.first),
            last: Key::copy_from_slice(&self.last),
            rows: self.hashes.len() as u64,
            tombstones: self.tombstones,
        };
        let before = self.out.len();
        tail.write(&mut self.out);
        let checksum = BlockAddress { table: self.id, offset: self.length }.checksum(&self.out[before..]);
        self.out.extend_from_slice(&self.length.to_le_bytes());
        self.out.extend_from_slice(&checksum.to_le_bytes());
        self.out.extend_from_slice(&MAGIC);
        self.write_out()?;
        self.file.sync_all().map_err(|error| failed("sync", &self.path, &error))?;
        self.finished = true;
        let meta = TableMeta {
            id: self.id,
            bytes: self.written,
            rows: tail.rows,
            tombstones: tail.tombstones,
            first: tail.first,
            last: tail.last,
        };
        // The tail is read back when needed, so that its checksum is verified.
        Ok(Arc::new(SortedTable::new(&self.files, &self.cache, self.path.clone(), meta)))
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the next start removes it as an orphan.
            let _ = self.files.remove_file(&self.path);
        }
    }
}

fn replace(held: &mut Vec<u8>, bytes: &[u8]) {
    held.clear();
    held.extend_from_slice(bytes);
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StorageError {
    crate::io_error::io_error(error, format!("cannot {what} a table: {}", path.display()))
}
