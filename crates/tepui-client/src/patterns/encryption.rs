//! Properties that only clients can read. The guide's section: Encrypting table data.
//!
//! Each time an entity is written, it gets a new key; its properties are encrypted with that, one by one; the key goes along,
//! wrapped with a key that the service never sees. A [`Policy`] says which properties and which key, and
//! [`Table::encrypted`](crate::Table::encrypted) makes a table that follows it.
//!
//! ```
//! use tepui_client::patterns::encryption::{AesKey, Policy, TypedEncryptedEntity as _};
//! use tepui_client::{Account, Entity};
//!
//! #[derive(Entity, Debug, PartialEq)]
//! #[entity(table = "Salaries", closed)]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Salary {
//!     department: String,
//!     id: u32,
//!     currency: String,
//!     #[encrypt]
//!     amount: i64,
//! }
//!
//! # tepui_client_testing::run_with_connection_string(async |connection_string| {
//! let account = Account::from_connection_string(&connection_string)?;
//! let key = [7; 32]; // From where your secrets are.
//! let salaries = account.encrypted_table_of::<Salary>(Policy::new(AesKey::new("2026-11", &key)?).require())?;
//! salaries.create().await?;
//! let salary = Salary { department: "Sales".into(), id: 223, currency: "EUR".into(), amount: 71_000 };
//! salaries.insert(&salary).await?;
//!
//! // Who has the key reads it as it was.
//! let found = salaries.get(&Salary::key("Sales", 223)?).await?.ok_or("not found")?;
//! assert_eq!(*found, salary);
//! // Who has not reads bytes.
//! let stored = account.table(Salary::TABLE)?.get(&Salary::key("Sales", 223)?).await?.ok_or("not found")?;
//! assert!(stored.get("amount").and_then(|value| value.as_bytes()).is_some());
//! # Ok(()) });
//! ```
//!
//! # When to use it
//!
//! For what operators of the storage, or readers of a backup or a stolen SAS, must not see: identity numbers, health data,
//! secrets of customers.
//!
//! # When not
//!
//! - For what queries compare: encrypted properties are bytes to the service. `#[encrypt]` fields have no constant for filters,
//!   and a filter on a property that the policy names is refused. Keys are never encrypted.
//! - For what is merged: one entity has one key, so what a merge leaves as it was could not be decrypted any more. Encrypted
//!   tables have no `merge`; [`EncryptedTable::modify`] reads and replaces.
//! - As a proof of age: that an entity was put back to an earlier version is not noticed. Nor are properties protected that
//!   are not encrypted, nor lengths of texts hidden.
//!
//! # Formats
//!
//! | | [`Format::Tepui1`] | [`Format::LegacyV1`] |
//! | --- | --- | --- |
//! | cipher | AES-256-GCM | AES-256-CBC without authentication (CVE-2022-30187) |
//! | types | all | texts |
//! | bound to | table, both keys, name, type | nothing |
//! | a change of a byte, a property moved, renamed or taken away | is noticed | may go unnoticed |
//! | read by old clients | refused; that of Python hands out bytes, unless it is told to require encryption | yes |
//!
//! The old format is read wherever it is found: as .NET and Python write it, and as Java does, which is a little different. Both
//! formats store two properties more, so 250 are left. Encrypted values are stored as bytes, of which a property has 64 KiB.
//!
//! # Keys
//!
//! Content keys are wrapped with a [`KeyEncryptionKey`]: an [`AesKey`] in memory, or your own implementation for a vault. Entities
//! name the key that wrapped theirs, and a [`KeyResolver`] finds it. To change it, write with the new one, keep the old one in
//! the resolver, and call [`EncryptedTable::rotate_all`]: it wraps content keys anew and leaves the properties as they are.

mod at_once;
mod cipher;
mod keys;
mod metadata;
mod policy;
mod query;
mod rotation;
mod table;
#[cfg(test)]
mod tests;
mod transaction;

pub use keys::{AesKey, ContentKey, KeyEncryptionKey, KeyFailure, KeyFuture, KeyResolver, KeyRing};
pub use policy::{Format, Policy};
pub use query::{ByKeys, EncryptedPages, EncryptedQuery, Scanning};
pub use rotation::{Rotated, RotationReport};
pub use table::EncryptedTable;
pub use transaction::EncryptedTransaction;

use crate::entity::Properties;
use crate::entity::typed::check_same_key;
use crate::{Account, Entity, EntityKey, Error, ReplaceEntity, StoredEntity};

/// What an encrypted table can hold: any [`Entity`], and structs with `#[encrypt]` fields. These are no [`Entity`], so that they
/// can neither be written in the clear nor merged:
///
/// ```compile_fail,E0277
/// # use tepui_client::{Entity, Error, Transaction};
/// #[derive(Entity)]
/// #[entity(table = "Salaries", closed)]
/// #[key(partition = "{department}", row = "{id:06}")]
/// struct Salary { department: String, id: u32, #[encrypt] amount: i64 }
///
/// fn insert(mut transaction: Transaction, salary: &Salary) -> Result<(), Error> {
///     transaction.insert(salary) // An `EncryptedTransaction` can.
/// }
/// ```
pub trait EncryptedEntity: Sized + Send {
    /// The properties that are encrypted whatever the policy says.
    const ENCRYPTED: &'static [&'static str];

    /// Both keys. Fails if they cannot be written as the key of an entity.
    fn entity_key(&self) -> Result<EntityKey, Error>;

    /// Everything but the keys, not encrypted yet. Fails if a value is too large.
    fn to_properties(&self) -> Result<Properties, Error>;

    /// From what was read and decrypted. Fails if that is something else.
    fn from_stored(stored: &StoredEntity) -> Result<Self, Error>;
}

impl<E: Entity> EncryptedEntity for E {
    const ENCRYPTED: &'static [&'static str] = &[];

    fn entity_key(&self) -> Result<EntityKey, Error> {
        Entity::entity_key(self)
    }

    fn to_properties(&self) -> Result<Properties, Error> {
        Entity::to_properties(self)
    }

    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        Entity::from_stored(stored)
    }
}

/// An encrypted entity that knows all properties of what is stored, so that it can take its place without losing any.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot replace what is stored: properties that it does not know would be lost",
    note = "let the struct keep other properties in a field `#[rest] others: Properties`, or write `#[entity(closed)]`",
    note = "encrypted entities cannot be merged"
)]
pub trait ReplaceEncryptedEntity: EncryptedEntity {}

impl<E: ReplaceEntity> ReplaceEncryptedEntity for E {}

/// A struct with `#[encrypt]` fields, which says in which table it is.
pub trait TypedEncryptedEntity: EncryptedEntity {
    const TABLE: &'static str;
    /// What all partition keys begin with.
    const PARTITION_PREFIX: &'static str;
    /// What all row keys begin with.
    const ROW_PREFIX: &'static str;
    /// The names of its properties, for queries that select them.
    const PROPERTIES: &'static [&'static str];
}

impl Account {
    /// The table that the type names, with a policy to write and read it by.
    pub fn encrypted_table_of<E: TypedEncryptedEntity>(
        &self,
        policy: Policy,
    ) -> Result<EncryptedTable<E>, Error> {
        Ok(self.table(E::TABLE)?.of::<E>().encrypted(policy))
    }
}

/// Whether the keys of what was read are those that the entity has.
#[doc(hidden)]
pub fn check_key<E: EncryptedEntity>(entity: &E, stored: &StoredEntity) -> Result<(), Error> {
    check_same_key(&entity.entity_key()?, stored)
}
