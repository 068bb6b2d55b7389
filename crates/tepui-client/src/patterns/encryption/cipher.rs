//! Both ciphers, which encrypt one property at a time.
//!
//! | | `tepui/1` | V1 |
//! | --- | --- | --- |
//! | cipher | AES-256-GCM | AES-256-CBC with PKCS #7 padding |
//! | nonce, IV | SHA-256 of the entity's IV and the name | SHA-256 of the entity's IV, the row key, the partition key and the name; Java has the keys the other way round |
//! | changes are noticed | always | by chance |
//! | moved to another entity, name or type | noticed | by chance |
//! | types | all | texts |

use super::keys::ContentKey;
use super::metadata::{IV_BYTES, Protocol};
use crate::{EdmType, EntityKey, Guid, Timestamp, Value};
use aes::Aes256;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use aes_gcm::aead::{Aead as _, Payload};
use aes_gcm::{Aes256Gcm, KeyInit as _};
use sha2::{Digest as _, Sha256};
use tepui_model::table::ValueRef;
use zeroize::Zeroizing;

/// Separates the key of `tepui/1` from that of V1: bytes of one say nothing about bytes of the other, even if somebody
/// changes which of the two an entity claims to be.
const PURPOSE: &[u8] = b"tepui/1 content key";
const NONCE_BYTES: usize = 12;

/// Where an entity is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) table: &'a str,
    pub(super) key: &'a EntityKey,
}

/// Encrypts and decrypts the properties of one entity.
pub(super) struct EntityCipher<'a> {
    place: Place<'a>,
    iv: [u8; IV_BYTES],
    cipher: Cipher,
}

/// Boxed, because it has the keys of all rounds.
enum Cipher {
    Tepui1(Box<Aes256Gcm>),
    V1 { key: Zeroizing<Vec<u8>>, is_java: bool },
}

impl<'a> EntityCipher<'a> {
    pub(super) fn new(
        protocol: Protocol,
        key: &ContentKey,
        iv: [u8; IV_BYTES],
        place: Place<'a>,
    ) -> Option<Self> {
        let cipher = match protocol {
            Protocol::Tepui1 => {
                let derived = Sha256::new().chain_update(PURPOSE).chain_update(key.as_bytes()).finalize();
                let derived = Zeroizing::new(<[u8; 32]>::from(derived));
                Cipher::Tepui1(Box::new(Aes256Gcm::new_from_slice(&*derived).ok()?))
            }
            Protocol::V1 | Protocol::V1OfJava => Cipher::V1 {
                key: Zeroizing::new(key.as_bytes().to_vec()),
                is_java: protocol == Protocol::V1OfJava,
            },
        };
        Some(Self { place, iv, cipher })
    }

    /// `None` if the protocol has no such type.
    pub(super) fn encrypt(&self, name: &str, value: ValueRef<'_>) -> Option<Vec<u8>> {
        let plain = to_bytes(value);
        match &self.cipher {
            Cipher::Tepui1(cipher) => {
                let bound = self.bound_to(name, value.edm_type());
                cipher.encrypt(&self.nonce(name).into(), Payload { msg: &plain, aad: &bound }).ok()
            }
            Cipher::V1 { key, is_java } if value.edm_type() == EdmType::String => {
                let iv = self.iv_of_v1(name, *is_java);
                let cipher = cbc::Encryptor::<Aes256>::new_from_slices(key, &iv).ok()?;
                Some(cipher.encrypt_padded_vec::<Pkcs7>(&plain))
            }
            Cipher::V1 { .. } => None,
        }
    }

    /// `None` for whatever reason: an attacker must not be told which it is.
    pub(super) fn decrypt(&self, name: &str, as_type: EdmType, encrypted: &[u8]) -> Option<Value> {
        let plain = Zeroizing::new(match &self.cipher {
            Cipher::Tepui1(cipher) => {
                let bound = self.bound_to(name, as_type);
                cipher.decrypt(&self.nonce(name).into(), Payload { msg: encrypted, aad: &bound }).ok()?
            }
            Cipher::V1 { key, is_java } => {
                let iv = self.iv_of_v1(name, *is_java);
                let cipher = cbc::Decryptor::<Aes256>::new_from_slices(key, &iv).ok()?;
                cipher.decrypt_padded_vec::<Pkcs7>(encrypted).ok()?
            }
        });
        from_bytes(as_type, &plain)
    }

    fn iv_of_v1(&self, name: &str, is_java: bool) -> [u8; IV_BYTES] {
        let EntityKey { partition_key, row_key } = self.place.key;
        let keys = if is_java { [partition_key, row_key] } else { [row_key, partition_key] };
        let mut hash = Sha256::new().chain_update(self.iv);
        keys.into_iter().for_each(|key| hash.update(key));
        first_bytes(hash.chain_update(name))
    }

    /// A content key is for one version of an entity, and names are different: no nonce is used twice with a key.
    fn nonce(&self, name: &str) -> [u8; NONCE_BYTES] {
        first_bytes(Sha256::new().chain_update(self.iv).chain_update(name))
    }

    /// What must be the same when it is decrypted. Each part has its length before it, so that none can run into the next.
    fn bound_to(&self, name: &str, edm_type: EdmType) -> Vec<u8> {
        let Place { table, key } = self.place;
        // Names of tables are the same in any case.
        let table = table.to_ascii_lowercase();
        let mut bound = Vec::with_capacity(128);
        for part in ["tepui/1", &table, &key.partition_key, &key.row_key, name, edm_type.name()] {
            bound.extend((part.len() as u64).to_be_bytes());
            bound.extend(part.as_bytes());
        }
        bound
    }
}

fn first_bytes<const N: usize>(hash: Sha256) -> [u8; N] {
    let hash: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|index| hash[index])
}

fn to_bytes(value: ValueRef<'_>) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(match value {
        ValueRef::String(text) => text.bytes().to_vec(),
        ValueRef::Int32(number) => number.to_be_bytes().to_vec(),
        ValueRef::Int64(number) => number.to_be_bytes().to_vec(),
        ValueRef::Double(number) => number.to_bits().to_be_bytes().to_vec(),
        ValueRef::Boolean(truth) => vec![truth.into()],
        ValueRef::DateTime(time) => time.ticks().to_be_bytes().to_vec(),
        ValueRef::Guid(guid) => guid.0.to_vec(),
        ValueRef::Binary(bytes) => bytes.to_vec(),
    })
}

fn from_bytes(edm_type: EdmType, bytes: &[u8]) -> Option<Value> {
    Some(match edm_type {
        EdmType::String => Value::String(std::str::from_utf8(bytes).ok()?.to_owned()),
        EdmType::Int32 => Value::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Int64 => Value::Int64(i64::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Double => Value::Double(f64::from_bits(u64::from_be_bytes(bytes.try_into().ok()?))),
        EdmType::Boolean => Value::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        EdmType::DateTime => {
            Value::DateTime(Timestamp::from_ticks(u64::from_be_bytes(bytes.try_into().ok()?))?)
        }
        EdmType::Guid => Value::Guid(Guid(bytes.try_into().ok()?)),
        EdmType::Binary => Value::Binary(bytes.to_vec()),
    })
}
