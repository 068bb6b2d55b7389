//! Keys: those of entities, and those that they are wrapped with.

use crate::{Error, ErrorKind};
use aes_kw::cipher::KeyInit as _;
use aes_kw::{KwAes128, KwAes192, KwAes256};
use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use zeroize::{Zeroize as _, Zeroizing};

const CONTENT_KEY_BYTES: usize = 32;
/// What key wrapping adds.
const WRAPPING_BYTES: usize = 8;

/// The key of one version of one entity. Never printed, and overwritten when it is dropped.
pub struct ContentKey(Box<[u8; CONTENT_KEY_BYTES]>);

impl ContentKey {
    /// `None` unless there are 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(Box::new(bytes.try_into().ok()?)))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &*self.0
    }

    pub(super) fn random() -> Result<Self, Error> {
        let mut key = Self(Box::new([0; CONTENT_KEY_BYTES]));
        fill_random(&mut *key.0)?;
        Ok(key)
    }
}

impl Drop for ContentKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentKey(…)")
    }
}

/// Keys must come from the system: the other random numbers of this crate are different, but not secret.
pub(super) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| {
        Error::new(ErrorKind::Unavailable, format!("the system has no random numbers: {error}"))
    })
}

/// A key that content keys are wrapped with: in memory ([`AesKey`]), in Azure Key Vault, in a hardware module.
///
/// RSA-OAEP, which the old clients have too, is an implementation of this with the library of your choice:
///
/// ```
/// use std::sync::Arc;
/// use tepui_client::patterns::encryption::{ContentKey, KeyEncryptionKey, KeyFailure, KeyFuture};
/// # trait Rsa: Send + Sync {
/// #     fn encrypt_oaep(&self, plain: &[u8]) -> Result<Vec<u8>, std::io::Error>;
/// #     fn decrypt_oaep(&self, encrypted: &[u8]) -> Option<Vec<u8>>;
/// # }
///
/// struct RsaKey {
///     id: String,
///     rsa: Arc<dyn Rsa>,
/// }
///
/// impl KeyEncryptionKey for RsaKey {
///     fn id(&self) -> &str {
///         &self.id
///     }
///     fn algorithm(&self) -> &str {
///         "RSA-OAEP"
///     }
///     fn wrap<'a>(&'a self, key: &'a ContentKey) -> KeyFuture<'a, Vec<u8>> {
///         Box::pin(async { self.rsa.encrypt_oaep(key.as_bytes()).map_err(KeyFailure::unavailable) })
///     }
///     fn unwrap<'a>(&'a self, wrapped: &'a [u8], algorithm: &'a str) -> KeyFuture<'a, ContentKey> {
///         Box::pin(async move {
///             let bytes = (algorithm == "RSA-OAEP").then(|| self.rsa.decrypt_oaep(wrapped)).flatten();
///             bytes.and_then(|bytes| ContentKey::from_bytes(&bytes)).ok_or(KeyFailure::Rejected)
///         })
///     }
/// }
/// ```
///
/// With a key whose public half others know, they can also encrypt: that it decrypts does not say who wrote it.
pub trait KeyEncryptionKey: Send + Sync + 'static {
    /// What the key is found by again. It is stored in the clear with each entity.
    fn id(&self) -> &str;

    /// How [`wrap`](Self::wrap) wraps, by the name that JSON Web Algorithms (RFC 7518) have for it.
    fn algorithm(&self) -> &str;

    fn wrap<'a>(&'a self, key: &'a ContentKey) -> KeyFuture<'a, Vec<u8>>;

    /// What was wrapped with this algorithm, which may be another than that of today.
    fn unwrap<'a>(&'a self, wrapped: &'a [u8], algorithm: &'a str) -> KeyFuture<'a, ContentKey>;
}

/// What a key or a resolver is asked for; it may have to ask others.
pub type KeyFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, KeyFailure>> + Send + 'a>>;

/// Why a key did not do what it was asked for.
pub enum KeyFailure {
    /// The wrapped key, or its algorithm, is not what this key has made. Nothing more is told: whoever can change what is
    /// stored must not learn from it.
    Rejected,
    /// The key itself cannot be used now. This says nothing about what is stored.
    Unavailable(Box<dyn StdError + Send + Sync>),
}

