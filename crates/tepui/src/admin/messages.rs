//! `tepui admin messages`: what is in a queue.

use super::Output;
use super::client::{AdminClient, encoded};
use crate::serve::Failure;
use clap::Args;
use serde_json::{Value, json};
use tepui_model::account::DEVELOPMENT_ACCOUNT;

/// Shows the messages of a queue, also those that are hidden, without touching them.
#[derive(Args)]
pub(crate) struct MessagesOptions {
    queue: String,

    #[arg(long, default_value = DEVELOPMENT_ACCOUNT)]
    account: String,

    /// So many at most
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: u64,
}

/// Of one call.
const PAGE: u64 = 100;

pub(crate) fn messages(
    client: &AdminClient,
    options: &MessagesOptions,
    output: Output,
) -> Result<(), Failure> {
    let path = format!("/queues/{}/{}/messages", encoded(&options.account), encoded(&options.queue));
    let (mut all, mut next) = (Vec::new(), Value::Null);
    while (all.len() as u64) < options.limit {
        let limit = PAGE.min(options.limit - all.len() as u64);
        let after = next.as_str().map(|next| format!("&after={next}")).unwrap_or_default();
        let mut page = client.call("GET", &format!("{path}?limit={limit}{after}"), None)?;
        if let Some(messages) = page["messages"].as_array_mut() {
            all.append(messages);
        }
        next = page["next"].take();
        if next.is_null() {
            break;
        }
    }
    let has_more = !next.is_null();
    output.print(&json!({"messages": all, "next": next}), |answer| {
        let messages = answer["messages"].as_array().into_iter().flatten();
        let lines: String = messages.map(|message| format!("{}\n", as_text(message))).collect();
        if has_more { format!("{lines}… and more (--limit)\n") } else { lines }
    });
    Ok(())
}

fn as_text(message: &Value) -> String {
    let text = |name: &str| message[name].as_str().unwrap_or_default();
    let hidden = match message["visible"] == true {
        true => "visible".to_owned(),
        false => format!("until {}", text("nextVisible")),
    };
    let body = message["text"]
        .as_str()
        .map_or_else(|| format!("base64 {}", text("base64")), |text| format!("{text:?}"));
    format!("{}  {}  dequeued {}  {hidden}  {body}", text("id"), text("inserted"), message["dequeueCount"])
}
