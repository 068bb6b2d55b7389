//! Filters: a tree with one meaning, which can be asked of an entity without building it whole.

use super::edm::{Guid, ValueRef};
use super::entity::EntityView;
use crate::Timestamp;
use crate::text::utf16_cmp;
use std::cmp::Ordering;

/// The condition of a `$filter`.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// `true` or `false`.
    Constant(bool),
    /// A property's name alone: it is a Boolean, and true.
    IsTrue(String),
    Compare {
        property: String,
        how: Comparison,
        value: Literal,
    },
    /// All of them; at least two.
    And(Vec<Filter>),
    /// Any of them; at least two.
    Or(Vec<Filter>),
    Not(Box<Filter>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// A constant in a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    String(String),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Boolean(bool),
    DateTime(Timestamp),
    Guid(Guid),
    Binary(Vec<u8>),
}

impl Filter {
    /// Whether an entity meets the condition.
    pub fn matches(&self, entity: &EntityView<'_>) -> bool {
        self.holds(&mut Lookup { entity, last: None })
    }

    fn holds<'a>(&'a self, properties: &mut Lookup<'a>) -> bool {
        match self {
            Self::Constant(answer) => *answer,
            Self::IsTrue(property) => properties.get(property) == Some(ValueRef::Boolean(true)),
            // An entity that lacks the property fails every comparison, also "not equal".
            Self::Compare { property, how, value } => {
                properties.get(property).is_some_and(|stored| how.accepts(value.order_of(stored)))
            }
            Self::And(all) => all.iter().all(|filter| filter.holds(properties)),
            Self::Or(any) => any.iter().any(|filter| filter.holds(properties)),
            Self::Not(inner) => !inner.holds(properties),
        }
    }

    /// How many comparisons it has: how much work it can be to match an entity.
    pub fn comparisons(&self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::IsTrue(_) | Self::Compare { .. } => 1,
            Self::And(filters) | Self::Or(filters) => filters.iter().map(Self::comparisons).sum(),
            Self::Not(inner) => inner.comparisons(),
        }
    }
}

/// The properties of an entity, of which the last one is remembered: long filters ask for the same again and again.
struct Lookup<'a> {
    entity: &'a EntityView<'a>,
    last: Option<(&'a str, Option<ValueRef<'a>>)>,
}

impl<'a> Lookup<'a> {
    fn get(&mut self, name: &'a str) -> Option<ValueRef<'a>> {
        match self.last {
            Some((last, value)) if last == name => value,
            _ => {
                let value = self.entity.property(name);
                self.last = Some((name, value));
                value
            }
        }
    }
}

impl Comparison {
    /// Whether a value that stands in this order to the constant passes. `None`: they have no order (NaN).
    pub fn accepts(self, order: Option<Ordering>) -> bool {
        match (self, order) {
            (Self::Equal, order) => order == Some(Ordering::Equal),
            (Self::NotEqual, order) => order != Some(Ordering::Equal),
            (_, None) => false,
            (Self::Greater, Some(order)) => order.is_gt(),
            (Self::GreaterOrEqual, Some(order)) => order.is_ge(),
            (Self::Less, Some(order)) => order.is_lt(),
            (Self::LessOrEqual, Some(order)) => order.is_le(),
        }
    }

    /// The comparison with its sides exchanged: `1 lt X` is `X gt 1`.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
        }
    }
}

