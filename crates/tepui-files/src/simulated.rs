//! A file system in memory that fails on demand and loses what a crash may lose.
//!
//! It knows what was written from what was synced, for contents and for names. After [`SimulatedFiles::crash`] any subset of what
//! was not synced is there, torn at sectors. A sync that fails may have written some of it, and the rest is never written: what is
//! read back meanwhile says nothing about the disk, as on Linux.
//!
//! Everything follows from the seed and the order of calls, so a run can be repeated.

mod content;
mod seeds;

pub use seeds::{explore_seeds, repeated_seed};

use crate::{BlockingWork, Create, File, FileSize, FileSystem, Lock, LockError, OpenOptions};
use content::{Change, Content, PAGE_BYTES, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    Open,
    Create,
    CreateDirectory,
    Names,
    Exists,
    Rename,
    Remove,
    SyncDirectory,
    FreeSpace,
    Lock,
    Length,
    Read,
    Write,
    DirectWrite,
    SetLength,
    Sync,
    Punch,
    NextData,
}

/// A way in which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// EIO.
    Input,
    /// ENOSPC.
    NoSpace,
    /// EMFILE.
    TooManyFiles,
    /// A write takes only a part of the bytes, and says so.
    ShortWrite,
    /// EINVAL, for a write past the page cache.
    Invalid,
}

impl Failure {
    pub const ALL: [Self; 5] =
        [Self::Input, Self::NoSpace, Self::TooManyFiles, Self::ShortWrite, Self::Invalid];

    /// Whether a call of this kind can fail so.
    pub fn fits(self, call: Call) -> bool {
        match self {
            Self::Input => true,
            Self::NoSpace => matches!(
                call,
                Call::Create
                    | Call::CreateDirectory
                    | Call::Rename
                    | Call::Write
                    | Call::DirectWrite
                    | Call::SetLength
                    | Call::Sync
                    | Call::SyncDirectory
                    | Call::Punch
            ),
            Self::TooManyFiles => {
                matches!(call, Call::Open | Call::Create | Call::SyncDirectory | Call::Names | Call::Lock)
            }
            Self::ShortWrite => matches!(call, Call::Write | Call::DirectWrite),
            Self::Invalid => call == Call::DirectWrite,
        }
    }

    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Self::Input => 5,
            Self::NoSpace => 28,
            Self::TooManyFiles => 24,
            Self::ShortWrite | Self::Invalid => 22,
        })
    }
}

/// What becomes of writes past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectWrites {
    Taken,
    /// The file cannot be opened for them.
    RefusedAtOpen,
    /// The file can be opened, and cannot be written to.
    RefusedAtWrite,
}

/// How much of what was not synced is there after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashOutcome {
    Nothing,
    Everything,
    /// Any subset, torn at sectors.
    Some,
}

/// One call, for those who ask what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedCall {
    pub number: u64,
    pub call: Call,
    pub path: PathBuf,
    pub failed: Option<Failure>,
}

/// A clone is the same file system.
#[derive(Clone)]
pub struct SimulatedFiles {
    state: Arc<Mutex<State>>,
}

struct State {
    random: fastrand::Rng,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<PathBuf, Entry>,
    /// The names that survive a crash.
    synced_names: BTreeMap<PathBuf, Entry>,
    /// What was done to names since, in its order.
    unsynced_names: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    /// In pages.
    capacity: u64,
    used: u64,
    max_open_files: usize,
    open_files: usize,
    direct: DirectWrites,
    has_holes: bool,
    /// Of reads that ask for what is in memory, how many in a hundred find it.
    cached_percent: u8,
    calls: u64,
    failures: BTreeMap<u64, Failure>,
    /// Every read of this file fails.
    unreadable: Option<PathBuf>,
    crash_at: Option<u64>,
    /// Nothing reaches the disk any more.
    has_crashed: bool,
    trace: Option<Vec<TracedCall>>,
    work: VecDeque<BlockingWork>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Directory,
    File(u64),
}

/// Happens as a whole or not at all.
struct NameChange {
    /// The directories that have to be synced. One is enough, for names never move between directories.
    directory: PathBuf,
    names: Vec<(PathBuf, Option<Entry>)>,
}

