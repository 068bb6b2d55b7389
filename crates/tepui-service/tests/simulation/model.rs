//! What was acknowledged, and what may be there.

use std::collections::{BTreeMap, BTreeSet};

/// Something that one client at a time changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Entity(u8),
    Blob(u8),
}

/// What was written, by its number. `None`: it was deleted.
pub(crate) type Content = Option<u32>;

/// What is known of a change that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Nothing,
    /// All of it may be there, or nothing.
    Unknown,
}

#[derive(Default)]
pub(crate) struct Model {
    /// What each may hold.
    objects: BTreeMap<Object, BTreeSet<Content>>,
    /// Changes of several objects of which it is not known if they are there: the number, and what was changed.
    together: Vec<(u32, Vec<Object>)>,
    /// Messages that are there, or may be.
    messages: BTreeMap<u32, Message>,
    /// Snapshots of blobs: when they were taken, and what is in them.
    pub(crate) snapshots: Vec<(u8, tepui_model::Timestamp, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Message {
    There,
    Perhaps,
    Gone,
}

/// Everything that was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) objects: BTreeMap<Object, Content>,
    pub(crate) messages: Vec<u32>,
}

impl Model {
    pub(crate) fn changed(&mut self, objects: &[Object], content: Content, outcome: Outcome) {
        for object in objects {
            let candidates = self.objects.entry(*object).or_insert_with(|| BTreeSet::from([None]));
            match outcome {
                Outcome::Done => *candidates = BTreeSet::from([content]),
                Outcome::Unknown => drop(candidates.insert(content)),
                Outcome::Nothing => continue,
            }
            // What was changed since does not tell any more.
            self.together.iter_mut().for_each(|(_, others)| others.retain(|other| other != object));
            if let (Object::Blob(blob), None) = (object, content) {
                // Deleted with the blob, or perhaps.
                self.snapshots.retain(|(other, ..)| other != blob);
            }
        }
        if let (Outcome::Unknown, Some(number)) = (outcome, content) {
            self.together.push((number, objects.to_vec()));
        }
    }

    pub(crate) fn put(&mut self, message: u32, outcome: Outcome) {
        match outcome {
            Outcome::Done => drop(self.messages.insert(message, Message::There)),
            Outcome::Unknown => drop(self.messages.insert(message, Message::Perhaps)),
            Outcome::Nothing => drop(self.messages.insert(message, Message::Gone)),
        }
    }

    pub(crate) fn consumed(&mut self, message: u32, outcome: Outcome) {
        match outcome {
            Outcome::Done => drop(self.messages.insert(message, Message::Gone)),
            Outcome::Unknown => drop(self.messages.insert(message, Message::Perhaps)),
            Outcome::Nothing => {}
        }
    }

    /// Whether this may be the content of an object.
    pub(crate) fn allows(&self, object: Object, content: Content) -> Result<(), String> {
        match self.objects.get(&object) {
            Some(candidates) if candidates.contains(&content) => Ok(()),
            None if content.is_none() => Ok(()),
            candidates => Err(format!("{object:?} is {content:?}, not one of {candidates:?}")),
        }
    }

    /// Compares everything. What was unknown is known from here on.
    pub(crate) fn settle(&mut self, found: &Found) -> Result<(), String> {
        for (object, content) in &found.objects {
            self.allows(*object, *content)?;
        }
        for (number, objects) in &self.together {
            let there: BTreeSet<bool> =
                objects.iter().map(|object| found.objects.get(object) == Some(&Some(*number))).collect();
            if there.len() > 1 {
                return Err(format!("change {number} of {objects:?} is there by half"));
            }
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        found.messages.iter().for_each(|message| *counts.entry(*message).or_default() += 1);
        for (message, count) in &counts {
            match self.messages.get(message) {
                Some(Message::There | Message::Perhaps) if *count == 1 => {}
                state => return Err(format!("message {message} is there {count} times, it was {state:?}")),
            }
        }
        for (message, state) in &mut self.messages {
            let is_there = counts.contains_key(message);
            if *state == Message::There && !is_there {
                return Err(format!("message {message} is lost"));
            }
            *state = if is_there { Message::There } else { Message::Gone };
        }
        self.together.clear();
        for (object, content) in &found.objects {
            self.objects.insert(*object, BTreeSet::from([*content]));
        }
        Ok(())
    }
}
