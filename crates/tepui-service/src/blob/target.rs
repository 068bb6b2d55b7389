//! The blob that an operation is about: how it is found, written, and what becomes of the state before.

use super::containers;
use super::contents;
use super::edit::{Edit, Rows};
use super::lease::Lease;
use super::precondition::Asked;
use super::service::Context;
use super::staged;
use super::tier;
use crate::keyspace::{self, Incarnation};
use crate::record::{self, Deleted, StoredBlob, StoredBlock, StoredContainer};
use bytes::Bytes;
use std::time::Duration;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::{
    BlobPath, BlobProperties, Changed, Preconditions, Revision, Tags, VersionView, Written,
};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, KeyRange, Snapshot};

/// How many blocks are discarded in one commit.
const DISCARDED_AT_ONCE: usize = 1000;

/// A blob's place, and what is there.
pub(super) struct Target<'a> {
    pub(super) path: &'a BlobPath,
    pub(super) container: Incarnation,
    /// The container's row, on which the edit rests.
    container_row: (Key, StoredContainer),
    /// The blob as it is now.
    pub(super) base: Option<StoredBlob>,
    /// The blob as it was when it was deleted, if it can be restored.
    pub(super) gone: Option<StoredBlob>,
}

/// Whether an operation is done, or goes on after its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    No,
    Yes,
}

impl<'a> Target<'a> {
    /// Finds a blob of the caller's account. The edit rests on its container.
    pub(super) async fn find<S: Snapshot>(
        context: &Context<'_, S>,
        edit: &mut Edit<'_, S>,
        path: &'a BlobPath,
    ) -> Result<Self, ServiceError> {
        Self::find_in(context, edit, (context.account, context.allowed), path).await
    }

    /// Finds a blob of any account, as far as the caller may.
    pub(super) async fn find_in<S: Snapshot>(
        context: &Context<'_, S>,
        edit: &mut Edit<'_, S>,
        (account, allowed): (&str, Allowed),
        path: &'a BlobPath,
    ) -> Result<Self, ServiceError> {
        let container_row = containers::find_allowed(context, (account, allowed), &path.container).await?;
        edit.guard(container_row.0.clone());
        let container = container_row.1.incarnation;
        let row = edit.get(&keyspace::blob(container, path.blob.as_str(), Revision::Base)).await?;
        let found = row.map(|row| StoredBlob::decode(&row)).transpose()?;
        let (base, gone) = match found {
            Some(blob) if blob.deleted.is_some() => (None, Some(blob)),
            base => (base, None),
        };
        Ok(Self { path, container, container_row, base, gone })
    }

