//! How far a copy is, for those who watch it from another task.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// All rows of the source are read for the first time.
    Surveying,
    Copying,
    Verifying,
    Finishing,
}

/// Counts what is done. All numbers are of the stage that it is in.
#[derive(Debug, Default)]
pub struct CopyProgress {
    stage: AtomicU64,
    bytes: AtomicU64,
    total_bytes: AtomicU64,
    rows: AtomicU64,
    extents: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressReport {
    pub stage: CopyStage,
    /// Of rows and extents.
    pub bytes: u64,
    /// 0: not known yet.
    pub total_bytes: u64,
    /// Since this process began with the stage.
    pub rows: u64,
    pub extents: u64,
}

const STAGES: [CopyStage; 4] =
    [CopyStage::Surveying, CopyStage::Copying, CopyStage::Verifying, CopyStage::Finishing];

impl CopyProgress {
    pub(super) fn enter(&self, stage: CopyStage, bytes: u64, total_bytes: u64) {
        let place = STAGES.iter().zip(0..).find(|(known, _)| **known == stage).map_or(0, |(_, place)| place);
        self.stage.store(place, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        self.rows.store(0, Ordering::Relaxed);
        self.extents.store(0, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was counted has to be done again.
    pub(super) fn take_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn add_extent(&self) {
        self.extents.fetch_add(1, Ordering::Relaxed);
    }

    pub fn report(&self) -> ProgressReport {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let stage = usize::try_from(read(&self.stage)).ok().and_then(|place| STAGES.get(place));
        ProgressReport {
            stage: *stage.unwrap_or(&CopyStage::Surveying),
            bytes: read(&self.bytes),
            total_bytes: read(&self.total_bytes),
            rows: read(&self.rows),
            extents: read(&self.extents),
        }
    }
}
