//! Delete Blob and Undelete Blob.

use super::contents;
use super::cursor::RowCursor;
use super::lease::Lease;
use super::precondition::require_mutable;
use super::service::{Context, NextStep};
use super::slot::{BlobSlot, Progress};
use super::write_set::WriteSet;
use crate::keyspace;
use crate::record::{SoftDelete, StoredBlob};
use crate::transact::Outcome;
use tepui_model::blob::{BlobPath, DeleteBlob, DeleteSnapshots, Preconditions, Reply, Revision, Tags};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

/// Snapshots that are deleted in one commit. Large commits delay others.
const AT_ONCE: usize = 2048;

pub(super) async fn delete_blob<S: Snapshot>(
    context: &Context<'_, S>,
    delete: &DeleteBlob,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let marker = |container| vec![keyspace::staged(container, delete.blob.blob.as_str())];
    let slot = BlobSlot::find_with(context, &mut writes, &delete.blob, marker).await?;
    match delete.revision {
        // Only what was soft-deleted before can be deleted permanently.
        Revision::Base if delete.permanently => Err(ErrorCode::InvalidQueryParameterValue.into()),
        Revision::Base => delete_base(context, writes, &slot, delete).await,
        revision => delete_revision(context, writes, &slot, revision, delete).await,
    }
}

async fn delete_base<S: Snapshot>(
    context: &Context<'_, S>,
    mut writes: WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    delete: &DeleteBlob,
) -> Result<Outcome<NextStep>, ServiceError> {
    let Some(base) = &slot.base else { return delete_uncommitted(writes, slot, delete).await };
    slot.precondition_check(&delete.preconditions, context.now).for_write(base)?;
    check_tier_conditions(base, delete)?;
    let has_snapshots =
        async { Ok::<_, ServiceError>(delete.snapshots.is_none() && has_snapshots(&writes, slot).await?) };
    let (read, has_snapshots) = match context.versioning_enabled() {
        true => (None, has_snapshots.await),
        false => {
            let read = context.read_for_removal(&writes, &base.content);
            let (read, has_snapshots) = tokio::join!(biased; read, has_snapshots);
            (Some(read?), has_snapshots)
        }
    };
    if has_snapshots? {
        return Err(ErrorCode::SnapshotsPresent.into());
    }
    if let Some(read) = read {
        writes.add_for_removal(read);
    }
    let is_retained = context.versioning_enabled() || context.retained_until(&mut writes).await?.is_some();
    let reply = Reply::BlobDeleted { permanently: !is_retained };
    let only_snapshots = delete.snapshots == Some(DeleteSnapshots::Only);
    if !only_snapshots {
        // Checked before any snapshot is deleted, so that the request fails as a whole.
        require_mutable(base, context.now)?;
    }
    if delete.snapshots.is_some() && delete_snapshots(context, &mut writes, slot).await? == Progress::Partial
    {
        return Ok(writes.finish(NextStep::Continue));
    }
    if only_snapshots {
        return Ok(writes.finish(reply.into()));
    }
    // Its uncommitted blocks are deleted with it.
    if slot.discard_blocks(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    if context.versioning_enabled() {
        slot.save_version(context, &mut writes, base);
        slot.remove(&mut writes, Revision::Base, &base.tags);
    } else {
        discard(context, &mut writes, slot, Revision::Base, base).await?;
    }
    Ok(writes.finish(reply.into()))
}

/// Deletes a blob that has only uncommitted blocks. It has no snapshots, no lease, and no condition can match it.
async fn delete_uncommitted<S: Snapshot>(
    mut writes: WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    delete: &DeleteBlob,
) -> Result<Outcome<NextStep>, ServiceError> {
    let progress = slot.discard_blocks(&mut writes).await?;
    let outcome = writes.finish(NextStep::Continue);
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
    match progress {
        Progress::Partial => Ok(outcome),
        Progress::Complete => {
            Ok(Outcome { reply: Reply::BlobDeleted { permanently: true }.into(), ..outcome })
        }
    }
}

async fn delete_revision<S: Snapshot>(
    context: &Context<'_, S>,
    mut writes: WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    revision: Revision,
    delete: &DeleteBlob,
) -> Result<Outcome<NextStep>, ServiceError> {
    if delete.snapshots.is_some() {
        return Err(ErrorCode::InvalidQueryParameterValue.into());
    }
    if delete.permanently {
        return delete_permanently(context, writes, slot, revision).await;
    }
    let (blob, found) = slot.revision(&writes, revision).await?;
    if found == Revision::Base {
        return Err(ErrorCode::OperationNotAllowedOnRootBlob.into());
    }
    slot.precondition_check(&delete.preconditions, context.now).for_use(&blob)?;
    check_tier_conditions(&blob, delete)?;
    require_mutable(&blob, context.now)?;
    discard(context, &mut writes, slot, found, &blob).await?;
    let permanently = context.retained_until(&mut writes).await?.is_none();
    Ok(writes.finish(Reply::BlobDeleted { permanently }.into()))
}

/// Permanently deletes a soft-deleted snapshot or version.
async fn delete_permanently<S: Snapshot>(
    context: &Context<'_, S>,
    mut writes: WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    revision: Revision,
) -> Result<Outcome<NextStep>, ServiceError> {
    let row = writes.get(&slot.key(revision)).await?.ok_or(ErrorCode::BlobNotFound)?;
    let blob = StoredBlob::decode(&row)?;
    let may_delete = context.delete_retention(&mut writes).await?.allow_permanent_delete;
    if blob.deleted.is_none() || !may_delete {
        return Err(ErrorCode::InvalidOperation.into());
    }
    require_mutable(&blob, context.now)?;
    contents::release(&mut writes, &blob.content).await?;
    slot.remove(&mut writes, revision, &Tags::default());
    Ok(writes.finish(Reply::BlobDeleted { permanently: true }.into()))
}

fn check_tier_conditions(blob: &StoredBlob, delete: &DeleteBlob) -> Result<(), ErrorCode> {
    let changed = blob.tier.map_or(blob.created, |tier| tier.changed);
    let conditions = &delete.tier_conditions;
    let met = conditions.modified_since.is_none_or(|since| changed > since)
        && conditions.unmodified_since.is_none_or(|since| changed <= since);
    if met { Ok(()) } else { Err(ErrorCode::ConditionNotMet) }
}

/// Deletes a revision of a blob, softly if the account has soft delete enabled.
async fn discard<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    revision: Revision,
    blob: &StoredBlob,
) -> Result<(), ServiceError> {
    let tags = match revision {
        Revision::Snapshot(_) => Tags::default(),
        Revision::Base | Revision::Version(_) => blob.tags.clone(),
    };
    let Some(until) = context.retained_until(writes).await? else {
        contents::release(writes, &blob.content).await?;
        slot.remove(writes, revision, &tags);
        return Ok(());
    };
    let deleted = SoftDelete { at: context.now, until };
    let stamp = context.now.later_than(blob.stamp);
    let soft_deleted = StoredBlob { deleted: Some(deleted), lease: Lease::Available, stamp, ..blob.clone() };
    slot.put(writes, revision, &tags, &soft_deleted);
    slot.put_retention_record(writes, revision, deleted);
    Ok(())
}

