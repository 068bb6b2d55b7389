//! Uploads: bytes are streamed into the store before their operation is decided.

use super::contents;
use super::download::zero_bytes;
use super::encryption::{Encryptor, encrypt};
use super::write_set::WriteSet;
use crate::record::PieceSource;
use crate::transact::storage_error;
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use tepui_digest::{Crc64, Digester, StreamMd5, crc64_of_zeros};
use tepui_model::blob::{
    AppendBlock, Checksums, CopyPace, Crc64Sum, CustomerSecret, Md5Sum, PutBlock, PutPages, UploadOperation,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Extent, ExtentWriter, Extents, Snapshot, StoreId};

/// The longest blob that is fetched from another server synchronously.
const MAX_FETCHED_BYTES: u64 = 5000 * 1024 * 1024;
/// The longest blob: 50,000 blocks of the largest size.
const MAX_BLOB_BYTES: u64 = 50_000 * 4000 * 1024 * 1024;
/// Up to this length, bytes are stored in rows of the engine, and not as an extent.
const MAX_IN_MEMORY_BYTES: usize = 16 * 1024;
/// The same for whole contents whose extents would be in another store than the local one: each is a request there, and an
/// object that is paid for, and takes longer than a row.
const MAX_IN_MEMORY_BYTES_OF_REMOTE: usize = 64 * 1024;
/// The unit of computing a checksum and then copying: it stays in the cache of a core.
const PART_BYTES: usize = 64 * 1024;

/// The most zeros that are written for the holes of a page blob. Otherwise a request of a few hundred bytes could fill
/// the disk.
const MAX_WRITTEN_ZEROS: u64 = 256 * 1024 * 1024;

/// An upload in progress. Dropping it frees what was received.
pub struct Upload<X: Extents> {
    extents: Arc<X>,
    /// Bytes in memory, until they exceed `max_buffered`.
    buffered: BytesMut,
    writer: Option<X::Writer>,

    max_buffered: usize,
    /// Whether an upload of nothing but zeros is stored as a hole.
    keeps_holes: bool,
    /// The zeros so far that were not written, while nothing else was received.
    hole: u64,
    written_zeros: u64,
    bytes: u64,
    max_bytes: u64,
    md5: Option<StreamMd5>,
    crc64: Crc64,
    /// The customer-provided key, if the bytes are encrypted with one.
    secret: Option<CustomerSecret>,
    encryptor: Option<Encryptor>,
}

/// Received bytes. To be passed to [`BlobService::execute_upload`](super::BlobService::execute_upload), or else to
/// [`BlobService::discard`](super::BlobService::discard).
#[derive(Debug)]
pub struct Uploaded {
    pub(super) location: UploadLocation,
    /// Their length before encryption.
    pub(super) bytes: u64,
    /// Of the bytes before encryption.
    pub(super) checksums: Checksums,
    /// With the customer-provided key.
    pub(super) is_encrypted: bool,
}

impl Uploaded {
    /// Before encryption.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The MD5 of the bytes, if it was computed: of the whole content of a blob it is.
    pub fn md5(&self) -> Option<Md5Sum> {
        self.checksums.md5
    }
}

/// Where received bytes are stored.
#[derive(Debug, Clone)]
pub(super) enum UploadLocation {
    InMemory(Bytes),
    Extent(Extent),
    /// Not stored: this many zeros.
    Zeros(u64),
}

