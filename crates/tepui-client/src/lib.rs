//! Client for Azure Storage tables, and for the queues and blobs that their patterns need. It speaks to Azure, to Azurite
//! and to Tepui alike.
//!
//! ```
//! use tepui_client::{Account, Entity};
//!
//! #[derive(Entity)] // With the feature `derive`.
//! #[entity(table = "People")]
//! #[key(partition = "{family}", row = "{id:06}")]
//! struct Person {
//!     family: String,
//!     id: u32,
//!     name: String,
//! }
//!
//! # tepui_client_testing::run_with_connection_string(async |connection_string| {
//! let account = Account::from_connection_string(&connection_string)?;
//! let people = account.table_of::<Person>()?;
//! people.create_if_missing().await?;
//! people.upsert_merge(&Person { family: "smith".into(), id: 1, name: "Ada".into() }).await?;
//! for person in people.partition("smith").id(1..=99).all().await? {
//!     println!("{}", person.name);
//! #   assert_eq!(person.name, "Ada");
//! }
//! # Ok(()) });
//! ```
//!
//! What a table cannot do well is not hidden: a transaction never splits, what is not atomic says so, and a write whose
//! answer was lost ends as [`ErrorKind::Unknown`] and not as a conflict that never was.
//!
//! | You look for | See |
//! | --- | --- |
//! | connection strings, keys, SAS, bearer tokens | [`Account`], [`AccountBuilder`] |
//! | single entities, ETags | [`Table`], [`Match`], [`Versioned`] |
//! | queries by keys, pages, where to go on | [`Table::partition`], [`Query`], [`Continuation`] |
//! | filters, whole tables | [`Scan`], [`filter`], [`Scans`] |
//! | some of an entity's properties | [`Projection`](entity::typed::Projection) |
//! | several changes at once | [`Transaction`] (all or nothing), [`Bulk`] (each for itself) |
//! | lost answers | [`ErrorKind::Unknown`], [`Table::with_write_tokens`] |
//! | retries, deadlines, how many at a time | [`Retry`], [`AccountBuilder::within`], [`AccountBuilder::parallel`] |
//! | what a request cost | [`Page::receipt`], [`AccountBuilder::observe`] |
//! | queues, blobs | [`Queue`], [`Container`], [`Blob`] |
//! | the design guide's patterns | [`patterns`] |

mod account;
mod blob;
mod core;
mod credential;
pub mod entity;
mod error;
pub mod filter;
pub mod key;
mod observe;
pub mod patterns;
mod queue;
mod random;
mod retry;
mod table;
mod transport;
mod value;

pub use account::{Account, AccountBuilder, Scans};
pub use blob::{Blob, BlobContent, BlobPage, Container, ListedBlob, WriteIf};
pub use credential::{BearerSource, TokenFuture};
pub use entity::{DynamicEntity, ETag, Entity, Match, ReplaceEntity, StoredEntity, Versioned};
pub use error::{Error, ErrorKind};
pub use observe::SentRequest;
pub use queue::{Message, PutMessage, Queue};
pub use retry::Retry;
pub use table::{
    Bulk, BulkOutcome, BulkReport, Continuation, EntityStream, FanOut, FanOutStream, InvalidContinuation,
    Page, Pages, Query, QueryWithoutPartition, Scan, Table, Transaction,
};
#[cfg(feature = "derive")]
pub use tepui_derive::{Entity, EntityEnum, Projection, PropertyEnum};
pub use tepui_model::cost::{Cost, CostHint, Receipt};
pub use tepui_model::table::{EdmType, EntityKey, Explanation, Filter, Guid, PlanKind};
pub use tepui_model::{ErrorCode, Timestamp};
pub use value::Value;
