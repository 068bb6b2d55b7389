//! The pool of open volumes: who writes to which, and when they are sealed.

use super::{VolumeStore, failed};
use crate::extents::volume::{Volume, open_path};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use tepui_storage::StorageError;
use twox_hash::XxHash3_64;

pub(super) struct Pool {
    /// Volumes without a writer.
    pub(super) idle: Vec<VolumeGuard>,
    /// Volumes with a writer.
    busy: HashSet<u64>,
    /// Volumes of this run that are not sealed.
    pub(super) open: HashMap<u64, Weak<Volume>>,
    /// Volumes that get no new writer.
    pub(super) reserved: Vec<u64>,
    /// How many pinned extents a volume has.
    pins: HashMap<u64, usize>,
    /// Volumes that are sealed when their last extent is unpinned.
    awaiting_unpin: Vec<VolumeGuard>,
    pub(super) is_closed: bool,
    /// How much work is under way that releases or seals volumes.
    pub(super) active_work: usize,
    /// The highest number ever given to a volume.
    highest: u64,
    /// The highest number of a durable file. This file is never deleted: after a restart it tells which numbers were used.
    pub(super) highest_on_disk: u64,
}

/// The exclusive right to append to a volume.
pub(crate) struct VolumeGuard {
    pub(crate) volume: Arc<Volume>,
    /// The end of what is kept of it.
    pub(crate) end: u64,
}

impl Pool {
    pub(super) fn new(highest: u64) -> Self {
        Self {
            idle: Vec::new(),
            busy: HashSet::new(),
            open: HashMap::new(),
            reserved: Vec::new(),
            pins: HashMap::new(),
            awaiting_unpin: Vec::new(),
            is_closed: false,
            active_work: 0,
            highest,
            highest_on_disk: highest,
        }
    }

    /// The oldest that is not reserved: the sooner it is full, the sooner it is sealed.
    fn take_idle(&mut self) -> Option<VolumeGuard> {
        let free = |(_, guard): &(usize, &VolumeGuard)| !self.reserved.contains(&guard.volume.number);
        let oldest = self.idle.iter().enumerate().filter(free).min_by_key(|(_, guard)| guard.volume.number);
        let at = oldest.map(|(at, _)| at)?;
        Some(self.idle.swap_remove(at))
    }

    /// Takes the idle volumes that can be sealed. The others wait for their pins.
    pub(super) fn take_unpinned(&mut self) -> Vec<VolumeGuard> {
        let idle = std::mem::take(&mut self.idle);
        let (pinned, unpinned): (Vec<_>, Vec<_>) = idle.into_iter().partition(|guard| self.is_pinned(guard));
        self.awaiting_unpin.extend(pinned);
        unpinned
    }

    fn is_pinned(&self, guard: &VolumeGuard) -> bool {
        self.pins.contains_key(&guard.volume.number)
    }
}

impl VolumeStore {
    /// The number of the volume after the one with the highest number: a counter and 32 random bits.
    ///
    /// The counter alone would do as long as the file with the highest number is there, which is never deleted. But if it is lost,
    /// or the whole folder, the counter restarts at an earlier value, and a reused number would make references to extents of the
    /// lost volume read others at the same offset. The probability of that is 1 in 2^32 for each lost volume.
    fn number_after(&self, highest: u64) -> Option<u64> {
        let count = u32::try_from((highest >> 32) + 1).ok()?;
        let random = XxHash3_64::oneshot_with_seed(self.number_seed, &count.to_le_bytes());
        Some(u64::from(count) << 32 | random >> 32)
    }

    /// A volume to append to, for one writer.
    pub(crate) fn acquire(self: &Arc<Self>) -> Result<VolumeGuard, StorageError> {
        self.check_open()?;
        self.release_failed();
        let number = {
            let mut pool = self.pool.lock();
            if let Some(guard) = pool.take_idle() {
                pool.busy.insert(guard.volume.number);
                return Ok(guard);
            }
            let number = self.number_after(pool.highest);
            let number = number.ok_or_else(|| StorageError::failed("no number is left for a volume"))?;
            pool.highest = number;
            number
        };
        let create = || {
            let volume = Volume::create(self.files(), self.folder(), number, self.options.direct)?;
            self.files().sync_directory(self.folder())?;
            Ok(volume)
        };
        let path = open_path(self.folder(), number);
        let volume = create().map_err(|error| {
            // Otherwise each retry would leave one. If it cannot be removed, the next start sweeps it.
            let _ = self.files().remove_file(&path);
            failed("create a volume", &path, &error)
        })?;
        let volume = Arc::new(volume);
        let before = {
            let mut pool = self.pool.lock();
            pool.open.insert(number, Arc::downgrade(&volume));
            let before = pool.highest_on_disk;
            pool.highest_on_disk = before.max(number);
            pool.busy.insert(number);
            before
        };
        // It may have been kept for its number only.
        self.try_remove_if_empty(before);
        Ok(VolumeGuard { volume, end: 0 })
    }

