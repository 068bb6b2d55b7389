//! Reads all rows of a storage: counts them, checks them, and takes their digest.

use super::progress::CopyProgress;
use super::read::{PAGE, RowPages};
use super::{CopyError, CopyReport, told};
use crate::check::{RowCheck, RowCounts};
use crate::keyspace;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tepui_storage::{Engine, Key, Limits};

/// No more damages are told.
const MAX_TOLD: usize = 10;
/// What a commit takes beside a row: the state of the copy, and longer names of the extents in the row.
const COMMIT_RESERVE_BYTES: usize = 64 << 10;

/// What there is to copy.
pub(super) struct Survey {
    /// Of all rows, in the order of their keys.
    pub(super) digest: [u8; 32],
    pub(super) counts: RowCounts,
    pub(super) rows: u64,
    pub(super) row_bytes: u64,
    pub(super) extent_bytes: u64,
}

impl Survey {
    /// Refuses rows that are damaged, and those that a target of these limits does not take.
    pub(super) async fn of<E: Engine>(
        engine: &Arc<E>,
        limits: Limits,
        progress: &CopyProgress,
    ) -> Result<Self, CopyError> {
        let mut digest = Sha256::new();
        let mut inspection = Inspection::default();
        let (mut rows, mut row_bytes, mut extent_bytes) = (0, 0, 0);
        let mut pages = RowPages::new(engine, &keyspace::portable_rows(), &Key::new(), PAGE);
        while let Some(page) = pages.next().await? {
            for (key, value) in &page {
                for part in [key, value] {
                    digest.update((part.len() as u64).to_le_bytes());
                    digest.update(part);
                }
                check_limits(limits, key, value).map_err(|why| {
                    CopyError::Refused(format!("{why}: {}", inspection.check.describe_row(key)))
                })?;
                match inspection.row(key, value) {
                    Some(bytes) => extent_bytes += bytes,
                    None => {
                        rows += 1;
                        row_bytes += (key.len() + value.len()) as u64;
                    }
                }
                progress.add_bytes((key.len() + value.len()) as u64);
            }
            progress.add_rows(page.len() as u64);
        }
        let (counts, damages) = inspection.finish(engine, "the source is damaged").await?;
        match damages.is_empty() {
            true => Ok(Self { digest: digest.finalize().into(), counts, rows, row_bytes, extent_bytes }),
            false => Err(CopyError::Refused(damages.join("; "))),
        }
    }

    pub(super) fn report(self, is_continued: bool) -> CopyReport {
        let Self { counts, rows, row_bytes, extent_bytes, .. } = self;
        CopyReport { counts, rows, row_bytes, extent_bytes, is_continued }
    }
}

fn check_limits(limits: Limits, key: &Key, value: &Bytes) -> Result<(), String> {
    let Limits { max_key_bytes, max_commit_bytes } = limits;
    if !limits.is_valid_key(key) {
        return Err(format!(
            "the target takes keys of at most {max_key_bytes} bytes, and one has {}",
            key.len()
        ));
    }
    // The state has the key once more.
    let bytes = 2 * key.len() + value.len() + COMMIT_RESERVE_BYTES;
    if bytes > max_commit_bytes {
        return Err(format!(
            "the target takes commits of at most {max_commit_bytes} bytes, and a row needs {bytes}"
        ));
    }
    Ok(())
}

/// Checks the rows of one side, as `tepui check` does.
#[derive(Default)]
pub(super) struct Inspection {
    pub(super) check: RowCheck,
    damages: Vec<crate::check::RowDamage>,
    uncounted: u64,
}

impl Inspection {
    /// Takes the rows in key order. Returns the length of an extent, if it is the row of one.
    pub(super) fn row(&mut self, key: &Key, value: &Bytes) -> Option<u64> {
        let Self { check, damages, uncounted } = self;
        check.row(key, value, &mut |damage| match damages.len() < MAX_TOLD {
            true => damages.push(damage),
            false => *uncounted += 1,
        });
        match keyspace::is_extent_count(key) {
            true => crate::record::StoredExtent::decode(value).ok().map(|extent| extent.bytes),
            false => None,
        }
    }

    /// After the last row. Returns what is wrong, beginning with `whose`.
    pub(super) async fn finish<E: Engine>(
        self,
        engine: &Arc<E>,
        whose: &str,
    ) -> Result<(RowCounts, Vec<String>), CopyError> {
        let Self { check, mut damages, mut uncounted } = self;
        let mut keep = |damage| match damages.len() < MAX_TOLD {
            true => damages.push(damage),
            false => uncounted += 1,
        };
        let (counts, mut trace) = check.finish(&[], &mut keep);
        // Only if some references are not counted right, or garbage is being collected.
        while trace.needs_pass() {
            let mut pages = RowPages::new(engine, &keyspace::portable_rows(), &Key::new(), PAGE);
            while let Some(page) = pages.next().await? {
                page.iter().for_each(|(key, value)| trace.row(key, value));
            }
            trace.end_of_pass(&mut keep);
        }
        let mut all: Vec<String> = damages.iter().map(|damage| told(whose, damage)).collect();
        if uncounted > 0 {
            all.push(format!("{whose}: {uncounted} damages more"));
        }
        Ok((counts, all))
    }
}
