//! Bytes on their way in: streamed into the store before the operation that wants them is decided.

use super::contents;
use super::digester::{Digester, StreamSum};
use super::download::zero_bytes;
use super::edit::Edit;
use super::encryption::{Encryptor, encrypt};
use crate::blob::service::extent_error;
use crate::record::Source;
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use tepui_model::blob::crc64::{Crc64, sum_of_zeros};
use tepui_model::blob::{
    Checksums, CopyPace, CopySource, Crc64Sum, CustomerSecret, Operation, PageWrite, Piece, SourcePlace,
};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Extent, ExtentWriter, Extents, Snapshot};

/// The longest blob that is fetched from elsewhere while the caller waits.
const MAX_FETCHED_BYTES: u64 = 5000 * 1024 * 1024;
/// The longest blob that there is: as many blocks as it can have, as long as they can be.
const MAX_BLOB_BYTES: u64 = 50_000 * 4000 * 1024 * 1024;
/// Up to this length, bytes are stored with what is known of blobs, and not as an extent.
const MAX_HELD_BYTES: usize = 16 * 1024;
/// So much is summed up and then copied: what a core has at hand for the second time.
const PART_BYTES: usize = 64 * 1024;

/// How many zeros are written that were read from where a page blob has nothing. A request that is a few hundred bytes
/// long could else fill the disk with them.
const MAX_WRITTEN_ZEROS: u64 = 256 * 1024 * 1024;

/// Bytes that are being received. Dropping it leaves nothing behind.
pub struct Upload<X: Extents> {
    extents: Arc<X>,
    /// Not yet known to be too long to be kept here.
    held: BytesMut,
    writer: Option<X::Writer>,
    /// How many bytes are held at most.
    hold: usize,
    /// Whether zeros need not be written if there is nothing else.
    keeps_holes: bool,
    /// How many zeros there are that were not written, as long as there is nothing else.
    hole: u64,
    written_zeros: u64,
    bytes: u64,
    max_bytes: u64,
    md5: Option<StreamSum>,
    crc64: Crc64,
    /// The caller's key, if the bytes are encrypted with one.
    secret: Option<CustomerSecret>,
    encryptor: Option<Encryptor>,
}

/// Bytes that have been received. Whoever has it hands it to
/// [`BlobService::execute`](super::BlobService::execute), or else to [`BlobService::discard`](super::BlobService::discard).
#[derive(Debug)]
pub struct Uploaded {
    pub(super) place: Place,
    /// How many there are. Encrypted, they take more.
    pub(super) bytes: u64,
    /// Of what was received.
    pub(super) checksums: Checksums,
    /// With the caller's key.
    pub(super) is_encrypted: bool,
}

/// Where received bytes are.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Held(Bytes),
    Extent(Extent),
    /// Nowhere: so many zeros.
    Zeros(u64),
}

impl<X: Extents> Upload<X> {
    /// `None` if the operation needs no bytes.
    pub(super) fn of(extents: Arc<X>, digester: &Digester, operation: &Operation) -> Option<Self> {
        let (with_md5, max_bytes) = match (operation.upload(), fetched(operation)) {
            (Some(upload), _) => {
                let whole = matches!(operation, Operation::PutBlob(_));
                (whole || upload.checksums.md5.is_some(), upload.max_bytes)
            }
            (None, Some(fetched)) => (fetched.with_md5, fetched.max_bytes),
            (None, None) => return None,
        };
        // Of blocks there may be so many that their list could not be committed with the bytes in it.
        let hold = if matches!(operation, Operation::PutBlock(_)) { 0 } else { MAX_HELD_BYTES };
        let of_pieces = matches!(operation, Operation::PutBlock(_) | Operation::AppendBlock(_));
        let (md5, crc64) = (with_md5.then(|| digester.begin()), Crc64::new());
        Some(Self {
            extents,
            held: BytesMut::new(),
            writer: None,
            hold,
            keeps_holes: of_pieces && !with_md5,
            hole: 0,
            written_zeros: 0,
            bytes: 0,
            max_bytes,
            md5,
            crc64,
            secret: secret(operation).cloned(),
            encryptor: None,
        })
    }

