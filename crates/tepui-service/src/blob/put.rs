//! Put Blob: blobs that come whole.

use super::contents;
use super::edit::Edit;
use super::encryption::stored_metadata;
use super::lease::Lease;
use super::service::{Context, Step};
use super::target::{More, Target, written};
use super::tier;
use super::upload::{Place, Uploaded};
use crate::keyspace::ContentId;
use crate::pace::Pace;
use crate::record::{Content, Piece, StoredBlob};
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
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &put.blob).await?;
    let blob_type = match put.content {
        NewContent::Block(_) => BlobType::Block,
        NewContent::Append => BlobType::Append,
        NewContent::Page { .. } => BlobType::Page,
    };
    let asked = target.asked(&put.preconditions, context.now);
    asked.check_create(target.base.as_ref(), blob_type, context.allowed)?;
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
    if target.discard_blocks(&mut edit).await? == More::Yes {
        return Ok(edit.finish(Step::More));
    }
    let of_type = match put.content {
        NewContent::Block(_) => OfType::Block,
        NewContent::Append => OfType::Append { committed_blocks: 0, sealed: false },
        NewContent::Page { sequence_number, .. } => OfType::Page { sequence_number },
    };
    let mut new = new_blob(context, &target, &put.new, of_type);
    new.metadata = stored_metadata(&new.metadata, &put.new.encryption)?;
    match (&put.content, uploaded) {
        (NewContent::Block(_), Some(uploaded)) => {
            new.bytes = uploaded.bytes;
            new.content = store(&mut edit, uploaded, ContentId::new(context.now, (context.chance)())).await?;
        }
        (NewContent::Page { bytes, .. }, _) => new.bytes = *bytes,
        (NewContent::Block(_) | NewContent::Append, _) => {}
    }
    if let Some(md5) = checksums.md5 {
        new.http.content_md5 = Some(md5.into());
    }
    target.replace(context, &mut edit, &new).await?;
    Ok(edit.finish(Reply::BlobPut { written: written(&new), checksums }.into()))
}

/// A blob as a creation makes it, without content.
pub(super) fn new_blob<S: Snapshot>(
    context: &Context<'_, S>,
    target: &Target<'_>,
    new: &NewBlob,
    of_type: OfType,
) -> StoredBlob {
    let now = target.change_moment(context.now);
    let (before, base) = (target.base.as_ref().or(target.gone.as_ref()), target.base.as_ref());
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
        version: context.keeps_versions().then_some(now),
        last_snapshot: before.and_then(|blob| blob.last_snapshot),
        deleted: None,
        content: Content::default(),
    }
}

/// Up to this length, bytes are in the blob's own row: lists, which read it, hardly notice them.
const MAX_INLINE_BYTES: usize = 256;

/// Refers to bytes that were received. If they need a number, it is `fresh`.
pub(super) async fn store<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    uploaded: &Uploaded,
    fresh: ContentId,
) -> Result<Content, ServiceError> {
    match &uploaded.place {
        // In a piece, which says that it is encrypted.
        _ if uploaded.is_encrypted => {
            let piece = Piece { id: None, source: uploaded.keep(edit).await? };
            contents::put_list(edit, &Pace::default(), fresh, vec![piece]).await;
            Ok(Content::Listed(fresh))
        }
        Place::Held(bytes) if bytes.len() <= MAX_INLINE_BYTES => Ok(Content::Inline(bytes.clone())),
        Place::Held(bytes) => {
            contents::put_small(edit, fresh, bytes.clone());
            Ok(Content::Small(fresh))
        }
        Place::Extent(extent) => {
            contents::keep_extent(edit, *extent).await?;
            Ok(Content::Extent(*extent))
        }
        // Only pieces of blobs are.
        Place::Zeros(_) => Err(no_bytes()),
    }
}

/// The server has to receive the bytes before the operation is executed.
pub(super) fn no_bytes() -> ServiceError {
    ServiceError::new(ErrorCode::InternalError).with_cause("an upload was executed without its bytes")
}
