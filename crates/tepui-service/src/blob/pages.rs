//! Put Page, Get Page Ranges, and the length of page blobs.

use super::change::changed;
use super::edit::Edit;
use super::layers::{Layer, Seen, Span, cut, is_below, layered, own_layer, put_merged, slice};
use super::precondition::{check_key, require_mutable, require_type};
use super::put::no_bytes;
use super::service::{Context, Step};
use super::target::{More, Target, written};
use super::upload::Uploaded;
use crate::MAX_PAGE_TIME;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, Source, StoredBlob};
use crate::transact::Outcome;
use std::ops::Range;
use tepui_model::blob::{
    self, BlobType, ByteRange, Changed, Checksums, GetPageRanges, OfType, PageRanges, PageState, PageWrite,
    PreviousSnapshot, PutPages, Reply, Revision,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

/// How many ranges one page of an answer has at most.
const MAX_RANGES: usize = 10_000;

pub(super) async fn put_pages<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutPages,
    uploaded: Option<&Uploaded>,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &put.blob).await?;
    let blob = target.existing()?;
    require_type(blob, BlobType::Page)?;
    let OfType::Page { sequence_number } = blob.of_type else {
        return Err(ErrorCode::InvalidBlobType.into());
    };
    check_key(blob, &put.encryption)?;
    require_mutable(blob, context.now)?;
    target.asked(&put.preconditions, context.now).check_write(blob)?;
    put.pages.check_within(blob.bytes)?;
    put.sequence.check(sequence_number)?;
    let range = put.pages.start()..put.pages.end();
    let mut new = changed(context, &target, blob);
    let mut checksums = Checksums::default();
    let update = match &put.write {
        PageWrite::Clear => None,
        PageWrite::Update(piece) => {
            let uploaded = uploaded.ok_or_else(no_bytes)?;
            let said = match piece {
                blob::Piece::Sent(upload) => upload.checksums,
                blob::Piece::FromUrl(from) => from.checksums,
            };
            checksums = said.answered(&uploaded.check(&said)?);
            Some(uploaded)
        }
    };
    let (content, head) = match own_layer(context, &mut edit, &mut new).await? {
        Layer::Own(content, head) => (content, head),
        Layer::TooDeep(content) => return Ok(Outcome::read(Step::Merge(content))),
    };
    if cut(&mut edit, content, range.clone()).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    match update {
        Some(uploaded) => put_update(&mut edit, content, &range, uploaded).await?,
        None if head.parent.is_some() => {
            let zeros = Source::Zeros(range.end - range.start);
            put_merged(&mut edit, content, range.start, zeros).await?;
        }
        None => {}
    }
    target.change(context, &mut edit, &mut new, false).await?;
    Ok(edit.finish(Reply::PagesPut { written: written(&new), checksums, sequence_number }.into()))
}

async fn put_update<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: ContentId,
    range: &Range<u64>,
    uploaded: &Uploaded,
) -> Result<(), ServiceError> {
    if uploaded.bytes != range.end - range.start {
        return Err(ErrorCode::InvalidHeaderValue.into());
    }
    let source = uploaded.keep(edit).await?;
    put_merged(edit, content, range.start, source).await
}

/// Gives a page blob another length. What is beyond it is cleared. Returns what has to be done first.
pub(super) async fn resize<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    blob: &mut StoredBlob,
    bytes: u64,
) -> Result<Option<Step>, ServiceError> {
    if bytes < blob.bytes && matches!(blob.content, Content::Listed(_)) {
        let (content, mut head) = match own_layer(context, edit, blob).await? {
            Layer::Own(content, head) => (content, head),
            Layer::TooDeep(content) => return Ok(Some(Step::Merge(content))),
        };
        if cut(edit, content, bytes..blob.bytes).await? == More::Yes {
            return Ok(Some(Step::More));
        }
        // What is not seen of the parent any more has been cleared.
        if let Some((_, seen)) = &mut head.parent {
            *seen = bytes.min(*seen);
            edit.put(keyspace::content(content), head.encode());
        }
    }
    blob.bytes = bytes;
    Ok(None)
}