    pub(super) fn name(&self) -> &'a str {
        self.path.blob.as_str()
    }

    pub(super) fn key(&self, revision: Revision) -> Key {
        keyspace::blob(self.container, self.name(), revision)
    }

    /// The blob as it is now.
    pub(super) fn existing(&self) -> Result<&StoredBlob, ErrorCode> {
        self.base.as_ref().ok_or(ErrorCode::BlobNotFound)
    }

    /// A state of the blob, and which one it is: the version that is the blob as it is now has two names.
    pub(super) async fn revision<S: Snapshot>(
        &self,
        edit: &Edit<'_, S>,
        revision: Revision,
    ) -> Result<(StoredBlob, Revision), ServiceError> {
        match (revision, &self.base) {
            (Revision::Base, _) => Ok((self.existing()?.clone(), Revision::Base)),
            (Revision::Version(moment), Some(base)) if base.version == Some(moment) => {
                Ok((base.clone(), Revision::Base))
            }
            _ => {
                let row = edit.get(&self.key(revision)).await?.ok_or(ErrorCode::BlobNotFound)?;
                let blob = StoredBlob::decode(&row)?;
                match blob.deleted {
                    Some(_) => Err(ErrorCode::BlobNotFound.into()),
                    None => Ok((blob, revision)),
                }
            }
        }
    }

    pub(super) fn asked(&self, preconditions: &'a Preconditions, now: Timestamp) -> Asked<'a> {
        Asked { preconditions, container: self.path.container.as_str(), now }
    }

    /// The moment of a change: later than every one that the blob had.
    pub(super) fn change_moment(&self, now: Timestamp) -> Timestamp {
        let before = self.base.as_ref().or(self.gone.as_ref());
        before.map_or(now, |blob| now.max(blob.changed.next()).max(blob.stamp.next()))
    }

    /// Writes a state of the blob in place of what was there under its key, with what finds it by its tags.
    pub(super) fn put<S: Snapshot>(
        &self,
        edit: &mut Edit<'_, S>,
        revision: Revision,
        tags_before: &Tags,
        blob: &StoredBlob,
    ) {
        let none = Tags::default();
        // Snapshots and what is deleted are not found by tags.
        let found = blob.deleted.is_none() && !matches!(revision, Revision::Snapshot(_));
        self.index(edit, revision, tags_before, if found { &blob.tags } else { &none });
        self.put_with_same_tags(edit, revision, blob);
    }

    /// Writes a state of the blob that has the tags that it had before.
    pub(super) fn put_with_same_tags<S: Snapshot>(
        &self,
        edit: &mut Edit<'_, S>,
        revision: Revision,
        blob: &StoredBlob,
    ) {
        if blob.legal_hold == Some(true) || blob.immutability.is_some() {
            let (key, container) = &self.container_row;
            containers::note_protected(edit, key, container);
        }
        edit.put_stamped(self.key(revision), blob.encode());
    }

    /// Removes a state of the blob. Nothing is done about its content.
    pub(super) fn remove<S: Snapshot>(&self, edit: &mut Edit<'_, S>, revision: Revision, tags: &Tags) {
        self.index(edit, revision, tags, &Tags::default());
        edit.delete(self.key(revision));
    }

    fn index<S: Snapshot>(&self, edit: &mut Edit<'_, S>, revision: Revision, before: &Tags, after: &Tags) {
        if before == after {
            return;
        }
        for tag in before.iter() {
            edit.delete(keyspace::tag(self.container, tag, self.name(), revision));
        }
        for tag in after.iter() {
            edit.put(keyspace::tag(self.container, tag, self.name(), revision), Bytes::from_static(&[1]));
        }
    }

    /// Writes a blob in place of the one that is there, if there is one.
    pub(super) async fn replace<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        edit: &mut Edit<'_, S>,
        new: &StoredBlob,
    ) -> Result<(), ServiceError> {
        if let Some(old) = &self.base {
            let versioned = context.keeps_versions() || old.version.is_some();
            if versioned {
                self.keep_version(edit, old);
            } else if let Some(until) = context.retained_until() {
                let deleted = Deleted { at: context.now, until };
                self.keep_deleted_snapshot(context, edit, old, deleted);
            } else {
                contents::release(edit, &old.content).await?;
            }
        }
        if let Some(gone) = &self.gone
            && let Some(deleted) = gone.deleted
        {
            self.keep_deleted_snapshot(context, edit, gone, deleted);
        }
        let before = self.base.as_ref().map(|old| &old.tags).cloned().unwrap_or_default();
        self.put(edit, Revision::Base, &before, new);
        Ok(())
    }

    /// Changes the blob as it is now. An account that keeps versions gets one, where the operation makes one.
    pub(super) async fn change<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        edit: &mut Edit<'_, S>,
        new: &mut StoredBlob,
        makes_version: bool,
    ) -> Result<(), ServiceError> {
        let old = self.existing()?;
        if makes_version && context.keeps_versions() {
            contents::share(edit, &old.content).await?;
            self.keep_version(edit, old);
            new.version = Some(self.change_moment(context.now));
        }
        self.put(edit, Revision::Base, &old.tags, new);
        Ok(())
    }

    /// Keeps a state of the blob as a previous version. Its content goes with it.
    pub(super) fn keep_version<S: Snapshot>(&self, edit: &mut Edit<'_, S>, old: &StoredBlob) -> Timestamp {
        let version = old.version.unwrap_or(old.changed);
        let kept = StoredBlob { version: Some(version), lease: Lease::Available, ..old.clone() };
        self.put(edit, Revision::Version(version), &Tags::default(), &kept);
        version
    }

    fn keep_deleted_snapshot<S: Snapshot>(
        &self,
        context: &Context<'_, S>,
        edit: &mut Edit<'_, S>,
        old: &StoredBlob,
        deleted: Deleted,
    ) {
        let revision = Revision::Snapshot(self.change_moment(context.now));
        let kept = StoredBlob { deleted: Some(deleted), lease: Lease::Available, ..old.clone() };
        self.put(edit, revision, &Tags::default(), &kept);
        self.note_retention(edit, revision, deleted);
    }

    /// Notes when a state that was deleted cannot be restored any more.
    pub(super) fn note_retention<S: Snapshot>(
        &self,
        edit: &mut Edit<'_, S>,
        revision: Revision,
        deleted: Deleted,
    ) {
        let key = keyspace::retained(deleted.until, self.container, self.name(), revision);
        edit.put(key, Bytes::from_static(&[1]));
    }

    /// Discards blocks that are not committed. If there are very many, only some of them: then nothing else
    /// can be in the same commit.
    pub(super) async fn discard_blocks<S: Snapshot>(
        &self,
        edit: &mut Edit<'_, S>,
    ) -> Result<More, ServiceError> {
        if !staged::may_have_blocks(edit, self).await? {
            return Ok(More::No);
        }
        let more = discard_blocks(edit, &mut keyspace::blocks(self.container, self.name())).await?;
        let note = keyspace::spent_blocks(self.container, self.name());
        if more == More::No && edit.get(&note).await?.is_some() {
            edit.delete(note);
        }
        Ok(more)
    }

    /// Discards some of the blocks that were to be discarded before, if there are any. Then nothing else can be
    /// in the same commit.
    pub(super) async fn discard_spent<S: Snapshot>(
        &self,
        edit: &mut Edit<'_, S>,
    ) -> Result<More, ServiceError> {
        discard_spent(edit, self.container, self.name()).await
    }
}

