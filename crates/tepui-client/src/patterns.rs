//! The patterns of the table design guide, one module each.
//!
//! | The guide's section | Module |
//! | --- | --- |
//! | Encrypting table data | `encryption` (with the feature of that name) |
//! | Controlling access with shared access signatures | [`sas_per_user`] |
//! | Intra-partition secondary index pattern | [`index_within_partition`] |
//! | Compound key pattern | [`compound_keys`] |
//! | Working with heterogeneous entity types | [`mixed_types`] |
//! | One-to-many, one-to-one relationships, join in the client | [`relationships`] |
//! | Inter-partition secondary index pattern | [`index_across_partitions`] |
//! | Eventually consistent transactions pattern | [`outbox`] |
//! | Index entities pattern, in another partition | [`index_entities::elsewhere`] |
//! | Denormalization pattern | [`denormalization`] |
//! | Materialized views | [`materialized_view`] |
//! | Data series | [`data_series`] |
//! | High volume delete | [`table_series`] |
//! | Index entities | [`index_entities`] |
//! | Large entities | [`large_entity`] |
//! | Log data (anti-pattern), and what to do instead | [`log_blobs`] |
//! | Log tail | [`log_tail`] |
//! | Wide entities | [`wide_entity`] |
//!
//! # What the guide warns of
//!
//! What can be seen when a program is compiled does not compile, and what can be seen before a request is sent is refused:
//!
//! | Warning | What happens | Instead |
//! | --- | --- | --- |
//! | Prepending or appending to one partition: a partition key that is only a time | `#[derive(Entity)]` does not compile, unless `append_only_is_fine` is said | another field first, or `{field:hash16}` |
//! | The same with keys that are not derived | [`Load`](log_tail::Load) counts what a partition of a log takes; services answer 503, and the client then sends less to that partition | more partitions, or [`log_blobs`] |
//! | Log data in tables | nothing can tell it from other data | [`log_blobs`] |
//! | Entities beyond 252 properties, 64 KiB a value or 1 MiB | [`TooLarge`](crate::ErrorKind::TooLarge) before it is sent; more than 252 fields do not compile | [`wide_entity`], [`large_entity`] |
//! | A list of keys that outgrows its entity | [`TooLarge`](crate::ErrorKind::TooLarge), which names the other forms | [`MemberRows`](index_entities::MemberRows) |
//! | A data series that does not fit into its entity | does not compile | [`wide_entity`] |
//! | Many keys in one filter with `or` | more than 1,000 comparisons are [`Refused`](crate::ErrorKind::Refused); [`Query::explain`](crate::Query::explain) tells what fewer of them read | [`Table::get_many`](crate::Table::get_many) |
//! | Scans of tables and of ranges of partitions | [`Refused`](crate::ErrorKind::Refused) by accounts that say [`Scans::Refuse`](crate::Scans::Refuse) | [`index_entities`], or a key that has the property |
//! | Deleting much, entity by entity | nothing can tell it from other deletes | [`table_series`] |
//! | Replacing an entity with one that does not have all of its properties | does not compile: [`ReplaceEntity`](crate::ReplaceEntity) | merge it |
//! | Numbers in keys without leading zeros | derived keys have a number of digits, and larger numbers are errors | |
//! | Changing what somebody else has changed meanwhile | does not compile without [`Match`](crate::Match) | |
//!
//! A partition key of nothing but time:
//!
//! ```compile_fail
//! #[derive(tepui_client::Entity)]
//! #[entity(table = "Visits")]
//! #[key(partition = "{at:asc}", row = "{user}")]
//! struct Visit { at: tepui_client::Timestamp, user: String }
//! ```
//!
//! The same, spread by user:
//!
//! ```
//! #[derive(tepui_client::Entity)]
//! #[entity(table = "Visits")]
//! #[key(partition = "{user:hash16}", row = "{at:desc}_{user}")]
//! struct Visit { at: tepui_client::Timestamp, user: String }
//! ```

mod blob_names;
pub mod compound_keys;
pub mod copies;
pub mod data_series;
pub mod denormalization;
#[cfg(feature = "encryption")]
pub mod encryption;
pub mod index_across_partitions;
pub mod index_entities;
pub mod index_within_partition;
pub mod large_entity;
pub mod log_blobs;
pub mod log_tail;
mod marked;
pub mod materialized_view;
pub mod mixed_types;
pub mod outbox;
pub mod relationships;
pub mod sas_per_user;
pub mod table_series;
pub mod wide_entity;
