//! A store on a simulated file system and its clients, whose steps follow from a seed.

use crate::case::{Case, OUTCOMES, Trouble};
use crate::model::{Content, Fate, Known, Model};
use bytes::Bytes;
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tepui_files::{CrashOutcome, DirectWrites, FileSystem, SimulatedFiles, TracedCall};
use tepui_local::check::check_extents;
use tepui_local::{DiskExtents, ExtentsOptions};
use tepui_storage::{Extent, ExtentWriter, Extents, StorageError, StorageErrorKind};

/// How many things are done in a run.
pub(crate) const STEPS: usize = 150;

const FOLDER: &str = "/data/extents";
const NO_LIMIT: u64 = 1 << 50;

/// What a run came to.
pub(crate) struct Report {
    /// How many calls there were before the end of the run, where everything is checked.
    pub(crate) calls: u64,
    pub(crate) trace: Vec<TracedCall>,
    pub(crate) crashes: u64,
    pub(crate) kept: usize,
}

pub(crate) struct World {
    case: Case,
    files: SimulatedFiles,
    /// `None` between two lives.
    extents: Option<DiskExtents>,
    settings: Settings,
    random: fastrand::Rng,
    actors: Vec<Actor>,
    model: Model,
    /// Finished, and not unpinned yet.
    pinned: Vec<Extent>,
    /// Whether every extent of this life is accounted for.
    is_all_known: bool,
    /// Whether calls may have failed: what could not be sealed then is left for the next life.
    had_trouble: bool,
    crashes: u64,
    is_verbose: bool,
}

/// What is the same for all lives of a world.
struct Settings {
    volume_bytes: u64,
    direct: bool,
    reserve_bytes: u64,
    has_holes: bool,
}

struct Actor {
    name: String,
    is_sweep: bool,
    future: Pin<Box<dyn Future<Output = Outcome>>>,
}

enum Outcome {
    Wrote(Content, Result<Extent, StorageError>),
    Read {
        which: usize,
        range: Range<u64>,
        began: Fate,
        expired: bool,
        found: Result<Vec<Bytes>, StorageError>,
    },
    Freed(Vec<usize>, Result<(), StorageError>),
    Swept(u64, Result<(), StorageError>),
}

impl World {
    pub(crate) fn new(case: Case, is_verbose: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(case.seed);
        let files = SimulatedFiles::new(random.u64(..));
        tepui_files::create_directories(&files, Path::new("/data")).expect("nothing fails yet");
        let direct = [DirectWrites::Taken, DirectWrites::RefusedAtOpen, DirectWrites::RefusedAtWrite];
        files.set_direct_writes(if random.bool() { direct[0] } else { direct[random.usize(..3)] });
        files.set_cached_percent([0, 50, 100][random.usize(..3)]);
        files.set_capacity(NO_LIMIT);
        let settings = Settings {
            volume_bytes: [1 << 30, 400_000, 50_000][random.usize(..3)],
            direct: random.u8(..4) > 0,
            reserve_bytes: if random.bool() { 0 } else { 100_000 },
            has_holes: random.u8(..8) > 0,
        };
        files.set_holes(settings.has_holes);
        match case.trouble {
            Trouble::Fail { call, count, failure } => {
                (call..call + count).for_each(|call| files.fail(call, failure));
            }
            Trouble::Crash { call, .. } => files.crash_at(call),
            _ => {}
        }
        Self {
            case,
            files,
            extents: None,
            settings,
            random,
            actors: Vec::new(),
            model: Model::default(),
            pinned: Vec::new(),
            is_all_known: true,
            had_trouble: !matches!(case.trouble, Trouble::None | Trouble::Damage(_)),
            crashes: 0,
            is_verbose,
        }
    }

    pub(crate) async fn run(mut self) -> Report {
        self.files.start_trace();
        let mut steps = 0;
        while steps < STEPS && !(self.crashes > 0 && matches!(self.case.trouble, Trouble::Crash { .. })) {
            if let Trouble::Full { step, pages } = self.case.trouble
                && step == steps
            {
                self.say(&format!("{pages} pages are free"));
                self.files.set_capacity(self.files.used_bytes() + pages * 4096);
            }
            if self.case.trouble == Trouble::Crashes && self.random.usize(..STEPS / 3) == 0 {
                let after = self.random.u64(..12);
                self.files.crash_at(self.files.calls() + after);
            }
            self.step().await;
            if self.files.has_crashed() {
                let outcome = match self.case.trouble {
                    Trouble::Crash { outcome, .. } => outcome,
                    _ => OUTCOMES[self.random.usize(..3)],
                };
                self.say(&format!("crash: {outcome:?}"));
                self.crash(self.files.crash(outcome));
            }
            steps += 1;
        }
        let (calls, trace) = (self.files.calls(), self.files.trace());
        match self.case.trouble {
            // Half of them with the volumes that a crash has left unsealed.
            Trouble::Damage(which) if which % 8 >= 4 => {
                self.crash(self.files.crash(CrashOutcome::Some));
                self.damage(which);
            }
            Trouble::Damage(which) => {
                self.end();
                self.damage(which);
            }
            _ => self.end(),
        }
        Report { calls, trace, crashes: self.crashes, kept: self.model.all(Fate::Kept).len() }
    }

