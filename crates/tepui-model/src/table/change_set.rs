//! Changes of entities, alone or together.

use super::entity::EntityKey;
use super::properties::Properties;
use crate::condition::Condition;
use crate::{ErrorCode, ServiceError};
use std::collections::HashMap;

/// The most changes that one change set holds.
pub const MAX_CHANGES: usize = 100;

/// One write of one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: EntityKey,
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Insert(Properties),
    Update(Condition, Properties),
    Merge(Condition, Properties),
    InsertOrReplace(Properties),
    InsertOrMerge(Properties),
    Delete(Condition),
}

impl Change {
    /// Whether it frees space on the disk, in the end: it is carried out though the disk is nearly full.
    pub fn frees_space(&self) -> bool {
        matches!(self.action, Action::Delete(_))
    }
}

impl Action {
    /// The operation's name in the protocol.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Insert(_) => "InsertEntity",
            Self::Update(..) => "UpdateEntity",
            Self::Merge(..) => "MergeEntity",
            Self::InsertOrReplace(_) => "InsertOrReplaceEntity",
            Self::InsertOrMerge(_) => "InsertOrMergeEntity",
            Self::Delete(_) => "DeleteEntity",
        }
    }

    /// What it writes.
    pub fn properties(&self) -> Option<&Properties> {
        match self {
            Self::Insert(properties)
            | Self::Update(_, properties)
            | Self::Merge(_, properties)
            | Self::InsertOrReplace(properties)
            | Self::InsertOrMerge(properties) => Some(properties),
            Self::Delete(_) => None,
        }
    }
}

/// Changes of one partition that are made together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet {
    table: String,
    changes: Vec<Change>,
}

impl ChangeSet {
    /// Accepts the changes together, or names the first that does not fit.
    /// Each comes with the name of the table it is about.
    pub fn new(changes: Vec<(String, Change)>) -> Result<Self, ServiceError> {
        if changes.len() > MAX_CHANGES {
            return Err(ServiceError::new(ErrorCode::InvalidInput)
                .with_message("The batch request operation exceeds the maximum 100 changes per change set.")
                .at_change(MAX_CHANGES - 1));
        }
        let Some((table, first)) = changes.first() else {
            return Ok(Self { table: String::new(), changes: Vec::new() });
        };
        let (table, partition_key) = (table.to_ascii_lowercase(), first.key.partition_key.clone());
        let mut seen = HashMap::new();
        for (index, (other_table, change)) in changes.iter().enumerate() {
            if !other_table.eq_ignore_ascii_case(&table) || change.key.partition_key != partition_key {
                let error = ServiceError::new(ErrorCode::CommandsInBatchActOnDifferentPartitions);
                return Err(error.at_change(index));
            }
            if seen.insert(change.key.row_key.as_str(), index).is_some() {
                return Err(ServiceError::new(ErrorCode::InvalidDuplicateRow).at_change(index));
            }
        }
        Ok(Self { table, changes: changes.into_iter().map(|(_, change)| change).collect() })
    }

    /// In lower case; empty if there are no changes.
    pub fn table(&self) -> &str {
        &self.table
    }

    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Whether each of its changes frees space.
    pub fn frees_space(&self) -> bool {
        self.changes.iter().all(Change::frees_space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delete(partition_key: &str, row_key: &str) -> Change {
        Change { key: EntityKey::new(partition_key, row_key), action: Action::Delete(Condition::Any) }
    }

    #[test]
    fn what_fits_together() {
        use ErrorCode::*;
        let rows =
            |count: usize| (0..count).map(|row| ("T".to_owned(), delete("p", &row.to_string()))).collect();
        let pair =
            |other: (&str, Change)| vec![("T".to_owned(), delete("p", "1")), (other.0.to_owned(), other.1)];
        for (case, changes, expected) in [
            ("none", vec![], Ok(())),
            ("a hundred", rows(100), Ok(())),
            ("one more", rows(101), Err((InvalidInput, Some(99)))),
            ("names in any case", pair(("t", delete("p", "2"))), Ok(())),
            (
                "another table",
                pair(("U", delete("p", "2"))),
                Err((CommandsInBatchActOnDifferentPartitions, Some(1))),
            ),
            (
                "another partition",
                pair(("T", delete("q", "2"))),
                Err((CommandsInBatchActOnDifferentPartitions, Some(1))),
            ),
            ("the same entity", pair(("T", delete("p", "1"))), Err((InvalidDuplicateRow, Some(1)))),
        ] {
            let outcome = ChangeSet::new(changes).map(drop).map_err(|error| (error.code, error.change));
            assert_eq!(outcome, expected, "{case}");
        }
    }
}
