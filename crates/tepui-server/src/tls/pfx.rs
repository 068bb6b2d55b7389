//! PFX files (PKCS#12): the private key and the certificates inside, by a password.
//!
//! Our own reader, as a crate for it brings some forty others along, and what we need is on one page of RFC 7292: the files that
//! OpenSSL, .NET, Windows, Java and mkcert write. Encrypted by PBES2 with AES or Triple DES, or as older programs do it, with
//! Triple DES or RC2; checked by an HMAC with a SHA.

use super::der::{CONTEXT_0, Der, IMPLICIT_0, OCTETS, OID, SEQUENCE};
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockCipherDecrypt, BlockModeDecrypt as _, InnerIvInit as _, KeyInit};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Pfx {
    pub(super) keys: Vec<PrivateKeyDer<'static>>,
    pub(super) certificates: Vec<CertificateDer<'static>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PfxError {
    /// It is no PFX file, or broken.
    Malformed,
    WrongPassword,
    /// It is encrypted or checked in a way that is not known here.
    Unsupported,
}

impl fmt::Display for PfxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "it is no PFX file",
            Self::WrongPassword => "the password is not that of the file",
            Self::Unsupported => {
                "it is encrypted in a way that is not known here: `openssl pkcs12 -export` writes one that is"
            }
        })
    }
}

impl std::error::Error for PfxError {}

use PfxError::{Malformed, Unsupported, WrongPassword};

/// Objects of PKCS#7, 9 and 12: all begin with 1.2.840.113549.1.
const PKCS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01];
const DATA: &[u8] = &[7, 1];
const ENCRYPTED_DATA: &[u8] = &[7, 6];
const X509_CERTIFICATE: &[u8] = &[9, 22, 1];
const KEY_BAG: &[u8] = &[12, 10, 1, 1];
const ENCRYPTED_KEY_BAG: &[u8] = &[12, 10, 1, 2];
const CERTIFICATE_BAG: &[u8] = &[12, 10, 1, 3];
const NESTED_BAG: &[u8] = &[12, 10, 1, 6];
const PBKDF2: &[u8] = &[5, 12];
const PBES2: &[u8] = &[5, 13];

/// More would keep the server from starting.
const MAX_ITERATIONS: u32 = 10_000_000;
const MAX_DEPTH: usize = 4;

impl Pfx {
    pub(super) fn open(file: &[u8], password: &str) -> Result<Self, PfxError> {
        let mut fields = Der::new(file).inside(SEQUENCE).ok_or(Malformed)?;
        if fields.number() != Some(3) {
            return Err(Malformed);
        }
        let mut safe = fields.inside(SEQUENCE).ok_or(Malformed)?;
        let content = match object(&mut safe) {
            Some(DATA) => safe.inside(CONTEXT_0).and_then(|mut inside| inside.take(OCTETS)),
            // Signed by a certificate instead: nobody does.
            Some(_) => return Err(Unsupported),
            None => None,
        };
        let content = content.ok_or(Malformed)?;
        let secret = Password::new(password);
        if !fields.is_empty() {
            check(&mut fields, content, &secret)?;
        }
        let mut found = Self::default();
        let mut parts = Der::new(content).inside(SEQUENCE).ok_or(Malformed)?;
        while let Some(mut part) = parts.inside(SEQUENCE) {
            let kind = object(&mut part);
            let mut inside = part.inside(CONTEXT_0).ok_or(Malformed)?;
            match kind {
                Some(DATA) => found.read_bags(inside.take(OCTETS).ok_or(Malformed)?, &secret, 0)?,
                Some(ENCRYPTED_DATA) => {
                    let mut encrypted = inside.inside(SEQUENCE).ok_or(Malformed)?;
                    encrypted.number().ok_or(Malformed)?;
                    let mut encrypted = encrypted.inside(SEQUENCE).ok_or(Malformed)?;
                    encrypted.take(OID).ok_or(Malformed)?;
                    let scheme = encrypted.inside(SEQUENCE).ok_or(Malformed)?;
                    let bytes = encrypted.take(IMPLICIT_0).ok_or(Malformed)?;
                    found.read_bags(&decrypt(scheme, bytes, &secret)?, &secret, 0)?;
                }
                _ => return Err(Unsupported),
            }
        }
        Ok(found)
    }

