//! Levels: which tables there are, and which of them to merge next.
//!
//! Tables of level 0 are memtables that were written out, and overlap each other. From level 1 on the tables of a
//! level do not overlap, and each level may be ten times as large as the one above it. What is in a higher level
//! is newer than what is below it.

use super::Sizes;
use super::table::Table;
use crate::Key;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) const LEVELS: usize = 7;

/// How many tables' worth of bytes level 1 may hold, and how much more each level below it.
const FIRST_LEVEL_TABLES: u64 = 4;
const GROWTH: u64 = 10;

/// Tables are larger from this level on, so that there are fewer of them.
const LARGE_FROM: usize = 3;
const LARGE: u64 = 4;

impl Sizes {
    /// The size of a table of a level.
    pub(super) fn table_bytes(self, level: usize) -> u64 {
        if level < LARGE_FROM { self.memtable_bytes } else { self.memtable_bytes.saturating_mul(LARGE) }
    }

    fn level_bytes(self, level: usize) -> u64 {
        let growth = GROWTH.saturating_pow(level.saturating_sub(1) as u32);
        self.memtable_bytes.saturating_mul(FIRST_LEVEL_TABLES).saturating_mul(growth)
    }
}

#[derive(Clone, Default)]
pub(super) struct Levels {
    /// Of level 0 the newest first, of others in the order of their keys.
    levels: [Vec<Arc<Table>>; LEVELS],
    /// In their order, and apart from each other.
    lost: Vec<LostRange>,
}

/// Keys of which the newest rows may have been lost to damage: reading them fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LostRange {
    pub(super) start: Key,
    /// Not included.
    pub(super) end: Key,
}

impl LostRange {
    /// The range that ends with `last`.
    pub(super) fn up_to(start: Key, last: &[u8]) -> Self {
        // The next key of all.
        let end = [last, &[0]].concat().into();
        Self { start, end }
    }
}

/// Tables that become others.
pub(super) struct Merge {
    /// The newest first, if they overlap.
    pub(super) upper: Vec<Arc<Table>>,
    /// What they overlap in the level below, in the order of the keys.
    pub(super) lower: Vec<Arc<Table>>,
    /// The level of `lower`, to which all go.
    pub(super) target: usize,
    /// Nothing has to be written: the table only changes its level.
    pub(super) is_move: bool,
}

impl Merge {
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.upper.iter().chain(&self.lower)
    }
}

impl Levels {
    /// Of level 0 the newest come first, of the others in any order. `None`: tables of one level overlap.
    pub(super) fn new(
        tables: impl Iterator<Item = (usize, Arc<Table>)>,
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
        let overlap = |pair: &[Arc<Table>]| pair[0].meta.last >= pair[1].meta.first;
        !self.levels[1..].iter().any(|level| level.windows(2).any(overlap))
    }

    pub(super) fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// The first range that was lost and ends after `key`.
    pub(super) fn lost_from(&self, key: &[u8]) -> Option<&LostRange> {
        self.lost.get(self.lost.partition_point(|range| range.end <= key))
    }

    /// The same, and these ranges are lost too.
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

