//! The three services with engine and extents on a simulated disk, by a simulated clock, from one seed: clients, commits, flushes, merges,
//! sweeps and reads in an order that random numbers decide, while calls of the system fail, the process is killed, the power fails, or the
//! disk is full. Beside it runs a model: acknowledged writes are readable byte by byte, deleted objects do not come back, and no operation is half done.
//!
//! | | |
//! | --- | --- |
//! | `world.rs` | one run: the server that lives and dies, its clients, what is compared |
//! | `client.rs` | what clients do |
//! | `model.rs` | what was acknowledged, and what may be there |
//!
//! `TEPUI_SIM_SEED=n` repeats the runs of one seed and prints their steps; `TEPUI_SIM_SECONDS=n` runs new seeds for this time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;
mod model;
mod world;

use std::time::{Duration, Instant};
use tepui_files::{CrashOutcome, Failure, explore_seeds, repeated_seed};
use world::{Setup, World};

/// Seeds that found something once.
const PAST_SEEDS: &[u64] = &[1, 2, 32102742247];

/// How long a short run takes, for each mode.
const SHORT: Duration = Duration::from_secs(6);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    OneFailure,
    RowOfFailures,
    Crash,
    Kill,
    FullDisk,
}

#[derive(Default)]
struct Report {
    runs: usize,
    crash_states: usize,
}

fn simulate(mode: Mode) {
    let mut report = Report::default();
    let seeds = explore_seeds(PAST_SEEDS, SHORT, |seed, time| explore(mode, seed, time, &mut report));
    println!("{mode:?}: {seeds}: {} runs, {} crash states", report.runs, report.crash_states);
}

/// Tries everything that can go wrong in the run of a seed, or what there is time for.
fn explore(mode: Mode, seed: u64, time: Duration, report: &mut Report) -> Result<(), String> {
    let began = Instant::now();
    let setup = Setup::new(seed);
    let mut plain = World::new(setup.clone());
    check(mode, &mut plain, |world| {
        world.work()?;
        world.recover()
    })?;
    let calls = plain.files.trace();
    report.runs += 1;
    let mut order: Vec<usize> = (0..calls.len()).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    random.shuffle(&mut order);
    for index in order {
        if began.elapsed() > time {
            return Ok(());
        }
        let call = &calls[index];
        match mode {
            Mode::OneFailure => {
                for failure in Failure::ALL.into_iter().filter(|failure| failure.fits(call.call)) {
                    let setup = Setup { failures: vec![(call.number, failure)], ..setup.clone() };
                    check(mode, &mut World::new(setup), |world| {
                        world.work()?;
                        world.recover()
                    })?;
                    report.runs += 1;
                }
            }
            Mode::RowOfFailures => {
                for length in [3, 10, 40] {
                    let failure = Failure::ALL[random.usize(..5)];
                    let failures = (call.number..call.number + length).map(|number| {
                        let fits = calls.get(number as usize).is_some_and(|call| failure.fits(call.call));
                        (number, if fits { failure } else { Failure::Input })
                    });
                    let setup = Setup { failures: failures.collect(), ..setup.clone() };
                    check(mode, &mut World::new(setup), |world| {
                        world.work()?;
                        world.recover()
                    })?;
                    report.runs += 1;
                }
            }
            Mode::Crash | Mode::Kill => {
                for outcome in [CrashOutcome::Nothing, CrashOutcome::Everything, CrashOutcome::Some] {
                    let setup = Setup { crash_at: Some(call.number), ..setup.clone() };
                    check(mode, &mut World::new(setup), |world| {
                        world.work()?;
                        if mode == Mode::Kill {
                            // The next process finds what this one has written, and serves it before the power fails.
                            world.kill_and_restart()?;
                        }
                        world.crash_and_restart(outcome)?;
                        world.setup.steps = 40;
                        world.work()?;
                        world.crash_and_restart(CrashOutcome::Some)
                    })?;
                    report.runs += 1;
                    report.crash_states += 2;
                }
            }
            Mode::FullDisk => {
                let setup = Setup { steps: random.usize(..setup.steps), ..setup.clone() };
                let left = random.u64(..2 * world::RESERVE);
                check(mode, &mut World::new(setup), |world| {
                    world.work()?;
                    world.files.set_capacity(world.files.used_bytes() + left);
                    world.setup.steps = 150;
                    world.work()?;
                    world.compare()?;
                    world.files.set_capacity(1 << 40);
                    world.recover()
                })?;
                report.runs += 1;
            }
        }
    }
    Ok(())
}

/// One run. A failure is reported with everything that is needed to reproduce it.
fn check(
    mode: Mode,
    world: &mut World,
    act: impl FnOnce(&mut World) -> Result<(), String>,
) -> Result<(), String> {
    act(world).map_err(|error| {
        let lines = if repeated_seed().is_some() { usize::MAX } else { 30 };
        let log = &world.log[world.log.len().saturating_sub(lines)..];
        let failed = world.files.trace().into_iter().filter(|call| call.failed.is_some());
        let failed =
            failed.map(|call| format!("{:?} of {} fails: {:?}", call.call, call.path.display(), call.failed));
        format!(
            "{mode:?}: {error}\n{:?}\n  {}\n  {}\nrepeat with TEPUI_SIM_SEED={}",
            world.setup,
            failed.collect::<Vec<_>>().join("\n  "),
            log.join("\n  "),
            world.setup.seed
        )
    })
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
fn the_process_is_killed_and_then_the_power_fails() {
    simulate(Mode::Kill);
}

#[test]
fn the_disk_is_full_for_a_while() {
    simulate(Mode::FullDisk);
}

#[test]
fn one_seed_is_one_run() {
    let trace = |seed| {
        let mut world = World::new(Setup::new(seed));
        world.work().and_then(|()| world.recover()).unwrap();
        world.files.trace()
    };
    for seed in 0..3 {
        let (one, other) = (trace(seed), trace(seed));
        assert!(one.len() > 100);
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        assert_eq!((differs, one.len()), (None, other.len()), "seed {seed}");
    }
}
