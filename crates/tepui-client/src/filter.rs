//! Filters are trees of literals: what somebody typed in cannot become a part of the syntax.

#[cfg(test)]
mod laws;

use crate::key::KeyRange;
use crate::{Error, ErrorKind, Value};
use tepui_model::table::{Comparison, Filter};

/// A property in a filter.
///
/// ```
/// use tepui_client::filter::{all, property};
/// let grown_up = all([property("PartitionKey").eq("Sales"), property("Age").ge(18)]);
/// ```
pub fn property(name: impl Into<String>) -> Property {
    Property(name.into())
}

/// A property in a filter: see [`property`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property(String);

impl Property {
    pub fn eq(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Equal, value)
    }

    /// Not met by entities that lack the property.
    pub fn ne(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::NotEqual, value)
    }

    pub fn gt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Greater, value)
    }

    pub fn ge(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::GreaterOrEqual, value)
    }

    pub fn lt(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::Less, value)
    }

    pub fn le(self, value: impl Into<Value>) -> Filter {
        self.compare(Comparison::LessOrEqual, value)
    }

    fn compare(self, how: Comparison, value: impl Into<Value>) -> Filter {
        Filter::Compare { property: self.0, how, value: value.into().into() }
    }
}

/// All of them. None at all are met by everything.
pub fn all(filters: impl IntoIterator<Item = Filter>) -> Filter {
    join(filters, Filter::And, true)
}

/// Any of them. None at all are met by nothing.
pub fn any(filters: impl IntoIterator<Item = Filter>) -> Filter {
    join(filters, Filter::Or, false)
}

pub fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn join(
    filters: impl IntoIterator<Item = Filter>,
    combine: impl Fn(Vec<Filter>) -> Filter,
    of_none: bool,
) -> Filter {
    let mut filters: Vec<_> = filters.into_iter().collect();
    match (filters.len(), filters.pop()) {
        (1, Some(only)) => only,
        (_, Some(last)) => {
            filters.push(last);
            combine(filters)
        }
        (_, None) => Filter::Constant(of_none),
    }
}

/// Keys and names that begin like this, as the range that they are. `None`: all.
pub(crate) fn prefix(name: &str, prefix: &str) -> Option<Filter> {
    (!prefix.is_empty()).then(|| KeyRange::prefix(prefix).filter(name))
}

/// The most comparisons that a filter has. With more alternatives than this, a service no longer tells them apart and reads the
/// whole table. Azure promises to take 15.
const MAX_COMPARISONS: usize = 1000;

/// Refuses what cannot be sent, or would be a scan of everything where nobody expects it.
pub(crate) fn check(filter: &Filter) -> Result<(), Error> {
    if filter.comparisons() > MAX_COMPARISONS {
        let message = "a filter has at most 1,000 comparisons: for many keys, use get_many";
        return Err(Error::new(ErrorKind::Refused, message));
    }
    check_names(filter)
}

/// Names of properties stand in a filter as they are, so they have to be names.
fn check_names(filter: &Filter) -> Result<(), Error> {
    match filter {
        Filter::Constant(_) => Ok(()),
        Filter::IsTrue(name) | Filter::Compare { property: name, .. } => check_name(name),
        Filter::And(filters) | Filter::Or(filters) => filters.iter().try_for_each(check_names),
        Filter::Not(inner) => check_names(inner),
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|first| first == '_' || first.is_alphabetic());
    let is_mark = |character| matches!(character, '\u{0300}'..='\u{036F}' | '\u{203F}'..='\u{2040}');
    if starts && characters.all(|next| next == '_' || next.is_alphanumeric() || is_mark(next)) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::KeyInvalid, format!("no property has such a name: {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tepui_wire::table::filter_text::print;

    #[test]
    fn filters_are_printed_with_their_literals_quoted() {
        for (filter, expected) in [
            (property("Name").eq("O'Hara' or true"), "Name eq 'O''Hara'' or true'"),
            (all([property("A").gt(1), property("B").le(2_i64)]), "A gt 1 and B le 2L"),
            (any([property("A").eq(true)]), "A eq true"),
            (not(property("A").ne(1.5)), "not (A ne 1.5)"),
            (all([]), "true"),
        ] {
            assert_eq!(print(&filter), expected);
        }
    }

    #[test]
    fn names_are_no_syntax() {
        assert!(check(&all([property("Age").eq(1), not(property("Größe_2").eq(1))])).is_ok());
        for name in ["", "Age eq 1 or Age", "1st", "a b", "a'b", "a)"] {
            let error = check(&all([property("Age").eq(1), not(property(name).eq(1))])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::KeyInvalid, "{name}");
        }
    }

    #[test]
    fn long_lists_of_keys_are_no_filters() {
        let keys = |count: i32| any((0..count).map(|id| property("RowKey").eq(id.to_string())));
        assert!(check(&all([property("PartitionKey").eq("p"), keys(999)])).is_ok());
        let error = check(&all([property("PartitionKey").eq("p"), keys(1000)])).unwrap_err();
        assert!(error.kind() == ErrorKind::Refused && error.message().contains("get_many"));
    }

    #[test]
    fn a_prefix_is_a_range() {
        assert_eq!(prefix("RowKey", ""), None);
        assert_eq!(
            prefix("RowKey", "ab").map(|filter| print(&filter)).unwrap(),
            "RowKey ge 'ab' and RowKey lt 'ac'"
        );
    }
}
