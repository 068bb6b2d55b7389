//! An engine and extents for tests, around any others: they do all that the contracts allow and a single process on a local
//! disk hardly ever does. Every call waits at random; scans end early; commits conflict without a reason, or with an outcome
//! that is unknown, and then have happened, never happen, or happen some time later; transactions become too old.
//!
//! What happens is decided by a seed, which is printed, so that a failing test shows it, and can be given by the environment
//! variable `TEPUI_FAULT_SEED`. Tasks of one thread then take the same course again.

mod engine;
mod extents;

pub use engine::{Faulty, FaultyEngine};
pub use extents::{FaultyExtents, FaultyWriter};

use parking_lot::Mutex;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;
use tepui_storage::{Commit, Write};

/// How often something goes wrong: of so many calls one does. 0: none.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Calls that wait: they let other tasks run a few times, and now and then sleep.
    pub pause: u32,
    /// Scans that return fewer rows than they could.
    pub short_scan: u32,
    /// Commits that conflict though nothing has changed.
    pub conflict: u32,
    /// Commits whose outcome is unknown, and that have happened. If they write anything, it shows.
    pub unknown_kept: u32,
    /// Commits whose outcome is unknown, and that never happen, or some time later.
    pub unknown_lost: u32,
    /// Whether commits that only delete are among them. Nobody can tell later whether it was they who did.
    pub unknown_deletions: bool,
    /// Transactions that become too old, after a few reads.
    pub too_old: u32,
}

impl Rates {
    /// Nothing goes wrong, and nothing waits.
    pub const NONE: Self = Self {
        pause: 0,
        short_scan: 0,
        conflict: 0,
        unknown_kept: 0,
        unknown_lost: 0,
        unknown_deletions: true,
        too_old: 0,
    };

    /// Nothing goes wrong, but everything may take long.
    pub const SLOW: Self = Self { pause: 2, ..Self::NONE };

    /// Everything goes wrong now and then.
    pub const ALL: Self = Self {
        pause: 4,
        short_scan: 8,
        conflict: 16,
        unknown_kept: 48,
        unknown_lost: 48,
        unknown_deletions: true,
        too_old: 20,
    };
}

/// Decides what goes wrong.
#[derive(Debug)]
pub struct Faults {
    rates: Rates,
    random: Mutex<fastrand::Rng>,
}

/// What becomes of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    AsItShould,
    Conflict,
    /// Nobody can tell, and nothing is written.
    UnknownLost,
    /// Nobody can tell, and it was written.
    UnknownKept,
    /// Nobody can tell, and it is written later, if nothing conflicts with it until then.
    UnknownLate,
}

impl Faults {
    pub fn new(rates: Rates, seed: u64) -> Self {
        Self { rates, random: Mutex::new(fastrand::Rng::with_seed(seed)) }
    }

    /// With the seed of the environment, or else a random one, which is printed.
    pub fn from_environment(rates: Rates) -> Self {
        let given = std::env::var("TEPUI_FAULT_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one("faults"));
        println!("TEPUI_FAULT_SEED={seed}");
        Self::new(rates, seed)
    }

    fn happens(&self, one_of: u32) -> bool {
        one_of > 0 && self.random.lock().u32(..one_of) == 0
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

    /// After how many reads a transaction is too old.
    fn lifetime(&self) -> usize {
        if self.happens(self.rates.too_old) { self.random.lock().usize(..12) } else { usize::MAX }
    }

    /// How many rows a scan returns that could return so many.
    fn rows(&self, max_rows: usize) -> usize {
        match self.happens(self.rates.short_scan) {
            true => max_rows.min(self.random.lock().usize(1..8)),
            false => max_rows,
        }
    }

    fn fate(&self, commit: &Commit) -> Fate {
        if self.happens(self.rates.conflict) {
            return Fate::Conflict;
        }
        let only_deletes = commit.writes().iter().all(|write| matches!(write, Write::Delete(_)));
        if only_deletes && !self.rates.unknown_deletions {
            return Fate::AsItShould;
        }
        if self.happens(self.rates.unknown_kept) {
            return Fate::UnknownKept;
        }
        if self.happens(self.rates.unknown_lost) {
            return if self.random.lock().bool() { Fate::UnknownLost } else { Fate::UnknownLate };
        }
        Fate::AsItShould
    }
}
