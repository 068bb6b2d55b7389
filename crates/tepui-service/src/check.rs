//! Checks rows: that all can be decoded, that each belongs to a table, queue or container of the catalogue, and that everything
//! referred to is there and counted right. For `tepui check`, which reads a directory without a server.
//!
//! | | |
//! | --- | --- |
//! | `check.rs` | the first pass over all rows, in key order |
//! | `ledger.rs` | compares references with what is referred to, in constant memory |
//! | `trace.rs` | further passes, if something does not match: what, and whose it is |
//! | `names.rs` | what keys are about, for people |
//!
//! Memory: some 50 bytes for each table, queue and container; a name for the first 100,000 of them.

mod ledger;
mod names;
mod trace;

pub use names::Names;
pub use trace::Trace;

use crate::blob::contents::extent_of;
use crate::identity::{AccountRecord, StoredAssignment};
use crate::keyspace::{self, space};
use crate::record::{
    self, Content, ContentHead, CopiedExtent, PendingCopy, PieceRow, QueueState, SmallContent, StorageCopy,
    StoredBlob, StoredBlock, StoredContainer, StoredExtent, StoredMessage, StoredPiece, StoredQueue,
    StoredTable, WorkLease,
};
use bytes::Bytes;
use ledger::{Ledger, Reference};
use names::Owner;
use std::collections::{HashMap, HashSet};
use tepui_model::Timestamp;
use tepui_model::blob::Revision;
use tepui_storage::{Extent, Key, StoreId};
use trace::Live;

/// Something that is wrong with rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDamage {
    pub what: String,
    /// Whose it is.
    pub affects: String,
}

/// What rows there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowCounts {
    pub tables: u64,
    pub entities: u64,
    pub entity_bytes: u64,
    pub queues: u64,
    pub messages: u64,
    pub message_bytes: u64,
    pub containers: u64,
    /// Blobs as they are now, and their lengths.
    pub blobs: u64,
    pub blob_bytes: u64,
    /// Snapshots, previous versions and soft-deleted ones.
    pub other_revisions: u64,
    pub uncommitted_blocks: u64,
    /// Large bytes that rows refer to.
    pub extents: u64,
    /// Rows of deleted tables, queues and containers that are not collected yet, and of what nothing refers to.
    pub garbage_rows: u64,
    /// Extents that are to be freed.
    pub garbage_extents: u64,
}

/// The first pass.
#[derive(Default)]
pub struct RowCheck {
    counts: RowCounts,
    names: Names,
    /// Tables, queues and containers of the catalogue.
    live: HashSet<u64>,
    /// Those with a GC record.
    dropped: HashSet<u64>,
    messages: HashMap<u64, QueueMessages>,
    ledger: Ledger,
    /// The last group of rows that has no entry in the catalogue, so that each is reported once.
    stray: Option<(u8, u64)>,
}

/// The messages of a queue: how many its state says, and how many there are.
struct QueueMessages {
    stated: u64,
    found: u64,
}

/// Whether a row belongs to something that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belongs {
    Live,
    Garbage,
}

impl RowCheck {
    /// Takes the rows in key order. Returns an extent that is to be verified.
    pub fn row(&mut self, key: &Key, value: &Bytes, found: &mut dyn FnMut(RowDamage)) -> Option<Extent> {
        let mut extent = None;
        if self.read(key, value, &mut extent, found).is_none() {
            let what = "a row cannot be decoded".to_owned();
            found(RowDamage { what, affects: self.names.describe(key) });
        }
        extent
    }

