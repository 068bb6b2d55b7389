//! Contents of page blobs: pieces with gaps between them, in copy-on-write layers.
//!
//! A content that is shared, with a snapshot for example, is immutable. The next write begins a new layer whose parent is
//! the shared content. A layer hides its parent where it has pieces, and shows it elsewhere. So the changes since a
//! snapshot are the pieces of the layers above its content. Reading gets slower with every layer: when there are too
//! many, `merge.rs` merges the upper ones.

use super::contents::{self, ContentSlice, missing};
use super::cursor::RowCursor;
use super::merge;
use super::service::Context;
use super::slot::Progress;
use super::write_set::WriteSet;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, PieceRow, PieceSource, StoredBlob, StoredPiece};
use crate::transact::storage_error;
use std::ops::Range;
use tepui_model::ServiceError;
use tepui_storage::{Key, ScanLimit, Snapshot};

/// The most layers of a content.
pub(super) const MAX_LAYERS: usize = 32;
/// The longest piece that small adjacent pieces are joined to.
const MAX_INLINE_BYTES: usize = 16 * 1024;
/// Pieces replaced in one commit.
const REPLACED_AT_ONCE: usize = 10_000;

/// A range of a content, and what is visible there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) range: Range<u64>,
    pub(super) kind: SpanKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SpanKind {
    Data(ContentSlice),
    /// Cleared, or beyond the visible bytes of the parent: the layers below are hidden.
    Zeros,
    /// No layer that was looked at has anything.
    Absent,
}

/// The first spans of a range, without gaps between them, and where they end. The layers from `below` downwards are
/// not read.
///
/// One scan per layer, from the top: there are as many layers as the blob had snapshots.
pub(super) async fn layered<S: Snapshot>(
    snapshot: &S,
    content: ContentId,
    range: Range<u64>,
    below: Option<ContentId>,
) -> Result<(Vec<Span>, u64), ServiceError> {
    let limit = ScanLimit { max_rows: 256, max_bytes: 256 * 1024 };
    let mut spans = Vec::new();
    // Up to here every layer was read.
    let mut end = range.end;
    // Ranges that no layer so far has a piece in, in order.
    let mut gaps = vec![range];
    let mut layer = Some(content);
    while let (Some(content), Some(first)) = (layer.filter(|layer| Some(*layer) != below), gaps.first()) {
        let head = head_of(snapshot, content).await?;
        let from = keyspace::pieces_from(content, first.start);
        let page = snapshot.scan_some(&from, limit).await.map_err(storage_error)?;
        let pieces = page.rows.iter().map(|(_, row)| placed(row)).collect::<Result<Vec<_>, _>>()?;
        if page.next.is_some() {
            end = end.min(pieces.iter().flatten().last().map_or(end, |(place, _)| place.end));
            gaps = clipped(gaps, end);
        }
        gaps = fill(&gaps, &pieces, &mut spans);
        layer = head.parent.map(|(parent, _)| parent);
        if let Some((_, visible_parent_bytes)) = head.parent {
            let beyond = gaps.iter().filter(|gap| gap.end > visible_parent_bytes);
            let hidden = beyond.map(|gap| gap.start.max(visible_parent_bytes)..gap.end);
            spans.extend(hidden.map(|range| Span { range, kind: SpanKind::Zeros }));
            gaps = clipped(gaps, visible_parent_bytes);
        }
    }
    spans.extend(gaps.into_iter().map(|range| Span { range, kind: SpanKind::Absent }));
    spans.retain(|span| span.range.start < end);
    spans.sort_unstable_by_key(|span| span.range.start);
    if let Some(Span { range, kind }) = spans.last_mut()
        && range.end > end
    {
        if let SpanKind::Data(part) = kind {
            part.range.end -= range.end - end;
        }
        range.end = end;
    }
    Ok((spans, end))
}

/// The piece of a row, and its range.
fn placed(row: &[u8]) -> Result<Option<(Range<u64>, PieceSource)>, ServiceError> {
    let PieceRow { start, pieces } = PieceRow::decode(row)?;
    let piece = pieces.into_iter().next();
    Ok(piece.map(|piece| (start..start + piece.bytes(), piece.source)))
}

/// Cuts ranges off at `end`.
fn clipped(ranges: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    ranges
        .into_iter()
        .filter(|range| range.start < end)
        .map(|range| range.start..range.end.min(end))
        .collect()
}

