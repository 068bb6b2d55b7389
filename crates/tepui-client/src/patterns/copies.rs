//! Rows that follow from an entity: entries of its indexes, copies of some of its properties, rows of views.
//!
//! An entity says which rows follow from it, and nothing else about them. Those in its own partition are written together
//! with it, in one transaction; those elsewhere by way of a queue.

use crate::entity::Properties;
use crate::{Entity, EntityKey, Error};

/// An entity from which other rows follow. `#[index(…)]` of `#[derive(Entity)]` implements it.
pub trait Copies: Entity {
    /// The rows that follow from the entity as it is now. Two with the same table and key are an error of whoever
    /// implements it.
    fn copies(&self) -> Result<Vec<CopyRow>, Error>;
}

/// A row that follows from an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRow {
    /// The table that the row is in; `None`: that of the entity.
    pub table: Option<String>,
    pub key: EntityKey,
    pub properties: Properties,
}
