//! A blob slot is a name in a container: how its blob is found, written, and what happens to the state before.

use super::containers;
use super::contents;
use super::cursor::RowCursor;
use super::lease::Lease;
use super::precondition::PreconditionCheck;
use super::service::Context;
use super::staged;
use super::tier;
use super::write_set::{ForRemoval, WriteSet};
use crate::keyspace::{self, Incarnation};
use crate::record::{self, BlockContent, Content, SoftDelete, StoredBlob, StoredBlock, StoredContainer};
use crate::transact::storage_error;
use std::time::Duration;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    BlobPath, BlobProperties, Changed, DeleteRetention, Preconditions, Revision, Tags, VersionView, Written,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, KeyRange, Snapshot, Value};

/// Blocks that are discarded in one commit.
const DISCARDED_AT_ONCE: usize = 1000;

/// A name in a container, and the blob that it has.
pub(super) struct BlobSlot<'a> {
    pub(super) path: &'a BlobPath,
    pub(super) container: Incarnation,
    /// The container's row, which is a guard of the writes.
    container_row: (Key, StoredContainer),
    /// The current blob.
    pub(super) base: Option<StoredBlob>,
    /// The blob that was deleted last, if it can be restored.
    pub(super) soft_deleted: Option<StoredBlob>,
}

/// Whether a commit finishes an operation, or only a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Complete,
    Partial,
}

impl<'a> BlobSlot<'a> {
    /// Finds a blob of the caller's account. Its container becomes a guard.
    pub(super) async fn find<S: Snapshot>(
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        path: &'a BlobPath,
    ) -> Result<Self, ServiceError> {
        Self::find_in(context, writes, (context.account, context.allowed), path).await
    }

    /// Like [`BlobSlot::find`], for an operation that needs more rows of the container: they are read together.
    pub(super) async fn find_with<S: Snapshot>(
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        path: &'a BlobPath,
        also: impl Fn(Incarnation) -> Vec<Key>,
    ) -> Result<Self, ServiceError> {
        let (snapshot, also) = (context.snapshot, &also);
        let read = |container: Incarnation| async move {
            let mut keys = also(container);
            keys.push(base_key(container, path));
            let mut rows = snapshot.get_many(&keys).await.map_err(storage_error)?;
            let row = rows.pop().flatten();
            Ok((row, (keys, rows)))
        };
        let caller = (context.account, context.allowed);
        let (key, stored, (row, (keys, rows))) =
            containers::find_allowed_with(context, caller, &path.container, read).await?;
        writes.add_prefetched(keys, rows);
        Self::new(writes, path, (key, stored), row)
    }

    /// Finds a blob of any account, as far as the caller may read it.
    pub(super) async fn find_in<S: Snapshot>(
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        (account, allowed): (&str, Allowed),
        path: &'a BlobPath,
    ) -> Result<Self, ServiceError> {
        let snapshot = context.snapshot;
        let read = |container: Incarnation| async move {
            snapshot.get(&base_key(container, path)).await.map_err(storage_error)
        };
        let (key, stored, row) =
            containers::find_allowed_with(context, (account, allowed), &path.container, read).await?;
        Self::new(writes, path, (key, stored), row)
    }

    fn new<S: Snapshot>(
        writes: &mut WriteSet<'_, S>,
        path: &'a BlobPath,
        container_row: (Key, StoredContainer),
        row: Option<Value>,
    ) -> Result<Self, ServiceError> {
        writes.guard_shared(container_row.0.clone());
        let container = container_row.1.incarnation;
        let found = row.map(|row| StoredBlob::decode(&row)).transpose()?;
        let (base, soft_deleted) = match found {
            Some(blob) if blob.deleted.is_some() => (None, Some(blob)),
            base => (base, None),
        };
        Ok(Self { path, container, container_row, base, soft_deleted })
    }

