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
use std::time::Duration;
use tepui_files::explore_seeds;

/// Seeds that found something once.
const PAST_SEEDS: &[u64] = &[1, 2, 3, 32569883500];

/// How long a short run takes, for each mode.
const SHORT: Duration = Duration::from_secs(4);

fn simulate(mode: Mode) {
    let mut report = Report::default();
    let seeds = explore_seeds(PAST_SEEDS, SHORT, |seed, time| modes::explore(mode, seed, time, &mut report));
    println!("{mode:?}: {seeds}: {report}");
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
