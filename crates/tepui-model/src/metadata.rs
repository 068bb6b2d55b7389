//! What callers note about a queue, a container or a blob: pairs of a name and a text.

use crate::{ErrorCode, ServiceError};

/// All names and values together.
const MAX_BYTES: usize = 8 * 1024;

/// Pairs in the order in which they were given. Names keep their case, which does not tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Checks the names, that none is given twice, and the size of all.
    pub fn new(pairs: Vec<(String, String)>) -> Result<Self, ServiceError> {
        for (at, (name, _)) in pairs.iter().enumerate() {
            if name.is_empty() {
                return Err(ErrorCode::EmptyMetadataKey.into());
            }
            let twice = pairs[..at].iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            if !is_identifier(name) || twice {
                return Err(ErrorCode::InvalidMetadata.into());
            }
        }
        // A value has one character for each byte that was sent.
        let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.chars().count()).sum();
        if bytes > MAX_BYTES {
            return Err(ErrorCode::MetadataTooLarge.into());
        }
        Ok(Self(pairs))
    }

    /// From pairs that [`Metadata::iter`] returned.
    pub fn from_stored(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both say the same, in whatever order: names in any case, values exactly.
    pub fn says_the_same_as(&self, other: &Self) -> bool {
        let value_of = |name: &str| other.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        self.0.len() == other.0.len()
            && self.0.iter().all(|(name, value)| value_of(name).is_some_and(|(_, known)| known == value))
    }
}

/// An identifier of C#, as far as headers can hold one.
fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|next| next.is_alphanumeric() || next == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(pairs: &[(&str, &str)]) -> Result<Metadata, ErrorCode> {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Metadata::new(owned).map_err(|error| error.code)
    }

    #[test]
    fn names_and_sizes() {
        use ErrorCode::*;
        let (fits, large) = ("x".repeat(MAX_BYTES - 1), "x".repeat(MAX_BYTES));
        for (pairs, expected) in [
            (&[][..], Ok(())),
            (&[("a", ""), ("_b9", "text")], Ok(())),
            (&[("a", &fits)], Ok(())),
            (&[("a", &large)], Err(MetadataTooLarge)),
            (&[("", "x")], Err(EmptyMetadataKey)),
            (&[("1bad", "x")], Err(InvalidMetadata)),
            (&[("a-b", "x")], Err(InvalidMetadata)),
            (&[("a", "1"), ("A", "2")], Err(InvalidMetadata)),
        ] {
            assert_eq!(metadata(pairs).map(drop), expected, "{pairs:?}");
        }
    }

    #[test]
    fn order_and_case_of_names_do_not_matter() {
        let known = metadata(&[("Team", "core"), ("b", "2")]).unwrap();
        for (pairs, same) in [
            (&[("b", "2"), ("team", "core")][..], true),
            (&[("Team", "Core"), ("b", "2")], false),
            (&[("Team", "core")], false),
            (&[], false),
        ] {
            assert_eq!(known.says_the_same_as(&metadata(pairs).unwrap()), same, "{pairs:?}");
        }
    }
}