#[derive(Default)]
struct Inode {
    content: Content,
    synced: Content,
    /// What was done since the last sync, in its order.
    unsynced: Vec<Change>,
    handles: usize,
    links: usize,
}

struct SimulatedFile {
    files: SimulatedFiles,
    inode: u64,
    path: PathBuf,
    write: bool,
    direct: bool,
}

struct SimulatedLock {
    files: SimulatedFiles,
    path: PathBuf,
}

impl Lock for SimulatedLock {}

impl SimulatedFiles {
    /// An empty disk without limits on which nothing fails.
    pub fn new(seed: u64) -> Self {
        let root = BTreeMap::from([(PathBuf::from("/"), Entry::Directory)]);
        Self::from_state(State {
            random: fastrand::Rng::with_seed(seed),
            inodes: BTreeMap::new(),
            next_inode: 1,
            names: root.clone(),
            synced_names: root,
            unsynced_names: Vec::new(),
            locked: BTreeSet::new(),
            capacity: u64::MAX / PAGE_BYTES,
            used: 0,
            max_open_files: usize::MAX,
            open_files: 0,
            direct: DirectWrites::Taken,
            has_holes: true,
            cached_percent: 100,
            calls: 0,
            failures: BTreeMap::new(),
            unreadable: None,
            crash_at: None,
            has_crashed: false,
            trace: None,
            work: VecDeque::new(),
        })
    }

    fn from_state(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The same settings and the same random numbers from here on, for other contents.
    fn with_names(state: &mut State, names: BTreeMap<PathBuf, Entry>, inodes: BTreeMap<u64, Inode>) -> Self {
        let used = inodes.values().map(|inode| inode.content.pages()).sum();
        Self::from_state(State {
            random: fastrand::Rng::with_seed(state.random.u64(..)),
            inodes,
            next_inode: state.next_inode,
            names: names.clone(),
            synced_names: names,
            unsynced_names: Vec::new(),
            locked: BTreeSet::new(),
            capacity: state.capacity,
            used,
            max_open_files: state.max_open_files,
            open_files: 0,
            direct: state.direct,
            has_holes: state.has_holes,
            cached_percent: state.cached_percent,
            calls: 0,
            failures: BTreeMap::new(),
            unreadable: None,
            crash_at: None,
            has_crashed: false,
            trace: None,
            work: VecDeque::new(),
        })
    }

    /// From now on every read of a file fails, as on a disk with bad sectors.
    pub fn set_unreadable(&self, path: Option<&Path>) {
        self.state().unreadable = path.map(Path::to_owned);
    }

    pub fn set_direct_writes(&self, direct: DirectWrites) {
        self.state().direct = direct;
    }

    /// Whether parts of files can be given back.
    pub fn set_holes(&self, has_holes: bool) {
        self.state().has_holes = has_holes;
    }

    /// How large the disk is. What is on it already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes / PAGE_BYTES;
    }

    pub fn set_max_open_files(&self, max: usize) {
        self.state().max_open_files = max;
    }

    pub fn set_cached_percent(&self, percent: u8) {
        self.state().cached_percent = percent;
    }

    pub fn open_files(&self) -> usize {
        self.state().open_files
    }