    fn say(&self, what: &str) {
        if self.is_verbose {
            println!("{:5} {what}", self.files.calls());
        }
    }

    fn may_fail(&self) -> bool {
        matches!(self.case.trouble, Trouble::Fail { .. }) || self.files.has_crashed()
    }

    /// One thing that happens.
    async fn step(&mut self) {
        let Some(extents) = self.extents.clone() else { return self.open() };
        match self.random.u8(..100) {
            0..15 => self.begin_to_write(&extents),
            15..25 => self.begin_to_read(&extents),
            25..33 => self.begin_to_free(&extents),
            33..36 => self.begin_to_sweep(&extents),
            36..41 => {
                if !self.pinned.is_empty() {
                    let extent = self.pinned.swap_remove(self.random.usize(..self.pinned.len()));
                    self.say(&format!("unpin {extent:?}"));
                    extents.unpin(extent);
                }
            }
            41..43 => {
                if !self.actors.is_empty() {
                    let at = self.random.usize(..self.actors.len());
                    if !self.actors[at].is_sweep {
                        let actor = self.actors.swap_remove(at);
                        self.say(&format!("drop: {}", actor.name));
                    }
                }
            }
            43..45 => {
                drop(extents);
                self.close();
            }
            45 => tokio::time::advance(Duration::from_secs(40)).await,
            46..75 => {
                if !self.actors.is_empty() {
                    let at = self.random.usize(..self.actors.len());
                    self.poll(at);
                }
            }
            _ => drop(self.files.run_blocking()),
        }
    }

    fn open(&mut self) {
        let options = ExtentsOptions {
            files: Arc::new(self.files.clone()),
            volume_bytes: self.settings.volume_bytes,
            direct: self.settings.direct,
            sync_step_bytes: 200_000,
            free_space_reserve_bytes: self.settings.reserve_bytes,
            writer_timeout: Duration::ZERO,
            number_seed: Some(self.random.u64(..)),
            ..ExtentsOptions::new(FOLDER)
        };
        match DiskExtents::open(options) {
            Ok(extents) => {
                self.say(&format!("opened; unsealed: {:?}", extents.unsealed_volumes()));
                self.extents = Some(extents);
                self.is_all_known = true;
            }
            Err(error) => {
                self.say(&format!("cannot open: {error}"));
                assert!(self.may_fail(), "cannot open: {error}");
            }
        }
    }

    fn begin(&mut self, name: String, future: impl Future<Output = Outcome> + 'static) {
        self.say(&name);
        let is_sweep = name.starts_with("sweep");
        self.actors.push(Actor { name, is_sweep, future: Box::pin(tokio::task::unconstrained(future)) });
    }

    fn begin_to_write(&mut self, extents: &DiskExtents) {
        let content = Content::random(&mut self.random);
        let piece = self.random.usize(1000..500_000);
        let extents = extents.clone();
        self.begin(format!("write {content:?} in pieces of {piece}"), async move {
            Outcome::Wrote(content, write(&extents, content.bytes(), piece).await)
        });
    }

    fn begin_to_read(&mut self, extents: &DiskExtents) {
        if self.model.extents.is_empty() {
            return;
        }
        // Before looking up what to read.
        let reading = extents.read_guard();
        let which = self.random.usize(..self.model.extents.len());
        let (extent, began) = (self.model.extents[which].extent, self.model.extents[which].fate);
        let (one, other) = (self.random.u64(..=extent.bytes), self.random.u64(..=extent.bytes));
        let range = if self.random.bool() { 0..extent.bytes } else { one.min(other)..one.max(other) };
        let extents = extents.clone();
        self.begin(format!("read {range:?} of {extent:?}, {began:?}"), async move {
            let found = extents.read(extent, range.clone()).await;
            Outcome::Read { which, range, began, expired: extents.expired(&reading), found }
        });
    }