    /// `None`: the row cannot be decoded.
    fn read(
        &mut self,
        key: &Key,
        value: &Bytes,
        to_verify: &mut Option<Extent>,
        found: &mut dyn FnMut(RowDamage),
    ) -> Option<()> {
        for reference in references(key, value)? {
            let is_checked = match &reference {
                // Of what is being collected, any part may be gone.
                Reference::Text(key) | Reference::Expiry(key) => {
                    self.messages.contains_key(&incarnation(key)?)
                }
                Reference::Tag(key) => self.live.contains(&incarnation(key)?),
                Reference::Extent(_) | Reference::Content(_) | Reference::Small(_) => true,
            };
            if is_checked {
                self.ledger.refers(&reference);
            }
        }
        let first = *key.first()?;
        match first {
            space::COUNTER
            | space::CATALOGUE_VERSION
            | space::INSTALLATION
            | space::RESERVED_NAME
            | space::RESERVED_QUEUE_NAME
            | space::RESERVED_CONTAINER_NAME => drop(record::decode_number(value).ok()?),
            space::ACCOUNT => {
                keyspace::account_name(key)?;
                AccountRecord::decode(value).ok()?;
            }
            space::ROLE_ASSIGNMENT => {
                StoredAssignment::decode(keyspace::role_assignment_id(key)?, value).ok()?;
            }
            space::SERVER_SECRET => drop(record::decode_secret(value).ok()?),
            space::TABLE => {
                let table = StoredTable::decode(value).ok()?;
                let (account, _) = keyspace::queue_of(key)?;
                self.catalogued(table.incarnation.0, Owner::Table, &account, &table.name);
                self.counts.tables += 1;
            }
            space::QUEUE => {
                let queue = StoredQueue::decode(value).ok()?;
                let (account, name) = keyspace::queue_of(key)?;
                self.catalogued(queue.incarnation.0, Owner::Queue, &account, &name);
                // Unless its state says otherwise.
                self.messages.insert(queue.incarnation.0, QueueMessages { stated: 0, found: 0 });
                self.counts.queues += 1;
            }
            space::CONTAINER => {
                let container = StoredContainer::decode(value).ok()?;
                let (account, name) = keyspace::container_of(key)?;
                self.catalogued(container.incarnation.0, Owner::Container, &account, &name);
                self.counts.containers += u64::from(container.deleted.is_none());
            }
            space::SERVICE_PROPERTIES => {
                let (_, service) = keyspace::queue_of(key)?;
                match &*service {
                    "blob" => drop(record::decode_blob_settings(value).ok()?),
                    _ => drop(record::decode_service_properties(value).ok()?),
                }
            }
            space::DROPPED | space::DROPPED_CONTAINER => {
                record::decode_number(value).ok()?;
                self.dropped.insert(keyspace::dropped_incarnation(key)?.0);
                self.counts.garbage_rows += 1;
            }
            space::DROPPED_CONTENT => {
                record::decode_number(value).ok()?;
                self.counts.garbage_rows += 1;
            }
            space::WORK_LEASE | space::NODE => drop(WorkLease::decode(value).ok()?),
            space::VOLUME => drop(record::VolumeState::decode(value).ok()?),
            space::STORAGE_COPY if *key == keyspace::copy_state() => {
                StorageCopy::decode(value).ok()?;
                found(RowDamage { what: crate::copy::UNFINISHED.to_owned(), affects: String::new() });
            }
            space::STORAGE_COPY => drop(CopiedExtent::decode(value).ok()?),
            space::FREE_EXTENT | space::FREE_EXTENT_IN_STORE => {
                let bytes = record::decode_number(value).ok()?;
                keyspace::extent_at(key, bytes)?;
                self.counts.garbage_extents += 1;
            }
            space::QUEUE_STATE => {
                let state = QueueState::decode(value).ok()?;
                let queue = incarnation(key)?;
                match self.live.contains(&queue) {
                    true => {
                        if state.messages.0 != queue {
                            self.messages.remove(&queue);
                            self.names.also(state.messages.0, queue);
                        }
                        self.messages
                            .insert(state.messages.0, QueueMessages { stated: state.count, found: 0 });
                    }
                    false => self.counts.garbage_rows += 1,
                }
            }
            // They follow the states, so that it is known which messages are the queue's.
            space::QUEUE_NODE_STATE => {
                let state = QueueState::decode(value).ok()?;
                match self.messages.get_mut(&state.messages.0) {
                    Some(messages) if self.live.contains(&incarnation(key)?) => {
                        messages.stated = messages.stated.wrapping_add(state.count);
                    }
                    // Of a queue that was deleted, or of messages that were cleared.
                    _ => self.counts.garbage_rows += 1,
                }
            }
            space::ENTITY => {
                let (_, packed) = record::entity_parts(value)?;
                keyspace::entity_keys(key)?;
                if !tepui_model::table::properties::is_whole(packed) {
                    return None;
                }
                if self.belongs(key, found)? == Belongs::Live {
                    self.counts.entities += 1;
                    self.counts.entity_bytes += value.len() as u64;
                }
            }
            space::MESSAGE | space::MESSAGE_TEXT | space::MESSAGE_EXPIRY => {
                self.message(first, key, value, found)?
            }
            space::BLOB => {
                let blob = StoredBlob::decode(value).ok()?;
                let (_, revision) = keyspace::blob_of(key)?;
                if self.belongs(key, found)? == Belongs::Live {
                    match revision {
                        Revision::Base if blob.deleted.is_none() => {
                            self.counts.blobs += 1;
                            self.counts.blob_bytes += blob.bytes;
                        }
                        _ => self.counts.other_revisions += 1,
                    }
                }
            }
            space::BLOCK => {
                keyspace::block_of(key)?;
                if self.belongs(key, found)? == Belongs::Live {
                    self.counts.uncommitted_blocks += 1;
                }
            }
            space::CONTENT => {
                let (content, _) = keyspace::content_of(key)?;
                let head = ContentHead::decode(value).ok()?;
                self.ledger.counts(&Reference::Content(content.0), head.references);
            }
            space::PIECES => {
                let (_, end) = keyspace::content_of(key)?;
                let row = PieceRow::decode(value).ok()?;
                let bytes: u64 = row.pieces.iter().map(StoredPiece::bytes).sum();
                if row.start.checked_add(bytes) != end {
                    return None;
                }
            }
            space::TAG => {
                keyspace::tagged_blob(key)?;
                (*value == record::index_entry()).then_some(())?;
                if self.belongs(key, found)? == Belongs::Live {
                    self.ledger.counts(&Reference::Tag(key.clone()), 1);
                }
            }
            space::EXTENT | space::EXTENT_IN_STORE => {
                let StoredExtent { bytes, references } = StoredExtent::decode(value).ok()?;
                let extent = keyspace::extent_at(key, bytes)?;
                self.ledger.counts(&Reference::Extent(extent), references);
                self.counts.extents += 1;
                // Those of other stores are not in this directory.
                *to_verify = (extent.store == StoreId::LOCAL).then_some(extent);
            }
            space::RETAINED => {
                keyspace::retained_blob(key)?;
                (*value == record::index_entry()).then_some(())?;
            }
            space::PENDING_COPY => drop(PendingCopy::decode(value).ok()?),
            space::CONSUMED_BLOCKS | space::STAGED => {
                record::decode_number(value).ok()?;
                keyspace::blob_of_marker(key)?;
            }
            space::SMALL_CONTENT => {
                let (content, _) = keyspace::content_of(key)?;
                let small = SmallContent::decode(value).ok()?;
                self.ledger.counts(&Reference::Small(content.0), small.references);
            }
            _ => return None,
        }
        Some(())
    }

