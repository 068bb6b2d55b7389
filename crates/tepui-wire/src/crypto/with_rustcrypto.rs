//! HMAC and SHA-256 of `hmac` and `sha2`.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The key of an HMAC with SHA-256. What depends on the key alone is computed once.
#[derive(Clone)]
pub struct MacKey(Hmac<Sha256>);

impl MacKey {
    pub fn new(key: &[u8]) -> Self {
        Self(Hmac::new_from_slice(key).expect("an HMAC has keys of any length"))
    }

    /// The signature of a text that is given in pieces.
    pub fn sign<'a>(&self, pieces: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
        let mut mac = self.0.clone();
        pieces.into_iter().for_each(|piece| mac.update(piece));
        mac.finalize().into_bytes().into()
    }

    /// Whether this is the signature of a text. Takes the same time for all that are not.
    pub fn verify(&self, text: &[u8], signature: &[u8; 32]) -> bool {
        self.sign([text]).ct_eq(signature).into()
    }
}

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
