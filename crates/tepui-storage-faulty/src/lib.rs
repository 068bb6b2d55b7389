//! An engine and extents for tests, around any others: they do all that the contracts allow and a single process on a local
//! disk hardly ever does. Every call waits at random, or is refused for now; scans end early; commits conflict without a
//! reason, or with an outcome that is unknown, and then have happened, never happen, or happen some time later; transactions
//! become too old; extents are finished, but nobody is told where they are.
//!
//! What happens is decided by a seed, which is printed, so that a failing test shows it, and can be given by the environment
//! variable `TEPUI_FAULT_SEED`. Tasks of one thread then take the same course again.

mod engine;
mod extents;
mod late;

pub use engine::{Faulty, FaultyEngine};
pub use extents::{FaultyExtents, FaultyWriter};

use parking_lot::Mutex;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tepui_storage::{Commit, StorageError, Write};

/// What every error says that was made up. Services keep it as the cause of theirs.
pub const AT_RANDOM: &str = "at random";

/// How often something goes wrong: of so many calls one does. 0: none.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Calls that wait: they let other tasks run a few times, and now and then sleep.
    pub pause: u32,
    /// Scans that return fewer rows than they could.
    pub short_scan: u32,
    /// Calls that are refused with `Unavailable`, of the engine or of extents. Those that write have written nothing; but half
    /// of the extents that could not be finished are there.
    pub unavailable: u32,
    /// Reads of transactions and writes of extents that are refused so: fewer, because one request may need thousands of them.
    pub unavailable_step: u32,
    /// Commits that conflict though nothing has changed.
    pub conflict: u32,
    /// Commits whose outcome is unknown, and that have happened. If they write anything, it shows.
    pub unknown_kept: u32,
    /// Whether commits that only delete are among them. Nobody can tell later whether it was they who did.
    pub unknown_kept_deletions: bool,
    /// Commits whose outcome is unknown, and that never happen.
    pub unknown_lost: u32,
    /// Commits whose outcome is unknown, and that happen some calls later, if nothing conflicts with them until then.
    pub unknown_late: u32,
    /// Transactions that become too old, after a few reads.
    pub too_old: u32,
}

impl Rates {
    /// Nothing goes wrong, and nothing waits.
    pub const NONE: Self = Self {
        pause: 0,
        short_scan: 0,
        unavailable: 0,
        unavailable_step: 0,
        conflict: 0,
        unknown_kept: 0,
        unknown_kept_deletions: true,
        unknown_lost: 0,
        unknown_late: 0,
        too_old: 0,
    };

    /// Nothing goes wrong, but everything may take long.
    pub const SLOW: Self = Self { pause: 2, ..Self::NONE };

    /// Everything goes wrong now and then.
    pub const ALL: Self = Self {
        pause: 4,
        short_scan: 8,
        unavailable: 160,
        unavailable_step: 3000,
        conflict: 16,
        unknown_kept: 48,
        unknown_kept_deletions: true,
        unknown_lost: 96,
        unknown_late: 96,
        too_old: 20,
    };
}

/// Decides what goes wrong.
#[derive(Debug)]
pub struct Faults {
    rates: Rates,
    random: Mutex<fastrand::Rng>,
    is_paused: AtomicBool,
}

/// While it is held, nothing goes wrong.
pub struct Calm {
    faults: Arc<Faults>,
}

impl Drop for Calm {
    fn drop(&mut self) {
        self.faults.set_paused(false);
    }
}

/// What becomes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    AsItShould,
    Conflict,
    /// Refused, and nothing is written.
    Unavailable,
    /// Nobody can tell, and nothing is written.
    UnknownLost,
    /// Nobody can tell, and it was written.
    UnknownKept,
    /// Nobody can tell, and it is written later, if nothing conflicts with it until then.
    UnknownLate,
}

impl Faults {
    pub fn new(rates: Rates, seed: u64) -> Self {
        Self { rates, random: Mutex::new(fastrand::Rng::with_seed(seed)), is_paused: AtomicBool::new(false) }
    }

    /// With the seed of the environment, or else a random one, which is printed.
    pub fn from_environment(rates: Rates) -> Self {
        let given = std::env::var("TEPUI_FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one("faults"));
        println!("TEPUI_FAULT_SEED={seed}");
        Self::new(rates, seed)
    }

    /// While the result is held, nothing goes wrong.
    fn calm(self: &Arc<Self>) -> Calm {
        self.set_paused(true);
        Calm { faults: Arc::clone(self) }
    }

    fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    fn happens(&self, one_of: u32) -> bool {
        one_of > 0 && !self.is_paused.load(Ordering::Relaxed) && self.random.lock().u32(..one_of) == 0
    }

    fn below(&self, bound: u32) -> u32 {
        self.random.lock().u32(..bound)
    }

    /// Lets other tasks run, or not.
    async fn pause(&self) {
        if !self.happens(self.rates.pause) {
            return;
        }
        let (times, sleeps) = {
            let mut random = self.random.lock();
            (random.u32(1..5), random.u32(..64) == 0)
        };
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
        if sleeps {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Called first by everything that may be refused: waits, and refuses it or not.
    async fn enter(&self) -> Result<(), StorageError> {
        self.enter_at(self.rates.unavailable).await
    }

    /// The same for what a request may need thousands of.
    async fn enter_step(&self) -> Result<(), StorageError> {
        self.enter_at(self.rates.unavailable_step).await
    }

    async fn enter_at(&self, unavailable: u32) -> Result<(), StorageError> {
        self.pause().await;
        match self.happens(unavailable) {
            true => Err(StorageError::unavailable(AT_RANDOM)),
            false => Ok(()),
        }
    }

    /// After how many reads a transaction is too old.
    fn lifetime(&self) -> usize {
        if self.happens(self.rates.too_old) { self.below(12) as usize } else { usize::MAX }
    }

    /// How many rows a scan returns that could return so many.
    fn rows(&self, max_rows: usize) -> usize {
        match self.happens(self.rates.short_scan) {
            true => max_rows.min(1 + self.below(7) as usize),
            false => max_rows,
        }
    }

    fn fate(&self, commit: &Commit) -> Fate {
        let only_deletes = commit.writes().iter().all(|write| matches!(write, Write::Delete(_)));
        let kept =
            if only_deletes && !self.rates.unknown_kept_deletions { 0 } else { self.rates.unknown_kept };
        let fates = [
            (self.rates.conflict, Fate::Conflict),
            (self.rates.unavailable, Fate::Unavailable),
            (kept, Fate::UnknownKept),
            (self.rates.unknown_lost, Fate::UnknownLost),
            (self.rates.unknown_late, Fate::UnknownLate),
        ];
        let fate = fates.into_iter().find(|(one_of, _)| self.happens(*one_of));
        fate.map_or(Fate::AsItShould, |(_, fate)| fate)
    }
}
