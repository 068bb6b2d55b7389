//! Space that is released inside of files, and files that have nothing left in them.
//!
//! Where the file system can punch holes, these are the only record of what was freed: freeing twice changes nothing, and
//! there is no other state to keep consistent. Elsewhere freed ranges are remembered until the program ends, so that a file of
//! which everything was freed can at least be deleted.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use tepui_files::File;

#[derive(Default)]
pub(crate) struct Holes {
    /// What was freed in this run without a hole, by volume.
    remembered: Mutex<HashMap<u64, RangeSet>>,
}

impl Holes {
    /// Releases a range of a volume. Durable once the file is synced.
    pub(crate) fn make(&self, volume: u64, file: &dyn File, range: Range<u64>) -> io::Result<()> {
        if range.is_empty() || file.punch_hole(range.clone())? {
            return Ok(());
        }
        self.remembered().entry(volume).or_default().insert(range);
        Ok(())
    }

    /// Whether everything in the volume was released.
    pub(crate) fn are_all(&self, volume: u64, file: &dyn File) -> io::Result<bool> {
        let length = file.length()?;
        if length == 0 || file.next_data(0)?.is_none() {
            return Ok(true);
        }
        Ok(self.remembered().get(&volume).is_some_and(|ranges| ranges.contains(&(0..length))))
    }

    pub(crate) fn forget(&self, volume: u64) {
        self.remembered().remove(&volume);
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<u64, RangeSet>> {
        self.remembered.lock()
    }
}

/// Disjoint ranges that do not touch, by their starts.
#[derive(Default)]
struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    fn insert(&mut self, mut range: Range<u64>) {
        while let Some((start, end)) =
            self.0.range(..=range.end).next_back().map(|(start, end)| (*start, *end))
        {
            if end < range.start {
                break;
            }
            range = range.start.min(start)..range.end.max(end);
            self.0.remove(&start);
        }
        self.0.insert(range.start, range.end);
    }

    fn contains(&self, range: &Range<u64>) -> bool {
        self.0.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_are_sets_of_numbers(
            inserted in prop::collection::vec((0u64..60, 1u64..12), 0..20),
            asked in (0u64..60, 1u64..12),
        ) {
            let mut ranges = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, length) in inserted {
                ranges.insert(start..start + length);
                model.extend(start..start + length);
            }
            let mut asked = asked.0..asked.0 + asked.1;
            prop_assert_eq!(ranges.contains(&asked), asked.all(|number| model.contains(&number)));
            let held: u64 = ranges.0.iter().map(|(start, end)| end - start).sum();
            prop_assert_eq!(held, model.len() as u64);
        }
    }
}
