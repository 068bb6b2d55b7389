//! The contents of blobs: extents and lists of pieces, with their reference counts.
//!
//! Every reference is counted in the commit that adds or releases it. The commit that releases the last one writes a
//! GC record, which `gc.rs` processes.

use super::cursor::RowCursor;
use super::volumes;
use super::write_set::WriteSet;
use crate::coop::CoopBudget;
use crate::keyspace::{self, ContentId};
use crate::record::{
    self, BlockContent, Content, ContentHead, PieceRow, PieceSource, SmallContent, StoredExtent, StoredPiece,
};
use crate::transact::storage_error;
use bytes::Bytes;
use std::ops::Range;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Extent, Key, ScanLimit, Snapshot, StoreId};

/// Pieces of a block list in one row.
const PIECES_IN_ROW: usize = 128;

/// A slice of a blob: the piece that has its bytes, and their range in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentSlice {
    pub(super) source: PieceSource,
    pub(super) range: Range<u64>,
}

/// The extent that a piece refers to.
pub(crate) fn extent_of(source: &PieceSource) -> Option<Extent> {
    match source {
        PieceSource::Extent(extent)
        | PieceSource::Slice(extent, _)
        | PieceSource::EncryptedExtent(extent, _) => Some(*extent),
        PieceSource::Inline(_) | PieceSource::EncryptedInline(..) | PieceSource::Zeros(_) => None,
    }
}

/// Releases the reference of an uncommitted block.
pub(super) async fn release_block<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    block: BlockContent,
) -> Result<(), ServiceError> {
    match block.extent() {
        Some(extent) => release_extent(writes, extent).await,
        None => Ok(()),
    }
}

pub(super) fn missing(what: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InternalError)
        .with_cause(format!("a blob refers to what is not stored: {what}"))
}

/// Adds the first reference to an extent that was just written.
pub(super) async fn add_extent<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    extent: Extent,
) -> Result<(), ServiceError> {
    // A GC record may be left of an earlier extent at the same location: it must not free this one.
    let gc_record = keyspace::free_extent(extent);
    if extent.store != StoreId::LOCAL {
        let volume = keyspace::volume(extent.store, extent.volume);
        writes.prefetch([gc_record.clone(), volume.clone()]).await?;
        volumes::require_unswept(writes, volume).await?;
    }
    if writes.get(&gc_record).await?.is_some() {
        writes.delete(gc_record);
    }
    let stored = StoredExtent { bytes: extent.bytes, references: 1 };
    writes.put(keyspace::extent(extent), stored.encode());
    Ok(())
}

/// A change of a reference count.
#[derive(Debug, Clone, Copy)]
enum RefChange {
    Increment,
    Decrement,
}

impl RefChange {
    fn apply(self, references: u64) -> u64 {
        match self {
            Self::Increment => references + 1,
            Self::Decrement => references.saturating_sub(1),
        }
    }
}

pub(super) async fn add_extent_reference<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    extent: Extent,
) -> Result<(), ServiceError> {
    change_extent_references(writes, extent, RefChange::Increment).await
}

pub(super) async fn release_extent<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    extent: Extent,
) -> Result<(), ServiceError> {
    change_extent_references(writes, extent, RefChange::Decrement).await
}

async fn change_extent_references<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    extent: Extent,
    change: RefChange,
) -> Result<(), ServiceError> {
    let key = keyspace::extent(extent);
    let row = writes.get(&key).await?.ok_or_else(|| missing("extent"))?;
    let StoredExtent { bytes, references } = StoredExtent::decode(&row)?;
    match change.apply(references) {
        0 => {
            writes.delete(key);
            writes.put(keyspace::free_extent(extent), record::encode_number(bytes));
        }
        references => writes.put(key, StoredExtent { bytes, references }.encode()),
    }
    Ok(())
}

/// Writes a small content with one reference.
pub(super) fn put_small<S: Snapshot>(writes: &mut WriteSet<'_, S>, content: ContentId, bytes: Bytes) {
    writes.put(keyspace::small_content(content), SmallContent { references: 1, bytes }.encode());
}

/// The bytes of a small content.
pub(super) async fn small<S: Snapshot>(snapshot: &S, content: ContentId) -> Result<Bytes, ServiceError> {
    let row = snapshot.get(&keyspace::small_content(content)).await.map_err(storage_error)?;
    Ok(SmallContent::decode(&row.ok_or_else(|| missing("content"))?)?.bytes)
}

/// The head of a list of pieces.
pub(super) async fn head<S: Snapshot>(
    writes: &WriteSet<'_, S>,
    content: ContentId,
) -> Result<ContentHead, ServiceError> {
    let row = writes.get(&keyspace::content(content)).await?;
    ContentHead::decode(&row.ok_or_else(|| missing("content"))?)
}

