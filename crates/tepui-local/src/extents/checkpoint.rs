//! What a backup needs of extents: volumes that stay as they are while they are copied.
//!
//! Volumes only grow, but for frees and sweeps, which therefore wait as long as a checkpoint is held. Bytes that were written
//! later are none of its affair, and may be freed: those of uploads that fail meanwhile.

use super::volume::{self, VolumeFile, open_volume};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tepui_files::{File, FileSystem, OpenOptions};
use tepui_storage::{Extent, StorageError};
use tokio::sync::Notify;

/// Holes that are smaller than this, or than a part of their volume, are copied as zeros.
const MIN_HOLE_BYTES: u64 = 1 << 20;
const MAX_PIECES: u64 = 64;

/// Keeps frees and checkpoints apart.
#[derive(Default)]
pub(crate) struct FreeGate {
    state: Mutex<GateState>,
    changed: Notify,
}

#[derive(Default)]
struct GateState {
    /// How many frees are under way.
    active: usize,
    held: Option<Held>,
}

/// What must not be freed.
enum Held {
    Everything,
    /// What was in these volumes before these offsets.
    Before(HashMap<u64, u64>),
}

impl Held {
    fn holds(&self, extent: &Extent) -> bool {
        match self {
            Self::Everything => true,
            Self::Before(ends) => ends.get(&extent.volume).is_some_and(|end| extent.offset < *end),
        }
    }
}

impl FreeGate {
    /// To be held while these extents are freed.
    pub(crate) fn enter(self: &Arc<Self>, extents: &[Extent]) -> Result<FreePermit, StorageError> {
        let mut state = self.state.lock();
        if state.held.as_ref().is_some_and(|held| extents.iter().any(|extent| held.holds(extent))) {
            return Err(StorageError::unavailable("nothing is freed while a backup is made"));
        }
        state.active += 1;
        Ok(FreePermit(Arc::clone(self)))
    }

    /// The same for a whole volume, once no checkpoint is held.
    pub(crate) async fn enter_when_open(self: &Arc<Self>) -> FreePermit {
        loop {
            self.wait_until_open().await;
            let mut state = self.state.lock();
            if state.held.is_none() {
                state.active += 1;
                return FreePermit(Arc::clone(self));
            }
        }
    }

    /// Waits until no checkpoint is held.
    pub(crate) async fn wait_until_open(&self) {
        self.wait(|state| state.held.is_none()).await;
    }

    /// Waits for frees under way, and keeps others from starting. `None`: a checkpoint is held already.
    pub(crate) async fn hold(self: &Arc<Self>) -> Option<FreesHeld> {
        {
            let mut state = self.state.lock();
            if state.held.is_some() {
                return None;
            }
            state.held = Some(Held::Everything);
        }
        let held = FreesHeld(Arc::clone(self));
        self.wait(|state| state.active == 0).await;
        Some(held)
    }

    async fn wait(&self, is_so: impl Fn(&GateState) -> bool) {
        loop {
            let changed = self.changed.notified();
            if is_so(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// A free under way.
pub(crate) struct FreePermit(Arc<FreeGate>);

impl Drop for FreePermit {
    fn drop(&mut self) {
        self.0.state.lock().active -= 1;
        self.0.changed.notify_waiters();
    }
}

/// Nothing is freed as long as this is held.
pub(crate) struct FreesHeld(Arc<FreeGate>);

impl FreesHeld {
    /// From here on only what these volumes have now is held.
    pub(crate) fn limit_to(&self, volumes: &[VolumeCheckpoint]) {
        let ends = volumes.iter().map(|volume| (volume.file.number(), volume.length)).collect();
        self.0.state.lock().held = Some(Held::Before(ends));
    }
}

impl Drop for FreesHeld {
    fn drop(&mut self) {
        self.0.state.lock().held = None;
        self.0.changed.notify_waiters();
    }
}

/// A volume, and what of it is copied.
pub(crate) struct VolumeCheckpoint {
    folder: PathBuf,
    /// Unsealed if it may hold bytes that the rows of the checkpoint do not refer to.
    pub(crate) file: VolumeFile,
    pub(crate) length: u64,
    /// Everything but larger holes.
    pub(crate) pieces: Vec<Range<u64>>,
}

impl VolumeCheckpoint {
    pub(crate) fn open(&self, files: &dyn FileSystem) -> io::Result<Box<dyn File>> {
        open_volume(files, &self.folder, self.file.number(), OpenOptions::read())
    }
}

/// The volumes that are sealed. To be asked for before the rows of a checkpoint are fixed: nothing is added to them.
pub(crate) fn sealed_volumes(files: &dyn FileSystem, folder: &Path) -> io::Result<BTreeSet<u64>> {
    let sealed = |file| match file {
        VolumeFile::Sealed(number) => Some(number),
        VolumeFile::Unsealed(_) => None,
    };
    Ok(volume::find(files, folder)?.into_iter().filter_map(sealed).collect())
}

/// All volumes, after the rows were fixed. Frees must be held.
pub(crate) fn volumes(
    files: &dyn FileSystem,
    folder: &Path,
    sealed_before: &BTreeSet<u64>,
) -> io::Result<Vec<VolumeCheckpoint>> {
    // A volume that is sealed meanwhile may be found under both names.
    let numbers: BTreeSet<u64> = volume::find(files, folder)?.into_iter().map(VolumeFile::number).collect();
    let mut volumes = Vec::with_capacity(numbers.len());
    for number in numbers {
        let file = match sealed_before.contains(&number) {
            true => VolumeFile::Sealed(number),
            false => VolumeFile::Unsealed(number),
        };
        let handle = match open_volume(files, folder, number, OpenOptions::read()) {
            // Deleted meanwhile: it was empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            handle => handle?,
        };
        let length = handle.length()?;
        let pieces = pieces(&*handle, length)?;
        volumes.push(VolumeCheckpoint { folder: folder.to_owned(), file, length, pieces });
    }
    Ok(volumes)
}

fn pieces(file: &dyn File, length: u64) -> io::Result<Vec<Range<u64>>> {
    let min_hole = MIN_HOLE_BYTES.max(length / MAX_PIECES);
    let mut pieces: Vec<Range<u64>> = Vec::new();
    let mut from = 0;
    while from < length
        && let Some(data) = file.next_data(from)?
    {
        // It may have grown since.
        let end = data.end.min(length);
        match pieces.last_mut() {
            Some(last) if data.start < last.end + min_hole => last.end = end.max(last.end),
            _ if data.start < end => pieces.push(data.start..end),
            _ => {}
        }
        from = data.end.max(from + 1);
    }
    Ok(pieces)
}
