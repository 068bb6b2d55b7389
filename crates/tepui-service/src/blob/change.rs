//! Changes of what is known of a blob: metadata, properties, tier, tags, immutability, leases, snapshots.

use super::contents;
use super::edit::Edit;
use super::encryption::stored_metadata;
use super::lease::Lease;
use super::pages;
use super::pending;
use super::precondition::{check_key, require_mutable, require_not_archived};
use super::service::{Context, Step};
use super::target::{Target, written};
use super::tier;
use crate::record::StoredBlob;
use crate::transact::Outcome;
use tepui_model::blob::{
    AccessTier, BlobPath, BlobType, Changed, Conditions, Encryption, LeaseAction, LeaseId, OfType,
    Preconditions, RehydratePriority, Reply, Revision, SetBlobProperties, Tags,
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
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let blob = target.existing()?;
    check_key(blob, encryption)?;
    require_mutable(blob, context.now)?;
    target.asked(preconditions, context.now).check_write(blob)?;
    let mut new = changed(context, &target, blob);
    new.metadata = stored_metadata(metadata, encryption)?;
    new.copy = None;
    target.change(context, &mut edit, &mut new, true).await?;
    Ok(edit.finish(Reply::MetadataSet(written(&new)).into()))
}

/// The blob with a new moment of its last change.
pub(super) fn changed<S: Snapshot>(
    context: &Context<'_, S>,
    target: &Target<'_>,
    blob: &StoredBlob,
) -> StoredBlob {
    let now = target.change_moment(context.now);
    let mut new = StoredBlob { stamp: now, lease: blob.lease.after_write(context.now), ..blob.clone() };
    new.changed = now;
    new
}

pub(super) async fn set_properties<S: Snapshot>(
    context: &Context<'_, S>,
    set: &SetBlobProperties,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &set.blob).await?;
    let blob = target.existing()?;
    if (set.resize.is_some() || set.sequence_number.is_some()) && blob.of_type.blob_type() != BlobType::Page {
        return Err(ErrorCode::InvalidBlobType.into());
    }
    check_key(blob, &set.encryption)?;
    require_mutable(blob, context.now)?;
    target.asked(&set.preconditions, context.now).check_write(blob)?;
    let mut new = changed(context, &target, blob);
    if let Some(http) = &set.http {
        new.http = http.clone();
    }
    new.copy = None;
    if let Some(bytes) = set.resize
        && let Some(step) = pages::resize(context, &mut edit, &mut new, bytes).await?
    {
        return Ok(edit.finish(step));
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
    target.change(context, &mut edit, &mut new, false).await?;
    let reply = Reply::PropertiesSet { written: written(&new), sequence_number };
    Ok(edit.finish(reply.into()))
}

/// Changes a state of a blob in a way that its ETag does not show.
async fn amend<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    preconditions: &Preconditions,
    change: impl FnOnce(&mut StoredBlob) -> Result<Reply, ErrorCode>,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let (mut blob, revision) = target.revision(&edit, revision).await?;
    let tags = match revision {
        Revision::Snapshot(_) => Tags::default(),
        Revision::Base | Revision::Version(_) => blob.tags.clone(),
    };
    let asked = target.asked(preconditions, context.now);
    match revision {
        Revision::Base => asked.check_write(&blob)?,
        Revision::Snapshot(_) | Revision::Version(_) => asked.check_use(&blob)?,
    }
    let reply = change(&mut blob)?;
    blob.stamp = context.now.max(blob.stamp.next());
    target.put(&mut edit, revision, &tags, &blob);
    Ok(edit.finish(reply.into()))
}

pub(super) async fn set_tier<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    (to, priority): (AccessTier, Option<RehydratePriority>),
    preconditions: &Preconditions,
) -> Result<Outcome<Step>, ServiceError> {
    let rehydration = context.options.rehydration;
    amend(context, path, revision, preconditions, |blob| {
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
) -> Result<Outcome<Step>, ServiceError> {
    if matches!(revision, Revision::Snapshot(_)) {
        return Err(ErrorCode::InvalidOperation.into());
    }
    amend(context, path, revision, preconditions, |blob| {
        blob.tags = tags.clone();
        Ok(Reply::TagsSet)
    })
    .await
}

/// Immutability and legal holds, which no lease and no condition stands against.
pub(super) async fn hold<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    change: impl FnOnce(&mut StoredBlob) -> Result<Reply, ErrorCode>,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let (mut blob, revision) = target.revision(&edit, revision).await?;
    pending::require_none(&blob)?;
    let reply = change(&mut blob)?;
    blob.stamp = context.now.max(blob.stamp.next());
    target.put_with_same_tags(&mut edit, revision, &blob);
    Ok(edit.finish(reply.into()))
}

pub(super) async fn lease<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    action: LeaseAction,
    conditions: &Conditions,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let mut blob = target.existing()?.clone();
    let preconditions = Preconditions { lease: None, conditions: conditions.clone() };
    target.asked(&preconditions, context.now).check_use(&blob)?;
    let (lease, outcome) = blob.lease.act(action, context.now, LeaseId((context.chance)()))?;
    blob.lease = lease;
    blob.stamp = context.now.max(blob.stamp.next());
    edit.put_stamped(target.key(Revision::Base), blob.encode());
    Ok(edit.finish(Reply::Lease { changed: Changed(blob.changed), outcome }.into()))
}

pub(super) async fn snapshot<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    metadata: &Metadata,
    preconditions: &Preconditions,
    encryption: &Encryption,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let blob = target.existing()?;
    require_not_archived(blob, context.now)?;
    check_key(blob, encryption)?;
    target.asked(preconditions, context.now).check_use(blob)?;
    let now = target.change_moment(context.now);
    let moment = blob.last_snapshot.map_or(now, |last| now.max(last.next()));
    let mut taken = StoredBlob { stamp: now, lease: Lease::Available, version: None, ..blob.clone() };
    if !metadata.is_empty() {
        taken.metadata = stored_metadata(metadata, encryption)?;
        taken.changed = now;
    }
    contents::share(&mut edit, &taken.content).await?;
    target.put(&mut edit, Revision::Snapshot(moment), &Tags::default(), &taken);
    let mut base = StoredBlob { stamp: now, last_snapshot: Some(moment), ..blob.clone() };
    target.change(context, &mut edit, &mut base, true).await?;
    let mut written = written(&base);
    written.changed = Changed(taken.changed);
    Ok(edit.finish(Reply::Snapshot { written, snapshot: moment }.into()))
}
