//! Messages that fail again and again: they are put aside, once, with the reason.
//!
//! To put a message is not something that can be repeated, and a worker may be gone before it has deleted the message it has put
//! aside. So it writes into that message first that it is going to, and puts at most once. Whoever finds that note looks through the
//! whole poison queue before it puts another.

use super::message::{Task, ascii};
use super::worker::Worker;
use crate::{Error, ErrorKind, Message, PutMessage, Queue};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::time::Duration;

/// How long messages of the poison queue are not seen by others while it is looked through. Whoever meets hidden ones waits.
const LOOK_THROUGH: Duration = Duration::from_secs(10);
/// More than that are left to be seen again by themselves.
const MAX_RELEASED: usize = 1_000;
const FOREIGN_NOTE: &str = "poisoned:";

/// A message that was put aside.
#[derive(Debug, Clone, PartialEq)]
pub struct Poisoned {
    message: Message,
    /// The id of the message that failed.
    pub original_id: String,
    pub reason: String,
    /// What went wrong the first time. `None` if no worker has lived to tell.
    pub first_error: Option<String>,
    /// The text of the message that failed.
    pub text: String,
}

impl Worker {
    /// Takes up to 32 messages out of the poison queue. Those that are neither [requeued](Self::requeue) nor
    /// [dropped](Self::drop_poisoned) within the time are seen again. Of messages that no outbox has put there, the text is all that is
    /// known.
    pub async fn poisoned(&self, hold: Duration) -> Result<Vec<Poisoned>, Error> {
        let messages = match self.poison()?.get(32, hold).await {
            // It is made for the first message that is put aside.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        Ok(messages.into_iter().map(Poisoned::of).collect())
    }

    /// Puts a message back into its queue, with all its attempts. If the process ends between that and the deletion it can be put back
    /// again, which does no harm: a change is followed once or twice with the same result.
    pub async fn requeue(&self, poisoned: &Poisoned) -> Result<(), Error> {
        self.queue.put(PutMessage::new(poisoned.text.as_str()).never_expires()).await?;
        self.poison()?.delete(&poisoned.message).await
    }

    /// Deletes a message of the poison queue.
    pub async fn drop_poisoned(&self, poisoned: &Poisoned) -> Result<(), Error> {
        self.poison()?.delete(&poisoned.message).await
    }
}

impl Poisoned {
    fn of(message: Message) -> Self {
        let parsed = serde_json::from_str::<Json>(&message.text).unwrap_or_default();
        let field = |name: &str| parsed["poison"][name].as_str().map(str::to_owned);
        let text = match parsed.get("task") {
            Some(task) => ascii(task),
            None => parsed["text"].as_str().unwrap_or(&message.text).to_owned(),
        };
        Self {
            original_id: field("id").unwrap_or_default(),
            reason: field("reason").unwrap_or_default(),
            first_error: field("first_error"),
            text,
            message,
        }
    }
}

/// Puts a task aside. `false`: not this time.
pub(super) async fn put_task(worker: &Worker, message: &mut Message, task: &mut Task) -> Result<bool, Error> {
    let was_begun = task.is_poisoned;
    task.is_poisoned = true;
    let note = task.to_text()?;
    worker.queue.update(message, worker.lease, Some(&note)).await?;
    let attempts = message.dequeue_count.saturating_sub(1);
    let reason = format!("it was tried {attempts} times and never done");
    let header = header(message, &reason, task.first_error.as_deref());
    let original = Task { is_poisoned: false, first_error: None, ..task.clone() };
    let text = ascii(&json!({ "poison": header, "task": original.to_json() }));
    put_aside(worker, message, text, was_begun).await
}

/// Puts a message aside that no outbox has written.
pub(super) async fn put_foreign(worker: &Worker, message: &mut Message) -> Result<bool, Error> {
    let was_begun = message.text.starts_with(FOREIGN_NOTE);
    let original = message.text.strip_prefix(FOREIGN_NOTE).unwrap_or(&message.text).to_owned();
    let note = format!("{FOREIGN_NOTE}{original}");
    match worker.queue.update(message, worker.lease, Some(&note)).await {
        // There is no room for the note. To look through the poison queue each time is as safe.
        Err(error) if error.kind() == ErrorKind::TooLarge => {
            worker.queue.update(message, worker.lease, None).await?;
            return put_aside(worker, message, original, true).await;
        }
        other => other?,
    }
    let header = header(message, "it is not a message of an outbox", None);
    let text = ascii(&json!({ "poison": header, "text": original }));
    // What has no room for the reason is put aside without it.
    let text = if text.len() > tepui_model::queue::message::MAX_TEXT_BYTES { original } else { text };
    put_aside(worker, message, text, was_begun).await
}

fn header(message: &Message, reason: &str, first_error: Option<&str>) -> Json {
    json!({ "id": message.id(), "reason": reason, "first_error": first_error })
}

async fn put_aside(worker: &Worker, message: &Message, text: String, was_begun: bool) -> Result<bool, Error> {
    let poison = worker.poison()?;
    poison.create_if_missing().await?;
    let is_there = match was_begun {
        true => match find_once(poison, &message.id(), &text).await? {
            Found::Yes => true,
            Found::No => false,
            Found::Unclear => return Ok(false),
        },
        false => false,
    };
    if !is_there {
        // Within the lease that was just renewed, so that nobody else puts it at the same time. If the answer is lost the note stays, and
        // the next attempt looks first.
        let put = PutMessage::new(text).never_expires();
        poison.within(worker.lease / 2).put_at_most_once(put).await?;
    }
    worker.queue.delete(message).await?;
    Ok(true)
}

enum Found {
    Yes,
    No,
    /// Some messages are hidden, and it may be one of them.
    Unclear,
}

/// Looks through the whole poison queue for a message, and deletes what is there twice.
async fn find_once(poison: &Queue, id: &str, text: &str) -> Result<Found, Error> {
    let count = poison.approximate_count().await?;
    // Hidden for as long as it takes to see the rest.
    let hold = LOOK_THROUGH + Duration::from_secs(count / 100);
    let (mut seen, mut found, mut to_release) = (HashSet::new(), false, Vec::new());
    loop {
        let messages = poison.get(32, hold).await?;
        if messages.is_empty() {
            break;
        }
        for mut message in messages {
            seen.insert(message.id());
            let is_it = message.text == text || Poisoned::of(message.clone()).original_id == id;
            if is_it && found {
                poison.delete(&message).await?;
                continue;
            }
            found |= is_it;
            if to_release.len() < MAX_RELEASED {
                message.text.clear();
                to_release.push(message);
            }
        }
    }
    for mut message in to_release {
        // If this fails it is seen again after the hold.
        let _ = poison.update(&mut message, Duration::ZERO, None).await;
    }
    Ok(match found {
        true => Found::Yes,
        false if (seen.len() as u64) < count => Found::Unclear,
        false => Found::No,
    })
}
