//! Encryption with customer-provided keys: AES-256-GCM by frames, so that ranges can be read.
//! `docs/decisions/0008-customer-provided-keys.md` has the reasons.
//!
//! Every upload is encrypted with a key of its own, derived from the customer's key and a random salt, which is stored
//! before the frames. So the number of a frame can be its nonce, and no nonce is used twice with a key.

use aes_gcm::aead::{Aead, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce};
use bytes::{Bytes, BytesMut};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use std::ops::Range;
use tepui_model::blob::{CustomerSecret, Encryption};
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError};

/// The unit of encryption and authentication. The last frame may be shorter, but not empty.
pub(super) const FRAME_BYTES: u64 = 16 * 1024;
const SALT_BYTES: u64 = 32;
const TAG_BYTES: u64 = 16;
/// Separates these keys from keys derived for other purposes.
const PURPOSE: &[u8] = b"tepui blob content 1";

type Salt = [u8; SALT_BYTES as usize];

/// The length of the plaintext for a length of the ciphertext.
pub(crate) fn plain_bytes(encrypted_bytes: u64) -> u64 {
    let frames = encrypted_bytes.saturating_sub(SALT_BYTES);
    frames.saturating_sub(frames.div_ceil(FRAME_BYTES + TAG_BYTES) * TAG_BYTES)
}

/// Boxed, because it is large: it has the keys of all rounds.
fn cipher(secret: &CustomerSecret, salt: &Salt) -> Box<Aes256Gcm> {
    let mut mac =
        <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
    mac.update(PURPOSE);
    mac.update(salt);
    Box::new(Aes256Gcm::new(&<[u8; 32]>::from(mac.finalize().into_bytes()).into()))
}

/// The number of a frame, and whether it is the last: truncation and reordering are detected.
fn nonce(frame: u64, is_last: bool) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&frame.to_be_bytes());
    nonce[11] = is_last.into();
    nonce
}

fn failed(what: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InternalError).with_cause(what)
}

/// Encrypts a stream.
pub(super) struct Encryptor {
    cipher: Box<Aes256Gcm>,
    /// The plaintext of the next frame, which may be the last.
    plain: BytesMut,
    frame: u64,
    /// Ciphertext that was not returned yet.
    encrypted: BytesMut,
}

impl Encryptor {
    pub(super) fn new(secret: &CustomerSecret) -> Result<Self, ServiceError> {
        let mut salt = Salt::default();
        getrandom::fill(&mut salt).map_err(|error| failed(&format!("no random bytes: {error}")))?;
        let encrypted = BytesMut::from(&salt[..]);
        Ok(Self { cipher: cipher(secret, &salt), plain: BytesMut::new(), frame: 0, encrypted })
    }

    /// Encrypts bytes. Returns the frames that are complete.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<Bytes, ServiceError> {
        while !bytes.is_empty() {
            if self.plain.len() as u64 == FRAME_BYTES {
                self.encrypt(false)?;
            }
            let count = bytes.len().min(FRAME_BYTES as usize - self.plain.len());
            self.plain.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
        }
        Ok(self.encrypted.split().freeze())
    }

    /// Returns the last frame.
    pub(super) fn finish(mut self) -> Result<Bytes, ServiceError> {
        self.encrypt(true)?;
        Ok(self.encrypted.freeze())
    }

    fn encrypt(&mut self, is_last: bool) -> Result<(), ServiceError> {
        let nonce = Nonce::from(nonce(self.frame, is_last));
        let frame = self.cipher.encrypt(&nonce, &self.plain[..]).map_err(|_| failed("cannot encrypt"))?;
        self.encrypted.extend_from_slice(&frame);
        self.plain.clear();
        self.frame += 1;
        Ok(())
    }
}

/// Encrypts a few bytes.
pub(super) fn encrypt(secret: &CustomerSecret, bytes: &[u8]) -> Result<Bytes, ServiceError> {
    let mut encryptor = Encryptor::new(secret)?;
    let begin = encryptor.push(bytes)?;
    Ok([begin, encryptor.finish()?].concat().into())
}

