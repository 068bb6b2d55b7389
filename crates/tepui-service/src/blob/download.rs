//! Downloads: bytes are read from the store piece by piece while they are sent.

use super::contents::{self, ContentSlice, slices};
use super::encryption::{Decryptor, FRAME_BYTES, Frames, decrypt};
use super::layers::{Span, SpanKind, layered};
use crate::keyspace::ContentId;
use crate::record::{Content, PieceSource};
use crate::stats::BlobStats;
use crate::transact::{MAX_RESTARTS, storage_error};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tepui_digest::{ChecksumHasher, Crc64};
use tepui_model::blob::{Checksums, Crc64Sum, CustomerSecret};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{
    Engine, Extent, Extents, PIECE_BYTES, Snapshot, StorageError, StorageErrorKind, StoreId,
};

/// The length of one read, unless the caller wants less.
pub const READ_BYTES: u64 = 256 * 1024;

/// The length of one read from another store than the local one, where each is a request of its own. What the caller did not
/// ask for waits in memory.
const REMOTE_READ_BYTES: u64 = 1024 * 1024;

/// The slices of pages that are read in one transaction, some 100 bytes each: if a blob has more of them and is written
/// meanwhile, a download can show a part of it from before and a later part from after.
const MAX_CONSISTENT_SLICES: usize = 16 * 1024;

/// A range of a blob's bytes. They stay readable while this is held even if the blob is deleted, but then not for
/// longer than the store waits for readers.
pub struct Download<E, X: Extents> {
    engine: Arc<E>,
    extents: Arc<X>,
    /// Keeps extents from being freed.
    reading: X::ReadGuard,
    slices: VecDeque<ContentSlice>,
    /// Bytes before those of the slices that were read already.
    read_ahead: VecDeque<Bytes>,
    /// The rest of a list of pieces that was not read yet.
    rest: Option<(ContentId, Range<u64>)>,
    layout: Layout,
    /// The customer-provided key, for encrypted pieces.
    secret: Option<CustomerSecret>,
    /// Cached for the extent that was read last.
    decryptor: Option<(Extent, Decryptor)>,
    stats: Arc<BlobStats>,
}

/// The next part of a blob.
pub enum BytesOrHole {
    Bytes(Vec<Bytes>),
    /// This many zeros.
    Hole(u64),
}

/// How the bytes of a blob are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Pieces without gaps.
    Contiguous,
    /// Pages, with zeros between them, in layers.
    Sparse,
}

impl<E: Engine, X: Extents> Download<E, X> {
    /// `reading` must be older than `snapshot`, which is only needed here: a download can take long.
    pub(super) async fn open<S: Snapshot>(
        (engine, extents, stats): (Arc<E>, Arc<X>, Arc<BlobStats>),
        reading: X::ReadGuard,
        snapshot: &S,
        (content, layout): (Content, Layout),
        range: Range<u64>,
        secret: Option<CustomerSecret>,
    ) -> Result<Self, ServiceError> {
        let (slices, read_ahead, rest, decryptor) = (VecDeque::new(), VecDeque::new(), None, None);
        let mut download =
            Self { engine, extents, reading, slices, read_ahead, rest, layout, secret, decryptor, stats };
        match content {
            _ if range.is_empty() => {}
            // There are no pages yet.
            Content::Inline(_) if layout == Layout::Sparse => download.slices.push_back(zeros(&range)),
            Content::Inline(bytes) => {
                download.slices.push_back(ContentSlice { source: PieceSource::Inline(bytes), range })
            }
            Content::Small(content) => {
                let source = PieceSource::Inline(contents::small(snapshot, content).await?);
                download.slices.push_back(ContentSlice { source, range });
            }
            Content::Extent(extent) => {
                download.slices.push_back(ContentSlice { source: PieceSource::Extent(extent), range });
            }
            Content::Listed(content) => {
                download.rest = Some((content, range));
                download.read_slices(snapshot).await?;
                // Lists of blocks never change. Pages do, so that as many as possible are of one moment.
                while layout == Layout::Sparse
                    && download.rest.is_some()
                    && download.slices.len() < MAX_CONSISTENT_SLICES
                {
                    download.read_slices(snapshot).await?;
                }
            }
        }
        Ok(download)
    }

    /// Reads all bytes into memory and computes their checksums. For short ranges.
    pub(super) async fn summed(
        mut self,
        mut hasher: ChecksumHasher,
    ) -> Result<(Self, Checksums), ServiceError> {
        let mut read = VecDeque::new();
        while let Some(pieces) = self.next().await? {
            for bytes in pieces {
                hasher.update(&bytes);
                let range = 0..bytes.len() as u64;
                read.push_back(ContentSlice { source: PieceSource::Inline(bytes), range });
            }
        }
        self.slices = read;
        Ok((self, hasher.finish()))
    }

