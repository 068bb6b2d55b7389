//! `tepui explain`: what a query would read, without running it.

use crate::USAGE;
use crate::serve::Failure;
use clap::Args;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Bound;
use tepui_model::table::{Interval, PlanKind, QueryPlan};
use tepui_wire::table::filter_text;

/// Says what a query for entities would read, without running it: its plan, its ranges of keys, and what could be better
///
/// For example: tepui explain Orders "PartitionKey eq 'berlin' and RowKey lt '2026'"
#[derive(Args)]
pub(crate) struct ExplainOptions {
    /// The table that is queried
    table: String,
    /// The query's $filter; everything, if there is none
    #[arg(default_value = "")]
    filter: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn explain(options: &ExplainOptions) -> Result<(), Failure> {
    let filter = filter_text::parse(&options.filter)
        .map_err(|error| Failure { message: format!("the filter cannot be read: {error}"), code: USAGE })?;
    let plan = QueryPlan::of_entities(filter.as_ref());
    let text = if options.json { as_json(&options.table, &plan) } else { as_text(&options.table, &plan) };
    // Standard output may be closed.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(())
}

fn as_text(table: &str, plan: &QueryPlan) -> String {
    let mut text = format!("plan    {}: {}\n", plan.kind(), meaning(plan.kind()));
    for (index, keys) in plan.boxes.iter().enumerate() {
        let label = if index == 0 { "reads " } else { "" };
        let _ = writeln!(
            text,
            "{label:6}  {table}: PartitionKey {}, RowKey {}",
            interval(&keys.first),
            interval(&keys.second)
        );
    }
    for (index, hint) in plan.hints().iter().enumerate() {
        let label = if index == 0 { "hint  " } else { "" };
        let _ = writeln!(text, "{label:6}  {}", hint.message());
    }
    text
}

fn as_json(table: &str, plan: &QueryPlan) -> String {
    let ends =
        |interval: &Interval| serde_json::json!({"low": bound(&interval.low), "high": bound(&interval.high)});
    let ranges: Vec<_> = plan
        .boxes
        .iter()
        .map(|keys| serde_json::json!({"partitionKey": ends(&keys.first), "rowKey": ends(&keys.second)}))
        .collect();
    let hints: Vec<_> = plan.hints().iter().map(|hint| hint.message()).collect();
    let kind = plan.kind().name();
    format!("{}\n", serde_json::json!({"table": table, "plan": kind, "ranges": ranges, "hints": hints}))
}

fn bound(bound: &Bound<String>) -> serde_json::Value {
    match bound {
        Bound::Unbounded => serde_json::Value::Null,
        Bound::Included(text) => serde_json::json!({"text": text, "included": true}),
        Bound::Excluded(text) => serde_json::json!({"text": text, "included": false}),
    }
}

/// An interval as people write it.
fn interval(interval: &Interval) -> String {
    if let Some(point) = interval.point() {
        return format!("= '{point}'");
    }
    match (&interval.low, &interval.high) {
        (Bound::Unbounded, Bound::Unbounded) => "any".to_owned(),
        (Bound::Included(low), Bound::Unbounded) => format!(">= '{low}'"),
        (Bound::Excluded(low), Bound::Unbounded) => format!("> '{low}'"),
        (Bound::Unbounded, Bound::Included(high)) => format!("<= '{high}'"),
        (Bound::Unbounded, Bound::Excluded(high)) => format!("< '{high}'"),
        (low, high) => {
            let open = if matches!(low, Bound::Included(_)) { '[' } else { '(' };
            let close = if matches!(high, Bound::Included(_)) { ']' } else { ')' };
            let text = |bound: &Bound<String>| match bound {
                Bound::Included(text) | Bound::Excluded(text) => format!("'{text}'"),
                Bound::Unbounded => String::new(),
            };
            format!("in {open}{}, {}{close}", text(low), text(high))
        }
    }
}

fn meaning(kind: PlanKind) -> &'static str {
    match kind {
        PlanKind::Nothing => "nothing can match, and nothing is read",
        PlanKind::Point => "single entities, each looked up by both keys",
        PlanKind::RowRange => "ranges of row keys within a partition; cost follows what is in them",
        PlanKind::Partition => "whole partitions; cost follows their size",
        PlanKind::PartitionRange => "ranges of partitions; cost follows the size of all of them",
        PlanKind::Table => "the whole table; cost follows its size",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(filter: &str) -> QueryPlan {
        QueryPlan::of_entities(filter_text::parse(filter).expect("a filter").as_ref())
    }

    #[test]
    fn a_plan_is_explained() {
        let text =
            as_text("Orders", &plan("PartitionKey eq 'berlin' and RowKey ge '2026' and RowKey lt '2027'"));
        assert_eq!(
            text,
            "plan    row-range: ranges of row keys within a partition; cost follows what is in them\n\
             reads   Orders: PartitionKey = 'berlin', RowKey in ['2026', '2027')\n"
        );
        let text = as_text("Orders", &plan("Total gt 7"));
        assert!(text.starts_with("plan    table: the whole table") && text.contains("\nhint    "), "{text}");
        let text = as_text("Orders", &plan("PartitionKey eq 'a' and PartitionKey eq 'b'"));
        assert_eq!(text, "plan    nothing: nothing can match, and nothing is read\n");
    }

    #[test]
    fn a_plan_is_json() {
        let json: serde_json::Value =
            serde_json::from_str(&as_json("T", &plan("PartitionKey gt 'a'"))).expect("JSON");
        assert_eq!((&json["plan"], &json["table"]), (&"partition-range".into(), &"T".into()));
        let expected = serde_json::json!({"low": {"text": "a", "included": false}, "high": null});
        assert_eq!(json["ranges"][0]["partitionKey"], expected);
    }
}
