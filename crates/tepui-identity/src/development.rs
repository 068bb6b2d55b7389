//! An issuer that is part of the server, for development: it makes tokens for anybody who may use the admin API.

use crate::audience::Audiences;
use crate::claims::{OwnerRules, TenantRule};
use crate::guids;
use crate::keys::{Algorithm, Key, KeySet, Material};
use crate::settings::Rules;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;
use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;
use tepui_model::{Timestamp, guid};

/// A pair of keys that signs tokens.
pub struct DevelopmentIssuer {
    pair: EcdsaKeyPair,
    /// The name of the public key.
    key_id: String,
    random: SystemRandom,
}

/// What a token is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// A GUID, which is the object id, or any other name, of which the object id is made.
    pub principal: String,
    pub groups: Vec<String>,
    /// `None`: `https://storage.azure.com`.
    pub audience: Option<String>,
    /// A GUID. `None`: that of the issuer.
    pub tenant: Option<String>,
    pub lifetime: Duration,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minted {
    pub token: String,
    pub object_id: String,
    pub tenant_id: String,
    pub audience: String,
    /// In seconds since 1970.
    pub expires: u64,
}

/// Why no token was made, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MintError(&'static str);

impl fmt::Display for MintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for MintError {}

/// The longest that a token may be good.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);
const MAX_NAME_BYTES: usize = 256;
const MAX_GROUPS: usize = 100;

impl DevelopmentIssuer {
    /// What its tokens have as `iss`. No server can have this name.
    pub const ISSUER: &str = "https://development-issuer.tepui.invalid";

    /// With a new pair of keys, which nobody else has.
    pub fn new() -> io::Result<Self> {
        Self::from_pkcs8(new_pair()?.as_ref())
    }

    /// With the pair of keys in a file, which is made if it is not there; only its owner can read it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let said = |error: &dyn fmt::Display| {
            io::Error::other(format!(
                "the key of the development issuer cannot be used ({error}): {}",
                path.display()
            ))
        };
        match std::fs::read(path) {
            Ok(bytes) => Self::from_pkcs8(&bytes).map_err(|error| said(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let bytes = new_pair()?;
                write_secret(path, bytes.as_ref()).map_err(|error| said(&error))?;
                Self::from_pkcs8(bytes.as_ref())
            }
            Err(error) => Err(said(&error)),
        }
    }

    /// With a pair of keys of P-256.
    pub fn from_pkcs8(pkcs8: &[u8]) -> io::Result<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random)
            .map_err(|error| io::Error::other(format!("it is no key of P-256 in PKCS#8: {error}")))?;
        let hash = digest(&SHA256, pair.public_key().as_ref());
        let key_id = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..12]);
        Ok(Self { pair, key_id, random })
    }

    /// The name of its key: what its tokens have as `kid`.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The tenant of tokens that ask for none.
    pub fn tenant() -> String {
        guids::of_issuer(Self::ISSUER)
    }

    /// The object id of a principal: see [`TokenRequest::principal`].
    pub fn object_id(principal: &str) -> String {
        guids::of(Self::ISSUER, principal)
    }

    /// Makes a token. `now`: the time of the machine.
    pub fn mint(&self, request: &TokenRequest, now: Timestamp) -> Result<Minted, MintError> {
        let TokenRequest { principal, groups, audience, tenant, lifetime } = request;
        let is_name = |text: &str| !text.is_empty() && text.len() <= MAX_NAME_BYTES;
        if !is_name(principal) || !audience.as_deref().is_none_or(is_name) {
            return Err(MintError("a principal and an audience have 1 to 256 bytes"));
        }
        if groups.len() > MAX_GROUPS || !groups.iter().all(|group| is_name(group)) {
            return Err(MintError("there are 100 groups at most, of 1 to 256 bytes each"));
        }
        if lifetime.as_secs() == 0 || *lifetime > MAX_LIFETIME {
            return Err(MintError("a token is good for 1 second to 24 hours"));
        }
        let tenant_id = match tenant {
            None => Self::tenant(),
            Some(text) => guid::print(guid::parse(text).ok_or(MintError("a tenant is a GUID"))?),
        };
        let object_id = Self::object_id(principal);
        let audience = audience.clone().unwrap_or_else(|| "https://storage.azure.com".to_owned());
        let begin = now.unix_seconds();
        let expires = begin + lifetime.as_secs();
        let header = json!({"typ": "JWT", "alg": "ES256", "kid": self.key_id});
        let mut claims = json!({
            "iss": Self::ISSUER,
            "aud": audience,
            "iat": begin,
            "nbf": begin,
            "exp": expires,
            "sub": principal,
            "oid": object_id,
            "tid": tenant_id,
            "ver": "1.0",
        });
        if !groups.is_empty() {
            claims["groups"] = json!(groups);
        }
        let token = self.sign(&header, &claims).ok_or(MintError("the token could not be signed"))?;
        Ok(Minted { token, object_id, tenant_id, audience, expires })
    }

    fn sign(&self, header: &serde_json::Value, claims: &serde_json::Value) -> Option<String> {
        let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let mut token = format!("{}.{}", encode(header), encode(claims));
        let signature = self.pair.sign(&self.random, token.as_bytes()).ok()?;
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(signature.as_ref()));
        Some(token)
    }

    pub(crate) fn keys(&self) -> KeySet {
        KeySet::of([Key {
            id: Some(self.key_id.clone()),
            algorithm: Algorithm::Es256,
            material: Material::Point(self.pair.public_key().as_ref().to_vec()),
        }])
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            name: "development".to_owned(),
            audiences: Audiences::azure(),
            owner: OwnerRules {
                issuer: Self::ISSUER.to_owned(),
                subject: None,
                tenant: TenantRule::Any,
                groups: vec!["groups".to_owned()],
            },
            skew_seconds: Rules::DEFAULT_SKEW_SECONDS,
        }
    }
}

