//! The engine on a simulated disk, one thread, one seed: what happens, in which order, and what fails is decided by random numbers
//! that can be had again. Beside it runs a model of what was acknowledged.
//!
//! | | |
//! | --- | --- |
//! | `run.rs` | one run: steps of clients, committer, flushes, compactions, time |
//! | `model.rs` | what was acknowledged, and what may be there |
//! | `modes.rs` | single failures, rows of failures, crashes, damage, a full disk |
//!
//! `TEPUI_SIM_SEED=n` repeats the runs of one seed and prints their steps; `TEPUI_SIM_SECONDS=n` goes on with new seeds for so long.

mod model;
mod modes;
mod run;

use modes::{Mode, Report};
use std::time::{Duration, Instant};

/// Seeds that found something once.
const PAST_SEEDS: &[u64] = &[1, 2, 3, 32569883500];

/// How long a short run takes, for each mode.
const SHORT: Duration = Duration::from_secs(4);

fn simulate(mode: Mode) {
    let seconds = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = seconds("TEPUI_SIM_SEED") {
        let mut report = Report::default();
        if let Err(failure) = modes::explore(mode, seed, Duration::MAX, &mut report) {
            panic!("{failure}");
        }
        println!("{mode:?}: seed {seed}: {report}");
        return;
    }
    let limit = seconds("TEPUI_SIM_SECONDS").map_or(SHORT, Duration::from_secs);
    let began = Instant::now();
    let new = u64::from(std::process::id()) << 20 | u64::from(jiffies());
    let seeds = PAST_SEEDS.iter().copied().chain(new..);
    let mut report = Report::default();
    for seed in seeds {
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        // A part for each past seed, and the rest for new ones.
        let part = if PAST_SEEDS.contains(&seed) { limit / (PAST_SEEDS.len() as u32 + 3) } else { left };
        if let Err(failure) = modes::explore(mode, seed, part.min(left), &mut report) {
            panic!("{failure}");
        }
    }
    println!("{mode:?}: seeds from {new}: {report}");
}

/// Something that differs from one process to the next that has the same id.
fn jiffies() -> u16 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    (since.as_millis() & 0xffff) as u16
}

#[test]
fn one_call_fails() {
    simulate(Mode::OneFailure);
}

#[test]
fn several_calls_in_a_row_fail() {
    simulate(Mode::RowOfFailures);
}

#[test]
fn the_power_fails() {
    simulate(Mode::Crash);
}

#[test]
fn a_bit_flips() {
    simulate(Mode::FlippedBit);
}

#[test]
fn a_file_or_folder_is_lost() {
    simulate(Mode::LostFile);
}

#[test]
fn the_disk_is_full_for_a_while() {
    simulate(Mode::FullDisk);
}

#[test]
fn one_seed_is_one_run() {
    let trace = |seed| run::Run::new(run::Setup::new(seed)).trace();
    for seed in 0..5 {
        let (one, other) = (trace(seed), trace(seed));
        assert!(!one.is_empty());
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        assert_eq!((differs, one.len()), (None, other.len()), "seed {seed}");
    }
}
