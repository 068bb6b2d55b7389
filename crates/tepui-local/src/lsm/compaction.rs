//! Leveled compaction: which tables to merge next, and the merge itself.
//!
//! A compaction merges tables of one level with those that they overlap in the level below. Of each key the newest row
//! remains. A tombstone goes once no level below may hold its key.

use super::levels::{LEVELS, Levels, SIZE_RATIO, total_bytes, total_rows};
use super::merge_iterator::{LevelCursor, MergeInput, MergeIterator};
use super::sorted_table::{LostRanges, SortedTable, TableWriter};
use super::{Claim, LsmTree, Sizes};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tepui_storage::{StorageError, StorageErrorKind};

/// How many compactions may fail before one waits. Each may have read much in vain.
const MAX_FAILURES: usize = 4;

/// How much is being written, which decides what is worth compacting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteLoad {
    /// Many rows are written: as few of those below as possible are rewritten.
    Heavy,
    /// Nothing was flushed for a moment: read amplification comes first.
    Light,
    /// Nothing was flushed for a while: space amplification comes first.
    Idle,
}

/// Tables to be replaced by their merged rows.
pub(super) struct Compaction {
    /// The newest first, if they overlap.
    pub(super) upper: Vec<Arc<SortedTable>>,
    /// What they overlap in the level below, in key order.
    pub(super) lower: Vec<Arc<SortedTable>>,
    /// The level of `lower`, to which the result goes.
    pub(super) target_level: usize,
    /// Nothing overlaps: the table moves to the target level without being rewritten.
    pub(super) is_trivial_move: bool,
}

impl Compaction {
    pub(super) fn tables(&self) -> impl Iterator<Item = &Arc<SortedTable>> {
        self.upper.iter().chain(&self.lower)
    }

    fn upper_ids(&self) -> Vec<u64> {
        self.upper.iter().map(|table| table.meta.id).collect()
    }
}

/// What is not to be chosen for a compaction.
#[derive(Default)]
pub(super) struct Avoided {
    /// Ids of tables that are being compacted or dropped.
    pub(super) busy: HashSet<u64>,
    /// Compactions that have failed, by the ids of their upper tables. They come after all others: a block that the disk cannot
    /// read would otherwise stall everything.
    failed: HashSet<Vec<u64>>,
}

impl Avoided {
    /// Those that have failed may be chosen again.
    fn without_failed(&self) -> Self {
        Self { busy: self.busy.clone(), failed: HashSet::new() }
    }
}

impl Levels {
    /// The next compaction, if one is due: of the levels above their target size, the one that exceeds it by the most.
    /// Level 0 is due at `l0_trigger` tables. Tables that are busy are being compacted already. The result may take up to
    /// `space` bytes.
    pub(super) fn pick_compaction(
        &self,
        sizes: Sizes,
        avoided: &Avoided,
        l0_trigger: usize,
        space: u64,
    ) -> Option<Compaction> {
        let score = |level: usize| match level {
            0 => self.level0().len() as f64 / l0_trigger.max(1) as f64,
            _ => total_bytes(self.level(level)) as f64 / sizes.level_bytes(level) as f64,
        };
        let is_due = |level: &usize| if *level == 0 { score(0) >= 1.0 } else { score(*level) > 1.0 };
        let mut levels: Vec<usize> = (0..LEVELS - 1).filter(is_due).collect();
        levels.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        levels.into_iter().find_map(|level| match level {
            0 => self.pick_l0_compaction(avoided, space),
            _ => self.pick_level_compaction(level, avoided, space),
        })
    }

    fn pick_l0_compaction(&self, avoided: &Avoided, space: u64) -> Option<Compaction> {
        let upper = self.level0();
        if upper.iter().any(|table| avoided.busy.contains(&table.meta.id)) {
            return None;
        }
        let oldest = std::slice::from_ref(upper.last()?);
        if self.overlapped(1, oldest).is_empty() {
            return Some(Compaction {
                upper: oldest.to_vec(),
                lower: vec![],
                target_level: 1,
                is_trivial_move: true,
            });
        }
        // All at once rewrites every byte below only once; the oldest alone may do with less space, and so may any other one
        // whose keys none of the older ones has.
        let is_alone = |at: &usize| {
            let table = &upper[*at].meta;
            upper[at + 1..].iter().all(|older| older.meta.last < table.first || table.last < older.meta.first)
        };
        let alone = (0..upper.len()).rev().filter(is_alone).map(|at| &upper[at..=at]);
        let mut choices = [upper, oldest].into_iter().chain(alone);
        choices.find_map(|upper| self.compaction(0, upper, avoided, space))
    }

