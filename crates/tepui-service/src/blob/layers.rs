//! Contents of page blobs: pieces with gaps between them, in layers.
//!
//! A content that is shared, with a snapshot say, does not change any more. Whoever writes then begins a layer
//! of its own, whose parent is the shared content. What the layer has counts; where it has nothing, the parent
//! does. So what has changed since a snapshot is what is in the layers above its content. Reading gets slower
//! with every layer: when there are too many, `merge.rs` makes one of those on top.

use super::contents::{self, Part, missing};
use super::edit::{Edit, Rows};
use super::service::Context;
use super::target::More;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, Piece, Pieces, Source, StoredBlob};
use crate::transact::engine_error;
use std::ops::Range;
use tepui_model::ServiceError;
use tepui_storage::{Key, ScanLimit, Snapshot};

/// How many layers a content has at most.
pub(super) const MAX_LAYERS: usize = 32;
/// The longest piece that small ones become together.
const MAX_INLINE_BYTES: usize = 16 * 1024;
/// How many pieces are replaced in one commit.
const REPLACED_AT_ONCE: usize = 10_000;

/// A stretch of a content, and what is seen there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) range: Range<u64>,
    pub(super) seen: Seen,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Data(Part),
    /// Cleared, or beyond what a layer sees of its parent: what the layers below have there is hidden.
    Zeros,
    /// No layer that was looked at has anything.
    Nothing,
}

/// The first spans of a range, without gaps between them, and where they end. The layers from `below` on are
/// not looked at.
///
/// Layer by layer from the top, each with one look at its pieces: there are as many as the blob had snapshots.
pub(super) async fn layered<S: Snapshot>(
    snapshot: &S,
    content: ContentId,
    range: Range<u64>,
    below: Option<ContentId>,
) -> Result<(Vec<Span>, u64), ServiceError> {
    let limit = ScanLimit { max_rows: 256, max_bytes: 256 * 1024 };
    let mut spans = Vec::new();
    // From here on, some layer has more than was read of it.
    let mut end = range.end;
    // Where no layer so far has anything, in order.
    let mut gaps = vec![range];
    let mut layer = Some(content);
    while let (Some(content), Some(first)) = (layer.filter(|layer| Some(*layer) != below), gaps.first()) {
        let head = head_of(snapshot, content).await?;
        let from = keyspace::pieces_from(content, first.start);
        let page = snapshot.scan_some(&from, limit).await.map_err(engine_error)?;
        let pieces = page.rows.iter().map(|(_, row)| placed(row)).collect::<Result<Vec<_>, _>>()?;
        if page.next.is_some() {
            end = end.min(pieces.iter().flatten().last().map_or(end, |(place, _)| place.end));
            gaps = clipped(gaps, end);
        }
        gaps = fill(&gaps, &pieces, &mut spans);
        layer = head.parent.map(|(parent, _)| parent);
        if let Some((_, seen_of_parent)) = head.parent {
            let beyond = gaps.iter().filter(|gap| gap.end > seen_of_parent);
            let hidden = beyond.map(|gap| gap.start.max(seen_of_parent)..gap.end);
            spans.extend(hidden.map(|range| Span { range, seen: Seen::Zeros }));
            gaps = clipped(gaps, seen_of_parent);
        }
    }
    spans.extend(gaps.into_iter().map(|range| Span { range, seen: Seen::Nothing }));
    spans.retain(|span| span.range.start < end);
    spans.sort_unstable_by_key(|span| span.range.start);
    if let Some(Span { range, seen }) = spans.last_mut()
        && range.end > end
    {
        if let Seen::Data(part) = seen {
            part.range.end -= range.end - end;
        }
        range.end = end;
    }
    Ok((spans, end))
}

/// A row's piece, and where it is.
fn placed(row: &[u8]) -> Result<Option<(Range<u64>, Source)>, ServiceError> {
    let Pieces { start, pieces } = Pieces::decode(row)?;
    let piece = pieces.into_iter().next();
    Ok(piece.map(|piece| (start..start + piece.bytes(), piece.source)))
}

/// What is in ranges before an end.
fn clipped(ranges: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    ranges
        .into_iter()
        .filter(|range| range.start < end)
        .map(|range| range.start..range.end.min(end))
        .collect()
}

/// Fills gaps with the pieces of a layer. Returns those that are left. Both are in order.
fn fill(
    gaps: &[Range<u64>],
    pieces: &[Option<(Range<u64>, Source)>],
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
            let seen = match source {
                Source::Zeros(_) => Seen::Zeros,
                source => Seen::Data(Part {
                    source: source.clone(),
                    range: position - place.start..until - place.start,
                }),
            };
            spans.push(Span { range: position..until, seen });
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
    let row = snapshot.get(&keyspace::content(content)).await.map_err(engine_error)?;
    ContentHead::decode(&row.ok_or_else(|| missing("content"))?)
}

/// Whether a content is seen through another one.
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
    /// There are too many: those of this content have to be merged first.
    TooDeep(ContentId),
}