    fn read_bags(&mut self, bags: &[u8], secret: &Password<'_>, depth: usize) -> Result<(), PfxError> {
        let mut bags = Der::new(bags).inside(SEQUENCE).ok_or(Malformed)?;
        while let Some(mut bag) = bags.inside(SEQUENCE) {
            let kind = object(&mut bag);
            let value = bag.take(CONTEXT_0).ok_or(Malformed)?;
            match kind {
                Some(KEY_BAG) => self.keys.push(pkcs8(value.to_vec())),
                Some(ENCRYPTED_KEY_BAG) => {
                    let mut key = Der::new(value).inside(SEQUENCE).ok_or(Malformed)?;
                    let scheme = key.inside(SEQUENCE).ok_or(Malformed)?;
                    let bytes = key.take(OCTETS).ok_or(Malformed)?;
                    self.keys.push(pkcs8(decrypt(scheme, bytes, secret)?));
                }
                Some(CERTIFICATE_BAG) => {
                    let mut certificate = Der::new(value).inside(SEQUENCE).ok_or(Malformed)?;
                    if object(&mut certificate) == Some(X509_CERTIFICATE) {
                        let bytes = certificate.inside(CONTEXT_0).and_then(|mut inside| inside.take(OCTETS));
                        self.certificates.push(bytes.ok_or(Malformed)?.to_vec().into());
                    }
                }
                Some(NESTED_BAG) if depth < MAX_DEPTH => self.read_bags(value, secret, depth + 1)?,
                // Secrets and lists of revoked certificates.
                _ => {}
            }
        }
        Ok(())
    }
}

fn pkcs8(der: Vec<u8>) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(der).into()
}

/// The next element as an object below `PKCS`.
fn object<'a>(der: &mut Der<'a>) -> Option<&'a [u8]> {
    der.take(OID)?.strip_prefix(PKCS)
}

/// A password as the two schemes want it.
struct Password<'a> {
    utf8: &'a [u8],
    /// Letters of two bytes, and a zero.
    utf16: Vec<u8>,
}

impl<'a> Password<'a> {
    fn new(text: &'a str) -> Self {
        let utf16 = text.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect();
        Self { utf8: text.as_bytes(), utf16 }
    }
}

/// Checks the code of the file, which tells a wrong password from a broken file.
fn check(fields: &mut Der<'_>, content: &[u8], secret: &Password<'_>) -> Result<(), PfxError> {
    const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
    const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
    const SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
    const SHA512: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03];
    let mut code = fields.inside(SEQUENCE).ok_or(Malformed)?;
    let mut digest_info = code.inside(SEQUENCE).ok_or(Malformed)?;
    let mut algorithm = digest_info.inside(SEQUENCE).ok_or(Malformed)?;
    let algorithm = match algorithm.take(OID).ok_or(Malformed)? {
        SHA1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        SHA256 => hmac::HMAC_SHA256,
        SHA384 => hmac::HMAC_SHA384,
        SHA512 => hmac::HMAC_SHA512,
        _ => return Err(Unsupported),
    };
    let expected = digest_info.take(OCTETS).ok_or(Malformed)?;
    let salt = code.take(OCTETS).ok_or(Malformed)?;
    let iterations = if code.is_empty() { 1 } else { iterations(&mut code)?.get() };
    const FOR_CODES: u8 = 3;
    let hash = algorithm.digest_algorithm();
    let key = derive(hash, FOR_CODES, &secret.utf16, salt, iterations, hash.output_len());
    hmac::verify(&hmac::Key::new(algorithm, &key), content, expected).map_err(|_| WrongPassword)
}

fn iterations(der: &mut Der<'_>) -> Result<NonZeroU32, PfxError> {
    let number = der.number().and_then(NonZeroU32::new).ok_or(Malformed)?;
    if number.get() > MAX_ITERATIONS { Err(Unsupported) } else { Ok(number) }
}

