//! What is stored beside the properties of an encrypted entity: `_ClientEncryptionMetadata1` says how it is encrypted, and
//! has its wrapped key; `_ClientEncryptionMetadata2` is the list of its encrypted properties, which is encrypted too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Holds a [`Details`].
pub(super) const DETAILS: &str = "_ClientEncryptionMetadata1";
/// Holds the list of encrypted properties.
pub(super) const LIST: &str = "_ClientEncryptionMetadata2";

pub(super) const IV_BYTES: usize = 16;

const PROTOCOL_V1: &str = "1.0";
const CIPHER_V1: &str = "AES_CBC_256";
const PROTOCOL_TEPUI: &str = "tepui/1";
const CIPHER_TEPUI: &str = "AES_GCM_256";

/// How an entity is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Tepui1,
    /// As .NET and Python have it.
    V1,
    /// As Java has it: other IVs, and another spelling of the list.
    V1OfJava,
}

/// `_ClientEncryptionMetadata1`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Details {
    pub(super) key_id: String,
    pub(super) wrapped_key: Vec<u8>,
    pub(super) algorithm: String,
    pub(super) protocol: Protocol,
    pub(super) iv: [u8; IV_BYTES],
    /// `KeyWrappingMetadata`, as it was read. Its absence says something, so it is kept.
    pub(super) key_wrapping: Option<Value>,
}

impl Details {
    /// `None` if it is something else, or of a protocol that is not known.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let (wrapped, agent) = (json.get("WrappedContentKey")?, json.get("EncryptionAgent")?);
        let key_wrapping = json.get("KeyWrappingMetadata").filter(|value| !value.is_null()).cloned();
        let protocol = match (said(agent, "Protocol")?, said(agent, "EncryptionAlgorithm")?) {
            (PROTOCOL_TEPUI, CIPHER_TEPUI) => Protocol::Tepui1,
            (PROTOCOL_V1, CIPHER_V1) if is_of_java(key_wrapping.as_ref()) => Protocol::V1OfJava,
            (PROTOCOL_V1, CIPHER_V1) => Protocol::V1,
            _ => return None,
        };
        let details = Self {
            key_id: said(wrapped, "KeyId")?.to_owned(),
            wrapped_key: STANDARD.decode(said(wrapped, "EncryptedKey")?).ok()?,
            algorithm: said(wrapped, "Algorithm")?.to_owned(),
            protocol,
            iv: STANDARD.decode(said(&json, "ContentEncryptionIV")?).ok()?.try_into().ok()?,
            key_wrapping,
        };
        // Ours has one spelling: what reads the same but is spelled otherwise was changed by somebody.
        let is_ours = protocol == Protocol::Tepui1;
        (!is_ours || details.to_text() == text).then_some(details)
    }

    /// In the order of .NET, which readers in Java depend on.
    pub(super) fn to_text(&self) -> String {
        let (protocol, cipher) = match self.protocol {
            Protocol::Tepui1 => (PROTOCOL_TEPUI, CIPHER_TEPUI),
            Protocol::V1 | Protocol::V1OfJava => (PROTOCOL_V1, CIPHER_V1),
        };
        let key_id = Value::from(self.key_id.as_str());
        let wrapped_key = STANDARD.encode(&self.wrapped_key);
        let algorithm = Value::from(self.algorithm.as_str());
        let iv = STANDARD.encode(self.iv);
        let key_wrapping = match &self.key_wrapping {
            Some(value) if self.protocol != Protocol::Tepui1 => format!(",\"KeyWrappingMetadata\":{value}"),
            _ => String::new(),
        };
        format!(
            "{{\"WrappedContentKey\":{{\"KeyId\":{key_id},\"EncryptedKey\":\"{wrapped_key}\",\"Algorithm\":{algorithm}}},\
             \"EncryptionAgent\":{{\"Protocol\":\"{protocol}\",\"EncryptionAlgorithm\":\"{cipher}\"}},\
             \"ContentEncryptionIV\":\"{iv}\"{key_wrapping}}}"
        )
    }

    /// What readers of V1 take as a sign that it was not Java.
    pub(super) fn library() -> Value {
        let library = Value::from(concat!("Tepui ", env!("CARGO_PKG_VERSION")));
        Value::Object(Map::from_iter([("EncryptionLibrary".to_owned(), library)]))
    }
}

fn said<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    of.get(name)?.as_str()
}

/// The first versions of Java said nothing about themselves, the next ones their name.
fn is_of_java(key_wrapping: Option<&Value>) -> bool {
    key_wrapping
        .is_none_or(|value| said(value, "EncryptionLibrary").is_some_and(|library| library.contains("Java")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(protocol: Protocol, key_wrapping: Option<Value>) -> Details {
        let (key_id, algorithm) = ("https://vault/\"k\"".to_owned(), "A256KW".to_owned());
        Details { key_id, wrapped_key: vec![1; 40], algorithm, protocol, iv: [2; IV_BYTES], key_wrapping }
    }

    #[test]
    fn details_are_read_as_they_were_written() {
        let java = serde_json::json!({"EncryptionLibrary": "Java 8.6"});
        for written in [
            details(Protocol::Tepui1, None),
            details(Protocol::V1, Some(Details::library())),
            details(Protocol::V1, Some(serde_json::json!({}))),
            details(Protocol::V1OfJava, None),
            details(Protocol::V1OfJava, Some(java)),
        ] {
            assert_eq!(Details::parse(&written.to_text()), Some(written));
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let ours = details(Protocol::Tepui1, None).to_text();
        let v1 = details(Protocol::V1, Some(Details::library())).to_text();
        for (from, to) in [
            ("tepui/1", "tepui/2"),
            ("tepui/1", "1.0"),
            ("AES_GCM_256", "AES_CBC_256"),
            ("\"Algorithm\"", "\"Algorithn\""),
            ("AgICAgICAgICAgICAgICAg==", "AgICAgICAgICAgICAgICAh=="),
            ("AgICAgICAgICAgICAgICAg==", "AgIC"),
            (":{", ": {"),
            ("==\"}", "==\",\"More\":1}"),
        ] {
            assert!(ours.contains(from), "{from}");
            assert_eq!(Details::parse(&ours.replacen(from, to, 1)), None, "{from} {to}");
        }
        for (from, to) in [("1.0", "2.0"), ("CBC", "GCM"), ("KeyId", "Key")] {
            assert_eq!(Details::parse(&v1.replacen(from, to, 1)), None, "{from} {to}");
        }
        assert!(Details::parse(&v1.replacen(":{", ": {", 1)).is_some(), "others spell it as they like");
    }
}
