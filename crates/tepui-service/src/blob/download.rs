//! Bytes on their way out: read from the store piece by piece while they are sent.

use super::contents::{self, Part, parts};
use super::encryption::{Decryptor, FRAME_BYTES, Frames, decrypt};
use super::layers::{Seen, Span, layered};
use crate::blob::service::extent_error;
use crate::keyspace::ContentId;
use crate::record::{Content, Source};
use bytes::Bytes;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tepui_model::blob::crc64::Crc64;
use tepui_model::blob::{Checksums, Crc64Sum, CustomerSecret, Summing};
use tepui_model::{ErrorCode, ServiceError};
use tepui_storage::{Extent, ExtentError, Extents, PIECE_BYTES, Snapshot};

/// How much is read at a time, unless the caller wants less.
pub const READ_BYTES: u64 = 256 * 1024;

/// The bytes of a blob that were asked for. They stay readable while this is held, whatever becomes of the blob;
/// but if it is deleted, not for longer than the store waits for those who read.
pub struct Download<S, X: Extents> {
    extents: Arc<X>,
    /// Keeps extents from being freed.
    reading: X::ReadGuard,
    parts: VecDeque<Part>,
    /// Parts that were not looked up yet, for there are very many.
    rest: Option<(S, ContentId, Range<u64>)>,
    shape: Shape,
    /// The caller's key, for what is encrypted with it.
    secret: Option<CustomerSecret>,
    /// For the extent that was read last.
    decryptor: Option<(Extent, Decryptor)>,
}

/// What a blob has next.
pub enum BytesOrHole {
    Bytes(Vec<Bytes>),
    /// So many zeros.
    Hole(u64),
}

/// How the bytes of a blob are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One piece after the other.
    Whole,
    /// Pages, with zeros between them.
    Sparse,
}

impl<S: Snapshot, X: Extents> Download<S, X> {
    /// `reading` is older than `snapshot`.
    pub(super) async fn open(
        extents: Arc<X>,
        reading: X::ReadGuard,
        snapshot: S,
        (content, shape): (Content, Shape),
        range: Range<u64>,
        secret: Option<CustomerSecret>,
    ) -> Result<Self, ServiceError> {
        let parts = VecDeque::new();
        let mut download = Self { extents, reading, parts, rest: None, shape, secret, decryptor: None };
        match content {
            _ if range.is_empty() => {}
            // There are no pages yet.
            Content::Inline(_) if shape == Shape::Sparse => download.parts.push_back(zeros(&range)),
            Content::Inline(bytes) => download.parts.push_back(Part { source: Source::Inline(bytes), range }),
            Content::Small(content) => {
                let source = Source::Inline(contents::small(&snapshot, content).await?);
                download.parts.push_back(Part { source, range });
            }
            Content::Extent(extent) => {
                download.parts.push_back(Part { source: Source::Extent(extent), range });
            }
            Content::Listed(content) => {
                download.rest = Some((snapshot, content, range));
                download.look_up().await?;
            }
        }
        Ok(download)
    }

    /// The same bytes, read already, and their checksums. For few of them.
    pub(super) async fn summed(mut self, mut summing: Summing) -> Result<(Self, Checksums), ServiceError> {
        let mut read = VecDeque::new();
        while let Some(pieces) = self.next().await? {
            for bytes in pieces {
                summing.update(&bytes);
                let range = 0..bytes.len() as u64;
                read.push_back(Part { source: Source::Inline(bytes), range });
            }
        }
        self.parts = read;
        Ok((self, summing.finish()))
    }

    /// The checksum of all bytes.
    pub(super) async fn crc64(mut self) -> Result<Crc64Sum, ServiceError> {
        let mut sum = Crc64::new();
        while let Some(pieces) = self.next().await? {
            pieces.iter().for_each(|bytes| sum.update(bytes));
            // Bytes in memory are read without waiting for anything.
            tokio::task::yield_now().await;
        }
        Ok(Crc64Sum(sum.finish()))
    }

    /// Looks up the next parts.
    async fn look_up(&mut self) -> Result<(), ServiceError> {
        if let Some((snapshot, content, range)) = self.rest.take() {
            let next = match self.shape {
                Shape::Whole => {
                    let (parts, next) = parts(&snapshot, content, range.clone()).await?;
                    self.parts.extend(parts);
                    next
                }
                Shape::Sparse => {
                    let (spans, next) = layered(&snapshot, content, range.clone(), None).await?;
                    self.parts.extend(spans.into_iter().map(|Span { range, seen }| match seen {
                        Seen::Data(part) => part,
                        Seen::Zeros | Seen::Nothing => zeros(&range),
                    }));
                    next
                }
            };
            self.rest = (next < range.end).then_some((snapshot, content, next..range.end));
        }
        Ok(())
    }

