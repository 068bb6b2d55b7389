//! Records of CSV (RFC 4180): fields with commas between them, quoted if they hold commas, quotes or ends of lines.

use std::io::{BufRead, Read as _};

/// The longest record. An entity has at most 1 MiB.
const MAX_RECORD_BYTES: u64 = 8 << 20;

/// A field. One that is empty and not quoted is no value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) is_quoted: bool,
}

pub(super) struct CsvReader<R> {
    from: R,
    /// The line at which the last record began, and how many it has.
    line: u64,
    lines: u64,
    record: Vec<u8>,
}

impl<R: BufRead> CsvReader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, line: 0, lines: 1, record: Vec::new() }
    }

    /// The line at which the last record began.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next record that is not an empty line. Returns whether there is one.
    pub(super) fn next(&mut self, fields: &mut Vec<Field>) -> Result<bool, String> {
        loop {
            if !self.read_record()? {
                return Ok(false);
            }
            let text = std::str::from_utf8(&self.record).map_err(|_| "the text is not UTF-8")?;
            let text = if self.line == 1 { text.strip_prefix('\u{FEFF}').unwrap_or(text) } else { text };
            let text = text.strip_suffix('\n').unwrap_or(text);
            let text = text.strip_suffix('\r').unwrap_or(text);
            if !text.is_empty() {
                split(text, fields)?;
                return Ok(true);
            }
        }
    }

    /// Reads lines until all quotes are closed.
    fn read_record(&mut self) -> Result<bool, String> {
        self.record.clear();
        self.line += self.lines;
        self.lines = 0;
        let mut quotes = 0;
        loop {
            let before = self.record.len();
            let room = MAX_RECORD_BYTES.saturating_sub(before as u64);
            let read = self.from.by_ref().take(room).read_until(b'\n', &mut self.record);
            let read = read.map_err(|error| format!("cannot be read: {error}"))?;
            quotes += memchr::memchr_iter(b'"', &self.record[before..]).count();
            self.lines += 1;
            let is_open = quotes % 2 == 1;
            if self.record.len() as u64 >= MAX_RECORD_BYTES {
                return Err(format!(
                    "a record is longer than {MAX_RECORD_BYTES} bytes, or a quote is not closed"
                ));
            }
            match (read, is_open) {
                (0, true) => return Err("a quote is not closed".to_owned()),
                (0, false) => return Ok(!self.record.is_empty()),
                (_, true) => {}
                (_, false) => return Ok(true),
            }
        }
    }
}

fn split(record: &str, fields: &mut Vec<Field>) -> Result<(), String> {
    fields.clear();
    let mut rest = record;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => read_quoted(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (text, after) = rest.split_at(end);
                if text.contains('"') {
                    return Err(
                        "a field with a quote in it must be quoted as a whole, and the quote doubled"
                            .to_owned(),
                    );
                }
                (Field { text: text.to_owned(), is_quoted: false }, after)
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(()),
            None => return Err("a comma is expected after a quoted field".to_owned()),
        }
    }
}

/// The text of a field whose first quote was read, and what follows the last one.
fn read_quoted(quoted: &str) -> Result<(Field, &str), String> {
    let mut text = String::new();
    let mut rest = quoted;
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quote is not closed")?;
        text.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                text.push('"');
                rest = more;
            }
            None => return Ok((Field { text, is_quoted: true }, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(u64, Vec<String>)>, String> {
        let mut reader = CsvReader::new(text.as_bytes());
        let (mut fields, mut records) = (Vec::new(), Vec::new());
        while reader.next(&mut fields)? {
            let show = |field: &Field| {
                if field.is_quoted { format!("<{}>", field.text) } else { field.text.clone() }
            };
            records.push((reader.line(), fields.iter().map(show).collect()));
        }
        Ok(records)
    }

    #[test]
    fn records() {
        let one = |line, fields: &[&str]| (line, fields.iter().map(|field| (*field).to_owned()).collect());
        for (case, text, expected) in [
            ("nothing", "", Some(vec![])),
            ("one line", "a,b", Some(vec![one(1, &["a", "b"])])),
            ("ends of lines", "a\r\n\r\nb\n", Some(vec![one(1, &["a"]), one(3, &["b"])])),
            ("a mark in front", "\u{FEFF}a,b\n", Some(vec![one(1, &["a", "b"])])),
            ("empty fields", ",\"\",\n", Some(vec![one(1, &["", "<>", ""])])),
            ("quotes", "\"a \"\"b\"\", c\",d\n", Some(vec![one(1, &["<a \"b\", c>", "d"])])),
            ("lines in quotes", "\"a\nb\"\nc\n", Some(vec![one(1, &["<a\nb>"]), one(3, &["c"])])),
            ("an open quote", "\"a\nb", None),
            ("a quote inside", "a\"b\"\n", None),
            ("text after a quote", "\"a\"b\n", None),
        ] {
            assert_eq!(read(text).ok(), expected, "{case}");
        }
    }
}
