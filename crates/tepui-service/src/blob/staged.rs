//! Notes of the blobs that may have blocks which are not committed, so that nobody has to look for blocks of all
//! the others.
//!
//! Whoever puts the first block makes the note, and those after it only rest on it: they do not get in each
//! other's way. So whoever discards the blocks cannot tell that no further one is on its way, and leaves the note
//! where it is. It goes in two steps: once there are no blocks it is closed, which fails every commit that rests
//! on it and makes those that come later open it again; if there are still no blocks then, it is removed.

use super::edit::{Edit, Rows};
use super::target::Target;
use crate::keyspace;
use crate::record;
use tepui_model::blob::BlockId;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Key, Snapshot, Value};

/// What the note says when no block may be put without changing it.
const CLOSED: u64 = 0;

/// Whether a blob may have blocks that are not committed.
pub(super) async fn may_have_blocks<S: Snapshot>(
    edit: &Edit<'_, S>,
    target: &Target<'_>,
) -> Result<bool, ServiceError> {
    Ok(edit.get(&keyspace::staged(target.container, target.name())).await?.is_some())
}

/// Sees to it that there is a note when a block is put. All blocks of a blob that are not committed have ids of
/// one length.
pub(super) async fn note<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    target: &Target<'_>,
    id: &BlockId,
) -> Result<(), ServiceError> {
    let note = keyspace::staged(target.container, target.name());
    let length = id.bytes().len() as u64;
    if let Some(row) = edit.get(&note).await? {
        if record::decode_number(&row)? == length {
            edit.guard(note);
            return Ok(());
        }
        let blocks = keyspace::blocks(target.container, target.name());
        if let Some((key, _)) = Rows::of(edit.snapshot, blocks, 1).next().await? {
            let (_, known) = keyspace::block_of(&key).ok_or(ErrorCode::InternalError)?;
            if known.bytes().len() != id.bytes().len() {
                return Err(ErrorCode::InvalidBlobOrBlock.into());
            }
        }
    }
    edit.put(note, record::encode_number(length));
    Ok(())
}

/// Closes a note if there are no blocks, or removes it if it was closed before.
pub(super) async fn tidy<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    (note, row): (Key, Value),
) -> Result<(), ServiceError> {
    let (container, name) = keyspace::noted_blob(&note).ok_or(ErrorCode::InternalError)?;
    if Rows::of(edit.snapshot, keyspace::blocks(container, &name), 1).next().await?.is_some() {
        return Ok(());
    }
    match record::decode_number(&row)? {
        CLOSED => edit.delete(note),
        _ => edit.put(note, record::encode_number(CLOSED)),
    }
    Ok(())
}