impl<X: Extents> Upload<X> {
    pub(super) fn new(extents: Arc<X>, digester: &Digester, operation: &UploadOperation) -> Self {
        let (with_md5, max_bytes) = match operation {
            UploadOperation::PutBlob(put) => (true, put.upload.max_bytes),
            UploadOperation::PutBlobFromUrl(_) => (true, MAX_FETCHED_BYTES),
            UploadOperation::CopyBlob(copy) => match copy.pace {
                CopyPace::Background => (true, MAX_BLOB_BYTES),
                CopyPace::Waiting(_) => (true, MAX_FETCHED_BYTES),
            },
            UploadOperation::PutBlock(PutBlock { piece, .. })
            | UploadOperation::AppendBlock(AppendBlock { piece, .. })
            | UploadOperation::PutPages(PutPages { piece, .. }) => {
                (piece.checksums().md5.is_some(), piece.max_bytes())
            }
        };
        let is_block = matches!(operation, UploadOperation::PutBlock(_));
        // A list of very many blocks could not be committed with their bytes in it.
        let is_piece = operation_is_piece(operation);
        let max_buffered = match is_block {
            true => 0,
            // Rows have several pieces, which are not to become too large together.
            false if is_piece || extents.store() == StoreId::LOCAL => MAX_IN_MEMORY_BYTES,
            false => MAX_IN_MEMORY_BYTES_OF_REMOTE,
        };
        let of_pieces = is_block || matches!(operation, UploadOperation::AppendBlock(_));
        let (md5, crc64) = (with_md5.then(|| digester.begin()), Crc64::new());
        Self {
            extents,
            buffered: BytesMut::new(),
            writer: None,
            max_buffered,
            keeps_holes: of_pieces && !with_md5,
            hole: 0,
            written_zeros: 0,
            bytes: 0,
            max_bytes,
            md5,
            crc64,
            secret: operation.encryption().secret.clone(),
            encryptor: None,
        }
    }

    /// Writes the next bytes. Waits until the store can take more (backpressure).
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ServiceError> {
        self.keeps_holes = false;
        if self.hole > 0 {
            let hole = std::mem::take(&mut self.hole);
            self.bytes -= hole;
            self.write_zeros(hole).await?;
        }
        self.write_bytes(bytes).await
    }

    /// Writes a hole of the source.
    pub async fn write_hole(&mut self, bytes: u64) -> Result<(), ServiceError> {
        if !self.keeps_holes {
            return self.write_zeros(bytes).await;
        }
        self.count(bytes)?;
        self.hole += bytes;
        Ok(())
    }

    async fn write_zeros(&mut self, bytes: u64) -> Result<(), ServiceError> {
        self.written_zeros += bytes;
        if self.written_zeros > MAX_WRITTEN_ZEROS {
            return Err(too_long(MAX_WRITTEN_ZEROS));
        }
        for zeros in zero_bytes(bytes) {
            self.write_bytes(zeros).await?;
        }
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> Result<(), ServiceError> {
        self.bytes += bytes;
        if self.bytes > self.max_bytes { Err(too_long(self.max_bytes)) } else { Ok(()) }
    }

    async fn write_bytes(&mut self, mut bytes: Bytes) -> Result<(), ServiceError> {
        self.count(bytes.len() as u64)?;
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes.clone()).await;
        }
        if self.writer.is_none() && self.buffered.len() + bytes.len() <= self.max_buffered {
            self.crc64.update(&bytes);
            self.buffered.extend_from_slice(&bytes);
            return Ok(());
        }
        if self.writer.is_none() {
            self.writer = Some(self.extents.begin().await.map_err(storage_error)?);
            self.encryptor = self.secret.as_ref().map(Encryptor::new).transpose()?;
        }
        let buffered = std::mem::take(&mut self.buffered).freeze();
        if !buffered.is_empty() {
            self.write_part(buffered).await?;
        }
        while !bytes.is_empty() {
            let part = bytes.split_to(bytes.len().min(PART_BYTES));
            self.crc64.update(&part);
            self.write_part(part).await?;
        }
        Ok(())
    }

    /// Writes bytes to the store, encrypted if there is a key.
    async fn write_part(&mut self, part: Bytes) -> Result<(), ServiceError> {
        let part = match &mut self.encryptor {
            Some(encryptor) => encryptor.push(&part)?,
            None => part,
        };
        match &mut self.writer {
            Some(writer) => writer.write(part).await.map_err(storage_error),
            None => Ok(()),
        }
    }

    /// Ends the upload. Extents are durable when this returns.
    pub async fn finish(self) -> Result<Uploaded, ServiceError> {
        let md5 = match self.md5 {
            Some(md5) => Some(md5.finish().await),
            None => None,
        };
        // Holes are not encrypted.
        let is_encrypted = self.secret.is_some() && self.bytes > self.hole;
        let (location, crc64) = match (self.writer, self.secret) {
            _ if self.hole > 0 => (UploadLocation::Zeros(self.hole), crc64_of_zeros(self.hole)),
            (Some(mut writer), _) => {
                if let Some(encryptor) = self.encryptor {
                    writer.write(encryptor.finish()?).await.map_err(storage_error)?;
                }
                (UploadLocation::Extent(writer.finish().await.map_err(storage_error)?), self.crc64.finish())
            }
            (None, Some(secret)) if is_encrypted => {
                (UploadLocation::InMemory(encrypt(&secret, &self.buffered)?), self.crc64.finish())
            }
            (None, _) => (UploadLocation::InMemory(self.buffered.freeze()), self.crc64.finish()),
        };
        let checksums = Checksums { md5, crc64: Some(Crc64Sum(crc64)) };
        Ok(Uploaded { location, bytes: self.bytes, checksums, is_encrypted })
    }
}

