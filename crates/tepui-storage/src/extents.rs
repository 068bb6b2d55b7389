//! Extents: bytes that are too large for the engine, written once, read in ranges, freed when nothing refers to them.
//!
//! Users store [`Extent`]s (in the engine, say), and call [`Extents::free`] when the last reference to one is gone.

use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::ops::Range;

/// The unit of reading and verifying, from the beginning of an extent: a read that ends elsewhere reads a part of the last
/// unit in vain.
pub const PIECE_BYTES: u64 = (64 << 10) - 32;

/// Where immutable bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    pub volume: u64,
    /// Where they begin in their volume.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

/// Why an operation failed. Each kind says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtentError {
    /// Retry later: the store is being closed, say.
    Unavailable(String),
    /// The disk is full, or nearly so: writes are refused.
    NoSpace(String),
    /// Stored bytes are not what was written, or missing. Never serve them.
    Corrupt(String),
    /// Any other failure: the message is for the log.
    Failed(String),
}

/// A store of extents.
///
/// # Contract
///
/// - An extent is durable when [`ExtentWriter::finish`] returns it. A writer that is dropped before that, or whose `finish`
///   is, leaves nothing behind.
/// - No two extents have the same volume and offset, not even extents of no bytes, nor one that was freed.
/// - A location is used once: no later extent begins where a finished one did, freed or not.
/// - `read` returns the bytes of the range, in pieces, verified by checksum. A range beyond the end of the extent is refused
///   with `Failed`.
/// - Memory does not grow with the length of an extent that is written. `read` returns the whole range from memory, so read
///   1 to 4 MiB at a time.
/// - `free` releases the space at once, and may be repeated, also after a restart. If readers may hold references to the
///   extents, wait for them first: see [`Extents::wait_for_readers`].
/// - Reading a freed extent fails. It never returns other bytes.
/// - After a crash there may be bytes of extents that were never finished, or finished and never referenced. They can only be
///   in [`Extents::unsealed_volumes`], and [`Extents::sweep`] frees them.
/// - After a failed write nothing of its extent remains, and the next extent is written elsewhere.
pub trait Extents: Send + Sync + 'static {
    type Writer: ExtentWriter;
    type ReadGuard: Send + Sync + 'static;

    /// Starts an extent.
    fn begin(&self) -> impl Future<Output = Result<Self::Writer, ExtentError>> + Send;

    /// Releases the pin on the volume of a finished extent. Call it once for each, when the reference to it is durable or it was
    /// freed. A volume with pinned extents stays unsealed, so that the next start sweeps it.
    fn unpin(&self, extent: Extent);

    /// Delays frees as long as the guard is held and has not expired. Take it before looking up what to read.
    fn read_guard(&self) -> Self::ReadGuard;

    /// Whether a guard was held for so long that frees do not wait for it any more: its extents may be gone.
    fn expired(&self, guard: &Self::ReadGuard) -> bool;

    /// Waits until every guard that is held now is dropped or has expired. Call it between removing the last reference to an
    /// extent and freeing it.
    fn wait_for_readers(&self) -> impl Future<Output = ()> + Send;

    /// The bytes `range` of an extent's content. Hold a [`Extents::read_guard`] meanwhile.
    fn read(
        &self,
        extent: Extent,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Vec<Bytes>, ExtentError>> + Send;

    /// Releases the space of extents. Free many at once: each call syncs each volume once, and may wait for its writer.
    fn free(&self, extents: Vec<Extent>) -> impl Future<Output = Result<(), ExtentError>> + Send;

    /// The volumes that an earlier run did not seal, and that were not swept since.
    fn unsealed_volumes(&self) -> Vec<u64>;

    /// Frees everything in one of the `unsealed_volumes` but the extents `kept`. Any other volume is refused with `Failed`, and
    /// one that lacks a kept extent with `Corrupt`; both stay as they are.
    fn sweep(&self, volume: u64, kept: Vec<Extent>) -> impl Future<Output = Result<(), ExtentError>> + Send;
}

/// An extent that is being written.
pub trait ExtentWriter: Send + 'static {
    /// Appends to the extent. After a failure, or if the future was dropped, the extent cannot be finished.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), ExtentError>> + Send;

    fn finish(self) -> impl Future<Output = Result<Extent, ExtentError>> + Send;
}

impl Extent {
    /// Refuses a range beyond the end of the extent. A range whose end is not after its start is empty.
    pub fn check_range(self, range: &Range<u64>) -> Result<(), ExtentError> {
        match range.start.max(range.end) <= self.bytes {
            true => Ok(()),
            false => Err(ExtentError::Failed(format!("beyond the end of the extent: {range:?}, {self:?}"))),
        }
    }
}

impl ExtentError {
    /// [`Extents::sweep`] of a volume that is not in [`Extents::unsealed_volumes`].
    pub fn not_unsealed(volume: u64) -> Self {
        Self::Failed(format!("not an unsealed volume of an earlier run: {volume}"))
    }
}

impl fmt::Display for ExtentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "storage is unavailable: {why}"),
            Self::NoSpace(why) => write!(f, "no space: {why}"),
            Self::Corrupt(what) => write!(f, "stored bytes are corrupt: {what}"),
            Self::Failed(why) => write!(f, "storage failed: {why}"),
        }
    }
}

impl std::error::Error for ExtentError {}
