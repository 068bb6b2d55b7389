//! A strict reader of analytics logs, written from the description of the format: what deviates from it fails.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The fields of version 1.0, in order, and how each is written.
const FIELDS: [(&str, Form); 30] = [
    ("version-number", Form::Version),
    ("request-start-time", Form::Time),
    ("operation-type", Form::Word),
    ("request-status", Form::Word),
    ("http-status-code", Form::StatusCode),
    ("end-to-end-latency-in-ms", Form::Milliseconds),
    ("server-latency-in-ms", Form::Milliseconds),
    ("authentication-type", Form::Authentication),
    ("requester-account-name", Form::WordOrEmpty),
    ("owner-account-name", Form::Word),
    ("service-type", Form::Service),
    ("request-url", Form::Quoted),
    ("requested-object-key", Form::Quoted),
    ("request-id-header", Form::Guid),
    ("operation-count", Form::Number),
    ("requester-ip-address", Form::Address),
    ("request-version-header", Form::WordOrEmpty),
    ("request-header-size", Form::Number),
    ("request-packet-size", Form::Number),
    ("response-header-size", Form::NumberOrEmpty),
    ("response-packet-size", Form::NumberOrEmpty),
    ("request-content-length", Form::NumberOrEmpty),
    ("request-md5", Form::Quoted),
    ("server-md5", Form::Quoted),
    ("etag-identifier", Form::Quoted),
    ("last-modified-time", Form::LongDate),
    ("conditions-used", Form::Quoted),
    ("user-agent-header", Form::Quoted),
    ("referrer-header", Form::Quoted),
    ("client-request-id", Form::Quoted),
];

/// What version 2.0 has after them.
const FURTHER_FIELDS: [&str; 8] = [
    "user-object-id",
    "tenant-id",
    "application-id",
    "resource-id",
    "issuer",
    "user-principal-name",
    "reserved-field",
    "authorization-detail",
];

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Version,
    Time,
    Word,
    WordOrEmpty,
    StatusCode,
    Milliseconds,
    Authentication,
    Service,
    Guid,
    Number,
    NumberOrEmpty,
    Address,
    LongDate,
    Quoted,
}

/// One line, its fields by name.
#[derive(Debug, Clone)]
pub(crate) struct Record(BTreeMap<&'static str, String>);

impl Record {
    pub(crate) fn get(&self, field: &str) -> &str {
        self.0.get(field).unwrap_or_else(|| panic!("no field {field}"))
    }

    pub(crate) fn number(&self, field: &str) -> u64 {
        self.get(field).parse().unwrap()
    }
}

/// Reads a log.
pub(crate) fn read(log: &[u8]) -> Result<Vec<Record>, String> {
    let text = std::str::from_utf8(log).map_err(|error| error.to_string())?;
    if text.starts_with('\u{FEFF}') {
        return Err("a byte order mark".to_owned());
    }
    let (mut rest, mut records) = (text, Vec::new());
    while !rest.is_empty() {
        let (record, after) = read_record(rest).map_err(|error| format!("{error}: {rest:.300}"))?;
        records.push(record);
        rest = after;
    }
    Ok(records)
}

fn read_record(mut rest: &str) -> Result<(Record, &str), String> {
    let further: Vec<_> = if rest.starts_with("2.0;") { FURTHER_FIELDS.to_vec() } else { Vec::new() };
    let fields: Vec<_> =
        FIELDS.into_iter().chain(further.into_iter().map(|name| (name, Form::Quoted))).collect();
    let (mut record, last) = (BTreeMap::new(), fields.len() - 1);
    for (at, (name, form)) in fields.into_iter().enumerate() {
        let end = if at == last { '\n' } else { ';' };
        let value;
        (value, rest) = match form {
            Form::Quoted => read_quoted(rest, end),
            _ => read_plain(rest, end),
        }
        .map_err(|error| format!("{name}: {error}"))?;
        if !form.accepts(&value) {
            return Err(format!("{name} is not right: {value}"));
        }
        record.insert(name, value);
    }
    let record = Record(record);
    if record.number("end-to-end-latency-in-ms") < record.number("server-latency-in-ms") {
        return Err("a server latency above that of the whole".to_owned());
    }
    Ok((record, rest))
}

fn read_plain(rest: &str, end: char) -> Result<(String, &str), String> {
    let (value, after) = rest.split_once([';', '\n']).ok_or("the line does not end")?;
    if !rest[value.len()..].starts_with(end) {
        return Err("too many or too few fields".to_owned());
    }
    if value.contains('"') || !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(format!("not plain: {value}"));
    }
    Ok((value.to_owned(), after))
}

