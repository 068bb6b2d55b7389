//! Uploads in segments with checksums of their own.

use crate::checks::refused;
use tepui_digest::structured::{Decoder, Encoder, encoded_bytes};
use tepui_model::ServiceError;

pub(super) const WORDS: &[&str] =
    &["\u{1}", "\0", "\0\0\0\0\0\0\0", "\u{1},\0\0\0\0\0\0\0\u{1}\0\u{1}\0", "Hello"];

/// Pieces do not matter, and what was read is the same once it is written and read again.
pub fn structured(data: &[u8]) {
    let whole = decode(data, data.len().max(1));
    assert_eq!(whole.is_ok(), decode(data, 3).is_ok());
    match whole {
        Ok(plain) => survives(&plain),
        Err(error) => refused(&error),
    }
    survives(data);
}

fn decode(data: &[u8], piece_bytes: usize) -> Result<Vec<u8>, ServiceError> {
    let mut plain = Vec::new();
    let mut decoder = Decoder::new();
    for piece in data.chunks(piece_bytes) {
        decoder.push(piece, |bytes| plain.extend_from_slice(bytes))?;
    }
    decoder.finish()?;
    Ok(plain)
}

fn survives(plain: &[u8]) {
    let mut framed = Vec::new();
    let mut encoder = Encoder::new(plain.len() as u64);
    encoder.push(plain, &mut framed);
    encoder.finish(&mut framed);
    assert_eq!(framed.len() as u64, encoded_bytes(plain.len() as u64));
    assert_eq!(decode(&framed, 7).as_deref(), Ok(plain));
}
