//! Expressions over tags as text: `where` of Find Blobs by Tags, and `x-ms-if-tags`.
//!
//! See the REST pages "Find Blobs by Tags" and "Specifying conditional headers". Depth and size are bounded.

use std::collections::BTreeSet;
use tepui_model::blob::tags::{MAX_KEY_CHARS, MAX_VALUE_CHARS, is_tag_character};
use tepui_model::blob::{TagComparison, TagFilter};

/// What is wrong with an expression, and where, counted in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub position: usize,
    pub reason: &'static str,
}

const MAX_DEPTH: usize = 16;
/// Of a search, which is planned and looks at many blobs.
const MAX_SEARCH_COMPARISONS: usize = 64;
const MAX_SEARCH_KEYS: usize = 10;
/// Of a condition, which looks at one.
const MAX_CONDITION_COMPARISONS: usize = 1000;

/// Which words an expression may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// No `OR`, no `<>`, but containers.
    Find,
    Condition,
}

/// Parses the `where` of Find Blobs by Tags.
pub fn parse_find(text: &str) -> Result<TagFilter, SyntaxError> {
    parse(text, Dialect::Find)
}

/// Parses the value of `x-ms-if-tags`.
pub fn parse_condition(text: &str) -> Result<TagFilter, SyntaxError> {
    parse(text, Dialect::Condition)
}

fn parse(text: &str, dialect: Dialect) -> Result<TagFilter, SyntaxError> {
    let mut parser = Parser { text, at: 0, dialect, depth: 0, comparisons: 0 };
    let filter = parser.any()?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.wrong("unexpected text"));
    }
    if dialect == Dialect::Find {
        let keys: BTreeSet<&str> = filter.keys().into_iter().collect();
        if keys.len() > MAX_SEARCH_KEYS {
            return Err(parser.wrong("too many tags"));
        }
    }
    Ok(filter)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    dialect: Dialect,
    depth: usize,
    comparisons: usize,
}

