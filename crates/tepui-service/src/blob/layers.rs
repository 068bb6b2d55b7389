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
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
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

type Spans<'a> = Pin<Box<dyn Future<Output = Result<(Vec<Span>, u64), ServiceError>> + Send + 'a>>;

/// The first spans of a range, without gaps between them, and where they end. The layers from `below` on are
/// not looked at.
pub(super) fn layered<S: Snapshot>(
    snapshot: &S,
    content: ContentId,
    range: Range<u64>,
    below: Option<ContentId>,
) -> Spans<'_> {
    Box::pin(async move {
        if below == Some(content) {
            return Ok((vec![Span { range: range.clone(), seen: Seen::Nothing }], range.end));
        }
        let row = snapshot.get(&keyspace::content(content)).await.map_err(engine_error)?;
        let head = ContentHead::decode(&row.ok_or_else(|| missing("content"))?)?;
        let limit = ScanLimit { max_rows: 256, max_bytes: 256 * 1024 };
        let from = keyspace::pieces_from(content, range.start);
        let page = snapshot.scan(&from, limit).await.map_err(engine_error)?;
        let mut spans = Vec::new();
        let mut position = range.start;
        let mut last_end = range.start;
        for (_, row) in page.rows {
            let Pieces { start, pieces } = Pieces::decode(&row)?;
            let Some(piece) = pieces.into_iter().next() else { continue };
            let end = start + piece.bytes();
            last_end = end;
            if start >= range.end {
                break;
            }
            if position < start {
                let (below_spans, reached) = gap(snapshot, &head, position..start, below).await?;
                spans.extend(below_spans);
                position = reached;
                if reached < start {
                    return Ok((spans, position));
                }
            }
            let until = end.min(range.end);
            let within = position - start..until - start;
            let seen = match piece.source {
                Source::Zeros(_) => Seen::Zeros,
                source => Seen::Data(Part { source, range: within }),
            };
            spans.push(Span { range: position..until, seen });
            position = until;
        }
        // Where nothing more was read, nothing is known.
        let known = if page.next.is_some() { range.end.min(last_end) } else { range.end };
        if position < known {
            let (below_spans, reached) = gap(snapshot, &head, position..known, below).await?;
            spans.extend(below_spans);
            position = reached;
        }
        Ok((spans, position))
    })
}

/// What the parent has where a layer has nothing.
async fn gap<S: Snapshot>(
    snapshot: &S,
    head: &ContentHead,
    range: Range<u64>,
    below: Option<ContentId>,
) -> Result<(Vec<Span>, u64), ServiceError> {
    match head.parent {
        Some((parent, bytes)) if range.start < bytes => {
            layered(snapshot, parent, range.start..range.end.min(bytes), below).await
        }
        _ => Ok((vec![Span { range: range.clone(), seen: Seen::Nothing }], range.end)),
    }
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
        Content::Inline(_) | Content::Small(_) | Content::Extent(_) => None,
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