/// The row that counts the references to a content, if they are counted.
pub(super) fn count_key(content: &Content) -> Option<Key> {
    match content {
        Content::Inline(_) => None,
        Content::Small(content) => Some(keyspace::small_content(*content)),
        Content::Extent(extent) => Some(keyspace::extent(*extent)),
        Content::Listed(content) => Some(keyspace::content(*content)),
    }
}

/// Adds a reference to a content.
pub(super) async fn add_reference<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: &Content,
) -> Result<(), ServiceError> {
    change_references(writes, content, RefChange::Increment).await
}

/// Releases a reference to a content.
pub(super) async fn release<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: &Content,
) -> Result<(), ServiceError> {
    change_references(writes, content, RefChange::Decrement).await
}

async fn change_small_references<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
    change: RefChange,
) -> Result<(), ServiceError> {
    let key = keyspace::small_content(content);
    let row = writes.get(&key).await?.ok_or_else(|| missing("content"))?;
    let mut stored = SmallContent::decode(&row)?;
    stored.references = change.apply(stored.references);
    match stored.references {
        0 => writes.delete(key),
        _ => writes.put(key, stored.encode()),
    }
    Ok(())
}

async fn change_references<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: &Content,
    change: RefChange,
) -> Result<(), ServiceError> {
    let content = match content {
        Content::Inline(_) => return Ok(()),
        Content::Small(content) => return change_small_references(writes, *content, change).await,
        Content::Extent(extent) => return change_extent_references(writes, *extent, change).await,
        Content::Listed(content) => *content,
    };
    let mut head = head(writes, content).await?;
    head.references = change.apply(head.references);
    if head.references == 0 {
        // There may be many pieces, so the garbage collector releases them in small steps.
        writes.put(keyspace::dropped_content(content), record::encode_number(0));
    }
    writes.put(keyspace::content(content), head.encode());
    Ok(())
}

/// Writes a list of pieces with one reference. The references of the pieces are the caller's affair.
/// Returns the length of the content.
pub(super) async fn put_list<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    coop: &CoopBudget,
    content: ContentId,
    pieces: Vec<StoredPiece>,
) -> u64 {
    let mut end = 0;
    let mut pieces = pieces.into_iter().peekable();
    while pieces.peek().is_some() {
        let row = PieceRow { start: end, pieces: pieces.by_ref().take(PIECES_IN_ROW).collect() };
        end += row.pieces.iter().map(StoredPiece::bytes).sum::<u64>();
        writes.put(keyspace::pieces(content, end), row.encode());
        coop.spend(row.pieces.len()).await;
    }
    let head = ContentHead { references: 1, end, parent: None };
    writes.put(keyspace::content(content), head.encode());
    end
}

/// The first slices of a range of a content, as many as one scan reads, and where they end.
pub(super) async fn slices<S: Snapshot>(
    snapshot: &S,
    mut content: ContentId,
    range: Range<u64>,
) -> Result<(Vec<ContentSlice>, u64), ServiceError> {
    let (mut position, mut end) = (range.start, range.end);
    loop {
        let row = snapshot.get(&keyspace::content(content)).await.map_err(storage_error)?;
        match ContentHead::decode(&row.ok_or_else(|| missing("content"))?)?.parent {
            Some((parent, bytes)) if position < bytes => {
                content = parent;
                end = end.min(bytes);
            }
            _ => break,
        }
    }
    let limit = ScanLimit { max_rows: 64, max_bytes: 256 * 1024 };
    let from = keyspace::pieces_from(content, position);
    let rows = snapshot.scan_some(&from, limit).await.map_err(storage_error)?;
    let mut slices = Vec::new();
    for (_, row) in rows.rows {
        let PieceRow { start, pieces } = PieceRow::decode(&row)?;
        let mut start = start;
        for piece in pieces {
            let after = start + piece.bytes();
            if position < end && start <= position && position < after {
                let until = after.min(end);
                slices.push(ContentSlice { source: piece.source, range: position - start..until - start });
                position = until;
            }
            start = after;
        }
        if position == end {
            break;
        }
    }
    if slices.is_empty() {
        return Err(missing("pieces"));
    }
    Ok((slices, position))
}

/// The rows of a block list. Each has some of its pieces: a list may have 50,000, which are not held at once.
pub(super) fn block_rows<S: Snapshot>(snapshot: &S, content: ContentId) -> RowCursor<'_, S> {
    RowCursor::new(snapshot, keyspace::pieces_from(content, 0), 64)
}
