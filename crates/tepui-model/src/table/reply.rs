//! What the Table service answers.

use super::entity::Entity;
use super::name::TableName;
use super::page::TablePage;
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
    /// The name as it is spelled from now on.
    TableCreated {
        name: TableName,
    },
    TableDeleted,
    Entity(Entity),
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
