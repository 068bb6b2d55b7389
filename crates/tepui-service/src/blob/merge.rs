//! Merges the upper layers of a page blob into one when there are too many.
//!
//! Only the top layer of a blob changes. So the visible pieces of the layers below can be copied in any number of
//! commits; their bytes are shared. Until a blob refers to the copy it has a GC record, so that an abandoned copy is
//! collected like any other content, by any node. The record says from when on; every commit of the copy moves that time, and
//! fails if the collector was there before.

use super::contents;
use super::layers::{MAX_LAYERS, Span, SpanKind, head_of, layered, put_merged, slice};
use super::service::BlobService;
use super::write_set::WriteSet;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, PieceSource, decode_number, encode_number};
use crate::transact::{Attempt, SpaceUse, commit, retry, storage_error};
use std::time::Duration;
use tepui_model::ServiceError;
use tepui_storage::{Engine, Extents, Snapshot};

/// Layers that are merged into one.
const MERGED: usize = MAX_LAYERS / 2;
/// Pieces copied in one commit.
const PIECES_AT_ONCE: usize = 1000;
/// An offset beyond every page blob.
const END: u64 = 1 << 62;

/// How long a copy that nothing refers to is kept from the garbage collector, from its last commit on.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

/// A content equal to `from` in fewer layers. Nothing refers to it yet.
pub(super) struct Merged {
    pub(super) from: ContentId,
    pub(super) to: ContentId,
}

/// Whether a content that was made by a merge is whole: the garbage collector has not begun with it. The commit conflicts
/// if it does.
pub(super) async fn is_whole<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
) -> Result<bool, ServiceError> {
    let gc_record = keyspace::dropped_content(content);
    let row = writes.get(&gc_record).await?;
    writes.guard(gc_record);
    Ok(row.map(|row| decode_number(&row)).transpose()?.is_some_and(|kept_until| kept_until > 0))
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Copies the upper layers of a content into one. `None` if the content was released meanwhile, or the copy was.
    pub(super) async fn merge(&self, from: ContentId) -> Result<Option<Merged>, ServiceError> {
        let to = ContentId::new(self.clock.tick(), (self.random_ids)());
        match self.copy_layers(from, to).await {
            Ok(CopyOutcome::Whole) => Ok(Some(Merged { from, to })),
            Ok(CopyOutcome::Collected) => Ok(None),
            Err(error) => {
                let snapshot = self.begin().await?;
                let row = snapshot.get(&keyspace::content(from)).await.map_err(storage_error)?;
                let head = row.map(|row| ContentHead::decode(&row)).transpose()?;
                if head.is_some_and(|head| head.references > 0) { Err(error) } else { Ok(None) }
            }
        }
    }

    async fn copy_layers(&self, from: ContentId, to: ContentId) -> Result<CopyOutcome, ServiceError> {
        let parent = below(&self.begin().await?, from).await?;
        self.write(to, parent, MergeWrite::Head).await?;
        let mut position = 0;
        while position < END {
            // Layers below the top do not change, so each step may have a snapshot of its own.
            let snapshot = self.begin().await?;
            let mut spans = Vec::new();
            while position < END && spans.len() < PIECES_AT_ONCE {
                let lower = parent.map(|(parent, _)| parent);
                let (found, next) = layered(&snapshot, from, position..END, lower).await?;
                spans.extend(found);
                position = next;
            }
            drop(snapshot);
            if self.write(to, parent, MergeWrite::Spans(&spans)).await? == CopyOutcome::Collected {
                return Ok(CopyOutcome::Collected);
            }
        }
        Ok(CopyOutcome::Whole)
    }

    /// Commits a part of a content under construction.
    async fn write(
        &self,
        to: ContentId,
        parent: Option<(ContentId, u64)>,
        write: MergeWrite<'_>,
    ) -> Result<CopyOutcome, ServiceError> {
        retry(|()| async move {
            let snapshot = self.begin().await?;
            let mut writes = WriteSet::new(&snapshot);
            match write {
                MergeWrite::Head => {
                    let head = ContentHead { references: 1, end: 0, parent };
                    writes.put(keyspace::content(to), head.encode());
                    if let Some((parent, _)) = parent {
                        contents::add_reference(&mut writes, &Content::Listed(parent)).await?;
                    }
                }
                MergeWrite::Spans(spans) => {
                    if !is_whole(&mut writes, to).await? {
                        return Ok(Attempt::Done(CopyOutcome::Collected));
                    }
                    let visible_parent_bytes = parent.map_or(0, |(_, bytes)| bytes);
                    let extents = spans.iter().filter_map(|span| match &span.kind {
                        SpanKind::Data(part) => contents::extent_of(&part.source),
                        SpanKind::Zeros | SpanKind::Absent => None,
                    });
                    writes.prefetch(extents.map(keyspace::extent)).await?;
                    for span in spans {
                        copy_span(&mut writes, to, span, visible_parent_bytes).await?;
                    }
                }
            }
            let kept_until = self.clock.of_machine(self.clock.tick()).saturating_add(KEPT_FOR);
            writes.put_stamped(keyspace::dropped_content(to), encode_number(kept_until.ticks()));
            let (outcome, transaction) = (writes.finish(CopyOutcome::Whole), snapshot.into_inner());
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }
}

/// Whether a copy of layers was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyOutcome {
    Whole,
    /// It took so long that the garbage collector took it for an abandoned one.
    Collected,
}

/// What one commit writes of a content.
#[derive(Clone, Copy)]
enum MergeWrite<'a> {
    Head,
    Spans(&'a [Span]),
}

/// The layer below those that are merged, and how many of its bytes are visible.
async fn below<S: Snapshot>(snapshot: &S, from: ContentId) -> Result<Option<(ContentId, u64)>, ServiceError> {
    let (mut content, mut visible) = (from, u64::MAX);
    for _ in 0..MERGED {
        let Some((parent, bytes)) = head_of(snapshot, content).await?.parent else { return Ok(None) };
        content = parent;
        visible = visible.min(bytes);
    }
    Ok(Some((content, visible)))
}

async fn copy_span<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    to: ContentId,
    span: &Span,
    visible_parent_bytes: u64,
) -> Result<(), ServiceError> {
    let source = match &span.kind {
        SpanKind::Data(part) => slice(&part.source, part.range.clone()),
        // Zeros are needed only where the parent is visible.
        SpanKind::Zeros if span.range.start < visible_parent_bytes => {
            PieceSource::Zeros(span.range.end.min(visible_parent_bytes) - span.range.start)
        }
        SpanKind::Zeros | SpanKind::Absent => return Ok(()),
    };
    if let Some(extent) = contents::extent_of(&source) {
        contents::add_extent_reference(writes, extent).await?;
    }
    put_merged(writes, to, span.range.start, source).await
}
