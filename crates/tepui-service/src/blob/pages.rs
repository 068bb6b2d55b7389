//! Put Page, Get Page Ranges, and the length of page blobs.

use super::change::changed;
use super::layers::{Layer, Span, SpanKind, cut, is_below, layered, own_layer, put_merged, slice};
use super::precondition::{check_key, require_mutable, require_type};
use super::service::{Context, NextStep};
use super::slot::{BlobSlot, Progress, written};
use super::upload::Uploaded;
use super::write_set::WriteSet;
use crate::MAX_PAGE_TIME;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, PieceSource, StoredBlob};
use crate::transact::Outcome;
use std::ops::Range;
use tepui_model::blob::{
    BlobType, ByteRange, Changed, Checksums, GetPageRanges, OfType, PageRanges, PageState, PageWrite,
    PreviousSnapshot, PutPages, Reply, Revision,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

/// The most ranges in one page of the reply.
const MAX_RANGES: usize = 10_000;

pub(super) async fn put_pages<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutPages,
    uploaded: &Uploaded,
) -> Result<Outcome<NextStep>, ServiceError> {
    write_pages(context, &put.write, Some((uploaded, put.piece.checksums()))).await
}

pub(super) async fn clear_pages<S: Snapshot>(
    context: &Context<'_, S>,
    clear: &PageWrite,
) -> Result<Outcome<NextStep>, ServiceError> {
    write_pages(context, clear, None).await
}

/// Writes bytes with declared checksums. `None`: clears the pages.
async fn write_pages<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PageWrite,
    update: Option<(&Uploaded, &Checksums)>,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &put.blob).await?;
    let blob = slot.existing()?;
    require_type(blob, BlobType::Page)?;
    let OfType::Page { sequence_number } = blob.of_type else {
        return Err(ErrorCode::InvalidBlobType.into());
    };
    check_key(blob, &put.encryption)?;
    require_mutable(blob, context.now)?;
    slot.precondition_check(&put.preconditions, context.now).for_write(blob)?;
    put.pages.check_within(blob.bytes)?;
    put.sequence.check(sequence_number)?;
    let range = put.pages.start()..put.pages.end();
    let mut new = changed(context, &slot, blob);
    let checksums = match update {
        Some((uploaded, declared)) => declared.answered(&uploaded.check(declared)?),
        None => Checksums::default(),
    };
    let (content, head) = match own_layer(context, &mut writes, &mut new).await? {
        Layer::Own(content, head) => (content, head),
        Layer::TooDeep(content) => return Ok(Outcome::read(NextStep::MergeLayers(content))),
    };
    if cut(&mut writes, content, range.clone()).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    match update {
        Some((uploaded, _)) => put_update(&mut writes, content, &range, uploaded).await?,
        None if head.parent.is_some() => {
            let zeros = PieceSource::Zeros(range.end - range.start);
            put_merged(&mut writes, content, range.start, zeros).await?;
        }
        None => {}
    }
    slot.change(context, &mut writes, &mut new, false).await?;
    Ok(writes.finish(Reply::PagesPut { written: written(&new), checksums, sequence_number }.into()))
}

async fn put_update<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
    range: &Range<u64>,
    uploaded: &Uploaded,
) -> Result<(), ServiceError> {
    if uploaded.bytes != range.end - range.start {
        return Err(ErrorCode::InvalidHeaderValue.into());
    }
    let source = uploaded.add_piece(writes).await?;
    put_merged(writes, content, range.start, source).await
}

/// Changes the length of a page blob. Pages beyond it are cleared. Returns a step that has to be done first, if any.
pub(super) async fn resize<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    blob: &mut StoredBlob,
    bytes: u64,
) -> Result<Option<NextStep>, ServiceError> {
    if bytes < blob.bytes && matches!(blob.content, Content::Listed(_)) {
        let (content, mut head) = match own_layer(context, writes, blob).await? {
            Layer::Own(content, head) => (content, head),
            Layer::TooDeep(content) => return Ok(Some(NextStep::MergeLayers(content))),
        };
        if cut(writes, content, bytes..blob.bytes).await? == Progress::Partial {
            return Ok(Some(NextStep::Continue));
        }
        // The parent stays hidden beyond the new length if the blob grows again.
        if let Some((_, visible)) = &mut head.parent {
            *visible = bytes.min(*visible);
            writes.put(keyspace::content(content), head.encode());
        }
    }
    blob.bytes = bytes;
    Ok(None)
}

pub(super) async fn get_page_ranges<S: Snapshot>(
    context: &Context<'_, S>,
    get: &GetPageRanges,
) -> Result<PageRanges, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &get.blob).await?;
    let (blob, revision) = slot.revision(&writes, get.revision).await?;
    require_type(&blob, BlobType::Page)?;
    slot.precondition_check(&get.preconditions, context.now).for_read(&blob, revision == Revision::Base)?;
    let before = match &get.since {
        None => None,
        Some(PreviousSnapshot::Url(_)) => return Err(ErrorCode::PreviousSnapshotOperationNotSupported.into()),
        Some(PreviousSnapshot::At(timestamp)) => {
            if matches!(revision, Revision::Snapshot(taken) if taken < *timestamp) {
                return Err(ErrorCode::PreviousSnapshotCannotBeNewer.into());
            }
            let found = slot.revision(&writes, Revision::Snapshot(*timestamp)).await;
            let (before, _) = found.map_err(|error| match error.code {
                ErrorCode::BlobNotFound => ErrorCode::PreviousSnapshotNotFound.into(),
                _ => error,
            })?;
            if before.created != blob.created {
                return Err(ErrorCode::BlobOverwritten.into());
            }
            Some(before)
        }
    };
    let mut within = match get.range {
        Some(range) => {
            let found = range.within(blob.bytes);
            found.map_err(|code| ServiceError::new(code).with_resource_bytes(blob.bytes))?
        }
        None => 0..blob.bytes,
    };
    within.start = within.start.max(get.from.unwrap_or(0));
    let most = get.page_size.unwrap_or(MAX_RANGES).min(MAX_RANGES);
    let mut ranges = Ranges { found: Vec::new(), most, next: None };
    let below = before.as_ref().map(|before| before.content.clone());
    if let Content::Listed(content) = blob.content {
        collect(context, content, within, below.as_ref(), &mut ranges).await?;
    }
    let as_bytes = |range: Range<u64>| ByteRange { first: range.start, last: Some(range.end - 1) };
    Ok(PageRanges {
        changed: Changed(blob.changed),
        blob_bytes: blob.bytes,
        ranges: ranges.found.into_iter().map(|(state, range)| (state, as_bytes(range))).collect(),
        next: ranges.next,
    })
}