    fn begin_to_free(&mut self, extents: &DiskExtents) {
        for _ in 0..self.random.usize(..4) {
            let kept = self.model.all(Fate::Kept);
            if !kept.is_empty() {
                self.model.extents[kept[self.random.usize(..kept.len())]].fate = Fate::GivenUp;
            }
        }
        let freed = self.model.all(Fate::GivenUp);
        let places: Vec<Extent> = freed.iter().map(|which| self.model.extents[*which].extent).collect();
        let extents = extents.clone();
        self.begin(format!("free {places:?}"), async move {
            extents.wait_for_readers().await;
            let outcome = extents.free(places).await;
            Outcome::Freed(freed, outcome)
        });
    }

    fn begin_to_sweep(&mut self, extents: &DiskExtents) {
        // One at a time: references may be given up between two of them.
        if self.actors.iter().any(|actor| actor.is_sweep) {
            return;
        }
        for volume in extents.unsealed_volumes() {
            let kept = self.model.kept_in(volume);
            let extents = extents.clone();
            self.begin(format!("sweep {volume}, keep {kept:?}"), async move {
                Outcome::Swept(volume, extents.sweep(volume, kept).await)
            });
        }
    }

    fn poll(&mut self, at: usize) {
        let polled = self.actors[at].future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(outcome) = polled {
            let actor = self.actors.swap_remove(at);
            self.learn(&actor.name, outcome);
        }
    }

    /// Compares an outcome with what must be.
    fn learn(&mut self, name: &str, outcome: Outcome) {
        let is_full = matches!(self.case.trouble, Trouble::Full { .. });
        match outcome {
            Outcome::Wrote(content, Ok(extent)) => {
                self.say(&format!("  wrote {extent:?}"));
                // Some get no reference.
                let fate = match self.random.u8(..16) {
                    0 => Fate::Forgotten,
                    1 => Fate::GivenUp,
                    _ => Fate::Kept,
                };
                self.model.add(extent, content, fate);
                let is_unpinned = self.random.bool();
                match fate {
                    Fate::Forgotten => self.is_all_known = false,
                    Fate::Kept if is_unpinned => {
                        self.extents.iter().for_each(|extents| extents.unpin(extent));
                    }
                    _ => self.pinned.push(extent),
                }
            }
            Outcome::Wrote(_, Err(error)) => {
                self.say(&format!("  {name}: {error}"));
                let is_known = is_full && error.kind() == StorageErrorKind::NoSpace;
                let is_known = is_known || (self.may_fail() && error.kind() != StorageErrorKind::Corrupt);
                assert!(is_known || self.is_closed(&error), "{name}: {error}");
            }
            Outcome::Read { which, range, began, expired, found } => {
                let known = &self.model.extents[which];
                match found {
                    Ok(found) => {
                        assert!(found.concat() == known.bytes(range.clone()), "{name}: other bytes");
                        assert!(
                            began != Fate::Freed || range.is_empty() || !self.settings.has_holes,
                            "{name}: it was freed"
                        );
                    }
                    Err(what) if what.kind() == StorageErrorKind::Corrupt => {
                        assert!(began != Fate::Kept || expired, "{name}: lost: {what}");
                    }
                    Err(error) => assert!(self.may_fail(), "{name}: {error}"),
                }
            }
            Outcome::Freed(freed, Ok(())) => {
                freed.into_iter().for_each(|which| self.model.extents[which].fate = Fate::Freed);
            }
            // Freeing needs no space.
            Outcome::Freed(_, Err(error)) | Outcome::Swept(_, Err(error)) => {
                self.say(&format!("  {name}: {error}"));
                let is_swept_twice = error.to_string().contains("not an unsealed volume");
                let is_corrupt = error.kind() == StorageErrorKind::Corrupt;
                match self.case.trouble {
                    // A sweep that would lose something is refused.
                    Trouble::Damage(_) => assert!(is_corrupt || is_swept_twice, "{name}: {error}"),
                    _ => assert!((self.may_fail() || is_swept_twice) && !is_corrupt, "{name}: {error}"),
                }
            }
            Outcome::Swept(volume, Ok(())) => self.say(&format!("  swept {volume}")),
        }
    }

    fn is_closed(&self, error: &StorageError) -> bool {
        error.to_string().contains("closed")
    }

