//! What keys are about, in words.

use crate::check::incarnation;
use crate::keyspace::{self, space};
use std::collections::HashMap;
use tepui_model::blob::Revision;
use tepui_storage::Key;

/// The names of more are not kept.
const MAX_NAMES: usize = 100_000;

/// A kind of what rows belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Table,
    Queue,
    Container,
}

impl Owner {
    fn word(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Queue => "queue",
            Self::Container => "container",
        }
    }
}

/// The names of tables, queues and containers.
#[derive(Default)]
pub struct Names {
    names: HashMap<u64, String>,
}

impl Names {
    pub(super) fn insert(&mut self, incarnation: u64, owner: Owner, account: &str, name: &str) {
        if self.names.len() < MAX_NAMES {
            self.names.insert(incarnation, format!("{} {name} of account {account}", owner.word()));
        }
    }

    /// The messages of a queue have another number than the queue.
    pub(super) fn also(&mut self, messages: u64, queue: u64) {
        if let Some(name) = self.names.get(&queue) {
            self.names.insert(messages, name.clone());
        }
    }

    pub(super) fn of(&self, incarnation: u64) -> String {
        self.names
            .get(&incarnation)
            .cloned()
            .unwrap_or_else(|| format!("number {incarnation}, which has no name"))
    }

    /// What a row is.
    pub(super) fn describe(&self, key: &Key) -> String {
        let owner = || incarnation(key).map_or_else(String::new, |number| self.of(number));
        match key.first().copied().unwrap_or_default() {
            space::ENTITY => match keyspace::entity_keys(key) {
                Some((partition, row)) => format!("entity ({partition:?}, {row:?}) of {}", owner()),
                None => owner(),
            },
            space::BLOB => match keyspace::blob_of(key) {
                Some((name, revision)) => {
                    let revision = match revision {
                        Revision::Base => "",
                        Revision::Snapshot(_) => "a snapshot of ",
                        Revision::Version(_) => "a version of ",
                    };
                    format!("{revision}blob {name:?} in {}", owner())
                }
                None => owner(),
            },
            space::BLOCK => match keyspace::block_of(key) {
                Some((name, _)) => format!("an uncommitted block of blob {name:?} in {}", owner()),
                None => owner(),
            },
            _ => self.group(key),
        }
    }

    /// What keys from one to another are about.
    pub(super) fn describe_range(&self, (start, end): &(Key, Key)) -> String {
        let (from, to) = (self.group(start), self.group(end));
        if from == to { format!("some of {from}") } else { format!("from {from} to {to}") }
    }

    /// What a row belongs to.
    fn group(&self, key: &Key) -> String {
        let of = |what: &str| match incarnation(key) {
            Some(number) => format!("{what}{}", self.of(number)),
            None => "all tables, queues or containers".to_owned(),
        };
        match key.first().copied().unwrap_or_default() {
            0..=space::COUNTER => "the counter".to_owned(),
            space::CATALOGUE_VERSION => "the versions of the catalogue".to_owned(),
            space::TABLE | space::RESERVED_NAME => "the catalogue of tables".to_owned(),
            space::QUEUE | space::RESERVED_QUEUE_NAME => "the catalogue of queues".to_owned(),
            space::CONTAINER | space::RESERVED_CONTAINER_NAME => "the catalogue of containers".to_owned(),
            space::ACCOUNT => "the accounts of the admin API".to_owned(),
            space::ROLE_ASSIGNMENT => "the role assignments of the admin API".to_owned(),
            space::SERVER_SECRET => "the secret of the server".to_owned(),
            space::SERVICE_PROPERTIES => "the properties of services".to_owned(),
            space::DROPPED..=space::FREE_EXTENT_IN_STORE => "the records of the garbage collector".to_owned(),
            space::QUEUE_STATE => of("the state of "),
            space::ENTITY => of("the entities of "),
            space::MESSAGE..=space::MESSAGE_EXPIRY => of("the messages of "),
            space::BLOB => of("the blobs of "),
            space::BLOCK => of("the uncommitted blocks of "),
            space::TAG => of("the tags of "),
            space::CONTENT | space::PIECES | space::SMALL_CONTENT => "the contents of blobs".to_owned(),
            space::WORK_LEASE => "the leases on background work".to_owned(),
            space::NODE => "the numbers of nodes".to_owned(),
            space::INSTALLATION => "the number of the installation".to_owned(),
            space::VOLUME => "the volumes of shared stores".to_owned(),
            space::STORAGE_COPY => "the state of a copy to this storage".to_owned(),
            space::EXTENT | space::EXTENT_IN_STORE => "the reference counts of extents".to_owned(),
            space::RETAINED => "the retention of deleted blobs".to_owned(),
            space::PENDING_COPY => "pending copies".to_owned(),
            space::CONSUMED_BLOCKS | space::STAGED => of("the blocks of "),
            _ => "rows of an unknown kind".to_owned(),
        }
    }
}