    /// The same without the lost ranges that `is_gone` accepts.
    pub(super) fn without_lost(mut self, is_gone: impl Fn(&LostRange) -> bool) -> Self {
        self.lost.retain(|range| !is_gone(range));
        self
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (level, table)))
    }

    /// Tables straight from memory, which overlap each other, the newest first.
    pub(super) fn overlapping(&self) -> &[Arc<Table>] {
        &self.levels[0]
    }

    /// The levels below the first one, each in the order of the keys.
    pub(super) fn ordered(&self) -> impl Iterator<Item = &[Arc<Table>]> {
        self.levels[1..].iter().map(Vec::as_slice)
    }

    /// Whether a level below this one may hold the key.
    pub(super) fn spans_below(&self, level: usize, key: &[u8]) -> bool {
        self.levels[level + 1..].iter().any(|tables| table_for(tables, key).is_some())
    }

    /// Whether any table may hold the key.
    pub(super) fn spans(&self, key: &[u8]) -> bool {
        self.levels[0].iter().any(|table| table.spans(key)) || self.spans_below(0, key)
    }

    pub(super) fn with_newest(&self, table: Arc<Table>) -> Self {
        let mut levels = self.clone();
        levels.levels[0].insert(0, table);
        levels
    }

    pub(super) fn without(&self, gone: &HashSet<u64>) -> Self {
        let mut levels = self.clone();
        levels.levels.iter_mut().for_each(|tables| tables.retain(|table| !gone.contains(&table.meta.id)));
        levels
    }

    /// `tables` do not overlap each other nor what is in the level.
    pub(super) fn with(mut self, level: usize, tables: Vec<Arc<Table>>) -> Self {
        self.levels[level].extend(tables);
        self.levels[level].sort_by(|a, b| a.meta.first.cmp(&b.meta.first));
        self
    }

    /// What to merge next, if anything: of the levels that are too large, the one that is so by the most. Level 0 is
    /// as soon as it has `from_memory` tables. `busy` tables are being merged already. A merge takes up to `space` bytes.
    pub(super) fn pick(
        &self,
        sizes: Sizes,
        busy: &HashSet<u64>,
        from_memory: usize,
        space: u64,
    ) -> Option<Merge> {
        let score = |level: usize| match level {
            0 => self.levels[0].len() as f64 / from_memory.max(1) as f64,
            _ => size(&self.levels[level]) as f64 / sizes.level_bytes(level) as f64,
        };
        let is_due = |level: &usize| if *level == 0 { score(0) >= 1.0 } else { score(*level) > 1.0 };
        let mut levels: Vec<usize> = (0..LEVELS - 1).filter(is_due).collect();
        levels.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        levels.into_iter().find_map(|level| match level {
            0 => self.pick_from_memory(busy, space),
            _ => self.pick_too_large(level, busy, space),
        })
    }

    fn pick_from_memory(&self, busy: &HashSet<u64>, space: u64) -> Option<Merge> {
        let upper = &self.levels[0];
        if upper.iter().any(|table| busy.contains(&table.meta.id)) {
            return None;
        }
        let oldest = std::slice::from_ref(upper.last()?);
        if self.overlapped(1, oldest).is_empty() {
            return Some(Merge { upper: oldest.to_vec(), lower: vec![], target: 1, is_move: true });
        }
        // Of all at once every byte below is rewritten once; the oldest alone may do with less space.
        [upper, oldest].into_iter().find_map(|upper| self.merge(0, upper, busy, space))
    }

    fn pick_too_large(&self, level: usize, busy: &HashSet<u64>, space: u64) -> Option<Merge> {
        let merges = self.levels[level].iter().filter_map(|table| {
            let merge = self.merge(level, std::slice::from_ref(table), busy, space)?;
            Some((size(&merge.lower) as f64 / table.meta.bytes as f64, merge))
        });
        let mut merge = merges.min_by(|(a, _), (b, _)| a.total_cmp(b))?.1;
        merge.is_move = merge.lower.is_empty();
        Some(merge)
    }

    /// At leisure: a table that mostly says that keys were deleted, which nobody needs below its level.
    pub(super) fn pick_deletions(&self, busy: &HashSet<u64>, space: u64) -> Option<Merge> {
        (1..LEVELS - 1).find_map(|level| {
            let worthwhile = |table: &&Arc<Table>| table.meta.deletions * 2 > table.meta.rows;
            let mut tables = self.levels[level].iter().filter(worthwhile);
            tables.find_map(|table| self.merge(level, std::slice::from_ref(table), busy, space))
        })
    }

    /// At rest: what hides rows below it, until it is a tenth of the lowest level at most, in bytes and in rows.
    pub(super) fn pick_at_rest(&self, busy: &HashSet<u64>, space: u64) -> Option<Merge> {
        let lowest = self.levels.iter().rposition(|tables| !tables.is_empty())?;
        let below = &self.levels[lowest];
        let is_much = |level: &usize| {
            let tables = &self.levels[*level];
            size(tables) > size(below) / GROWTH || hides_much(rows(tables), rows(below))
        };
        (0..lowest.max(1)).filter(is_much).find_map(|level| match level {
            0 => self.pick_from_memory(busy, space),
            _ => self.pick_too_large(level, busy, space),
        })
    }

    /// Of all tables.
    pub(super) fn rows(&self) -> u64 {
        self.levels.iter().map(|tables| rows(tables)).sum()
    }

    /// These tables with what they overlap in the level below, if all of them are free and there is space for the result.
    fn merge(&self, level: usize, upper: &[Arc<Table>], busy: &HashSet<u64>, space: u64) -> Option<Merge> {
        let lower = self.overlapped(level + 1, upper);
        let merge = Merge { upper: upper.to_vec(), lower: lower.to_vec(), target: level + 1, is_move: false };
        let is_free = merge.tables().all(|table| !busy.contains(&table.meta.id));
        let fits = merge.lower.is_empty() && level > 0 || size(&merge.upper) + size(&merge.lower) <= space;
        (is_free && fits).then_some(merge)
    }

    /// What lies between the first and the last key of all these tables.
    fn overlapped(&self, level: usize, tables: &[Arc<Table>]) -> &[Arc<Table>] {
        let first = tables.iter().map(|table| &table.meta.first).min();
        let last = tables.iter().map(|table| &table.meta.last).max();
        let (Some(first), Some(last)) = (first, last) else { return &[] };
        between(&self.levels[level], first, Some(last))
    }
}

/// The tables that may hold keys from `from` to `to`.
pub(super) fn between<'a>(tables: &'a [Arc<Table>], from: &[u8], to: Option<&[u8]>) -> &'a [Arc<Table>] {
    let begin = tables.partition_point(|table| table.meta.last < from);
    let end = to.map_or(tables.len(), |to| tables.partition_point(|table| table.meta.first <= to));
    tables.get(begin..end).unwrap_or_default()
}

/// The table that may hold the key.
pub(super) fn table_for<'a>(tables: &'a [Arc<Table>], key: &[u8]) -> Option<&'a Arc<Table>> {
    let table = tables.get(tables.partition_point(|table| table.meta.last < key))?;
    (table.meta.first <= key).then_some(table)
}

/// Whether so many newer rows may hide more than a tenth of those below them. A deletion is small, and what it deletes
/// may be large: so rows are counted, not bytes.
pub(super) fn hides_much(newer: u64, below: u64) -> bool {
    newer > below / GROWTH
}

fn rows(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.meta.rows).sum()
}

fn size(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.meta.bytes).sum()
}