    pub(super) fn name(&self) -> &'a str {
        self.path.blob.as_str()
    }

    pub(super) fn key(&self, revision: Revision) -> Key {
        keyspace::blob(self.container, self.name(), revision)
    }

    /// The current blob.
    pub(super) fn existing(&self) -> Result<&StoredBlob, ErrorCode> {
        self.base.as_ref().ok_or(ErrorCode::BlobNotFound)
    }

    /// A revision of the blob, and which one it is: the current version has two names.
    pub(super) async fn revision<S: Snapshot>(
        &self,
        writes: &WriteSet<'_, S>,
        revision: Revision,
    ) -> Result<(StoredBlob, Revision), ServiceError> {
        match (revision, &self.base) {
            (Revision::Base, _) => Ok((self.existing()?.clone(), Revision::Base)),
            (Revision::Version(timestamp), Some(base)) if base.version == Some(timestamp) => {
                Ok((base.clone(), Revision::Base))
            }
            _ => {
                let row = writes.get(&self.key(revision)).await?.ok_or(ErrorCode::BlobNotFound)?;
                let blob = StoredBlob::decode(&row)?;
                match blob.deleted {
                    Some(_) => Err(ErrorCode::BlobNotFound.into()),
                    None => Ok((blob, revision)),
                }
            }
        }
    }

    pub(super) fn precondition_check(
        &self,
        preconditions: &'a Preconditions,
        now: Timestamp,
    ) -> PreconditionCheck<'a> {
        PreconditionCheck { preconditions, container: self.path.container.as_str(), now }
    }

    /// The time of a change: later than every time that the blob had before.
    pub(super) fn change_time(&self, now: Timestamp) -> Timestamp {
        let before = self.base.as_ref().or(self.soft_deleted.as_ref());
        before.map_or(now, |blob| now.later_than(blob.changed.max(blob.stamp)))
    }

    /// Writes a revision of the blob, and updates the index of tags.
    pub(super) fn put<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
        revision: Revision,
        tags_before: &Tags,
        blob: &StoredBlob,
    ) {
        let none = Tags::default();
        // Snapshots and soft-deleted revisions are not indexed.
        let found = blob.deleted.is_none() && !matches!(revision, Revision::Snapshot(_));
        self.index(writes, revision, tags_before, if found { &blob.tags } else { &none });
        self.put_with_same_tags(writes, revision, blob);
    }

    /// Writes a revision of the blob whose tags have not changed.
    pub(super) fn put_with_same_tags<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
        revision: Revision,
        blob: &StoredBlob,
    ) {
        if blob.legal_hold == Some(true) || blob.immutability.is_some() {
            let (key, container) = &self.container_row;
            containers::mark_protected(writes, key, container);
        }
        writes.put_stamped(self.key(revision), blob.encode());
    }

    /// Deletes a revision of the blob. Its reference to its content is not released.
    pub(super) fn remove<S: Snapshot>(&self, writes: &mut WriteSet<'_, S>, revision: Revision, tags: &Tags) {
        self.index(writes, revision, tags, &Tags::default());
        writes.delete(self.key(revision));
    }

    fn index<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
        revision: Revision,
        before: &Tags,
        after: &Tags,
    ) {
        if before == after {
            return;
        }
        for tag in before.iter() {
            writes.delete(keyspace::tag(self.container, tag, self.name(), revision));
        }
        for tag in after.iter() {
            writes.put(keyspace::tag(self.container, tag, self.name(), revision), record::index_entry());
        }
    }

    /// Writes a blob in place of the current one, if any.
    pub(super) async fn replace<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        new: &StoredBlob,
    ) -> Result<(), ServiceError> {
        if let Some(old) = &self.base {
            let versioned = context.versioning_enabled() || old.version.is_some();
            if !versioned {
                let read = context.read_for_removal(writes, &old.content).await?;
                writes.add_for_removal(read);
            }
            if versioned {
                self.save_version(context, writes, old);
            } else if let Some(until) = context.retained_until(writes).await? {
                let deleted = SoftDelete { at: context.now, until };
                self.save_soft_deleted(context, writes, old, deleted);
            } else {
                contents::release(writes, &old.content).await?;
            }
        }
        if let Some(soft_deleted) = &self.soft_deleted
            && let Some(deleted) = soft_deleted.deleted
        {
            self.save_soft_deleted(context, writes, soft_deleted, deleted);
        }
        let before = self.base.as_ref().map(|old| &old.tags).cloned().unwrap_or_default();
        self.put(writes, Revision::Base, &before, new);
        Ok(())
    }

    /// Changes the current blob. With versioning enabled it becomes a new version, if the operation makes one.
    pub(super) async fn change<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        new: &mut StoredBlob,
        makes_version: bool,
    ) -> Result<(), ServiceError> {
        let old = self.existing()?;
        if makes_version && context.versioning_enabled() {
            contents::add_reference(writes, &old.content).await?;
            self.save_version(context, writes, old);
            new.version = Some(self.change_time(context.now));
        }
        self.put(writes, Revision::Base, &old.tags, new);
        Ok(())
    }

    /// Saves a state of the blob as a previous version, which takes over its reference to its content.
    pub(super) fn save_version<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        old: &StoredBlob,
    ) -> Timestamp {
        let version = old.version.unwrap_or(old.changed);
        let stamp = context.now.later_than(old.stamp);
        let saved = StoredBlob { version: Some(version), lease: Lease::Available, stamp, ..old.clone() };
        self.put(writes, Revision::Version(version), &Tags::default(), &saved);
        version
    }

    fn save_soft_deleted<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        writes: &mut WriteSet<'_, S>,
        old: &StoredBlob,
        deleted: SoftDelete,
    ) {
        let revision = Revision::Snapshot(self.change_time(context.now));
        let stamp = context.now.later_than(old.stamp);
        let saved = StoredBlob { deleted: Some(deleted), lease: Lease::Available, stamp, ..old.clone() };
        self.put(writes, revision, &Tags::default(), &saved);
        self.put_retention_record(writes, revision, deleted);
    }

    /// Writes the GC record that ends the retention of a soft-deleted revision.
    pub(super) fn put_retention_record<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
        revision: Revision,
        deleted: SoftDelete,
    ) {
        let key = keyspace::retained(deleted.until, self.container, self.name(), revision);
        writes.put(key, record::index_entry());
    }

    /// Discards uncommitted blocks. If there are very many, only some of them: then nothing else may be in the
    /// same commit.
    pub(super) async fn discard_blocks<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
    ) -> Result<Progress, ServiceError> {
        if !staged::may_have_blocks(writes, self).await? {
            return Ok(Progress::Complete);
        }
        let progress = discard_blocks(writes, &mut keyspace::blocks(self.container, self.name())).await?;
        let gc_record = keyspace::consumed_blocks(self.container, self.name());
        if progress == Progress::Complete && writes.get(&gc_record).await?.is_some() {
            writes.delete(gc_record);
        }
        Ok(progress)
    }

    /// Discards some of the blocks that a GC record left for later, if any. Then nothing else may be in the same
    /// commit.
    pub(super) async fn discard_consumed<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
    ) -> Result<Progress, ServiceError> {
        discard_consumed(writes, self.container, self.name()).await
    }
}

