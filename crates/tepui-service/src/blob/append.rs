//! Append Block and Seal.

use super::change::changed;
use super::contents;
use super::edit::Edit;
use super::precondition::{check_key, require_mutable, require_type, require_unsealed};
use super::put::no_bytes;
use super::service::{Context, Step};
use super::target::{Target, written};
use super::upload::Uploaded;
use crate::keyspace::{self, ContentId};
use crate::record::{Content, ContentHead, Piece, Pieces, StoredBlob};
use crate::transact::Outcome;
use tepui_model::blob::block::MAX_COMMITTED_BLOCKS;
use tepui_model::blob::{
    self, AppendBlock, AppendConditions, BlobPath, BlobType, Changed, OfType, Preconditions, Reply,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

pub(super) async fn append_block<S: Snapshot>(
    context: &Context<'_, S>,
    append: &AppendBlock,
    uploaded: Option<&Uploaded>,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, &append.blob).await?;
    let blob = target.existing()?;
    require_type(blob, BlobType::Append)?;
    require_unsealed(blob)?;
    check_key(blob, &append.encryption)?;
    require_mutable(blob, context.now)?;
    target.asked(&append.preconditions, context.now).check_write(blob)?;
    let uploaded = uploaded.ok_or_else(no_bytes)?;
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
    let said = match &append.piece {
        blob::Piece::Sent(upload) => upload.checksums,
        blob::Piece::FromUrl(from) => from.checksums,
    };
    let checksums = said.answered(&uploaded.check(&said)?);
    let offset = blob.bytes;
    let mut new = changed(context, &target, blob);
    new.of_type = OfType::Append { committed_blocks: committed_blocks + 1, sealed };
    new.content = Content::Listed(add_piece(context, &mut edit, blob, uploaded).await?);
    new.bytes = offset + uploaded.bytes;
    target.change(context, &mut edit, &mut new, false).await?;
    let reply =
        Reply::Appended { written: written(&new), checksums, offset, committed_blocks: committed_blocks + 1 };
    Ok(edit.finish(reply.into()))
}

/// Adds bytes to the end of an append blob. Returns its content then.
async fn add_piece<S: Snapshot>(
    context: &Context<'_, S>,
    edit: &mut Edit<'_, S>,
    blob: &StoredBlob,
    uploaded: &Uploaded,
) -> Result<ContentId, ServiceError> {
    let source = uploaded.keep(edit).await?;
    let fresh = ContentId::new(context.now, (context.chance)());
    let (content, mut head) = match blob.content {
        Content::Listed(content) => {
            let head = contents::head(edit, content).await?;
            if head.references == 1 && head.end == blob.bytes {
                (content, head)
            } else {
                // Others share the content, and would keep what they have no part in: this one goes on in one of
                // its own, to which its reference goes over.
                (fresh, ContentHead { references: 1, end: blob.bytes, parent: Some((content, blob.bytes)) })
            }
        }
        Content::Inline(_) | Content::Small(_) | Content::Extent(_) => {
            (fresh, ContentHead { references: 1, end: blob.bytes, parent: None })
        }
    };
    let row = Pieces { start: blob.bytes, pieces: vec![Piece { id: None, source }] };
    head.end = blob.bytes + uploaded.bytes;
    edit.put(keyspace::pieces(content, head.end), row.encode());
    edit.put(keyspace::content(content), head.encode());
    Ok(content)
}

pub(super) async fn seal<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    position: Option<u64>,
    preconditions: &Preconditions,
) -> Result<Outcome<Step>, ServiceError> {
    let mut edit = Edit::of(context.snapshot);
    let target = Target::find(context, &mut edit, path).await?;
    let blob = target.existing()?;
    require_type(blob, BlobType::Append)?;
    require_mutable(blob, context.now)?;
    target.asked(preconditions, context.now).check_write(blob)?;
    AppendConditions { position, max_bytes: None }.check(blob.bytes, 0)?;
    let mut new = changed(context, &target, blob);
    if let OfType::Append { sealed, .. } = &mut new.of_type {
        *sealed = true;
    }
    target.change(context, &mut edit, &mut new, false).await?;
    Ok(edit.finish(Reply::Sealed(Changed(new.changed)).into()))
}
