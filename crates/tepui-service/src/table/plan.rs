//! From a filter to the narrowest ranges of keys that hold everything it can match.
//!
//! A filter is read as a union of boxes: an interval of the first key and one of the second. A box
//! whose first interval is a single partition becomes a range of rows, any other a range of
//! partitions. What lies in the ranges still has to pass the filter unless the plan is exact.

use crate::keyspace::{self, Edge, Incarnation};
use std::cmp::Ordering;
use std::ops::Bound;
use tepui_model::grant::KeyBounds;
use tepui_model::table::{Comparison, Filter, Literal, PlanKind, ValueRef};
use tepui_model::text::utf16_cmp;
use tepui_storage::{Key, KeyRange};

/// More boxes than this are not worth telling apart.
const MAX_BOXES: usize = 1000;

/// What to read for a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) kind: PlanKind,
    /// In order and apart from each other.
    pub(super) ranges: Vec<KeyRange>,
    /// Everything in the ranges matches: the filter need not be asked again.
    pub(super) exact: bool,
}

/// Plans a query for entities of a table.
pub(super) fn entities(table: Incarnation, filter: Option<&Filter>, bounds: &KeyBounds) -> Plan {
    let boxes = Boxes::of(filter, &["PartitionKey", "RowKey"]);
    let whole = bounded(table, bounds);
    let ranges = boxes.all.iter().map(|part| clip(part.entity_range(table), &whole)).collect();
    Plan {
        kind: boxes.kind(),
        ranges: joined(ranges),
        exact: boxes.exact && boxes.all.iter().all(KeyBox::is_one_range),
    }
}

/// Plans a query for the tables of an account. Literals of the filter are in lower case.
pub(super) fn tables(account: &str, filter: Option<&Filter>) -> Vec<KeyRange> {
    let boxes = Boxes::of(filter, &["TableName"]);
    let whole = keyspace::tables(account);
    let edge = |name: &str, edge| keyspace::table_edge(account, name, edge);
    let range = |part: &KeyBox| clip(part.first.range(&whole, edge), &whole);
    joined(boxes.all.iter().map(range).collect())
}

/// What a SAS reaches of a table: one range, because its bounds are tuples of both keys.
fn bounded(table: Incarnation, bounds: &KeyBounds) -> KeyRange {
    let whole = keyspace::entities(table);
    let edge = |partition: &Option<String>, row: &Option<String>, edge| {
        let partition = partition.as_deref()?;
        Some(match row {
            Some(row) => keyspace::entity_edge(table, partition, row, edge),
            None => keyspace::partition_edge(table, partition, edge),
        })
    };
    KeyRange {
        start: edge(&bounds.start_partition, &bounds.start_row, Edge::Before).unwrap_or(whole.start),
        end: edge(&bounds.end_partition, &bounds.end_row, Edge::After).unwrap_or(whole.end),
    }
}

fn clip(range: KeyRange, to: &KeyRange) -> KeyRange {
    KeyRange { start: range.start.max(to.start.clone()), end: range.end.min(to.end.clone()) }
}

/// Sorts ranges, drops the empty ones, and joins those that touch.
fn joined(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let mut apart: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = range.end.max(last.end.clone()),
            _ => apart.push(range),
        }
    }
    apart
}

/// A union of boxes that holds every match of a filter, and nothing else if it is exact.
struct Boxes {
    all: Vec<KeyBox>,
    exact: bool,
}

#[derive(Debug, Clone)]
struct KeyBox {
    first: Interval,
    second: Interval,
}

impl Boxes {
    fn everything(exact: bool) -> Self {
        Self { all: vec![KeyBox { first: Interval::ALL, second: Interval::ALL }], exact }
    }

    fn nothing() -> Self {
        Self { all: Vec::new(), exact: true }
    }

    fn constant(answer: bool) -> Self {
        if answer { Self::everything(true) } else { Self::nothing() }
    }

    fn of(filter: Option<&Filter>, keys: &[&str]) -> Self {
        filter.map_or(Self::everything(true), |filter| Self::read(filter, keys, false))
    }

    /// What `filter` holds, or what it does not if `negated`.
    fn read(filter: &Filter, keys: &[&str], negated: bool) -> Self {
        match filter {
            Filter::Constant(answer) => Self::constant(*answer != negated),
            Filter::Not(inner) => Self::read(inner, keys, !negated),
            Filter::And(all) if !negated => Self::intersection(all, keys, negated),
            Filter::Or(any) if negated => Self::intersection(any, keys, negated),
            Filter::And(parts) | Filter::Or(parts) => Self::union(parts, keys, negated),
            // Keys are never Boolean.
            Filter::IsTrue(property) if keys.contains(&property.as_str()) => Self::constant(negated),
            Filter::IsTrue(_) => Self::everything(false),
            Filter::Compare { property, how, value } => match keys.iter().position(|key| key == property) {
                None => Self::everything(false),
                Some(which) => Self::comparison(which, *how, value, negated),
            },
        }
    }

    /// Keys always exist, so a comparison and its opposite leave nothing out.
    fn comparison(which: usize, how: Comparison, value: &Literal, negated: bool) -> Self {
        let Literal::String(text) = value else {
            let order = value.order_of(ValueRef::string(""));
            return Self::constant(how.accepts(order) != negated);
        };
        let how = if negated { opposite(how) } else { how };
        let all = Interval::of(how, text).into_iter();
        let all = all.map(|interval| match which {
            0 => KeyBox { first: interval, second: Interval::ALL },
            _ => KeyBox { first: Interval::ALL, second: interval },
        });
        Self { all: all.collect(), exact: true }
    }

