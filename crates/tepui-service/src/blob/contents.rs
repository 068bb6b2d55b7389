//! What blobs are made of: extents and lists of pieces, and how often they are referred to.
//!
//! Every reference is counted in the commit that makes it or gives it up. The commit that gives up the last
//! one leaves a note, which `reclaim.rs` works off.

use super::edit::{Edit, Rows};
use crate::keyspace::{self, ContentId};
use crate::pace::Pace;
use crate::record::{
    self, BlockContent, Content, ContentHead, Piece, Pieces, SmallContent, Source, StoredExtent,
};
use crate::transact::engine_error;
use bytes::Bytes;
use std::ops::Range;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Extent, ScanLimit, Snapshot};

/// How many pieces of a list of blocks are in one row.
const PIECES_IN_ROW: usize = 128;

/// A part of a blob: where its bytes are, and which of those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) source: Source,
    pub(super) range: Range<u64>,
}

/// The extent that a piece refers to.
pub(super) fn extent_of(source: &Source) -> Option<Extent> {
    match source {
        Source::Extent(extent) | Source::Slice(extent, _) | Source::EncryptedExtent(extent, _) => {
            Some(*extent)
        }
        Source::Inline(_) | Source::EncryptedInline(..) | Source::Zeros(_) => None,
    }
}

/// Gives up what a block refers to that is not committed.
pub(super) async fn release_block<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    block: BlockContent,
) -> Result<(), ServiceError> {
    match block.extent() {
        Some(extent) => release_extent(edit, extent).await,
        None => Ok(()),
    }
}

pub(super) fn missing(what: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InternalError)
        .with_cause(format!("a blob refers to what is not stored: {what}"))
}

/// Keeps an extent that was just written.
pub(super) async fn keep_extent<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    extent: Extent,
) -> Result<(), ServiceError> {
    // The place was freed before, and the note about that is still there: it must not free this one.
    let note = keyspace::free_extent(extent);
    if edit.get(&note).await?.is_some() {
        edit.delete(note);
    }
    let stored = StoredExtent { bytes: extent.bytes, references: 1 };
    edit.put(keyspace::extent(extent), stored.encode());
    Ok(())
}

/// One more or one less that refers to something.
#[derive(Debug, Clone, Copy)]
enum Count {
    Up,
    Down,
}

impl Count {
    fn of(self, references: u64) -> u64 {
        match self {
            Self::Up => references + 1,
            Self::Down => references.saturating_sub(1),
        }
    }
}

pub(super) async fn share_extent<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    extent: Extent,
) -> Result<(), ServiceError> {
    count_extent(edit, extent, Count::Up).await
}

pub(super) async fn release_extent<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    extent: Extent,
) -> Result<(), ServiceError> {
    count_extent(edit, extent, Count::Down).await
}

async fn count_extent<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    extent: Extent,
    count: Count,
) -> Result<(), ServiceError> {
    let key = keyspace::extent(extent);
    let row = edit.get(&key).await?.ok_or_else(|| missing("extent"))?;
    let StoredExtent { bytes, references } = StoredExtent::decode(&row)?;
    match count.of(references) {
        0 => {
            edit.delete(key);
            edit.put(keyspace::free_extent(extent), record::encode_number(bytes));
        }
        references => edit.put(key, StoredExtent { bytes, references }.encode()),
    }
    Ok(())
}

/// Few bytes, to which one blob refers.
pub(super) fn put_small<S: Snapshot>(edit: &mut Edit<'_, S>, content: ContentId, bytes: Bytes) {
    edit.put(keyspace::small_content(content), SmallContent { references: 1, bytes }.encode());
}

/// The bytes of a small content.
pub(super) async fn small<S: Snapshot>(snapshot: &S, content: ContentId) -> Result<Bytes, ServiceError> {
    let row = snapshot.get(&keyspace::small_content(content)).await.map_err(engine_error)?;
    Ok(SmallContent::decode(&row.ok_or_else(|| missing("content"))?)?.bytes)
}

