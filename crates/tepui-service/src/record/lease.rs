//! Records of leases on background work.

use super::{Kind, Reader, Writer, corrupt};
use bytes::Bytes;
use tepui_model::{ServiceError, Timestamp};

/// Who does a piece of background work, and until when nobody else may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkLease {
    pub(crate) owner: u128,
    pub(crate) until: Timestamp,
}

impl WorkLease {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::new(Kind::WorkLease);
        out.wide_number(self.owner);
        out.timestamp(self.until);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        let read = |mut from: Reader<'_>| Some(Self { owner: from.wide_number()?, until: from.timestamp()? });
        Reader::new(bytes, Kind::WorkLease).and_then(read).ok_or_else(|| corrupt(Kind::WorkLease))
    }
}