impl KeyFailure {
    pub fn unavailable(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Unavailable(cause.into())
    }
}

impl fmt::Debug for KeyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected => f.write_str("Rejected"),
            Self::Unavailable(cause) => write!(f, "Unavailable({cause})"),
        }
    }
}

/// An AES key in memory that wraps as RFC 3394 has it: `A128KW`, `A192KW` or `A256KW` by its length.
///
/// ```
/// use tepui_client::patterns::encryption::{AesKey, KeyEncryptionKey};
/// let key = AesKey::new("2026-11", &[7; 32])?;
/// assert_eq!((key.id(), key.algorithm()), ("2026-11", "A256KW"));
/// assert!(AesKey::new("short", &[7; 31]).is_err());
/// # Ok::<(), tepui_client::Error>(())
/// ```
pub struct AesKey {
    id: String,
    cipher: AesCipher,
}

/// They overwrite their round keys when they are dropped. Boxed, because these are large.
enum AesCipher {
    Aes128(Box<KwAes128>),
    Aes192(Box<KwAes192>),
    Aes256(Box<KwAes256>),
}

impl AesKey {
    /// From 16, 24 or 32 bytes.
    pub fn new(id: impl Into<String>, key: &[u8]) -> Result<Self, Error> {
        let cipher = if let Ok(cipher) = KwAes128::new_from_slice(key) {
            AesCipher::Aes128(Box::new(cipher))
        } else if let Ok(cipher) = KwAes192::new_from_slice(key) {
            AesCipher::Aes192(Box::new(cipher))
        } else if let Ok(cipher) = KwAes256::new_from_slice(key) {
            AesCipher::Aes256(Box::new(cipher))
        } else {
            let message = format!("a key of AES has 16, 24 or 32 bytes, this one has {}", key.len());
            return Err(Error::new(ErrorKind::Configuration, message));
        };
        Ok(Self { id: id.into(), cipher })
    }

    fn wrap_now(&self, key: &ContentKey) -> Option<Vec<u8>> {
        let mut wrapped = vec![0; CONTENT_KEY_BYTES + WRAPPING_BYTES];
        match &self.cipher {
            AesCipher::Aes128(cipher) => cipher.wrap_key(key.as_bytes(), &mut wrapped).ok()?,
            AesCipher::Aes192(cipher) => cipher.wrap_key(key.as_bytes(), &mut wrapped).ok()?,
            AesCipher::Aes256(cipher) => cipher.wrap_key(key.as_bytes(), &mut wrapped).ok()?,
        };
        Some(wrapped)
    }

    fn unwrap_now(&self, wrapped: &[u8], algorithm: &str) -> Option<ContentKey> {
        if algorithm != self.algorithm() {
            return None;
        }
        let mut key = Zeroizing::new([0; CONTENT_KEY_BYTES]);
        let key = match &self.cipher {
            AesCipher::Aes128(cipher) => cipher.unwrap_key(wrapped, &mut *key).ok()?,
            AesCipher::Aes192(cipher) => cipher.unwrap_key(wrapped, &mut *key).ok()?,
            AesCipher::Aes256(cipher) => cipher.unwrap_key(wrapped, &mut *key).ok()?,
        };
        ContentKey::from_bytes(key)
    }
}

impl KeyEncryptionKey for AesKey {
    fn id(&self) -> &str {
        &self.id
    }

    fn algorithm(&self) -> &str {
        match self.cipher {
            AesCipher::Aes128(_) => "A128KW",
            AesCipher::Aes192(_) => "A192KW",
            AesCipher::Aes256(_) => "A256KW",
        }
    }

    fn wrap<'a>(&'a self, key: &'a ContentKey) -> KeyFuture<'a, Vec<u8>> {
        Box::pin(ready(self.wrap_now(key).ok_or(KeyFailure::Rejected)))
    }

    fn unwrap<'a>(&'a self, wrapped: &'a [u8], algorithm: &'a str) -> KeyFuture<'a, ContentKey> {
        Box::pin(ready(self.unwrap_now(wrapped, algorithm).ok_or(KeyFailure::Rejected)))
    }
}