impl Literal {
    /// How a stored value stands to this constant.
    ///
    /// A narrower number in the filter is widened to the stored type. Any other difference of types
    /// puts the stored value below the constant.
    pub fn order_of(&self, stored: ValueRef<'_>) -> Option<Ordering> {
        match (stored, self) {
            (ValueRef::String(a), Self::String(b)) => Some(utf16_cmp(a.bytes(), b.as_bytes())),
            (ValueRef::Int32(a), Self::Int32(b)) => Some(a.cmp(b)),
            (ValueRef::Int64(a), Self::Int64(b)) => Some(a.cmp(b)),
            (ValueRef::Int64(a), Self::Int32(b)) => Some(a.cmp(&i64::from(*b))),
            (ValueRef::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (ValueRef::Double(a), Self::Int32(b)) => a.partial_cmp(&f64::from(*b)),
            (ValueRef::Double(a), Self::Int64(b)) => a.partial_cmp(&(*b as f64)),
            (ValueRef::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            (ValueRef::DateTime(a), Self::DateTime(b)) => Some(a.cmp(b)),
            (ValueRef::Guid(a), Self::Guid(b)) => Some(a.cmp(b)),
            (ValueRef::Binary(a), Self::Binary(b)) => Some(a.cmp(b.as_slice())),
            // Fidelity: types that do not compare rank the stored value lowest. scenario: filter-type-mismatch
            _ => Some(Ordering::Less),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Entity, EntityKey, PropertiesBuilder};

    fn entity() -> Entity {
        let mut builder = PropertiesBuilder::new();
        for (name, value) in [
            ("I", ValueRef::Int32(3)),
            ("L", ValueRef::Int64(3)),
            ("D", ValueRef::Double(3.0)),
            ("N", ValueRef::Double(f64::NAN)),
            ("S", ValueRef::string("b")),
            ("B", ValueRef::Boolean(true)),
            ("F", ValueRef::Boolean(false)),
            ("X", ValueRef::Binary(&[1, 2])),
        ] {
            builder.push(name, value).unwrap();
        }
        Entity {
            key: EntityKey::new("p", "r"),
            timestamp: Timestamp::parse_iso("2026-03-10").unwrap(),
            properties: builder.finish(),
        }
    }

    fn compare(property: &str, how: Comparison, value: Literal) -> Filter {
        Filter::Compare { property: property.to_owned(), how, value }
    }

    /// The comparisons that hold, as a text like `eq ge le`.
    fn holding(property: &str, value: Literal) -> String {
        use Comparison::*;
        let all = [
            ("eq", Equal),
            ("ne", NotEqual),
            ("gt", Greater),
            ("ge", GreaterOrEqual),
            ("lt", Less),
            ("le", LessOrEqual),
        ];
        let entity = entity();
        let holds = |how| compare(property, how, value.clone()).matches(&entity.view());
        all.iter().filter(|(_, how)| holds(*how)).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comparisons_by_type() {
        let (equal, below, above) = ("eq ge le", "ne lt le", "ne gt ge");
        for (property, value, expected) in [
            ("I", Literal::Int32(3), equal),
            ("I", Literal::Int32(2), above),
            ("I", Literal::Int64(3), below),
            ("I", Literal::Double(3.0), below),
            ("I", Literal::String("3".to_owned()), below),
            ("L", Literal::Int32(3), equal),
            ("L", Literal::Int64(4), below),
            ("L", Literal::Double(1.0), below),
            ("D", Literal::Int32(2), above),
            ("D", Literal::Int64(3), equal),
            ("D", Literal::Double(3.5), below),
            ("N", Literal::Double(f64::NAN), "ne"),
            ("N", Literal::Double(1.0), "ne"),
            ("S", Literal::String("a".to_owned()), above),
            ("S", Literal::String("b".to_owned()), equal),
            ("S", Literal::Int32(0), below),
            ("B", Literal::Boolean(false), above),
            ("X", Literal::Binary(vec![1, 2, 0]), below),
            ("X", Literal::Binary(vec![1]), above),
            ("PartitionKey", Literal::String("p".to_owned()), equal),
            ("PartitionKey", Literal::Int32(1), below),
            ("Missing", Literal::Int32(1), ""),
        ] {
            assert_eq!(holding(property, value.clone()), expected, "{property} {value:?}");
        }
    }

    #[test]
    fn logic() {
        let entity = entity();
        let yes = || compare("I", Comparison::Equal, Literal::Int32(3));
        let no = || compare("I", Comparison::Equal, Literal::Int32(4));
        for (case, filter, expected) in [
            ("and", Filter::And(vec![yes(), yes()]), true),
            ("and with one false", Filter::And(vec![yes(), no()]), false),
            ("or", Filter::Or(vec![no(), yes()]), true),
            ("or of false", Filter::Or(vec![no(), no()]), false),
            (
                "not of a missing property",
                Filter::Not(Box::new(compare(
                    "Missing",
                    Comparison::GreaterOrEqual,
                    Literal::String(String::new()),
                ))),
                true,
            ),
            ("a true property", Filter::IsTrue("B".to_owned()), true),
            ("a false property", Filter::IsTrue("F".to_owned()), false),
            ("not a Boolean", Filter::IsTrue("I".to_owned()), false),
            ("constant", Filter::Constant(false), false),
            (
                "the same property again, then another",
                Filter::And(vec![
                    yes(),
                    compare("I", Comparison::Less, Literal::Int32(4)),
                    compare("L", Comparison::Less, Literal::Int64(4)),
                    compare("S", Comparison::Equal, Literal::String("b".to_owned())),
                    yes(),
                ]),
                true,
            ),
        ] {
            assert_eq!(filter.matches(&entity.view()), expected, "{case}");
        }
    }
}