/// Discards the first of the blocks that a list was made of, if they were too many to be discarded with it.
pub(super) async fn discard_spent<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    container: Incarnation,
    name: &str,
) -> Result<More, ServiceError> {
    let note = keyspace::spent_blocks(container, name);
    let Some(row) = edit.get(&note).await? else { return Ok(More::No) };
    let until = record::decode_number(&row)?;
    let mut rows = Rows::of(edit.snapshot, keyspace::blocks(container, name), DISCARDED_AT_ONCE);
    let mut discarded = 0;
    while let Some((key, row)) = rows.next().await? {
        if discarded == DISCARDED_AT_ONCE {
            return Ok(More::Yes);
        }
        let block = StoredBlock::decode(&row)?;
        if block.put.ticks() <= until {
            contents::release_block(edit, block.content).await?;
            edit.delete(key);
            discarded += 1;
        }
    }
    edit.delete(note);
    Ok(More::Yes)
}

/// Discards the first blocks of a range. Then it begins behind them.
pub(super) async fn discard_blocks<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    range: &mut KeyRange,
) -> Result<More, ServiceError> {
    let mut rows = Rows::of(edit.snapshot, range.clone(), DISCARDED_AT_ONCE);
    let mut discarded = 0;
    while let Some((key, row)) = rows.next().await? {
        if discarded == DISCARDED_AT_ONCE {
            range.start = key;
            return Ok(More::Yes);
        }
        contents::release_block(edit, StoredBlock::decode(&row)?.content).await?;
        edit.delete(key);
        discarded += 1;
    }
    Ok(More::No)
}

/// What writes tell of the blob they wrote.
pub(super) fn written(blob: &StoredBlob) -> Written {
    Written {
        changed: Changed(blob.changed),
        version: blob.version,
        encryption: blob.encryption.without_secret(),
    }
}

impl<S> Context<'_, S> {
    /// What answers say about a state of a blob besides the state itself, which is brought up to date.
    #[inline]
    pub(super) fn view<T, C>(&self, blob: &mut StoredBlob<T, C>, revision: Revision) -> BlobProperties<()> {
        if let Some(copy) = &mut blob.state.copy {
            self.copies.bring_up(copy);
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

    pub(super) fn keeps_versions(&self) -> bool {
        self.options.versioned_accounts.iter().any(|account| account == self.account)
    }

    /// Until when what is deleted now can be restored. `None`: deleted is deleted.
    pub(super) fn retained_until(&self) -> Option<Timestamp> {
        let days = self.settings.delete_retention.days?;
        Some(self.now.saturating_add(Duration::from_secs(u64::from(days) * 24 * 60 * 60)))
    }
}