    /// Takes the next bytes. Waits until the store can take more.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ServiceError> {
        self.keeps_holes = false;
        if self.hole > 0 {
            let hole = std::mem::take(&mut self.hole);
            self.bytes -= hole;
            self.write_zeros(hole).await?;
        }
        self.write_bytes(bytes).await
    }

    /// Takes zeros from where the source has nothing.
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
        if self.writer.is_none() && self.held.len() + bytes.len() <= self.hold {
            self.crc64.update(&bytes);
            self.held.extend_from_slice(&bytes);
            return Ok(());
        }
        if self.writer.is_none() {
            self.writer = Some(self.extents.begin().await.map_err(extent_error)?);
            self.encryptor = self.secret.as_ref().map(Encryptor::new).transpose()?;
        }
        let held = std::mem::take(&mut self.held).freeze();
        if !held.is_empty() {
            self.write_part(held).await?;
        }
        while !bytes.is_empty() {
            let part = bytes.split_to(bytes.len().min(PART_BYTES));
            self.crc64.update(&part);
            self.write_part(part).await?;
        }
        Ok(())
    }

    /// Hands bytes to the store, encrypted if they are to be.
    async fn write_part(&mut self, part: Bytes) -> Result<(), ServiceError> {
        let part = match &mut self.encryptor {
            Some(encryptor) => encryptor.push(&part)?,
            None => part,
        };
        match &mut self.writer {
            Some(writer) => writer.write(part).await.map_err(extent_error),
            None => Ok(()),
        }
    }

    /// All bytes are there, and on disk when this returns.
    pub async fn finish(self) -> Result<Uploaded, ServiceError> {
        let md5 = match self.md5 {
            Some(md5) => Some(md5.finish().await),
            None => None,
        };
        // What is nowhere is not encrypted either.
        let is_encrypted = self.secret.is_some() && self.bytes > self.hole;
        let (place, crc64) = match (self.writer, self.secret) {
            _ if self.hole > 0 => (Place::Zeros(self.hole), sum_of_zeros(self.hole)),
            (Some(mut writer), _) => {
                if let Some(encryptor) = self.encryptor {
                    writer.write(encryptor.finish()?).await.map_err(extent_error)?;
                }
                (Place::Extent(writer.finish().await.map_err(extent_error)?), self.crc64.finish())
            }
            (None, Some(secret)) if is_encrypted => {
                (Place::Held(encrypt(&secret, &self.held)?), self.crc64.finish())
            }
            (None, _) => (Place::Held(self.held.freeze()), self.crc64.finish()),
        };
        let checksums = Checksums { md5, crc64: Some(Crc64Sum(crc64)) };
        Ok(Uploaded { place, bytes: self.bytes, checksums, is_encrypted })
    }
}

fn too_long(max_bytes: u64) -> ServiceError {
    ServiceError::new(ErrorCode::RequestBodyTooLarge).with_detail("MaxLimit", max_bytes.to_string())
}

impl Uploaded {
    /// Whether bytes are in the store, where they stay until they are kept or discarded.
    pub fn is_stored(&self) -> bool {
        matches!(self.place, Place::Extent(_))
    }

    /// What is decided with before anything was received.
    pub(super) fn expected(bytes: u64) -> Self {
        let (place, checksums) = (Place::Held(Bytes::new()), Checksums::default());
        Self { place, bytes, checksums, is_encrypted: false }
    }

    /// Keeps the bytes, as a piece of a content.
    pub(super) async fn keep<S: Snapshot>(&self, edit: &mut Edit<'_, S>) -> Result<Source, ServiceError> {
        if let Place::Extent(extent) = self.place {
            contents::keep_extent(edit, extent).await?;
        }
        Ok(match (&self.place, self.is_encrypted) {
            (Place::Held(bytes), false) => Source::Inline(bytes.clone()),
            (Place::Held(bytes), true) => Source::EncryptedInline(bytes.clone(), 0..self.bytes),
            (Place::Extent(extent), false) => Source::Extent(*extent),
            (Place::Extent(extent), true) => Source::EncryptedExtent(*extent, 0..self.bytes),
            (Place::Zeros(bytes), _) => Source::Zeros(*bytes),
        })
    }

    /// The checksums, if they are what the caller said.
    pub(super) fn check(&self, said: &Checksums) -> Result<Checksums, ServiceError> {
        said.check(&self.checksums)?;
        Ok(self.checksums)
    }
}

/// The key that the caller brings along for the bytes of an operation.
fn secret(operation: &Operation) -> Option<&CustomerSecret> {
    let encryption = match operation {
        Operation::PutBlob(put) => &put.new.encryption,
        Operation::PutBlobFromUrl(put) => &put.new.encryption,
        Operation::CopyBlob(copy) => &copy.encryption,
        Operation::PutBlock(put) => &put.encryption,
        Operation::AppendBlock(append) => &append.encryption,
        Operation::PutPages(put) => &put.encryption,
        _ => return None,
    };
    encryption.secret.as_ref()
}

/// What has to be fetched for an operation.
struct Fetched {
    with_md5: bool,
    max_bytes: u64,
}

/// Copies of blobs that are here share what they are made of, unless the caller says what their bytes must be, or brings
/// along a key to encrypt them with.
fn fetched(operation: &Operation) -> Option<Fetched> {
    let of_copy = |source: &CopySource, said: &Checksums, max_bytes| {
        let is_here = matches!(source.place, SourcePlace::Here { .. });
        let needed = !is_here || *said != Checksums::default() || secret(operation).is_some();
        needed.then_some(Fetched { with_md5: true, max_bytes })
    };
    let of_piece = |piece: &Piece| match piece {
        Piece::Sent(_) => None,
        Piece::FromUrl(from) => {
            Some(Fetched { with_md5: from.checksums.md5.is_some(), max_bytes: from.max_bytes })
        }
    };
    match operation {
        Operation::PutBlobFromUrl(put) => of_copy(&put.source, &put.checksums, MAX_FETCHED_BYTES),
        Operation::CopyBlob(copy) => match &copy.pace {
            CopyPace::Background => of_copy(&copy.source, &Checksums::default(), MAX_BLOB_BYTES),
            CopyPace::Waiting(said) => of_copy(&copy.source, said, MAX_FETCHED_BYTES),
        },
        Operation::PutBlock(put) => of_piece(&put.piece),
        Operation::AppendBlock(append) => of_piece(&append.piece),
        Operation::PutPages(put) => match &put.write {
            PageWrite::Update(piece) => of_piece(piece),
            PageWrite::Clear => None,
        },
        _ => None,
    }
}