    /// The table of a level that overlaps the least of the level below, for its size.
    fn pick_level_compaction(&self, level: usize, avoided: &Avoided, space: u64) -> Option<Compaction> {
        let compactions = self.level(level).iter().filter_map(|table| {
            let compaction = self.compaction(level, std::slice::from_ref(table), avoided, space)?;
            Some((total_bytes(&compaction.lower) as f64 / table.meta.bytes as f64, compaction))
        });
        let mut compaction = compactions.min_by(|(a, _), (b, _)| a.total_cmp(b))?.1;
        compaction.is_trivial_move = compaction.lower.is_empty();
        Some(compaction)
    }

    /// Under light load: a table that consists mostly of tombstones, which slow down scans.
    fn pick_tombstone_compaction(&self, avoided: &Avoided, space: u64) -> Option<Compaction> {
        (1..LEVELS - 1).find_map(|level| {
            let is_worth_it = |table: &&Arc<SortedTable>| table.meta.tombstones * 2 > table.meta.rows;
            let mut tables = self.level(level).iter().filter(is_worth_it);
            tables.find_map(|table| self.compaction(level, std::slice::from_ref(table), avoided, space))
        })
    }

    /// When idle: levels whose rows shadow others below, until each has at most a tenth of the lowest level, in bytes
    /// and in rows.
    fn pick_idle_compaction(&self, avoided: &Avoided, space: u64) -> Option<Compaction> {
        let lowest = self.lowest()?;
        let below = self.level(lowest);
        let is_large = |level: &usize| {
            let tables = self.level(*level);
            total_bytes(tables) > total_bytes(below) / SIZE_RATIO
                || shadows_much(total_rows(tables), total_rows(below))
        };
        (0..lowest.max(1)).filter(is_large).find_map(|level| match level {
            0 => self.pick_l0_compaction(avoided, space),
            _ => self.pick_level_compaction(level, avoided, space),
        })
    }

    /// These tables with what they overlap in the level below, if none is busy and there is space for the result.
    fn compaction(
        &self,
        level: usize,
        upper: &[Arc<SortedTable>],
        avoided: &Avoided,
        space: u64,
    ) -> Option<Compaction> {
        let lower = self.overlapped(level + 1, upper);
        let compaction = Compaction {
            upper: upper.to_vec(),
            lower: lower.to_vec(),
            target_level: level + 1,
            is_trivial_move: false,
        };
        if avoided.failed.contains(&compaction.upper_ids()) {
            return None;
        }
        let is_free = compaction.tables().all(|table| !avoided.busy.contains(&table.meta.id));
        let fits = compaction.lower.is_empty() && level > 0
            || total_bytes(&compaction.upper) + total_bytes(&compaction.lower) <= space;
        (is_free && fits).then_some(compaction)
    }
}

/// Whether so many newer rows may shadow more than a tenth of those below them. A tombstone is small and what it deletes
/// may be large, so rows are counted, not bytes.
pub(super) fn shadows_much(newer: u64, below: u64) -> bool {
    newer > below / SIZE_RATIO
}

impl LsmTree {
    /// Runs one compaction, if one is due: level 0 is as soon as it has `l0_trigger` tables. The lower the load, the less
    /// urgent ones are due as well. Returns whether anything has changed. One that fails is followed by others.
    pub(crate) fn compact(&self, l0_trigger: usize, load: WriteLoad) -> Result<bool, StorageError> {
        let mut failures = Vec::new();
        while failures.len() < MAX_FAILURES {
            let may_repeat = failures.is_empty();
            let Some((compaction, claim)) = self.claim_compaction(l0_trigger, load, may_repeat) else {
                break;
            };
            let (mut output, lost) = (Vec::new(), LostRanges::default());
            let is_done = match compaction.is_trivial_move {
                true => Ok(true),
                false => self.merge_tables(&compaction, &lost, &mut output),
            };
            match is_done {
                Ok(true) => return self.replace_tables(&compaction, claim, output, &lost),
                Ok(false) => {
                    self.discard(output);
                    return Ok(false);
                }
                Err(error) => {
                    self.discard(output);
                    if error.kind() == StorageErrorKind::NoSpace {
                        return Err(error);
                    }
                    tracing::warn!(%error, tables = ?claim.ids, "tables cannot be compacted yet");
                    self.remember_failure(&compaction);
                    failures.push(error);
                }
            }
        }
        failures.into_iter().next().map_or(Ok(false), Err)
    }