    fn intersection(parts: &[Filter], keys: &[&str], negated: bool) -> Self {
        parts.iter().map(|part| Self::read(part, keys, negated)).fold(Self::everything(true), |sum, part| {
            if sum.all.len() * part.all.len() > MAX_BOXES {
                let smaller = if sum.all.len() <= part.all.len() { sum } else { part };
                return Self { exact: false, ..smaller };
            }
            let pairs = sum.all.iter().flat_map(|a| part.all.iter().filter_map(move |b| a.and(b)));
            Self { all: pairs.collect(), exact: sum.exact && part.exact }
        })
    }

    fn union(parts: &[Filter], keys: &[&str], negated: bool) -> Self {
        let mut sum = Self::nothing();
        for part in parts {
            let part = Self::read(part, keys, negated);
            sum.all.extend(part.all);
            sum.exact &= part.exact;
            if sum.all.len() > MAX_BOXES {
                return Self::everything(false);
            }
        }
        sum
    }

    fn kind(&self) -> PlanKind {
        self.all.iter().map(KeyBox::kind).max().unwrap_or(PlanKind::Nothing)
    }
}

impl KeyBox {
    fn and(&self, other: &Self) -> Option<Self> {
        Some(Self { first: self.first.and(&other.first)?, second: self.second.and(&other.second)? })
    }

    fn kind(&self) -> PlanKind {
        match (self.first.point(), self.second.point()) {
            (Some(_), Some(_)) => PlanKind::Point,
            (Some(_), None) if self.second.is_all() => PlanKind::Partition,
            (Some(_), None) => PlanKind::RowRange,
            (None, _) if self.first.is_all() => PlanKind::Table,
            (None, _) => PlanKind::PartitionRange,
        }
    }

    /// Whether the box is just one range of keys, rather than a part of one.
    fn is_one_range(&self) -> bool {
        self.first.point().is_some() || self.second.is_all()
    }

    fn entity_range(&self, table: Incarnation) -> KeyRange {
        match self.first.point() {
            Some(partition) => {
                let whole = KeyRange {
                    start: keyspace::partition_edge(table, partition, Edge::Before),
                    end: keyspace::partition_edge(table, partition, Edge::After),
                };
                self.second.range(&whole, |row, edge| keyspace::entity_edge(table, partition, row, edge))
            }
            None => self.first.range(&keyspace::entities(table), |partition, edge| {
                keyspace::partition_edge(table, partition, edge)
            }),
        }
    }
}

/// The texts between two bounds.
#[derive(Debug, Clone)]
struct Interval {
    low: Bound<String>,
    high: Bound<String>,
}

impl Interval {
    const ALL: Self = Self { low: Bound::Unbounded, high: Bound::Unbounded };

    fn of(how: Comparison, text: &str) -> Vec<Self> {
        let (included, excluded) = (|| Bound::Included(text.to_owned()), || Bound::Excluded(text.to_owned()));
        let above = |low| Self { low, high: Bound::Unbounded };
        let below = |high| Self { low: Bound::Unbounded, high };
        match how {
            Comparison::Equal => vec![Self { low: included(), high: included() }],
            Comparison::NotEqual => vec![below(excluded()), above(excluded())],
            Comparison::Greater => vec![above(excluded())],
            Comparison::GreaterOrEqual => vec![above(included())],
            Comparison::Less => vec![below(excluded())],
            Comparison::LessOrEqual => vec![below(included())],
        }
    }

    fn is_all(&self) -> bool {
        matches!((&self.low, &self.high), (Bound::Unbounded, Bound::Unbounded))
    }

    fn point(&self) -> Option<&str> {
        match (&self.low, &self.high) {
            (Bound::Included(low), Bound::Included(high)) if low == high => Some(low),
            _ => None,
        }
    }

    /// What lies in both; `None` if that is nothing.
    fn and(&self, other: &Self) -> Option<Self> {
        let low = tighter(&self.low, &other.low, Ordering::Greater);
        let high = tighter(&self.high, &other.high, Ordering::Less);
        let empty = match (&low, &high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => {
                utf16_cmp(low.as_bytes(), high.as_bytes()).is_gt()
            }
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
                utf16_cmp(low.as_bytes(), high.as_bytes()).is_ge()
            }
        };
        (!empty).then_some(Self { low, high })
    }

    /// The interval as keys, within `whole`, with the boundaries that `edge` draws around a text.
    fn range(&self, whole: &KeyRange, edge: impl Fn(&str, Edge) -> Key) -> KeyRange {
        let start = match &self.low {
            Bound::Unbounded => whole.start.clone(),
            Bound::Included(text) => edge(text, Edge::Before),
            Bound::Excluded(text) => edge(text, Edge::After),
        };
        let end = match &self.high {
            Bound::Unbounded => whole.end.clone(),
            Bound::Included(text) => edge(text, Edge::After),
            Bound::Excluded(text) => edge(text, Edge::Before),
        };
        KeyRange { start, end }
    }
}

/// The bound that leaves less; `tight` says in which direction that is.
fn tighter(a: &Bound<String>, b: &Bound<String>, tight: Ordering) -> Bound<String> {
    let (text_a, text_b) = match (a, b) {
        (Bound::Unbounded, other) | (other, Bound::Unbounded) => return other.clone(),
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => (a, b),
    };
    match utf16_cmp(text_a.as_bytes(), text_b.as_bytes()) {
        Ordering::Equal if matches!(a, Bound::Excluded(_)) => a.clone(),
        Ordering::Equal => b.clone(),
        order if order == tight => a.clone(),
        _ => b.clone(),
    }
}

fn opposite(how: Comparison) -> Comparison {
    match how {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
