//! Filling in `{…}` in a scenario's text, and the scenario's own table names.

use crate::clock;
use crate::credentials::Credentials;
use crate::request::Endpoint;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a running scenario knows: variables, and the table names it declared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    variables: HashMap<String, String>,
    /// As written, and as sent.
    names: Vec<(String, String)>,
    prefix: String,
    /// Where SAS tokens are good.
    endpoint: Option<Endpoint>,
}

impl Scope {
    /// A scope whose table names all begin with the same eight fresh characters: four for the run, three
    /// for the scenario.
    pub(crate) fn new() -> Self {
        static RUN: OnceLock<u128> = OnceLock::new();
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let run = *RUN.get_or_init(|| clock::nanoseconds() / 1000 + u128::from(std::process::id()) * 7919);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("s{}{}", base36(run, 4), base36(u128::from(serial), 3));
        let mut scope = Self { prefix: prefix.clone(), ..Self::default() };
        scope.set("prefix", prefix);
        scope
    }

    /// The same, for scenarios that write SAS tokens themselves.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        Self { endpoint: Some(endpoint.clone()), ..Self::new() }
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.variables.insert(name.to_owned(), value.into());
    }

    /// Gives a table name of the scenario its name on the wire.
    pub(crate) fn declare(&mut self, name: &str) -> String {
        let sent = format!("{}{name}", self.prefix);
        self.names.push((name.to_owned(), sent.clone()));
        sent
    }

    pub(crate) fn declared(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, sent)| sent.as_str())
    }

    pub(crate) fn text(&self, template: &str) -> Result<String, String> {
        String::from_utf8(self.bytes(template)?).map_err(|_| format!("not text: {template}"))
    }

    pub(crate) fn bytes(&self, template: &str) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(template.len());
        self.fill(template, &mut out)?;
        for (name, sent) in &self.names {
            out = rename(&out, name, sent);
            out = rename(&out, &name.to_lowercase(), &sent.to_lowercase());
            out = rename(&out, &name.to_uppercase(), &sent.to_uppercase());
        }
        Ok(out)
    }

    fn fill(&self, template: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            out.extend_from_slice(&rest.as_bytes()[..open]);
            rest = &rest[open..];
            match expression(rest) {
                Some(inner) => {
                    self.value(inner, out)?;
                    rest = &rest[inner.len() + 2..];
                }
                None => {
                    out.push(b'{');
                    rest = &rest[1..];
                }
            }
        }
        out.extend_from_slice(rest.as_bytes());
        Ok(())
    }

    fn value(&self, inner: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let unknown = || format!("unknown: {{{inner}}}");
        if let Some((name, arguments)) = inner.split_once(':') {
            return self.call(name, arguments, out).unwrap_or_else(|| Err(unknown()));
        }
        let (name, change) = inner.split_once('|').map_or((inner, None), |(name, how)| (name, Some(how)));
        if change == Some("later") {
            out.extend_from_slice(format!("{{{name}}}").as_bytes());
            return Ok(());
        }
        let value = match self.variables.get(name) {
            Some(value) => value.clone(),
            None => built_in(name).ok_or_else(unknown)?,
        };
        if change == Some("filled") {
            return self.fill(&value, out);
        }
        out.extend_from_slice(changed(value, change).ok_or_else(unknown)?.as_bytes());
        Ok(())
    }

    fn call(&self, name: &str, arguments: &str, out: &mut Vec<u8>) -> Option<Result<(), String>> {
        match name {
            "repeat" => {
                let (text, count) = arguments.rsplit_once(':')?;
                let count = self.text(count).ok()?;
                out.extend_from_slice(text.repeat(count.parse().ok()?).as_bytes());
            }
            "sas" => {
                let endpoint = self.endpoint.as_ref()?;
                let sas = Credentials::parse(&self.text(arguments).ok()?, self).ok()?;
                let (query, _) = sas.apply(endpoint, "GET", "", &[]).ok()?;
                out.extend_from_slice(query.trim_start_matches('?').as_bytes());
            }
            "base64" => out.extend_from_slice(STANDARD.encode(vec![0; arguments.parse().ok()?]).as_bytes()),
            "bytes" => {
                for byte in arguments.split_whitespace() {
                    out.push(u8::from_str_radix(byte, 16).ok()?);
                }
            }
            "join" => {
                let (separator, rest) = arguments.split_once(':')?;
                let (span, template) = rest.split_once(':')?;
                let (first, last) = range(span)?;
                for i in first..=last {
                    if i > first {
                        out.extend_from_slice(separator.as_bytes());
                    }
                    let mut inner = self.clone();
                    inner.set("i", i.to_string());
                    if let Err(error) = inner.fill(template, out) {
                        return Some(Err(error));
                    }
                }
            }
            _ => {
                let value = self.variables.get(name)?;
                let width = arguments.parse::<usize>().ok()?;
                out.extend_from_slice(format!("{value:0>width$}").as_bytes());
            }
        }
        Some(Ok(()))
    }
}