/// The ranges of the reply, at most `most`.
struct Ranges {
    found: Vec<(PageState, Range<u64>)>,
    most: usize,
    next: Option<u64>,
}

impl Ranges {
    /// Ends the page when its time is over and `rest` is not empty.
    fn end_if_late<S>(&mut self, context: &Context<'_, S>, rest: Range<u64>) {
        if rest.start < rest.end && context.coop.elapsed() >= MAX_PAGE_TIME {
            self.next = self.next.or(Some(rest.start));
        }
    }

    /// Adds a range, joined with the last one if they are adjacent.
    fn add(&mut self, state: PageState, range: Range<u64>) {
        let full = self.found.len() == self.most;
        match self.found.last_mut() {
            Some((last, before)) if *last == state && before.end == range.start => before.end = range.end,
            _ if full => self.next = self.next.or(Some(range.start)),
            _ => self.found.push((state, range)),
        }
    }
}

/// Collects the written ranges, or the ranges that have changed since another content.
async fn collect<S: Snapshot>(
    context: &Context<'_, S>,
    content: ContentId,
    mut within: Range<u64>,
    before: Option<&Content>,
    ranges: &mut Ranges,
) -> Result<(), ServiceError> {
    let below = match before {
        Some(Content::Listed(below)) => Some(*below),
        _ => None,
    };
    if let Some(below) = below
        && !is_below(context.snapshot, content, below).await?
    {
        return compare(context, content, below, within, ranges).await;
    }
    while within.start < within.end && ranges.next.is_none() {
        let (spans, next) = layered(context.snapshot, content, within.clone(), below).await?;
        for Span { range, kind } in spans {
            match kind {
                SpanKind::Data(_) => ranges.add(PageState::Written, range),
                SpanKind::Absent => {}
                // Only ranges that had data can be cleared.
                SpanKind::Zeros => {
                    let Some(below) = below else { continue };
                    let mut rest = range;
                    while rest.start < rest.end && ranges.next.is_none() {
                        let (spans, next) = layered(context.snapshot, below, rest.clone(), None).await?;
                        for Span { range, kind } in spans {
                            if matches!(kind, SpanKind::Data(_)) {
                                ranges.add(PageState::Cleared, range);
                            }
                        }
                        rest.start = next;
                    }
                }
            }
            if ranges.next.is_some() {
                break;
            }
        }
        within.start = next;
        ranges.end_if_late(context, within.clone());
    }
    Ok(())
}

/// Collects the differences of two contents of which neither is a layer of the other. Pieces with the same source are
/// equal.
async fn compare<S: Snapshot>(
    context: &Context<'_, S>,
    content: ContentId,
    before: ContentId,
    mut within: Range<u64>,
    ranges: &mut Ranges,
) -> Result<(), ServiceError> {
    while within.start < within.end && ranges.next.is_none() {
        let (now, next) = layered(context.snapshot, content, within.clone(), None).await?;
        let (then, next_then) = layered(context.snapshot, before, within.start..next, None).await?;
        let mut then = then.iter();
        let mut old = then.next();
        for new in &now {
            let mut start = new.range.start;
            while start < new.range.end
                && let Some(span) = old
            {
                let common = start..new.range.end.min(span.range.end);
                if let Some(state) = difference(new, span, &common) {
                    ranges.add(state, common.clone());
                }
                start = common.end;
                if start == span.range.end {
                    old = then.next();
                }
            }
        }
        within.start = next.min(next_then);
        ranges.end_if_late(context, within.clone());
    }
    Ok(())
}

fn difference(new: &Span, old: &Span, common: &Range<u64>) -> Option<PageState> {
    let source = |span: &Span| match &span.kind {
        SpanKind::Data(part) => {
            let start = part.range.start + common.start - span.range.start;
            Some(slice(&part.source, start..start + common.end - common.start))
        }
        SpanKind::Zeros | SpanKind::Absent => None,
    };
    match (source(new), source(old)) {
        (Some(new), Some(old)) if is_same(&new, &old) => None,
        (Some(_), _) => Some(PageState::Written),
        (None, Some(_)) => Some(PageState::Cleared),
        (None, None) => None,
    }
}

fn is_same(one: &PieceSource, other: &PieceSource) -> bool {
    let location = |source: &PieceSource| match source {
        PieceSource::Extent(extent) => Some((*extent, 0..extent.bytes)),
        PieceSource::Slice(extent, range) | PieceSource::EncryptedExtent(extent, range) => {
            Some((*extent, range.clone()))
        }
        PieceSource::Inline(_) | PieceSource::EncryptedInline(..) | PieceSource::Zeros(_) => None,
    };
    match (location(one), location(other)) {
        (None, None) => one == other,
        (one, other) => one == other,
    }
}
