//! Records of volumes that several nodes share.

use super::{Kind, corrupt, decode_number, encode_number};
use bytes::Bytes;
use tepui_model::ServiceError;

/// Whether references to new extents of a volume may be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeState {
    Open,
    /// Its node was taken for dead.
    Swept,
}

impl VolumeState {
    pub(crate) fn encode(self) -> Bytes {
        encode_number(match self {
            Self::Open => 0,
            Self::Swept => 1,
        })
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        match decode_number(bytes)? {
            0 => Ok(Self::Open),
            1 => Ok(Self::Swept),
            _ => Err(corrupt(Kind::Number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_back() {
        for (state, number) in [(VolumeState::Open, 0), (VolumeState::Swept, 1)] {
            assert_eq!(state.encode(), encode_number(number));
            assert_eq!(VolumeState::decode(&state.encode()), Ok(state));
        }
        assert!(VolumeState::decode(&encode_number(2)).is_err());
    }
}
