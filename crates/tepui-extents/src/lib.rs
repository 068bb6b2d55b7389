//! Bytes that are too large for the engine: written once, read in ranges, freed when nothing refers to them.
//!
//! This crate knows nothing about blobs. Whoever keeps an [`Extent`] (in the engine, say) keeps its bytes;
//! whoever gives up the last one calls [`Extents::free`].

use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::ops::Range;

/// Where some bytes lie. They never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    pub volume: u64,
    /// Where they begin in their volume.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

/// Why bytes could not be written, read or freed. Each kind says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtentError {
    /// Try again later: there is no space left, say.
    Unavailable(String),
    /// Stored bytes are not what was written, or not there. Stop and look; never serve them.
    Corrupt(String),
    /// Anything else that failed below: the message is for the log.
    Failed(String),
}

/// A store of extents.
///
/// # Contract
///
/// - An extent is on disk when [`ExtentWriter::finish`] returns it, and survives a crash from then on.
///   A writer that is dropped before that leaves nothing behind.
/// - `read` returns the bytes of the range, in pieces, and none that are not what was written.
/// - Memory does not grow with the length of what is written or read.
/// - `free` gives the space back. It waits for everyone who was reading when it was called (see
///   [`Extents::reading`]), and may be repeated, also after a restart.
/// - After a crash there may be bytes of extents that were never finished, or finished and never kept.
///   They can only be in [`Extents::leftovers`], and [`Extents::sweep`] frees them.
pub trait Extents: Send + Sync + 'static {
    type Writer: ExtentWriter;
    type Reading: Send + Sync + 'static;

    /// Begins an extent.
    fn begin(&self) -> impl Future<Output = Result<Self::Writer, ExtentError>> + Send;

    /// Keeps what is freed from now on readable for as long as this is held. Call it before looking up what to read.
    fn reading(&self) -> Self::Reading;

    /// The bytes `range` of an extent's content. At most a few MiB at a time.
    fn read(
        &self,
        extent: Extent,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Vec<Bytes>, ExtentError>> + Send;

    fn free(&self, extents: Vec<Extent>) -> impl Future<Output = Result<(), ExtentError>> + Send;

    /// The volumes that an earlier run of the program was writing to when it ended.
    fn leftovers(&self) -> Vec<u64>;

    /// Frees whatever is in one of the `leftovers` and not in `kept`.
    fn sweep(&self, volume: u64, kept: Vec<Extent>) -> impl Future<Output = Result<(), ExtentError>> + Send;
}

/// An extent that is being written.
pub trait ExtentWriter: Send + 'static {
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), ExtentError>> + Send;

    fn finish(self) -> impl Future<Output = Result<Extent, ExtentError>> + Send;
}

impl fmt::Display for ExtentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "storage is unavailable: {why}"),
            Self::Corrupt(what) => write!(f, "stored bytes are corrupt: {what}"),
            Self::Failed(why) => write!(f, "storage failed: {why}"),
        }
    }
}

impl std::error::Error for ExtentError {}
