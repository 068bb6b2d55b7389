//! List Blobs: one page in the order of names, flat or by a delimiter.

use super::containers;
use super::cursor::{CursorPosition, RowCursor};
use super::service::Context;
use crate::coop::ROW_COST;
use crate::keyspace::{self, Incarnation};
use crate::record::ListedState;
use crate::transact::storage_error;
use crate::{MAX_PAGE_BYTES, MAX_PAGE_TIME};
use std::ops::ControlFlow;
use tepui_model::blob::{
    BlobEntry, BlobInclude, BlobMarker, BlobName, BlobPage, BlobSink, LeaseView, ListBlobs, ListedBlob,
    ListedContent, Revision,
};
use tepui_model::cost::Cost;
use tepui_model::text::utf16_cmp;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Key, KeyRange, Snapshot, Value};

/// The most rows per scan.
const CHUNK: usize = 1000;
/// The most bytes of rows read for one page, listed or not.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;

/// How far a page was listed.
pub(super) enum Listed {
    /// To its end.
    Page(BlobPage),
    /// Until the transaction became too old: to be continued in another. `None`: nothing was listed.
    Outdated(Option<Box<ListProgress>>),
}

/// Lists a page, or the rest of one that was begun in a transaction that became too old.
pub(super) async fn list_blobs<S: Snapshot>(
    context: &Context<'_, S>,
    query: &ListBlobs,
    sink: &mut dyn BlobSink,
    progress: Option<Box<ListProgress>>,
) -> Result<Listed, ServiceError> {
    let caller = (context.account, context.allowed);
    let is_new = progress.is_none();
    let read = |container: Incarnation| async move {
        if !is_new {
            return Ok(None);
        }
        let mut blobs = blob_rows(context, container, query);
        blobs.fill().await?;
        Ok(Some(blobs.into_position()))
    };
    let found = containers::find_allowed_with(context, caller, &query.container, read).await;
    let (container, first) = match found {
        Ok((_, container, first)) => (container.incarnation, first),
        Err(error) if error.is_outdated => return Ok(Listed::Outdated(progress)),
        Err(error) => return Err(error),
    };
    if progress.as_ref().is_some_and(|progress| progress.container != container) {
        // Deleted and created again.
        return Err(ErrorCode::ContainerNotFound.into());
    }
    let mut listing = Listing::new(context, container, query, sink, (progress, first));
    loop {
        if context.coop.charge(ROW_COST) && context.coop.yield_if_due().await >= MAX_PAGE_TIME {
            listing.is_late = true;
        }
        match listing.step().await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(next)) => {
                let cost = listing.cost.of_page(listing.count, next.is_some());
                return Ok(Listed::Page(BlobPage { next, cost }));
            }
            Err(error) if error.is_outdated => {
                return Ok(Listed::Outdated(Some(Box::new(listing.into_progress()))));
            }
            Err(error) => return Err(error),
        }
    }
}

/// A cursor over the blobs that the query may list.
fn blob_rows<'s, S: Snapshot>(
    context: &Context<'s, S>,
    container: Incarnation,
    query: &ListBlobs,
) -> RowCursor<'s, S> {
    let start = query.from.as_ref().map(|marker| match marker {
        BlobMarker::AtName(name) => keyspace::blobs_with_prefix(container, name).start,
        BlobMarker::At(name, revision) => keyspace::blob(container, name.as_str(), *revision),
        BlobMarker::AfterPrefix(prefix) => keyspace::blobs_with_prefix(container, prefix).end,
    });
    let blobs = from(keyspace::blobs_with_prefix(container, &query.prefix), start);
    RowCursor::new(context.snapshot, blobs, (query.page_size + 1).min(CHUNK))
}

/// What of a range is not before `start`.
fn from(range: KeyRange, start: Option<Key>) -> KeyRange {
    KeyRange { start: start.map_or(range.start.clone(), |start| start.max(range.start)), end: range.end }
}

fn marker_at(name: &str, revision: Revision) -> BlobMarker {
    match BlobName::parse(name) {
        Ok(name) => BlobMarker::At(name, revision),
        Err(_) => BlobMarker::AtName(name.to_owned()),
    }
}

