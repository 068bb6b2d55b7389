//! Contents of page blobs: pieces with gaps between them, in layers.
//!
//! A content that is shared, with a snapshot say, does not change any more. Whoever writes then begins a layer
//! of its own, whose parent is the shared content. What the layer has counts; where it has nothing, the parent
//! does. So what has changed since a snapshot is what is in the layers above its content.

use super::contents::{self, Part, missing};
use super::edit::{Edit, Rows};
use super::service::Context;
use super::target::More;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, Piece, Pieces, Source, StoredBlob};
use crate::transact::engine_error;
use std::ops::Range;
use tepui_engine::{ScanLimit, Snapshot};
use tepui_model::ServiceError;

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
    /// Cleared.
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
        let row = snapshot.get(&keyspace::content(content)).await.map_err(engine_error)?;
        let head = ContentHead::decode(&row.ok_or_else(|| missing("content"))?)?;
        let from = keyspace::pieces_from(content, first.start);
        let page = snapshot.scan(&from, limit).await.map_err(engine_error)?;
        let pieces = page.rows.iter().map(|(_, row)| placed(row)).collect::<Result<Vec<_>, _>>()?;
        if page.next.is_some() {
            end = end.min(pieces.iter().flatten().last().map_or(end, |(place, _)| place.end));
            gaps = clipped(gaps, end);
        }
        gaps = fill(&gaps, &pieces, &mut spans);
        let seen_of_parent = head.parent.map_or(0, |(_, bytes)| bytes);
        let beyond = gaps.iter().filter(|gap| gap.end > seen_of_parent);
        spans.extend(beyond.map(|gap| nothing(gap.start.max(seen_of_parent)..gap.end)));
        gaps = clipped(gaps, seen_of_parent);
        layer = head.parent.map(|(parent, _)| parent);
    }
    spans.extend(gaps.into_iter().map(nothing));
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

fn nothing(range: Range<u64>) -> Span {
    Span { range, seen: Seen::Nothing }
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

/// The layer that a page blob may write to: its own, or a new one if others see it, too.
pub(super) async fn own_layer<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    blob: &mut StoredBlob,
) -> Result<(ContentId, ContentHead), ServiceError> {
    let parent = match blob.content {
        Content::Listed(content) => {
            let head = contents::head(edit, content).await?;
            if head.references == 1 {
                return Ok((content, head));
            }
            // The blob's reference goes over to the layer.
            Some((content, blob.bytes))
        }
        Content::Inline(_) | Content::Extent(_) => None,
    };
    let content = ContentId::new(context.now, (context.chance)());
    let head = ContentHead { references: 1, end: 0, parent };
    edit.put(keyspace::content(content), head.encode());
    blob.content = Content::Listed(content);
    Ok((content, head))
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
fn slice(source: &Source, range: Range<u64>) -> Source {
    match source {
        Source::Inline(bytes) => Source::Inline(bytes.slice(range.start as usize..range.end as usize)),
        Source::Extent(extent) => Source::Slice(*extent, range),
        Source::Slice(extent, before) => {
            Source::Slice(*extent, before.start + range.start..before.start + range.end)
        }
        Source::Zeros(_) => Source::Zeros(range.end - range.start),
    }
}

/// Puts a piece where a layer has nothing.
pub(super) fn put_piece<S: Snapshot>(edit: &mut Edit<'_, S>, content: ContentId, start: u64, source: Source) {
    let piece = Piece { id: None, source };
    let key = keyspace::pieces(content, start + piece.bytes());
    edit.put(key, Pieces { start, pieces: vec![piece] }.encode());
}
