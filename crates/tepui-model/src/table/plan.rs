//! What a filter says about keys: the entities or tables that it can match, without a look at any of them.
//!
//! A filter is read as a union of boxes: an interval of the first key (`PartitionKey`, or `TableName`) and one of the
//! second (`RowKey`). Servers turn boxes into ranges of keys; clients and tools explain with them what a query costs.

use super::{Comparison, Filter, Literal, PlanKind, ValueRef};
use crate::cost::CostHint;
use crate::text::utf16_cmp;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

/// More boxes than this are not worth telling apart.
const MAX_BOXES: usize = 1000;

/// A union of boxes that holds every match of a filter, and nothing else if it is exact.
///
/// ```
/// use tepui_model::table::{Comparison, Filter, Literal, PlanKind, QueryHint, QueryPlan};
///
/// let filter = Filter::Compare {
///     property: "RowKey".to_owned(),
///     how: Comparison::Equal,
///     value: Literal::String("7".to_owned()),
/// };
/// let plan = QueryPlan::of_entities(Some(&filter));
/// assert_eq!(plan.kind(), PlanKind::Table);
/// assert_eq!(plan.hints(), [QueryHint::EveryPartition, QueryHint::FiltersWhatIsRead]);
/// ```
#[derive(Debug, Clone)]
pub struct QueryPlan {
    pub boxes: Vec<KeyBox>,
    /// Everything in the boxes matches.
    pub is_exact: bool,
}

/// What a person who designs tables may want to know about a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryHint {
    EveryPartition,
    SeveralPartitions,
    FiltersWhatIsRead,
    SeveralPoints,
}

impl QueryHint {
    /// As it is written in the receipt of a query that ran.
    pub fn name(self) -> &'static str {
        self.in_receipt().name()
    }

    /// The hint that the receipt has, if what was read makes it worth one.
    pub fn in_receipt(self) -> CostHint {
        match self {
            Self::EveryPartition => CostHint::FullScan,
            Self::SeveralPartitions => CostHint::RowKeyRange,
            Self::FiltersWhatIsRead => CostHint::LowDensity,
            Self::SeveralPoints => CostHint::UsePoint,
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::EveryPartition => {
                "The filter does not limit PartitionKey: every entity of the table is read. Give a PartitionKey, or \
                 keep a second copy of the entities with a key that is asked for."
            }
            Self::SeveralPartitions => {
                "The filter limits PartitionKey to a range: every entity of those partitions is read. One PartitionKey \
                 with a range of RowKey reads only what matches."
            }
            Self::FiltersWhatIsRead => {
                "Only keys are indexed: what else the filter asks for is looked for in every entity that is read. Put it \
                 into the RowKey if it is asked for often."
            }
            Self::SeveralPoints => {
                "The filter names several single entities: each is looked up on its own, one after the other. Ask for each \
                 by its keys, several at a time; entities that are read together cost less if their keys follow each other."
            }
        }
    }
}

/// Intervals of both keys.
#[derive(Debug, Clone)]
pub struct KeyBox {
    pub first: Interval,
    pub second: Interval,
}

impl QueryPlan {
    /// Of a query for entities.
    pub fn of_entities(filter: Option<&Filter>) -> Self {
        Self::of(filter, &["PartitionKey", "RowKey"])
    }

    /// Of a query for tables.
    pub fn of_tables(filter: Option<&Filter>) -> Self {
        Self::of(filter, &["TableName"])
    }

    /// The most expensive of its boxes.
    pub fn kind(&self) -> PlanKind {
        self.boxes.iter().map(KeyBox::kind).max().unwrap_or(PlanKind::Nothing)
    }

    /// Whether the filter holds for everything in the ranges of the boxes, so that it need not be asked again.
    pub fn is_exact_in_ranges(&self) -> bool {
        self.is_exact && self.boxes.iter().all(KeyBox::is_one_range)
    }

    /// What could be better about a query for entities.
    pub fn hints(&self) -> Vec<QueryHint> {
        let mut hints = Vec::new();
        match self.kind() {
            PlanKind::Table => hints.push(QueryHint::EveryPartition),
            PlanKind::PartitionRange => hints.push(QueryHint::SeveralPartitions),
            PlanKind::Point if self.boxes.len() > 1 => hints.push(QueryHint::SeveralPoints),
            PlanKind::Nothing | PlanKind::Point | PlanKind::RowRange | PlanKind::Partition => {}
        }
        if !self.is_exact_in_ranges() {
            hints.push(QueryHint::FiltersWhatIsRead);
        }
        hints
    }

    fn everything(exact: bool) -> Self {
        Self { boxes: vec![KeyBox { first: Interval::ALL, second: Interval::ALL }], is_exact: exact }
    }

    fn nothing() -> Self {
        Self { boxes: Vec::new(), is_exact: true }
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
        Self { boxes: all.collect(), is_exact: true }
    }

