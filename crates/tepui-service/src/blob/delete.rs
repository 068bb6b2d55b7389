//! Delete Blob and Undelete Blob.

use super::contents;
use super::edit::{Edit, Rows};
use super::lease::Lease;
use super::precondition::require_mutable;
use super::service::{Context, Step};
use super::target::{More, Target};
use crate::keyspace;
use crate::record::{Deleted, StoredBlob};
use crate::transact::Outcome;
use tepui_model::blob::{BlobPath, DeleteBlob, DeleteSnapshots, Preconditions, Reply, Revision, Tags};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

/// How many snapshots are deleted in one commit: others have to wait for it.
const AT_ONCE: usize = 2048;

pub(super) async fn delete_blob<S: Snapshot>(
    context: &Context<'_, S>,
    delete: &DeleteBlob,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &delete.blob).await?;
    match delete.revision {
        // What is there is deleted first, so that it can be restored.
        Revision::Base if delete.permanently => Err(ErrorCode::InvalidQueryParameterValue.into()),
        Revision::Base => delete_base(context, edit, &target, delete).await,
        revision => delete_revision(context, edit, &target, revision, delete).await,
    }
}

async fn delete_base<S: Snapshot>(
    context: &Context<'_, S>,
    mut edit: Edit<'_, S>,
    target: &Target<'_>,
    delete: &DeleteBlob,
) -> Result<Outcome<Step>, ServiceError> {
    let Some(base) = &target.base else { return delete_uncommitted(edit, target, delete).await };
    target.asked(&delete.preconditions, context.now).check_write(base)?;
    check_tier_conditions(base, delete)?;
    let kept = context.keeps_versions() || context.retained_until().is_some();
    let reply = Reply::BlobDeleted { permanently: !kept };
    if delete.snapshots.is_none() && has_snapshots(&edit, target).await? {
        return Err(ErrorCode::SnapshotsPresent.into());
    }
    let only_snapshots = delete.snapshots == Some(DeleteSnapshots::Only);
    if !only_snapshots {
        // Before any snapshot goes: all of it is refused, or nothing.
        require_mutable(base, context.now)?;
    }
    if delete.snapshots.is_some() && delete_snapshots(context, &mut edit, target).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    if only_snapshots {
        return Ok(edit.finish(reply.into()));
    }
    // Blocks that are waiting for this blob go with it.
    if target.discard_blocks(&mut edit).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    if context.keeps_versions() {
        target.keep_version(&mut edit, base);
        target.remove(&mut edit, Revision::Base, &base.tags);
    } else {
        discard(context, &mut edit, target, Revision::Base, base).await?;
    }
    Ok(edit.finish(reply.into()))
}

/// A blob of which there are only blocks is deleted with them. It has no snapshots, no lease, and nothing that a
/// condition could find.
async fn delete_uncommitted<S: Snapshot>(
    mut edit: Edit<'_, S>,
    target: &Target<'_>,
    delete: &DeleteBlob,
) -> Result<Outcome<Step>, ServiceError> {
    let more = target.discard_blocks(&mut edit).await?;
    let outcome = edit.finish(Step::More);
    if outcome.writes.is_empty() || delete.snapshots == Some(DeleteSnapshots::Only) {
        return Err(ErrorCode::BlobNotFound.into());
    }
    let DeleteBlob { preconditions: Preconditions { lease, conditions }, tier_conditions, .. } = delete;
    if lease.is_some() {
        return Err(ErrorCode::LeaseNotPresentWithBlobOperation.into());
    }
    conditions.check_absent()?;
    let of_times = [
        conditions.modified_since,
        conditions.unmodified_since,
        tier_conditions.modified_since,
        tier_conditions.unmodified_since,
    ];
    if of_times.iter().any(Option::is_some) {
        return Err(ErrorCode::ConditionNotMet.into());
    }
    match more {
        More::Yes => Ok(outcome),
        More::No => Ok(Outcome { reply: Reply::BlobDeleted { permanently: true }.into(), ..outcome }),
    }
}

async fn delete_revision<S: Snapshot>(
    context: &Context<'_, S>,
    mut edit: Edit<'_, S>,
    target: &Target<'_>,
    revision: Revision,
    delete: &DeleteBlob,
) -> Result<Outcome<Step>, ServiceError> {
    if delete.snapshots.is_some() {
        return Err(ErrorCode::InvalidQueryParameterValue.into());
    }
    if delete.permanently {
        return delete_permanently(context, edit, target, revision).await;
    }
    let (blob, found) = target.revision(&edit, revision).await?;
    if found == Revision::Base {
        return Err(ErrorCode::OperationNotAllowedOnRootBlob.into());
    }
    target.asked(&delete.preconditions, context.now).check_use(&blob)?;
    check_tier_conditions(&blob, delete)?;
    require_mutable(&blob, context.now)?;
    discard(context, &mut edit, target, found, &blob).await?;
    let permanently = context.retained_until().is_none();
    Ok(edit.finish(Reply::BlobDeleted { permanently }.into()))
}

