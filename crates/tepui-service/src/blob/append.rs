//! Append Block and Seal.

use super::change::changed;
use super::contents;
use super::precondition::{check_key, require_mutable, require_type, require_unsealed};
use super::service::{Context, NextStep};
use super::slot::{BlobSlot, written};
use super::upload::Uploaded;
use super::write_set::WriteSet;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, PieceRow, StoredBlob, StoredPiece};
use crate::transact::Outcome;
use tepui_model::blob::block::MAX_COMMITTED_BLOCKS;
use tepui_model::blob::{
    AppendBlock, AppendConditions, BlobPath, BlobType, Changed, OfType, Preconditions, Reply,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

pub(super) async fn append_block<S: Snapshot>(
    context: &Context<'_, S>,
    append: &AppendBlock,
    uploaded: &Uploaded,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, &append.blob).await?;
    let blob = slot.existing()?;
    require_type(blob, BlobType::Append)?;
    require_unsealed(blob)?;
    check_key(blob, &append.encryption)?;
    require_mutable(blob, context.now)?;
    slot.precondition_check(&append.preconditions, context.now).for_write(blob)?;
    append.append.check(blob.bytes, uploaded.bytes)?;
    let OfType::Append { committed_blocks, sealed } = blob.of_type else {
        return Err(ErrorCode::InvalidBlobType.into());
    };
    if committed_blocks as usize >= MAX_COMMITTED_BLOCKS {
        return Err(ErrorCode::BlockCountExceedsLimit.into());
    }
    if uploaded.bytes == 0 {
        return Err(ErrorCode::InvalidHeaderValue.into());
    }
    let declared = append.piece.checksums();
    let checksums = declared.answered(&uploaded.check(declared)?);
    let offset = blob.bytes;
    let mut new = changed(context, &slot, blob);
    new.of_type = OfType::Append { committed_blocks: committed_blocks + 1, sealed };
    new.content = Content::Listed(add_piece(context, &mut writes, blob, uploaded).await?);
    new.bytes = offset + uploaded.bytes;
    slot.change(context, &mut writes, &mut new, false).await?;
    let reply =
        Reply::Appended { written: written(&new), checksums, offset, committed_blocks: committed_blocks + 1 };
    Ok(writes.finish(reply.into()))
}

/// Appends a piece to a blob. Returns its content.
async fn add_piece<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    blob: &StoredBlob,
    uploaded: &Uploaded,
) -> Result<ContentId, ServiceError> {
    let source = uploaded.add_piece(writes).await?;
    let fresh = ContentId::new(context.now, (context.random_ids)());
    let (content, mut head) = match blob.content {
        Content::Listed(content) => {
            let head = contents::head(writes, content).await?;
            if head.references == 1 && head.end == blob.bytes {
                (content, head)
            } else {
                // The content is shared, so the blob continues in a content of its own, which takes over the reference.
                (fresh, ContentHead { references: 1, end: blob.bytes, parent: Some((content, blob.bytes)) })
            }
        }
        Content::Inline(_) | Content::Small(_) | Content::Extent(_) => {
            (fresh, ContentHead { references: 1, end: blob.bytes, parent: None })
        }
    };
    let row = PieceRow { start: blob.bytes, pieces: vec![StoredPiece { id: None, source }] };
    head.end = blob.bytes + uploaded.bytes;
    writes.put(keyspace::pieces(content, head.end), row.encode());
    writes.put(keyspace::content(content), head.encode());
    Ok(content)
}

pub(super) async fn seal<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    position: Option<u64>,
    preconditions: &Preconditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let blob = slot.existing()?;
    require_type(blob, BlobType::Append)?;
    require_mutable(blob, context.now)?;
    slot.precondition_check(preconditions, context.now).for_write(blob)?;
    AppendConditions { position, max_bytes: None }.check(blob.bytes, 0)?;
    let mut new = changed(context, &slot, blob);
    if let OfType::Append { sealed, .. } = &mut new.of_type {
        *sealed = true;
    }
    slot.change(context, &mut writes, &mut new, false).await?;
    Ok(writes.finish(Reply::Sealed(Changed(new.changed)).into()))
}
