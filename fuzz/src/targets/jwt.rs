//! Bearer tokens: as they are, and as headers and claims that somebody has signed. Keys of issuers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use std::sync::LazyLock;
use std::time::Duration;
use tepui_identity::{DevelopmentIssuer, Directory, KeySet};
use tepui_model::{Service, Timestamp, guid};

pub(super) const WORDS: &[&str] = &[
    ".",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "=",
    "\"iss\":\"https://development-issuer.tepui.invalid\"",
    "\"aud\":\"https://storage.azure.com/\"",
    "\"aud\":[\"https://acct.blob.core.windows.net\"]",
    "\"exp\":1800000600",
    "\"nbf\":1799999400",
    "\"iat\":1e300",
    "\"sub\":\"ada\"",
    "\"oid\":\"5b1f0b7e-0a0e-4a38-9f6c-2f6f6f0d5a11\"",
    "\"tid\":\"common\"",
    "\"groups\":[\"a\"]",
    "\"_claim_names\":{\"groups\":\"src1\"}",
    "\"alg\":\"ES256\"",
    "\"alg\":\"none\"",
    "\"kid\":\"k\"",
    "\"crit\":[\"exp\"]",
    "\"typ\":\"at+jwt\"",
    "{\"keys\":[",
    "\"kty\":\"RSA\"",
    "\"kty\":\"EC\"",
    "\"crv\":\"P-256\"",
    "\"n\":\"AQAB\"",
    "\"use\":\"sig\"",
    "\\u0061",
    "-1",
    "1.5",
    "null",
    "eyJhbGciOiJFUzI1NiJ9",
];

/// An issuer, who trusts it, and the key that it signs with.
struct Issuing {
    pair: EcdsaKeyPair,
    header: String,
    directory: Directory,
    believing: Directory,
}

static ISSUING: LazyLock<Issuing> = LazyLock::new(|| {
    let random = SystemRandom::new();
    let pkcs8 =
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("random numbers");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random);
    let issuer = DevelopmentIssuer::from_pkcs8(pkcs8.as_ref()).expect("it was just made");
    Issuing {
        pair: pair.expect("it was just made"),
        header: format!(r#"{{"alg":"ES256","kid":"{}"}}"#, issuer.key_id()),
        directory: Directory::new(&[], Some(&issuer)).expect("there is nothing to be wrong"),
        believing: Directory::basic(),
    }
});

impl Issuing {
    fn sign(&self, header: &[u8], claims: &[u8]) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("random numbers");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// Nothing but what was signed is taken; who it is then has ids that are GUIDs.
pub fn jwt(data: &[u8]) {
    let issuing = &*ISSUING;
    let now = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(1_800_000_000));
    let verify = |directory: &Directory, token: &str| {
        directory.verify_with_known_keys(token, Service::Blob, "acct", now)
    };
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(verify(&issuing.directory, text).is_err());
        let _ = verify(&issuing.believing, text);
    }
    let _ = verify(&issuing.directory, &issuing.sign(data, b"{}"));
    let signed = issuing.sign(issuing.header.as_bytes(), data);
    for directory in [&issuing.directory, &issuing.believing] {
        if let Ok(owner) = verify(directory, &signed) {
            for id in [&owner.object_id, &owner.tenant_id] {
                assert_eq!(guid::parse(id).map(guid::print).as_ref(), Some(id));
            }
            assert!(!owner.names.is_empty());
        }
    }
    if let Ok(keys) = KeySet::parse(data) {
        assert!(keys.len() <= KeySet::MAX_KEYS);
    }
}
