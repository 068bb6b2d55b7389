//! Text in keys, as it is or escaped.
//!
//! Escaping keeps the order. A character that keys must not have shares an escape with its neighbour below, so that
//! both stay between the characters around them: `.` and `/` become `.0` and `.1`. At the low end all controls, the
//! blank and `!` begin with `!`, which leaves the blank itself, the lowest character that keys may have, to end a part:
//! it sorts before whatever a longer text goes on with. `~` does the same for U+7E to U+9F. No escape is the beginning of
//! another, so the escaped prefix of a text is a prefix of the escaped text.

use super::reader::unexpected;
use super::writer::check_characters;
use super::{KeyError, KeyReader, KeyWriter};

/// Where plain text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At a character that the text must not hold, and that a literal begins with.
    Separator(char),
    /// With the key.
    End,
}

/// Ends ordered text.
const BLANK: char = ' ';
/// What follows the first character of an escape, in order.
const SYMBOLS: &[u8; 34] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWX";

/// Characters that share the first character of their escape: the first and the last, and what they share.
const ESCAPES: [(char, char, char); 6] = [
    ('\0', '!', '!'),
    ('"', '#', '"'),
    ('.', '/', '.'),
    ('>', '?', '>'),
    ('[', '\\', '['),
    ('~', '\u{9F}', '~'),
];

impl KeyWriter {
    /// Text as it is, refused if it holds what ends it or what no key may hold. Keys of it are unique, but they do
    /// not sort as the text does if another part follows: `a_b` is after `aA_x`.
    pub fn plain(self, text: &str, until: Until) -> Self {
        self.with(|key| {
            if let Until::Separator(separator) = until
                && text.contains(separator)
            {
                return Err(KeyError::Separator { separator, text: text.to_owned() });
            }
            check_characters(text)?;
            key.push_str(text);
            Ok(())
        })
    }

    /// Any text, so escaped that keys sort as the text does. It ends with the key, or at a literal that begins with a blank.
    ///
    /// ```
    /// use tepui_client::key::KeyWriter;
    /// let key = |a, b| KeyWriter::new().ordered(a).literal(" ").ordered(b).finish().unwrap();
    /// assert_eq!(key("a/b c", "Jones"), "a.1b!Wc Jones");
    /// assert!(key("a", "b") < key("aA", "x"));
    /// ```
    pub fn ordered(self, text: &str) -> Self {
        self.with(|key| {
            text.chars().for_each(|character| escape(key, character));
            Ok(())
        })
    }
}

impl KeyReader<'_> {
    /// The inverse of [`KeyWriter::plain`].
    pub fn plain(&mut self, until: Until) -> Result<String, KeyError> {
        let separator = match until {
            Until::Separator(separator) => Some(separator),
            Until::End => None,
        };
        self.until(separator).map(str::to_owned)
    }

    /// The inverse of [`KeyWriter::ordered`].
    pub fn ordered(&mut self) -> Result<String, KeyError> {
        let part = self.until(self.rest().contains(BLANK).then_some(BLANK))?;
        unescape(part).ok_or_else(|| unexpected("ordered text", part))
    }
}

fn escape(key: &mut String, character: char) {
    match ESCAPES.iter().find(|(first, last, _)| (*first..=*last).contains(&character)) {
        Some((first, _, shared)) => {
            let symbol = SYMBOLS[(u32::from(character) - u32::from(*first)) as usize];
            key.extend([*shared, char::from(symbol)]);
        }
        None => key.push(character),
    }
}

fn unescape(part: &str) -> Option<String> {
    let mut text = String::with_capacity(part.len());
    let mut characters = part.chars();
    while let Some(character) = characters.next() {
        let plain = match ESCAPES.iter().find(|(_, _, shared)| *shared == character) {
            Some((first, last, _)) => {
                let symbol = characters.next()?;
                let offset = SYMBOLS.iter().position(|&known| char::from(known) == symbol)?;
                let plain = char::from_u32(u32::from(*first) + u32::try_from(offset).ok()?)?;
                (plain <= *last).then_some(plain)?
            }
            // What would have been escaped has no other form.
            None if ESCAPES.iter().any(|(first, last, _)| (*first..=*last).contains(&character)) => {
                return None;
            }
            None => character,
        };
        text.push(plain);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_does_not_hide_separators() {
        for (case, text, until, fits) in [
            ("other characters", "Jones-Smith", Until::Separator('_'), true),
            ("empty", "", Until::Separator('_'), true),
            ("the separator", "a_b", Until::Separator('_'), false),
            ("the separator, last", "a_b", Until::End, true),
            ("no character of keys", "a/b", Until::End, false),
            ("a control", "a\tb", Until::End, false),
        ] {
            assert_eq!(KeyWriter::new().plain(text, until).finish().is_ok(), fits, "{case}");
        }
    }

    #[test]
    fn escapes() {
        for (text, key) in [
            ("donh@contoso.com", "donh@contoso.0com"),
            ("\0 !", "!0!W!X"),
            ("\"#./>?[\\", "\"0\"1.0.1>0>1[0[1"),
            ("~\u{7F}\u{9F}\u{A0}", "~0~1~X\u{A0}"),
            ("é大😀", "é大😀"),
        ] {
            assert_eq!(KeyWriter::new().ordered(text).finish().as_deref(), Ok(key));
            assert_eq!(KeyReader::new(key).ordered().as_deref(), Ok(text));
        }
        for key in ["\"2", "#", "?", "!Y", "~", "a\tb"] {
            assert!(KeyReader::new(key).ordered().is_err(), "{key:?}");
        }
    }
}
