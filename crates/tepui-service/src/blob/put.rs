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
use crate::keyspace::ContentId;
use crate::record::{Content, StoredBlob, StoredPiece};
use crate::transact::Outcome;
use tepui_model::blob::{
    BlobState, BlobType, Checksums, ContentMd5, NewBlob, NewContent, OfType, PutBlob, Reply,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

pub(super) async fn put_blob<S: Snapshot>(
    context: &Context<'_, S>,
    put: &PutBlob,
    uploaded: Option<&Uploaded>,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &put.blob).await?;
    let blob_type = match put.content {
        NewContent::Block(_) => BlobType::Block,
        NewContent::Append => BlobType::Append,
        NewContent::Page { .. } => BlobType::Page,
    };
    let check = slot.precondition_check(&put.preconditions, context.now);
    check.for_create(slot.base.as_ref(), blob_type, context.allowed)?;
    tier::check_new(put.new.tier, blob_type)?;
    let mut checksums = Checksums::default();
    if let NewContent::Block(upload) = &put.content {
        let uploaded = uploaded.ok_or_else(no_bytes)?;
        checksums = uploaded.check(&upload.checksums)?;
        uploaded.check(&Checksums {
            md5: put.new.http.content_md5.as_ref().and_then(ContentMd5::sum),
            crc64: None,
        })?;
    }
    if slot.discard_blocks(&mut writes).await? == Progress::Partial {
        return Ok(writes.finish(NextStep::Continue));
    }
    let of_type = match put.content {
        NewContent::Block(_) => OfType::Block,
        NewContent::Append => OfType::Append { committed_blocks: 0, sealed: false },
        NewContent::Page { sequence_number, .. } => OfType::Page { sequence_number },
    };
    let mut new = new_blob(context, &slot, &put.new, of_type);
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    match (&put.content, uploaded) {
        (NewContent::Block(_), Some(uploaded)) => {
            new.bytes = uploaded.bytes;
            new.content =
                store(&mut writes, uploaded, ContentId::new(context.now, (context.random_ids)())).await?;
        }
        (NewContent::Page { bytes, .. }, _) => new.bytes = *bytes,
        (NewContent::Block(_) | NewContent::Append, _) => {}
    }
    if let Some(md5) = checksums.md5 {
        new.http.content_md5 = Some(md5.into());
    }
    slot.replace(context, &mut writes, &new).await?;
    Ok(writes.finish(Reply::BlobPut { written: written(&new), checksums }.into()))
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
        // Only pieces can be marked as encrypted.
        _ if uploaded.is_encrypted => {
            let piece = StoredPiece { id: None, source: uploaded.add_piece(writes).await? };
            contents::put_list(writes, &CoopBudget::default(), fresh, vec![piece]).await;
            Ok(Content::Listed(fresh))
        }
        UploadLocation::InMemory(bytes) if bytes.len() <= MAX_INLINE_BYTES => {
            Ok(Content::Inline(bytes.clone()))
        }
        UploadLocation::InMemory(bytes) => {
            contents::put_small(writes, fresh, bytes.clone());
            Ok(Content::Small(fresh))
        }
        UploadLocation::Extent(extent) => {
            contents::add_extent(writes, *extent).await?;
            Ok(Content::Extent(*extent))
        }
        // Only pieces can be zeros.
        UploadLocation::Zeros(_) => Err(no_bytes()),
    }
}

/// The bytes have to be received before the operation is executed.
pub(super) fn no_bytes() -> ServiceError {
    ServiceError::new(ErrorCode::InternalError).with_cause("an upload was executed without its bytes")
}
