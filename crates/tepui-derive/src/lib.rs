//! `#[derive(Entity)]`: a struct as an entity of a table, with keys made of its fields.
//!
//! Mistakes are errors at the attribute that has them, and say what to write instead; `tests/mistakes/` holds them.

mod entity;
mod entity_enum;
mod expand;
mod field;
mod key;
mod template;

use proc_macro::TokenStream;

/// Makes a struct an entity of a table, with keys made of its fields.
///
/// ```
/// // With the feature `derive` of tepui-client.
/// use tepui_client::{Entity, EntityKey};
///
/// #[derive(Entity)]
/// #[entity(table = "Employees", closed, rename_all = "PascalCase")]
/// #[key(partition = "{department}", row = "empid_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
///     last_name: String,
///     age: Option<i32>,
///     #[property("Mail")]
///     email: String,
///     #[json]
///     tags: Vec<String>,
/// }
///
/// assert_eq!(Employee::key("Sales", 223).unwrap(), EntityKey::new("Sales", "empid_000223"));
/// // What the row key can answer within a partition.
/// let range = Employee::rows_between_id(100, 199).unwrap();
/// assert!(range.contains("empid_000150") && !range.contains("empid_000200"));
/// // What it cannot answer is a filter, and a scan.
/// let filter = Employee::AGE.gt(30);
/// ```
///
/// # The struct
///
/// | attribute | meaning |
/// |---|---|
/// | `#[entity(table = "…")]` | the table, unless another is named when it is used |
/// | `#[entity(closed)]` | the struct has all properties: it can replace what is stored, and what has more is not read |
/// | `#[entity(rename_all = "PascalCase")]` | or `camelCase`: names of properties that are not said; otherwise they are those of the fields |
/// | `#[entity(append_only_is_fine)]` | a partition key of nothing but time is meant so |
/// | `#[key(partition = "…", row = "…")]` | templates of both keys |
///
/// # Templates of keys
///
/// A template is literal text with fields in braces; `{{` and `}}` are the characters themselves. Fields that can be read back
/// from a key are not stored as properties too.
///
/// | part | for | written as | sorts |
/// |---|---|---|---|
/// | `{id:06}` | `u8` to `u64` | so many digits; a larger number is an error | yes |
/// | `{n:signed}`, `{x:float}` | `i8` to `i64`, `f64` | 16 hexadecimal digits | yes |
/// | `{at:asc}`, `{at:desc}` | `Timestamp` | 19 digits, oldest or newest first | yes |
/// | `{name}` | `String`, `Guid` | as it is; the separator after it and `/ \ # ?` are errors | no |
/// | `{path:ordered}` | `String`, `Guid` | escaped; any text; ends at a blank | yes |
/// | `{user:hash16}` | what can be printed | one of 16 buckets | no |
/// | `{at:seconds}` | `Timestamp` | the second of the minute | no |
///
/// # Fields
///
/// `i8` to `i32`, `u8` and `u16` are Int32; `u32` and `i64` are Int64; `f64`, `bool`, `String`, `Timestamp`, `Guid` and
/// `Vec<u8>` have their own types; `None` is a property that is absent.
///
/// | attribute | meaning |
/// |---|---|
/// | `#[property("Name")]` | the name of the property |
/// | `#[property(as = "String")]` | stored as it prints itself, and parsed |
/// | `#[json]` | stored as a text of JSON |
/// | `#[encrypt]` | only clients with the key can read it (feature `encryption`); also with the three above |
/// | `#[skip]` | not stored; `Default` when read |
/// | `#[rest]` | of type `Properties`: all other properties, kept when the entity is written back |
///
/// # What is generated
///
/// - [`Entity`](../tepui_client/trait.Entity.html), and `ReplaceEntity` if no property can be lost.
/// - `key`, `partition_key` and `row_key`, which take the parts.
/// - Ranges of rows: `rows_with_x` for each part that others follow, `rows_between_x` for parts that sort, `rows_beginning_x` for
///   ordered text and for plain text that comes last. Each takes the parts before it, too.
/// - A constant for each property, `X` for a field `x`, which filters are made of.
///
/// With `#[encrypt]` fields, it is `EncryptedEntity` instead of `Entity`: such structs are written to an
/// [`EncryptedTable`](../tepui_client/patterns/encryption/struct.EncryptedTable.html) only, never merged, and encrypted
/// fields have no constant.
#[proc_macro_derive(Entity, attributes(entity, key, property, json, encrypt, skip, rest))]
pub fn derive_entity(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    entity::EntityStruct::parse(&input)
        .map(|entity| expand::expand(&entity))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes an enum of entities one, for tables that hold several kinds: what is read becomes the variant whose keys begin like its own.
///
/// ```
/// use tepui_client::{DynamicEntity, Entity, EntityEnum};
///
/// #[derive(Entity)]
/// #[entity(table = "Staff")]
/// #[key(partition = "{department}", row = "empid_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
/// }
///
/// #[derive(Entity)]
/// #[entity(table = "Staff")]
/// #[key(partition = "{department}", row = "department")]
/// struct Department {
///     department: String,
///     employees: i32,
/// }
///
/// #[derive(EntityEnum)]
/// enum Staff {
///     Employee(Employee),
///     Department(Department),
///     /// What is none of them, with all of its properties. Without it, such entities cannot be read.
///     #[other]
///     Other(DynamicEntity),
/// }
/// ```
///
/// Kinds whose keys begin the same do not compile, nor do kinds of different tables:
///
/// ```compile_fail,E0080
/// use tepui_client::{Entity, EntityEnum};
///
/// #[derive(Entity)]
/// #[entity(table = "Staff")]
/// #[key(partition = "{department}", row = "emp_{id:06}")]
/// struct Employee {
///     department: String,
///     id: u32,
/// }
///
/// #[derive(Entity)]
/// #[entity(table = "Staff")]
/// #[key(partition = "{department}", row = "emp_{id:06}_{year:04}")]
/// struct Review {
///     department: String,
///     id: u32,
///     year: u16,
/// }
///
/// #[derive(EntityEnum)]
/// enum Staff {
///     Employee(Employee),
///     Review(Review),
/// }
/// ```
///
/// The enum cannot replace what is stored; a kind that can is written with a table of its own type.
#[proc_macro_derive(EntityEnum, attributes(other))]
pub fn derive_entity_enum(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    entity_enum::EntityEnum::parse(&input)
        .map(|kinds| kinds.expand())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
