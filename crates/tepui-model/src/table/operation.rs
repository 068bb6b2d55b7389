//! What can be asked of the Table service.

use super::change_set::{Action, Change, ChangeSet};
use super::entity::EntityKey;
use super::filter::Filter;
use super::name::TableName;
use super::page::Continuation;
use crate::access_policy::SignedIdentifier;
use crate::operation::operation_kinds;
use crate::service_properties::ServicePropertiesChange;

/// A request, decoded. Tables are named as the caller spelled them; case does not matter.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    QueryTables(QueryTables),
    GetTable { table: String },
    CreateTable { name: TableName },
    DeleteTable { table: String },
    QueryEntities(QueryEntities),
    GetEntity { table: String, key: EntityKey },
    ChangeEntity { table: String, change: Change },
    EntityGroupTransaction(ChangeSet),
    GetTableAcl { table: String },
    SetTableAcl { table: String, identifiers: Vec<SignedIdentifier> },
    GetServiceProperties,
    SetServiceProperties(ServicePropertiesChange),
    GetServiceStats,
}

impl Operation {
    /// Whether it frees space on the disk, in the end, or is needed to get there: it is carried out though the disk is nearly full.
    pub fn frees_space(&self) -> bool {
        let deletes = |change: &Change| matches!(change.action, Action::Delete(_));
        match self {
            Self::DeleteTable { .. } => true,
            Self::ChangeEntity { change, .. } => deletes(change),
            Self::EntityGroupTransaction(set) => set.changes().iter().all(deletes),
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryTables {
    pub filter: Option<Filter>,
    pub page_size: PageSize,
    /// The name, in lower case, from which to go on.
    pub from: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryEntities {
    pub table: String,
    pub filter: Option<Filter>,
    pub page_size: PageSize,
    pub from: Option<Continuation>,
}

/// The most that one page holds: 0 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(usize);

impl PageSize {
    pub const MAX: Self = Self(1000);

    pub fn new(size: usize) -> Option<Self> {
        (size <= Self::MAX.0).then_some(Self(size))
    }

    pub fn get(self) -> usize {
        self.0
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self::MAX
    }
}

operation_kinds! {
    QueryTables = "QueryTables", Read;
    GetTable = "QueryTable", Read;
    CreateTable = "CreateTable", Write;
    DeleteTable = "DeleteTable", Write;
    QueryEntities = "QueryEntities", Read;
    GetEntity = "QueryEntity", Read;
    InsertEntity = "InsertEntity", Write;
    UpdateEntity = "UpdateEntity", Write;
    MergeEntity = "MergeEntity", Write;
    InsertOrReplaceEntity = "InsertOrReplaceEntity", Write;
    InsertOrMergeEntity = "InsertOrMergeEntity", Write;
    DeleteEntity = "DeleteEntity", Write;
    EntityGroupTransaction = "EntityGroupTransaction", Write;
    GetTableAcl = "GetTableACL", Read;
    SetTableAcl = "SetTableACL", Write;
    GetServiceProperties = "GetTableServiceProperties", Read;
    SetServiceProperties = "SetTableServiceProperties", Write;
    GetServiceStats = "GetTableServiceStats", Read;
}
