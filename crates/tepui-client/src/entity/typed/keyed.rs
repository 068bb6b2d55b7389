//! Entities whose keys are made of parts, which queries take.

use super::super::{DynamicEntity, Entity};
use crate::{Query, Table};

/// An entity that says of which parts the key of its partition is made, and what its row key can answer.
///
/// `#[derive(Entity)]` implements it. For a struct `Employee` it makes a builder `EmployeePartition`, which
/// [`Table::partition`] returns, with a method for each question that the row key answers:
///
/// | method | rows |
/// |---|---|
/// | `id(100..=199)` | for a part that sorts: of these values, and any parts after it. Parts before it come first: `year(12, 2012..=2015)` |
/// | `with_id(12)` | for a part that others follow: of this value |
/// | `name_prefix("a")` | for ordered text, and for plain text that comes last: that begin like this |
/// | `all_rows()` | of this kind of entity |
/// | `rows(range)` | any range of row keys, also of other kinds |
/// | `by_x()` | of the index `x`: its own builder |
/// | `scan()` | `all_rows`, to be filtered |
pub trait Keyed: Entity {
    /// One part as it is, several as a tuple; texts as `&str`.
    type PartitionParts<'a>;
    /// What says which rows.
    type Rows;
    /// How partition keys begin of what a scan of the table looks for.
    const SCANNED_PARTITIONS: &'static str = "";
    /// How row keys begin of what a scan of the table looks for: rows of other kinds may lie between them.
    const SCANNED_ROWS: &'static str = "";

    fn partition(table: &Table<Self>, parts: Self::PartitionParts<'_>) -> Self::Rows;
}

impl Keyed for DynamicEntity {
    type PartitionParts<'a> = &'a str;
    type Rows = Query<Self>;

    fn partition(table: &Table<Self>, key: &str) -> Query<Self> {
        table.query().partition(key)
    }
}
