//! The requests of a queue's client.

use super::Step;
use super::http::{Client, Reply};
use std::io;

/// A message that was taken.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) receipt: String,
    pub(crate) dequeue_count: u32,
    pub(crate) text: String,
}

impl Client {
    pub(crate) fn create_queue(&mut self, queue: &str) {
        let reply = self.request("PUT", &format!("/{queue}"), &[("Content-Length", "0")], b"").unwrap();
        assert_eq!(reply.status, 201, "{}", reply.text());
    }

    pub(crate) fn put_message(&mut self, queue: &str, text: &str) -> io::Result<Reply> {
        let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
        self.request("POST", &format!("/{queue}/messages"), &[], body.as_bytes())
    }

    /// Takes up to `count` messages for so many seconds.
    pub(crate) fn get_messages(
        &mut self,
        queue: &str,
        count: usize,
        seconds: u64,
    ) -> io::Result<Vec<Message>> {
        Ok(self.try_get_messages(queue, count, seconds)?.unwrap_or_else(|step| panic!("{step:?}")))
    }

    /// The same, if the server can.
    pub(crate) fn try_get_messages(
        &mut self,
        queue: &str,
        count: usize,
        seconds: u64,
    ) -> io::Result<Result<Vec<Message>, Step>> {
        let path = format!("/{queue}/messages?numofmessages={count}&visibilitytimeout={seconds}");
        let reply = self.request("GET", &path, &[], b"")?;
        if let Some(step) = Step::failed(reply.status, &reply.text()) {
            return Ok(Err(step));
        }
        assert_eq!(reply.status, 200, "{}", reply.text());
        Ok(Ok(messages(&reply.text())))
    }

    pub(crate) fn delete_message(&mut self, queue: &str, message: &Message) -> io::Result<Reply> {
        let receipt = message.receipt.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        let path = format!("/{queue}/messages/{}?popreceipt={receipt}", message.id);
        self.request("DELETE", &path, &[], b"")
    }

    /// How many messages there are, visible or not.
    pub(crate) fn count_messages(&mut self, queue: &str) -> io::Result<u64> {
        let reply = self.request("GET", &format!("/{queue}?comp=metadata"), &[], b"")?;
        let count = reply.header("x-ms-approximate-messages-count");
        Ok(count.unwrap_or_else(|| panic!("no count: {reply:?}")).parse().unwrap())
    }
}

fn messages(xml: &str) -> Vec<Message> {
    let text = |part: &str, name: &str| {
        let inside = part.split(&format!("<{name}>")).nth(1).and_then(|rest| rest.split('<').next());
        inside.unwrap_or_else(|| panic!("no {name}: {part}")).to_owned()
    };
    xml.split("<QueueMessage>")
        .skip(1)
        .map(|part| Message {
            id: text(part, "MessageId"),
            receipt: text(part, "PopReceipt"),
            dequeue_count: text(part, "DequeueCount").parse().unwrap(),
            text: text(part, "MessageText"),
        })
        .collect()
}