/// Whether the list continues, or else the marker of the next page, if any.
type Flow = ControlFlow<Option<BlobMarker>>;

/// Merges the blobs of a container with the names that have only uncommitted blocks.
struct Listing<'s, S> {
    context: &'s Context<'s, S>,
    container: Incarnation,
    query: &'s ListBlobs,
    /// Restricted to what the caller may see.
    include: BlobInclude,
    sink: &'s mut dyn BlobSink,
    /// Entries listed so far.
    count: usize,
    blobs: RowCursor<'s, S>,
    next_blob: Option<(Key, Value)>,
    /// `None`: not included.
    blocks: Option<RowCursor<'s, S>>,
    next_block: Option<String>,
    /// The last version read, until the next row shows whether its blob still exists.
    pending_version: Option<PendingVersion>,
    /// Bytes of the rows read so far.
    bytes: usize,
    cost: Cost,
    /// The time for the page is over.
    is_late: bool,
}

/// The state of a page that is not finished.
pub(super) struct ListProgress {
    container: Incarnation,
    count: usize,
    blobs: CursorPosition,
    next_blob: Option<(Key, Value)>,
    blocks: Option<CursorPosition>,
    next_block: Option<String>,
    pending_version: Option<PendingVersion>,
    bytes: usize,
    cost: Cost,
}

struct PendingVersion {
    key: Key,
    row: Value,
    /// Whether it is listed even if its blob still exists.
    is_included: bool,
}

impl<'s, S: Snapshot> Listing<'s, S> {
    fn new(
        context: &'s Context<'s, S>,
        container: Incarnation,
        query: &'s ListBlobs,
        sink: &'s mut dyn BlobSink,
        (progress, first): (Option<Box<ListProgress>>, Option<CursorPosition>),
    ) -> Self {
        // Anonymous callers see neither uncommitted nor deleted blobs.
        let include = match context.allowed.is_anonymous() {
            true => BlobInclude {
                uncommitted: false,
                deleted: false,
                versions: false,
                deleted_with_versions: false,
                ..query.include
            },
            false => query.include,
        };
        let block_start = query.from.as_ref().map(|marker| match marker {
            BlobMarker::AtName(name) => keyspace::blocks_with_prefix(container, name).start,
            BlobMarker::At(name, _) => keyspace::blocks(container, name.as_str()).start,
            BlobMarker::AfterPrefix(prefix) => keyspace::blocks_with_prefix(container, prefix).end,
        });
        let blocks = from(keyspace::blocks_with_prefix(container, &query.prefix), block_start);
        let begin = || ListProgress {
            container,
            count: 0,
            blobs: first.unwrap_or_else(|| blob_rows(context, container, query).into_position()),
            next_blob: None,
            // Many blocks share one name: reading one row and skipping the others is cheaper.
            blocks: include.uncommitted.then(|| RowCursor::new(context.snapshot, blocks, 1).into_position()),
            next_block: None,
            pending_version: None,
            bytes: 0,
            cost: Cost::of_list(if include.uncommitted { 2 } else { 1 }),
        };
        let progress = progress.map_or_else(begin, |progress| *progress);
        Self {
            context,
            container,
            query,
            include,
            sink,
            count: progress.count,
            blobs: RowCursor::resume(context.snapshot, progress.blobs),
            next_blob: progress.next_blob,
            blocks: progress.blocks.map(|blocks| RowCursor::resume(context.snapshot, blocks)),
            next_block: progress.next_block,
            pending_version: progress.pending_version,
            bytes: progress.bytes,
            cost: progress.cost,
            is_late: false,
        }
    }

    fn into_progress(self) -> ListProgress {
        ListProgress {
            container: self.container,
            count: self.count,
            blobs: self.blobs.into_position(),
            next_blob: self.next_blob,
            blocks: self.blocks.map(RowCursor::into_position),
            next_block: self.next_block,
            pending_version: self.pending_version,
            bytes: self.bytes,
            cost: self.cost,
        }
    }