/// Whether an operation adds a piece to a blob.
fn operation_is_piece(operation: &UploadOperation) -> bool {
    match operation {
        UploadOperation::PutBlock(_) | UploadOperation::AppendBlock(_) | UploadOperation::PutPages(_) => true,
        UploadOperation::PutBlob(_) | UploadOperation::PutBlobFromUrl(_) | UploadOperation::CopyBlob(_) => {
            false
        }
    }
}

fn too_long(max_bytes: u64) -> ServiceError {
    ServiceError::new(ErrorCode::RequestBodyTooLarge).with_detail("MaxLimit", max_bytes.to_string())
}

impl Uploaded {
    /// Whether the bytes are in an extent, until they are referenced or discarded.
    pub fn is_stored(&self) -> bool {
        matches!(self.location, UploadLocation::Extent(_))
    }

    /// The extent that the bytes are in, if they are in one.
    pub(super) fn extent(&self) -> Option<Extent> {
        match self.location {
            UploadLocation::Extent(extent) => Some(extent),
            UploadLocation::InMemory(_) | UploadLocation::Zeros(_) => None,
        }
    }

    /// For decisions before the bytes are received: as if they were zeros.
    pub(super) fn expected(bytes: u64) -> Self {
        let (location, checksums) = (UploadLocation::Zeros(bytes), Checksums::default());
        Self { location, bytes, checksums, is_encrypted: false }
    }

    /// Adds a reference to the bytes, as a piece of a content.
    pub(super) async fn add_piece<S: Snapshot>(
        &self,
        writes: &mut WriteSet<'_, S>,
    ) -> Result<PieceSource, ServiceError> {
        if let UploadLocation::Extent(extent) = self.location {
            contents::add_extent(writes, extent).await?;
        }
        Ok(match (&self.location, self.is_encrypted) {
            (UploadLocation::InMemory(bytes), false) => PieceSource::Inline(bytes.clone()),
            (UploadLocation::InMemory(bytes), true) => {
                PieceSource::EncryptedInline(bytes.clone(), 0..self.bytes)
            }
            (UploadLocation::Extent(extent), false) => PieceSource::Extent(*extent),
            (UploadLocation::Extent(extent), true) => PieceSource::EncryptedExtent(*extent, 0..self.bytes),
            (UploadLocation::Zeros(bytes), _) => PieceSource::Zeros(*bytes),
        })
    }

    /// The checksums, if they are equal to the declared ones.
    pub(super) fn check(&self, declared: &Checksums) -> Result<Checksums, ServiceError> {
        declared.check(&self.checksums)?;
        Ok(self.checksums)
    }
}
