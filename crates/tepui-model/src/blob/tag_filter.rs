//! Expressions over tags: which blobs Find Blobs by Tags returns, and whether `x-ms-if-tags` holds.

use super::tags::Tags;
use std::cmp::Ordering;

/// An expression with one meaning for every set of tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagFilter {
    And(Box<TagFilter>, Box<TagFilter>),
    Or(Box<TagFilter>, Box<TagFilter>),
    /// A tag against a text. A blob without the tag does not match, whatever the operator.
    Compare {
        key: String,
        how: TagComparison,
        value: String,
    },
    /// The blob is in the container of that name.
    Container(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TagComparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl TagComparison {
    pub fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }

    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl TagFilter {
    pub fn matches(&self, container: &str, tags: &Tags) -> bool {
        match self {
            Self::And(left, right) => left.matches(container, tags) && right.matches(container, tags),
            Self::Or(left, right) => left.matches(container, tags) || right.matches(container, tags),
            Self::Compare { key, how, value } => {
                tags.get(key).is_some_and(|stored| how.accepts(stored.cmp(value)))
            }
            Self::Container(name) => name == container,
        }
    }

    /// The keys that the expression names, each as often as it does.
    pub fn keys(&self) -> Vec<&str> {
        match self {
            Self::And(left, right) | Self::Or(left, right) => {
                let mut keys = left.keys();
                keys.extend(right.keys());
                keys
            }
            Self::Compare { key, .. } => vec![key],
            Self::Container(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        use TagComparison::*;
        let is = |key: &str, how, value: &str| TagFilter::Compare {
            key: key.to_owned(),
            how,
            value: value.to_owned(),
        };
        let and = |left, right| TagFilter::And(Box::new(left), Box::new(right));
        let or = |left, right| TagFilter::Or(Box::new(left), Box::new(right));
        let tags = Tags::new(vec![("env".to_owned(), "prod".to_owned()), ("n".to_owned(), "10".to_owned())])
            .unwrap();
        for (filter, expected) in [
            (is("env", Equal, "prod"), true),
            (is("env", Equal, "Prod"), false),
            (is("env", NotEqual, "test"), true),
            (is("other", NotEqual, "test"), false),
            (is("n", Less, "9"), true),
            (is("n", GreaterOrEqual, "10"), true),
            (is("n", Greater, "10"), false),
            (is("n", LessOrEqual, "10"), true),
            (and(is("env", Equal, "prod"), is("n", Equal, "11")), false),
            (or(is("env", Equal, "prod"), is("n", Equal, "11")), true),
            (TagFilter::Container("c".to_owned()), true),
            (TagFilter::Container("d".to_owned()), false),
        ] {
            assert_eq!(filter.matches("c", &tags), expected, "{filter:?}");
        }
        assert_eq!(and(is("a", Equal, ""), is("b", Equal, "")).keys(), ["a", "b"]);
    }
}
