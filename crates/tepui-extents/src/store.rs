//! The folder of volumes: who writes to which, which are sealed, and which are deleted. Blocks its thread.

use crate::disk::DiskOptions;
use crate::frame::{self, Cover, SECTOR};
use crate::holes::Holes;
use crate::open_files::OpenFiles;
use crate::space::Space;
use crate::volume::{self, Found, Volume, open_path, sealed_path};
use crate::{Extent, ExtentError};
use bytes::Bytes;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use tepui_files::{File, FileSystem, OpenOptions, create_directories};
use tokio::sync::oneshot;
use twox_hash::XxHash3_64;

/// A hole of this size is made before anybody notices. A large one takes tenths of a second on some file systems.
const QUICK_HOLE_BYTES: u64 = 4 << 20;

pub(crate) struct Store {
    options: DiskOptions,
    holes: Holes,
    pool: Mutex<Pool>,
    /// Told when the last work is done, and when a volume that is wanted was given back.
    changed: Condvar,
    /// Volumes of earlier runs that were not sealed and are not swept yet.
    leftovers: Mutex<BTreeSet<u64>>,
    /// Files that were read from.
    read_files: Mutex<OpenFiles>,
    /// What the random parts of numbers follow from.
    number_seed: u64,
    /// Held by whoever frees parts of a volume that is not written to: one at a time, for a sync that fails may drop the holes of
    /// another, who must not be told afterwards that they are on the disk.
    freeing: Mutex<()>,
}

struct Pool {
    /// Volumes that nobody writes to just now.
    idle: Vec<Lease>,
    /// Volumes that someone writes to.
    busy: HashSet<u64>,
    /// Volumes of this run that are not sealed.
    open: HashMap<u64, Weak<Volume>>,
    /// Volumes that are not given to anyone else who writes.
    wanted: Vec<u64>,
    /// How many extents there are in a volume of which it is not known what becomes of them.
    unsettled: HashMap<u64, usize>,
    /// Volumes that are sealed as soon as all their extents are settled.
    waiting: Vec<Lease>,
    is_closed: bool,
    /// How much work there is under way that gives volumes back or seals them.
    working: usize,
    /// The highest number that was ever given to a volume.
    highest: u64,
    /// The highest number of a file that survives a crash. This file is never deleted: after a restart it says
    /// which numbers were used.
    highest_on_disk: u64,
}

/// The right to append to a volume.
pub(crate) struct Lease {
    pub(crate) volume: Arc<Volume>,
    /// Where what is kept of it ends.
    pub(crate) end: u64,
}

impl Pool {
    /// The oldest that is not wanted: the sooner it is full, the sooner it is sealed.
    fn take_idle(&mut self) -> Option<Lease> {
        let free = |(_, lease): &(usize, &Lease)| !self.wanted.contains(&lease.volume.number);
        let oldest = self.idle.iter().enumerate().filter(free).min_by_key(|(_, lease)| lease.volume.number);
        let at = oldest.map(|(at, _)| at)?;
        Some(self.idle.swap_remove(at))
    }

    fn is_unsettled(&self, lease: &Lease) -> bool {
        self.unsettled.contains_key(&lease.volume.number)
    }
}

impl Store {
    pub(crate) fn open(options: DiskOptions) -> Result<Arc<Self>, ExtentError> {
        let found = prepare(&options)?;
        let highest = found.iter().map(|volume| volume.number()).max().unwrap_or(0);
        let numbers = |is_wanted: fn(&Found) -> bool| {
            found.iter().filter(move |volume| is_wanted(volume)).map(|volume| volume.number())
        };
        let leftovers: BTreeSet<u64> = numbers(|volume| matches!(volume, Found::LeftOver(_))).collect();
        let sealed: BTreeSet<u64> = numbers(|volume| matches!(volume, Found::Sealed(_))).collect();
        if let Some(number) = sealed.intersection(&leftovers).next() {
            return Err(corrupt("a volume is there twice", &open_path(&options.path, *number)));
        }
        let pool = Pool {
            idle: Vec::new(),
            busy: HashSet::new(),
            open: HashMap::new(),
            wanted: Vec::new(),
            unsettled: HashMap::new(),
            waiting: Vec::new(),
            is_closed: false,
            working: 0,
            highest,
            highest_on_disk: highest,
        };
        let chance = || RandomState::new().hash_one("numbers of volumes");
        let store = Arc::new(Self {
            holes: Holes::default(),
            number_seed: options.number_seed.unwrap_or_else(chance),
            options,
            pool: Mutex::new(pool),
            changed: Condvar::new(),
            leftovers: Mutex::new(leftovers),
            read_files: Mutex::default(),
            freeing: Mutex::default(),
        });
        store.retire_empty(sealed);
        Ok(store)
    }

