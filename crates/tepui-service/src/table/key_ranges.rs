//! From a filter to the narrowest ranges of keys that hold everything it can match.
//!
//! A box of the filter's plan whose first interval is a single partition becomes a range of rows, any other a range of
//! partitions. What lies in the ranges still has to pass the filter unless the plan is exact.

use crate::keyspace::{self, Edge, Incarnation};
use std::ops::Bound;
use tepui_model::grant::KeyBounds;
use tepui_model::table::{Filter, Interval, KeyBox, PlanKind, QueryPlan};
use tepui_storage::{Key, KeyRange};

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
    let plan = QueryPlan::of_entities(filter);
    let whole = bounded(table, bounds);
    let ranges = plan.boxes.iter().map(|part| clip(entity_range(part, table), &whole)).collect();
    Plan { kind: plan.kind(), ranges: joined(ranges), exact: plan.is_exact_in_ranges() }
}

/// Plans a query for the tables of an account. Literals of the filter are in lower case.
pub(super) fn tables(account: &str, filter: Option<&Filter>) -> Vec<KeyRange> {
    let plan = QueryPlan::of_tables(filter);
    let whole = keyspace::listed_tables(account);
    let edge = |name: &str, edge| keyspace::table_edge(account, name, edge);
    let range = |part: &KeyBox| clip(range_of(&part.first, &whole, edge), &whole);
    joined(plan.boxes.iter().map(range).collect())
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

fn entity_range(part: &KeyBox, table: Incarnation) -> KeyRange {
    match part.first.point() {
        Some(partition) => {
            let whole = KeyRange {
                start: keyspace::partition_edge(table, partition, Edge::Before),
                end: keyspace::partition_edge(table, partition, Edge::After),
            };
            range_of(&part.second, &whole, |row, edge| keyspace::entity_edge(table, partition, row, edge))
        }
        None => range_of(&part.first, &keyspace::entities(table), |partition, edge| {
            keyspace::partition_edge(table, partition, edge)
        }),
    }
}

/// The interval as keys, within `whole`, with the boundaries that `edge` draws around a text.
fn range_of(interval: &Interval, whole: &KeyRange, edge: impl Fn(&str, Edge) -> Key) -> KeyRange {
    let start = match &interval.low {
        Bound::Unbounded => whole.start.clone(),
        Bound::Included(text) => edge(text, Edge::Before),
        Bound::Excluded(text) => edge(text, Edge::After),
    };
    let end = match &interval.high {
        Bound::Unbounded => whole.end.clone(),
        Bound::Included(text) => edge(text, Edge::After),
        Bound::Excluded(text) => edge(text, Edge::Before),
    };
    KeyRange { start, end }
}

#[cfg(test)]
#[path = "key_ranges_tests.rs"]
mod tests;
