//! Tags: pairs by which blobs are found, whatever their names.

use crate::ErrorCode;

pub const MAX_TAGS: usize = 10;
pub const MAX_KEY_CHARS: usize = 128;
pub const MAX_VALUE_CHARS: usize = 256;

/// Pairs in the order in which they were given. Each key is there once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tags(Vec<(String, String)>);

impl Tags {
    /// Checks number, length and characters.
    ///
    /// ```
    /// use tepui_model::blob::Tags;
    /// let tags = Tags::new(vec![("env".to_owned(), "prod".to_owned())]).unwrap();
    /// assert_eq!(tags.get("env"), Some("prod"));
    /// ```
    pub fn new(pairs: Vec<(String, String)>) -> Result<Self, ErrorCode> {
        if pairs.len() > MAX_TAGS {
            return Err(ErrorCode::TagsTooLarge);
        }
        for (at, (key, value)) in pairs.iter().enumerate() {
            if key.is_empty() {
                return Err(ErrorCode::EmptyTagName);
            }
            // Before counting: what these allow has one byte each.
            if !key.bytes().chain(value.bytes()).all(is_tag_character) {
                return Err(ErrorCode::InvalidTag);
            }
            if key.len() > MAX_KEY_CHARS || value.len() > MAX_VALUE_CHARS {
                return Err(ErrorCode::TagsTooLarge);
            }
            if pairs[..at].iter().any(|(other, _)| other == key) {
                return Err(ErrorCode::DuplicateTagNames);
            }
        }
        Ok(Self(pairs))
    }

    /// From pairs that [`Tags::iter`] returned.
    pub fn from_stored(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether a key or a value may have it.
pub fn is_tag_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" +-./:=_".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_checked() {
        use ErrorCode::*;
        let of = |pairs: &[(&str, &str)]| {
            Tags::new(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let (key, long_key) = ("k".repeat(128), "k".repeat(129));
        let (value, long_value) = ("v".repeat(256), "v".repeat(257));
        for (pairs, expected) in [
            (&[][..], Ok(())),
            (&[("k", ""), ("K", "v +-./:=_9")], Ok(())),
            (&[(&*key, &*value)], Ok(())),
            (&[(&*long_key, "")], Err(TagsTooLarge)),
            (&[("k", &*long_value)], Err(TagsTooLarge)),
            (&[("", "v")], Err(EmptyTagName)),
            (&[("k", "é")], Err(InvalidTag)),
            (&[("k!", "v")], Err(InvalidTag)),
            (&[("k", "1"), ("k", "2")], Err(DuplicateTagNames)),
            (&[("k", ""); 11], Err(TagsTooLarge)),
        ] {
            assert_eq!(of(pairs).map(drop), expected, "{pairs:?}");
        }
    }
}
