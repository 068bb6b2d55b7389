//! What structs that derive `Entity` (feature `derive`) are made of: types of properties and of parts of keys.
//!
//! What the types rule out does not compile. A type that tables do not have:
//!
//! ```compile_fail,E0277
//! #[derive(tepui_client::Entity)]
//! #[entity(table = "People")]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Person { department: String, id: u32, nested: Nested }
//! struct Nested;
//! ```
//!
//! A type that parts of keys cannot have:
//!
//! ```compile_fail,E0277
//! #[derive(tepui_client::Entity)]
//! #[entity(table = "People")]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Person { department: String, id: Id }
//! #[derive(Clone, Copy)]
//! struct Id;
//! ```
//!
//! Replacing what may have properties that the struct does not know:
//!
//! ```compile_fail,E0277
//! #[derive(tepui_client::Entity)]
//! #[entity(table = "People")]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Person { department: String, id: u32 }
//! fn replace<E: tepui_client::ReplaceEntity>(_: &E) {}
//! replace(&Person { department: String::new(), id: 1 });
//! ```
//!
//! A filter with a value of another type:
//!
//! ```compile_fail,E0277
//! #[derive(tepui_client::Entity)]
//! #[entity(table = "People")]
//! #[key(partition = "{department}", row = "{id:06}")]
//! struct Person { department: String, id: u32, age: i32 }
//! Person::AGE.gt("30");
//! ```

mod column;
mod index;
mod key_part;
mod keyed;
mod kinds;
mod projection;
mod property;
mod split;
mod version;

pub use column::Column;
pub use index::IndexEntry;
pub use key_part::{KeySigned, KeyText, KeyUnsigned, narrow_signed, narrow_unsigned, parse_text};
pub use keyed::Keyed;
pub use kinds::{is_different_kind, is_of, is_same_table, keys_collide, unknown_kind};
pub use projection::{Field, HasFields, MergeProjection, Projection};
pub use property::{
    PropertyValue, check_closed, get, get_json, get_text, put, put_json, put_rest, put_text, required, rest,
};
pub use split::{SplitValue, get_split, put_split};
pub use version::{
    ENTITY_TYPE, StoredVersion, check_projected, check_version, is_next_version, projected, put_version,
    stored_version,
};

use super::{Entity, PropertiesBuilder, StoredEntity};
use crate::key::KeyError;
use crate::{Account, EntityKey, Error, Table};

/// An entity that says in which table it is.
pub trait TypedEntity: Entity {
    const TABLE: &'static str;
    /// What all partition keys begin with.
    const PARTITION_PREFIX: &'static str;
    /// What all row keys begin with.
    const ROW_PREFIX: &'static str;
    /// The names of the properties that the type itself has, for queries that select them: a struct with fewer properties than are
    /// stored is a projection.
    const PROPERTIES: &'static [&'static str];
    /// What the property `EntityType` says the entity is; empty: it has no such property.
    const KIND: &'static str = "";
    /// The version of its properties that the type has. Older ones are upgraded when they are read.
    const VERSION: u32 = 1;
}

impl Account {
    /// The table that the type names.
    ///
    /// ```
    /// use tepui_client::{Account, Entity};
    ///
    /// #[derive(Entity)]
    /// #[entity(table = "People")]
    /// #[key(partition = "{department}", row = "{id:06}")]
    /// struct Person {
    ///     department: String,
    ///     id: u32,
    /// }
    ///
    /// let account = Account::from_connection_string("UseDevelopmentStorage=true")?;
    /// let people = account.table_of::<Person>()?;
    /// # Ok::<(), tepui_client::Error>(())
    /// ```
    pub fn table_of<E: TypedEntity>(&self) -> Result<Table<E>, Error> {
        Ok(self.table(E::TABLE)?.of())
    }
}

/// What was read is an entity with keys of other parts.
#[doc(hidden)]
pub fn other_key(error: KeyError) -> Error {
    Error::decode(error.to_string()).with_source(error)
}

/// Whether the keys of what was read are those that the entity has. Buckets, for example, are not read but computed.
#[doc(hidden)]
pub fn check_key<E: Entity>(entity: &E, stored: &StoredEntity) -> Result<(), Error> {
    check_same_key(&entity.entity_key()?, stored)
}

pub(crate) fn check_same_key(key: &EntityKey, stored: &StoredEntity) -> Result<(), Error> {
    if *key == stored.key {
        return Ok(());
    }
    let (partition_key, row_key) = (&key.partition_key, &key.row_key);
    Err(Error::decode(format!(
        "the key does not agree with its parts, which make {partition_key:?} and {row_key:?}"
    )))
}