/// The last digits of a number in base 36.
fn base36(mut number: u128, digits: usize) -> String {
    let mut text = String::new();
    for _ in 0..digits {
        text.insert(0, char::from_digit(u32::try_from(number % 36).unwrap_or(0), 36).unwrap_or('0'));
        number /= 36;
    }
    text
}

/// `1..100`, both ends included.
pub(crate) fn range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.trim().split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The inside of a `{…}` at the start of the text, if it reads like an expression and not like JSON.
fn expression(text: &str) -> Option<&str> {
    if !text[1..].starts_with(|first: char| first.is_ascii_alphabetic()) {
        return None;
    }
    let mut depth = 0;
    for (at, mark) in text.char_indices() {
        match mark {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[1..at]);
        }
    }
    None
}

fn built_in(name: &str) -> Option<String> {
    let fixed = match name {
        "bom" => "\u{feff}",
        "cr" => "\r",
        "lf" => "\n",
        "crlf" => "\r\n",
        "tab" => "\t",
        "space" => " ",
        "nothing" => "",
        _ => "?",
    };
    if fixed != "?" {
        return Some(fixed.to_owned());
    }
    if name == "guid" {
        let mixed =
            u128::from(clock::nanoseconds() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        let hex = format!("{mixed:032x}");
        return Some(format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        ));
    }
    let cut = name.find(['+', '-']).unwrap_or(name.len());
    let seconds = clock::now() + offset(&name[cut..])?;
    match &name[..cut] {
        "now" => Some(clock::iso(seconds)),
        "date" => Some(clock::rfc1123(seconds)),
        "day" => Some(clock::day(seconds)),
        _ => None,
    }
}

/// Seconds of `+1h`, `-20m`, `+30s`, `+2d` or nothing.
fn offset(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let unit = match text.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    text[..text.len() - 1].parse::<i64>().ok().map(|count| count * unit)
}

fn changed(value: String, change: Option<&str>) -> Option<String> {
    Some(match change {
        None => value,
        Some("lower") => value.to_lowercase(),
        Some("upper") => value.to_uppercase(),
        Some("url") => percent_encode(&value),
        // An ETag from the Timestamp that it stands for, and the other way round.
        Some("etag") => format!("W/\"datetime'{}'\"", value.replace(':', "%3A")),
        Some("time") => {
            let inner = value.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?;
            inner.replace("%3A", ":")
        }
        Some("json") => value.replace('\\', "\\\\").replace('"', "\\\""),
        _ => return None,
    })
}

/// Everything but the unreserved characters.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Puts `sent` for every `name` that stands as a word of its own; `%27` before it ends a word, too.
fn rename(text: &[u8], name: &str, sent: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let after = at + name.len();
        if text[at..].starts_with(name.as_bytes())
            && word_may_start(&text[..at])
            && !text.get(after).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        {
            out.extend_from_slice(sent.as_bytes());
            at = after;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

fn word_may_start(before: &[u8]) -> bool {
    match before {
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., last] => !(last.is_ascii_alphanumeric() || *last == b'_'),
        [] => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_in_expressions_and_leaves_json_alone() {
        let mut scope = Scope::new();
        scope.set("a", "7");
        scope.set("tag", "2026-03-10T08:15:30Z");
        for (template, filled) in [
            (r#"{"x":{}}"#, r#"{"x":{}}"#),
            ("{a}-{a:03}", "7-007"),
            ("{repeat:xy:3}", "xyxyxy"),
            ("{repeat:x:{a}}", "xxxxxxx"),
            (r#"{join:,:1..3:"P{i}":{i}}"#, r#""P1":1,"P2":2,"P3":3"#),
            ("{base64:3}", "AAAA"),
            ("{tag|etag}", "W/\"datetime'2026-03-10T08%3A15%3A30Z'\""),
            ("{tag|url}", "2026-03-10T08%3A15%3A30Z"),
            ("'abc{'", "'abc{'"),
        ] {
            assert_eq!(scope.text(template).unwrap(), filled);
        }
        assert_eq!(scope.bytes("{bytes:ff 00}").unwrap(), [255, 0]);
        assert!(scope.text("{nobody}").is_err());
        scope.set("cell", scope.text("{b|later}").unwrap());
        scope.set("b", "8");
        assert_eq!(scope.text("{cell|filled}").unwrap(), "8");
    }

    #[test]
    fn renames_whole_words_only() {
        let mut scope = Scope::new();
        let sent = scope.declare("Abc");
        let lower = sent.to_lowercase();
        for (template, filled) in [
            ("/Abc(x)", format!("/{sent}(x)")),
            ("Tables(%27Abc%27)", format!("Tables(%27{sent}%27)")),
            ("Abcd xAbc Abc_", "Abcd xAbc Abc_".to_owned()),
            ("tn=abc&", format!("tn={lower}&")),
        ] {
            assert_eq!(scope.text(template).unwrap(), filled);
        }
        assert_eq!(sent.len(), 11);
    }
}