/// Decrypts a few bytes.
pub(super) fn decrypt(
    secret: &CustomerSecret,
    encrypted: &[u8],
    range: Range<u64>,
) -> Result<Bytes, ServiceError> {
    let within = |range: Range<u64>| encrypted.get(range.start as usize..range.end as usize);
    let (salt, frames) = (within(Decryptor::SALT), Frames::of(encrypted.len() as u64, range));
    let (salt, found) =
        salt.zip(within(frames.stored())).ok_or_else(|| failed("encrypted bytes are missing"))?;
    Decryptor::new(secret, salt)?.decrypt(&frames, found)
}

/// The name under which encrypted metadata is stored. Names in requests cannot contain `$`.
const ENCRYPTED: &str = "$encrypted";

/// Metadata as it is stored: encrypted, if the request has a key.
pub(super) fn stored_metadata(
    metadata: &Metadata,
    encryption: &Encryption,
) -> Result<Metadata, ServiceError> {
    let Some(secret) = encryption.secret.as_ref().filter(|_| !metadata.is_empty()) else {
        return Ok(metadata.clone());
    };
    // Neither names nor values contain NUL.
    let plain: String = metadata.iter().map(|(name, value)| format!("{name}\0{value}\0")).collect();
    let text = encrypt(secret, plain.as_bytes())?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Metadata::from_stored(vec![(ENCRYPTED.to_owned(), text)]))
}

/// Decrypts metadata. Earlier builds did not encrypt it.
pub(super) fn decrypted_metadata(
    stored: Metadata,
    encryption: &Encryption,
) -> Result<Metadata, ServiceError> {
    let Some((_, text)) = stored.iter().next().filter(|(name, _)| *name == ENCRYPTED) else {
        return Ok(stored);
    };
    let encrypted = unhex(text);
    let (encrypted, secret) = encrypted.zip(encryption.secret.as_ref()).ok_or_else(unreadable_metadata)?;
    let plain = decrypt(secret, &encrypted, 0..plain_bytes(encrypted.len() as u64))?;
    let plain = std::str::from_utf8(&plain).map_err(|_| unreadable_metadata())?;
    let mut texts = plain.split_terminator('\0').map(str::to_owned);
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        pairs.push((name, value));
    }
    Ok(Metadata::from_stored(pairs))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

fn unreadable_metadata() -> ServiceError {
    failed("encrypted metadata cannot be read")
}

/// The frames that contain a range.
pub(super) struct Frames {
    encrypted_bytes: u64,
    range: Range<u64>,
    frames: Range<u64>,
}

impl Frames {
    /// `range` is of the plaintext.
    pub(super) fn of(encrypted_bytes: u64, range: Range<u64>) -> Self {
        let frames = range.start / FRAME_BYTES..range.end.div_ceil(FRAME_BYTES);
        Self { encrypted_bytes, range, frames }
    }

    /// Their range in the ciphertext.
    pub(super) fn stored(&self) -> Range<u64> {
        let begins = |frame: u64| SALT_BYTES + frame * (FRAME_BYTES + TAG_BYTES);
        begins(self.frames.start)..begins(self.frames.end).min(self.encrypted_bytes)
    }
}

/// Decrypts the output of one [`Encryptor`].
pub(super) struct Decryptor(Box<Aes256Gcm>);

impl Decryptor {
    /// The range of the salt in the ciphertext.
    pub(super) const SALT: Range<u64> = 0..SALT_BYTES;

    pub(super) fn new(secret: &CustomerSecret, salt: &[u8]) -> Result<Self, ServiceError> {
        let salt = salt.try_into().map_err(|_| failed("encrypted bytes have no salt"))?;
        Ok(Self(cipher(secret, &salt)))
    }