pub(super) async fn get_page_ranges<S: Snapshot>(
    context: &Context<'_, S>,
    get: &GetPageRanges,
) -> Result<PageRanges, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &get.blob).await?;
    let (blob, revision) = target.revision(&edit, get.revision).await?;
    require_type(&blob, BlobType::Page)?;
    target.asked(&get.preconditions, context.now).check_read(&blob, revision == Revision::Base)?;
    let before = match &get.since {
        None => None,
        Some(PreviousSnapshot::Url(_)) => return Err(ErrorCode::PreviousSnapshotOperationNotSupported.into()),
        Some(PreviousSnapshot::At(moment)) => {
            if matches!(revision, Revision::Snapshot(taken) if taken < *moment) {
                return Err(ErrorCode::PreviousSnapshotCannotBeNewer.into());
            }
            let found = target.revision(&edit, Revision::Snapshot(*moment)).await;
            let (before, _) = found.map_err(|_| ErrorCode::PreviousSnapshotNotFound)?;
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

/// Ranges of an answer, as many as there is room for.
struct Ranges {
    found: Vec<(PageState, Range<u64>)>,
    most: usize,
    next: Option<u64>,
}

impl Ranges {
    /// Ends the page after some time, if there is more in `rest`.
    fn end_if_late<S>(&mut self, context: &Context<'_, S>, rest: Range<u64>) {
        if rest.start < rest.end && context.pace.elapsed() >= MAX_PAGE_TIME {
            self.next = self.next.or(Some(rest.start));
        }
    }

    /// Adds a range. What touches the last one becomes a part of it.
    fn add(&mut self, state: PageState, range: Range<u64>) {
        let full = self.found.len() == self.most;
        match self.found.last_mut() {
            Some((last, before)) if *last == state && before.end == range.start => before.end = range.end,
            _ if full => self.next = self.next.or(Some(range.start)),
            _ => self.found.push((state, range)),
        }
    }
}

/// Collects what was written, or what has changed since another content.
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
        for Span { range, seen } in spans {
            match seen {
                Seen::Data(_) => ranges.add(PageState::Written, range),
                Seen::Nothing => {}
                // Only what was there can be cleared.
                Seen::Zeros => {
                    let Some(below) = below else { continue };
                    let mut rest = range;
                    while rest.start < rest.end && ranges.next.is_none() {
                        let (spans, next) = layered(context.snapshot, below, rest.clone(), None).await?;
                        for Span { range, seen } in spans {
                            if matches!(seen, Seen::Data(_)) {
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

/// Collects what is different in two contents that are not layers of one another any more. What both have from
/// the same place is the same.
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
    let source = |span: &Span| match &span.seen {
        Seen::Data(part) => {
            let start = part.range.start + common.start - span.range.start;
            Some(slice(&part.source, start..start + common.end - common.start))
        }
        Seen::Zeros | Seen::Nothing => None,
    };
    match (source(new), source(old)) {
        (Some(new), Some(old)) if is_same(&new, &old) => None,
        (Some(_), _) => Some(PageState::Written),
        (None, Some(_)) => Some(PageState::Cleared),
        (None, None) => None,
    }
}

fn is_same(one: &Source, other: &Source) -> bool {
    let place = |source: &Source| match source {
        Source::Extent(extent) => Some((*extent, 0..extent.bytes)),
        Source::Slice(extent, range) | Source::EncryptedExtent(extent, range) => {
            Some((*extent, range.clone()))
        }
        Source::Inline(_) | Source::EncryptedInline(..) | Source::Zeros(_) => None,
    };
    match (place(one), place(other)) {
        (None, None) => one == other,
        (one, other) => one == other,
    }
}
