//! The body of an answer: bytes in one piece or in several.

use bytes::Bytes;

/// What an answer carries. Large ones come in pieces that are never put together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload(Pieces);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pieces {
    One(Vec<u8>),
    Many(Vec<Vec<u8>>),
}

impl Default for Pieces {
    fn default() -> Self {
        Self::One(Vec::new())
    }
}

impl Payload {
    pub fn from_pieces(pieces: Vec<Vec<u8>>) -> Self {
        Self(Pieces::Many(pieces))
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Pieces::One(bytes) => bytes.len(),
            Pieces::Many(pieces) => pieces.iter().map(Vec::len).sum(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it in one piece.
    pub fn into_whole(self) -> Vec<u8> {
        match self.0 {
            Pieces::One(bytes) => bytes,
            Pieces::Many(pieces) => pieces.concat(),
        }
    }

    /// The pieces, ready to be sent.
    pub fn into_pieces(self) -> Vec<Bytes> {
        match self.0 {
            Pieces::One(bytes) => vec![bytes.into()],
            Pieces::Many(pieces) => pieces.into_iter().map(Bytes::from).collect(),
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Pieces::One(bytes))
    }
}
