//! Puts parts together.

use super::{KeyError, MAX_UNITS_EVERYWHERE};
use tepui_model::table::entity::is_key_character;
use tepui_model::text::utf16_len;

/// Writes a key part by part. The first part that cannot be written is the error of [`finish`](Self::finish).
#[derive(Debug, Default)]
pub struct KeyWriter {
    key: String,
    error: Option<KeyError>,
}

impl KeyWriter {
    pub fn new() -> Self {
        Self::default()
    }

    /// A fixed text: what tells kinds of entities apart, or a separator.
    pub fn literal(self, text: &str) -> Self {
        self.with(|key| {
            check_characters(text)?;
            key.push_str(text);
            Ok(())
        })
    }

    /// The key, if all of its parts could be written and it is not too long.
    pub fn finish(self) -> Result<String, KeyError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let units = utf16_len(self.key.as_bytes());
        if units > MAX_UNITS_EVERYWHERE { Err(KeyError::TooLong { units }) } else { Ok(self.key) }
    }

    /// Lets `write` append a part, unless one before it failed.
    pub(super) fn with(mut self, write: impl FnOnce(&mut String) -> Result<(), KeyError>) -> Self {
        if self.error.is_none() {
            self.error = write(&mut self.key).err();
        }
        self
    }
}

/// Whether `text` holds only characters that keys may have.
pub(super) fn check_characters(text: &str) -> Result<(), KeyError> {
    match text.chars().find(|&character| !is_key_character(character)) {
        Some(character) => Err(KeyError::Character { character, text: text.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_told() {
        let key = KeyWriter::new().padded(1000, 3).literal("_").float(f64::NAN).finish();
        assert_eq!(key, Err(KeyError::TooManyDigits { value: 1000, digits: 3 }));
        assert!(matches!(KeyWriter::new().literal("a/b").finish(), Err(KeyError::Character { .. })));
    }

    #[test]
    fn lengths_are_counted_in_utf16() {
        for (case, text, expected) in [
            ("ascii", "x".repeat(512), None),
            ("one more", "x".repeat(513), Some(513)),
            ("two bytes each", "é".repeat(512), None),
            ("surrogates", "😀".repeat(256), None),
            ("one more surrogate pair", "😀".repeat(257), Some(514)),
        ] {
            let key = KeyWriter::new().literal(&text).finish();
            let error = expected.map(|units| KeyError::TooLong { units });
            assert_eq!(key.err(), error, "{case}");
        }
    }
}