    /// Bytes on the disk, in whole pages.
    pub fn used_bytes(&self) -> u64 {
        self.state().used * PAGE_BYTES
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Makes the call with this number fail, if it can fail so. Calls are counted from 0.
    pub fn fail(&self, call: u64, failure: Failure) {
        self.state().failures.insert(call, failure);
    }

    /// Cancels the failures that were asked for.
    pub fn stop_failing(&self) {
        self.state().failures.clear();
    }

    /// From the call with this number on, nothing reaches the disk and every call fails.
    pub fn crash_at(&self, call: u64) {
        self.state().crash_at = Some(call);
    }

    pub fn has_crashed(&self) -> bool {
        self.state().has_crashed
    }

    /// From here on, calls are written down.
    pub fn start_trace(&self) {
        self.state().trace = Some(Vec::new());
    }

    pub fn trace(&self) -> Vec<TracedCall> {
        self.state().trace.clone().unwrap_or_default()
    }

    /// What the disk holds after the power failed just now. This one is of no use any more.
    pub fn crash(&self, outcome: CrashOutcome) -> Self {
        let mut state = self.state();
        let state = &mut *state;
        state.has_crashed = true;
        let mut names = std::mem::take(&mut state.synced_names);
        for change in std::mem::take(&mut state.unsynced_names) {
            if outcome.survives(&mut state.random) {
                names.extend_changes(change.names);
            }
        }
        drop_orphans(&mut names);
        let mut inodes = BTreeMap::new();
        for entry in names.values() {
            let Entry::File(number) = entry else { continue };
            let Some(inode) = state.inodes.get_mut(number) else { continue };
            let mut content = std::mem::take(&mut inode.synced);
            for change in inode.unsynced.drain(..) {
                change.apply_after_crash(&mut content, outcome, &mut state.random);
            }
            let kept = Inode { content: content.clone(), synced: content, links: 1, ..Inode::default() };
            inodes.insert(*number, kept);
        }
        Self::with_names(state, names, inodes)
    }

    /// What the next process finds after this one was killed: everything that was written, synced or not. Nothing that is left of the
    /// process that was killed reaches the disk any more. Calls are counted on, and those that were to fail still do.
    pub fn kill(&self) -> Self {
        let mut state = self.state();
        let unfinished = std::mem::take(&mut state.work);
        let (names, inodes) = (std::mem::take(&mut state.names), std::mem::take(&mut state.inodes));
        let after = Self::with_names(&mut state, names, BTreeMap::new());
        let mut next = after.state();
        next.inodes = inodes;
        next.inodes.values_mut().for_each(|inode| inode.handles = 0);
        let linked = next.inodes.values().filter(|inode| inode.links > 0);
        next.used = linked.map(|inode| inode.content.pages()).sum();
        next.synced_names = std::mem::take(&mut state.synced_names);
        next.unsynced_names = std::mem::take(&mut state.unsynced_names);
        next.calls = state.calls;
        next.failures = std::mem::take(&mut state.failures);
        next.trace = state.trace.take();
        state.has_crashed = true;
        drop((state, next));
        // Whatever it holds is closed, which asks for the lock.
        drop(unfinished);
        after
    }

    /// A disk with the same content, all of it synced, on which nothing fails.
    pub fn copy(&self) -> Self {
        let mut state = self.state();
        let names = state.names.clone();
        let mut inodes = BTreeMap::new();
        for entry in names.values() {
            let Entry::File(number) = entry else { continue };
            let content = &state.inodes[number].content;
            let copy =
                Inode { content: content.clone(), synced: content.clone(), links: 1, ..Inode::default() };
            inodes.insert(*number, copy);
        }
        Self::with_names(&mut state, names, inodes)
    }

    /// Every file and how long it is, in the order of their names.
    pub fn list(&self) -> Vec<(PathBuf, u64)> {
        let state = self.state();
        let length = |entry: &Entry| match entry {
            Entry::Directory => None,
            Entry::File(inode) => Some(state.inodes[inode].content.length()),
        };
        let listed = state.names.iter().filter_map(|(path, entry)| Some((path.clone(), length(entry)?)));
        listed.collect()
    }

    pub fn directories(&self) -> Vec<PathBuf> {
        let state = self.state();
        let directories = state.names.iter().filter(|(_, entry)| **entry == Entry::Directory);
        directories.map(|(path, _)| path.clone()).collect()
    }

    /// Flips one bit of what is on the disk. Nothing is on it where there is a hole.
    pub fn flip_bit(&self, path: &Path, offset: u64, bit: u8) {
        let mut state = self.state();
        let Some(Entry::File(inode)) = state.names.get(path).copied() else { return };
        if let Some(inode) = state.inodes.get_mut(&inode) {
            let mut byte = [0];
            inode.content.read(&mut byte, offset);
            byte[0] ^= 1 << (bit % 8);
            if Change::Write(offset, byte.into()).new_pages(&inode.content) > 0 {
                return;
            }
            inode.content.write(&byte, offset);
            inode.synced.write(&byte, offset);
        }
    }

    /// Takes a file away, or a directory with everything in it, as an accident would.
    pub fn lose(&self, path: &Path) {
        let mut state = self.state();
        let lost: Vec<PathBuf> = state.names.keys().filter(|name| name.starts_with(path)).cloned().collect();
        for name in lost {
            state.names.remove(&name);
            state.synced_names.remove(&name);
        }
    }

    /// Does the oldest work of those that wait for a thread. `false`: there is none.
    pub fn run_blocking(&self) -> bool {
        let work = self.state().work.pop_front();
        work.map(|work| work()).is_some()
    }

    /// Polls a future to its end, and does work for a thread whenever it waits.
    pub fn complete<F: Future>(&self, future: F) -> F::Output {
        // The runtime, if there is one, must not make it wait for the sake of others.
        let mut future = std::pin::pin!(tokio::task::unconstrained(future));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return output;
            }
            assert!(self.run_blocking(), "there is nothing that it could wait for");
        }
    }

    /// How much work waits for a thread.
    pub fn waiting_work(&self) -> usize {
        self.state().work.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CrashOutcome {
    fn survives(self, random: &mut fastrand::Rng) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Some => random.bool(),
        }
    }
}