    /// Deletes volumes that are empty, because they could not be deleted or came back after a crash. In the background, for there may
    /// be many; nobody waits for it, nor is the store held open by it.
    fn retire_empty(self: &Arc<Self>, sealed: BTreeSet<u64>) {
        let store = Arc::downgrade(self);
        self.files().spawn_blocking(Box::new(move || {
            for number in sealed {
                let Some(store) = store.upgrade() else { return };
                if lock(&store.pool).is_closed {
                    return;
                }
                store.try_retire(number);
            }
        }));
    }

    /// The number of the volume after the one with the highest number: a count and 32 bits of chance.
    ///
    /// The count alone would do as long as the file with the highest number is there, which is never deleted. But if it is lost, or the
    /// whole folder, the count begins at an earlier one, and a number that was given out before would make whoever has kept an extent
    /// of the lost volume read another one that lies at the same place. The chance of that is 1 in 2^32 for each lost volume.
    fn number_after(&self, highest: u64) -> Option<u64> {
        let count = u32::try_from((highest >> 32) + 1).ok()?;
        let chance = XxHash3_64::oneshot_with_seed(self.number_seed, &count.to_le_bytes());
        Some(u64::from(count) << 32 | chance >> 32)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.options.path
    }

    fn files(&self) -> &dyn FileSystem {
        &*self.options.files
    }

    pub(crate) fn sync_step_bytes(&self) -> u64 {
        self.options.sync_step_bytes
    }

    pub(crate) fn check_open(&self) -> Result<(), ExtentError> {
        match lock(&self.pool).is_closed {
            true => Err(ExtentError::Unavailable(format!("closed: {}", self.folder().display()))),
            false => Ok(()),
        }
    }

    /// Whether there is space for so many bytes more.
    pub(crate) fn check_space(&self, bytes: u64) -> Result<(), ExtentError> {
        let free = self
            .files()
            .free_space(self.folder())
            .map_err(|error| failed("ask for the free space of", self.folder(), &error))?;
        let reserve = self.options.free_space_reserve_bytes;
        if free < reserve.saturating_add(bytes) {
            return Err(ExtentError::NoSpace(format!(
                "only {free} bytes are free on the disk, {reserve} of them are a reserve: delete something, or \
                 give it more space: {}",
                self.folder().display()
            )));
        }
        Ok(())
    }

