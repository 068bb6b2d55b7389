//! Reads JSON objects that are flat, member by member, borrowing from the body what needs no decoding.
//!
//! Entities hold nothing but scalars, so there is nothing to build a tree for. What lies deeper is
//! checked and skipped, without recursion, for the members that nobody looks at.

use memchr::memchr2;
use std::borrow::Cow;

/// How deep skipped values may nest.
const MAX_DEPTH: usize = 64;

/// The body is not a JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    Null,
    Boolean(bool),
    /// Digits only, perhaps with a sign.
    Integer(&'a str),
    /// Digits with a point or an exponent.
    Number(&'a str),
    Text(Cow<'a, str>),
    /// An array or an object.
    Nested,
}

pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    started: bool,
}

impl<'a> Reader<'a> {
    /// Opens an object.
    pub(super) fn open(body: &'a [u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(body).map_err(|_| Malformed)?;
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let mut reader = Self { text, at: 0, started: false };
        reader.blanks();
        reader.expect(b'{')?;
        Ok(reader)
    }

    /// The next member; `None` at the end of the object, after which only blanks may follow.
    pub(super) fn next(&mut self) -> Result<Option<(Cow<'a, str>, Value<'a>)>, Malformed> {
        let Some(name) = self.next_name()? else { return self.end().map(|()| None) };
        Ok(Some((name, self.value()?)))
    }

    /// Behind the object nothing but blanks may follow.
    pub(super) fn end(&mut self) -> Result<(), Malformed> {
        self.blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(Malformed) }
    }

    /// The next member of an object that others may follow.
    pub(super) fn next_inner(&mut self) -> Result<Option<(Cow<'a, str>, Value<'a>)>, Malformed> {
        let Some(name) = self.next_name()? else { return Ok(None) };
        Ok(Some((name, self.value()?)))
    }

    /// The name of the next member, whose value must be read next; `None` at the end of the object.
    pub(super) fn next_name(&mut self) -> Result<Option<Cow<'a, str>>, Malformed> {
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(None);
        }
        if self.started {
            self.expect(b',')?;
            self.blanks();
        }
        self.started = true;
        let name = self.name()?;
        self.blanks();
        Ok(Some(name))
    }

    /// The value of a member.
    pub(super) fn value(&mut self) -> Result<Value<'a>, Malformed> {
        match self.peek() {
            Some(b'{' | b'[') => self.skip_nested().map(|()| Value::Nested),
            _ => self.scalar(),
        }
    }

    /// A value that is an array of objects: each is read with [`Reader::next_inner`] up to its end.
    pub(super) fn objects(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.expect(b'[')?;
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.blanks();
            self.expect(b'{')?;
            self.started = false;
            read(self)?;
            self.started = true;
            self.blanks();
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// How far it has read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// What was read from a position on.
    pub(super) fn text_since(&self, position: usize) -> &'a str {
        &self.text[position..self.at]
    }

    /// Reads an object again from the position behind its brace.
    pub(super) fn go_back(&mut self, position: usize) {
        self.at = position;
        self.started = false;
    }

    /// Passes over what [`Reader::next_name`] would read, if it stands there to the letter.
    pub(super) fn skip_name(&mut self, text: &str) -> bool {
        let is_there = self.text.as_bytes()[self.at..].starts_with(text.as_bytes());
        if is_there {
            self.at += text.len();
            self.started = true;
            self.blanks();
        }
        is_there
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// A member's name and the colon behind it.
    fn name(&mut self) -> Result<Cow<'a, str>, Malformed> {
        self.expect(b'"')?;
        let name = self.string()?;
        self.blanks();
        self.expect(b':')?;
        Ok(name)
    }

    fn scalar(&mut self) -> Result<Value<'a>, Malformed> {
        match self.peek().ok_or(Malformed)? {
            b'"' => {
                self.at += 1;
                self.string().map(Value::Text)
            }
            b't' => self.word("true", Value::Boolean(true)),
            b'f' => self.word("false", Value::Boolean(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Result<Value<'a>, Malformed> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Malformed);
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value<'a>, Malformed> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        // A leading zero stands alone.
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let whole_end = self.at;
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let digits = &self.text[start..self.at];
        Ok(if self.at == whole_end { Value::Integer(digits) } else { Value::Number(digits) })
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Malformed) }
    }

    /// The rest of a string whose opening quote has been read.
    fn string(&mut self) -> Result<Cow<'a, str>, Malformed> {
        let (run, end) = self.run()?;
        if end == b'"' {
            return Ok(Cow::Borrowed(run));
        }
        let mut text = String::with_capacity(run.len() + 64);
        text.push_str(run);
        loop {
            text.push(self.escape()?);
            let (run, end) = self.run()?;
            text.push_str(run);
            if end == b'"' {
                return Ok(Cow::Owned(text));
            }
        }
    }

    /// What stands as it is up to a quote or a backslash, and which of them it was.
    fn run(&mut self) -> Result<(&'a str, u8), Malformed> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = memchr2(b'"', b'\\', rest).ok_or(Malformed)?;
        // Without an early exit the compiler can look at many bytes at a time.
        if rest[..length].iter().fold(0u8, |found, &byte| found | u8::from(byte < b' ')) != 0 {
            return Err(Malformed);
        }
        let run = &self.text[self.at..self.at + length];
        self.at += length + 1;
        Ok((run, rest[length]))
    }

    /// The character that an escape stands for; its backslash has been read.
    fn escape(&mut self) -> Result<char, Malformed> {
        let byte = self.peek().ok_or(Malformed)?;
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.hex()?;
                let (0xD800..=0xDBFF, Some(b'\\')) = (unit, self.peek()) else {
                    // A surrogate that stands alone is no character.
                    return char::from_u32(unit).ok_or(Malformed);
                };
                self.at += 1;
                self.expect(b'u')?;
                let low = self.hex()?.checked_sub(0xDC00).filter(|low| *low < 0x400).ok_or(Malformed)?;
                char::from_u32(0x10000 + ((unit - 0xD800) << 10) + low).ok_or(Malformed)?
            }
            _ => return Err(Malformed),
        })
    }

    fn hex(&mut self) -> Result<u32, Malformed> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16)).ok_or(Malformed)?;
            unit = unit << 4 | digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Passes over an array or an object, keeping in mind how each open one ends.
    fn skip_nested(&mut self) -> Result<(), Malformed> {
        let mut ends = Vec::with_capacity(8);
        loop {
            match self.peek() {
                Some(open @ (b'[' | b'{')) if ends.len() < MAX_DEPTH => {
                    self.at += 1;
                    self.blanks();
                    // In ASCII both closing brackets follow their opening ones at the same distance.
                    ends.push(open + 2);
                    if self.peek() != ends.last().copied() {
                        self.before_nested_value(open + 2)?;
                        continue;
                    }
                }
                _ => drop(self.scalar()?),
            }
            // Behind a value: either something ends, perhaps several times, or the next one comes.
            loop {
                let Some(&end) = ends.last() else { return Ok(()) };
                self.blanks();
                if self.peek() == Some(end) {
                    self.at += 1;
                    ends.pop();
                    continue;
                }
                self.expect(b',')?;
                self.blanks();
                self.before_nested_value(end)?;
                break;
            }
        }
    }

    /// Within an object a value has a name.
    fn before_nested_value(&mut self, end: u8) -> Result<(), Malformed> {
        if end == b'}' {
            self.name()?;
            self.blanks();
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
