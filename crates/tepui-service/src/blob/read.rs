//! Get Blob, Get Blob Properties and Get Blob Tags.

use super::encryption::decrypted_metadata;
use super::precondition::{check_key, require_not_archived};
use super::service::{Context, LocatedContent, layout};
use super::slot::BlobSlot;
use super::write_set::WriteSet;
use crate::record::StoredBlob;
use tepui_model::blob::{
    BlobPath, BlobProperties, Checksums, Content, Encryption, GetBlob, Preconditions, Revision,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::Snapshot;

/// The longest range with a checksum.
const MAX_SUMMED_BYTES: u64 = 4 * 1024 * 1024;

/// A revision of a blob that may be read, and which one it is.
pub(super) async fn find<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    preconditions: &Preconditions,
) -> Result<(StoredBlob, Revision), ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    let slot = BlobSlot::find(context, &mut writes, path).await?;
    let (blob, revision) = slot.revision(&writes, revision).await?;
    slot.precondition_check(preconditions, context.now).for_read(&blob, revision == Revision::Base)?;
    Ok((blob, revision))
}

pub(super) async fn get_blob<S: Snapshot>(
    context: &Context<'_, S>,
    get: &GetBlob,
) -> Result<(Content, LocatedContent), ServiceError> {
    let (mut blob, revision) = find(context, &get.blob, get.revision, &get.preconditions).await?;
    require_not_archived(&blob, context.now)?;
    check_key(&blob, &get.encryption)?;
    blob.metadata = decrypted_metadata(std::mem::take(&mut blob.metadata), &get.encryption)?;
    let within = match get.range {
        Some(range) => range
            .within(blob.bytes)
            .map_err(|code| ServiceError::new(code).with_resource_bytes(blob.bytes))?,
        None => 0..blob.bytes,
    };
    if get.range_checksum.is_some() {
        let summed = within.end - within.start;
        if get.range.is_none() {
            return Err(ErrorCode::InvalidHeaderValue.into());
        }
        if summed > MAX_SUMMED_BYTES {
            return Err(ErrorCode::OutOfRangeInput.into());
        }
    }
    let range = get.range.map(|_| within.start..=within.end - 1);
    let properties = context.view(&mut blob, revision);
    let located = LocatedContent { content: (blob.content, layout(blob.state.of_type)), range: within };
    let properties = properties.of(blob.state);
    Ok((Content { properties, range, checksums: Checksums::default() }, located))
}

pub(super) async fn get_properties<S: Snapshot>(
    context: &Context<'_, S>,
    path: &BlobPath,
    revision: Revision,
    preconditions: &Preconditions,
    encryption: &Encryption,
) -> Result<BlobProperties, ServiceError> {
    let (mut blob, revision) = find(context, path, revision, preconditions).await?;
    check_key(&blob, encryption)?;
    blob.metadata = decrypted_metadata(std::mem::take(&mut blob.metadata), encryption)?;
    Ok(context.view(&mut blob, revision).of(blob.state))
}