    /// A volume to append to, which nobody else has.
    pub(crate) fn lease(self: &Arc<Self>) -> Result<Lease, ExtentError> {
        self.check_open()?;
        self.give_up_bad();
        let number = {
            let mut pool = lock(&self.pool);
            if let Some(lease) = pool.take_idle() {
                pool.busy.insert(lease.volume.number);
                return Ok(lease);
            }
            let number = self.number_after(pool.highest);
            let number =
                number.ok_or_else(|| ExtentError::Failed("no number is left for a volume".into()))?;
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
            // Else there would be one for each try. If it cannot be removed, the next start sweeps it.
            let _ = self.files().remove_file(&path);
            failed("create a volume", &path, &error)
        })?;
        let volume = Arc::new(volume);
        let before = {
            let mut pool = lock(&self.pool);
            pool.open.insert(number, Arc::downgrade(&volume));
            let before = pool.highest_on_disk;
            pool.highest_on_disk = before.max(number);
            pool.busy.insert(number);
            before
        };
        // It may have been kept for its number only.
        self.try_retire(before);
        Ok(Lease { volume, end: 0 })
    }

    /// Gives up volumes that nobody writes to and in which something failed nevertheless: a hole could not be synced.
    fn give_up_bad(self: &Arc<Self>) {
        let is_bad = |lease: &mut Lease| !lease.volume.is_good();
        let bad: Vec<Lease> = lock(&self.pool).idle.extract_if(.., is_bad).collect();
        bad.into_iter().for_each(|lease| self.give_back(lease));
    }

    /// Takes back a volume whose bytes after `lease.end` were taken back already.
    pub(crate) fn give_back(self: &Arc<Self>, lease: Lease) {
        let is_done = !lease.volume.is_good() || lease.end >= self.options.volume_bytes;
        let mut pool = lock(&self.pool);
        pool.busy.remove(&lease.volume.number);
        if pool.wanted.contains(&lease.volume.number) {
            self.changed.notify_all();
        }
        if !is_done && !pool.is_closed {
            pool.idle.push(lease);
            return;
        }
        if pool.is_unsettled(&lease) {
            pool.waiting.push(lease);
            return;
        }
        drop(pool);
        let store = Arc::clone(self);
        self.in_background(move || store.seal(vec![lease]));
    }

    /// Keeps a volume from those who would write to it next, and waits for who writes to it now: a while, not for
    /// ever, for some clients send slowly.
    fn want(&self, number: u64) -> Wanted<'_> {
        let mut pool = lock(&self.pool);
        pool.wanted.push(number);
        let is_busy = |pool: &mut Pool| pool.busy.contains(&number) && !pool.is_closed;
        drop(self.changed.wait_timeout_while(pool, self.options.writers_patience, is_busy));
        Wanted { store: self, number }
    }

    /// From now on, the volume stays open until [`Store::settle`] was called for an extent that is in it.
    pub(crate) fn unsettle(&self, volume: u64) {
        *lock(&self.pool).unsettled.entry(volume).or_default() += 1;
    }

    pub(crate) fn settle(self: &Arc<Self>, volume: u64) {
        let mut pool = lock(&self.pool);
        let Some(count) = pool.unsettled.get_mut(&volume) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        pool.unsettled.remove(&volume);
        let settled: Vec<Lease> =
            pool.waiting.extract_if(.., |lease| lease.volume.number == volume).collect();
        drop(pool);
        if !settled.is_empty() {
            let store = Arc::clone(self);
            self.in_background(move || store.seal(settled));
        }
    }

    /// Seals volumes. One that cannot be sealed is found and swept by the next run.
    fn seal(&self, leases: Vec<Lease>) {
        for Lease { volume, end } in &leases {
            if let Err(error) = volume.seal(self.files(), self.folder(), *end) {
                tracing::warn!(%error, volume = volume.number, "cannot seal a volume: left for the next start");
            }
        }
        if let Err(error) = self.files().sync_directory(self.folder()) {
            tracing::warn!(%error, folder = %self.folder().display(), "cannot sync the folder of volumes");
        }
        for Lease { volume, .. } in leases {
            lock(&self.pool).open.remove(&volume.number);
            self.try_retire(volume.number);
        }
    }

    /// Starts work that blocks, on a thread that may.
    pub(crate) fn start<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<(T, Working)> {
        let (sender, receiver) = oneshot::channel();
        let working = Working::new(self);
        self.files().spawn_blocking(Box::new(move || {
            // If nobody waits for it any more, it is dropped here.
            drop(sender.send((work(), working)));
        }));
        receiver
    }

    /// The same, if nobody waits for it.
    pub(crate) fn in_background(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        drop(self.start(work));
    }

    /// Seals all volumes, those that are written to as soon as their writers are done and their extents settled.
    pub(crate) fn close(&self) {
        let idle = {
            let mut pool = lock(&self.pool);
            pool.is_closed = true;
            self.changed.notify_all();
            let wait = self.changed.wait_while(pool, |pool| pool.working > 0);
            let mut pool = wait.unwrap_or_else(PoisonError::into_inner);
            let idle = std::mem::take(&mut pool.idle);
            let (waiting, idle): (Vec<_>, Vec<_>) =
                idle.into_iter().partition(|lease| pool.is_unsettled(lease));
            pool.waiting.extend(waiting);
            idle
        };
        if !idle.is_empty() {
            self.seal(idle);
        }
    }

    /// Reads a part of an extent, and checks it.
    pub(crate) fn read(&self, cover: &Cover, mut space: Space) -> Result<Vec<Bytes>, ExtentError> {
        let (volume, place) = (cover.volume(), cover.place());
        let path = || self.path(volume);
        let file = self.file(volume).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => corrupt("the volume is missing", &path()),
            _ => failed("open a volume", &path(), &error),
        })?;
        file.read_exact_at(&mut space, place.start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                corrupt(&format!("the volume ends before {}", place.end), &path())
            }
            _ => failed("read a volume", &path(), &error),
        })?;
        self.content(cover, space)
    }

    /// Reads it if it is in the page cache. Whether it is there now, not yet checked.
    pub(crate) fn read_cached(&self, cover: &Cover, space: &mut Space) -> bool {
        let file = self.file(cover.volume());
        file.and_then(|file| file.read_cached_at(space, cover.place().start)).unwrap_or(false)
    }

    /// What was written, from what was read.
    pub(crate) fn content(&self, cover: &Cover, space: Space) -> Result<Vec<Bytes>, ExtentError> {
        cover.content(&Bytes::from_owner(space)).map_err(|mark| {
            let path = self.path(cover.volume());
            corrupt(&format!("the frame at {} is not what was written", mark.offset), &path)
        })
    }

    /// Gives back the space of extents that are in no one's way any more.
    pub(crate) fn free(&self, extents: &[Extent]) -> Result<(), ExtentError> {
        let mut places: Vec<(u64, Range<u64>)> = Vec::with_capacity(extents.len());
        for extent in extents {
            check_aligned(*extent)?;
            places.push((extent.volume, frame::place(*extent)));
        }
        places.sort_unstable_by_key(|(volume, place)| (*volume, place.start));
        for group in places.chunk_by(|(one, _), (other, _)| one == other) {
            let number = group[0].0;
            let places = merge(group.iter().map(|(_, place)| place.clone()));
            self.make_holes(number, &places)
                .and_then(|()| self.retire(number))
                .map_err(|error| failed("free a part of a volume", &self.path(number), &error))?;
        }
        Ok(())
    }

    fn make_holes(&self, number: u64, places: &[Range<u64>]) -> io::Result<()> {
        // Nobody can write to a file while a hole is made in it.
        let bytes: u64 = places.iter().map(|place| place.end - place.start).sum();
        let _wanted = (bytes > QUICK_HOLE_BYTES).then(|| self.want(number));
        let open = lock(&self.pool).open.get(&number).and_then(Weak::upgrade);
        if let Some(volume) = open {
            return volume.free(&self.holes, places);
        }
        let _one = lock(&self.freeing);
        let file = match self.open_file(number, OpenOptions::write()) {
            // Deleted, so everything in it was freed before.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        for place in places {
            self.holes.make(number, &*file, place.clone())?;
        }
        file.sync_data()
    }

    pub(crate) fn leftovers(&self) -> Vec<u64> {
        lock(&self.leftovers).iter().copied().collect()
    }

    /// Frees what is in a volume of an earlier run and not in `kept`, and seals it.
    pub(crate) fn sweep(&self, number: u64, kept: &[Extent]) -> Result<(), ExtentError> {
        if !lock(&self.leftovers).contains(&number) {
            return Err(crate::not_left_over(number));
        }
        for extent in kept {
            check_aligned(*extent)?;
            if extent.volume != number {
                return Err(ExtentError::Failed(format!("not in volume {number}: {extent:?}")));
            }
        }
        let mut kept: Vec<Range<u64>> = kept.iter().map(|extent| frame::place(*extent)).collect();
        kept.sort_unstable_by_key(|place| (place.start, place.end));
        kept.dedup();
        if kept.iter().zip(kept.iter().skip(1)).any(|(one, next)| next.start < one.end) {
            return Err(corrupt("two extents that are kept overlap", &self.path(number)));
        }
        let kept = merge(kept.into_iter());
        let _one = lock(&self.freeing);
        match self.sweep_file(number, &kept) {
            Ok(Swept::Everything) => {}
            Ok(Swept::Nothing(why)) => return Err(corrupt(why, &self.path(number))),
            Err(error) => return Err(failed("sweep a volume", &self.path(number), &error)),
        }
        lock(&self.leftovers).remove(&number);
        self.try_retire(number);
        Ok(())
    }

    /// Can be repeated, whatever of it was done before.
    fn sweep_file(&self, number: u64, kept: &[Range<u64>]) -> io::Result<Swept> {
        let file = match self.open_file(number, OpenOptions::write()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(match kept.is_empty() {
                    true => Swept::Everything,
                    false => Swept::Nothing("the volume is missing"),
                });
            }
            file => file?,
        };
        let end = kept.last().map_or(0, |place| place.end);
        if file.length()? < end {
            return Ok(Swept::Nothing("the volume ends before an extent that is kept"));
        }
        file.set_length(end)?;
        let mut from = 0;
        for place in kept {
            self.holes.make(number, &*file, from..place.start)?;
            from = place.end;
        }
        file.sync_data()?;
        let path = open_path(self.folder(), number);
        if self.files().exists(&path)? {
            self.files().rename(&path, &sealed_path(self.folder(), number))?;
        }
        self.files().sync_directory(self.folder())?;
        Ok(Swept::Everything)
    }

    /// Deletes a volume if it is sealed and nothing is left in it.
    ///
    /// Called both after a volume was sealed and after something in it was freed: whichever comes second finds it.
    fn retire(&self, number: u64) -> io::Result<()> {
        if number >= lock(&self.pool).highest_on_disk {
            return Ok(());
        }
        let path = sealed_path(self.folder(), number);
        let is_empty = match self.files().open(&path, OpenOptions::read()) {
            Ok(file) => self.holes.are_all(number, &*file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !is_empty {
            return Ok(());
        }
        lock(&self.read_files).remove(number);
        match self.files().remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.holes.forget(number);
        self.files().sync_directory(self.folder())
    }

    fn try_retire(&self, number: u64) {
        if let Err(error) = self.retire(number) {
            tracing::warn!(%error, volume = number, "cannot delete an empty volume");
        }
    }

    /// The file of a volume, to read from.
    fn file(&self, number: u64) -> io::Result<Arc<dyn File>> {
        if let Some(file) = lock(&self.read_files).get(number) {
            return Ok(file);
        }
        let file: Arc<dyn File> = Arc::from(self.open_file(number, OpenOptions::read())?);
        lock(&self.read_files).insert(number, Arc::clone(&file));
        Ok(file)
    }

    fn open_file(&self, number: u64, options: OpenOptions) -> io::Result<Box<dyn File>> {
        let (sealed, open) = (sealed_path(self.folder(), number), open_path(self.folder(), number));
        let mut result = self.files().open(&sealed, options);
        // Once more under the first name, for it may be sealed between two looks.
        for path in [open, sealed] {
            match result {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    result = self.files().open(&path, options)
                }
                _ => break,
            }
        }
        result
    }

    /// For messages.
    fn path(&self, number: u64) -> std::path::PathBuf {
        let open = open_path(self.folder(), number);
        if self.files().exists(&open).unwrap_or(false) { open } else { sealed_path(self.folder(), number) }
    }
}