/// Never prints the key.
impl fmt::Debug for AesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Finds keys by their id, for what was written with another key than that of today.
pub trait KeyResolver: Send + Sync + 'static {
    /// `None` if there is no such key.
    fn key<'a>(&'a self, id: &'a str) -> KeyFuture<'a, Option<Arc<dyn KeyEncryptionKey>>>;
}

/// Keys that are all in memory.
///
/// ```
/// use tepui_client::patterns::encryption::{AesKey, KeyRing};
/// let keys = KeyRing::new().with(AesKey::new("2025", &[1; 32])?).with(AesKey::new("2026", &[2; 32])?);
/// # Ok::<(), tepui_client::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct KeyRing(HashMap<String, Arc<dyn KeyEncryptionKey>>);

impl KeyRing {
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more key. It takes the place of one with the same id.
    #[must_use]
    pub fn with(mut self, key: impl KeyEncryptionKey) -> Self {
        self.0.insert(key.id().to_owned(), Arc::new(key));
        self
    }
}

impl KeyResolver for KeyRing {
    fn key<'a>(&'a self, id: &'a str) -> KeyFuture<'a, Option<Arc<dyn KeyEncryptionKey>>> {
        Box::pin(ready(Ok(self.0.get(id).cloned())))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyRing").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3394, 4.6: 256 bits of key data wrapped with a key of 256 bits.
    #[test]
    fn the_vector_of_the_rfc() {
        let bytes = |from: u8, count: u8| (0..count).map(|index| from + index).collect::<Vec<u8>>();
        let mut data = bytes(0x00, 16);
        for value in 0..16_u8 {
            data[usize::from(value)] = value << 4 | value;
        }
        data.extend(bytes(0x00, 16));
        let key = AesKey::new("rfc", &bytes(0x00, 32)).unwrap();
        let content = ContentKey::from_bytes(&data).unwrap();
        let wrapped = key.wrap_now(&content).unwrap();
        let expected = [
            0x28, 0xC9, 0xF4, 0x04, 0xC4, 0xB8, 0x10, 0xF4, 0xCB, 0xCC, 0xB3, 0x5C, 0xFB, 0x87, 0xF8, 0x26,
            0x3F, 0x57, 0x86, 0xE2, 0xD8, 0x0E, 0xD3, 0x26, 0xCB, 0xC7, 0xF0, 0xE7, 0x1A, 0x99, 0xF4, 0x3B,
            0xFB, 0x98, 0x8B, 0x9B, 0x7A, 0x02, 0xDD, 0x21,
        ];
        assert_eq!(wrapped, expected);
        assert_eq!(key.unwrap_now(&wrapped, "A256KW").unwrap().as_bytes(), data);
    }

    #[test]
    fn keys_of_all_lengths_wrap_and_unwrap() {
        for (bytes, algorithm) in [(16, "A128KW"), (24, "A192KW"), (32, "A256KW")] {
            let key = AesKey::new("k", &vec![3; bytes]).unwrap();
            assert_eq!(key.algorithm(), algorithm);
            let content = ContentKey::random().unwrap();
            let mut wrapped = key.wrap_now(&content).unwrap();
            assert_eq!(key.unwrap_now(&wrapped, algorithm).unwrap().as_bytes(), content.as_bytes());
            assert!(key.unwrap_now(&wrapped, "A512KW").is_none());
            assert!(key.unwrap_now(&wrapped[..32], algorithm).is_none());
            assert!(key.unwrap_now(&[0; 400], algorithm).is_none());
            wrapped[5] ^= 1;
            assert!(key.unwrap_now(&wrapped, algorithm).is_none());
        }
    }

    #[test]
    fn nothing_prints_a_key() {
        let key = AesKey::new("name", &[0x5A; 32]).unwrap();
        let content = ContentKey::from_bytes(&[0x5A; 32]).unwrap();
        let printed = format!("{key:?} {content:?}");
        let printed = format!("{printed} {:?}", KeyRing::new().with(key));
        for text in ["90", "5a", "5A"] {
            assert!(!printed.contains(text), "{printed}");
        }
        assert!(printed.contains("name"));
    }
}