    /// The checksum of all bytes.
    pub(super) async fn crc64(mut self) -> Result<Crc64Sum, ServiceError> {
        let mut sum = Crc64::new();
        while let Some(pieces) = self.next().await? {
            pieces.iter().for_each(|bytes| sum.update(bytes));
            // Reads of bytes in memory never wait.
            tokio::task::yield_now().await;
        }
        Ok(Crc64Sum(sum.finish()))
    }

    /// Reads the next slices of the list of pieces in a new transaction.
    async fn read_next_slices(&mut self) -> Result<(), ServiceError> {
        for _ in 0..MAX_RESTARTS {
            if self.rest.is_none() {
                return Ok(());
            }
            let transaction = self.engine.begin().await.map_err(storage_error)?;
            match self.read_slices(&transaction).await {
                Err(error) if error.is_outdated => {}
                Err(_) if self.extents.expired(&self.reading) => return Err(deleted()),
                done => return done,
            }
        }
        Err(ErrorCode::ServerBusy.into())
    }

    /// Reads the next slices of the list of pieces.
    async fn read_slices<S: Snapshot>(&mut self, snapshot: &S) -> Result<(), ServiceError> {
        if let Some((content, range)) = self.rest.clone() {
            let next = match self.layout {
                Layout::Contiguous => {
                    let (found, next) = slices(snapshot, content, range.clone()).await?;
                    self.slices.extend(found);
                    next
                }
                Layout::Sparse => {
                    let (spans, next) = layered(snapshot, content, range.clone(), None).await?;
                    self.slices.extend(spans.into_iter().map(|Span { range, kind }| match kind {
                        SpanKind::Data(slice) => slice,
                        SpanKind::Zeros | SpanKind::Absent => zeros(&range),
                    }));
                    next
                }
            };
            self.rest = (next < range.end).then_some((content, next..range.end));
        }
        Ok(())
    }

    /// The next bytes, or the length of the next hole. `None` at the end.
    pub async fn next_or_hole(&mut self) -> Result<Option<BytesOrHole>, ServiceError> {
        if let Some(read) = self.take_read_ahead(READ_BYTES) {
            return Ok(Some(BytesOrHole::Bytes(read)));
        }
        if self.slices.is_empty() {
            self.read_next_slices().await?;
        }
        if let Some(ContentSlice { source: PieceSource::Zeros(_), range }) = self.slices.front() {
            let hole = range.end - range.start;
            self.slices.pop_front();
            return Ok(Some(BytesOrHole::Hole(hole)));
        }
        Ok(self.next().await?.map(BytesOrHole::Bytes))
    }

