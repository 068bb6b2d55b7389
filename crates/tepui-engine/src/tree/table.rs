//! Tables: files of rows in the order of their keys, written once and never changed.
//!
//! ```text
//! blocks     rows (block.rs)
//! tail       index (index.rs), number of lines of the filter: u32, filter (filter.rs),
//!            first key, last key (length: u16, bytes), rows: u64, deletions among them: u64
//! foot       where the tail begins: u64, its checksum: u64, MAGIC
//! ```
//!
//! The tail is in memory as long as the table is open (cache.rs). Blocks are read when they are needed and kept by
//! nobody but the page cache of the operating system.

use super::block::{Block, BlockWriter, Place, Row};
use super::cache::{OpenGuard, TableCache};
use super::filter::{Filter, LINE_BYTES};
use super::index::Index;
use super::levels::LostRange;
use super::manifest::{key, put_key};
use super::{Entry, ReadError, ReadMode, filter};
use crate::reader::Reader;
use crate::{EngineError, Key, Value};
use bytes::Bytes;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tepui_files::{Create, File, FileSystem, OpenOptions};

const MAGIC: [u8; 8] = *b"tepuirow";
const FOOT_BYTES: usize = 24;

/// What the name of a file ends with that was found damaged and is not part of the tree any more.
pub(super) const DAMAGED: &str = "damaged";

/// How much is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// How much a reader's cursor reads at first, and at most: twice as much each time.
const READ_AHEAD: (u64, u64) = (8 << 10, 64 << 10);

/// How much a merge reads at once.
const MERGE_READ: u64 = 256 << 10;

/// Buffers for single blocks up to this size are kept.
const KEPT_BUFFER: usize = 64 << 10;

/// What is known of a table without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableMeta {
    pub(super) id: u64,
    /// The size of the file.
    pub(super) bytes: u64,
    pub(super) rows: u64,
    /// How many of the rows say that a key was deleted.
    pub(super) deletions: u64,
    pub(super) first: Key,
    pub(super) last: Key,
}

pub(super) struct Table {
    pub(super) meta: TableMeta,
    path: PathBuf,
    files: Arc<dyn FileSystem>,
    cache: Arc<TableCache>,
    /// `None`: it is not open.
    contents: RwLock<Option<Arc<Contents>>>,
    /// Held while it is being opened.
    opening: Mutex<()>,
    /// It was read from since the cache has last looked.
    used: AtomicBool,
    /// Something in it is not what was written.
    damaged: AtomicBool,
}

/// An open table.
struct Contents {
    file: Box<dyn File>,
    index: Index,
    filter: Filter,
    _counted: OpenGuard,
}

