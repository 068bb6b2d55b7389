//! The Table service: tables of entities, and what can be asked of them.

pub mod change_set;
pub mod edm;
pub mod entity;
pub mod explain;
pub mod filter;
pub mod metrics_table;
pub mod name;
pub mod operation;
pub mod page;
pub mod plan;
pub mod properties;
pub mod reply;

pub use change_set::{Action, Change, ChangeSet};
pub use edm::{EdmType, Guid, TextRef, ValueRef};
pub use entity::{Entity, EntityKey, EntityView, MAX_KEY_UNITS};
pub use explain::{EntityRange, Explanation, KeyEdge, Side, explain};
pub use filter::{Comparison, Filter, Literal};
pub use metrics_table::{MetricsTable, MetricsTableName};
pub use name::TableName;
pub use operation::{Call, Operation, OperationKind, PageSize, QueryEntities, QueryTables};
pub use page::{Continuation, EntityPage, EntitySink, PlanKind, TablePage};
pub use plan::{Interval, KeyBox, QueryHint, QueryPlan};
pub use properties::{Properties, PropertiesBuilder};
pub use reply::{Reply, Written};
