//! Names of properties.

use std::fmt;

const SHORT_BYTES: usize = 22;

/// The name of a property. Nearly all are short, and then need no memory of their own: a page has thousands of them.
#[derive(Clone)]
pub(super) enum Name {
    Short { length: u8, bytes: [u8; SHORT_BYTES] },
    Long(Box<str>),
}

impl Name {
    pub(super) fn new(name: &str) -> Self {
        let mut bytes = [0; SHORT_BYTES];
        match bytes.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                Self::Short { length: name.len() as u8, bytes }
            }
            None => Self::Long(name.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            // Always a text: it was made of one.
            Self::Short { length, bytes } => bytes
                .get(..usize::from(*length))
                .and_then(|name| str::from_utf8(name).ok())
                .unwrap_or_default(),
            Self::Long(name) => name,
        }
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long() {
        let texts =
            ["", "Age", "Straßenname", &"x".repeat(22), &"x".repeat(23), &"ß".repeat(11), &"ß".repeat(200)];
        for text in texts {
            assert_eq!(Name::new(text).as_str(), text);
            assert_eq!(Name::new(text), Name::new(text).clone());
            assert_ne!(Name::new(text), Name::new(&format!("{text}y")));
            assert_eq!(format!("{:?}", Name::new(text)), format!("{text:?}"));
        }
        assert_eq!(size_of::<Name>(), size_of::<String>());
    }
}
