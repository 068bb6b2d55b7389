//! Which properties are encrypted, with which key, and how entities are sealed and opened.

use super::cipher::{EntityCipher, Place};
use super::keys::{ContentKey, KeyEncryptionKey, KeyFailure, KeyResolver, fill_random};
use super::metadata::{DETAILS, Details, IV_BYTES, LIST, Protocol};
use crate::entity::{Properties, PropertiesBuilder, ValueRef};
use crate::table::WRITE_TOKEN;
use crate::{EdmType, EntityKey, Error, ErrorKind, Value};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// How entities are written. All formats are read, whatever is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `tepui/1`: AES-256-GCM. Any type, and any change of what is encrypted is noticed. Old clients do not decrypt it.
    #[default]
    Tepui1,
    /// What the old clients for .NET, Java and Python write: AES-256-CBC. Texts only, and changes are not noticed. Only for
    /// tables that such clients still read.
    LegacyV1,
}

/// What is encrypted, with which key. Cheap to clone.
///
/// ```
/// use tepui_client::patterns::encryption::{AesKey, KeyRing, Policy};
/// let policy = Policy::new(AesKey::new("2026", &[2; 32])?)
///     .encrypt(["Salary", "Iban"])
///     .keys(KeyRing::new().with(AesKey::new("2025", &[1; 32])?))
///     .require();
/// # Ok::<(), tepui_client::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Policy {
    key: Option<Arc<dyn KeyEncryptionKey>>,
    keys: Option<Arc<dyn KeyResolver>>,
    names: Arc<[String]>,
    condition: Option<Arc<Condition>>,
    format: Format,
    requires: bool,
    refuses_legacy: bool,
}

type Condition = dyn Fn(&EntityKey, &str) -> bool + Send + Sync;

impl Policy {
    /// Reads and writes, with this key for whatever is written.
    pub fn new(key: impl KeyEncryptionKey) -> Self {
        Self { key: Some(Arc::new(key)), ..Self::nothing() }
    }

    /// Reads whatever these keys open, and writes nothing.
    pub fn reader(keys: impl KeyResolver) -> Self {
        Self::nothing().keys(keys)
    }

    fn nothing() -> Self {
        Self {
            key: None,
            keys: None,
            names: Arc::from([]),
            condition: None,
            format: Format::default(),
            requires: false,
            refuses_legacy: false,
        }
    }

    /// Where other keys than that of [`Policy::new`] are found, for reading.
    pub fn keys(mut self, keys: impl KeyResolver) -> Self {
        self.keys = Some(Arc::new(keys));
        self
    }

