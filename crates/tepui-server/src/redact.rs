//! URLs for logs and for those who watch, without what lets anybody in.

use tepui_wire::percent;

/// A URL without the signature that its query may hold, whatever the case of its name, and also where that is escaped.
pub(crate) fn without_signature(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let mut redacted = String::with_capacity(url.len());
    redacted.push_str(path);
    for (at, pair) in query.split('&').enumerate() {
        redacted.push(if at > 0 { '&' } else { '?' });
        let name = pair.split('=').next().unwrap_or_default();
        // A name that cannot be read is hidden, too.
        let is_secret = percent::decode(name).is_none_or(|name| name.eq_ignore_ascii_case("sig"));
        redacted.push_str(if is_secret { "sig=XXXXX" } else { pair });
    }
    redacted
}

/// What stands for a secret.
pub(crate) const HIDDEN: &str = "XXXXX";

/// The URL of a store without its password, and without parameters that may be secrets.
pub(crate) fn without_credentials(url: &str) -> String {
    let mut redacted = String::with_capacity(url.len());
    let mut last = 0;
    for (start, end) in secret_parts(url) {
        redacted.push_str(&url[last..start]);
        redacted.push_str(HIDDEN);
        last = end;
    }
    redacted.push_str(&url[last..]);
    redacted
}

/// The secrets inside the URL of a store, as they are written there and as they are meant.
pub(crate) fn secrets(url: &str) -> Vec<String> {
    let written = secret_parts(url).into_iter().map(|(start, end)| &url[start..end]);
    let both = written.flat_map(|secret| {
        [Some(secret.to_owned()), percent::decode(secret).map(std::borrow::Cow::into_owned)]
    });
    // A short one would hide half of a message, and is no secret.
    both.flatten().filter(|secret| secret.len() > 3).collect()
}

/// Where the secrets of a URL begin and end: the password, and values of parameters.
fn secret_parts(url: &str) -> Vec<(usize, usize)> {
    let mut parts = Vec::new();
    let Some(authority) = url.find("://").map(|at| at + 3) else { return parts };
    // A password may hold any of the signs that end it, if somebody forgot to escape them.
    let query = url.rfind('?').unwrap_or(url.len());
    if let Some(end) = url[authority..].rfind('@').map(|at| authority + at)
        && let Some(colon) = url[authority..end].find(':').map(|at| authority + at)
    {
        parts.push((colon + 1, end));
    }
    let known = parts.last().map_or(0, |(_, end)| *end);
    let mut at = query.max(known);
    while let Some(rest) = url.get(at + 1..) {
        let end = rest.find('&').map_or(url.len(), |length| at + 1 + length);
        if let Some((name, _)) = url[at + 1..end].split_once('=') {
            let lower = percent::decode(name).unwrap_or(name.into()).to_ascii_lowercase();
            if ["pass", "key", "secret", "token", "sig", "credential"].iter().any(|word| lower.contains(word))
            {
                parts.push((at + 2 + name.len(), end));
            }
        }
        at = end;
    }
    parts
}

/// What serde says is wrong with a setting, without the value that it found: that may be a secret at the wrong place.
pub(crate) fn without_value(message: &str) -> String {
    for start in ["invalid type: ", "invalid value: "] {
        let Some(found) = message.strip_prefix(start) else { continue };
        // What is expected comes last. What was found may say anything, these words too.
        let Some((found, expected)) = found.rsplit_once(", expected ") else { break };
        let kind = found.split(['"', '`']).next().unwrap_or_default().trim_end();
        return format!("{start}{kind}, expected {expected}");
    }
    match message.split_once("unknown variant `") {
        Some((before, _)) => format!("{before}unknown variant"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        for (message, expected) in [
            (
                r#"invalid type: string "hunter2", expected a sequence"#,
                "invalid type: string, expected a sequence",
            ),
            (
                r#"invalid type: string "a, expected \"hunter2", expected a sequence"#,
                "invalid type: string, expected a sequence",
            ),
            ("invalid type: integer `1234`, expected a string", "invalid type: integer, expected a string"),
            (
                "invalid type: floating point `1.5`, expected a string",
                "invalid type: floating point, expected a string",
            ),
            ("invalid type: map, expected a sequence", "invalid type: map, expected a sequence"),
            (r#"invalid value: string "x", expected a name"#, "invalid value: string, expected a name"),
            ("unknown variant `hunter2`, expected `a` or `b`", "unknown variant"),
            ("unknown field `kye`, expected `key`", "unknown field `kye`, expected `key`"),
            ("missing field `issuer`", "missing field `issuer`"),
        ] {
            assert_eq!(without_value(message), expected);
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        for (url, expected) in [
            ("memory", "memory"),
            ("local:/a:b@c", "local:/a:b@c"),
            ("postgres://db:5432/tepui", "postgres://db:5432/tepui"),
            ("postgres://me@db/tepui", "postgres://me@db/tepui"),
            ("postgres://me:s3cret@db1:1,db2:2/tepui", "postgres://me:XXXXX@db1:1,db2:2/tepui"),
            ("postgres://me:s3@c/r?e:t@db/tepui", "postgres://me:XXXXX@db/tepui"),
            (
                "postgres://db/tepui?user=me&password=s3cret&sslmode=require",
                "postgres://db/tepui?user=me&password=XXXXX&sslmode=require",
            ),
            ("s3://bucket/a?access_key_id=x&region=y", "s3://bucket/a?access_key_id=XXXXX&region=y"),
            ("az://c?sas_token=a%20b", "az://c?sas_token=XXXXX"),
            ("s3://bucket?", "s3://bucket?"),
        ] {
            assert_eq!(without_credentials(url), expected);
        }
        assert_eq!(secrets("postgres://me:a%40bcd@db/x?password=pq12"), ["a%40bcd", "a@bcd", "pq12", "pq12"]);
    }

    #[test]
    fn signatures_are_not_shown() {
        for (url, expected) in [
            ("/a/T()", "/a/T()"),
            ("/a/T()?", "/a/T()?"),
            ("/a/T()?sv=1&sig=abc%3D&se=2", "/a/T()?sv=1&sig=XXXXX&se=2"),
            ("/a/T()?%73ig=abc", "/a/T()?sig=XXXXX"),
            ("/a/T()?SIG=abc", "/a/T()?sig=XXXXX"),
            ("/a/T()?%ff=abc", "/a/T()?sig=XXXXX"),
            ("/a/T()?signed=1&sig", "/a/T()?signed=1&sig=XXXXX"),
            ("/a/T()?design=1", "/a/T()?design=1"),
        ] {
            assert_eq!(without_signature(url), expected);
        }
    }
}