/// Fills gaps with the pieces of a layer. Returns the gaps that are left. All are in order.
fn fill(
    gaps: &[Range<u64>],
    pieces: &[Option<(Range<u64>, PieceSource)>],
    spans: &mut Vec<Span>,
) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for gap in gaps {
        let mut position = gap.start;
        for (place, source) in pieces.iter().flatten() {
            if place.end <= position {
                continue;
            }
            if place.start >= gap.end {
                break;
            }
            if position < place.start {
                left.push(position..place.start);
                position = place.start;
            }
            let until = place.end.min(gap.end);
            let kind = match source {
                PieceSource::Zeros(_) => SpanKind::Zeros,
                source => SpanKind::Data(ContentSlice {
                    source: source.clone(),
                    range: position - place.start..until - place.start,
                }),
            };
            spans.push(Span { range: position..until, kind });
            position = until;
        }
        if position < gap.end {
            left.push(position..gap.end);
        }
    }
    left
}

/// The head of a content.
pub(super) async fn head_of<S: Snapshot>(
    snapshot: &S,
    content: ContentId,
) -> Result<ContentHead, ServiceError> {
    let row = snapshot.get(&keyspace::content(content)).await.map_err(storage_error)?;
    ContentHead::decode(&row.ok_or_else(|| missing("content"))?)
}

/// Whether `below` is a layer of `content`.
pub(super) async fn is_below<S: Snapshot>(
    snapshot: &S,
    content: ContentId,
    below: ContentId,
) -> Result<bool, ServiceError> {
    let mut next = Some(content);
    while let Some(content) = next {
        if content == below {
            return Ok(true);
        }
        next = head_of(snapshot, content).await?.parent.map(|(parent, _)| parent);
    }
    Ok(false)
}

