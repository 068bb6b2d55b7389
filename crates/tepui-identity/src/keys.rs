//! Keys of issuers. A key is for one algorithm only, so that what a token says about its signature can only be right or wrong.

use crate::jwk;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use std::fmt;
use std::sync::Arc;

/// How a token is signed. There is none without a signature, and none with a secret that the server would have to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// By its name in a token or a key.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // Both names are in use: RFC 8037 has the first, RFC 9864 the second.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// The public part of a key, as an algorithm needs it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of P-256 or P-384, uncompressed, or a key of Ed25519.
    Point(Vec<u8>),
}

/// A key of an issuer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// What tokens name it by.
    pub(crate) id: Option<String>,
    pub(crate) algorithm: Algorithm,
    pub(crate) material: Material,
}

impl Key {
    /// Whether a signature of `message` was made with this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let rsa = |parameters: &RsaParameters| match &self.material {
            Material::Rsa { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }
            Material::Point(_) => false,
        };
        let ecdsa = |algorithm: &'static EcdsaVerificationAlgorithm| match &self.material {
            Material::Point(point) => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
            Material::Rsa { .. } => false,
        };
        match self.algorithm {
            Algorithm::Rs256 => rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Ps256 => rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::Es256 => ecdsa(&ECDSA_P256_SHA256_FIXED),
            Algorithm::Es384 => ecdsa(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDsa => match &self.material {
                Material::Point(point) => {
                    UnparsedPublicKey::new(&ED25519, point).verify(message, signature).is_ok()
                }
                Material::Rsa { .. } => false,
            },
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, {:?})", self.id, self.algorithm)
    }
}

/// The keys of an issuer that tokens can be verified with.
#[derive(Debug, Clone, Default)]
pub struct KeySet(Vec<Arc<Key>>);

impl KeySet {
    /// More would be a mistake, or meant to keep the server busy.
    pub const MAX_KEYS: usize = 100;
    /// The longest text of keys that is read.
    pub const MAX_BYTES: usize = 1 << 20;

    pub(crate) fn of(keys: impl IntoIterator<Item = Key>) -> Self {
        Self(keys.into_iter().map(Arc::new).collect())
    }

    /// Reads a JSON Web Key Set (RFC 7517). Keys for encryption, and those of kinds that are not known, are left out. The error is for
    /// people.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        jwk::parse_set(bytes).map(Self::of)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same keys, those that `before` has as well being the same in memory. So what rests on a key is good for as long as the key is
    /// alive.
    pub(crate) fn keeping(self, before: &Self) -> Self {
        let kept = |key: Arc<Key>| before.0.iter().find(|known| **known == key).cloned().unwrap_or(key);
        Self(self.0.into_iter().map(kept).collect())
    }

    /// The keys of this name, whatever they are for. A token without a name of a key means one without.
    pub(crate) fn named<'a>(&'a self, id: Option<&'a str>) -> impl Iterator<Item = &'a Arc<Key>> {
        self.0.iter().filter(move |key| key.id.as_deref() == id)
    }
}