    /// Ends a life as a server does.
    fn close(&mut self) {
        self.say("close");
        if self.random.bool() {
            self.actors.clear();
        }
        self.drain();
        self.actors.clear();
        self.drain();
        if let Some(extents) = self.extents.take() {
            if self.random.bool() {
                self.pinned.drain(..).for_each(|extent| extents.unpin(extent));
                while self.files.run_blocking() {}
            }
            let is_clean = !self.had_trouble && self.is_all_known && self.pinned.is_empty();
            let is_clean = is_clean && extents.unsealed_volumes().is_empty();
            extents.close();
            let is_open = |(path, _): &(PathBuf, u64)| path.extension().is_some();
            assert!(!(is_clean && self.files.list().iter().any(is_open)), "a volume was not sealed");
        }
        self.pinned.clear();
        assert_eq!(self.files.open_files(), 0, "no file is kept open");
    }

    /// Lets everything end that was begun.
    fn drain(&mut self) {
        for _ in 0..20_000 {
            for at in (0..self.actors.len()).rev() {
                self.poll(at);
            }
            if !self.files.run_blocking() && self.actors.is_empty() {
                return;
            }
        }
        panic!("these never end: {:?}", self.actors.iter().map(|actor| &actor.name).collect::<Vec<_>>());
    }

    /// Goes on with what a crash has left.
    fn crash(&mut self, files: SimulatedFiles) {
        self.crashes += 1;
        self.actors.clear();
        while self.files.run_blocking() {}
        self.extents = None;
        self.pinned.clear();
        self.files = files;
    }

    /// The end of every run: whatever went wrong before goes right now, and everything is looked at.
    fn end(&mut self) {
        self.say("the end begins");
        self.files.stop_failing();
        self.files.crash_at(u64::MAX);
        self.files.set_capacity(NO_LIMIT);
        self.drain();
        self.case.trouble = match self.case.trouble {
            Trouble::Damage(which) => Trouble::Damage(which),
            _ => Trouble::None,
        };
        if self.extents.is_none() {
            self.open();
        }
        self.check_kept();
        self.check_writes();
        if self.random.bool() {
            // What could not be swept before can be swept now.
            let extents = self.extents.clone().expect("it is open");
            self.begin_to_sweep(&extents);
            self.drain();
            assert_eq!(extents.unsealed_volumes(), []);
        }
        match self.random.bool() {
            true => self.close(),
            false => self.crash(self.files.crash(CrashOutcome::Nothing)),
        }
        self.open();
        let extents = self.extents.clone().expect("it is open");
        self.check_kept();
        self.begin_to_sweep(&extents);
        self.drain();
        assert_eq!(extents.unsealed_volumes(), []);
        for which in self.model.all(Fate::Forgotten) {
            self.model.extents[which].fate = Fate::Freed;
        }
        let given_up = self.model.all(Fate::GivenUp);
        let places = given_up.iter().map(|which| self.model.extents[*which].extent).collect();
        self.files.complete(extents.free(places)).expect("extents can be freed");
        given_up.into_iter().for_each(|which| self.model.extents[which].fate = Fate::Freed);
        self.drain();
        self.check_kept();
        self.check_freed();
        self.check_space();
        drop(extents);
        self.close();
    }

    fn check_kept(&mut self) {
        let extents = self.extents.clone().expect("it is open");
        for which in self.model.all(Fate::Kept) {
            let known = &self.model.extents[which];
            let found = self.files.complete(extents.read(known.extent, 0..known.extent.bytes));
            let is_right = matches!(&found, Ok(found) if found.concat() == known.content.bytes());
            assert!(is_right, "{:?} is lost: {:?}", known.extent, found.map(|_| "other bytes"));
        }
    }

    fn check_freed(&mut self) {
        let extents = self.extents.clone().expect("it is open");
        for which in self.model.all(Fate::Freed) {
            let known = &self.model.extents[which];
            let found = self.files.complete(extents.read(known.extent, 0..known.extent.bytes));
            let is_gone = matches!(&found, Err(error) if error.kind() == StorageErrorKind::Corrupt);
            assert!(
                is_gone || known.extent.bytes == 0 || !self.settings.has_holes,
                "{:?} is freed and there: {:?}",
                known.extent,
                found.map(|_| "bytes")
            );
        }
    }

    /// Whatever happened before, something can be written.
    fn check_writes(&mut self) {
        let extents = self.extents.clone().expect("it is open");
        for _ in 0..2 {
            let content = Content::random(&mut self.random);
            let written = self.files.complete(write(&extents, content.bytes(), 300_000));
            self.learn("write in the end", Outcome::Wrote(content, written));
        }
    }

