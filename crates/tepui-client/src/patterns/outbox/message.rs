//! What is in the messages of a queue.

use crate::{EntityKey, Error, ErrorKind, random};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// Leaves room for what a worker adds: the first error.
const MAX_TASK_BYTES: usize = 60_000;
const MAX_ERROR_CHARACTERS: usize = 400;

/// A row that follows from an entity, or a part of one: what a [`Follower`](super::Follower) is asked to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// `None`: the table of the entity.
    pub table: Option<String>,
    pub key: EntityKey,
}

/// One change of an entity, and where it is to be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) id: String,
    /// The name of the outbox.
    pub(crate) outbox: String,
    pub(crate) primary: EntityKey,
    /// Each with the name of its follower.
    pub(crate) places: Vec<(String, Place)>,
    /// What went wrong the first time.
    pub(crate) first_error: Option<String>,
    /// Whether a worker has begun to put it into the poison queue.
    pub(crate) is_poisoned: bool,
}

impl Task {
    pub(crate) fn new(outbox: &str, primary: EntityKey, places: Vec<(String, Place)>) -> Self {
        let id = format!("{:032x}", random::bits());
        Self { id, outbox: outbox.to_owned(), primary, places, first_error: None, is_poisoned: false }
    }

    /// Refused if the message would be too large.
    pub(crate) fn to_text(&self) -> Result<String, Error> {
        let text = ascii(&self.to_json());
        if text.len() > MAX_TASK_BYTES {
            let message = "too many rows follow from the entity: their keys do not fit into a message";
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(text)
    }

    pub(crate) fn to_json(&self) -> Json {
        let key = |key: &EntityKey| json!([key.partition_key, key.row_key]);
        let place = |(follower, place): &(String, Place)| {
            json!([follower, place.table, place.key.partition_key, place.key.row_key])
        };
        let mut task = json!({
            "outbox": self.outbox,
            "id": self.id,
            "primary": key(&self.primary),
            "places": self.places.iter().map(place).collect::<Vec<_>>(),
        });
        if let Some(error) = &self.first_error {
            task["first_error"] = json!(error);
        }
        if self.is_poisoned {
            task["poisoned"] = json!(true);
        }
        task
    }

    /// `None`: it is not a message of an outbox.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::from_json(&serde_json::from_str(text).ok()?)
    }

    pub(crate) fn from_json(task: &Json) -> Option<Self> {
        let text = |value: &Json| value.as_str().map(str::to_owned);
        let [partition_key, row_key] = task["primary"].as_array()?.as_slice() else { return None };
        let place = |place: &Json| {
            let [follower, table, partition_key, row_key] = place.as_array()?.as_slice() else { return None };
            let key = EntityKey::new(text(partition_key)?, text(row_key)?);
            Some((text(follower)?, Place { table: text(table), key }))
        };
        Some(Self {
            id: text(&task["id"]).filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit()))?,
            outbox: text(&task["outbox"])?,
            primary: EntityKey::new(text(partition_key)?, text(row_key)?),
            places: task["places"].as_array()?.iter().map(place).collect::<Option<_>>()?,
            first_error: text(&task["first_error"]),
            is_poisoned: task["poisoned"].as_bool().unwrap_or(false),
        })
    }

    /// Keeps what went wrong, the first time that something does.
    pub(crate) fn note(&mut self, error: &Error) {
        if self.first_error.is_none() {
            self.first_error = Some(error.to_string().chars().take(MAX_ERROR_CHARACTERS).collect());
        }
    }
}

/// As text of ASCII characters: messages travel as XML, which cannot hold every character that keys may have.
pub(crate) fn ascii(json: &Json) -> String {
    let mut text = String::new();
    for character in json.to_string().chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_they_were_written() {
        let place = |table: Option<&str>, row: &str| {
            (
                "copies".to_owned(),
                Place { table: table.map(str::to_owned), key: EntityKey::new("é\u{FFFE}", row) },
            )
        };
        let places = vec![place(None, "a\"b"), place(Some("Other"), "😀")];
        let mut task = Task::new("Staff", EntityKey::new("Sales", "1"), places);
        assert_eq!(Task::parse(&task.to_text().unwrap()), Some(task.clone()));
        assert!(task.to_text().unwrap().is_ascii());
        task.note(&Error::decode("first"));
        task.note(&Error::decode("second"));
        task.is_poisoned = true;
        let read = Task::parse(&task.to_text().unwrap()).unwrap();
        assert_eq!((read.first_error.as_deref(), read.is_poisoned), (Some("first"), true));
        for other in ["", "hello", "{}", r#"{"id":"x","outbox":"a","primary":["a","b"],"places":[]}"#] {
            assert_eq!(Task::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let place = |index: usize| {
            (
                "copies".to_owned(),
                Place { table: None, key: EntityKey::new("p".repeat(100), index.to_string()) },
            )
        };
        let task = Task::new("Staff", EntityKey::new("Sales", "1"), (0..1000).map(place).collect());
        assert_eq!(task.to_text().unwrap_err().kind(), ErrorKind::TooLarge);
    }
}
