//! Takes parts out of a key.

use super::KeyError;

/// Reads a key part by part, in the order in which they were written.
#[derive(Debug, Clone)]
pub struct KeyReader<'a> {
    rest: &'a str,
}

impl<'a> KeyReader<'a> {
    pub fn new(key: &'a str) -> Self {
        Self { rest: key }
    }

    pub fn literal(&mut self, text: &str) -> Result<(), KeyError> {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.unexpected(format!("{text:?}"))),
        }
    }

    /// Nothing is left.
    pub fn end(&self) -> Result<(), KeyError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    /// The next `length` bytes.
    pub(super) fn fixed(&mut self, length: usize, expected: &str) -> Result<&'a str, KeyError> {
        let (part, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.unexpected(expected))?;
        self.rest = rest;
        Ok(part)
    }

    /// What is left up to the separator, which stays, or all of it.
    pub(super) fn until(&mut self, separator: Option<char>) -> Result<&'a str, KeyError> {
        let length = match separator {
            Some(separator) => {
                self.rest.find(separator).ok_or_else(|| self.unexpected(format!("text and {separator:?}")))?
            }
            None => self.rest.len(),
        };
        let (part, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(part)
    }

    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    pub(super) fn unexpected(&self, expected: impl Into<String>) -> KeyError {
        unexpected(expected, self.rest)
    }
}

pub(super) fn unexpected(expected: impl Into<String>, found: &str) -> KeyError {
    KeyError::Unexpected { expected: expected.into(), found: found.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_parts_are_refused() {
        type Read = fn(&mut KeyReader<'_>) -> Result<(), KeyError>;
        let cases: [(&str, &str, Read); 12] = [
            ("another literal", "emp_1", |reader| reader.literal("dep_")),
            ("more than expected", "x", |reader| reader.end()),
            ("too few digits", "12", |reader| reader.padded(3).map(drop)),
            ("a sign", "+12", |reader| reader.padded(3).map(drop)),
            ("within a character", "1é2", |reader| reader.padded(2).map(drop)),
            ("beyond 64 bits", "18446744073709551616", |reader| reader.padded(20).map(drop)),
            ("upper case", "800000000000000A", |reader| reader.signed().map(drop)),
            ("NaN", "fff8000000000000", |reader| reader.float().map(drop)),
            ("negative zero", "7fffffffffffffff", |reader| reader.float().map(drop)),
            ("beyond the year 9999", "3155378976000000000", |reader| reader.ascending().map(drop)),
            ("an escape without its second character", "a!", |reader| reader.ordered().map(drop)),
            ("no such escape", "a!Z", |reader| reader.ordered().map(drop)),
        ];
        for (case, key, read) in cases {
            let outcome = read(&mut KeyReader::new(key));
            assert!(matches!(outcome, Err(KeyError::Unexpected { .. })), "{case}: {outcome:?}");
        }
    }
}
