//! Put Blob.

use super::contents;
use super::encryption::stored_metadata;
use super::lease::Lease;
use super::service::{Context, NextStep};
use super::slot::{BlobSlot, Progress, written};
use super::tier;
use super::upload::{UploadLocation, Uploaded};
use super::write_set::WriteSet;
use crate::coop::CoopBudget;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, StoredBlob, StoredPiece};
use crate::transact::Outcome;
use tepui_model::ServiceError;
use tepui_model::blob::{
    BlobPath, BlobState, BlobType, Checksums, ContentMd5, EmptyContent, NewBlob, OfType, Preconditions,
    PutBlob, PutEmptyBlob, Reply,
};
use tepui_storage::{Extent, Snapshot};

/// Put Blob of a block blob.
pub(super) async fn put_blob<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlob,
    uploaded: &Uploaded,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let destination = (&put.blob, &put.new, &put.preconditions);
    let slot =
        find_destination(context, &mut writes, destination, BlobType::Block, uploaded.extent()).await?;
    let checksums = uploaded.check(&put.upload.checksums)?;
    uploaded.check(&Checksums {
        md5: put.new.http.content_md5.as_ref().and_then(ContentMd5::sum),
        crc64: None,
    })?;
    if slot.discard_blocks(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    let mut new = new_blob(context, &slot, &put.new, OfType::Block);
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    new.bytes = uploaded.bytes;
    new.content = store(&mut writes, uploaded, ContentId::new(context.now, (context.random_ids)())).await?;
    if let Some(md5) = checksums.md5 {
        new.http.content_md5 = Some(md5.into());
    }
    slot.replace(context, &mut writes, &new).await?;
    Ok(writes.finish(Reply::BlobPut { written: written(&new), checksums }.into()))
}

/// Put Blob of an append or page blob.
pub(super) async fn put_empty_blob<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutEmptyBlob,
) -> Result<Outcome<NextStep>, ServiceError> {
    let (of_type, bytes) = match put.content {
        EmptyContent::Append => (OfType::Append { committed_blocks: 0, sealed: false }, 0),
        EmptyContent::Page { bytes, sequence_number } => (OfType::Page { sequence_number }, bytes),
    };
    let mut writes = WriteSet::new(context.snapshot);
    let destination = (&put.blob, &put.new, &put.preconditions);
    let slot = find_destination(context, &mut writes, destination, of_type.blob_type(), None).await?;
    if slot.discard_blocks(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    let mut new = new_blob(context, &slot, &put.new, of_type);
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    new.bytes = bytes;
    slot.replace(context, &mut writes, &new).await?;
    let checksums = Checksums::default();
    Ok(writes.finish(Reply::BlobPut { written: written(&new), checksums }.into()))
}

/// Where a new blob goes, if it may. `extent` has the received bytes.
pub(super) async fn find_destination<'a, S: Snapshot>(
    context: &Context<'a, S>,
    writes: &mut WriteSet<'_, S>,
    (path, new, preconditions): (&'a BlobPath, &NewBlob, &Preconditions),
    blob_type: BlobType,
    extent: Option<Extent>,
) -> Result<BlobSlot<'a>, ServiceError> {
    let also = |container| {
        let marker = keyspace::staged(container, path.blob.as_str());
        [marker].into_iter().chain(extent.map(keyspace::free_extent)).collect()
    };
    let slot = BlobSlot::find_with(context, writes, path, also).await?;
    let check = slot.precondition_check(preconditions, context.now);
    check.for_create(slot.base.as_ref(), blob_type, context.allowed)?;
    tier::check_new(new.tier, blob_type)?;
    Ok(slot)
}

/// A new blob without content.
pub(super) fn new_blob<S: Snapshot>(
    context: &Context<'_, S>,
    slot: &BlobSlot<'_>,
    new: &NewBlob,
    of_type: OfType,
) -> StoredBlob {
    let now = slot.change_time(context.now);
    let (before, base) = (slot.base.as_ref().or(slot.soft_deleted.as_ref()), slot.base.as_ref());
    StoredBlob {
        stamp: now,
        state: BlobState {
            changed: now,
            created: now,
            bytes: 0,
            of_type,
            http: new.http.clone(),
            metadata: new.metadata.clone(),
            tags: new.tags.clone(),
            copy: None,
            encryption: new.encryption.without_secret(),
            immutability: new.immutability,
            legal_hold: new.legal_hold,
        },
        tier: match of_type {
            OfType::Block => tier::of_new(new.tier, base.and_then(|blob| blob.tier), now),
            OfType::Append { .. } | OfType::Page { .. } => None,
        },
        lease: base.map_or(Lease::Available, |blob| blob.lease.after_write(context.now)),
        version: context.versioning_enabled().then_some(now),
        last_snapshot: before.and_then(|blob| blob.last_snapshot),
        deleted: None,
        content: Content::default(),
    }
}

/// Up to this length, bytes are stored in the blob's own row, which lists read.
const MAX_INLINE_BYTES: usize = 256;

/// Adds a reference to received bytes. A content in rows of its own gets the id `fresh`.
pub(super) async fn store<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    uploaded: &Uploaded,
    fresh: ContentId,
) -> Result<Content, ServiceError> {
    match &uploaded.location {
        UploadLocation::InMemory(bytes) if !uploaded.is_encrypted && bytes.len() <= MAX_INLINE_BYTES => {
            Ok(Content::Inline(bytes.clone()))
        }
        UploadLocation::InMemory(bytes) if !uploaded.is_encrypted => {
            contents::put_small(writes, fresh, bytes.clone());
            Ok(Content::Small(fresh))
        }
        UploadLocation::Extent(extent) if !uploaded.is_encrypted => {
            contents::add_extent(writes, *extent).await?;
            Ok(Content::Extent(*extent))
        }
        // Only pieces can be encrypted, or zeros.
        UploadLocation::InMemory(_) | UploadLocation::Extent(_) | UploadLocation::Zeros(_) => {
            let piece = StoredPiece { id: None, source: uploaded.add_piece(writes).await? };
            contents::put_list(writes, &CoopBudget::default(), fresh, vec![piece]).await;
            Ok(Content::Listed(fresh))
        }
    }
}
