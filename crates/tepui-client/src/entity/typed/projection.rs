//! Some of an entity's fields.

use super::{PropertiesBuilder, TypedEntity};
use crate::entity::{Properties, ReadEntity};
use crate::{Error, StoredEntity};

/// A struct with some fields of an entity, of the same names and types: queries for it read no other properties. Derived;
/// both is checked when it is compiled.
///
/// ```
/// use tepui_client::{Entity, Projection};
///
/// #[derive(Entity)]
/// #[entity(table = "Employees")]
/// #[key(partition = "{department}", row = "empid_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     email: String,
///     photo: Vec<u8>,
/// }
///
/// #[derive(Projection)]
/// #[projection(of = Employee)]
/// struct EmailOnly {
///     id: u32,
///     email: String,
/// }
///
/// # async fn example(people: tepui_client::Table<Employee>) -> Result<(), tepui_client::Error> {
/// for employee in people.partition("Sales").id(100..=199).select::<EmailOnly>().all().await? {
///     println!("{} {}", employee.id, employee.email);
/// }
/// # Ok(())
/// # }
/// ```
///
/// It is no entity: it cannot replace one, because all other properties would be lost. With `#[projection(of = Employee,
/// merge)]` its properties can be [merged](crate::Table::merge_part) into one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no projection of an entity",
    note = "derive it: #[derive(Projection)] #[projection(of = Employee)]"
)]
pub trait Projection: ReadEntity {
    type Of: TypedEntity;

    /// The names of its properties.
    fn properties() -> Vec<&'static str>;
}

/// A projection whose properties can be merged into an entity: no index depends on them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be merged into an entity",
    note = "say so where it is defined: #[projection(of = Employee, merge)]"
)]
pub trait MergeProjection: Projection {
    fn to_properties(&self) -> Result<Properties, Error>;
}

/// An entity with a constant for each of its fields.
#[doc(hidden)]
pub trait HasFields {
    type Fields;
}

/// A field of an entity, as projections see it.
#[doc(hidden)]
pub struct Field<E, T> {
    pub properties: &'static [&'static str],
    /// Whether an index depends on it.
    pub is_indexed: bool,
    /// Whether it is a part of a key.
    pub is_key: bool,
    pub read: fn(&StoredEntity) -> Result<T, Error>,
    pub write: fn(&mut PropertiesBuilder, &T) -> Result<(), Error>,
    pub entity: std::marker::PhantomData<fn() -> E>,
}