impl Table {
    pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
        folder.join(id.to_string())
    }

    /// A table that is listed. Only its size is looked at.
    pub(super) fn listed(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        folder: &Path,
        meta: TableMeta,
    ) -> Result<Self, EngineError> {
        let path = Self::path(folder, meta.id);
        let length = files.open(&path, OpenOptions::read()).and_then(|file| file.length());
        if length.map_err(|error| failed("open", &path, &error))? != meta.bytes {
            return Err(EngineError::Corrupt(format!("a table does not have its size: {}", path.display())));
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

    /// What is in the table, which is opened if need be.
    fn contents(self: &Arc<Self>, mode: ReadMode) -> Result<Arc<Contents>, ReadError> {
        if let Some(contents) = &*self.contents.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Arc::clone(contents));
        }
        if mode == ReadMode::Cached {
            return Err(ReadError::WouldBlock);
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(contents) = &*self.contents.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Arc::clone(contents));
        }
        let contents = Arc::new(self.load()?);
        *self.contents.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&contents));
        self.cache.opened(self);
        Ok(contents)
    }

    fn load(&self) -> Result<Contents, EngineError> {
        let path = &self.path;
        let file =
            self.files.open(path, OpenOptions::read()).map_err(|error| failed("open", path, &error))?;
        // Cursors read as much as they need at once; more would be read in vain.
        file.advise_random_reads();
        let damaged = || self.damaged();
        let read = |at, length| file.read_vec(at, length).map_err(|error| failed("read", path, &error));
        let foot_at = self.meta.bytes.checked_sub(FOOT_BYTES as u64).ok_or_else(damaged)?;
        let foot = read(foot_at, FOOT_BYTES)?;
        let mut foot = Reader(&foot);
        let (tail_at, checksum) = (foot.u64().ok_or_else(damaged)?, foot.u64().ok_or_else(damaged)?);
        if foot.0 != MAGIC || tail_at > foot_at {
            return Err(damaged());
        }
        let tail = read(tail_at, (foot_at - tail_at) as usize)?;
        if self.place(tail_at).checksum(&tail) != checksum {
            return Err(damaged());
        }
        let bytes = tail.len() as u64;
        let tail = Tail::read(&mut Reader(&tail)).ok_or_else(damaged)?;
        let Tail { index, filter, first, last, .. } = tail;
        if index.place(index.len() - 1).1 != tail_at
            || (first, last) != (self.meta.first.clone(), self.meta.last.clone())
        {
            return Err(damaged());
        }
        Ok(Contents { file, index, filter, _counted: self.cache.count(bytes) })
    }

    /// Opens it before anybody waits for that.
    pub(super) fn open_early(self: &Arc<Self>) {
        if let Err(error) = self.contents(ReadMode::Blocking) {
            tracing::warn!(%error, table = self.meta.id, "cannot open a new table yet");
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.contents.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether it was read from since the last call.
    pub(super) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Closes the file, as soon as nobody reads from it. It is opened again when it is needed.
    pub(super) fn close(&self) {
        drop(self.contents.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Removes the file. One that is damaged is put aside for whoever wants to look at it.
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
    ) -> Result<Option<Entry>, ReadError> {
        let contents = self.contents(mode)?;
        if !contents.filter.may_hold(hash) {
            return Ok(None);
        }
        self.note_use();
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let (begin, end) = contents.index.place(contents.index.block_of(key));
        let length = (end - begin) as usize;
        if length > KEPT_BUFFER {
            return self.get_in(&contents, &mut vec![0; length], begin, key, mode);
        }
        BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < length {
                buffer.resize(length, 0);
            }
            self.get_in(&contents, &mut buffer[..length], begin, key, mode)
        })
    }

    fn note_use(&self) {
        // Written only if it changes: every reader comes by here.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Looks for the key in the block that begins there and is as long as `buffer`.
    fn get_in(
        &self,
        contents: &Contents,
        buffer: &mut [u8],
        begin: u64,
        key: &[u8],
        mode: ReadMode,
    ) -> Result<Option<Entry>, ReadError> {
        let damaged = || self.damaged();
        self.read_into(contents, buffer, begin, mode)?;
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

    fn read_into(
        &self,
        contents: &Contents,
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

    fn place(&self, offset: u64) -> Place {
        Place { table: self.meta.id, offset }
    }

    fn damaged(&self) -> EngineError {
        self.damaged.store(true, Ordering::Relaxed);
        EngineError::Corrupt(format!("a table is damaged: {}", self.path.display()))
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
        put_key(out, &self.first);
        put_key(out, &self.last);
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.deletions.to_le_bytes());
    }

    fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        let index = Index::read(bytes)?;
        let lines = bytes.u32()? as usize;
        let filter = Filter::read(bytes.take(lines.checked_mul(LINE_BYTES)?)?)?;
        let (first, last) = (key(bytes)?, key(bytes)?);
        let tail = Self { index, filter, first, last, rows: bytes.u64()?, deletions: bytes.u64()? };
        (bytes.0.is_empty() && tail.first <= tail.last).then_some(tail)
    }
}

/// Goes through the rows of a table in their order.
pub(super) struct TableCursor {
    table: Arc<Table>,
    contents: Arc<Contents>,
    mode: ReadMode,
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
    /// Where to tell which blocks are damaged. Without it, damage is an error.
    lost: Option<Lost>,
}

/// Ranges that turn out to be damaged while tables are merged.
pub(super) type Lost = Arc<Mutex<Vec<LostRange>>>;

impl TableCursor {
    /// Stands at the first key that is not before `from`. Rows after `to` may be left out.
    pub(super) fn new(
        table: Arc<Table>,
        from: &[u8],
        to: Option<&[u8]>,
        mode: ReadMode,
    ) -> Result<Self, ReadError> {
        table.note_use();
        let contents = table.contents(mode)?;
        let begin = contents.index.block_of(from);
        let end = to.map_or(contents.index.len(), |to| contents.index.block_of(to) + 1);
        let mut cursor = Self::at(table, contents, begin, end, READ_AHEAD.0, mode, None)?;
        cursor.index = cursor.block.find(&cursor.chunk, from).ok_or_else(|| cursor.damaged())?;
        cursor.settle()?;
        Ok(cursor)
    }

    /// Stands at the first row of all and reads as much as it can at once. Passes over damaged blocks, and tells which. `None`:
    /// no row of the table can be read.
    pub(super) fn through(table: Arc<Table>, lost: &Lost) -> Result<Option<Self>, EngineError> {
        let contents = match table.contents(ReadMode::Blocking) {
            Err(ReadError::Engine(error @ EngineError::Corrupt(_))) => {
                tracing::error!(%error, "a table cannot be read: its rows are lost");
                let range = LostRange::up_to(table.meta.first.clone(), &table.meta.last);
                lost.lock().unwrap_or_else(PoisonError::into_inner).push(range);
                return Ok(None);
            }
            contents => contents.map_err(EngineError::from)?,
        };
        let end = contents.index.len();
        let lost = Some(Arc::clone(lost));
        let mut cursor = Self::at(table, contents, 0, end, MERGE_READ, ReadMode::Blocking, lost)?;
        cursor.settle()?;
        Ok(Some(cursor))
    }

    fn at(
        table: Arc<Table>,
        contents: Arc<Contents>,
        begin: usize,
        end: usize,
        read_ahead: u64,
        mode: ReadMode,
        lost: Option<Lost>,
    ) -> Result<Self, ReadError> {
        let mut cursor = Self {
            table,
            contents,
            mode,
            chunk: Bytes::new(),
            chunk_at: 0,
            block: Block::default(),
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

    /// The row that the cursor stands at, without a copy.
    pub(super) fn row(&self) -> Option<(Key, Entry)> {
        let Row { key, value } = self.row.clone()?;
        Some((self.chunk.slice(key), value.map(|value| self.chunk.slice(value))))
    }

    pub(super) fn advance(&mut self) -> Result<(), ReadError> {
        self.index += 1;
        self.settle()
    }

    /// Finds the row at `index`, in the next block if this one has no more.
    fn settle(&mut self) -> Result<(), ReadError> {
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
        let (begin, end) = index.place(self.block_number);
        if self.block_number >= self.chunk_end {
            let blocks = index.blocks_in(self.block_number, self.read_ahead);
            let chunk_end = (self.block_number + blocks).min(self.end);
            let (_, end) = index.place(chunk_end - 1);
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
        self.block = match (Block::check(&self.chunk, part, self.table.place(begin)), &self.lost) {
            (Some(block), _) => block,
            (None, None) => return Err(self.damaged().into()),
            (None, Some(lost)) => {
                let error = self.damaged();
                tracing::error!(%error, block = self.block_number, "a block cannot be read: its rows are lost");
                let range = self.contents.index.range(self.block_number, &self.table.meta);
                lost.lock().unwrap_or_else(PoisonError::into_inner).push(range);
                Block::default()
            }
        };
        Ok(())
    }

    fn damaged(&self) -> EngineError {
        self.table.damaged()
    }
}

/// Writes a table. What is not finished is removed.
pub(super) struct TableWriter {
    files: Arc<dyn FileSystem>,
    cache: Arc<TableCache>,
    path: PathBuf,
    id: u64,
    file: Box<dyn File>,
    /// How much is in the file.
    written: u64,
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
    pub(super) fn new(
        files: &Arc<dyn FileSystem>,
        cache: &Arc<TableCache>,
        folder: &Path,
        id: u64,
        block_bytes: usize,
    ) -> Result<Self, EngineError> {
        let path = Table::path(folder, id);
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
        } else if key <= &self.last[..] {
            // A table that breaks this would be refused by the next start.
            return Err(EngineError::Failed(format!("a bug: rows out of order: {}", self.path.display())));
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
        let written = self.file.write_all_at(&self.out, self.written);
        written.map_err(|error| failed("write", &self.path, &error))?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    /// The table is on disk when this returns, but not yet its name. There must be a row.
    pub(super) fn finish(mut self) -> Result<Arc<Table>, EngineError> {
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
        self.file.sync_all().map_err(|error| failed("sync", &self.path, &error))?;
        self.finished = true;
        let meta = TableMeta {
            id: self.id,
            bytes: self.written,
            rows: tail.rows,
            deletions: tail.deletions,
            first: tail.first,
            last: tail.last,
        };
        // Read back when it is needed: what was written may not be what is there.
        Ok(Arc::new(Table::new(&self.files, &self.cache, self.path.clone(), meta)))
    }
}

impl Drop for TableWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed now is when the directory is opened again.
            let _ = self.files.remove_file(&self.path);
        }
    }
}

fn replace(held: &mut Vec<u8>, bytes: &[u8]) {
    held.clear();
    held.extend_from_slice(bytes);
}

fn failed(what: &str, path: &Path, error: &io::Error) -> EngineError {
    crate::store::io_error(error, &format!("cannot {what} a table: {error}: {}", path.display()))
}