    /// The next bytes, at most [`READ_BYTES`]. `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ServiceError> {
        self.next_up_to(READ_BYTES).await
    }

    /// The next bytes, at most `bytes`. `None` at the end.
    pub async fn next_up_to(&mut self, bytes: u64) -> Result<Option<Vec<Bytes>>, ServiceError> {
        if let Some(read) = self.take_read_ahead(bytes) {
            return Ok(Some(read));
        }
        if self.slices.is_empty() {
            self.read_next_slices().await?;
        }
        let Some(ContentSlice { source, range: Range { start, end } }) = self.slices.front().cloned() else {
            return Ok(None);
        };
        let (begins, whole) = match &source {
            PieceSource::Slice(_, slice) => (slice.start, PIECE_BYTES),
            PieceSource::EncryptedInline(_, slice) | PieceSource::EncryptedExtent(_, slice) => {
                (slice.start, FRAME_BYTES)
            }
            PieceSource::Inline(_) | PieceSource::Extent(_) | PieceSource::Zeros(_) => (0, PIECE_BYTES),
        };
        // Who has room for large pieces has room for this.
        let at_once = if is_remote(&source) && bytes >= READ_BYTES { REMOTE_READ_BYTES } else { bytes };
        let range = start..read_end(begins + start, begins + end, at_once, whole) - begins;
        let within = begins + range.start..begins + range.end;
        let read = match source {
            PieceSource::Inline(bytes) => {
                // A piece is as long as its bytes.
                let within = range.start as usize..(range.end as usize).min(bytes.len());
                vec![bytes.slice(within)]
            }
            PieceSource::Extent(extent) | PieceSource::Slice(extent, _) => self.read(extent, within).await?,
            PieceSource::Zeros(_) => zero_bytes(range.end - range.start),
            PieceSource::EncryptedInline(bytes, _) => {
                vec![decrypt(self.secret.as_ref().ok_or_else(no_key)?, &bytes, within)?]
            }
            PieceSource::EncryptedExtent(extent, _) => vec![self.read_encrypted(extent, within).await?],
        };
        if let Some(slice) = self.slices.front_mut() {
            slice.range.start = range.end;
            if slice.range.is_empty() {
                self.slices.pop_front();
            }
        }
        if at_once == bytes {
            return Ok(Some(read));
        }
        self.read_ahead = read.into();
        Ok(self.take_read_ahead(bytes))
    }

    /// The first bytes that were read already, at most so many.
    fn take_read_ahead(&mut self, bytes: u64) -> Option<Vec<Bytes>> {
        let (mut taken, mut left) = (Vec::new(), bytes as usize);
        while left > 0
            && let Some(first) = self.read_ahead.front_mut()
        {
            let piece = first.split_to(first.len().min(left));
            left -= piece.len();
            if first.is_empty() {
                self.read_ahead.pop_front();
            }
            if !piece.is_empty() {
                taken.push(piece);
            }
        }
        (!taken.is_empty()).then_some(taken)
    }

    async fn read_encrypted(&mut self, extent: Extent, range: Range<u64>) -> Result<Bytes, ServiceError> {
        let known = self.decryptor.take().filter(|(of, _)| *of == extent);
        let decryptor = match known {
            Some((_, decryptor)) => decryptor,
            None => {
                let salt = self.read(extent, Decryptor::SALT).await?.concat();
                Decryptor::new(self.secret.as_ref().ok_or_else(no_key)?, &salt)?
            }
        };
        let frames = Frames::of(extent.bytes, range);
        let found = self.read(extent, frames.stored()).await?.concat();
        let bytes = decryptor.decrypt(&frames, &found);
        self.decryptor = Some((extent, decryptor));
        bytes
    }

    async fn read(&self, extent: Extent, range: Range<u64>) -> Result<Vec<Bytes>, ServiceError> {
        self.extents.read(extent, range).await.map_err(|error| self.read_error(error))
    }

    /// Bytes that are missing to an expired reader were deleted meanwhile; to others they are lost.
    fn read_error(&self, error: StorageError) -> ServiceError {
        if error.kind() == StorageErrorKind::Corrupt {
            if self.extents.expired(&self.reading) {
                return deleted();
            }
            self.stats.corrupt_reads.add(1);
        }
        storage_error(error)
    }
}

/// Whether the bytes of a piece are in another store than the local one.
fn is_remote(source: &PieceSource) -> bool {
    contents::extent_of(source).is_some_and(|extent| extent.store != StoreId::LOCAL)
}

/// The end of a read of at most `bytes`, `end` at the latest. A read that does not reach `end` is aligned to a piece of
/// the store, or to an encrypted frame, since the rest of one would have to be read again.
fn read_end(start: u64, end: u64, bytes: u64, piece: u64) -> u64 {
    let most = start.saturating_add(bytes);
    let whole = most - most % piece;
    if end <= most {
        end
    } else if whole > start {
        whole
    } else {
        most
    }
}

fn deleted() -> ServiceError {
    ServiceError::new(ErrorCode::OperationTimedOut).with_cause("deleted long before it was read")
}

/// The key was checked before the download began.
fn no_key() -> ServiceError {
    ServiceError::new(ErrorCode::InternalError).with_cause("encrypted bytes are read without a key")
}

fn zeros(range: &Range<u64>) -> ContentSlice {
    let bytes = range.end - range.start;
    ContentSlice { source: PieceSource::Zeros(bytes), range: 0..bytes }
}

/// Zeros that share one static buffer.
pub(super) fn zero_bytes(count: u64) -> Vec<Bytes> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let (whole, rest) = (count as usize / ZEROS.len(), count as usize % ZEROS.len());
    let mut bytes = vec![Bytes::from_static(&ZEROS); whole];
    bytes.push(Bytes::from_static(&ZEROS[..rest]));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_end_with_a_piece_of_the_store_or_with_what_was_asked_for() {
        const P: u64 = PIECE_BYTES;
        for (case, start, end, bytes, expected) in [
            ("all that is left", 0, 10, 100, 10),
            ("up to the end of the last whole piece", 0, 10 * P, 4 * P + 128, 4 * P),
            ("from within a piece", P / 2, 10 * P, 4 * P + 128, 4 * P),
            ("from within a piece, over its end", P - 1, 10 * P, 4 * P + 128, 5 * P),
            ("less than a piece", 7, 10 * P, 100, 107),
            ("a piece that is the last", 9 * P, 10 * P, P, 10 * P),
            ("very much", 5, u64::MAX, u64::MAX, u64::MAX),
        ] {
            assert_eq!(read_end(start, end, bytes, P), expected, "{case}");
        }
    }
}