    /// Nothing takes space that is not kept, and there is no file without something kept in it but the newest.
    fn check_space(&self) {
        let listed = self.files.list();
        let volumes: Vec<u64> = listed
            .iter()
            .map(|(path, _)| path.file_name().and_then(|name| name.to_str()).unwrap_or_default())
            .map(|name| name.parse().unwrap_or_else(|_| panic!("every volume is sealed: {name}")))
            .collect();
        if !self.settings.has_holes {
            return;
        }
        assert_eq!(self.files.used_bytes(), self.model.needed_bytes(), "{listed:?}");
        let newest = volumes.iter().max();
        for volume in &volumes {
            let is_needed = !self.model.kept_in(*volume).is_empty() || Some(volume) == newest;
            assert!(is_needed, "volume {volume} is not needed: {listed:?}");
        }
    }

    /// How many of the extents that are kept an offline check finds damaged. But for empty ones, which are read without the disk.
    fn check_offline(&self) -> usize {
        let is_checked = |known: &&Known| known.fate == Fate::Kept && known.extent.bytes > 0;
        let kept = self.model.extents.iter().filter(is_checked);
        let mut kept: Vec<Extent> = kept.map(|known| known.extent).collect();
        kept.sort_unstable();
        let files: Arc<dyn FileSystem> = Arc::new(self.files.copy());
        if !files.exists(Path::new(FOLDER)).expect("nothing fails") {
            return kept.len();
        }
        let mut damages = 0;
        check_extents(&files, Path::new(FOLDER), kept.into_iter(), &mut |_| damages += 1)
            .expect("nothing fails");
        damages
    }

    /// Flips a bit or takes something away. Reads are right or say that something is wrong; what is written afterwards is never
    /// taken for what was lost.
    fn damage(&mut self, which: u64) {
        let mut random = fastrand::Rng::with_seed(which);
        self.files = self.files.copy();
        assert_eq!(self.check_offline(), 0, "damages of a healthy folder");
        let listed = self.files.list();
        let Some((path, length)) = random.choice(&listed).cloned() else { return };
        match which % 4 {
            0 => {
                self.say("the folder is lost");
                self.files.lose(Path::new(FOLDER));
            }
            1 => {
                let number = |(path, _): &&(PathBuf, u64)| {
                    path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok())
                };
                let (path, _) = listed.iter().max_by_key(number).expect("there is a volume");
                self.say(&format!("{} is lost", path.display()));
                self.files.lose(path);
            }
            2 => {
                self.say(&format!("{} is lost", path.display()));
                self.files.lose(&path);
            }
            _ if length > 0 => {
                let (offset, bit) = (random.u64(..length), random.u8(..8));
                self.say(&format!("{}: bit {bit} of byte {offset} is flipped", path.display()));
                self.files.flip_bit(&path, offset, bit);
            }
            _ => return,
        }
        let mut found = Some(self.check_offline());
        for _ in 0..2 {
            self.open();
            let extents = self.extents.clone().expect("it is open");
            self.begin_to_sweep(&extents);
            self.drain();
            let mut wrong = 0;
            for known in &self.model.extents {
                match self.files.complete(extents.read(known.extent, 0..known.extent.bytes)) {
                    Ok(found) => {
                        assert!(found.concat() == known.content.bytes(), "{:?}: other bytes", known.extent)
                    }
                    Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                        wrong += usize::from(known.fate == Fate::Kept)
                    }
                    Err(error) => panic!("{:?}: {error}", known.extent),
                }
            }
            if let Some(found) = found.take() {
                assert_eq!(found, wrong, "an offline check finds the same");
            }
            if which % 4 == 3 {
                assert!(wrong <= 1, "one bit was flipped, {wrong} extents are wrong");
            }
            // As many volumes as there were, with extents of the same lengths.
            let lengths: Vec<Content> = self.model.extents.iter().map(|known| known.content).collect();
            for old in lengths {
                let content = Content::of_length(&mut self.random, old.length);
                let written = self.files.complete(write(&extents, content.bytes(), 300_000));
                let extent = written.expect("an extent can be written");
                self.model.add(extent, content, Fate::Kept);
                extents.unpin(extent);
            }
            drop(extents);
            self.close();
        }
    }
}

async fn write(extents: &DiskExtents, mut bytes: Bytes, piece: usize) -> Result<Extent, StorageError> {
    let mut writer = extents.begin().await?;
    while !bytes.is_empty() {
        writer.write(bytes.split_to(piece.min(bytes.len()))).await?;
    }
    writer.finish().await
}