    /// Processes one revision of a blob, or the blocks of one name.
    async fn step(&mut self) -> Result<Flow, ServiceError> {
        self.fill().await?;
        if let Some(marker) = self.page_end() {
            return Ok(Flow::Break(Some(marker)));
        }
        if let Some(pending_version) = self.pending_version.take() {
            return self.release(pending_version);
        }
        let from_blob = match (&self.next_blob, &self.next_block) {
            (None, None) => return Ok(Flow::Break(None)),
            (Some((key, _)), Some(block)) => keyspace::blob_of(key)
                .is_some_and(|(name, _)| utf16_cmp(name.as_bytes(), block.as_bytes()).is_le()),
            (blob, _) => blob.is_some(),
        };
        if from_blob { self.process_blob() } else { self.process_block().await }
    }

    /// Lists an entry, or makes it the start of the next page if this one is full.
    fn list(&mut self, entry: &ListedBlob<'_>) -> Flow {
        if self.count == self.query.page_size || self.sink.bytes() >= MAX_PAGE_BYTES {
            return Flow::Break(Some(match entry {
                ListedBlob::Prefix(prefix) => BlobMarker::AtName((*prefix).to_owned()),
                ListedBlob::Blob(blob) => marker_at(blob.name, blob.revision),
            }));
        }
        self.sink.accept(entry);
        self.count += 1;
        if let ListedBlob::Prefix(prefix) = entry {
            self.skip_prefix(prefix);
        }
        Flow::Continue(())
    }

    /// The marker of the next page, if the limits of this one are reached.
    fn page_end(&self) -> Option<BlobMarker> {
        let more = self.next_blob.as_ref().filter(|_| self.is_late || self.bytes >= MAX_READ_BYTES)?;
        let first = self.pending_version.as_ref().map_or(&more.0, |pending_version| &pending_version.key);
        let (name, revision) = keyspace::blob_of(first)?;
        match &self.next_block {
            Some(block) if utf16_cmp(block.as_bytes(), name.as_bytes()).is_lt() => {
                Some(marker_at(block, Revision::Base))
            }
            _ => Some(marker_at(&name, revision)),
        }
    }

    /// Lists the pending version if it is included, now that the row after it is known.
    fn release(
        &mut self,
        PendingVersion { key, row, is_included }: PendingVersion,
    ) -> Result<Flow, ServiceError> {
        let Some((name, revision)) = keyspace::blob_of(&key) else { return Ok(Flow::Continue(())) };
        let next = self.next_blob.as_ref().and_then(|(key, row)| Some((keyspace::blob_of(key)?, row)));
        let follows = match next {
            Some(((next, Revision::Base), row)) if next == name => is_live(row)?,
            Some(((next, _), _)) => next == name,
            None => false,
        };
        if !is_included && follows {
            return Ok(Flow::Continue(()));
        }
        let mut blob = ListedState::default();
        blob.read_listed(&row)?;
        Ok(self.list_state(&name, revision, !follows, &mut blob))
    }

    /// Lists a name that has uncommitted blocks, unless it has a blob.
    async fn process_block(&mut self) -> Result<Flow, ServiceError> {
        let Some(name) = self.next_block.clone() else { return Ok(Flow::Continue(())) };
        if let Some(prefix) = self.folded(&name) {
            self.next_block = None;
            return Ok(self.list(&ListedBlob::Prefix(prefix)));
        }
        let key = keyspace::blob(self.container, &name, Revision::Base);
        let row = self.context.snapshot.get(&key).await.map_err(storage_error)?;
        self.next_block = None;
        if row.map(|row| is_live(&row)).transpose()? == Some(true) {
            return Ok(Flow::Continue(()));
        }
        Ok(self.list(&ListedBlob::Blob(BlobEntry {
            name: &name,
            revision: Revision::Base,
            deleted: None,
            has_versions_only: false,
            content: ListedContent::Uncommitted { lease: LeaseView::default() },
        })))
    }

    /// Reads the next row of each kind.
    async fn fill(&mut self) -> Result<(), ServiceError> {
        if self.next_blob.is_none() {
            // Reads may take long, and a list by a delimiter may need one for each entry.
            if self.blobs.is_at_end_of_chunk() && self.context.coop.elapsed() >= MAX_PAGE_TIME {
                self.is_late = true;
            }
            self.next_blob = self.blobs.next().await?;
            if let Some((key, row)) = &self.next_blob {
                self.cost.look_at(key.len() + row.len());
            }
        }
        if self.next_block.is_none()
            && let Some(blocks) = &mut self.blocks
            && let Some((key, row)) = blocks.next().await?
            && let Some((name, _)) = keyspace::block_of(&key)
        {
            self.cost.look_at(key.len() + row.len());
            blocks.skip_to(&keyspace::blocks(self.container, &name).end);
            self.next_block = Some(name.into_owned());
        }
        Ok(())
    }