impl Parser<'_> {
    /// Conditions of which one will do.
    fn any(&mut self) -> Result<TagFilter, SyntaxError> {
        let mut filter = self.every()?;
        while self.dialect == Dialect::Condition && self.word("OR") {
            filter = TagFilter::Or(Box::new(filter), Box::new(self.every()?));
        }
        Ok(filter)
    }

    /// Conditions that all count.
    fn every(&mut self) -> Result<TagFilter, SyntaxError> {
        let mut filter = self.condition()?;
        while self.word("AND") {
            filter = TagFilter::And(Box::new(filter), Box::new(self.condition()?));
        }
        Ok(filter)
    }

    fn condition(&mut self) -> Result<TagFilter, SyntaxError> {
        self.blanks();
        if self.symbol("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(self.wrong("too deep"));
            }
            let inside = self.any()?;
            self.blanks();
            if !self.symbol(")") {
                return Err(self.wrong("expected a closing parenthesis"));
            }
            self.depth -= 1;
            return Ok(inside);
        }
        self.comparisons += 1;
        let most = match self.dialect {
            Dialect::Find => MAX_SEARCH_COMPARISONS,
            Dialect::Condition => MAX_CONDITION_COMPARISONS,
        };
        if self.comparisons > most {
            return Err(self.wrong("too many conditions"));
        }
        if self.dialect == Dialect::Find && self.symbol("@container") {
            self.blanks();
            if !self.symbol("=") {
                return Err(self.wrong("expected ="));
            }
            self.blanks();
            return self.quoted('\'').map(TagFilter::Container);
        }
        let key = self.key()?;
        let how = self.comparison()?;
        Ok(TagFilter::Compare { key, how, value: self.value()? })
    }

    /// The name of a tag, as far as one can have it.
    fn key(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        let key = if self.rest().starts_with('"') { self.quoted('"')? } else { self.bare_key()? };
        match key.is_empty() {
            true => Err(self.wrong_at(start, "expected the name of a tag")),
            false => self.checked(key, start, MAX_KEY_CHARS),
        }
    }

    fn bare_key(&mut self) -> Result<String, SyntaxError> {
        let bare = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let end = self.rest().find(|next| !bare(next)).unwrap_or(self.rest().len());
        if end == 0 {
            return Err(self.wrong("expected the name of a tag"));
        }
        let key = self.rest()[..end].to_owned();
        self.at += end;
        Ok(key)
    }

    fn comparison(&mut self) -> Result<TagComparison, SyntaxError> {
        use TagComparison::*;
        self.blanks();
        // Longer ones first.
        for how in [NotEqual, LessOrEqual, GreaterOrEqual, Equal, Less, Greater] {
            if (how != NotEqual || self.dialect == Dialect::Condition) && self.symbol(how.symbol()) {
                return Ok(how);
            }
        }
        Err(self.wrong("expected an operator"))
    }

    /// The value of a tag, as far as one can have it.
    fn value(&mut self) -> Result<String, SyntaxError> {
        self.blanks();
        let start = self.at;
        let value = self.quoted('\'')?;
        self.checked(value, start, MAX_VALUE_CHARS)
    }

    /// A text that began at `start`, if a tag can be or have it.
    fn checked(&self, text: String, start: usize, max_chars: usize) -> Result<String, SyntaxError> {
        match text.bytes().all(is_tag_character) {
            false => Err(self.wrong_at(start, "a character that tags cannot have")),
            true if text.len() > max_chars => Err(self.wrong_at(start, "too long")),
            true => Ok(text),
        }
    }

    /// A text in quotes, in which two of them are one.
    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        if !self.rest().starts_with(quote) {
            return Err(self.wrong("expected a text in quotes"));
        }
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(end) = self.rest().find(quote) else { return Err(self.wrong("a quote is not closed")) };
            text.push_str(&self.rest()[..end]);
            self.at += end + 1;
            if !self.rest().starts_with(quote) {
                return Ok(text);
            }
            text.push(quote);
            self.at += 1;
        }
    }

    /// Whether a word follows, in any case. It is taken if so.
    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let found = self.rest().get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word));
        let ends = !self.rest()[if found { word.len() } else { 0 }..]
            .starts_with(|next: char| next.is_alphanumeric() || next == '_');
        if found && ends {
            self.at += word.len();
        }
        found && ends
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn wrong(&self, reason: &'static str) -> SyntaxError {
        self.wrong_at(self.at, reason)
    }

    fn wrong_at(&self, at: usize, reason: &'static str) -> SyntaxError {
        SyntaxError { position: self.text[..at].chars().count() + 1, reason }
    }
}

/// The text of an expression, with as many parentheses as it needs to be read as the same.
pub fn print(filter: &TagFilter) -> String {
    let mut out = String::new();
    push(filter, &mut out);
    out
}

fn push(filter: &TagFilter, out: &mut String) {
    match filter {
        TagFilter::And(left, right) => push_pair(left, " AND ", right, out),
        TagFilter::Or(left, right) => push_pair(left, " OR ", right, out),
        TagFilter::Compare { key, how, value } => {
            push_quoted(key, '"', out);
            out.push_str(how.symbol());
            push_quoted(value, '\'', out);
        }
        TagFilter::Container(name) => {
            out.push_str("@container=");
            push_quoted(name, '\'', out);
        }
    }
}

fn push_pair(left: &TagFilter, word: &str, right: &TagFilter, out: &mut String) {
    for (index, side) in [left, right].into_iter().enumerate() {
        if index == 1 {
            out.push_str(word);
        }
        // Of a row of the same words the first two belong together.
        let alike =
            index == 0 && matches!((word, side), (" AND ", TagFilter::And(..)) | (" OR ", TagFilter::Or(..)));
        let alone = alike || matches!(side, TagFilter::Compare { .. } | TagFilter::Container(_));
        if alone {
            push(side, out);
        } else {
            out.push('(');
            push(side, out);
            out.push(')');
        }
    }
}

fn push_quoted(text: &str, quote: char, out: &mut String) {
    out.push(quote);
    for character in text.chars() {
        if character == quote {
            out.push(quote);
        }
        out.push(character);
    }
    out.push(quote);
}

#[cfg(test)]
#[path = "tag_filter_text_tests.rs"]
mod tests;
