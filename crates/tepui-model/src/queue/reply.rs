//! What the Queue service answers.

use super::message::{Claimed, Peeked, PopReceipt};
use crate::Timestamp;
use crate::access_policy::SignedIdentifier;
use crate::cost::Cost;
use crate::metadata::Metadata;
use crate::service_properties::ServiceProperties;

/// The answer to an [`Operation`](super::Operation) that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Queues(QueuePage),
    QueueCreated,
    /// It is there already, with the same metadata.
    QueueExists,
    QueueDeleted,
    Metadata {
        metadata: Metadata,
        messages: u64,
    },
    MetadataSet,
    Acl(Vec<SignedIdentifier>),
    AclSet,
    /// Without its text.
    Put(Claimed),
    Messages(Vec<Claimed>),
    Peeked(Vec<Peeked>),
    Updated(PopReceipt),
    MessageDeleted,
    Cleared,
    ServiceProperties(ServiceProperties),
    ServicePropertiesSet,
    /// When the secondary was last in step.
    ServiceStats {
        last_sync: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueuePage {
    /// In the order of their names.
    pub queues: Vec<ListedQueue>,
    /// The first name of the next page, if there is one.
    pub next: Option<String>,
    pub cost: Cost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedQueue {
    pub name: String,
    /// Only if it was asked for.
    pub metadata: Option<Metadata>,
}