    /// Lists a revision of a blob, if it is included.
    #[inline]
    fn process_blob(&mut self) -> Result<Flow, ServiceError> {
        let Some((key, row)) = self.next_blob.take() else { return Ok(Flow::Continue(())) };
        self.bytes += key.len() + row.len();
        let Some((name, revision)) = keyspace::blob_of(&key) else { return Ok(Flow::Continue(())) };
        let include = self.include;
        let is_included = match revision {
            Revision::Base => true,
            Revision::Snapshot(_) => include.snapshots || include.deleted,
            Revision::Version(_) => include.versions || include.deleted_with_versions,
        };
        if !is_included {
            // There may be very many, so skip to the first revision that may be included.
            let next = match revision {
                Revision::Snapshot(_) if include.versions || include.deleted_with_versions => {
                    keyspace::versions(self.container, &name).start
                }
                _ => keyspace::blob(self.container, &name, Revision::Base),
            };
            self.blobs.skip_to(&next);
            return Ok(Flow::Continue(()));
        }
        let mut blob = ListedState::default();
        blob.read_listed(&row)?;
        let is_snapshot = matches!(revision, Revision::Snapshot(_));
        let is_pending = include.deleted_with_versions && matches!(revision, Revision::Version(_));
        let shown = (include.deleted || blob.deleted.is_none())
            && (include.snapshots || !is_snapshot || blob.deleted.is_some());
        let is_expired = blob.deleted.is_some_and(|deleted| deleted.until <= self.context.now);
        if is_expired || !(shown || is_pending) {
            return Ok(Flow::Continue(()));
        }
        if let Some(prefix) = self.folded(&name) {
            return Ok(self.list(&ListedBlob::Prefix(prefix)));
        }
        if !is_pending {
            return Ok(self.list_state(&name, revision, false, &mut blob));
        }
        self.pending_version = Some(PendingVersion {
            is_included: include.versions && shown,
            key: key.clone(),
            row: row.clone(),
        });
        Ok(Flow::Continue(()))
    }

    #[inline(always)]
    fn list_state(
        &mut self,
        name: &str,
        revision: Revision,
        has_versions_only: bool,
        blob: &mut ListedState<'_>,
    ) -> Flow {
        let deleted = blob.deleted.map(|deleted| containers::remaining(deleted, self.context.now));
        let content = ListedContent::Committed(self.context.view(blob, revision).of(&blob.state));
        self.list(&ListedBlob::Blob(BlobEntry { name, revision, deleted, has_versions_only, content }))
    }

    /// The prefix that a name is folded to, if it has the delimiter after the queried prefix.
    fn folded<'n>(&self, name: &'n str) -> Option<&'n str> {
        let delimiter = self.query.delimiter.as_deref()?;
        let rest = name.strip_prefix(self.query.prefix.as_str())?;
        let end = self.query.prefix.len() + rest.find(delimiter)? + delimiter.len();
        Some(&name[..end])
    }

    /// Skips all names that begin with `prefix`.
    fn skip_prefix(&mut self, prefix: &str) {
        let end = keyspace::blobs_with_prefix(self.container, prefix).end;
        self.next_blob = self.next_blob.take().filter(|(key, _)| *key >= end);
        self.blobs.skip_to(&end);
        self.next_block = self.next_block.take().filter(|name| !name.starts_with(prefix));
        if let Some(blocks) = &mut self.blocks {
            blocks.skip_to(&keyspace::blocks_with_prefix(self.container, prefix).end);
        }
    }
}

/// Whether a row is of a blob that is not soft-deleted.
fn is_live(row: &[u8]) -> Result<bool, ServiceError> {
    let mut blob = ListedState::default();
    blob.read_listed(row)?;
    Ok(blob.deleted.is_none())
}
