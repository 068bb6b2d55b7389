//! Which seeds a simulation runs, and for how long.
//!
//! `TEPUI_SIM_SEED=n` repeats the runs of one seed; `TEPUI_SIM_SECONDS=n` runs new seeds for this time instead of the
//! usual one.

use std::time::{Duration, Instant};

/// Explores seeds that found something once, each for a part of the time, then new ones until it is over. `explore` gets
/// a seed and the time for it. Returns which seeds were explored.
///
/// # Panics
/// With the failure of the first seed that fails.
pub fn explore_seeds(
    past: &[u64],
    usual_time: Duration,
    mut explore: impl FnMut(u64, Duration) -> Result<(), String>,
) -> String {
    let mut explore = |seed, time| explore(seed, time).unwrap_or_else(|failure| panic!("{failure}"));
    if let Some(seed) = repeated_seed() {
        explore(seed, Duration::MAX);
        return format!("seed {seed}");
    }
    let time = number("TEPUI_SIM_SECONDS").map_or(usual_time, Duration::from_secs);
    let began = Instant::now();
    let first = first_new_seed();
    for seed in past.iter().copied().chain(first..) {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            break;
        }
        let part = if past.contains(&seed) { time / (past.len() as u32 + 3) } else { left };
        explore(seed, part.min(left));
    }
    format!("seeds from {first}")
}

/// The seed that is to be repeated, with all its steps printed.
pub fn repeated_seed() -> Option<u64> {
    number("TEPUI_SIM_SEED")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Differs between processes, and between runs of processes with the same id.
fn first_new_seed() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::from(std::process::id()) << 20 | u64::from(since.subsec_micros())
}