    /// The plaintext of the range. `found` is the ciphertext of the frames.
    pub(super) fn decrypt(&self, frames: &Frames, found: &[u8]) -> Result<Bytes, ServiceError> {
        let all = plain_bytes(frames.encrypted_bytes).div_ceil(FRAME_BYTES);
        let mut plain = BytesMut::with_capacity(found.len());
        for (frame, bytes) in frames.frames.clone().zip(found.chunks((FRAME_BYTES + TAG_BYTES) as usize)) {
            let nonce = Nonce::from(nonce(frame, frame + 1 == all));
            let bytes = self.0.decrypt(&nonce, bytes);
            plain.extend_from_slice(&bytes.map_err(|_| failed("encrypted bytes are not what was written"))?);
        }
        let begin = frames.frames.start * FRAME_BYTES;
        let within = (frames.range.start - begin) as usize..(frames.range.end - begin) as usize;
        match within.end <= plain.len() {
            true => Ok(plain.freeze().slice(within)),
            false => Err(failed("encrypted bytes are missing")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: CustomerSecret = CustomerSecret([7; 32]);
    const FRAME: usize = FRAME_BYTES as usize;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn every_range_is_read_back() {
        for count in [1, 2, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME, 3 * FRAME + 5] {
            let plain = bytes(count);
            let encrypted = encrypt(&SECRET, &plain).unwrap();
            assert_eq!(plain_bytes(encrypted.len() as u64), count as u64);
            for range in [0..count, 0..1, count - 1..count, count / 2..count, count / 3..count / 3 + 1] {
                let read = decrypt(&SECRET, &encrypted, range.start as u64..range.end as u64);
                assert!(read.unwrap() == plain[range.clone()], "{count} {range:?}");
            }
        }
    }

    #[test]
    fn pieces_make_no_difference() {
        let plain = bytes(3 * FRAME + 100);
        for size in [1, 1000, FRAME, plain.len()] {
            let mut encryptor = Encryptor::new(&SECRET).unwrap();
            let mut encrypted = Vec::new();
            for piece in plain.chunks(size) {
                encrypted.extend_from_slice(&encryptor.push(piece).unwrap());
            }
            encrypted.extend_from_slice(&encryptor.finish().unwrap());
            let read = decrypt(&SECRET, &encrypted, 0..plain.len() as u64).unwrap();
            assert!(read == plain, "{size}");
        }
    }

    #[test]
    fn the_same_bytes_are_encrypted_differently_each_time() {
        let encrypted = [(); 2].map(|()| encrypt(&SECRET, b"the same").unwrap());
        assert!(encrypted[0] != encrypted[1] && encrypted[0][32..] != encrypted[1][32..]);
    }

    #[test]
    fn metadata_is_read_back() {
        let pairs = |pairs: &[(&str, &str)]| {
            Metadata::from_stored(
                pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            )
        };
        let with = |secret| Encryption { secret, ..Encryption::default() };
        for known in [pairs(&[]), pairs(&[("a", "1"), ("empty", ""), ("city", "Köln")])] {
            let stored = stored_metadata(&known, &with(Some(SECRET))).unwrap();
            assert!(known.is_empty() || stored.iter().all(|(name, _)| name == ENCRYPTED));
            assert_eq!(decrypted_metadata(stored, &with(Some(SECRET))), Ok(known.clone()));
            // As earlier builds stored it, and as it is stored without a key.
            assert_eq!(stored_metadata(&known, &with(None)), Ok(known.clone()));
            assert_eq!(decrypted_metadata(known.clone(), &with(Some(SECRET))), Ok(known));
        }
        let stored = stored_metadata(&pairs(&[("a", "1")]), &with(Some(SECRET))).unwrap();
        assert!(decrypted_metadata(stored.clone(), &with(None)).is_err());
        assert!(decrypted_metadata(stored, &with(Some(CustomerSecret([8; 32])))).is_err());
    }

    #[test]
    fn what_is_not_as_it_was_written_is_refused() {
        let encrypted = encrypt(&SECRET, &bytes(2 * FRAME + 9)).unwrap();
        let stride = FRAME + TAG_BYTES as usize;
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = encrypted.to_vec();
            change(&mut bytes);
            bytes
        };
        for (case, secret, bytes) in [
            ("another key", CustomerSecret([8; 32]), encrypted.to_vec()),
            ("another salt", SECRET, changed(&|bytes| bytes[0] ^= 1)),
            ("another byte", SECRET, changed(&|bytes| bytes[40] ^= 1)),
            ("the last frame is cut off", SECRET, changed(&|bytes| bytes.truncate(32 + 2 * stride))),
            ("a part of a frame is cut off", SECRET, changed(&|bytes| bytes.truncate(32 + 2 * stride + 20))),
            (
                "frames in another order",
                SECRET,
                changed(&|bytes| bytes[32..32 + 2 * stride].rotate_left(stride)),
            ),
            ("nothing", SECRET, Vec::new()),
            ("a salt only", SECRET, changed(&|bytes| bytes.truncate(32))),
        ] {
            let range = 0..plain_bytes(bytes.len() as u64).max(1);
            assert!(decrypt(&secret, &bytes, range).is_err(), "{case}");
        }
    }
}