    fn intersection(parts: &[Filter], keys: &[&str], negated: bool) -> Self {
        parts.iter().map(|part| Self::read(part, keys, negated)).fold(Self::everything(true), |sum, part| {
            if sum.boxes.len() * part.boxes.len() > MAX_BOXES {
                let smaller = if sum.boxes.len() <= part.boxes.len() { sum } else { part };
                return Self { is_exact: false, ..smaller };
            }
            let pairs = sum.boxes.iter().flat_map(|a| part.boxes.iter().filter_map(move |b| a.and(b)));
            Self { boxes: pairs.collect(), is_exact: sum.is_exact && part.is_exact }
        })
    }

    fn union(parts: &[Filter], keys: &[&str], negated: bool) -> Self {
        let mut sum = Self::nothing();
        for part in parts {
            let part = Self::read(part, keys, negated);
            sum.boxes.extend(part.boxes);
            sum.is_exact &= part.is_exact;
            if sum.boxes.len() > MAX_BOXES {
                return Self::everything(false);
            }
        }
        sum
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
}

/// The texts between two bounds.
#[derive(Debug, Clone)]
pub struct Interval {
    pub low: Bound<String>,
    pub high: Bound<String>,
}

impl Interval {
    pub const ALL: Self = Self { low: Bound::Unbounded, high: Bound::Unbounded };

    fn of(how: Comparison, text: &str) -> Vec<Self> {
        let (included, excluded) = (|| Bound::Included(text.to_owned()), || Bound::Excluded(text.to_owned()));
        let above = |low| Self { low, high: Bound::Unbounded };
        let below = |high| Self { low: Bound::Unbounded, high };
        match how {
            // No text is less than the empty one.
            Comparison::Less if text.is_empty() => Vec::new(),
            Comparison::GreaterOrEqual if text.is_empty() => vec![Self::ALL],
            Comparison::NotEqual if text.is_empty() => vec![above(excluded())],
            Comparison::LessOrEqual if text.is_empty() => vec![Self { low: included(), high: included() }],
            Comparison::Equal => vec![Self { low: included(), high: included() }],
            Comparison::NotEqual => vec![below(excluded()), above(excluded())],
            Comparison::Greater => vec![above(excluded())],
            Comparison::GreaterOrEqual => vec![above(included())],
            Comparison::Less => vec![below(excluded())],
            Comparison::LessOrEqual => vec![below(included())],
        }
    }

    pub fn is_all(&self) -> bool {
        matches!((&self.low, &self.high), (Bound::Unbounded, Bound::Unbounded))
    }

    /// The only text in it, if it is one.
    pub fn point(&self) -> Option<&str> {
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
}

/// As people write it: `>= '2026'`, `in ['a', 'c')`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(point) = self.point() {
            return write!(f, "= '{point}'");
        }
        match (&self.low, &self.high) {
            (Bound::Unbounded, Bound::Unbounded) => f.write_str("any"),
            (Bound::Included(low), Bound::Unbounded) => write!(f, ">= '{low}'"),
            (Bound::Excluded(low), Bound::Unbounded) => write!(f, "> '{low}'"),
            (Bound::Unbounded, Bound::Included(high)) => write!(f, "<= '{high}'"),
            (Bound::Unbounded, Bound::Excluded(high)) => write!(f, "< '{high}'"),
            (Bound::Included(low), Bound::Included(high)) => write!(f, "in ['{low}', '{high}']"),
            (Bound::Included(low), Bound::Excluded(high)) => write!(f, "in ['{low}', '{high}')"),
            (Bound::Excluded(low), Bound::Included(high)) => write!(f, "in ('{low}', '{high}']"),
            (Bound::Excluded(low), Bound::Excluded(high)) => write!(f, "in ('{low}', '{high}')"),
        }
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
mod tests {
    use super::*;

    fn compare(property: &str, how: Comparison, text: &str) -> Filter {
        Filter::Compare { property: property.to_owned(), how, value: Literal::String(text.to_owned()) }
    }

    #[test]
    fn hints_say_what_could_be_better() {
        use Comparison::{Equal, Greater};
        use QueryHint::*;
        let pk = || compare("PartitionKey", Equal, "a");
        let other = || compare("City", Equal, "Bern");
        let points = |count: usize| {
            let rows = (0..count).map(|row| compare("RowKey", Equal, &row.to_string())).collect();
            Filter::And(vec![pk(), Filter::Or(rows)])
        };
        for (case, filter, expected) in [
            ("everything", None, &[EveryPartition][..]),
            ("a partition", Some(pk()), &[]),
            ("a property", Some(other()), &[EveryPartition, FiltersWhatIsRead]),
            ("a property of a partition", Some(Filter::And(vec![pk(), other()])), &[FiltersWhatIsRead]),
            ("a range of partitions", Some(compare("PartitionKey", Greater, "a")), &[SeveralPartitions]),
            ("a point", Some(points(1)), &[]),
            ("two points", Some(points(2)), &[SeveralPoints]),
            ("nothing", Some(Filter::Constant(false)), &[]),
        ] {
            assert_eq!(QueryPlan::of_entities(filter.as_ref()).hints(), expected, "{case}");
        }
    }
}