    /// Chooses a compaction that is due. Those that have failed come last, and only if they may be repeated.
    fn claim_compaction(
        &self,
        l0_trigger: usize,
        load: WriteLoad,
        may_repeat: bool,
    ) -> Option<(Compaction, Claim<'_>)> {
        // Checked first: a compaction that runs out of space has used it in vain.
        let free = self.files.free_space(&self.folder).unwrap_or(u64::MAX);
        let space = free.saturating_sub(self.sizes.free_bytes);
        let pick = |levels: &Levels, avoided: &Avoided| {
            let due = levels.pick_compaction(self.sizes, avoided, l0_trigger, space);
            due.or_else(|| match load {
                WriteLoad::Heavy => None,
                WriteLoad::Light => levels.pick_tombstone_compaction(avoided, space),
                WriteLoad::Idle => levels
                    .pick_tombstone_compaction(avoided, space)
                    .or_else(|| levels.pick_idle_compaction(avoided, space)),
            })
        };
        self.claim(|levels, avoided| {
            let is_repeated = may_repeat && !avoided.failed.is_empty();
            let again = || is_repeated.then(|| pick(levels, &avoided.without_failed())).flatten();
            let compaction = pick(levels, avoided).or_else(again)?;
            let ids = compaction.tables().map(|table| table.meta.id).collect();
            Some((compaction, ids))
        })
    }

    fn remember_failure(&self, compaction: &Compaction) {
        let mut avoided = self.avoided.lock();
        let levels = Arc::clone(&self.read_view().levels);
        let left: HashSet<u64> = levels.tables().map(|(_, table)| table.meta.id).collect();
        avoided.failed.retain(|ids| ids.iter().all(|id| left.contains(id)));
        avoided.failed.insert(compaction.upper_ids());
    }

    /// Puts the result of a compaction in the place of its tables.
    fn replace_tables(
        &self,
        compaction: &Compaction,
        claim: Claim<'_>,
        output: Vec<Arc<SortedTable>>,
        lost: &LostRanges,
    ) -> Result<bool, StorageError> {
        self.avoided.lock().failed.remove(&compaction.upper_ids());
        let bytes: u64 = compaction.tables().map(|table| table.meta.bytes).sum();
        let output_bytes: u64 = output.iter().map(|table| table.meta.bytes).sum();
        if !compaction.is_trivial_move {
            self.counters.compaction_read_bytes.add(bytes);
            self.counters.compaction_written_bytes.add(output_bytes);
        }
        tracing::debug!(
            level = compaction.target_level,
            is_trivial_move = compaction.is_trivial_move,
            tables = claim.ids.len(),
            bytes,
            output_tables = output.len(),
            output_bytes,
            milliseconds = claim.began.elapsed().as_millis() as u64,
            "compacted tables"
        );
        let gone = claim.ids.iter().copied().collect();
        let tables = if compaction.is_trivial_move { compaction.upper.clone() } else { output.clone() };
        let lost = std::mem::take(&mut *lost.lock());
        let changed = self.edit_levels(|levels| {
            levels.without(&gone).with(compaction.target_level, tables).with_lost(lost)
        });
        match changed {
            Ok(true) if !compaction.is_trivial_move => {
                self.obsolete.lock().tables.extend(compaction.tables().cloned());
            }
            Ok(true) => {}
            Ok(false) => self.discard(output),
            // A manifest that lists them may be on disk.
            Err(_) => self.recorded.lock().pending_removal.extend(output),
        }
        changed
    }

    /// Writes the merged rows to new tables. Returns whether it has finished: not if the tree was stopped.
    fn merge_tables(
        &self,
        compaction: &Compaction,
        lost: &LostRanges,
        output: &mut Vec<Arc<SortedTable>>,
    ) -> Result<bool, StorageError> {
        let cursor = |tables| LevelCursor::for_compaction(tables, lost).map(MergeInput::Level);
        let upper = compaction.upper.iter().map(|table| cursor(vec![Arc::clone(table)]));
        let lower = std::iter::once_with(|| cursor(compaction.lower.clone()));
        let mut rows = MergeIterator::new(upper.chain(lower).collect::<Result<_, _>>()?)?;
        // Tables below may be compacted and dropped meanwhile, which makes no key appear there.
        let levels = Arc::clone(&self.read_view().levels);
        let table_bytes = self.sizes.table_bytes(compaction.target_level);
        let mut writer = None;
        while let Some(key) = rows.key() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let value = rows.value();
            if value.is_some() || levels.spans_below(compaction.target_level, key) {
                let table = self.table_writer(&mut writer)?;
                table.push(key, value)?;
                if table.len() >= table_bytes {
                    output.extend(writer.take().map(TableWriter::finish).transpose()?);
                }
            }
            rows.advance()?;
        }
        output.extend(writer.map(TableWriter::finish).transpose()?);
        output.iter().for_each(SortedTable::preload);
        Ok(true)
    }

    /// Removes tables that no manifest lists.
    fn discard(&self, tables: Vec<Arc<SortedTable>>) {
        self.obsolete.lock().tables.extend(tables);
        self.remove_obsolete();
    }
}
