//! Bytes that are too large for the engine: written once, read in ranges, freed when nothing refers to them.
//!
//! This crate knows nothing about blobs. Whoever keeps an [`Extent`] (in the engine, say) keeps its bytes;
//! whoever gives up the last one calls [`Extents::free`]. [`MemoryExtents`] keeps everything in memory,
//! [`DiskExtents`] keeps it on disk; both pass the suite in [`contract`].

use bytes::Bytes;
use std::fmt;
use std::future::Future;
use std::ops::Range;

mod aligned;
pub mod contract;
mod disk;
mod frame;
mod holes;
mod memory;
mod open_files;
mod readers;
mod space;
mod store;
mod volume;
mod writer;

pub use disk::{DiskExtents, DiskOptions};
pub use memory::{MemoryExtents, MemoryWriter};
pub use readers::Reading;
pub use writer::DiskWriter;

/// What a store reads and checks as a whole, counted from the beginning of an extent: a read that ends elsewhere leaves
/// something to be read again.
pub const PIECE_BYTES: u64 = frame::CONTENT as u64;

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
    /// Try again later: the store is being closed, say.
    Unavailable(String),
    /// The disk is full, or nearly so: nothing is written any more.
    NoSpace(String),
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
///   A writer that is dropped before that, or whose `finish` is, leaves nothing behind.
/// - No two extents have the same volume and offset, not even extents of no bytes, nor one that was freed.
/// - A place is given out once: no later extent begins where a finished one did, freed or not.
/// - `read` returns the bytes of the range, in pieces, and none that are not what was written. It refuses a range
///   that goes beyond the extent with `Failed`.
/// - Memory does not grow with the length of what is written. `read` returns everything that it is asked for
///   and has all of it in memory at once, so ask for 1 to 4 MiB at a time.
/// - `free` gives the space back at once, and may be repeated, also after a restart. Whoever frees what others may
///   have found before waits for them first: see [`Extents::wait_for_readers`].
/// - Reading what was freed fails. It never returns other bytes.
/// - After a crash there may be bytes of extents that were never finished, or finished and never kept.
///   They can only be in [`Extents::leftovers`], and [`Extents::sweep`] frees them.
/// - A write that failed stays so: nothing of its extent is kept, and the next extent lies elsewhere.
pub trait Extents: Send + Sync + 'static {
    type Writer: ExtentWriter;
    type Reading: Send + Sync + 'static;

    /// Begins an extent.
    fn begin(&self) -> impl Future<Output = Result<Self::Writer, ExtentError>> + Send;

    /// Says that it is known, also after a crash, what becomes of an extent: someone keeps it, or it was freed.
    /// Call it once for each that was finished. What is not settled when the program ends is in a volume that is
    /// left over.
    fn settle(&self, extent: Extent);

    /// Makes those wait who are about to free something, for as long as this is held and not over. Call it before
    /// looking up what to read.
    fn reading(&self) -> Self::Reading;

    /// Whether someone has read for so long that nobody waits for them any more. What they still want to read may
    /// be gone.
    fn is_over(&self, reading: &Self::Reading) -> bool;

    /// Waits until everyone who is reading now is done or has taken too long. Call it between making something
    /// unfindable and freeing it.
    fn wait_for_readers(&self) -> impl Future<Output = ()> + Send;

    /// The bytes `range` of an extent's content. Hold a [`Extents::reading`] meanwhile.
    fn read(
        &self,
        extent: Extent,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Vec<Bytes>, ExtentError>> + Send;

    /// Gives back the space of extents. Give many at once: each call waits for the disk once per volume, and perhaps
    /// for who writes to it.
    fn free(&self, extents: Vec<Extent>) -> impl Future<Output = Result<(), ExtentError>> + Send;

    /// The volumes that an earlier run of the program was writing to when it ended, and that were not swept since.
    fn leftovers(&self) -> Vec<u64>;

    /// Frees whatever is in one of the `leftovers` and not in `kept`. Any other volume is refused with `Failed`,
    /// and a volume that lacks something kept with `Corrupt`; both stay as they are.
    fn sweep(&self, volume: u64, kept: Vec<Extent>) -> impl Future<Output = Result<(), ExtentError>> + Send;
}

/// An extent that is being written.
pub trait ExtentWriter: Send + 'static {
    /// Appends to the extent. Once it has failed, or its future was dropped, the extent cannot be finished.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), ExtentError>> + Send;

    fn finish(self) -> impl Future<Output = Result<Extent, ExtentError>> + Send;
}

/// Refuses a range that goes beyond the extent. Nothing lies in a range whose end is not after its start.
fn check_range(extent: Extent, range: &Range<u64>) -> Result<(), ExtentError> {
    match range.start.max(range.end) <= extent.bytes {
        true => Ok(()),
        false => Err(ExtentError::Failed(format!("beyond the end of the extent: {range:?}, {extent:?}"))),
    }
}

fn not_left_over(volume: u64) -> ExtentError {
    ExtentError::Failed(format!("not left over from an earlier run: volume {volume}"))
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