/// The layer that a page blob may write to: its own, or a new one if others see it, too.
pub(super) async fn own_layer<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    blob: &mut StoredBlob,
) -> Result<Layer, ServiceError> {
    let parent = match blob.content {
        Content::Listed(content) => {
            let head = contents::head(edit, content).await?;
            if head.references == 1 {
                return Ok(Layer::Own(content, head));
            }
            if let Some(merged) = context.merged.filter(|merged| merged.from == content) {
                // What was made of its layers is this blob's alone.
                contents::release(edit, &blob.content).await?;
                edit.delete(keyspace::dropped_content(merged.to));
                blob.content = Content::Listed(merged.to);
                let head = contents::head(edit, merged.to).await?;
                return Ok(Layer::Own(merged.to, head));
            }
            if is_too_deep(context.snapshot, content).await? {
                return Ok(Layer::TooDeep(content));
            }
            // The blob's reference goes over to the layer.
            Some((content, blob.bytes))
        }
        Content::Inline(_) | Content::Small(_) | Content::Extent(_) => None,
    };
    let content = ContentId::new(context.now, (context.chance)());
    let head = ContentHead { references: 1, end: 0, parent };
    edit.put(keyspace::content(content), head.encode());
    blob.content = Content::Listed(content);
    Ok(Layer::Own(content, head))
}

/// Takes a range out of a layer. If very much is in it, only some of it: then nothing else can be in the same
/// commit.
pub(super) async fn cut<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: ContentId,
    range: Range<u64>,
) -> Result<More, ServiceError> {
    let mut rows = Rows::of(edit.snapshot, keyspace::pieces_from(content, range.start), 256);
    for _ in 0..REPLACED_AT_ONCE {
        let Some((key, row)) = rows.next().await? else { return Ok(More::No) };
        let Pieces { start, pieces } = Pieces::decode(&row)?;
        if start >= range.end {
            return Ok(More::No);
        }
        let Some(Piece { source, .. }) = pieces.into_iter().next() else { continue };
        let end = start + Piece { id: None, source: source.clone() }.bytes();
        edit.delete(key);
        let left = (start < range.start).then_some(start..range.start);
        let right = (range.end < end).then_some(range.end..end);
        if let Some(extent) = contents::extent_of(&source) {
            match (&left, &right) {
                (None, None) => contents::release_extent(edit, extent).await?,
                (Some(_), Some(_)) => contents::share_extent(edit, extent).await?,
                _ => {}
            }
        }
        for rest in [left, right].into_iter().flatten() {
            let source = slice(&source, rest.start - start..rest.end - start);
            put_piece(edit, content, rest.start, source);
        }
    }
    Ok(More::Yes)
}

/// A part of what a piece has.
pub(super) fn slice(source: &Source, range: Range<u64>) -> Source {
    match source {
        Source::Inline(bytes) => Source::Inline(bytes.slice(range.start as usize..range.end as usize)),
        Source::Extent(extent) => Source::Slice(*extent, range),
        Source::Slice(extent, before) => {
            Source::Slice(*extent, before.start + range.start..before.start + range.end)
        }
        Source::Zeros(_) => Source::Zeros(range.end - range.start),
        Source::EncryptedInline(bytes, before) => {
            Source::EncryptedInline(bytes.clone(), before.start + range.start..before.start + range.end)
        }
        Source::EncryptedExtent(extent, before) => {
            Source::EncryptedExtent(*extent, before.start + range.start..before.start + range.end)
        }
    }
}

/// Puts a piece where a layer has nothing. Small ones become one with those beside them.
pub(super) async fn put_merged<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: ContentId,
    start: u64,
    source: Source,
) -> Result<(), ServiceError> {
    let end = start + Piece { id: None, source: source.clone() }.bytes();
    let (mut start, mut source) = (start, source);
    let left = keyspace::pieces(content, start);
    if let Some((at, before)) = piece_at(edit, &left).await?
        && let Some(joined) = join(&before, &source)
    {
        edit.delete(left);
        (start, source) = (at, joined);
    }
    let range = keyspace::pieces_from(content, end);
    let right = edit.snapshot.first(&range).await.map_err(engine_error)?;
    if let Some((key, _)) = right
        && let Some((at, after)) = piece_at(edit, &key).await?
        && at == end
        && let Some(joined) = join(&source, &after)
    {
        edit.delete(key);
        source = joined;
    }
    put_piece(edit, content, start, source);
    Ok(())
}

/// The piece under a key, and where it begins.
async fn piece_at<S: Snapshot>(edit: &Edit<'_, S>, key: &Key) -> Result<Option<(u64, Source)>, ServiceError> {
    let Some(row) = edit.get(key).await? else { return Ok(None) };
    let Pieces { start, pieces } = Pieces::decode(&row)?;
    Ok(pieces.into_iter().next().map(|piece| (start, piece.source)))
}

/// Two pieces in one, if that is worth it.
fn join(left: &Source, right: &Source) -> Option<Source> {
    match (left, right) {
        (Source::Zeros(left), Source::Zeros(right)) => Some(Source::Zeros(left + right)),
        (Source::Inline(left), Source::Inline(right)) if left.len() + right.len() <= MAX_INLINE_BYTES => {
            Some(Source::Inline([&left[..], right].concat().into()))
        }
        _ => None,
    }
}

/// Puts a piece where a layer has nothing.
pub(super) fn put_piece<S: Snapshot>(edit: &mut Edit<'_, S>, content: ContentId, start: u64, source: Source) {
    let piece = Piece { id: None, source };
    let key = keyspace::pieces(content, start + piece.bytes());
    edit.put(key, Pieces { start, pieces: vec![piece] }.encode());
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