trait Names {
    fn extend_changes(&mut self, changes: Vec<(PathBuf, Option<Entry>)>);
}

impl Names for BTreeMap<PathBuf, Entry> {
    fn extend_changes(&mut self, changes: Vec<(PathBuf, Option<Entry>)>) {
        for (path, entry) in changes {
            match entry {
                Some(entry) => drop(self.insert(path, entry)),
                None => drop(self.remove(&path)),
            }
        }
    }
}

/// What lies in a directory that is not there is not there either.
fn drop_orphans(names: &mut BTreeMap<PathBuf, Entry>) {
    let mut kept = BTreeMap::new();
    // Parents come before what is in them.
    for (path, entry) in std::mem::take(names) {
        let has_parent = path.parent().is_none_or(|parent| kept.get(parent) == Some(&Entry::Directory));
        if has_parent {
            kept.insert(path, entry);
        }
    }
    *names = kept;
}

impl State {
    /// Counts a call, and lets it fail if it is to. `Some`: in this way, which does not fail at once.
    fn enter(&mut self, call: Call, path: &Path) -> io::Result<Option<Failure>> {
        let number = self.calls;
        self.calls += 1;
        if self.crash_at.is_some_and(|crash| number >= crash) {
            self.has_crashed = true;
        }
        if self.has_crashed {
            return Err(io::Error::other("the machine has crashed"));
        }
        let is_unreadable = call == Call::Read && self.unreadable.as_deref() == Some(path);
        let failed = self.failures.remove(&number).filter(|failure| failure.fits(call));
        let failed = failed.or(is_unreadable.then_some(Failure::Input));
        if let Some(trace) = &mut self.trace {
            trace.push(TracedCall { number, call, path: path.to_owned(), failed });
        }
        match failed {
            Some(failure) if matches!(call, Call::Write | Call::DirectWrite | Call::Sync) => {
                Ok(Some(failure))
            }
            Some(failure) => Err(failure.error()),
            None => Ok(None),
        }
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Entry::File(inode)) => Ok(*inode),
            Some(Entry::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn check_directory(&self, path: Option<&Path>) -> io::Result<()> {
        match path.map(|path| self.names.get(path)) {
            None | Some(Some(Entry::Directory)) => Ok(()),
            Some(Some(Entry::File(_))) => Err(io::ErrorKind::NotADirectory.into()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn change_names(&mut self, directory: &Path, names: Vec<(PathBuf, Option<Entry>)>) {
        for (path, entry) in &names {
            if let Some(Entry::File(inode)) = entry {
                self.inodes.entry(*inode).or_default().links += 1;
            }
            let before = match entry {
                Some(entry) => self.names.insert(path.clone(), *entry),
                None => self.names.remove(path),
            };
            if let Some(Entry::File(inode)) = before {
                self.inodes.entry(inode).or_default().links -= 1;
                self.release(inode);
            }
        }
        self.unsynced_names.push(NameChange { directory: directory.to_owned(), names });
    }

    /// Gives back the space of a file that cannot be reached.
    fn release(&mut self, inode: u64) {
        let inode = self.inodes.get(&inode).filter(|inode| inode.links == 0 && inode.handles == 0);
        self.used -= inode.map_or(0, |inode| inode.content.pages());
    }

    /// Changes a file, if there is space for that.
    fn change(&mut self, inode: u64, change: Change) -> io::Result<()> {
        let inode = self.inodes.get_mut(&inode).ok_or(io::ErrorKind::NotFound)?;
        let before = inode.content.pages();
        let needed = change.new_pages(&inode.content);
        if needed > 0 && self.used + needed > self.capacity {
            return Err(Failure::NoSpace.error());
        }
        change.apply(&mut inode.content);
        self.used = self.used + inode.content.pages() - before;
        inode.unsynced.push(change);
        Ok(())
    }

    fn open_handle(&mut self) -> io::Result<()> {
        if self.open_files >= self.max_open_files {
            return Err(Failure::TooManyFiles.error());
        }
        self.open_files += 1;
        Ok(())
    }
}

impl FileSystem for SimulatedFiles {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        let is_there = state.names.contains_key(path);
        let creates = options.create != Create::No && !is_there;
        state.enter(if creates { Call::Create } else { Call::Open }, path)?;
        if options.direct && state.direct == DirectWrites::RefusedAtOpen {
            return Err(Failure::Invalid.error());
        }
        if is_there && options.create == Create::New {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if state.open_files >= state.max_open_files {
            return Err(Failure::TooManyFiles.error());
        }
        let inode = if creates {
            state.check_directory(path.parent())?;
            let number = state.next_inode;
            state.next_inode += 1;
            let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
            state.change_names(&directory, vec![(path.to_owned(), Some(Entry::File(number)))]);
            number
        } else {
            let inode = state.file(path)?;
            if options.create == Create::Truncate {
                state.change(inode, Change::SetLength(0))?;
            }
            inode
        };
        state.open_handle()?;
        state.inodes.entry(inode).or_default().handles += 1;
        let OpenOptions { write, direct, .. } = options;
        Ok(Box::new(SimulatedFile { files: self.clone(), inode, path: path.to_owned(), write, direct }))
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::CreateDirectory, path)?;
        match state.names.get(path) {
            Some(Entry::Directory) => return Ok(()),
            Some(Entry::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            None => {}
        }
        state.check_directory(path.parent())?;
        let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
        state.change_names(&parent, vec![(path.to_owned(), Some(Entry::Directory))]);
        Ok(())
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.state();
        state.enter(Call::Names, directory)?;
        state.check_directory(Some(directory))?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name().map(OsString::from)).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.state();
        state.enter(Call::Exists, path)?;
        Ok(state.names.contains_key(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::Rename, from)?;
        let inode = state.file(from)?;
        let directory = to.parent().unwrap_or(Path::new("/")).to_owned();
        if from.parent() != to.parent() {
            return Err(io::Error::other("the simulation renames within a directory only"));
        }
        let names = vec![(to.to_owned(), Some(Entry::File(inode))), (from.to_owned(), None)];
        state.change_names(&directory, names);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::Remove, path)?;
        state.file(path)?;
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        state.change_names(&directory, vec![(path.to_owned(), None)]);
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.enter(Call::SyncDirectory, path)?;
        state.check_directory(Some(path))?;
        if state.open_files >= state.max_open_files {
            return Err(Failure::TooManyFiles.error());
        }
        let (synced, left): (Vec<_>, Vec<_>) = std::mem::take(&mut state.unsynced_names)
            .into_iter()
            .partition(|change| change.directory == path);
        state.unsynced_names = left;
        for change in synced {
            state.synced_names.extend_changes(change.names);
        }
        Ok(())
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let mut state = self.state();
        state.enter(Call::FreeSpace, path)?;
        Ok(state.capacity.saturating_sub(state.used) * PAGE_BYTES)
    }

    fn total_space(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut state = self.state();
        state.enter(Call::FreeSpace, path)?;
        Ok(Some(state.capacity * PAGE_BYTES))
    }

    fn file_size(&self, path: &Path) -> io::Result<FileSize> {
        let mut state = self.state();
        state.enter(Call::Length, path)?;
        let inode = state.file(path)?;
        let content = &state.inodes[&inode].content;
        Ok(FileSize { length: content.length(), allocated: content.pages() * PAGE_BYTES })
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, LockError> {
        // The file itself does not matter.
        let mut state = self.state();
        state.enter(Call::Lock, path).map_err(LockError::Failed)?;
        state.check_directory(path.parent()).map_err(LockError::Failed)?;
        match state.locked.insert(path.to_owned()) {
            true => Ok(Box::new(SimulatedLock { files: self.clone(), path: path.to_owned() })),
            false => Err(LockError::Taken),
        }
    }

    /// Waits until [`SimulatedFiles::run_blocking`].
    fn spawn_blocking(&self, work: BlockingWork) {
        let has_crashed = self.state().has_crashed;
        // After a crash it has no effect; it only has to end.
        if has_crashed { work() } else { self.state().work.push_back(work) }
    }
}

impl SimulatedFile {
    fn with<T>(&self, call: Call, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.files.state();
        state.enter(call, &self.path)?;
        act(&mut state)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.files.state();
        let state = &mut *state;
        let failure = state.enter(Call::Sync, &self.path)?;
        let Some(inode) = state.inodes.get_mut(&self.inode) else { return Ok(()) };
        let changes = std::mem::take(&mut inode.unsynced);
        match failure {
            None => changes.iter().for_each(|change| change.apply(&mut inode.synced)),
            // Some of it is on the disk, and the rest is never written.
            Some(_) => changes.into_iter().for_each(|change| {
                change.apply_after_crash(&mut inode.synced, CrashOutcome::Some, &mut state.random);
            }),
        }
        failure.map_or(Ok(()), |failure| Err(failure.error()))
    }
}

impl File for SimulatedFile {
    fn length(&self) -> io::Result<u64> {
        self.with(Call::Length, |state| Ok(state.inodes[&self.inode].content.length()))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.with(Call::Read, |state| Ok(state.inodes[&self.inode].content.read(buffer, offset)))
    }

    fn read_cached_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        self.with(Call::Read, |state| {
            let is_cached = state.random.u8(..100) < state.cached_percent;
            Ok(is_cached && state.inodes[&self.inode].content.read(buffer, offset) == buffer.len())
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.files.state();
        let call = if self.direct { Call::DirectWrite } else { Call::Write };
        let failure = state.enter(call, &self.path)?;
        if !self.write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if self.direct {
            let is_aligned = |number: u64| number.is_multiple_of(SECTOR_BYTES);
            let aligned = is_aligned(offset)
                && is_aligned(bytes.len() as u64)
                && bytes.as_ptr().align_offset(SECTOR_BYTES as usize) == 0;
            if !aligned || state.direct == DirectWrites::RefusedAtWrite {
                return Err(Failure::Invalid.error());
            }
        }
        let written = match failure {
            None => bytes.len(),
            Some(Failure::ShortWrite | Failure::Input) => {
                let sectors = bytes.len() as u64 / SECTOR_BYTES;
                (state.random.u64(..=sectors) * SECTOR_BYTES) as usize
            }
            Some(_) => 0,
        };
        // A short write that takes nothing would be an end of the file.
        let written =
            if failure == Some(Failure::ShortWrite) { written.max(bytes.len().min(1)) } else { written };
        // Past the page cache only whole sectors are written.
        let written = match self.direct {
            true if failure == Some(Failure::ShortWrite) => {
                written.next_multiple_of(SECTOR_BYTES as usize).min(bytes.len())
            }
            _ => written,
        };
        if written > 0 {
            state.change(self.inode, Change::Write(offset, bytes[..written].into()))?;
        }
        match failure {
            None | Some(Failure::ShortWrite) => Ok(written),
            Some(failure) => Err(failure.error()),
        }
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.with(Call::SetLength, |state| state.change(self.inode, Change::SetLength(length)))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn punch_hole(&self, range: Range<u64>) -> io::Result<bool> {
        self.with(Call::Punch, |state| match state.has_holes {
            true => state.change(self.inode, Change::Punch(range)).map(|()| true),
            false => Ok(false),
        })
    }

    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        self.with(Call::NextData, |state| Ok(state.inodes[&self.inode].content.next_data(from)))
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut state = self.files.state();
        state.open_files -= 1;
        if let Some(inode) = state.inodes.get_mut(&self.inode) {
            inode.handles -= 1;
        }
        state.release(self.inode);
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.files.state().locked.remove(&self.path);
    }
}

#[cfg(test)]
mod tests;
