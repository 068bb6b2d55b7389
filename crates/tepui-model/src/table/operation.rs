//! What can be asked of the Table service.

use super::change_set::Change;
use super::entity::EntityKey;
use super::filter::Filter;
use super::name::TableName;
use super::page::Continuation;
use crate::access_policy::SignedIdentifier;
use crate::operation::operation_kinds;
use crate::service_properties::ServicePropertiesChange;

/// What a request asks for, by how it runs. Changes that are made together are a
/// [`ChangeSet`](super::ChangeSet). Tables are named as the caller spelled them; case does not matter.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Answered with one [`Reply`](super::Reply).
    Operation(Operation),
    /// One write of one entity, answered with [`Written`](super::Written).
    Change { table: String, change: Change },
    /// Answered with a page, entity by entity as they are found.
    Query(QueryEntities),
}

/// Everything but queries for entities and changes of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    QueryTables(QueryTables),
    GetTable { table: String },
    CreateTable { name: TableName },
    DeleteTable { table: String },
    GetEntity { table: String, key: EntityKey },
    GetTableAcl { table: String },
    SetTableAcl { table: String, identifiers: Vec<SignedIdentifier> },
    GetServiceProperties,
    SetServiceProperties(ServicePropertiesChange),
    GetServiceStats,
}

impl From<Operation> for Call {
    fn from(operation: Operation) -> Self {
        Self::Operation(operation)
    }
}

impl Operation {
    /// Whether it frees space on the disk, in the end, or is needed to get there: it is carried out though the disk is nearly full.
    pub fn frees_space(&self) -> bool {
        matches!(self, Self::DeleteTable { .. })
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
    GetUserDelegationKey = "GetUserDelegationKey", Read;
}