    /// Takes idle volumes out of use in which something has failed: a hole could not be synced.
    fn release_failed(self: &Arc<Self>) {
        let has_failed = |guard: &mut VolumeGuard| !guard.volume.is_good();
        let failed: Vec<VolumeGuard> = self.pool.lock().idle.extract_if(.., has_failed).collect();
        failed.into_iter().for_each(|guard| self.release(guard));
    }

    /// Returns a volume to the pool. Its bytes after `guard.end` were discarded already.
    pub(crate) fn release(self: &Arc<Self>, guard: VolumeGuard) {
        let is_done = !guard.volume.is_good() || guard.end >= self.options.volume_bytes;
        let mut pool = self.pool.lock();
        pool.busy.remove(&guard.volume.number);
        if pool.reserved.contains(&guard.volume.number) {
            self.changed.notify_all();
        }
        if !is_done && !pool.is_closed {
            pool.idle.push(guard);
            return;
        }
        if pool.is_pinned(&guard) {
            pool.awaiting_unpin.push(guard);
            return;
        }
        drop(pool);
        let store = Arc::clone(self);
        self.in_background(move || store.seal(vec![guard]));
    }

    /// Keeps a volume from new writers, and waits for the current one, up to a timeout: some clients send slowly.
    pub(super) fn reserve(&self, number: u64) -> VolumeReservation<'_> {
        let mut pool = self.pool.lock();
        pool.reserved.push(number);
        let is_busy = |pool: &mut Pool| pool.busy.contains(&number) && !pool.is_closed;
        self.changed.wait_while_for(&mut pool, is_busy, self.options.writer_timeout);
        drop(pool);
        VolumeReservation { store: self, number }
    }

    /// The volume stays unsealed until [`VolumeStore::unpin`] was called as often.
    pub(crate) fn pin(&self, volume: u64) {
        *self.pool.lock().pins.entry(volume).or_default() += 1;
    }

    pub(crate) fn unpin(self: &Arc<Self>, volume: u64) {
        let mut pool = self.pool.lock();
        let Some(count) = pool.pins.get_mut(&volume) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        pool.pins.remove(&volume);
        let unpinned: Vec<VolumeGuard> =
            pool.awaiting_unpin.extract_if(.., |guard| guard.volume.number == volume).collect();
        drop(pool);
        if !unpinned.is_empty() {
            let store = Arc::clone(self);
            self.in_background(move || store.seal(unpinned));
        }
    }

    /// Seals volumes. If that fails, the next run finds them unsealed and sweeps them.
    pub(super) fn seal(&self, guards: Vec<VolumeGuard>) {
        for VolumeGuard { volume, end } in &guards {
            if let Err(error) = volume.seal(self.files(), self.folder(), *end) {
                tracing::warn!(%error, volume = volume.number, "cannot seal a volume: left for the next start");
            }
        }
        if let Err(error) = self.files().sync_directory(self.folder()) {
            tracing::warn!(%error, folder = %self.folder().display(), "cannot sync the folder of volumes");
        }
        for VolumeGuard { volume, .. } in guards {
            self.pool.lock().open.remove(&volume.number);
            self.try_remove_if_empty(volume.number);
        }
    }
}

/// A volume that gets no new writer as long as this is held.
pub(super) struct VolumeReservation<'a> {
    store: &'a VolumeStore,
    number: u64,
}

impl Drop for VolumeReservation<'_> {
    fn drop(&mut self) {
        let reserved = &mut self.store.pool.lock().reserved;
        if let Some(at) = reserved.iter().position(|number| *number == self.number) {
            reserved.swap_remove(at);
        }
    }
}