/// The head of a list of pieces.
pub(super) async fn head<S: Snapshot>(
    edit: &Edit<'_, S>,
    content: ContentId,
) -> Result<ContentHead, ServiceError> {
    let row = edit.get(&keyspace::content(content)).await?;
    ContentHead::decode(&row.ok_or_else(|| missing("content"))?)
}

/// One more refers to a content.
pub(super) async fn share<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: &Content,
) -> Result<(), ServiceError> {
    count_content(edit, content, Count::Up).await
}

/// One less refers to a content.
pub(super) async fn release<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: &Content,
) -> Result<(), ServiceError> {
    count_content(edit, content, Count::Down).await
}

async fn count_small<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: ContentId,
    count: Count,
) -> Result<(), ServiceError> {
    let key = keyspace::small_content(content);
    let row = edit.get(&key).await?.ok_or_else(|| missing("content"))?;
    let mut stored = SmallContent::decode(&row)?;
    stored.references = count.of(stored.references);
    match stored.references {
        0 => edit.delete(key),
        _ => edit.put(key, stored.encode()),
    }
    Ok(())
}

async fn count_content<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: &Content,
    count: Count,
) -> Result<(), ServiceError> {
    let content = match content {
        Content::Inline(_) => return Ok(()),
        Content::Small(content) => return count_small(edit, *content, count).await,
        Content::Extent(extent) => return count_extent(edit, *extent, count).await,
        Content::Listed(content) => *content,
    };
    let mut head = head(edit, content).await?;
    head.references = count.of(head.references);
    if head.references == 0 {
        // There may be many pieces: they are released later, in small steps.
        edit.put(keyspace::dropped_content(content), record::encode_number(0));
    }
    edit.put(keyspace::content(content), head.encode());
    Ok(())
}

/// Writes a list of pieces, to which one blob refers. Nothing is done about what the pieces refer to.
/// Returns the length of all.
pub(super) async fn put_list<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    pace: &Pace,
    content: ContentId,
    pieces: Vec<Piece>,
) -> u64 {
    let mut end = 0;
    let mut pieces = pieces.into_iter().peekable();
    while pieces.peek().is_some() {
        let row = Pieces { start: end, pieces: pieces.by_ref().take(PIECES_IN_ROW).collect() };
        end += row.pieces.iter().map(Piece::bytes).sum::<u64>();
        edit.put(keyspace::pieces(content, end), row.encode());
        pace.work(row.pieces.len()).await;
    }
    let head = ContentHead { references: 1, end, parent: None };
    edit.put(keyspace::content(content), head.encode());
    end
}

/// The first parts of a range of a list of pieces, as many as are read at once, and where they end.
pub(super) async fn parts<S: Snapshot>(
    snapshot: &S,
    mut content: ContentId,
    range: Range<u64>,
) -> Result<(Vec<Part>, u64), ServiceError> {
    let (mut position, mut end) = (range.start, range.end);
    loop {
        let row = snapshot.get(&keyspace::content(content)).await.map_err(engine_error)?;
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
    let rows = snapshot.scan_some(&from, limit).await.map_err(engine_error)?;
    let mut parts = Vec::new();
    for (_, row) in rows.rows {
        let Pieces { start, pieces } = Pieces::decode(&row)?;
        let mut start = start;
        for piece in pieces {
            let after = start + piece.bytes();
            if position < end && start <= position && position < after {
                let until = after.min(end);
                parts.push(Part { source: piece.source, range: position - start..until - start });
                position = until;
            }
            start = after;
        }
        if position == end {
            break;
        }
    }
    if parts.is_empty() {
        return Err(missing("pieces"));
    }
    Ok((parts, position))
}

/// All pieces of a list of blocks.
pub(super) async fn blocks<S: Snapshot>(
    snapshot: &S,
    content: ContentId,
) -> Result<Vec<Piece>, ServiceError> {
    let mut rows = Rows::of(snapshot, keyspace::pieces_from(content, 0), 256);
    let mut blocks = Vec::new();
    while let Some((_, row)) = rows.next().await? {
        blocks.extend(Pieces::decode(&row)?.pieces);
    }
    Ok(blocks)
}
