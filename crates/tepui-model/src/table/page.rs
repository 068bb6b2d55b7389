//! Pages of answers, and where the next one starts.

use super::entity::EntityView;
use crate::cost::Cost;
use std::fmt;

/// The first entity of the next page, or where it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    pub partition_key: String,
    /// Empty: the start of the partition.
    pub row_key: String,
}

/// Takes the entities of a page one by one as the query finds them.
pub trait EntitySink: Send {
    fn accept(&mut self, entity: &EntityView<'_>);

    /// The size of what was accepted so far; a page ends when it gets large.
    fn bytes(&self) -> usize;
}

/// The end of a page of entities; they themselves went to the [`EntitySink`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityPage {
    /// A page may be empty and still have a next one.
    pub next: Option<Continuation>,
    pub cost: Cost,
}

/// A page of table names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TablePage {
    pub names: Vec<String>,
    /// The name, in lower case, from which the next page goes on.
    pub next: Option<String>,
    pub cost: Cost,
}

/// How a query is carried out, from the cheapest to the dearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlanKind {
    /// Nothing can match: nothing is read.
    Nothing,
    /// Single entities by both keys.
    Point,
    /// Ranges of row keys, each in one partition.
    RowRange,
    /// Whole partitions.
    Partition,
    /// Ranges of partitions.
    PartitionRange,
    /// The whole table.
    Table,
}

impl PlanKind {
    pub const ALL: [Self; 6] =
        [Self::Nothing, Self::Point, Self::RowRange, Self::Partition, Self::PartitionRange, Self::Table];

    /// As it is written in logs, metrics and receipts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Point => "point",
            Self::RowRange => "row-range",
            Self::Partition => "partition",
            Self::PartitionRange => "partition-range",
            Self::Table => "table",
        }
    }
}

impl fmt::Display for PlanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