    /// The properties of these names are encrypted, and those that a struct marks with `#[encrypt]`.
    pub fn encrypt<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.names = self.names.iter().cloned().chain(names.into_iter().map(Into::into)).collect();
        self
    }

    /// Properties for which this holds are encrypted too. It is told the keys of the entity and the name of the property.
    pub fn encrypt_if(
        mut self,
        condition: impl Fn(&EntityKey, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.condition = Some(Arc::new(condition));
        self
    }

    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Entities that are not encrypted are not read, nor those of which a property is in the clear that must not be.
    pub fn require(mut self) -> Self {
        self.requires = true;
        self
    }

    /// Entities of the old format are not read. It protects neither what it encrypts nor who reads it from those who can
    /// change what is stored, so a table without such entities is better off without.
    pub fn refuse_legacy(mut self) -> Self {
        self.refuses_legacy = true;
        self
    }

    /// The names that are known to be encrypted before there is an entity.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    fn encrypts(&self, key: &EntityKey, name: &str, marked: &[&str]) -> bool {
        let is_said = marked.contains(&name)
            || self.names().any(|known| known == name)
            || self.condition.as_ref().is_some_and(|holds| holds(key, name));
        // The token of a write is the client's own, and must be readable without a key.
        is_said && name != WRITE_TOKEN
    }

    /// The properties as they are stored. `marked`: what is encrypted whatever the policy says.
    pub(super) async fn seal(
        &self,
        place: Place<'_>,
        properties: &Properties,
        marked: &[&str],
    ) -> Result<Properties, Error> {
        let content_key = ContentKey::random()?;
        let mut iv = [0; IV_BYTES];
        fill_random(&mut iv)?;
        let (protocol, key_wrapping) = match self.format {
            Format::Tepui1 => (Protocol::Tepui1, None),
            Format::LegacyV1 => (Protocol::V1, Some(Details::library())),
        };
        let details = self.wrap(&content_key, protocol, iv, key_wrapping).await?;
        let cipher = EntityCipher::new(protocol, &content_key, iv, place).ok_or_else(cannot_encrypt)?;
        let mut sealed = PropertiesBuilder::with_capacity(properties.bytes().len() + 1024);
        let mut list = Vec::new();
        for (name, value) in properties.iter() {
            if [DETAILS, LIST].contains(&name) {
                let message = format!("the property is the client's own: {name}");
                return Err(Error::new(ErrorKind::Refused, message));
            }
            if !self.encrypts(place.key, name, marked) {
                sealed.push(name, value)?;
                continue;
            }
            let encrypted = cipher.encrypt(name, value).ok_or_else(|| {
                let message = format!("the old format encrypts texts only, and this is none: {name}");
                Error::new(ErrorKind::Refused, message)
            })?;
            sealed.push(name, ValueRef::Binary(&encrypted))?;
            list.push((name, value.edm_type().name()));
        }
        let list = match self.format {
            Format::Tepui1 => serde_json::to_string(&list),
            Format::LegacyV1 => {
                serde_json::to_string(&list.iter().map(|(name, _)| *name).collect::<Vec<_>>())
            }
        };
        let list = list.map_err(|_| cannot_encrypt())?;
        let list = cipher.encrypt(LIST, ValueRef::string(&list)).ok_or_else(cannot_encrypt)?;
        sealed.push(LIST, ValueRef::Binary(&list))?;
        sealed.push(DETAILS, ValueRef::string(&details.to_text()))?;
        Ok(sealed.finish())
    }

    /// The properties as they were before they were sealed. `selected`: what was asked for, if not for all.
    pub(super) async fn open(
        &self,
        place: Place<'_>,
        stored: &Properties,
        selected: Option<&[String]>,
        marked: &[&str],
    ) -> Result<Properties, Error> {
        let (details, list) = match (stored.get(DETAILS), stored.get(LIST)) {
            (None, None) if self.requires => return Err(Error::decode("the entity is not encrypted")),
            (None, None) => return Ok(stored.clone()),
            (Some(ValueRef::String(details)), Some(ValueRef::Binary(list))) => (details, list),
            _ => return Err(cannot_decrypt()),
        };
        let details = Details::parse(details.as_str()).ok_or_else(cannot_decrypt)?;
        if self.refuses_legacy && details.protocol != Protocol::Tepui1 {
            return Err(Error::decode("the entity is encrypted in the old format, which is refused"));
        }
        let content_key = self.unwrap(&details).await?;
        let cipher = EntityCipher::new(details.protocol, &content_key, details.iv, place)
            .ok_or_else(cannot_decrypt)?;
        let list = match cipher.decrypt(LIST, EdmType::String, list) {
            Some(Value::String(list)) => parse_list(details.protocol, &list).ok_or_else(cannot_decrypt)?,
            _ => return Err(cannot_decrypt()),
        };
        if details.protocol == Protocol::Tepui1 && !is_whole(stored, &list, selected) {
            return Err(cannot_decrypt());
        }
        let mut opened = PropertiesBuilder::with_capacity(stored.bytes().len());
        for (name, value) in stored.iter().filter(|(name, _)| ![DETAILS, LIST].contains(name)) {
            let is_due = self.encrypts(place.key, name, marked);
            match (list.get(name), value) {
                (Some(edm_type), ValueRef::Binary(encrypted)) => {
                    let value = cipher.decrypt(name, *edm_type, encrypted).ok_or_else(cannot_decrypt)?;
                    // If it were written back, it would be there for all to read.
                    if !is_due && self.key.is_some() {
                        let message = format!("the property is encrypted, but would not be again: {name}");
                        return Err(Error::new(ErrorKind::Refused, message));
                    }
                    opened.push(name, value.as_ref()).map_err(|_| cannot_decrypt())?;
                }
                (Some(_), _) => return Err(cannot_decrypt()),
                (None, _) if is_due && self.requires => return Err(cannot_decrypt()),
                (None, value) => opened.push(name, value)?,
            }
        }
        Ok(opened.finish())
    }

    /// The same details with the content key wrapped anew; `None` if it is wrapped with the key of this policy already.
    pub(super) async fn wrap_again(&self, details: &str) -> Result<Option<String>, Error> {
        let details = Details::parse(details).ok_or_else(cannot_decrypt)?;
        if details.key_id == self.writing_key()?.id() {
            return Ok(None);
        }
        let content_key = self.unwrap(&details).await?;
        let Details { protocol, iv, key_wrapping, .. } = details;
        Ok(Some(self.wrap(&content_key, protocol, iv, key_wrapping).await?.to_text()))
    }

    fn writing_key(&self) -> Result<&Arc<dyn KeyEncryptionKey>, Error> {
        let message = "the policy is a reader's: it has no key to encrypt with";
        self.key.as_ref().ok_or_else(|| Error::new(ErrorKind::Configuration, message))
    }

    async fn wrap(
        &self,
        content_key: &ContentKey,
        protocol: Protocol,
        iv: [u8; IV_BYTES],
        key_wrapping: Option<serde_json::Value>,
    ) -> Result<Details, Error> {
        let key = self.writing_key()?;
        let wrapped_key = key.wrap(content_key).await.map_err(|failure| match failure {
            KeyFailure::Rejected => cannot_encrypt(),
            KeyFailure::Unavailable(cause) => unavailable(cause),
        })?;
        let (key_id, algorithm) = (key.id().to_owned(), key.algorithm().to_owned());
        Ok(Details { key_id, wrapped_key, algorithm, protocol, iv, key_wrapping })
    }

    async fn unwrap(&self, details: &Details) -> Result<ContentKey, Error> {
        let failed = |failure| match failure {
            KeyFailure::Rejected => cannot_decrypt(),
            KeyFailure::Unavailable(cause) => unavailable(cause),
        };
        let key = match (&self.key, &self.keys) {
            (Some(key), _) if key.id() == details.key_id => Some(Arc::clone(key)),
            (_, Some(keys)) => keys.key(&details.key_id).await.map_err(failed)?,
            (_, None) => None,
        };
        let key = key.ok_or_else(cannot_decrypt)?;
        key.unwrap(&details.wrapped_key, &details.algorithm).await.map_err(failed)
    }
}

