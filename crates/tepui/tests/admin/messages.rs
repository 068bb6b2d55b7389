//! All messages of a queue, without a trace.

use crate::support::http::Client;
use crate::{Admin, test_bench};
use serde_json::{Value, json};

#[test]
fn all_messages_are_shown_also_hidden_ones_and_nothing_changes() {
    let server = test_bench();
    let mut admin = Admin::of(&server);
    admin.post("/clock/freeze", Value::Null);
    admin.set_clock("2030-01-01T00:00:00Z");
    let mut client = Client::connect(server.queue_port).unwrap();
    client.create_queue("jobs");
    let path = "/queues/devstoreaccount1/jobs/messages";
    assert_eq!(admin.get(path), json!({"messages": [], "next": null}));
    for text in ["one", "two", "three &amp; more"] {
        client.put_message("jobs", text).unwrap();
    }
    let body = b"<QueueMessage><MessageText>later</MessageText></QueueMessage>";
    client.request("POST", "/jobs/messages?visibilitytimeout=600&messagettl=-1", &[], body).unwrap();
    assert_eq!(client.get_messages("jobs", 1, 30).unwrap()[0].text, "one");

    let page = admin.get(path);
    let messages = page["messages"].as_array().unwrap();
    let shown: Vec<_> = messages
        .iter()
        .map(|message| {
            (
                message["text"].as_str().unwrap(),
                message["visible"] == true,
                message["dequeueCount"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [("two", true, 0), ("three & more", true, 0), ("one", false, 1), ("later", false, 0)];
    assert_eq!(shown, expected);
    let time = |message: &Value, name: &str| message[name].as_str().map(|time| time[..19].to_owned());
    assert_eq!(time(&messages[2], "nextVisible").as_deref(), Some("2030-01-01T00:00:30"));
    assert_eq!(time(&messages[0], "inserted").as_deref(), Some("2030-01-01T00:00:00"));
    assert_eq!(time(&messages[0], "expires").as_deref(), Some("2030-01-08T00:00:00"));
    assert_eq!(messages[3]["expires"], Value::Null);
    assert_eq!(admin.get(path), page, "looking changes nothing");
    let counts: Vec<u32> =
        client.get_messages("jobs", 32, 30).unwrap().iter().map(|m| m.dequeue_count).collect();
    assert_eq!(counts, [1, 1]);

    // In pages, each message once.
    let (mut texts, mut after) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("{path}?limit=1{after}"));
        let messages = page["messages"].as_array().unwrap();
        assert!(messages.len() <= 1);
        texts.extend(messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    texts.sort();
    assert_eq!(texts, ["later", "one", "three & more", "two"]);
    // What has expired is not there.
    admin.advance(8 * 86400);
    let left = admin.get(path);
    assert_eq!(left["messages"].as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn a_page_of_large_messages_ends_early() {
    let server = test_bench();
    let mut client = Client::connect(server.queue_port).unwrap();
    client.create_queue("large");
    let text = "x".repeat(60 * 1024);
    for _ in 0..100 {
        assert_eq!(client.put_message("large", &text).unwrap().status, 201);
    }
    let mut admin = Admin::of(&server);
    let page = admin.get("/queues/devstoreaccount1/large/messages?limit=1000");
    let first = page["messages"].as_array().unwrap().len();
    assert!((50..100).contains(&first), "{first}");
    let next = page["next"].as_str().unwrap();
    let rest = admin.get(&format!("/queues/devstoreaccount1/large/messages?limit=1000&after={next}"));
    assert_eq!(rest["messages"].as_array().unwrap().len(), 100 - first);
    assert_eq!(rest["next"], Value::Null);
}
