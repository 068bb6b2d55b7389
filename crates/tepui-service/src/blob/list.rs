//! List Blobs: one page in the order of names, flat or by a delimiter.

use super::containers;
use super::edit::Rows;
use super::service::{Context, require_public};
use crate::keyspace::{self, Incarnation};
use crate::record::StoredBlob;
use tepui_engine::{Key, KeyRange, Snapshot, Value};
use tepui_model::ServiceError;
use tepui_model::blob::{
    BlobEntry, BlobMarker, BlobName, BlobSink, LeaseView, ListBlobs, ListedBlob, ListedContent, Revision,
};

/// How many rows are read at a time at most.
const CHUNK: usize = 1000;
/// How much is read for one page. Not all that is read is listed.
const MAX_READ_BYTES: usize = 16 * 1024 * 1024;
/// A page is not begun to be larger than this. Metadata can be long.
const MAX_PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Returns where the next page begins.
pub(super) async fn list_blobs<S: Snapshot>(
    context: &Context<'_, S>,
    query: &ListBlobs,
    sink: &mut dyn BlobSink,
) -> Result<Option<BlobMarker>, ServiceError> {
    let (_, container) = containers::find(context, &query.container).await?;
    require_public(&container, context.allowed)?;
    let mut listing = Listing::of(context, container.incarnation, query);
    let mut count = 0;
    loop {
        let entry = match listing.next().await? {
            Next::Nothing => return Ok(None),
            Next::Enough(marker) => return Ok(Some(marker)),
            Next::Entry(entry) => entry,
        };
        if count == query.page_size || sink.bytes() >= MAX_PAGE_BYTES {
            return Ok(Some(marker(&entry)));
        }
        if let ListedBlob::Prefix(prefix) = &entry {
            listing.skip_prefix(prefix);
        }
        sink.accept(&entry);
        count += 1;
    }
}

/// The page that begins with an entry.
fn marker(entry: &ListedBlob) -> BlobMarker {
    match entry {
        ListedBlob::Prefix(prefix) => BlobMarker::AtName(prefix.clone()),
        ListedBlob::Blob(blob) => marker_at(&blob.name, blob.revision),
    }
}

fn marker_at(name: &str, revision: Revision) -> BlobMarker {
    match BlobName::parse(name) {
        Ok(name) => BlobMarker::At(name, revision),
        Err(_) => BlobMarker::AtName(name.to_owned()),
    }
}

/// What comes next in a list.
enum Next {
    Entry(ListedBlob),
    /// Enough was read for a page. The next one begins here.
    Enough(BlobMarker),
    Nothing,
}

/// Goes through the blobs of a container, and through the blocks of blobs that are not there yet.
struct Listing<'s, S> {
    context: &'s Context<'s, S>,
    container: Incarnation,
    query: &'s ListBlobs,
    blobs: Rows<'s, S>,
    next_blob: Option<(Key, Value)>,
    /// `None`: not asked for.
    blocks: Option<Rows<'s, S>>,
    next_block: Option<String>,
    /// The last version that was met, until it is known whether its blob is still there.
    held: Option<Held>,
    /// How much was read and is behind.
    bytes: usize,
}

struct Held {
    entry: BlobEntry,
    /// Whether it is listed even if it is not all there is.
    wanted: bool,
}

impl<'s, S: Snapshot> Listing<'s, S> {
    fn of(context: &'s Context<'s, S>, container: Incarnation, query: &'s ListBlobs) -> Self {
        let from = |range: KeyRange, start: Option<Key>| KeyRange {
            start: start.map_or(range.start.clone(), |start| start.max(range.start)),
            end: range.end,
        };
        let start = query.from.as_ref().map(|marker| match marker {
            BlobMarker::AtName(name) => keyspace::blobs_with_prefix(container, name).start,
            BlobMarker::At(name, revision) => keyspace::blob(container, name.as_str(), *revision),
            BlobMarker::AfterPrefix(prefix) => keyspace::blobs_with_prefix(container, prefix).end,
        });
        let block_start = query.from.as_ref().map(|marker| match marker {
            BlobMarker::AtName(name) => keyspace::blocks_with_prefix(container, name).start,
            BlobMarker::At(name, _) => keyspace::blocks(container, name.as_str()).start,
            BlobMarker::AfterPrefix(prefix) => keyspace::blocks_with_prefix(container, prefix).end,
        });
        let chunk = (query.page_size + 1).min(CHUNK);
        let blobs = from(keyspace::blobs_with_prefix(container, &query.prefix), start);
        let blocks = from(keyspace::blocks_with_prefix(container, &query.prefix), block_start);
        Self {
            context,
            container,
            query,
            blobs: Rows::of(context.snapshot, blobs, chunk),
            next_blob: None,
            // Many blocks have one name: reading one at a time and skipping the others is cheaper.
            blocks: query.include.uncommitted.then(|| Rows::of(context.snapshot, blocks, 1)),
            next_block: None,
            held: None,
            bytes: 0,
        }
    }

