//! Layers that are too many: those on top become one.
//!
//! Layers below the one that a blob writes to do not change. So what is seen through them can be copied, piece
//! by piece, in as many commits as it takes; the bytes themselves are shared. Until a blob refers to the copy
//! there is a note that nothing does, so one that was left behind is given back like any other content.

use super::contents;
use super::edit::Edit;
use super::layers::{MAX_LAYERS, Seen, Span, head_of, layered, put_merged, slice};
use super::service::BlobService;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, Source, encode_number};
use crate::transact::{Attempt, Space, commit, engine_error};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tepui_model::ServiceError;
use tepui_storage::{Engine, Extents, Snapshot};

/// How many layers become one.
const MERGED: usize = MAX_LAYERS / 2;
/// How much is copied in one commit.
const PIECES_AT_ONCE: usize = 1000;
/// Beyond every page blob.
const END: u64 = 1 << 62;

/// Contents that are being made, which must not be given back although nothing refers to them yet.
#[derive(Default)]
pub(super) struct Making(Mutex<HashSet<ContentId>>);

impl Making {
    fn lock(&self) -> MutexGuard<'_, HashSet<ContentId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, content: ContentId) -> bool {
        self.lock().contains(&content)
    }
}

/// A content that has what another one has, in fewer layers. Nothing refers to it.
pub(super) struct Merged {
    pub(super) from: ContentId,
    pub(super) to: ContentId,
    making: Arc<Making>,
}

impl Drop for Merged {
    fn drop(&mut self) {
        self.making.lock().remove(&self.to);
    }
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Copies the upper layers of a content into one. `None` if the content is gone meanwhile.
    pub(super) async fn merge(&self, from: ContentId) -> Result<Option<Merged>, ServiceError> {
        let to = ContentId::new(self.clock.tick(), (self.chance)());
        self.making.lock().insert(to);
        let merged = Merged { from, to, making: Arc::clone(&self.making) };
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
        self.write(merged.to, parent, Part::Head).await?;
        let mut position = 0;
        while position < END {
            let mut spans = Vec::new();
            while position < END && spans.len() < PIECES_AT_ONCE {
                let lower = parent.map(|(parent, _)| parent);
                let (found, next) = layered(&snapshot, merged.from, position..END, lower).await?;
                spans.extend(found);
                position = next;
            }
            self.write(merged.to, parent, Part::Spans(&spans)).await?;
        }
        Ok(())
    }

    /// Commits a part of a content that is being made, however often others come first.
    async fn write(
        &self,
        to: ContentId,
        parent: Option<(ContentId, u64)>,
        part: Part<'_>,
    ) -> Result<(), ServiceError> {
        loop {
            let snapshot = self.snapshot().await?;
            let mut edit = Edit::of(&snapshot);
            match part {
                Part::Head => {
                    let head = ContentHead { references: 1, end: 0, parent };
                    edit.put(keyspace::content(to), head.encode());
                    edit.put(keyspace::dropped_content(to), encode_number(0));
                    if let Some((parent, _)) = parent {
                        contents::share(&mut edit, &Content::Listed(parent)).await?;
                    }
                }
                Part::Spans(spans) => {
                    let seen_of_parent = parent.map_or(0, |(_, bytes)| bytes);
                    for span in spans {
                        copy_span(&mut edit, to, span, seen_of_parent).await?;
                    }
                }
            }
            if let Attempt::Done(()) = commit(&*self.engine, &snapshot, edit.finish(()), Space::Takes).await?
            {
                return Ok(());
            }
        }
    }
}

/// What of a content is written in one commit.
#[derive(Clone, Copy)]
enum Part<'a> {
    Head,
    Spans(&'a [Span]),
}

/// The layer below those that become one, and how much of it is seen.
async fn below<S: Snapshot>(snapshot: &S, from: ContentId) -> Result<Option<(ContentId, u64)>, ServiceError> {
    let (mut content, mut seen) = (from, u64::MAX);
    for _ in 0..MERGED {
        let Some((parent, bytes)) = head_of(snapshot, content).await?.parent else { return Ok(None) };
        content = parent;
        seen = seen.min(bytes);
    }
    Ok(Some((content, seen)))
}

async fn copy_span<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    to: ContentId,
    span: &Span,
    seen_of_parent: u64,
) -> Result<(), ServiceError> {
    let source = match &span.seen {
        Seen::Data(part) => slice(&part.source, part.range.clone()),
        // Only what would be seen has to be hidden.
        Seen::Zeros if span.range.start < seen_of_parent => {
            Source::Zeros(span.range.end.min(seen_of_parent) - span.range.start)
        }
        Seen::Zeros | Seen::Nothing => return Ok(()),
    };
    if let Some(extent) = contents::extent_of(&source) {
        contents::share_extent(edit, extent).await?;
    }
    put_merged(edit, to, span.range.start, source).await
}