/// Deletes a snapshot or version for good that was deleted already.
async fn delete_permanently<S: Snapshot>(
    context: &Context<'_, S>,
    mut edit: Edit<'_, S>,
    target: &Target<'_>,
    revision: Revision,
) -> Result<Outcome<Step>, ServiceError> {
    let row = edit.get(&target.key(revision)).await?.ok_or(ErrorCode::BlobNotFound)?;
    let blob = StoredBlob::decode(&row)?;
    if blob.deleted.is_none() || !context.settings.delete_retention.allow_permanent_delete {
        return Err(ErrorCode::InvalidOperation.into());
    }
    require_mutable(&blob, context.now)?;
    contents::release(&mut edit, &blob.content).await?;
    target.remove(&mut edit, revision, &Tags::default());
    Ok(edit.finish(Reply::BlobDeleted { permanently: true }.into()))
}

fn check_tier_conditions(blob: &StoredBlob, delete: &DeleteBlob) -> Result<(), ErrorCode> {
    let changed = blob.tier.map_or(blob.created, |tier| tier.changed);
    let conditions = &delete.tier_conditions;
    let met = conditions.modified_since.is_none_or(|since| changed > since)
        && conditions.unmodified_since.is_none_or(|since| changed <= since);
    if met { Ok(()) } else { Err(ErrorCode::ConditionNotMet) }
}

/// Deletes a state of a blob, so that it can be restored if the account wants that.
async fn discard<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    target: &Target<'_>,
    revision: Revision,
    blob: &StoredBlob,
) -> Result<(), ServiceError> {
    let tags = match revision {
        Revision::Snapshot(_) => Tags::default(),
        Revision::Base | Revision::Version(_) => blob.tags.clone(),
    };
    let Some(until) = context.retained_until() else {
        contents::release(edit, &blob.content).await?;
        target.remove(edit, revision, &tags);
        return Ok(());
    };
    let deleted = Deleted { at: context.now, until };
    let stamp = context.now.max(blob.stamp.next());
    let gone = StoredBlob { deleted: Some(deleted), lease: Lease::Available, stamp, ..blob.clone() };
    target.put(edit, revision, &tags, &gone);
    target.note_retention(edit, revision, deleted);
    Ok(())
}

/// Whether there are snapshots that are not deleted.
async fn has_snapshots<S: Snapshot>(edit: &Edit<'_, S>, target: &Target<'_>) -> Result<bool, ServiceError> {
    let range = keyspace::snapshots(target.container, target.name());
    let mut rows = Rows::of(edit.snapshot, range, 16);
    while let Some((_, row)) = rows.next().await? {
        if StoredBlob::decode(&row)?.deleted.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes snapshots, some at a time, but none if one of them must stay.
async fn delete_snapshots<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    target: &Target<'_>,
) -> Result<More, ServiceError> {
    // Nobody makes another one meanwhile: that would change the blob's row.
    edit.guard(target.key(Revision::Base));
    let range = keyspace::snapshots(target.container, target.name());
    let mut rows = Rows::of(edit.snapshot, range, 256);
    let mut found = 0;
    while let Some((key, row)) = rows.next().await? {
        let blob = StoredBlob::decode(&row)?;
        let Some((_, revision)) = keyspace::blob_of(&key) else { continue };
        if blob.deleted.is_some() {
            continue;
        }
        require_mutable(&blob, context.now)?;
        found += 1;
        if found <= AT_ONCE {
            discard(context, edit, target, revision, &blob).await?;
        }
    }
    Ok(if found > AT_ONCE { More::Yes } else { More::No })
}

pub(super) async fn undelete_blob<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let mut found = target.base.is_some();
    if let Some(gone) = &target.gone {
        found = true;
        restore(context, &mut edit, &target, Revision::Base, gone);
    }
    let mut restored = 0;
    for range in [
        keyspace::snapshots(target.container, target.name()),
        keyspace::versions(target.container, target.name()),
    ] {
        let mut rows = Rows::of(context.snapshot, range, AT_ONCE);
        while let Some((key, row)) = rows.next().await? {
            found = true;
            let blob = StoredBlob::decode(&row)?;
            let Some((_, revision)) = keyspace::blob_of(&key) else { continue };
            if blob.deleted.is_none() {
                continue;
            }
            if restored == AT_ONCE {
                return Ok(edit.finish(Step::More));
            }
            restore(context, &mut edit, &target, revision, &blob);
            restored += 1;
        }
    }
    match found {
        true => Ok(edit.finish(Reply::BlobUndeleted.into())),
        false => Err(ErrorCode::BlobNotFound.into()),
    }
}

fn restore<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    target: &Target<'_>,
    revision: Revision,
    gone: &StoredBlob,
) {
    // The note about its retention finds that it is not deleted, and goes.
    let stamp = context.now.max(gone.stamp.next());
    let blob = StoredBlob { deleted: None, stamp, ..gone.clone() };
    target.put(edit, revision, &Tags::default(), &blob);
}
