//! Cuts the text of a filter into words, literals and punctuation.

use crate::table::number::parse_digits;
use tepui_model::Timestamp;
use tepui_model::table::{Comparison, Guid, Literal};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Open,
    Close,
    Comma,
    Word(Word),
    Name(String),
    Literal(Literal),
    Null,
    End,
    /// Characters that make no token.
    Bad,
    /// In place of a token that the parser is working on.
    Taken,
}

/// A word with a meaning of its own. Case matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    And,
    Or,
    Not,
    Compare(Comparison),
}

impl Word {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            "eq" => Self::Compare(Comparison::Equal),
            "ne" => Self::Compare(Comparison::NotEqual),
            "gt" => Self::Compare(Comparison::Greater),
            "ge" => Self::Compare(Comparison::GreaterOrEqual),
            "lt" => Self::Compare(Comparison::Less),
            "le" => Self::Compare(Comparison::LessOrEqual),
            _ => return None,
        })
    }
}

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Where the last token ends.
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The end of the last token, in UTF-16 code units.
    pub(super) fn position(&self) -> usize {
        tepui_model::text::utf16_len(&self.text.as_bytes()[..self.at])
    }

    pub(super) fn next(&mut self) -> Token {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Token::End };
        match first {
            '(' => self.take(1, Token::Open),
            ')' => self.take(1, Token::Close),
            ',' => self.take(1, Token::Comma),
            '\'' => match quoted(rest) {
                Some(length) => self.take(length, string(&rest[..length])),
                None => self.take(rest.len(), Token::Bad),
            },
            '0'..='9' | '-' => self.number(rest),
            _ if starts_name(first) => self.word(rest),
            _ => self.take(first.len_utf8(), Token::Bad),
        }
    }

    fn take(&mut self, length: usize, token: Token) -> Token {
        self.at += length;
        token
    }

    /// A run of digits, letters, points and signs of exponents must make one number.
    fn number(&mut self, rest: &str) -> Token {
        let mut before = ' ';
        let ends = |next: char| {
            let goes_on = next.is_alphanumeric()
                || matches!(next, '.' | '_')
                || (before == ' ' && next == '-')
                || (matches!(before, 'e' | 'E') && matches!(next, '+' | '-'));
            before = next;
            !goes_on
        };
        let length = rest.find(ends).unwrap_or(rest.len());
        self.take(length, number(&rest[..length]).map_or(Token::Bad, Token::Literal))
    }

    fn word(&mut self, rest: &str) -> Token {
        let length = rest.find(|next| !continues_name(next)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        if behind.starts_with('\'') {
            // `datetime'…'` and its like.
            let Some(quoted) = quoted(behind) else { return self.take(rest.len(), Token::Bad) };
            let inside = &behind[1..quoted - 1];
            return self.take(length + quoted, typed(word, inside).map_or(Token::Bad, Token::Literal));
        }
        let token = match word {
            "null" => Token::Null,
            "NaN" => Token::Literal(Literal::Double(f64::NAN)),
            "INF" => Token::Literal(Literal::Double(f64::INFINITY)),
            _ if word.eq_ignore_ascii_case("true") => Token::Literal(Literal::Boolean(true)),
            _ if word.eq_ignore_ascii_case("false") => Token::Literal(Literal::Boolean(false)),
            _ => Word::parse(word).map_or_else(|| Token::Name(word.to_owned()), Token::Word),
        };
        self.take(length, token)
    }
}

pub(super) fn starts_name(character: char) -> bool {
    character == '_' || character.is_alphabetic()
}

fn continues_name(character: char) -> bool {
    // Combining marks and joiners as names of properties have them.
    let joins = matches!(character, '\u{0300}'..='\u{036F}' | '\u{203F}'..='\u{2040}');
    character == '_' || character.is_alphanumeric() || joins
}

/// The length of a literal in quotes, in which two quotes stand for one; `None` if it never ends.
fn quoted(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        at += memchr::memchr(b'\'', bytes.get(at..)?)? + 1;
        if bytes.get(at) != Some(&b'\'') {
            return Some(at);
        }
        at += 1;
    }
}

fn string(quoted: &str) -> Token {
    Token::Literal(Literal::String(quoted[1..quoted.len() - 1].replace("''", "'")))
}

fn number(text: &str) -> Option<Literal> {
    if text == "-INF" {
        return Some(Literal::Double(f64::NEG_INFINITY));
    }
    let plain = text.strip_prefix('-').unwrap_or(text);
    if !plain.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if let Some(digits) = text.strip_suffix(['L', 'l']) {
        return digits.parse().ok().map(Literal::Int64);
    }
    if let Some(digits) = text.strip_suffix(['D', 'd']) {
        return parse_digits(digits).map(Literal::Double);
    }
    if plain.bytes().all(|byte| byte.is_ascii_digit()) {
        // Fidelity: what does not fit an Int32 is an Int64. scenario: filter-int64
        let narrow = text.parse().map(Literal::Int32);
        return narrow.or_else(|_| text.parse().map(Literal::Int64)).ok();
    }
    parse_digits(text)
        .filter(|_| !text.ends_with('.') && !text.contains(".e") && !text.contains(".E"))
        .map(Literal::Double)
}

fn typed(word: &str, inside: &str) -> Option<Literal> {
    match word {
        "datetime" => Timestamp::parse_iso(inside).map(Literal::DateTime),
        "guid" => Guid::parse(inside).map(Literal::Guid),
        "X" | "binary" => parse_hex(inside).map(Literal::Binary),
        _ => None,
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
