//! Keys as they are written: JSON Web Keys (RFC 7517, 7518 and 8037).

use crate::keys::{Algorithm, Key, KeySet, Material};
use crate::unique_json::parse_object;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// The keys of a set that can verify a token.
pub(crate) fn parse_set(bytes: &[u8]) -> Result<Vec<Key>, &'static str> {
    if bytes.len() > KeySet::MAX_BYTES {
        return Err("the text of the keys has more than 1 MiB");
    }
    let set = parse_object(bytes).ok_or("the keys are not an object of JSON, or a name is in it twice")?;
    let keys = set.get("keys").and_then(Value::as_array).ok_or("there is no list `keys`")?;
    if keys.len() > KeySet::MAX_KEYS {
        return Err("there are more than 100 keys");
    }
    Ok(keys.iter().filter_map(|key| parse(key.as_object()?)).collect())
}

/// `None` if it is not for verifying, or of a kind that is not known.
fn parse(jwk: &Map<String, Value>) -> Option<Key> {
    let text = |name: &str| jwk.get(name).map(|value| value.as_str().unwrap_or_default());
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    if let Some(operations) = jwk.get("key_ops") {
        operations.as_array()?.iter().find(|operation| operation.as_str() == Some("verify"))?;
    }
    let (natural, material) = match (text("kty")?, text("crv")) {
        ("RSA", _) => (Algorithm::Rs256, rsa(jwk)?),
        ("EC", Some("P-256")) => (Algorithm::Es256, point(jwk, 32)?),
        ("EC", Some("P-384")) => (Algorithm::Es384, point(jwk, 48)?),
        ("OKP", Some("Ed25519")) => {
            (Algorithm::EdDsa, Material::Point(bytes(jwk, "x").filter(|x| x.len() == 32)?))
        }
        _ => return None,
    };
    // A key that does not say what it is for is for what OpenID Connect takes if nothing is said. Entra ID writes its keys that way.
    let algorithm = match text("alg") {
        None => natural,
        Some(name) => Algorithm::named(name).filter(|algorithm| is_for(natural, *algorithm))?,
    };
    Some(Key { id: text("kid").map(str::to_owned), algorithm, material })
}

/// Whether a key that is `natural`ly for one algorithm can be for another.
fn is_for(natural: Algorithm, algorithm: Algorithm) -> bool {
    match natural {
        Algorithm::Rs256 => !matches!(algorithm, Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa),
        _ => algorithm == natural,
    }
}

fn bytes(jwk: &Map<String, Value>, name: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(jwk.get(name)?.as_str()?).ok()
}

/// Sizes are those that can be verified with: 2048 to 8192 bits.
fn rsa(jwk: &Map<String, Value>) -> Option<Material> {
    let number = |name| {
        let bytes = bytes(jwk, name)?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Some(bytes[zeros..].to_vec())
    };
    let (modulus, exponent) = (number("n")?, number("e")?);
    let fits = (256..=1024).contains(&modulus.len()) && (1..=5).contains(&exponent.len());
    fits.then_some(Material::Rsa { modulus, exponent })
}

/// A point, uncompressed.
fn point(jwk: &Map<String, Value>, size: usize) -> Option<Material> {
    let coordinate = |name| bytes(jwk, name).filter(|bytes| bytes.len() == size);
    Some(Material::Point([vec![4], coordinate("x")?, coordinate("y")?].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_of_a_set() {
        let (x, n) = (URL_SAFE_NO_PAD.encode([7; 32]), URL_SAFE_NO_PAD.encode([0xC1; 256]));
        let ec = |more: &str| format!(r#"{{"kty":"EC","crv":"P-256","x":"{x}","y":"{x}"{more}}}"#);
        let rsa = |more: &str| format!(r#"{{"kty":"RSA","n":"{n}","e":"AQAB"{more}}}"#);
        let short = rsa("").replace(&n, &URL_SAFE_NO_PAD.encode([0xC1; 128]));
        type A = Algorithm;
        for (case, key, expected) in [
            ("a point", ec(""), Some(A::Es256)),
            ("with its algorithm", ec(r#","alg":"ES256","use":"sig""#), Some(A::Es256)),
            ("of another curve", ec(r#","alg":"ES384""#), None),
            ("of another kind", ec(r#","alg":"RS256""#), None),
            ("for secrets", ec(r#","alg":"HS256""#), None),
            ("for encryption", ec(r#","use":"enc""#), None),
            ("a purpose that is no text", ec(r#","use":1"#), None),
            ("for verifying", ec(r#","key_ops":["verify"]"#), Some(A::Es256)),
            ("for signing", ec(r#","key_ops":["sign"]"#), None),
            ("RSA, as Entra ID writes it", rsa(r#","use":"sig""#), Some(A::Rs256)),
            ("RSA for PS384", rsa(r#","alg":"PS384""#), Some(A::Ps384)),
            ("RSA for ECDSA", rsa(r#","alg":"ES256""#), None),
            ("RSA for nothing", rsa(r#","alg":"none""#), None),
            ("RSA for encryption", rsa(r#","alg":"RSA-OAEP""#), None),
            ("RSA with zeros in front", rsa("").replace(&n, &format!("AAAA{n}")), Some(A::Rs256)),
            ("RSA, too short", short, None),
            ("padded", ec("").replace(&x, &format!("{x}=")), None),
            ("a secret", r#"{"kty":"oct","k":"c2VjcmV0","alg":"HS256"}"#.to_owned(), None),
            ("Ed25519", format!(r#"{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}"#), Some(A::EdDsa)),
            ("X25519", format!(r#"{{"kty":"OKP","crv":"X25519","x":"{x}"}}"#), None),
            ("P-521", ec("").replace("P-256", "P-521"), None),
            ("no object", "1".to_owned(), None),
        ] {
            let keys = parse_set(format!(r#"{{"keys":[{key}]}}"#).as_bytes()).unwrap();
            assert_eq!(keys.first().map(|key| key.algorithm), expected, "{case}");
        }
    }

    #[test]
    fn what_is_no_set() {
        let many = |count| format!(r#"{{"keys":[{}]}}"#, vec!["{}"; count].join(","));
        for (case, text, says) in [
            ("nothing", String::new(), Some("not an object")),
            ("a list", "[]".to_owned(), Some("not an object")),
            ("no keys", "{}".to_owned(), Some("no list `keys`")),
            ("keys twice", r#"{"keys":[],"keys":[]}"#.to_owned(), Some("twice")),
            ("too many", many(101), Some("more than 100")),
            ("many", many(100), None),
            ("too long", format!("{}{}", many(1), " ".repeat(KeySet::MAX_BYTES)), Some("1 MiB")),
        ] {
            let error = parse_set(text.as_bytes()).err();
            assert_eq!(error.is_some(), says.is_some(), "{case}: {error:?}");
            assert!(error.unwrap_or_default().contains(says.unwrap_or_default()), "{case}: {error:?}");
        }
    }
}