async fn is_too_deep<S: Snapshot>(snapshot: &S, content: ContentId) -> Result<bool, ServiceError> {
    let mut next = content;
    for _ in 1..MAX_LAYERS {
        match head_of(snapshot, next).await?.parent {
            Some((parent, _)) => next = parent,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// The layer that a page blob may write to.
pub(super) enum Layer {
    Own(ContentId, ContentHead),
    /// The layers of this content have to be merged first.
    TooDeep(ContentId),
}

/// The layer that a page blob may write to: its own, or a new one if its content is shared.
pub(super) async fn own_layer<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    blob: &mut StoredBlob,
) -> Result<Layer, ServiceError> {
    let parent = match blob.content {
        Content::Listed(content) => {
            let head = contents::head(writes, content).await?;
            if head.references == 1 {
                return Ok(Layer::Own(content, head));
            }
            if let Some(merged) = context.merged.filter(|merged| merged.from == content)
                && merge::is_whole(writes, merged.to).await?
            {
                // The merged content is this blob's alone.
                contents::release(writes, &blob.content).await?;
                writes.delete(keyspace::dropped_content(merged.to));
                blob.content = Content::Listed(merged.to);
                let head = contents::head(writes, merged.to).await?;
                return Ok(Layer::Own(merged.to, head));
            }
            if is_too_deep(context.snapshot, content).await? {
                return Ok(Layer::TooDeep(content));
            }
            // The new layer takes over the blob's reference.
            Some((content, blob.bytes))
        }
        Content::Inline(_) | Content::Small(_) | Content::Extent(_) => None,
    };
    let content = ContentId::new(context.now, (context.random_ids)());
    let head = ContentHead { references: 1, end: 0, parent };
    writes.put(keyspace::content(content), head.encode());
    blob.content = Content::Listed(content);
    Ok(Layer::Own(content, head))
}

/// Removes a range from a layer. If it has very many pieces, only some of them: then nothing else may be in the
/// same commit.
pub(super) async fn cut<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
    range: Range<u64>,
) -> Result<Progress, ServiceError> {
    let mut rows = RowCursor::new(writes.snapshot, keyspace::pieces_from(content, range.start), 256);
    let mut replaced = Vec::new();
    let mut progress = Progress::Partial;
    while replaced.len() < REPLACED_AT_ONCE {
        let row = rows.next().await?;
        let piece = match row {
            Some((key, row)) => Some((key, placed(&row)?)),
            None => None,
        };
        match piece {
            Some((key, Some((place, source)))) if place.start < range.end => {
                replaced.push((key, place, source))
            }
            Some((_, None)) => {}
            _ => {
                progress = Progress::Complete;
                break;
            }
        }
    }
    let extents = replaced.iter().filter_map(|(_, _, source)| contents::extent_of(source));
    writes.prefetch(extents.map(keyspace::extent)).await?;
    for (key, Range { start, end }, source) in replaced {
        writes.delete(key);
        let left = (start < range.start).then_some(start..range.start);
        let right = (range.end < end).then_some(range.end..end);
        if let Some(extent) = contents::extent_of(&source) {
            match (&left, &right) {
                (None, None) => contents::release_extent(writes, extent).await?,
                (Some(_), Some(_)) => contents::add_extent_reference(writes, extent).await?,
                _ => {}
            }
        }
        for rest in [left, right].into_iter().flatten() {
            let source = slice(&source, rest.start - start..rest.end - start);
            put_piece(writes, content, rest.start, source);
        }
    }
    Ok(progress)
}

/// A sub-range of a piece.
pub(super) fn slice(source: &PieceSource, range: Range<u64>) -> PieceSource {
    match source {
        PieceSource::Inline(bytes) => {
            PieceSource::Inline(bytes.slice(range.start as usize..range.end as usize))
        }
        PieceSource::Extent(extent) => PieceSource::Slice(*extent, range),
        PieceSource::Slice(extent, before) => {
            PieceSource::Slice(*extent, before.start + range.start..before.start + range.end)
        }
        PieceSource::Zeros(_) => PieceSource::Zeros(range.end - range.start),
        PieceSource::EncryptedInline(bytes, before) => {
            PieceSource::EncryptedInline(bytes.clone(), before.start + range.start..before.start + range.end)
        }
        PieceSource::EncryptedExtent(extent, before) => {
            PieceSource::EncryptedExtent(*extent, before.start + range.start..before.start + range.end)
        }
    }
}

/// Puts a piece into a gap of a layer, joined with small adjacent pieces.
pub(super) async fn put_merged<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
    start: u64,
    source: PieceSource,
) -> Result<(), ServiceError> {
    let end = start + StoredPiece { id: None, source: source.clone() }.bytes();
    let (mut start, mut source) = (start, source);
    let left = keyspace::pieces(content, start);
    if let Some((at, before)) = piece_at(writes, &left).await?
        && let Some(joined) = join(&before, &source)
    {
        writes.delete(left);
        (start, source) = (at, joined);
    }
    let range = keyspace::pieces_from(content, end);
    let right = writes.snapshot.first(&range).await.map_err(storage_error)?;
    if let Some((key, _)) = right
        && let Some((at, after)) = piece_at(writes, &key).await?
        && at == end
        && let Some(joined) = join(&source, &after)
    {
        writes.delete(key);
        source = joined;
    }
    put_piece(writes, content, start, source);
    Ok(())
}

/// The piece under a key, and its start.
async fn piece_at<S: Snapshot>(
    writes: &WriteSet<'_, S>,
    key: &Key,
) -> Result<Option<(u64, PieceSource)>, ServiceError> {
    let Some(row) = writes.get(key).await? else { return Ok(None) };
    let PieceRow { start, pieces } = PieceRow::decode(&row)?;
    Ok(pieces.into_iter().next().map(|piece| (start, piece.source)))
}

/// Joins two adjacent pieces, if they are small.
fn join(left: &PieceSource, right: &PieceSource) -> Option<PieceSource> {
    match (left, right) {
        (PieceSource::Zeros(left), PieceSource::Zeros(right)) => Some(PieceSource::Zeros(left + right)),
        (PieceSource::Inline(left), PieceSource::Inline(right))
            if left.len() + right.len() <= MAX_INLINE_BYTES =>
        {
            Some(PieceSource::Inline([&left[..], right].concat().into()))
        }
        _ => None,
    }
}

/// Puts a piece into a gap of a layer.
pub(super) fn put_piece<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
    start: u64,
    source: PieceSource,
) {
    let piece = StoredPiece { id: None, source };
    let key = keyspace::pieces(content, start + piece.bytes());
    writes.put(key, PieceRow { start, pieces: vec![piece] }.encode());
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
