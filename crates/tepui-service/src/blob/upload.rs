//! Bytes on their way in: streamed into the store before the operation that wants them is decided.

use crate::blob::service::extent_error;
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use tepui_extents::{Extent, ExtentWriter, Extents};
use tepui_model::blob::{Checksums, Operation, Summing, operation};
use tepui_model::{ErrorCode, ServiceError};

/// Up to this length, bytes are stored with what is known of the blob.
pub(super) const MAX_INLINE_BYTES: usize = 16 * 1024;

/// Bytes that are being received. Dropping it leaves nothing behind.
pub struct Upload<X: Extents> {
    extents: Arc<X>,
    /// Not yet known to be too long to be kept here.
    held: BytesMut,
    writer: Option<X::Writer>,
    /// How many bytes are held at most.
    hold: usize,
    bytes: u64,
    max_bytes: u64,
    summing: Summing,
}

/// Bytes that have been received. Whoever has it hands it to
/// [`BlobService::execute`](super::BlobService::execute), or else to [`BlobService::discard`](super::BlobService::discard).
#[derive(Debug)]
pub struct Uploaded {
    pub(super) place: Place,
    pub(super) bytes: u64,
    pub(super) checksums: Checksums,
}

/// Where received bytes are.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Held(Bytes),
    Extent(Extent),
}

impl<X: Extents> Upload<X> {
    pub(super) fn of(extents: Arc<X>, operation: &Operation, upload: &operation::Upload) -> Self {
        // Of blocks there may be so many that their list could not be committed with the bytes in it.
        let hold = if matches!(operation, Operation::PutBlock(_)) { 0 } else { MAX_INLINE_BYTES };
        let with_md5 = matches!(operation, Operation::PutBlob(_)) || upload.checksums.md5.is_some();
        Self::new(extents, hold, with_md5, upload.max_bytes)
    }

    pub(super) fn new(extents: Arc<X>, hold: usize, with_md5: bool, max_bytes: u64) -> Self {
        let (held, summing) = (BytesMut::new(), Summing::new(with_md5));
        Self { extents, held, writer: None, hold, bytes: 0, max_bytes, summing }
    }

    /// Takes the next bytes. Waits until the store can take more.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ServiceError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > self.max_bytes {
            let error = ServiceError::new(ErrorCode::RequestBodyTooLarge);
            return Err(error.with_detail("MaxLimit", self.max_bytes.to_string()));
        }
        self.summing.update(&bytes);
        if self.writer.is_none() && self.held.len() + bytes.len() <= self.hold {
            self.held.extend_from_slice(&bytes);
            return Ok(());
        }
        if self.writer.is_none() {
            self.writer = Some(self.extents.begin().await.map_err(extent_error)?);
        }
        let held = std::mem::take(&mut self.held).freeze();
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if !held.is_empty() {
            writer.write(held).await.map_err(extent_error)?;
        }
        writer.write(bytes).await.map_err(extent_error)
    }

    /// All bytes are there, and on disk when this returns.
    pub async fn finish(self) -> Result<Uploaded, ServiceError> {
        let place = match self.writer {
            Some(writer) => Place::Extent(writer.finish().await.map_err(extent_error)?),
            None => Place::Held(self.held.freeze()),
        };
        Ok(Uploaded { place, bytes: self.bytes, checksums: self.summing.finish() })
    }
}

impl Uploaded {
    /// What is decided with before anything was received.
    pub(super) fn expected(bytes: u64) -> Self {
        Self { place: Place::Held(Bytes::new()), bytes, checksums: Checksums::default() }
    }

    /// The checksums, if they are what the caller said.
    pub(super) fn check(&self, said: &Checksums) -> Result<Checksums, ServiceError> {
        said.check(&self.checksums)?;
        Ok(self.checksums)
    }
}