impl fmt::Debug for DevelopmentIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DevelopmentIssuer({})", self.key_id)
    }
}

fn new_pair() -> io::Result<ring::pkcs8::Document> {
    EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| io::Error::other("the operating system has no random numbers"))
}

/// Writes a file as a whole or not at all, which only its owner can read from the first byte on.
fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let unfinished = path.with_extension("new");
    // What was left of an attempt before may be readable by others.
    match std::fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> TokenRequest {
        TokenRequest {
            principal: "ada".to_owned(),
            groups: Vec::new(),
            audience: None,
            tenant: None,
            lifetime: Duration::from_secs(3600),
        }
    }

    #[test]
    fn its_key_is_kept_and_secret() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("identity/development-issuer.p8");
        let first = DevelopmentIssuer::open(&path).unwrap();
        assert_eq!(DevelopmentIssuer::open(&path).unwrap().key_id, first.key_id);
        assert_ne!(DevelopmentIssuer::new().unwrap().key_id, first.key_id);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        std::fs::write(&path, b"rubbish").unwrap();
        let error = DevelopmentIssuer::open(&path).unwrap_err().to_string();
        assert!(error.contains("no key of P-256") && !error.contains("rubbish"), "{error}");
    }

    #[test]
    fn what_it_does_not_sign() {
        let issuer = DevelopmentIssuer::new().unwrap();
        for (case, request) in [
            ("nobody", TokenRequest { principal: String::new(), ..request() }),
            ("a long name", TokenRequest { principal: "a".repeat(257), ..request() }),
            ("no audience", TokenRequest { audience: Some(String::new()), ..request() }),
            ("many groups", TokenRequest { groups: vec!["g".to_owned(); 101], ..request() }),
            ("no tenant", TokenRequest { tenant: Some("contoso".to_owned()), ..request() }),
            ("no time", TokenRequest { lifetime: Duration::ZERO, ..request() }),
            ("a long time", TokenRequest { lifetime: Duration::from_secs(86_401), ..request() }),
        ] {
            assert!(issuer.mint(&request, Timestamp::UNIX_EPOCH).is_err(), "{case}");
        }
    }
}