/// Names the keys, and nothing secret.
impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("key", &self.key.as_ref().map(|key| key.id()))
            .field("names", &self.names)
            .field("format", &self.format)
            .field("requires", &self.requires)
            .finish_non_exhaustive()
    }
}

/// The encrypted properties with their types.
fn parse_list(protocol: Protocol, text: &str) -> Option<HashMap<String, EdmType>> {
    let texts = |name: &str| (name.to_owned(), EdmType::String);
    Some(match protocol {
        Protocol::Tepui1 => {
            let list: Vec<(String, String)> = serde_json::from_str(text).ok()?;
            list.into_iter()
                .map(|(name, edm_type)| Some((name, EdmType::parse(&edm_type)?)))
                .collect::<Option<_>>()?
        }
        Protocol::V1 => {
            let list: Vec<String> = serde_json::from_str(text).ok()?;
            list.iter().map(|name| texts(name)).collect()
        }
        // As Java prints a list: no quotes.
        Protocol::V1OfJava => {
            let inner = text.strip_prefix('[')?.strip_suffix(']')?;
            inner.split(", ").filter(|name| !name.is_empty()).map(texts).collect()
        }
    })
}

/// Whether all encrypted properties are there that were asked for.
fn is_whole(stored: &Properties, list: &HashMap<String, EdmType>, selected: Option<&[String]>) -> bool {
    let is_asked_for = |name: &&String| selected.is_none_or(|names| names.contains(name));
    list.keys().filter(is_asked_for).all(|name| stored.get(name).is_some())
}

/// The one error for whatever is wrong with what is stored. A cause that could be told apart would help whoever changed it.
fn cannot_decrypt() -> Error {
    Error::decode("the entity cannot be decrypted")
}

fn cannot_encrypt() -> Error {
    Error::new(ErrorKind::Refused, "the entity cannot be encrypted")
}

fn unavailable(cause: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorKind::Unavailable, "the key cannot be used").with_source(cause)
}
