//! Changes of a blob beside its content: metadata, properties, tier, tags, immutability, leases, snapshots.

use super::contents;
use super::encryption::stored_metadata;
use super::lease::Lease;
use super::pages;
use super::pending;
use super::precondition::{check_key, require_mutable, require_not_archived};
use super::service::{Context, NextStep};
use super::slot::{BlobSlot, written};
use super::tier;
use super::write_set::WriteSet;
use crate::record::StoredBlob;
use crate::transact::Outcome;
use tepui_model::blob::{
    AccessTier, BlobPath, BlobType, Changed, Conditions, Encryption, LeaseAction, OfType, Preconditions,
    RehydratePriority, Reply, Revision, SetBlobProperties, Tags,
};
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

pub(super) async fn set_metadata<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    metadata: &Metadata,
    preconditions: &Preconditions,
    encryption: &Encryption,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let blob = slot.existing()?;
    check_key(blob, encryption)?;
    require_mutable(blob, context.now)?;
    slot.precondition_check(preconditions, context.now).for_write(blob)?;
    let mut new = changed(context, &slot, blob);
    new.metadata = stored_metadata(metadata, encryption)?;
    new.copy = None;
    slot.change(context, &mut writes, &mut new, true).await?;
    Ok(writes.finish(Reply::MetadataSet(written(&new)).into()))
}

/// The blob with a new time of its last change.
pub(super) fn changed<S: Snapshot>(
    context: &Context<'_, S>,
    slot: &BlobSlot<'_>,
    blob: &StoredBlob,
) -> StoredBlob {
    let now = slot.change_time(context.now);
    let mut new = StoredBlob { stamp: now, lease: blob.lease.after_write(context.now), ..blob.clone() };
    new.changed = now;
    new
}

pub(super) async fn set_properties<S: Snapshot>(
    context: &Context<'_, S>,
    set: &SetBlobProperties,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &set.blob).await?;
    let blob = slot.existing()?;
    if (set.resize.is_some() || set.sequence_number.is_some()) && blob.of_type.blob_type() != BlobType::Page {
        return Err(ErrorCode::InvalidBlobType.into());
    }
    check_key(blob, &set.encryption)?;
    require_mutable(blob, context.now)?;
    slot.precondition_check(&set.preconditions, context.now).for_write(blob)?;
    let mut new = changed(context, &slot, blob);
    if let Some(http) = &set.http {
        new.http = http.clone();
    }
    new.copy = None;
    if let Some(bytes) = set.resize
        && let Some(step) = pages::resize(context, &mut writes, &mut new, bytes).await?
    {
        return Ok(writes.finish(step));
    }
    let sequence_number = match &mut new.of_type {
        OfType::Page { sequence_number } => {
            if let Some(action) = set.sequence_number {
                *sequence_number = action.apply(*sequence_number)?;
            }
            Some(*sequence_number)
        }
        OfType::Block | OfType::Append { .. } => None,
    };
    slot.change(context, &mut writes, &mut new, false).await?;
    let reply = Reply::PropertiesSet { written: written(&new), sequence_number };
    Ok(writes.finish(reply.into()))
}

/// Updates a revision of a blob without changing its ETag.
async fn update_silently<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    preconditions: &Preconditions,
    change: impl FnOnce(&mut StoredBlob) -> Result<Reply, ErrorCode>,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let (mut blob, revision) = slot.revision(&writes, revision).await?;
    let tags = match revision {
        Revision::Snapshot(_) => Tags::default(),
        Revision::Base | Revision::Version(_) => blob.tags.clone(),
    };
    let check = slot.precondition_check(preconditions, context.now);
    match revision {
        Revision::Base => check.for_write(&blob)?,
        Revision::Snapshot(_) | Revision::Version(_) => check.for_use(&blob)?,
    }
    let reply = change(&mut blob)?;
    blob.stamp = context.now.later_than(blob.stamp);
    slot.put(&mut writes, revision, &tags, &blob);
    Ok(writes.finish(reply.into()))
}

pub(super) async fn set_tier<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    (to, priority): (AccessTier, Option<RehydratePriority>),
    preconditions: &Preconditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    let rehydration = context.options.rehydration;
    update_silently(context, path, revision, preconditions, |blob| {
        if blob.of_type != OfType::Block {
            return Err(ErrorCode::AccessTierNotSupportedForBlobType);
        }
        if to.is_premium() {
            return Err(ErrorCode::InvalidBlobTier);
        }
        let (tier, rehydrating) = tier::set(blob.tier, to, priority, context.now, rehydration)?;
        blob.tier = Some(tier);
        Ok(Reply::TierSet { rehydrating })
    })
    .await
}

pub(super) async fn set_tags<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    tags: &Tags,
    preconditions: &Preconditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    if matches!(revision, Revision::Snapshot(_)) {
        return Err(ErrorCode::InvalidOperation.into());
    }
    update_silently(context, path, revision, preconditions, |blob| {
        blob.tags = tags.clone();
        Ok(Reply::TagsSet)
    })
    .await
}

/// Updates immutability policies and legal holds, which neither leases nor conditions prevent.
pub(super) async fn update_retention<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    change: impl FnOnce(&mut StoredBlob) -> Result<Reply, ErrorCode>,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let (mut blob, revision) = slot.revision(&writes, revision).await?;
    pending::require_none(&blob)?;
    let reply = change(&mut blob)?;
    blob.stamp = context.now.later_than(blob.stamp);
    slot.put_with_same_tags(&mut writes, revision, &blob);
    Ok(writes.finish(reply.into()))
}

pub(super) async fn lease<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    action: LeaseAction,
    conditions: &Conditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let mut blob = slot.existing()?.clone();
    let preconditions = Preconditions { lease: None, conditions: conditions.clone() };
    slot.precondition_check(&preconditions, context.now).for_use(&blob)?;
    let (lease, outcome) = blob.lease.act_in(context, action)?;
    blob.lease = lease;
    blob.stamp = context.now.later_than(blob.stamp);
    writes.put_stamped(slot.key(Revision::Base), blob.encode());
    Ok(writes.finish(Reply::Lease { changed: Changed(blob.changed), outcome }.into()))
}

pub(super) async fn snapshot<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    metadata: &Metadata,
    preconditions: &Preconditions,
    encryption: &Encryption,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let blob = slot.existing()?;
    require_not_archived(blob, context.now)?;
    check_key(blob, encryption)?;
    slot.precondition_check(preconditions, context.now).for_use(blob)?;
    let now = slot.change_time(context.now);
    let timestamp = blob.last_snapshot.map_or(now, |last| now.later_than(last));
    let mut taken = StoredBlob { stamp: now, lease: Lease::Available, version: None, ..blob.clone() };
    if !metadata.is_empty() {
        taken.metadata = stored_metadata(metadata, encryption)?;
        taken.changed = now;
    }
    contents::add_reference(&mut writes, &taken.content).await?;
    slot.put(&mut writes, Revision::Snapshot(timestamp), &Tags::default(), &taken);
    let mut base = StoredBlob { stamp: now, last_snapshot: Some(timestamp), ..blob.clone() };
    slot.change(context, &mut writes, &mut base, true).await?;
    let mut written = written(&base);
    written.changed = Changed(taken.changed);
    Ok(writes.finish(Reply::Snapshot { written, snapshot: timestamp }.into()))
}
