//! Levels: which sorted tables the tree consists of.
//!
//! Tables of level 0 are flushed memtables and overlap each other. From level 1 on, the tables of a level do not
//! overlap, and each level may be ten times as large as the one above it. Rows of a level are newer than those of the
//! levels below. What to compact next is in `compaction.rs`.

use super::Sizes;
use super::sorted_table::SortedTable;
use std::collections::HashSet;
use std::sync::Arc;
use tepui_storage::Key;

pub(super) const LEVELS: usize = 7;

/// How many tables' worth of bytes level 1 may hold, and the size ratio between two levels.
const FIRST_LEVEL_TABLES: u64 = 4;
pub(super) const SIZE_RATIO: u64 = 10;

/// Tables are larger from this level on, so that there are fewer of them.
const LARGE_FROM: usize = 3;
const LARGE: u64 = 4;

impl Sizes {
    /// The target size of a table of a level.
    pub(super) fn table_bytes(self, level: usize) -> u64 {
        if level < LARGE_FROM { self.memtable_bytes } else { self.memtable_bytes.saturating_mul(LARGE) }
    }

    /// The target size of a level.
    pub(super) fn level_bytes(self, level: usize) -> u64 {
        let growth = SIZE_RATIO.saturating_pow(level.saturating_sub(1) as u32);
        self.memtable_bytes.saturating_mul(FIRST_LEVEL_TABLES).saturating_mul(growth)
    }
}

#[derive(Clone, Default)]
pub(super) struct Levels {
    /// Level 0 has the newest table first, the others are in key order.
    levels: [Vec<Arc<SortedTable>>; LEVELS],
    /// In key order, disjoint.
    lost: Vec<LostRange>,
}

/// Keys whose newest rows may have been lost to damage: reading them fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LostRange {
    pub(super) start: Key,
    /// Exclusive.
    pub(super) end: Key,
}

impl LostRange {
    /// The range that ends with `last`.
    pub(super) fn up_to(start: Key, last: &[u8]) -> Self {
        // The successor of `last`.
        let end = [last, &[0]].concat().into();
        Self { start, end }
    }
}

impl Levels {
    /// Level 0 must come newest first, the others in any order. `None`: tables of one level overlap.
    pub(super) fn new(
        tables: impl Iterator<Item = (usize, Arc<SortedTable>)>,
        lost: Vec<LostRange>,
    ) -> Option<Self> {
        let mut levels = Self { lost, ..Self::default() };
        for (level, table) in tables {
            levels.levels.get_mut(level)?.push(table);
        }
        for level in &mut levels.levels[1..] {
            level.sort_by(|a, b| a.meta.first.cmp(&b.meta.first));
        }
        levels.is_ordered().then_some(levels)
    }

    /// Whether no two tables of a level overlap, from level 1 on.
    pub(super) fn is_ordered(&self) -> bool {
        let overlap = |pair: &[Arc<SortedTable>]| pair[0].meta.last >= pair[1].meta.first;
        !self.levels[1..].iter().any(|level| level.windows(2).any(overlap))
    }

    pub(super) fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// The first lost range that ends after `key`.
    pub(super) fn lost_from(&self, key: &[u8]) -> Option<&LostRange> {
        self.lost.get(self.lost.partition_point(|range| range.end <= key))
    }

    /// Adds lost ranges.
    pub(super) fn with_lost(mut self, lost: impl IntoIterator<Item = LostRange>) -> Self {
        self.lost.extend(lost);
        self.lost.sort_by(|a, b| a.start.cmp(&b.start));
        self.lost.dedup_by(|next, before| {
            let joined = next.start <= before.end;
            if joined && next.end > before.end {
                before.end = next.end.clone();
            }
            joined
        });
        self
    }

    /// Removes the lost ranges that `is_gone` accepts.
    pub(super) fn without_lost(mut self, is_gone: impl Fn(&LostRange) -> bool) -> Self {
        self.lost.retain(|range| !is_gone(range));
        self
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<SortedTable>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    pub(super) fn level(&self, level: usize) -> &[Arc<SortedTable>] {
        &self.levels[level]
    }

    /// Level 0: overlapping tables, the newest first.
    pub(super) fn level0(&self) -> &[Arc<SortedTable>] {
        &self.levels[0]
    }

    /// The levels from 1 on, each in key order.
    pub(super) fn sorted_levels(&self) -> impl Iterator<Item = &[Arc<SortedTable>]> {
        self.levels[1..].iter().map(Vec::as_slice)
    }

    /// The lowest level that has tables.
    pub(super) fn lowest(&self) -> Option<usize> {
        self.levels.iter().rposition(|tables| !tables.is_empty())
    }

    /// Whether a level below this one may hold the key.
    pub(super) fn spans_below(&self, level: usize, key: &[u8]) -> bool {
        self.levels[level + 1..].iter().any(|tables| table_for(tables, key).is_some())
    }

    /// Whether any table may hold the key.
    pub(super) fn spans(&self, key: &[u8]) -> bool {
        self.levels[0].iter().any(|table| table.spans(key)) || self.spans_below(0, key)
    }

    /// Adds a flushed memtable to level 0.
    pub(super) fn with_flushed(&self, table: Arc<SortedTable>) -> Self {
        let mut levels = self.clone();
        levels.levels[0].insert(0, table);
        levels
    }

    pub(super) fn without(&self, gone: &HashSet<u64>) -> Self {
        let mut levels = self.clone();
        levels.levels.iter_mut().for_each(|tables| tables.retain(|table| !gone.contains(&table.meta.id)));
        levels
    }

    /// `tables` overlap neither each other nor what is in the level.
    pub(super) fn with(mut self, level: usize, tables: Vec<Arc<SortedTable>>) -> Self {
        self.levels[level].extend(tables);
        self.levels[level].sort_by(|a, b| a.meta.first.cmp(&b.meta.first));
        self
    }

    /// The rows of all tables.
    pub(super) fn rows(&self) -> u64 {
        self.levels.iter().map(|tables| total_rows(tables)).sum()
    }

    /// The tables of a level that overlap the key range of `tables`.
    pub(super) fn overlapped(&self, level: usize, tables: &[Arc<SortedTable>]) -> &[Arc<SortedTable>] {
        let first = tables.iter().map(|table| &table.meta.first).min();
        let last = tables.iter().map(|table| &table.meta.last).max();
        let (Some(first), Some(last)) = (first, last) else { return &[] };
        between(&self.levels[level], first, Some(last))
    }
}

/// The tables that may hold keys from `from` to `to`.
pub(super) fn between<'a>(
    tables: &'a [Arc<SortedTable>],
    from: &[u8],
    to: Option<&[u8]>,
) -> &'a [Arc<SortedTable>] {
    let begin = tables.partition_point(|table| table.meta.last < from);
    let end = to.map_or(tables.len(), |to| tables.partition_point(|table| table.meta.first <= to));
    tables.get(begin..end).unwrap_or_default()
}

/// The table that may hold the key.
pub(super) fn table_for<'a>(tables: &'a [Arc<SortedTable>], key: &[u8]) -> Option<&'a Arc<SortedTable>> {
    let table = tables.get(tables.partition_point(|table| table.meta.last < key))?;
    (table.meta.first <= key).then_some(table)
}

pub(super) fn total_rows(tables: &[Arc<SortedTable>]) -> u64 {
    tables.iter().map(|table| table.meta.rows).sum()
}

pub(super) fn total_bytes(tables: &[Arc<SortedTable>]) -> u64 {
    tables.iter().map(|table| table.meta.bytes).sum()
}