    /// The next entry of the list.
    async fn next(&mut self) -> Result<Next, ServiceError> {
        loop {
            self.fill().await?;
            if let Some(marker) = self.enough() {
                return Ok(Next::Enough(marker));
            }
            if let Some(entry) = self.release_held()? {
                return Ok(Next::Entry(entry));
            }
            let from_blob = self.next_blob.as_ref().and_then(|(key, _)| keyspace::blob_of(key));
            let (name, revision) = match (&from_blob, &self.next_block) {
                (None, None) => return Ok(Next::Nothing),
                (Some((name, revision)), Some(block))
                    if tepui_model::text::utf16_cmp(name.as_bytes(), block.as_bytes()).is_le() =>
                {
                    (name.clone().into_owned(), Some(*revision))
                }
                (_, Some(block)) => (block.clone(), None),
                (Some((name, revision)), None) => (name.clone().into_owned(), Some(*revision)),
            };
            let found = match revision {
                Some(revision) => self.pass_blob(name, revision)?,
                None => self.pass_block(name).await?,
            };
            if let Some(entry) = found {
                return Ok(Next::Entry(entry));
            }
        }
    }

    /// Where the next page begins, if enough was read for this one.
    fn enough(&self) -> Option<BlobMarker> {
        let more = self.next_blob.as_ref().filter(|_| self.bytes >= MAX_READ_BYTES)?;
        let (name, revision) = match (&self.held, keyspace::blob_of(&more.0)?) {
            (Some(held), _) => (held.entry.name.as_str().into(), held.entry.revision),
            (None, next) => next,
        };
        match &self.next_block {
            Some(block) if tepui_model::text::utf16_cmp(block.as_bytes(), name.as_bytes()).is_lt() => {
                Some(marker_at(block, Revision::Base))
            }
            _ => Some(marker_at(&name, revision)),
        }
    }

    /// The version that was held back, if it is listed, as soon as it is known what follows it.
    fn release_held(&mut self) -> Result<Option<ListedBlob>, ServiceError> {
        let Some(Held { mut entry, wanted }) = self.held.take() else { return Ok(None) };
        let next = self.next_blob.as_ref().and_then(|(key, row)| Some((keyspace::blob_of(key)?, row)));
        let follows = match next {
            Some(((name, Revision::Base), row)) if name == entry.name => {
                StoredBlob::decode(row)?.deleted.is_none()
            }
            Some(((name, _), _)) => name == entry.name,
            None => false,
        };
        entry.has_versions_only = !follows;
        Ok((wanted || !follows).then_some(ListedBlob::Blob(entry)))
    }

    /// Goes past a blob of which there may be blocks only.
    async fn pass_block(&mut self, name: String) -> Result<Option<ListedBlob>, ServiceError> {
        self.next_block = None;
        if let Some(prefix) = self.folded(&name) {
            return Ok(Some(ListedBlob::Prefix(prefix)));
        }
        if self.is_there(&name).await? {
            return Ok(None);
        }
        let content = ListedContent::Uncommitted { lease: LeaseView::default() };
        Ok(Some(ListedBlob::Blob(entry(name, Revision::Base, content))))
    }

    /// Goes past a state of a blob.
    fn pass_blob(&mut self, name: String, revision: Revision) -> Result<Option<ListedBlob>, ServiceError> {
        let Some((key, row)) = self.next_blob.take() else { return Ok(None) };
        self.bytes += key.len() + row.len();
        self.listed(name, revision, &row)
    }

