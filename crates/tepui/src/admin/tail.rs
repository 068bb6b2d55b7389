//! `tepui admin tail`: requests as they end.

use super::client::{AdminClient, encoded};
use super::{Output, printable, printable_json};
use crate::FAILED;
use crate::serve::Failure;
use clap::Args;
use serde_json::Value;
use std::io::{self, Write};

/// Shows requests as they end, with what they cost, until it is interrupted.
#[derive(Args)]
pub(crate) struct TailOptions {
    /// table, queue or blob
    #[arg(long)]
    service: Option<String>,
    #[arg(long)]
    account: Option<String>,
    /// An operation, as Storage Analytics calls it
    #[arg(long)]
    operation: Option<String>,
    /// A status such as 503, a class such as 5xx, or none
    #[arg(long)]
    status: Option<String>,
}

pub(crate) fn tail(client: &AdminClient, options: &TailOptions, output: Output) -> Result<(), Failure> {
    let filters = [
        ("service", &options.service),
        ("account", &options.account),
        ("operation", &options.operation),
        ("status", &options.status),
    ];
    let filters =
        filters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
    let mut is_about_dropped = false;
    for line in client.lines(&format!("/requests?{}", filters.collect::<Vec<_>>().join("&")))? {
        let line = line.map_err(|error| Failure { message: error.to_string(), code: FAILED })?;
        if let Some(event) = line.strip_prefix("event: ") {
            is_about_dropped = event == "dropped";
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let text = match serde_json::from_str::<Value>(data) {
            Ok(_) if output.json => printable_json(data),
            Ok(dropped) if is_about_dropped => {
                format!("({} more were too many to be shown)", dropped["count"])
            }
            Ok(event) => as_text(&event),
            Err(_) => continue,
        };
        is_about_dropped = false;
        if writeln!(io::stdout(), "{text}").and_then(|()| io::stdout().flush()).is_err() {
            // Whoever read it has gone.
            return Ok(());
        }
    }
    Ok(())
}

fn as_text(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or("-");
    let status = event["status"].as_u64().map_or_else(|| "---".to_owned(), |status| status.to_string());
    let mut line = format!(
        "{} {status} {} {} {} {} {} ms",
        text("time"),
        text("service"),
        text("operation"),
        text("method"),
        text("url"),
        event["ms"]
    );
    if let Some(code) = event["errorCode"].as_str() {
        line += &format!(" {code}");
    }
    let receipt = event["receipt"].as_object().into_iter().flatten().filter(|(name, _)| *name != "ms");
    for (name, value) in receipt {
        line += &format!(" {name}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    // Paths and keys are as clients sent them.
    printable(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_does_not_steer_the_terminal() {
        let event = json!({
            "time": "2026-03-10T08:15:30Z", "status": 404, "service": "blob", "operation": "GetBlob", "method": "GET",
            "url": "/a/\u{9b}31m\u{7f}", "ms": 1.5, "errorCode": "BlobNotFound", "receipt": {"units": 3},
        });
        assert_eq!(
            as_text(&event),
            "2026-03-10T08:15:30Z 404 blob GetBlob GET /a/\u{FFFD}31m\u{FFFD} 1.5 ms BlobNotFound units=3"
        );
    }
}
