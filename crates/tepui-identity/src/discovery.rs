//! What an issuer says about itself (OpenID Connect Discovery).

use crate::fetch::Url;
use crate::unique_json::parse_object;
use serde_json::Value;

/// The longest document that is read.
pub(crate) const MAX_BYTES: usize = 256 * 1024;

/// The URL of the keys. The error is for people.
///
/// The document must be of this issuer: what another one answers at the same place must not count for it.
pub(crate) fn keys_of(document: &[u8], issuer: &str, from: &Url) -> Result<Url, String> {
    let document = parse_object(document).ok_or("the discovery document is no object of JSON")?;
    let text = |name| document.get(name).and_then(Value::as_str);
    match text("issuer") {
        Some(named) if named == issuer => {}
        Some(named) => {
            return Err(format!(
                "the discovery document is of another issuer than `issuer` ({named:?}); if that is known, give `jwks-uri`"
            ));
        }
        None => return Err("the discovery document names no issuer".to_owned()),
    }
    let keys = text("jwks_uri").ok_or("the discovery document has no jwks_uri")?;
    let url = Url::parse(keys).map_err(|what| format!("{what}: {keys:?}"))?;
    // Only an issuer of this machine may send the server there without TLS.
    if !url.is_secure() && !from.is_of_this_machine() {
        return Err(format!("the keys of an issuer on another machine are at an https URL: {keys:?}"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        const ISSUER: &str = "https://issuer.example/a";
        let remote = Url::parse("https://issuer.example/d").unwrap();
        let local = Url::parse("http://127.0.0.1:1/d").unwrap();
        let keys = r#""jwks_uri":"https://keys.example/k""#;
        for (case, from, text, says) in [
            ("good", &remote, format!(r#"{{"issuer":"{ISSUER}",{keys}}}"#), Ok("https://keys.example/k")),
            ("another issuer", &remote, format!(r#"{{"issuer":"{ISSUER}/",{keys}}}"#), Err("another issuer")),
            ("no issuer", &remote, format!("{{{keys}}}"), Err("names no issuer")),
            (
                "two issuers",
                &remote,
                format!(r#"{{"issuer":"{ISSUER}","issuer":"x",{keys}}}"#),
                Err("no object"),
            ),
            ("no keys", &remote, format!(r#"{{"issuer":"{ISSUER}"}}"#), Err("no jwks_uri")),
            (
                "keys for all to change",
                &remote,
                format!(r#"{{"issuer":"{ISSUER}","jwks_uri":"http://keys.example/"}}"#),
                Err("https URL"),
            ),
            (
                "keys on this machine",
                &remote,
                format!(r#"{{"issuer":"{ISSUER}","jwks_uri":"http://127.0.0.1:1/k"}}"#),
                Err("https URL"),
            ),
            (
                "all on this machine",
                &local,
                format!(r#"{{"issuer":"{ISSUER}","jwks_uri":"http://127.0.0.1:1/k"}}"#),
                Ok("http://127.0.0.1:1/k"),
            ),
            ("a page", &remote, "<html>".to_owned(), Err("no object")),
        ] {
            match (keys_of(text.as_bytes(), ISSUER, from), says) {
                (Ok(url), Ok(expected)) => assert_eq!(url.to_string(), expected, "{case}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{case}: {error}"),
                (outcome, _) => panic!("{case}: {outcome:?}"),
            }
        }
    }
}
