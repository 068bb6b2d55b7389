//! What a query for entities would read, without running it: the plan, the ranges of keys, and what could be better.

use super::{Filter, Interval, KeyBox, PlanKind, QueryHint, QueryPlan};
use crate::text::utf16_cmp;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

/// Says what a query with this filter would read. It follows from the filter alone, so no server is asked.
///
/// ```
/// use tepui_model::table::{Comparison, Filter, Literal, PlanKind, explain};
///
/// let compare = |property: &str, how, text: &str| Filter::Compare {
///     property: property.to_owned(),
///     how,
///     value: Literal::String(text.to_owned()),
/// };
/// let orders_of_2026 = Filter::And(vec![
///     compare("PartitionKey", Comparison::Equal, "berlin"),
///     compare("RowKey", Comparison::GreaterOrEqual, "2026"),
///     compare("Status", Comparison::Equal, "open"),
/// ]);
/// let explanation = explain(Some(&orders_of_2026));
/// assert_eq!(explanation.plan, PlanKind::RowRange);
/// assert_eq!(explanation.ranges.len(), 1);
/// assert_eq!(explanation.ranges[0].to_string(), "PartitionKey = 'berlin', RowKey >= '2026'");
/// let hint = explanation.hint().expect("the Status is no key");
/// assert_eq!(hint.name(), "low-density");
///
/// // Without a filter, everything is read.
/// let explanation = explain(None);
/// assert_eq!(explanation.plan, PlanKind::Table);
/// assert_eq!(explanation.hint().map(|hint| hint.name()), Some("full-scan"));
/// ```
pub fn explain(filter: Option<&Filter>) -> Explanation {
    let plan = QueryPlan::of_entities(filter);
    Explanation { plan: plan.kind(), ranges: ranges(&plan.boxes), hints: plan.hints() }
}

/// What a query for entities would read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub plan: PlanKind,
    /// The ranges of keys that are read one after the other, in order and apart from each other.
    pub ranges: Vec<EntityRange>,
    /// What could be better, the most important first.
    pub hints: Vec<QueryHint>,
}

impl Explanation {
    /// The most important hint.
    pub fn hint(&self) -> Option<QueryHint> {
        self.hints.first().copied()
    }
}

/// The entities between two places in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityRange {
    pub low: KeyEdge,
    pub high: KeyEdge,
}

/// A place in the order of keys, right before or after an entity or a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEdge {
    /// Before all entities.
    Start,
    Partition {
        key: String,
        side: Side,
    },
    Row {
        partition: String,
        key: String,
        side: Side,
    },
    /// After all entities.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Before,
    After,
}

/// The ranges that boxes are read as: those of one partition are ranges of rows, all others are ranges of partitions.
fn ranges(boxes: &[KeyBox]) -> Vec<EntityRange> {
    let mut all: Vec<EntityRange> = boxes.iter().map(EntityRange::of_box).collect();
    all.sort_by(|a, b| a.low.order(&b.low));
    let mut apart: Vec<EntityRange> = Vec::with_capacity(all.len());
    for range in all {
        match apart.last_mut() {
            Some(last) if range.low.order(&last.high).is_le() => {
                if range.high.order(&last.high).is_gt() {
                    last.high = range.high;
                }
            }
            _ => apart.push(range),
        }
    }
    apart
}

impl EntityRange {
    fn of_box(part: &KeyBox) -> Self {
        match part.first.point() {
            Some(partition) => {
                let whole = |side| KeyEdge::Partition { key: partition.to_owned(), side };
                let row = |key, side| KeyEdge::Row { partition: partition.to_owned(), key, side };
                Self::of(&part.second, (whole(Side::Before), whole(Side::After)), row)
            }
            None => Self::of(&part.first, (KeyEdge::Start, KeyEdge::End), |key, side| KeyEdge::Partition {
                key,
                side,
            }),
        }
    }

    /// An interval of what lies between the edges `whole`.
    fn of(interval: &Interval, whole: (KeyEdge, KeyEdge), edge: impl Fn(String, Side) -> KeyEdge) -> Self {
        let low = match &interval.low {
            Bound::Unbounded => whole.0,
            Bound::Included(text) => edge(text.clone(), Side::Before),
            Bound::Excluded(text) => edge(text.clone(), Side::After),
        };
        let high = match &interval.high {
            Bound::Unbounded => whole.1,
            Bound::Included(text) => edge(text.clone(), Side::After),
            Bound::Excluded(text) => edge(text.clone(), Side::Before),
        };
        Self { low, high }
    }

    /// The partition that it lies in, and the rows, if it is in one.
    fn rows(&self) -> Option<(&str, Interval)> {
        let partition = self.low.partition().filter(|partition| self.high.partition() == Some(partition))?;
        let low = match &self.low {
            KeyEdge::Row { key, side: Side::Before, .. } => Bound::Included(key.clone()),
            KeyEdge::Row { key, side: Side::After, .. } => Bound::Excluded(key.clone()),
            KeyEdge::Partition { side: Side::Before, .. } => Bound::Unbounded,
            _ => return None,
        };
        let high = match &self.high {
            KeyEdge::Row { key, side: Side::After, .. } => Bound::Included(key.clone()),
            KeyEdge::Row { key, side: Side::Before, .. } => Bound::Excluded(key.clone()),
            KeyEdge::Partition { side: Side::After, .. } => Bound::Unbounded,
            _ => return None,
        };
        Some((partition, Interval { low, high }))
    }