fn decrypt(mut scheme: Der<'_>, bytes: &[u8], secret: &Password<'_>) -> Result<Vec<u8>, PfxError> {
    let kind = object(&mut scheme).ok_or(Unsupported)?;
    let mut parameters = scheme.inside(SEQUENCE).ok_or(Malformed)?;
    if kind == PBES2 {
        return decrypt_pbes2(&mut parameters, bytes, secret);
    }
    let salt = parameters.take(OCTETS).ok_or(Malformed)?;
    let iterations = iterations(&mut parameters)?.get();
    const FOR_KEYS: u8 = 1;
    const FOR_VECTORS: u8 = 2;
    let hash = &digest::SHA1_FOR_LEGACY_USE_ONLY;
    let key = |length| derive(hash, FOR_KEYS, &secret.utf16, salt, iterations, length);
    let vector = derive(hash, FOR_VECTORS, &secret.utf16, salt, iterations, 8);
    match kind {
        [12, 1, 3] => decrypt_cbc::<des::TdesEde3>(&key(24), &vector, bytes),
        [12, 1, 4] => decrypt_cbc::<des::TdesEde2>(&key(16), &vector, bytes),
        [12, 1, 5] => decrypt_cbc::<rc2::Rc2>(&key(16), &vector, bytes),
        [12, 1, 6] => decrypt_cbc::<rc2::Rc2>(&key(5), &vector, bytes),
        _ => Err(Unsupported),
    }
}

fn decrypt_pbes2(parameters: &mut Der<'_>, bytes: &[u8], secret: &Password<'_>) -> Result<Vec<u8>, PfxError> {
    /// Below 1.2.840.113549.
    const TRIPLE_DES: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x03, 0x07];
    /// 2.16.840.1.101.3.4.1, without the number of the mode.
    const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];
    const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
    let mut derivation = parameters.inside(SEQUENCE).ok_or(Malformed)?;
    if object(&mut derivation) != Some(PBKDF2) {
        return Err(Unsupported);
    }
    let mut derivation = derivation.inside(SEQUENCE).ok_or(Malformed)?;
    let salt = derivation.take(OCTETS).ok_or(Malformed)?;
    let iterations = iterations(&mut derivation)?;
    let _length_of_key = derivation.number();
    let algorithm = match derivation.inside(SEQUENCE) {
        None => pbkdf2::PBKDF2_HMAC_SHA1,
        Some(mut function) => match function.take(OID).and_then(|object| object.strip_prefix(HMAC)) {
            Some([7]) => pbkdf2::PBKDF2_HMAC_SHA1,
            Some([9]) => pbkdf2::PBKDF2_HMAC_SHA256,
            Some([10]) => pbkdf2::PBKDF2_HMAC_SHA384,
            Some([11]) => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(Unsupported),
        },
    };
    let key = |length: usize| {
        let mut key = vec![0; length];
        pbkdf2::derive(algorithm, iterations, salt, secret.utf8, &mut key);
        key
    };
    let mut cipher = parameters.inside(SEQUENCE).ok_or(Malformed)?;
    let object = cipher.take(OID).ok_or(Malformed)?;
    let vector = cipher.take(OCTETS).ok_or(Malformed)?;
    match (object, object.strip_prefix(AES)) {
        (TRIPLE_DES, _) => decrypt_cbc::<des::TdesEde3>(&key(24), vector, bytes),
        (_, Some([2])) => decrypt_cbc::<aes::Aes128>(&key(16), vector, bytes),
        (_, Some([22])) => decrypt_cbc::<aes::Aes192>(&key(24), vector, bytes),
        (_, Some([42])) => decrypt_cbc::<aes::Aes256>(&key(32), vector, bytes),
        _ => Err(Unsupported),
    }
}

fn decrypt_cbc<C: BlockCipherDecrypt + KeyInit>(
    key: &[u8],
    vector: &[u8],
    bytes: &[u8],
) -> Result<Vec<u8>, PfxError> {
    let cipher = C::new_from_slice(key).map_err(|_| Unsupported)?;
    let cipher = cbc::Decryptor::inner_iv_slice_init(cipher, vector).map_err(|_| Malformed)?;
    // Where there is no code that was checked before.
    cipher.decrypt_padded_vec::<Pkcs7>(bytes).map_err(|_| WrongPassword)
}