    fn message(
        &mut self,
        first: u8,
        key: &Key,
        value: &Bytes,
        found: &mut dyn FnMut(RowDamage),
    ) -> Option<()> {
        let messages = incarnation(key)?;
        let is_live = self.messages.contains_key(&messages);
        if !is_live {
            self.belongs(key, found)?;
        }
        match first {
            space::MESSAGE => {
                StoredMessage::decode(value).ok()?;
                if let Some(queue) = self.messages.get_mut(&messages) {
                    queue.found += 1;
                    self.counts.messages += 1;
                }
            }
            space::MESSAGE_TEXT => {
                let text = record::decode_text(value).ok()?;
                if is_live {
                    self.counts.message_bytes += text.len() as u64;
                    self.ledger.counts(&Reference::Text(key.clone()), 1);
                }
            }
            _ => {
                record::decode_number(value).ok()?;
                if is_live {
                    self.ledger.counts(&Reference::Expiry(key.clone()), 1);
                }
            }
        }
        Some(())
    }

    fn catalogued(&mut self, incarnation: u64, owner: Owner, account: &str, name: &str) {
        self.live.insert(incarnation);
        self.names.insert(incarnation, owner, account, name);
    }

    /// Whether what the row belongs to is in the catalogue, or is being collected.
    fn belongs(&mut self, key: &Key, found: &mut dyn FnMut(RowDamage)) -> Option<Belongs> {
        let incarnation = incarnation(key)?;
        if self.live.contains(&incarnation) {
            return Some(Belongs::Live);
        }
        self.counts.garbage_rows += 1;
        let group = (*key.first()?, incarnation);
        if !self.dropped.contains(&incarnation) && self.stray.replace(group) != Some(group) {
            let what = "rows of something that is not in the catalogue".to_owned();
            found(RowDamage { what, affects: self.names.describe(key) });
        }
        Some(Belongs::Garbage)
    }