    /// The partitions, if all of them are read whole.
    fn partitions(&self) -> Option<Interval> {
        let low = match &self.low {
            KeyEdge::Start => Bound::Unbounded,
            KeyEdge::Partition { key, side: Side::Before } => Bound::Included(key.clone()),
            KeyEdge::Partition { key, side: Side::After } => Bound::Excluded(key.clone()),
            _ => return None,
        };
        let high = match &self.high {
            KeyEdge::End => Bound::Unbounded,
            KeyEdge::Partition { key, side: Side::After } => Bound::Included(key.clone()),
            KeyEdge::Partition { key, side: Side::Before } => Bound::Excluded(key.clone()),
            _ => return None,
        };
        Some(Interval { low, high })
    }
}

impl KeyEdge {
    fn partition(&self) -> Option<&str> {
        match self {
            Self::Start | Self::End => None,
            Self::Partition { key, .. } => Some(key),
            Self::Row { partition, .. } => Some(partition),
        }
    }

    /// Which of two comes first.
    fn order(&self, other: &Self) -> Ordering {
        let rank = |edge: &Self| match edge {
            Self::Start => 0,
            Self::Partition { .. } | Self::Row { .. } => 1,
            Self::End => 2,
        };
        let in_partition = |edge: &Self| match edge {
            Self::Partition { side: Side::Before, .. } => 0,
            // No row lies before that with the empty key.
            Self::Row { key, side: Side::Before, .. } if key.is_empty() => 0,
            Self::Partition { side: Side::After, .. } => 2,
            _ => 1,
        };
        let texts = |a: &str, b: &str| utf16_cmp(a.as_bytes(), b.as_bytes());
        let partitions =
            || texts(self.partition().unwrap_or_default(), other.partition().unwrap_or_default());
        let rows = || match (self, other) {
            (Self::Row { key: a, side: of_a, .. }, Self::Row { key: b, side: of_b, .. }) => {
                texts(a, b).then(of_a.cmp(of_b))
            }
            _ => Ordering::Equal,
        };
        rank(self)
            .cmp(&rank(other))
            .then_with(partitions)
            .then(in_partition(self).cmp(&in_partition(other)))
            .then_with(rows)
    }
}

/// As people write it: `PartitionKey = 'berlin', RowKey >= '2026'`.
impl fmt::Display for EntityRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((partition, rows)) = self.rows() {
            write!(f, "PartitionKey = '{partition}', RowKey {rows}")
        } else if let Some(partitions) = self.partitions() {
            write!(f, "PartitionKey {partitions}, RowKey any")
        } else {
            write!(f, "from {} to {}", self.low, self.high)
        }
    }
}

impl fmt::Display for KeyEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Side| match side {
            Side::Before => "before",
            Side::After => "after",
        };
        match self {
            Self::Start => f.write_str("the start"),
            Self::End => f.write_str("the end"),
            Self::Partition { key, side: at } => write!(f, "{} PartitionKey '{key}'", side(at)),
            Self::Row { partition, key, side: at } => {
                write!(f, "{} RowKey '{key}' of PartitionKey '{partition}'", side(at))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Comparison, Literal};
    use Comparison::*;

    fn compare(property: &str, how: Comparison, text: &str) -> Filter {
        Filter::Compare { property: property.to_owned(), how, value: Literal::String(text.to_owned()) }
    }

    fn partition(how: Comparison, text: &str) -> Filter {
        compare("PartitionKey", how, text)
    }

    fn row(of: &str, how: Comparison, text: &str) -> Filter {
        Filter::And(vec![partition(Equal, of), compare("RowKey", how, text)])
    }

    #[test]
    fn ranges_are_joined_and_printed() {
        let or = |parts: Vec<Filter>| Filter::Or(parts);
        for (case, filter, expected) in [
            ("a point", row("a", Equal, "1"), &["PartitionKey = 'a', RowKey = '1'"][..]),
            (
                "two points",
                or(vec![row("b", Equal, "1"), row("a", Equal, "1")]),
                &["PartitionKey = 'a', RowKey = '1'", "PartitionKey = 'b', RowKey = '1'"],
            ),
            (
                "the same twice",
                or(vec![partition(Equal, "a"), partition(Equal, "a")]),
                &["PartitionKey = 'a', RowKey any"],
            ),
            (
                "a part of the other",
                or(vec![partition(Equal, "a"), row("a", Less, "5")]),
                &["PartitionKey = 'a', RowKey any"],
            ),
            (
                "rows that touch",
                or(vec![row("a", Less, "5"), row("a", GreaterOrEqual, "5")]),
                &["PartitionKey = 'a', RowKey any"],
            ),
            (
                "rows with a gap",
                or(vec![row("a", Less, "5"), row("a", Greater, "5")]),
                &["PartitionKey = 'a', RowKey < '5'", "PartitionKey = 'a', RowKey > '5'"],
            ),
            (
                "partitions that touch",
                or(vec![partition(Less, "b"), partition(Equal, "b")]),
                &["PartitionKey <= 'b', RowKey any"],
            ),
            (
                "rows and what follows",
                or(vec![row("a", Greater, "5"), partition(Greater, "a")]),
                &["from after RowKey '5' of PartitionKey 'a' to the end"],
            ),
            (
                "some partitions",
                Filter::And(vec![partition(GreaterOrEqual, "a"), partition(Less, "c")]),
                &["PartitionKey in ['a', 'c'), RowKey any"],
            ),
            (
                "a row of some partitions reads all of them",
                Filter::And(vec![partition(Greater, "a"), compare("RowKey", Equal, "1")]),
                &["PartitionKey > 'a', RowKey any"],
            ),
            ("another property", compare("City", Equal, "Bern"), &["PartitionKey any, RowKey any"]),
            ("nothing", Filter::Constant(false), &[]),
        ] {
            let ranges: Vec<String> = explain(Some(&filter)).ranges.iter().map(ToString::to_string).collect();
            assert_eq!(ranges, expected, "{case}");
        }
    }
}
