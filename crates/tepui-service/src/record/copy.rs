//! Records of a copy of everything to a storage, which are there until it is finished.

use super::{Kind, Reader, Writer, corrupt};
use bytes::Bytes;
use tepui_model::ServiceError;
use tepui_storage::{Extent, Key, StoreId};

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StorageCopy {
    /// The digest of the source's rows: only a copy of just these rows may be continued.
    pub(crate) source: [u8; 32],
    /// The process that copies.
    pub(crate) run: u128,
    /// Raised by every commit, so that no two states are the same.
    pub(crate) commits: u64,
    pub(crate) phase: StorageCopyPhase,
    /// Everything before this key has been copied in this phase.
    pub(crate) next: Key,
    pub(crate) rows: u64,
    pub(crate) row_bytes: u64,
    pub(crate) extents: u64,
    pub(crate) extent_bytes: u64,
}

/// What a copy does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StorageCopyPhase {
    /// Copies extents and their reference counts.
    Extents,
    /// Copies all other rows.
    Rows,
    /// Compares both sides.
    Verify,
    /// Removes its own rows.
    CleanUp,
}

impl StorageCopyPhase {
    const ALL: [Self; 4] = [Self::Extents, Self::Rows, Self::Verify, Self::CleanUp];

    fn code(self) -> u64 {
        match self {
            Self::Extents => 0,
            Self::Rows => 1,
            Self::Verify => 2,
            Self::CleanUp => 3,
        }
    }

    fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.code() == code)
    }
}

impl StorageCopy {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::StorageCopy);
        out.bytes(&self.source);
        out.wide_number(self.run);
        out.number(self.commits);
        out.number(self.phase.code());
        out.bytes(&self.next);
        for number in [self.rows, self.row_bytes, self.extents, self.extent_bytes] {
            out.number(number);
        }
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            Some(Self {
                source: from.bytes()?.try_into().ok()?,
                run: from.wide_number()?,
                commits: from.number()?,
                phase: StorageCopyPhase::from_code(from.number()?)?,
                next: Key::copy_from_slice(from.bytes()?),
                rows: from.number()?,
                row_bytes: from.number()?,
                extents: from.number()?,
                extent_bytes: from.number()?,
            })
        };
        Reader::new(bytes, Kind::StorageCopy).and_then(read).ok_or_else(|| corrupt(Kind::StorageCopy))
    }
}

/// Where the bytes of an extent of the source are now, and their SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopiedExtent {
    pub(crate) extent: Extent,
    pub(crate) sha256: [u8; 32],
}

impl CopiedExtent {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::CopiedExtent);
        let Extent { store: StoreId(store), volume, offset, bytes } = self.extent;
        for number in [store, volume, offset, bytes] {
            out.number(number);
        }
        out.bytes(&self.sha256);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| {
            let store = StoreId(from.number()?);
            let (volume, offset, bytes) = (from.number()?, from.number()?, from.number()?);
            let extent = Extent { store, volume, offset, bytes };
            Some(Self { extent, sha256: from.bytes()?.try_into().ok()? })
        };
        Reader::new(bytes, Kind::CopiedExtent).and_then(read).ok_or_else(|| corrupt(Kind::CopiedExtent))
    }
}
