//! What the Table service answers.

use super::entity::Entity;
use super::page::{EntityPage, TablePage};
use crate::Timestamp;
use crate::access_policy::SignedIdentifier;
use crate::service_properties::ServiceProperties;

/// The answer to an [`Operation`](super::Operation) that succeeded.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Tables(TablePage),
    /// The name as the table's creator spelled it.
    Table {
        name: String,
    },
    TableCreated,
    TableDeleted,
    /// The entities themselves went to the sink that the query was given.
    Entities(EntityPage),
    Entity(Entity),
    Written(Written),
    /// One for each change, in their order.
    Transaction(Vec<Written>),
    Acl(Vec<SignedIdentifier>),
    AclSet,
    ServiceProperties(ServiceProperties),
    ServicePropertiesSet,
    /// When the secondary was last in step.
    ServiceStats {
        last_sync: Timestamp,
    },
}

/// What became of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The entity is stored with this timestamp.
    Stored(Timestamp),
    Deleted,
}