/// The row of the current blob.
fn base_key(container: Incarnation, path: &BlobPath) -> Key {
    keyspace::blob(container, path.blob.as_str(), Revision::Base)
}

/// Discards some of the blocks that were consumed by a block list and were too many to be discarded with it.
pub(super) async fn discard_consumed<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    container: Incarnation,
    name: &str,
) -> Result<Progress, ServiceError> {
    let gc_record = keyspace::consumed_blocks(container, name);
    let Some(row) = writes.get(&gc_record).await? else { return Ok(Progress::Complete) };
    let until = record::decode_number(&row)?;
    if discard_put_until(writes, container, name, until).await? == Progress::Complete {
        writes.delete(gc_record);
    }
    Ok(Progress::Partial)
}

/// Discards the first blocks of a blob that were put until a time. Those that are put meanwhile stay.
pub(super) async fn discard_put_until<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    container: Incarnation,
    name: &str,
    until: u64,
) -> Result<Progress, ServiceError> {
    let mut rows = RowCursor::new(writes.snapshot, keyspace::blocks(container, name), DISCARDED_AT_ONCE);
    let mut discarded = Vec::new();
    while let Some((key, row)) = rows.next().await? {
        if discarded.len() == DISCARDED_AT_ONCE {
            discard(writes, discarded).await?;
            return Ok(Progress::Partial);
        }
        let block = StoredBlock::decode(&row)?;
        if block.put.ticks() <= until {
            discarded.push((key, block.content));
        }
    }
    discard(writes, discarded).await?;
    Ok(Progress::Complete)
}

