//! Blocks: the pieces that block blobs are made of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// The most blocks that a blob is made of.
pub const MAX_COMMITTED_BLOCKS: usize = 50_000;
const MAX_ID_BYTES: usize = 64;

/// The id of a block within its blob: 1 to 64 bytes of the caller's choice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(Vec<u8>);

impl BlockId {
    /// Parses base64. `None` if it is not that, or of the wrong length.
    ///
    /// ```
    /// use tepui_model::blob::BlockId;
    /// assert_eq!(BlockId::parse("MDAwMQ==").unwrap().bytes(), b"0001");
    /// assert_eq!(BlockId::parse("MDAwMQ"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(STANDARD.decode(text).ok()?)
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        (1..=MAX_ID_BYTES).contains(&bytes.len()).then_some(Self(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.0))
    }
}

/// Where Put Block List looks for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockSearch {
    Committed,
    Uncommitted,
    /// Among the uncommitted ones first.
    Latest,
}

/// One line of the list that makes a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenBlock {
    pub id: BlockId,
    pub search: BlockSearch,
}

/// Which blocks Get Block List returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockListType {
    #[default]
    Committed,
    Uncommitted,
    All,
}

impl BlockListType {
    /// In any case.
    pub fn parse(text: &str) -> Option<Self> {
        [("committed", Self::Committed), ("uncommitted", Self::Uncommitted), ("all", Self::All)]
            .into_iter()
            .find_map(|(name, list)| text.eq_ignore_ascii_case(name).then_some(list))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::Uncommitted => "uncommitted",
            Self::All => "all",
        }
    }

    pub fn has_committed(self) -> bool {
        matches!(self, Self::Committed | Self::All)
    }

    pub fn has_uncommitted(self) -> bool {
        matches!(self, Self::Uncommitted | Self::All)
    }
}

/// A block as Get Block List shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedBlock {
    pub id: BlockId,
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids() {
        let (long, too_long) = (STANDARD.encode([7; 64]), STANDARD.encode([7; 65]));
        for (text, good) in
            [("MQ==", true), (&*long, true), (&*too_long, false), ("", false), ("M", false), ("M Q=", false)]
        {
            assert_eq!(BlockId::parse(text).is_some(), good, "{text}");
        }
    }

    #[test]
    fn lists_are_named_in_any_case() {
        assert_eq!(BlockListType::parse("Committed"), Some(BlockListType::Committed));
        assert_eq!(BlockListType::parse("ALL"), Some(BlockListType::All));
        assert_eq!(BlockListType::parse("some"), None);
    }

    proptest! {
        #[test]
        fn printed_ids_are_read_as_themselves(bytes in proptest::collection::vec(any::<u8>(), 1..=64)) {
            let id = BlockId::from_bytes(bytes).unwrap();
            prop_assert_eq!(BlockId::parse(&id.to_string()), Some(id));
        }
    }
}