fn read_quoted(rest: &str, end: char) -> Result<(String, &str), String> {
    if let Some(after) = rest.strip_prefix(end) {
        return Ok((String::new(), after));
    }
    let inside = rest.strip_prefix('"').ok_or("not quoted")?;
    let (value, after) = inside.split_once('"').ok_or("no closing quote")?;
    let after = after.strip_prefix(end).ok_or("something after the closing quote")?;
    if value.is_empty() {
        return Err("an empty value in quotes".to_owned());
    }
    Ok((decode(value)?, after))
}

/// Decodes HTML, in which nothing may be left that should be encoded.
fn decode(mut rest: &str) -> Result<String, String> {
    let mut decoded = String::new();
    while let Some(next) = rest.chars().next() {
        if next != '&' {
            if !matches!(next, ' '..='~') || "<>'\"".contains(next) {
                return Err(format!("not encoded: {next:?}"));
            }
            decoded.push(next);
            rest = &rest[1..];
            continue;
        }
        let (entity, after) = rest[1..].split_once(';').ok_or("an ampersand on its own")?;
        decoded.push(match entity {
            "amp" => '&',
            "quot" => '"',
            "lt" => '<',
            "gt" => '>',
            number => {
                let number = number.strip_prefix('#').and_then(|digits| digits.parse().ok());
                number.and_then(char::from_u32).ok_or_else(|| format!("an unknown entity: {entity}"))?
            }
        });
        rest = after;
    }
    Ok(decoded)
}

impl Form {
    fn accepts(self, value: &str) -> bool {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::Quoted => true,
            Self::Version => matches!(value, "1.0" | "2.0"),
            Self::Time => shaped(value, "dddd-dd-ddTdd:dd:dd.dddddddZ"),
            Self::Word => !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Self::WordOrEmpty => value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
            Self::StatusCode => value == "Unknown" || shaped(value, "ddd"),
            Self::Milliseconds => digits(value) && value.parse::<i32>().is_ok(),
            Self::Authentication => matches!(value, "authenticated" | "sas" | "anonymous" | "bearer"),
            Self::Service => matches!(value, "blob" | "queue" | "table"),
            Self::Guid => shaped(value, "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"),
            Self::Number => digits(value) && value.parse::<u64>().is_ok(),
            Self::NumberOrEmpty => value.is_empty() || Self::Number.accepts(value),
            Self::Address => value.parse::<SocketAddr>().is_ok(),
            Self::LongDate => value.is_empty() || is_long_date(value),
        }
    }
}

/// Whether a text has a shape: `d` is a digit, `h` one of base 16, `a` a letter, others are as they are.
fn shaped(value: &str, shape: &str) -> bool {
    value.len() == shape.len()
        && value.bytes().zip(shape.bytes()).all(|(byte, shape)| match shape {
            b'd' => byte.is_ascii_digit(),
            b'h' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
            b'a' => byte.is_ascii_alphabetic(),
            other => byte == other,
        })
}

/// `Tuesday, 10-Mar-26 08:15:30 GMT`
fn is_long_date(value: &str) -> bool {
    const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    let Some((day, rest)) = value.split_once(", ") else { return false };
    DAYS.contains(&day) && shaped(rest, "dd-aaa-dd dd:dd:dd GMT")
}

#[test]
fn deviations_are_found() {
    let good = "1.0;2026-03-10T08:15:30.0719766Z;CreateTable;Success;204;30;30;authenticated;acct;acct;table;\
        \"https://h/Tables\";\"/acct/Table1\";668a4744-7eb3-4e8f-b8d3-fbfd3829715b;0;192.0.2.7:53389;2019-02-02;\
        601;22;339;0;22;;;\"&quot;0x8D&quot;\";Tuesday, 10-Mar-26 08:15:30 GMT;;\"agent; 1\";;\"45ef\"\n";
    let records = read(good.as_bytes()).unwrap();
    assert_eq!(
        (records[0].get("etag-identifier"), records[0].get("user-agent-header")),
        ("\"0x8D\"", "agent; 1")
    );
    for (case, from, to) in [
        ("no end", "\"\n", "\""),
        ("a field too many", "\"45ef\"\n", "\"45ef\";\n"),
        ("a field too few", ";\"45ef\"\n", "\n"),
        ("a time without its digits", ".0719766Z", "Z"),
        ("a bare quote", "&quot;0x8D", "\"0x8D"),
        ("an unquoted URL", "\"https://h/Tables\"", "https://h/Tables"),
        ("an empty value in quotes", "30;30;", "30;31;"),
        ("a short date", "Tuesday, 10-Mar-26", "Tue, 10 Mar 2026"),
        ("a quote where none may be", "CreateTable", "\"CreateTable\""),
    ] {
        assert!(good.contains(from) && read(good.replacen(from, to, 1).as_bytes()).is_err(), "{case}");
    }
}
