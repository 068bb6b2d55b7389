//! Merges the upper layers of a page blob into one when there are too many.
//!
//! Only the top layer of a blob changes. So the visible pieces of the layers below can be copied in any number of
//! commits; their bytes are shared. Until a blob refers to the copy it has a GC record, so that an abandoned copy is
//! collected like any other content.

use super::contents;
use super::layers::{MAX_LAYERS, Span, SpanKind, head_of, layered, put_merged, slice};
use super::service::BlobService;
use super::write_set::WriteSet;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, PieceSource, encode_number};
use crate::transact::{SpaceUse, commit, engine_error, retry};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use tepui_model::ServiceError;
use tepui_storage::{Engine, Extents, Snapshot};

/// Layers that are merged into one.
const MERGED: usize = MAX_LAYERS / 2;
/// Pieces copied in one commit.
const PIECES_AT_ONCE: usize = 1000;
/// An offset beyond every page blob.
const END: u64 = 1 << 62;

/// Contents under construction, pinned against garbage collection although nothing refers to them yet.
#[derive(Default)]
pub(super) struct PinnedContents(Mutex<HashSet<ContentId>>);

impl PinnedContents {
    pub(super) fn contains(&self, content: ContentId) -> bool {
        self.0.lock().contains(&content)
    }
}

/// A content equal to `from` in fewer layers. Nothing refers to it yet.
pub(super) struct Merged {
    pub(super) from: ContentId,
    pub(super) to: ContentId,
    pinned: Arc<PinnedContents>,
}

impl Drop for Merged {
    fn drop(&mut self) {
        self.pinned.0.lock().remove(&self.to);
    }
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Copies the upper layers of a content into one. `None` if the content was released meanwhile.
    pub(super) async fn merge(&self, from: ContentId) -> Result<Option<Merged>, ServiceError> {
        let to = ContentId::new(self.clock.tick(), (self.random_ids)());
        self.pinned.0.lock().insert(to);
        let merged = Merged { from, to, pinned: Arc::clone(&self.pinned) };
        match self.copy_layers(&merged).await {
            Ok(()) => Ok(Some(merged)),
            Err(error) => {
                let snapshot = self.snapshot().await?;
                let row = snapshot.get(&keyspace::content(from)).await.map_err(engine_error)?;
                let head = row.map(|row| ContentHead::decode(&row)).transpose()?;
                if head.is_some_and(|head| head.references > 0) { Err(error) } else { Ok(None) }
            }
        }
    }

    async fn copy_layers(&self, merged: &Merged) -> Result<(), ServiceError> {
        let snapshot = self.snapshot().await?;
        let parent = below(&snapshot, merged.from).await?;
        self.write(merged.to, parent, MergeWrite::Head).await?;
        let mut position = 0;
        while position < END {
            let mut spans = Vec::new();
            while position < END && spans.len() < PIECES_AT_ONCE {
                let lower = parent.map(|(parent, _)| parent);
                let (found, next) = layered(&snapshot, merged.from, position..END, lower).await?;
                spans.extend(found);
                position = next;
            }
            self.write(merged.to, parent, MergeWrite::Spans(&spans)).await?;
        }
        Ok(())
    }

    /// Commits a part of a content under construction.
    async fn write(
        &self,
        to: ContentId,
        parent: Option<(ContentId, u64)>,
        write: MergeWrite<'_>,
    ) -> Result<(), ServiceError> {
        retry((), |()| async move {
            let snapshot = self.snapshot().await?;
            let mut writes = WriteSet::new(&snapshot);
            match write {
                MergeWrite::Head => {
                    let head = ContentHead { references: 1, end: 0, parent };
                    writes.put(keyspace::content(to), head.encode());
                    writes.put(keyspace::dropped_content(to), encode_number(0));
                    if let Some((parent, _)) = parent {
                        contents::add_reference(&mut writes, &Content::Listed(parent)).await?;
                    }
                }
                MergeWrite::Spans(spans) => {
                    let visible_parent_bytes = parent.map_or(0, |(_, bytes)| bytes);
                    for span in spans {
                        copy_span(&mut writes, to, span, visible_parent_bytes).await?;
                    }
                }
            }
            let outcome = writes.finish(());
            commit(&*self.engine, &snapshot, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }
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
