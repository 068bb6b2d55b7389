//! Pages of answers, and where the next one starts.

use super::entity::EntityView;
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
    pub cost: QueryCost,
}

/// A page of table names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TablePage {
    pub names: Vec<String>,
    /// The name, in lower case, from which the next page goes on.
    pub next: Option<String>,
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

/// What a query was planned to read and what it did read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryCost {
    pub kind: PlanKind,
    /// Into how many separate key ranges the filter was turned.
    pub ranges: usize,
    pub entities_scanned: usize,
    pub entities_returned: usize,
}

impl fmt::Display for PlanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Point => "point",
            Self::RowRange => "row-range",
            Self::Partition => "partition",
            Self::PartitionRange => "partition-range",
            Self::Table => "table",
        })
    }
}

impl fmt::Display for QueryCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, ranges, entities_scanned, entities_returned } = self;
        write!(f, "{kind} ranges={ranges} scanned={entities_scanned} returned={entities_returned}")
    }
}
