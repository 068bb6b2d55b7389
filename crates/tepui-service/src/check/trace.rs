//! Further passes over the rows, if something does not match: what it is, and which blobs are affected.

use super::ledger::{Ledger, Reference, Unbalanced};
use super::names::Names;
use super::{RowDamage, incarnation, references};
use crate::keyspace::{self, space};
use crate::record::{ContentHead, SmallContent, StoredExtent};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use tepui_storage::{Extent, Key};

/// No more is found out in detail: everything is damaged then.
const MAX_TRACED: usize = 100_000;
/// No more of those who are affected are named.
const MAX_NAMED: usize = 5;
/// A blob, its content, and contents below that.
const MAX_PASSES: usize = 12;

/// Finds out what does not match, and who is affected.
pub struct Trace {
    names: Names,
    unbalanced: Unbalanced,
    live: Live,
    exact: HashMap<Reference, Balance>,
    /// Contents with a GC record, of those in `exact`.
    dropped: HashSet<u128>,
    /// Whose referrers are looked for in this pass: for the sake of which extents or contents.
    wanted: HashMap<Reference, HashSet<Reference>>,
    next: HashMap<Reference, HashSet<Reference>>,
    affected: HashMap<Reference, Vec<String>>,
    passes: usize,
}

/// What is in the catalogue.
pub(super) struct Live {
    /// Messages of queues.
    pub(super) messages: HashSet<u64>,
    pub(super) containers: HashSet<u64>,
}

#[derive(Default)]
struct Balance {
    found: u64,
    stated: u64,
    /// One of those who refer to it.
    by: Option<String>,
}

impl Trace {
    pub(super) fn new(names: Names, ledger: Ledger, live: Live, damaged: &[Extent]) -> Self {
        let wanted = damaged.iter().take(MAX_TRACED).map(|extent| Reference::Extent(*extent));
        Self {
            names,
            unbalanced: ledger.unbalanced(),
            live,
            exact: HashMap::new(),
            dropped: HashSet::new(),
            wanted: wanted.map(|extent| (extent.clone(), HashSet::from([extent]))).collect(),
            next: HashMap::new(),
            affected: HashMap::new(),
            passes: 0,
        }
    }

    /// Whether another pass over the rows is needed.
    pub fn needs_pass(&self) -> bool {
        let is_first = self.passes == 0 && !self.unbalanced.is_empty();
        self.passes < MAX_PASSES && (is_first || !self.wanted.is_empty())
    }

    /// Takes the rows of a pass.
    pub fn row(&mut self, key: &Key, value: &Bytes) {
        let references = references(key, value).unwrap_or_default();
        if self.passes == 0 && !self.unbalanced.is_empty() {
            self.balance(key, value, &references);
        }
        for reference in &references {
            let Some(origins) = self.wanted.get(reference) else { continue };
            // A content has no name of its own: the blobs that refer to it are affected.
            if matches!(key.first(), Some(&space::CONTENT | &space::PIECES)) {
                if let Some((content, _)) = keyspace::content_of(key) {
                    let next = self.next.entry(Reference::Content(content.0)).or_default();
                    next.extend(origins.iter().cloned());
                }
                continue;
            }
            for origin in origins {
                let affected = self.affected.entry(origin.clone()).or_default();
                if affected.len() < MAX_NAMED {
                    affected.push(self.names.describe(key));
                }
            }
        }
    }

    fn balance(&mut self, key: &Key, value: &Bytes, references: &[Reference]) {
        for reference in references {
            if let Some(balance) = self.entry(reference) {
                balance.found += 1;
                if balance.by.is_none() {
                    let by = self.names.describe(key);
                    if let Some(balance) = self.entry(reference) {
                        balance.by = Some(by);
                    }
                }
            }
        }
        let content = || keyspace::content_of(key).map(|(content, _)| content.0);
        let counted = match key.first() {
            Some(&(space::EXTENT | space::EXTENT_IN_STORE)) => {
                let stored = StoredExtent::decode(value).ok();
                stored.and_then(|StoredExtent { bytes, references }| {
                    keyspace::extent_at(key, bytes).map(|extent| (Reference::Extent(extent), references))
                })
            }
            Some(&space::CONTENT) => {
                let head = ContentHead::decode(value).ok();
                content().zip(head).map(|(content, head)| (Reference::Content(content), head.references))
            }
            Some(&space::SMALL_CONTENT) => {
                let small = SmallContent::decode(value).ok();
                content().zip(small).map(|(content, small)| (Reference::Small(content), small.references))
            }
            Some(&space::MESSAGE_TEXT) => Some((Reference::Text(key.clone()), 1)),
            Some(&space::MESSAGE_EXPIRY) => Some((Reference::Expiry(key.clone()), 1)),
            Some(&space::TAG) => Some((Reference::Tag(key.clone()), 1)),
            Some(&space::DROPPED_CONTENT) => {
                if let Some(content) = content()
                    && self.unbalanced.may_contain(&Reference::Content(content))
                    && self.dropped.len() < MAX_TRACED
                {
                    self.dropped.insert(content);
                }
                None
            }
            _ => None,
        };
        if let Some((what, references)) = counted
            && let Some(balance) = self.entry(&what)
        {
            balance.stated += references;
        }
    }

