//! A store on a simulated file system: everything follows from a seed, on one thread. Beside it a model of what must be there.
//!
//! Every call of a run fails, in every way in which it can; the power fails at every call; the disk is full at every step; bits are
//! flipped, files and the folder are lost. After each of these runs everything that was acknowledged is there, byte by byte,
//! everything that was freed is gone, and nothing else takes space.
//!
//! `TEPUI_SIM_SEED` replays a case that was printed (`17`, `17/fail/83/1/NoSpace`) and prints its steps; `TEPUI_SIM_SECONDS` goes on for longer
//! than the few seconds that every run takes.

mod case;
mod model;
mod world;

use case::{Case, OUTCOMES, Trouble};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use tepui_files::{Call, Failure};
use world::{Report, STEPS, World};

/// Cases that have failed once.
const PAST: &[&str] = &[
    // The folder was made, but its parent could not be synced, and never was afterwards.
    "1181230243/fail/7/1/TooManyFiles",
    "2621569159/fail/7/1/NoSpace",
    // A sweep that had only to sync the folder found no file to sweep any more, for ever.
    "145224312/fail/224/10/TooManyFiles",
    // Empty volumes that could not be deleted, or came back after a crash.
    "1107638625/fail/266/1/TooManyFiles",
    "1266742483/fail/34/40/NoSpace",
    "1108637656/crash/58/Some",
    "1024529749/crash/27/Everything",
    // The folder was lost: the numbers of its volumes were used again.
    "1964293493/damage/1964293496",
    "117126082/damage/117126084",
];

fn run(case: Case, is_verbose: bool) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime can be built");
    let run = || runtime.block_on(World::new(case, is_verbose).run());
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        println!("TEPUI_SIM_SEED={case}");
        std::panic::resume_unwind(panic)
    })
}

/// How many runs there were of each kind.
#[derive(Debug, Default)]
struct Counts {
    runs: u64,
    failed_calls: u64,
    crashes: u64,
    full_disks: u64,
    damages: u64,
    kept_extents: u64,
}

impl Counts {
    fn run(&mut self, seed: u64, trouble: Trouble) -> Report {
        let report = run(Case { seed, trouble }, false);
        self.runs += 1;
        self.crashes += report.crashes;
        self.kept_extents += report.kept as u64;
        match trouble {
            Trouble::Fail { .. } => self.failed_calls += 1,
            Trouble::Full { .. } => self.full_disks += 1,
            Trouble::Damage(_) => self.damages += 1,
            Trouble::None | Trouble::Crash { .. } | Trouble::Crashes => {}
        }
        report
    }

    /// Everything that can go wrong in the run of a seed; only some of it if `pick` says so.
    fn run_all(&mut self, seed: u64, mut pick: impl FnMut(u32) -> bool) {
        let plain = self.run(seed, Trouble::None);
        for other in 1..20 {
            self.run(seed ^ other << 40, Trouble::None);
        }
        for call in &plain.trace {
            for failure in Failure::ALL.into_iter().filter(|failure| failure.fits(call.call)) {
                if pick(4) {
                    self.run(seed, Trouble::Fail { call: call.number, count: 1, failure });
                }
            }
            for count in [3, 10, 40] {
                let failures = [Failure::Input, Failure::NoSpace, Failure::TooManyFiles];
                let failure = failures[(call.number % 3) as usize];
                if pick(20) {
                    self.run(seed, Trouble::Fail { call: call.number, count, failure });
                }
            }
            let is_sync = matches!(call.call, Call::Sync | Call::SyncDirectory);
            for outcome in OUTCOMES {
                if pick(if is_sync { 2 } else { 8 }) {
                    self.run(seed, Trouble::Crash { call: call.number, outcome });
                }
            }
        }
        self.run(seed, Trouble::Crashes);
        for step in 0..STEPS {
            if pick(20) {
                self.run(seed, Trouble::Full { step, pages: (step % 7) as u64 * 5 });
            }
        }
        for which in 0..8 {
            self.run(seed, Trouble::Damage(seed.wrapping_add(which)));
        }
    }
}

fn seconds() -> Option<u64> {
    std::env::var("TEPUI_SIM_SECONDS").ok().and_then(|seconds| seconds.parse().ok())
}

#[test]
fn short() {
    if let Ok(text) = std::env::var("TEPUI_SIM_SEED") {
        let case: Case = text.parse().expect("a case");
        run(case, true);
        if case.trouble == Trouble::None {
            Counts::default().run_all(case.seed, |_| true);
        }
        return;
    }
    for past in PAST {
        run(past.parse().expect("a case"), false);
    }
    let first = RandomState::new().hash_one("simulation") >> 32;
    println!("the first seed is {first}");
    let give_up = Instant::now() + Duration::from_secs(seconds().unwrap_or(8));
    let mut random = fastrand::Rng::with_seed(first);
    let mut counts = Counts::default();
    let mut seeds = 0;
    for seed in first.. {
        // With time, everything; else a part of it, but of more seeds.
        let is_long = seconds().is_some();
        counts.run_all(seed, |one_in| Instant::now() < give_up && (is_long || random.u32(..one_in * 4) == 0));
        seeds += 1;
        if Instant::now() > give_up {
            break;
        }
    }
    println!("{seeds} seeds: {counts:?}");
    assert!(counts.kept_extents > 0 && counts.crashes > 0, "{counts:?}");
}

#[test]
fn the_same_seed_makes_the_same_calls() {
    for seed in 1..6 {
        for trouble in [Trouble::None, Trouble::Crashes, Trouble::Full { step: 20, pages: 3 }] {
            let case = Case { seed, trouble };
            let (one, other) = (run(case, false), run(case, false));
            assert!(one.trace == other.trace && one.calls == other.calls, "{case}");
            assert!(one.kept == other.kept && one.crashes == other.crashes, "{case}");
        }
    }
}
