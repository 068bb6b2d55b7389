//! HMAC and SHA-256, from one of two crates: `hmac` and `sha2` for servers, which sign short texts faster, and `ring` for
//! clients, which have it for TLS anyway. See `docs/decisions/0016-two-sources-of-hashes.md`.

#[cfg(feature = "ring")]
pub mod with_ring;
#[cfg(feature = "rustcrypto")]
pub mod with_rustcrypto;

// Where both are built in, as in tests of the workspace, it is the faster one.
#[cfg(all(feature = "ring", not(feature = "rustcrypto")))]
pub use with_ring::{MacKey, sha256};
#[cfg(feature = "rustcrypto")]
pub use with_rustcrypto::{MacKey, sha256};

#[cfg(not(any(feature = "ring", feature = "rustcrypto")))]
compile_error!("tepui-wire needs one of its features `ring` and `rustcrypto`");

#[cfg(all(test, feature = "ring", feature = "rustcrypto"))]
mod tests {
    use super::{with_ring, with_rustcrypto};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..most)
    }

    proptest! {
        #[test]
        fn both_make_the_same(key in bytes(200), text in bytes(300), cut in 0usize..300) {
            prop_assert_eq!(with_ring::sha256(&text), with_rustcrypto::sha256(&text));
            let (ring, rustcrypto) = (with_ring::MacKey::new(&key), with_rustcrypto::MacKey::new(&key));
            let (one, other) = text.split_at(cut.min(text.len()));
            let mut mac = ring.sign([one, other]);
            prop_assert_eq!(mac, rustcrypto.sign([&text[..]]));
            prop_assert!(ring.verify(&text, &mac) && rustcrypto.verify(&text, &mac));
            mac[cut % 32] ^= 1;
            prop_assert!(!ring.verify(&text, &mac) && !rustcrypto.verify(&text, &mac));
        }
    }
}