    /// Reads ahead by one row of each kind.
    async fn fill(&mut self) -> Result<(), ServiceError> {
        if self.next_blob.is_none() {
            self.next_blob = self.blobs.next().await?;
        }
        if self.next_block.is_none()
            && let Some(blocks) = &mut self.blocks
            && let Some((key, _)) = blocks.next().await?
            && let Some((name, _)) = keyspace::block_of(&key)
        {
            blocks.skip_to(&keyspace::blocks(self.container, &name).end);
            self.next_block = Some(name.into_owned());
        }
        Ok(())
    }

    /// Whether there is a blob of a name that has blocks.
    async fn is_there(&self, name: &str) -> Result<bool, ServiceError> {
        let key = keyspace::blob(self.container, name, Revision::Base);
        let row = self.context.snapshot.get(&key).await.map_err(crate::transact::engine_error)?;
        match row {
            Some(row) => Ok(StoredBlob::decode(&row)?.deleted.is_none()),
            None => Ok(false),
        }
    }

    /// The entry for a row, unless it is not asked for.
    fn listed(
        &mut self,
        name: String,
        revision: Revision,
        row: &Value,
    ) -> Result<Option<ListedBlob>, ServiceError> {
        let include = &self.query.include;
        let wanted = match revision {
            Revision::Base => true,
            Revision::Snapshot(_) => include.snapshots || include.deleted,
            Revision::Version(_) => include.versions || include.deleted_with_versions,
        };
        if !wanted {
            // There may be very many of them: go on with the first state that may be wanted.
            let next = match revision {
                Revision::Snapshot(_) if include.versions || include.deleted_with_versions => {
                    keyspace::versions(self.container, &name).start
                }
                _ => keyspace::blob(self.container, &name, Revision::Base),
            };
            self.blobs.skip_to(&next);
            return Ok(None);
        }
        let now = self.context.now;
        let blob = StoredBlob::decode(row)?;
        let is_snapshot = matches!(revision, Revision::Snapshot(_));
        let holds = include.deleted_with_versions && matches!(revision, Revision::Version(_));
        let shown = (include.deleted || blob.deleted.is_none())
            && (include.snapshots || !is_snapshot || blob.deleted.is_some());
        if blob.deleted.is_some_and(|deleted| deleted.until <= now) || !(shown || holds) {
            return Ok(None);
        }
        if let Some(prefix) = self.folded(&name) {
            return Ok(Some(ListedBlob::Prefix(prefix)));
        }
        let deleted = blob.deleted.map(|deleted| containers::remaining(deleted, now));
        let content = ListedContent::Committed(Box::new(self.context.view(blob, revision)));
        let entry = BlobEntry { deleted, ..entry(name, revision, content) };
        if holds {
            self.held = Some(Held { entry, wanted: include.versions && shown });
            return Ok(None);
        }
        Ok(Some(ListedBlob::Blob(entry)))
    }

    /// What a name is folded to: it has the delimiter after the prefix.
    fn folded(&self, name: &str) -> Option<String> {
        let delimiter = self.query.delimiter.as_deref()?;
        let rest = name.strip_prefix(self.query.prefix.as_str())?;
        let end = self.query.prefix.len() + rest.find(delimiter)? + delimiter.len();
        Some(name[..end].to_owned())
    }

    /// Goes on after everything that begins like this.
    fn skip_prefix(&mut self, prefix: &str) {
        let end = keyspace::blobs_with_prefix(self.container, prefix).end;
        self.next_blob = self.next_blob.take().filter(|(key, _)| *key >= end);
        self.blobs.skip_to(&end);
        self.held = self.held.take().filter(|held| !held.entry.name.starts_with(prefix));
        self.next_block = self.next_block.take().filter(|name| !name.starts_with(prefix));
        if let Some(blocks) = &mut self.blocks {
            blocks.skip_to(&keyspace::blocks_with_prefix(self.container, prefix).end);
        }
    }
}

fn entry(name: String, revision: Revision, content: ListedContent) -> BlobEntry {
    BlobEntry { name, revision, deleted: None, has_versions_only: false, content }
}