    fn entry(&mut self, reference: &Reference) -> Option<&mut Balance> {
        if !self.unbalanced.may_contain(reference) {
            return None;
        }
        // Of what is being collected, any part may be gone.
        let is_checked = match reference {
            Reference::Text(key) | Reference::Expiry(key) => self.live.messages.contains(&incarnation(key)?),
            Reference::Tag(key) => self.live.containers.contains(&incarnation(key)?),
            Reference::Extent(_) | Reference::Content(_) | Reference::Small(_) => true,
        };
        if !is_checked {
            return None;
        }
        if self.exact.len() >= MAX_TRACED && !self.exact.contains_key(reference) {
            return None;
        }
        Some(self.exact.entry(reference.clone()).or_default())
    }

    /// After the last row of a pass.
    pub fn end_of_pass(&mut self, found: &mut dyn FnMut(RowDamage)) {
        self.passes += 1;
        self.wanted = std::mem::take(&mut self.next);
        for (reference, Balance { found: referred, stated, by }) in std::mem::take(&mut self.exact) {
            // Nothing refers to a content that is being made, or released.
            let is_garbage =
                matches!(reference, Reference::Content(content) if self.dropped.contains(&content));
            let what = match referred.cmp(&stated) {
                Ordering::Equal => continue,
                Ordering::Less if is_garbage => continue,
                Ordering::Less => surplus(&reference, referred, stated),
                Ordering::Greater => deficit(&reference, referred, stated),
            };
            let affects = by.unwrap_or_else(|| match &reference {
                Reference::Text(key) | Reference::Expiry(key) | Reference::Tag(key) => {
                    self.names.describe(key)
                }
                Reference::Extent(_) | Reference::Content(_) | Reference::Small(_) => String::new(),
            });
            found(RowDamage { what, affects });
        }
    }

    /// Who refers to a damaged extent.
    pub fn affected(&self, extent: Extent) -> String {
        match self.affected.get(&Reference::Extent(extent)) {
            Some(affected) if affected.len() == MAX_NAMED => {
                format!("{}, and perhaps more", affected.join(", "))
            }
            Some(affected) => affected.join(", "),
            None => "nothing: no row refers to it".to_owned(),
        }
    }
}

/// What it means that something is counted less often than it is referred to, or is missing.
fn deficit(reference: &Reference, referred: u64, stated: u64) -> String {
    match (reference, stated) {
        (Reference::Extent(extent), 0) => format!("its bytes are in an extent that is not known: {extent:?}"),
        (Reference::Content(_) | Reference::Small(_), 0) => "its content is missing".to_owned(),
        (Reference::Text(_), _) => "a message has no text".to_owned(),
        (Reference::Expiry(_), _) => "a message will not expire".to_owned(),
        (Reference::Tag(_), _) => "a tag is not in the index".to_owned(),
        _ => format!("its content has {referred} references, and counts {stated}: it may be freed too early"),
    }
}

/// What it means that something is counted more often than it is referred to.
fn surplus(reference: &Reference, referred: u64, stated: u64) -> String {
    let why = "a row that referred to it is lost, or its space is never freed";
    match reference {
        Reference::Extent(extent) => {
            format!("an extent counts {stated} references, and has {referred}: {why}: {extent:?}")
        }
        Reference::Content(content) | Reference::Small(content) => {
            format!("a content counts {stated} references, and has {referred}: {why}: {content:032x}")
        }
        Reference::Text(_) => "a text belongs to no message".to_owned(),
        Reference::Expiry(_) => "an expiry belongs to no message".to_owned(),
        Reference::Tag(_) => "an entry of the index of tags belongs to no blob".to_owned(),
    }
}