enum Swept {
    Everything,
    /// It must not be, for this reason.
    Nothing(&'static str),
}

/// A volume that nobody begins to write to for as long as this is held.
struct Wanted<'a> {
    store: &'a Store,
    number: u64,
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let wanted = &mut lock(&self.store.pool).wanted;
        if let Some(at) = wanted.iter().position(|number| *number == self.number) {
            wanted.swap_remove(at);
        }
    }
}

/// Work that is under way: the store is not closed before it is done and what it returns is dropped.
pub(crate) struct Working(Arc<Store>);

impl Working {
    fn new(store: &Arc<Store>) -> Self {
        lock(&store.pool).working += 1;
        Self(Arc::clone(store))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut pool = lock(&self.0.pool);
        pool.working -= 1;
        if pool.working == 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes the folder if need be, and looks what is in it.
fn prepare(options: &DiskOptions) -> Result<Vec<Found>, ExtentError> {
    let (files, folder) = (&*options.files, &*options.path);
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let prepare = || {
        if options.must_exist && !files.exists(folder)? {
            return Ok(None);
        }
        create_directories(files, folder)?;
        // The names that are found must be there after the next crash too, and who has made them may have been interrupted.
        files.sync_directory(parent.unwrap_or(Path::new(".")))?;
        files.sync_directory(folder)?;
        volume::find(files, folder).map(Some)
    };
    let found = prepare().map_err(|error| failed("open the folder of volumes", folder, &error))?;
    found.ok_or_else(|| corrupt("the folder of volumes is missing", folder))
}

/// Ranges in their order, those that meet or touch made one.
fn merge(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

fn check_aligned(extent: Extent) -> Result<(), ExtentError> {
    match extent.offset.is_multiple_of(SECTOR as u64) {
        true => Ok(()),
        false => Err(ExtentError::Failed(format!("no extent begins there: {extent:?}"))),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn corrupt(what: &str, path: &Path) -> ExtentError {
    ExtentError::Corrupt(format!("{what}: check the disk, and restore from a backup: {}", path.display()))
}

pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> ExtentError {
    let message = format!("cannot {what}: {error}: {}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ExtentError::NoSpace(message),
        _ => ExtentError::Failed(message),
    }
}

#[cfg(test)]
mod tests;