/// A key or a vector from a password: RFC 7292, appendix B.2.
fn derive(
    hash: &'static digest::Algorithm,
    purpose: u8,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
    length: usize,
) -> Vec<u8> {
    let block = hash.block_len();
    let filled =
        |bytes: &[u8]| bytes.iter().copied().cycle().take(bytes.len().next_multiple_of(block)).collect();
    let (mut input, of_password): (Vec<u8>, Vec<u8>) = (filled(salt), filled(password));
    input.extend(of_password);
    let mut derived = Vec::with_capacity(length + hash.output_len());
    while derived.len() < length {
        let mut first = digest::Context::new(hash);
        first.update(&vec![purpose; block]);
        first.update(&input);
        let mut piece = first.finish();
        for _ in 1..iterations {
            piece = digest::digest(hash, piece.as_ref());
        }
        derived.extend_from_slice(piece.as_ref());
        // Each block of the input, as a number, grows by the piece and one.
        let added: Vec<u8> = piece.as_ref().iter().copied().cycle().take(block).collect();
        for part in input.chunks_mut(block) {
            let mut carry = 1;
            for (byte, added) in part.iter_mut().zip(&added).rev() {
                let sum = u16::from(*byte) + u16::from(*added) + carry;
                *byte = sum as u8;
                carry = sum >> 8;
            }
        }
    }
    derived.truncate(length);
    derived
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The vectors that Bouncy Castle and Mozilla test with.
    #[test]
    fn keys_from_passwords() {
        let password = Password::new("smeg").utf16;
        for (purpose, salt, iterations, expected) in [
            (1, "0a58cf64530d823f", 1, "8aaae6297b6cb04642ab5b077851284eb7128f1a2a7fbca3"),
            (2, "0a58cf64530d823f", 1, "79993dfe048d3b76"),
            (1, "642b99ab44fb4b1f", 1, "f3a95fec48d7711e985cfe67908c5ab79fa3d7c5caa5d966"),
            (2, "642b99ab44fb4b1f", 1, "c0a38d64a79bea1d"),
            (3, "3d83c0e4546ac140", 1, "8d967d88f6caa9d714800ab3d48051d63f73a312"),
        ] {
            let bytes = |text: &str| -> Vec<u8> {
                (0..text.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
                    .collect()
            };
            let expected = bytes(expected);
            let hash = &digest::SHA1_FOR_LEGACY_USE_ONLY;
            let derived = derive(hash, purpose, &password, &bytes(salt), iterations, expected.len());
            assert_eq!(derived, expected, "{purpose} {salt}");
        }
    }

    #[test]
    fn what_is_no_file() {
        for bytes in [&b""[..], b"-----BEGIN CERTIFICATE-----", &[0x30, 3, 2, 1, 3]] {
            assert_eq!(Pfx::open(bytes, "x").unwrap_err(), Malformed, "{bytes:?}");
        }
    }

    /// Every cut and every flipped bit is noticed, or harms nothing.
    #[test]
    fn files_that_were_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let openssl = |command: &str| {
            let mut openssl = std::process::Command::new("openssl");
            let done = openssl.args(command.split_whitespace()).current_dir(directory.path()).output();
            assert!(done.expect("openssl is installed").status.success(), "{command}");
        };
        openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 30 -keyout k.pem -out c.pem",
        );
        for options in ["", "-certpbe PBE-SHA1-3DES -keypbe PBE-SHA1-3DES -macalg sha1"] {
            let command =
                format!("pkcs12 -export -iter 1 -in c.pem -inkey k.pem -passout pass:x -out c.pfx {options}");
            let mut openssl = std::process::Command::new("openssl");
            let done = openssl.args(command.split_whitespace()).current_dir(directory.path()).output();
            assert!(done.expect("openssl is installed").status.success(), "{command}");
            let whole = std::fs::read(directory.path().join("c.pfx")).unwrap();
            let content = |bytes: &[u8]| {
                let read = Pfx::open(bytes, "x")?;
                let keys: Vec<Vec<u8>> = read.keys.iter().map(|key| key.secret_der().to_vec()).collect();
                Ok::<_, PfxError>((keys, read.certificates))
            };
            let expected = content(&whole).unwrap();
            assert_eq!((expected.0.len(), expected.1.len()), (1, 1));
            for length in 0..whole.len() {
                assert!(content(&whole[..length]).is_err(), "cut at {length}");
            }
            for bit in 0..8 * whole.len() {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                if let Ok(read) = content(&damaged) {
                    assert_eq!(read, expected, "bit {bit}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Pfx::open(&bytes, "x");
        }
    }
}
