//! Markers of the blobs that may have uncommitted blocks, so that others need not be scanned for blocks.
//!
//! The first Put Block writes the marker, and those after it have it as a guard, so that they do not conflict with
//! each other. Discarding blocks therefore cannot exclude another Put Block, and leaves the marker. It is removed in two
//! steps: when the blob has no blocks, the marker is closed, which fails every commit with it as a guard and makes later
//! ones open it again; if the blob has no blocks after that either, the marker is deleted.

use super::cursor::RowCursor;
use super::slot::BlobSlot;
use super::write_set::WriteSet;
use crate::keyspace;
use crate::record;
use tepui_model::blob::BlockId;
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Key, Snapshot, Value};

/// The value of a closed marker: Put Block has to write it.
const CLOSED: u64 = 0;

/// Whether a blob may have uncommitted blocks.
pub(super) async fn may_have_blocks<S: Snapshot>(
    writes: &WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
) -> Result<bool, ServiceError> {
    Ok(writes.get(&keyspace::staged(slot.container, slot.name())).await?.is_some())
}

/// Writes or guards the marker for Put Block. All uncommitted blocks of a blob have ids of one length.
pub(super) async fn mark<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    slot: &BlobSlot<'_>,
    id: &BlockId,
) -> Result<(), ServiceError> {
    let marker = keyspace::staged(slot.container, slot.name());
    let length = id.bytes().len() as u64;
    if let Some(row) = writes.get(&marker).await? {
        if record::decode_number(&row)? == length {
            writes.guard_shared(marker);
            return Ok(());
        }
        let blocks = keyspace::blocks(slot.container, slot.name());
        if let Some((key, _)) = RowCursor::new(writes.snapshot, blocks, 1).next().await? {
            let (_, known) = keyspace::block_of(&key).ok_or(ErrorCode::InternalError)?;
            if known.bytes().len() != id.bytes().len() {
                return Err(ErrorCode::InvalidBlobOrBlock.into());
            }
        }
    }
    writes.put(marker, record::encode_number(length));
    Ok(())
}

/// Closes a marker if its blob has no blocks, or deletes it if it was closed before.
pub(super) async fn remove_stale<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    (marker, row): (Key, Value),
) -> Result<(), ServiceError> {
    let (container, name) = keyspace::blob_of_marker(&marker).ok_or(ErrorCode::InternalError)?;
    if RowCursor::new(writes.snapshot, keyspace::blocks(container, &name), 1).next().await?.is_some() {
        return Ok(());
    }
    match record::decode_number(&row)? {
        CLOSED => writes.delete(marker),
        _ => writes.put(marker, record::encode_number(CLOSED)),
    }
    Ok(())
}
