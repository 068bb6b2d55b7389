//! `tepui admin partitions`: which partitions cost most.

use super::client::AdminClient;
use super::{Output, printable};
use crate::serve::Failure;
use clap::{Args, value_parser};
use serde_json::Value;
use std::fmt::Write as _;

/// Shows the partitions, queues and blobs that cost most, and tables that grow at one end only.
#[derive(Args)]
pub(crate) struct PartitionsOptions {
    /// How many, 1000 at most
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1000))]
    top: u32,
}

pub(crate) fn partitions(
    client: &AdminClient,
    options: &PartitionsOptions,
    output: Output,
) -> Result<(), Failure> {
    let answer = client.call("GET", &format!("/partitions?top={}", options.top), None)?;
    output.print(&answer, as_text);
    Ok(())
}

fn as_text(answer: &Value) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or_default());
    let rate = |value: &Value| value.as_f64().unwrap_or_default();
    let mut out = String::new();
    for hot in answer["partitions"].as_array().into_iter().flatten() {
        let (units, error) = (rate(&hot["unitsPerSecond"]), rate(&hot["errorPerSecond"]));
        let _ = write!(out, "{units:>10.1}/s");
        if error >= 0.05 {
            let _ = write!(out, " (up to {error:.1} less)");
        }
        let _ =
            write!(out, "  {} {}/{}", text(&hot["service"]), text(&hot["account"]), text(&hot["resource"]));
        match (&hot["partition"], text(&hot["service"]).as_str()) {
            (Value::String(partition), _) => {
                let _ = write!(out, " '{}'", printable(partition));
            }
            (_, "table") => out.push_str(" (queries of several partitions)"),
            _ => {}
        }
        for (key, what) in [("rowKeys", "row keys"), ("partitionKeys", "partition keys")] {
            if let Some(growth) = hot[key].as_str() {
                let _ = write!(out, ", {what} {growth}");
            }
        }
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("nothing was asked for lately\n");
    }
    for table in answer["growingTables"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "{}/{}: all partitions are added at one end (partition keys {}), {:.1} inserts/s",
            text(&table["account"]),
            text(&table["table"]),
            text(&table["partitionKeys"]),
            rate(&table["insertsPerSecond"]),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn partitions_as_text() {
        let answer = json!({
            "partitions": [
                {"service": "table", "account": "a", "resource": "Orders", "partition": "be\u{1b}rlin",
                    "unitsPerSecond": 2000.04, "errorPerSecond": 12.0, "rowKeys": "rising", "partitionKeys": null},
                {"service": "table", "account": "a", "resource": "Orders", "partition": null,
                    "unitsPerSecond": 10.0, "errorPerSecond": 0.0, "rowKeys": null, "partitionKeys": null},
                {"service": "queue", "account": "a", "resource": "jobs", "partition": null,
                    "unitsPerSecond": 1.0, "errorPerSecond": 0.0, "rowKeys": null, "partitionKeys": null},
            ],
            "growingTables": [
                {"account": "a", "table": "Log", "partitionKeys": "rising", "insertsPerSecond": 5.0},
            ],
        });
        let expected = "    2000.0/s (up to 12.0 less)  table a/Orders 'be\u{FFFD}rlin', row keys rising\n      \
            10.0/s  table a/Orders (queries of several partitions)\n       \
            1.0/s  queue a/jobs\n\
            a/Log: all partitions are added at one end (partition keys rising), 5.0 inserts/s\n";
        assert_eq!(as_text(&answer), expected);
        assert_eq!(
            as_text(&json!({"partitions": [], "growingTables": []})),
            "nothing was asked for lately\n"
        );
    }
}
