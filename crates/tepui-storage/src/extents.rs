//! Extents: bytes that are too large for the engine, written once, read in ranges, freed when nothing refers to them.
//!
//! Users store [`Extent`]s (in the engine, say), and call [`Extents::free`] when the last reference to one is gone.

use crate::StorageError;
use bytes::Bytes;
use std::future::Future;
use std::ops::Range;

/// The unit of reading and verifying, from the beginning of an extent: a read that ends elsewhere reads a part of the last
/// unit in vain.
pub const PIECE_BYTES: u64 = (64 << 10) - 32;

/// The number of a store of extents, which is part of the name of each of them: an installation may have several, old and
/// new ones, say, or one for each class of disks. A number is never used for another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u64);

impl StoreId {
    /// The store beside the rows in the same data directory.
    pub const LOCAL: Self = Self(0);
}

/// Where immutable bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    pub store: StoreId,
    /// A number that is unique in its store.
    pub volume: u64,
    /// Where they begin in their volume.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
}

/// A store of extents.
///
/// # Contract
///
/// - Every extent names its store, which refuses those of others with `Failed`.
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
///   in volumes that are unsealed, of which [`Extents::sweepable_volumes`] says which nobody writes to any more, and
///   [`Extents::sweep`] frees them.
/// - After a failed write nothing of its extent remains, and the next extent is written elsewhere.
/// - If `finish` fails with `Unavailable`, the extent may be there nevertheless, or come to be. Nobody knows its name, and its volume
///   stays unsealed, so that it is swept when this process has ended.
/// - Every call may be refused with `Unavailable`, and can be repeated then. What was refused was not done, except that any number
///   of the extents that were to be freed may be.
///
/// # Stores that several nodes share
///
/// A data directory is used by one process, which knows all readers and writers. A store that several nodes share, such as a
/// bucket of objects, keeps the same contract:
///
/// - An extent is one object, and a volume is the series of those that one node has written for some time: every node begins
///   volumes of its own, with numbers that no node used before (random ones, say), and the object's name is made of volume and
///   offset. A put is streamed in parts and is durable when it was completed.
/// - `wait_for_readers` cannot ask the readers on other nodes, so it waits until each of them is done or has expired: as long
///   as the timeout of readers, and the difference of clocks that is allowed.
/// - A volume is sealed by the node that writes it when none of its extents is pinned any more. `sweepable_volumes` are the
///   unsealed ones of nodes that are known to have stopped: they hold a lease on their volumes, which has expired. `sweep` lists
///   the objects of the volume, deletes those that are not kept, and seals it.
pub trait Extents: Send + Sync + 'static {
    type Writer: ExtentWriter;
    type ReadGuard: Send + Sync + 'static;

    /// The number of this store, which is in the names of its extents.
    fn store(&self) -> StoreId;

    /// Starts an extent.
    fn begin(&self) -> impl Future<Output = Result<Self::Writer, StorageError>> + Send;

    /// Releases the pin on the volume of a finished extent. Call it once for each, when the reference to it is durable or it was
    /// freed. A volume with pinned extents stays unsealed, so that it is swept when this process has ended.
    fn unpin(&self, extent: Extent);

    /// Delays frees as long as the guard is held and has not expired. Take it before looking up what to read.
    fn read_guard(&self) -> Self::ReadGuard;

    /// Whether a guard was held for so long that frees do not wait for it any more: its extents may be gone.
    fn expired(&self, guard: &Self::ReadGuard) -> bool;

    /// Waits until every guard that is held now, on any node, is dropped or has expired. Call it between removing the last
    /// reference to an extent and freeing it.
    fn wait_for_readers(&self) -> impl Future<Output = ()> + Send;

    /// The bytes `range` of an extent's content. Hold a [`Extents::read_guard`] meanwhile.
    fn read(
        &self,
        extent: Extent,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Vec<Bytes>, StorageError>> + Send;

    /// Releases the space of extents. Free many at once: each call syncs each volume once, and may wait for its writer.
    fn free(&self, extents: Vec<Extent>) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// The volumes of this store that were not sealed, and that nobody writes to any more: those of processes that have ended.
    fn sweepable_volumes(&self) -> impl Future<Output = Result<Vec<u64>, StorageError>> + Send;

    /// Frees everything in one of the `sweepable_volumes` but the extents `kept`. Any other volume is refused with `Failed`, and
    /// one that lacks a kept extent with `Corrupt`; both stay as they are.
    fn sweep(&self, volume: u64, kept: Vec<Extent>) -> impl Future<Output = Result<(), StorageError>> + Send;
}

/// An extent that is being written.
pub trait ExtentWriter: Send + 'static {
    /// Appends to the extent. After a failure, or if the future was dropped, the extent cannot be finished.
    fn write(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), StorageError>> + Send;

    fn finish(self) -> impl Future<Output = Result<Extent, StorageError>> + Send;
}

impl Extent {
    /// Refuses an extent of another store.
    pub fn check_store(self, store: StoreId) -> Result<(), StorageError> {
        match self.store == store {
            true => Ok(()),
            false => Err(StorageError::failed(format!("of another store than {store:?}: {self:?}"))),
        }
    }

    /// Refuses a range beyond the end of the extent. A range whose end is not after its start is empty.
    pub fn check_range(self, range: &Range<u64>) -> Result<(), StorageError> {
        match range.start.max(range.end) <= self.bytes {
            true => Ok(()),
            false => Err(StorageError::failed(format!("beyond the end of the extent: {range:?}, {self:?}"))),
        }
    }
}
