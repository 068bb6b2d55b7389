//! What was acknowledged, and what may be there.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What is known of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acknowledged,
    /// All of it may be there, or nothing.
    Unknown,
}

pub(crate) struct Commit {
    pub(crate) number: usize,
    pub(crate) outcome: Outcome,
    /// `None`: deleted.
    pub(crate) writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// Commits that may have an effect, in the order in which they were handed to the engine.
#[derive(Default)]
pub(crate) struct Model {
    /// What was there when all outcomes were last known.
    base: Rows,
    commits: Vec<Commit>,
}

impl Model {
    pub(crate) fn add(&mut self, commit: Commit) {
        let at = self.commits.partition_point(|other| other.number < commit.number);
        self.commits.insert(at, commit);
    }

    /// What a key may hold.
    pub(crate) fn candidates(&self, key: &[u8]) -> BTreeSet<Option<Vec<u8>>> {
        let mut candidates = BTreeSet::from([self.base.get(key).cloned()]);
        for commit in &self.commits {
            let Some(value) = commit.writes.get(key) else { continue };
            if commit.outcome == Outcome::Acknowledged {
                candidates.clear();
            }
            candidates.insert(value.clone());
        }
        candidates
    }

    /// Compares all rows that were found with what may be there.
    pub(crate) fn check(&self, found: &Rows) -> Result<(), String> {
        let mut keys: BTreeSet<&Vec<u8>> = self.base.keys().chain(found.keys()).collect();
        keys.extend(self.commits.iter().flat_map(|commit| commit.writes.keys()));
        for key in keys {
            let (value, candidates) = (found.get(key).cloned(), self.candidates(key));
            if !candidates.contains(&value) {
                return Err(format!(
                    "{}: found {}, not {}",
                    text(key),
                    show(&value),
                    candidates.iter().map(show).collect::<Vec<_>>().join(" or ")
                ));
            }
        }
        for (index, commit) in self.commits.iter().enumerate() {
            if commit.outcome == Outcome::Acknowledged {
                continue;
            }
            // Of the keys that nothing later has written: all as this commit left them, or none.
            let later = &self.commits[index + 1..];
            let last = |key: &&Vec<u8>| !later.iter().any(|commit| commit.writes.contains_key(*key));
            let there: BTreeSet<bool> = commit
                .writes
                .keys()
                .filter(last)
                .filter(|key| !self.is_ambiguous(key, index))
                .map(|key| found.get(key) == commit.writes[key].as_ref())
                .collect();
            if there.len() > 1 {
                return Err(format!("commit {} is torn", commit.number));
            }
        }
        Ok(())
    }

    /// Whether the value of a key does not tell if this commit is there.
    fn is_ambiguous(&self, key: &[u8], index: usize) -> bool {
        let value = &self.commits[index].writes[key];
        let mut before = vec![self.base.get(key).cloned()];
        for commit in &self.commits[..index] {
            before.extend(commit.writes.get(key).cloned());
        }
        before.contains(value)
    }

    /// From here on, this is what is there.
    pub(crate) fn settle(&mut self, found: Rows) {
        self.base = found;
        self.commits.clear();
    }

    /// Keys that were ever written and may be there.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: BTreeSet<Vec<u8>> = self.base.keys().cloned().collect();
        keys.extend(self.commits.iter().flat_map(|commit| commit.writes.keys().cloned()));
        keys.into_iter().collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(24)]).into_owned()
}

fn show(value: &Option<Vec<u8>>) -> String {
    value.as_ref().map_or("nothing".into(), |value| text(value))
}