/// Whether there are snapshots that are not soft-deleted.
async fn has_snapshots<S: Snapshot>(
    writes: &WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
) -> Result<bool, ServiceError> {
    let range = keyspace::snapshots(slot.container, slot.name());
    let mut rows = RowCursor::new(writes.snapshot, range, 16);
    while let Some((_, row)) = rows.next().await? {
        if StoredBlob::decode(&row)?.deleted.is_none() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes a batch of snapshots, or none if one of them is immutable.
async fn delete_snapshots<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
) -> Result<Progress, ServiceError> {
    // Snapshot Blob writes the blob's row, so this guard excludes new snapshots.
    writes.guard(slot.key(Revision::Base));
    let range = keyspace::snapshots(slot.container, slot.name());
    let mut rows = RowCursor::new(writes.snapshot, range, 256);
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
            discard(context, writes, slot, revision, &blob).await?;
        }
    }
    Ok(if found > AT_ONCE { Progress::Partial } else { Progress::Complete })
}

pub(super) async fn undelete_blob<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let mut found = slot.base.is_some();
    if let Some(soft_deleted) = &slot.soft_deleted {
        found = true;
        restore(context, &mut writes, &slot, Revision::Base, soft_deleted);
    }
    let mut restored = 0;
    for range in
        [keyspace::snapshots(slot.container, slot.name()), keyspace::versions(slot.container, slot.name())]
    {
        let mut rows = RowCursor::new(context.snapshot, range, AT_ONCE);
        while let Some((key, row)) = rows.next().await? {
            found = true;
            let blob = StoredBlob::decode(&row)?;
            let Some((_, revision)) = keyspace::blob_of(&key) else { continue };
            if blob.deleted.is_none() {
                continue;
            }
            if restored == AT_ONCE {
                return Ok(writes.finish(NextStep::Continue));
            }
            restore(context, &mut writes, &slot, revision, &blob);
            restored += 1;
        }
    }
    match found {
        true => Ok(writes.finish(Reply::BlobUndeleted.into())),
        false => Err(ErrorCode::BlobNotFound.into()),
    }
}

fn restore<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    revision: Revision,
    soft_deleted: &StoredBlob,
) {
    // Its GC record finds that it is not deleted, and is removed.
    let stamp = context.now.later_than(soft_deleted.stamp);
    let blob = StoredBlob { deleted: None, stamp, ..soft_deleted.clone() };
    slot.put(writes, revision, &Tags::default(), &blob);
}