/// Discards the first blocks of a range, and advances its start.
pub(super) async fn discard_blocks<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    range: &mut KeyRange,
) -> Result<Progress, ServiceError> {
    let mut rows = RowCursor::new(writes.snapshot, range.clone(), DISCARDED_AT_ONCE);
    let found = rows.take(DISCARDED_AT_ONCE).await?;
    let blocks = found.into_iter().map(|(key, row)| Ok((key, StoredBlock::decode(&row)?.content)));
    discard(writes, blocks.collect::<Result<Vec<_>, ServiceError>>()?).await?;
    match rows.next().await? {
        Some((key, _)) => {
            range.start = key;
            Ok(Progress::Partial)
        }
        None => Ok(Progress::Complete),
    }
}

/// Deletes blocks, and releases their references.
async fn discard<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    blocks: Vec<(Key, BlockContent)>,
) -> Result<(), ServiceError> {
    let extents = blocks.iter().filter_map(|(_, content)| content.extent());
    writes.prefetch(extents.map(keyspace::extent)).await?;
    for (key, content) in blocks {
        contents::release_block(writes, content).await?;
        writes.delete(key);
    }
    Ok(())
}

/// The reply to a write.
pub(super) fn written(blob: &StoredBlob) -> Written {
    Written {
        changed: Changed(blob.changed),
        version: blob.version,
        encryption: blob.encryption.without_secret(),
    }
}

impl<S> Context<'_, S> {
    /// The properties of a revision beside its stored state. Updates the progress of its copy.
    #[inline]
    pub(super) fn view<T, C>(&self, blob: &mut StoredBlob<T, C>, revision: Revision) -> BlobProperties<()> {
        if let Some(copy) = &mut blob.state.copy {
            self.copies.update_progress(copy);
        }
        let is_base = revision == Revision::Base && blob.deleted.is_none();
        BlobProperties {
            state: (),
            tier: tier::view(blob, self.now),
            lease: is_base.then(|| blob.lease.view(self.now)),
            last_accessed: None,
            version: blob.version.map(|id| VersionView { id, is_current: is_base }),
        }
    }

    pub(super) fn versioning_enabled(&self) -> bool {
        !self.is_server && self.options.versioned_accounts.iter().any(|account| account == self.account)
    }
}

impl<S: Snapshot> Context<'_, S> {
    /// What the account's service properties say about deleted blobs. The commit conflicts with a change of them.
    pub(super) async fn delete_retention(
        &self,
        writes: &mut WriteSet<'_, S>,
    ) -> Result<DeleteRetention, ServiceError> {
        if let Some(known) = writes.delete_retention() {
            return Ok(known);
        }
        let (key, settings) = self.settings.read_guarded(self.catalogue, self.snapshot, self.account).await?;
        writes.guard_shared(key);
        Ok(settings.delete_retention)
    }

    /// Reads what the removal of a blob with this content needs, together: what service properties say about deleted blobs,
    /// and the row that counts the references to the content.
    pub(super) async fn read_for_removal(
        &self,
        writes: &WriteSet<'_, S>,
        content: &Content,
    ) -> Result<ForRemoval, ServiceError> {
        let row = async {
            let Some(key) = contents::count_key(content) else { return Ok::<_, ServiceError>(None) };
            Ok(Some((key.clone(), writes.get(&key).await?)))
        };
        if self.is_server {
            return Ok(ForRemoval { settings: None, row: row.await? });
        }
        let settings = self.settings.read_guarded(self.catalogue, self.snapshot, self.account);
        let (settings, row) = tokio::join!(biased; settings, row);
        let (key, settings) = settings?;
        Ok(ForRemoval { settings: Some((key, settings.delete_retention)), row: row? })
    }

    /// Until when a blob that is deleted now can be restored. `None`: soft delete is disabled.
    pub(super) async fn retained_until(
        &self,
        writes: &mut WriteSet<'_, S>,
    ) -> Result<Option<Timestamp>, ServiceError> {
        if self.is_server {
            return Ok(None);
        }
        let days = self.delete_retention(writes).await?.days;
        let length = |days: u32| Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        Ok(days.map(|days| self.now.saturating_add(length(days))))
    }
}