    /// The next bytes, or how many zeros come next that are stored nowhere. `None`: that was all.
    pub async fn next_or_hole(&mut self) -> Result<Option<BytesOrHole>, ServiceError> {
        if self.parts.is_empty() {
            self.look_up().await?;
        }
        if let Some(Part { source: Source::Zeros(_), range }) = self.parts.front() {
            let hole = range.end - range.start;
            self.parts.pop_front();
            return Ok(Some(BytesOrHole::Hole(hole)));
        }
        Ok(self.next().await?.map(BytesOrHole::Bytes))
    }

    /// The next bytes, [`READ_BYTES`] at most. `None`: that was all.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, ServiceError> {
        self.next_up_to(READ_BYTES).await
    }

    /// The next bytes, so many at most. `None`: that was all.
    pub async fn next_up_to(&mut self, bytes: u64) -> Result<Option<Vec<Bytes>>, ServiceError> {
        if self.parts.is_empty() {
            self.look_up().await?;
        }
        let Some(Part { source, range: Range { start, end } }) = self.parts.front().cloned() else {
            return Ok(None);
        };
        let (begins, whole) = match &source {
            Source::Slice(_, slice) => (slice.start, PIECE_BYTES),
            Source::EncryptedInline(_, slice) | Source::EncryptedExtent(_, slice) => {
                (slice.start, FRAME_BYTES)
            }
            Source::Inline(_) | Source::Extent(_) | Source::Zeros(_) => (0, PIECE_BYTES),
        };
        let range = start..read_end(begins + start, begins + end, bytes, whole) - begins;
        let within = begins + range.start..begins + range.end;
        let bytes = match source {
            Source::Inline(bytes) => {
                // In range: a piece is as long as its bytes are.
                let within = range.start as usize..(range.end as usize).min(bytes.len());
                vec![bytes.slice(within)]
            }
            Source::Extent(extent) | Source::Slice(extent, _) => {
                read(&*self.extents, &self.reading, extent, within).await?
            }
            Source::Zeros(_) => zero_bytes(range.end - range.start),
            Source::EncryptedInline(bytes, _) => {
                vec![decrypt(self.secret.as_ref().ok_or_else(no_key)?, &bytes, within)?]
            }
            Source::EncryptedExtent(extent, _) => vec![self.read_encrypted(extent, within).await?],
        };
        if let Some(part) = self.parts.front_mut() {
            part.range.start = range.end;
            if part.range.is_empty() {
                self.parts.pop_front();
            }
        }
        Ok(Some(bytes))
    }

    async fn read_encrypted(&mut self, extent: Extent, range: Range<u64>) -> Result<Bytes, ServiceError> {
        let known = self.decryptor.take().filter(|(of, _)| *of == extent);
        let decryptor = match known {
            Some((_, decryptor)) => decryptor,
            None => {
                let salt = read(&*self.extents, &self.reading, extent, Decryptor::SALT).await?.concat();
                Decryptor::new(self.secret.as_ref().ok_or_else(no_key)?, &salt)?
            }
        };
        let frames = Frames::of(extent.bytes, range);
        let found = read(&*self.extents, &self.reading, extent, frames.stored()).await?.concat();
        let bytes = decryptor.decrypt(&frames, &found);
        self.decryptor = Some((extent, decryptor));
        bytes
    }
}

/// Where a read of so many bytes ends, `end` at the latest. If it does not get there, it ends with a piece of the
/// store, or a frame of what is encrypted: what is left of one would have to be read again with the next.
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

async fn read<X: Extents>(
    extents: &X,
    reading: &X::ReadGuard,
    extent: Extent,
    range: Range<u64>,
) -> Result<Vec<Bytes>, ServiceError> {
    extents.read(extent, range).await.map_err(|error| read_error(extents, reading, error))
}

/// What is missing for one who has read for very long was deleted meanwhile; for others it is lost.
fn read_error<X: Extents>(extents: &X, reading: &X::ReadGuard, error: ExtentError) -> ServiceError {
    match error {
        ExtentError::Corrupt(_) if extents.expired(reading) => {
            ServiceError::new(ErrorCode::OperationTimedOut).with_cause("deleted long before it was read")
        }
        error => extent_error(error),
    }
}

/// Whoever reads a blob with a key has shown it.
fn no_key() -> ServiceError {
    ServiceError::new(ErrorCode::InternalError).with_cause("encrypted bytes are read without a key")
}

fn zeros(range: &Range<u64>) -> Part {
    let bytes = range.end - range.start;
    Part { source: Source::Zeros(bytes), range: 0..bytes }
}

/// Zeros without memory of their own.
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