    /// What a row is about.
    pub(crate) fn describe_row(&self, key: &Key) -> String {
        self.names.describe(key)
    }

    /// What a range of keys is about.
    pub fn describe(&self, keys: &(Key, Key)) -> String {
        self.names.describe_range(keys)
    }

    /// After the last row. `damaged`: extents that are not what was written. The trace needs further passes over the rows, if
    /// there is anything to find out.
    pub fn finish(self, damaged: &[Extent], found: &mut dyn FnMut(RowDamage)) -> (RowCounts, Trace) {
        for (messages, QueueMessages { stated, found: counted }) in &self.messages {
            if stated != counted {
                let what = format!("the queue counts {stated} messages, and has {counted}");
                found(RowDamage { what, affects: self.names.of(*messages) });
            }
        }
        let messages = self.messages.into_keys().collect();
        let live = Live { messages, containers: self.live };
        (self.counts, Trace::new(self.names, self.ledger, live, damaged))
    }
}

/// The incarnation that most keys begin with.
fn incarnation(key: &[u8]) -> Option<u64> {
    key.get(1..9)?.try_into().ok().map(u64::from_be_bytes)
}

/// What a row refers to. `None`: it cannot be decoded.
fn references(key: &Key, value: &Bytes) -> Option<Vec<Reference>> {
    Some(match *key.first()? {
        space::MESSAGE => {
            let message = StoredMessage::decode(value).ok()?;
            let (messages, (_, sequence)) =
                (keyspace::Incarnation(incarnation(key)?), keyspace::position_of(key)?);
            let mut references = vec![Reference::Text(keyspace::message_text(messages, sequence))];
            if message.expires != Timestamp::MAX {
                let position = (message.expires.ticks(), sequence);
                references.push(Reference::Expiry(keyspace::message_expiry(messages, position)));
            }
            references
        }
        space::BLOB => {
            let blob = StoredBlob::decode(value).ok()?;
            let (name, revision) = keyspace::blob_of(key)?;
            let container = keyspace::container_of_blob(key)?;
            let content = match blob.content {
                Content::Inline(_) => None,
                Content::Small(content) => Some(Reference::Small(content.0)),
                Content::Extent(extent) => Some(Reference::Extent(extent)),
                Content::Listed(content) => Some(Reference::Content(content.0)),
            };
            // As the index has it.
            let is_indexed = blob.deleted.is_none() && !matches!(revision, Revision::Snapshot(_));
            let tags = blob.tags.iter().filter(|_| is_indexed);
            let tags = tags.map(|tag| Reference::Tag(keyspace::tag(container, tag, &name, revision)));
            content.into_iter().chain(tags).collect()
        }
        space::BLOCK => {
            StoredBlock::decode(value).ok()?.content.extent().map(Reference::Extent).into_iter().collect()
        }
        space::CONTENT => {
            let parent = ContentHead::decode(value).ok()?.parent;
            parent.map(|(parent, _)| Reference::Content(parent.0)).into_iter().collect()
        }
        space::PIECES => {
            let pieces = PieceRow::decode(value).ok()?.pieces;
            pieces.iter().filter_map(|piece| extent_of(&piece.source)).map(Reference::Extent).collect()
        }
        _ => Vec::new(),
    })
}
