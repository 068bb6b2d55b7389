//! `tepui explain`: what a query would read, without running it.

use crate::USAGE;
use crate::serve::Failure;
use clap::Args;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write};
use tepui_model::table::{Explanation, KeyEdge, PlanKind, Side};
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
    let explanation = filter_text::explain(&options.filter)
        .map_err(|error| Failure { message: format!("the filter cannot be read: {error}"), code: USAGE })?;
    let write = if options.json { as_json } else { as_text };
    // Standard output may be closed.
    let _ = io::stdout().write_all(write(&options.table, &explanation).as_bytes());
    Ok(())
}

fn as_text(table: &str, explanation: &Explanation) -> String {
    let Explanation { plan, ranges, hints } = explanation;
    let mut text = format!("plan    {plan}: {}\n", meaning(*plan));
    for (index, range) in ranges.iter().enumerate() {
        let label = if index == 0 { "reads" } else { "" };
        let _ = writeln!(text, "{label:6}  {table}: {range}");
    }
    for (index, hint) in hints.iter().enumerate() {
        let label = if index == 0 { "hint" } else { "" };
        let _ = writeln!(text, "{label:6}  {}: {}", hint.name(), hint.message());
    }
    text
}

fn as_json(table: &str, explanation: &Explanation) -> String {
    let Explanation { plan, ranges, hints } = explanation;
    let ranges: Vec<_> =
        ranges.iter().map(|range| json!({"from": edge(&range.low), "to": edge(&range.high)})).collect();
    let hints: Vec<_> =
        hints.iter().map(|hint| json!({"hint": hint.name(), "message": hint.message()})).collect();
    format!("{}\n", json!({"table": table, "plan": plan.name(), "ranges": ranges, "hints": hints}))
}

/// Where a range begins or ends; null if it goes on to the first or last entity of the table.
fn edge(edge: &KeyEdge) -> serde_json::Value {
    let side = |side: &Side| match side {
        Side::Before => "before",
        Side::After => "after",
    };
    match edge {
        KeyEdge::Start | KeyEdge::End => serde_json::Value::Null,
        KeyEdge::Partition { key, side: at } => json!({"side": side(at), "partitionKey": key}),
        KeyEdge::Row { partition, key, side: at } => {
            json!({"side": side(at), "partitionKey": partition, "rowKey": key})
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

    fn explained(filter: &str) -> Explanation {
        filter_text::explain(filter).expect("a filter")
    }

    #[test]
    fn a_plan_is_explained() {
        for (filter, expected) in [
            (
                "PartitionKey eq 'berlin' and RowKey ge '2026' and RowKey lt '2027'",
                "plan    row-range: ranges of row keys within a partition; cost follows what is in them\n\
                 reads   Orders: PartitionKey = 'berlin', RowKey in ['2026', '2027')\n",
            ),
            (
                "PartitionKey eq 'a' and PartitionKey eq 'b'",
                "plan    nothing: nothing can match, and nothing is read\n",
            ),
        ] {
            assert_eq!(as_text("Orders", &explained(filter)), expected, "{filter}");
        }
        let text = as_text("Orders", &explained("Total gt 7"));
        assert!(text.starts_with("plan    table: the whole table"), "{text}");
        assert!(text.contains("\nreads   Orders: PartitionKey any, RowKey any\n"), "{text}");
        assert!(text.contains("\nhint    full-scan: ") && text.contains("\n        low-density: "), "{text}");
    }

    #[test]
    fn a_plan_is_json() {
        let text = as_json("T", &explained("PartitionKey gt 'a'"));
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&found["plan"], &found["table"]), (&"partition-range".into(), &"T".into()));
        let expected = json!([{"from": {"side": "after", "partitionKey": "a"}, "to": null}]);
        assert_eq!(found["ranges"], expected);
        assert_eq!(found["hints"][0]["hint"], "rowkey-range");
        let text = as_json("T", &explained("PartitionKey eq 'a' and RowKey le 'x'"));
        let found: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let expected = json!([{
            "from": {"side": "before", "partitionKey": "a"},
            "to": {"side": "after", "partitionKey": "a", "rowKey": "x"},
        }]);
        assert_eq!(found["ranges"], expected);
    }
}
