//! Keys and tokens for tests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tepui_identity::{Directory, IssuerSettings, Timing};
use tepui_model::role::Principal;
use tepui_model::token::TokenFailure;
use tepui_model::{Service, Timestamp};

pub(crate) const ISSUER: &str = "https://issuer.example";
pub(crate) const ACCOUNT: &str = "acct";
/// The time at which tokens are verified, in seconds since 1970.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A private key that is good for nothing else.
static RSA: LazyLock<RsaKeyPair> =
    LazyLock::new(|| RsaKeyPair::from_pkcs8(include_bytes!("rsa.p8")).expect("it was made for this"));

pub(crate) enum Signer {
    /// Of the algorithm of this name.
    Rsa(&'static str),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn p256() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    pub(crate) fn p384() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P384_SHA384_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P384(EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap())
    }

    pub(crate) fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(name) => name,
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    /// The public key, without a word of what it is for.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = |pair: &EcdsaKeyPair, curve: &str| {
            let coordinates = &pair.public_key().as_ref()[1..];
            let (x, y) = coordinates.split_at(coordinates.len() / 2);
            json!({"kty": "EC", "crv": curve, "x": text(x), "y": text(y), "kid": id})
        };
        match self {
            Self::Rsa(_) => {
                let key = RsaPublicKeyComponents::<Vec<u8>>::from(RSA.public());
                json!({"kty": "RSA", "n": text(&key.n), "e": text(&key.e), "kid": id})
            }
            Self::P256(pair) => point(pair, "P-256"),
            Self::P384(pair) => point(pair, "P-384"),
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref()), "kid": id})
            }
        }
    }

    /// The public key, for its algorithm only.
    pub(crate) fn jwk_with_algorithm(&self, id: &str) -> Value {
        let mut jwk = self.jwk(id);
        jwk["alg"] = self.algorithm().into();
        jwk
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(name) => {
                let padding: &dyn ring::signature::RsaEncoding = match *name {
                    "RS256" => &RSA_PKCS1_SHA256,
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    other => panic!("{other}"),
                };
                let mut signature = vec![0; RSA.public().modulus_len()];
                RSA.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
            Self::P256(pair) | Self::P384(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
        }
    }

    /// A token with the usual header.
    pub(crate) fn token(&self, id: &str, claims: &Value) -> String {
        self.token_with(&json!({"typ": "JWT", "alg": self.algorithm(), "kid": id}), claims)
    }

    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        self.token_of(header.to_string().as_bytes(), claims.to_string().as_bytes())
    }

    /// Of any bytes.
    pub(crate) fn token_of(&self, header: &[u8], claims: &[u8]) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.sign(signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Claims that are good, and what is to be put on top of them; null removes.
pub(crate) fn claims(changes: Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": "https://storage.azure.com", "sub": "ada",
        "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 3600});
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

pub(crate) fn key_set(keys: &[Value]) -> String {
    json!({"keys": keys}).to_string()
}

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(seconds))
}

/// A directory whose issuer has its keys in a file.
pub(crate) struct Trusting {
    pub(crate) directory: Directory,
    pub(crate) file: tempfile::NamedTempFile,
}

impl Trusting {
    pub(crate) fn keys(keys: &[Value]) -> Self {
        Self::with(keys, IssuerSettings::default())
    }

    /// What else is set.
    pub(crate) fn with(keys: &[Value], settings: IssuerSettings) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), key_set(keys)).unwrap();
        let settings =
            IssuerSettings { issuer: ISSUER.to_owned(), jwks_file: Some(file.path().to_owned()), ..settings };
        Self { directory: Directory::with_timing(&[settings], None, timing()).unwrap(), file }
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Principal>, TokenFailure> {
        self.directory.verify(token, Service::Blob, ACCOUNT, at(NOW)).await
    }
}

/// The usual, but no fetch takes long.
pub(crate) fn timing() -> Timing {
    Timing { fetch: Duration::from_secs(5), ..Timing::default() }
}
