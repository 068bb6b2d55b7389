//! Expressions over tags as text: `where` of Find Blobs by Tags, and `x-ms-if-tags`.
//!
//! See the REST pages "Find Blobs by Tags" and "Specifying conditional headers". Depth and size are bounded.

use std::collections::BTreeSet;
use tepui_model::blob::{TagComparison, TagFilter};

/// What is wrong with an expression, and where, counted in characters from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    pub position: usize,
    pub reason: &'static str,
}

const MAX_DEPTH: usize = 16;
const MAX_COMPARISONS: usize = 64;
const MAX_KEYS: usize = 10;

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
    let keys: BTreeSet<&str> = filter.keys().into_iter().collect();
    if keys.len() > MAX_KEYS {
        return Err(parser.wrong("too many tags"));
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
        if self.comparisons > MAX_COMPARISONS {
            return Err(self.wrong("too many conditions"));
        }
        if self.dialect == Dialect::Find && self.symbol("@container") {
            self.blanks();
            if !self.symbol("=") {
                return Err(self.wrong("expected ="));
            }
            return Ok(TagFilter::Container(self.value()?));
        }
        let key = self.key()?;
        let how = self.comparison()?;
        Ok(TagFilter::Compare { key, how, value: self.value()? })
    }

    fn key(&mut self) -> Result<String, SyntaxError> {
        if self.rest().starts_with('"') {
            return self.quoted('"');
        }
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

    fn value(&mut self) -> Result<String, SyntaxError> {
        self.blanks();
        if !self.rest().starts_with('\'') {
            return Err(self.wrong("expected a text in quotes"));
        }
        self.quoted('\'')
    }

    /// A text in quotes, in which two of them are one.
    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
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
        SyntaxError { position: self.text[..self.at].chars().count() + 1, reason }
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
