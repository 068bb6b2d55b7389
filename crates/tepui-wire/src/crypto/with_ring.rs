//! HMAC and SHA-256 of `ring`.

use ring::digest::{SHA256, digest};
use ring::hmac::{Context, HMAC_SHA256, Key, verify};

/// The key of an HMAC with SHA-256. What depends on the key alone is computed once.
#[derive(Clone)]
pub struct MacKey(Key);

impl MacKey {
    pub fn new(key: &[u8]) -> Self {
        Self(Key::new(HMAC_SHA256, key))
    }

    /// The signature of a text that is given in pieces.
    pub fn sign<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
        let mut mac = Context::with_key(&self.0);
        pieces.into_iter().for_each(|piece| mac.update(piece));
        whole(mac.sign().as_ref())
    }

    /// Whether this is the signature of a text. Takes the same time for all that are not.
    pub fn verify(&self, text: &[u8], signature: &[u8; 32]) -> bool {
        verify(&self.0, text, signature).is_ok()
    }
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    whole(digest(&SHA256, bytes).as_ref())
}

fn whole(hash: &[u8]) -> [u8; 32] {
    hash.try_into().expect("a SHA-256 has 32 bytes")
}
