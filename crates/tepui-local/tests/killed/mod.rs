//! A test that is its own victim: it starts itself as a child process, which works on a directory until it is killed.
//!
//! `TEPUI_CRASH_ROUNDS` asks for more rounds than the few that every run makes, and `TEPUI_CRASH_SEED` for the same
//! times of death as an earlier run.

use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a line of a child begins with. libtest may have begun the line.
const MARK: &str = "= ";

/// The rounds of a test, and how long the child of each lives: between `shortest` and `spread` milliseconds more.
pub(crate) fn rounds(shortest: u64, spread: u64) -> impl Iterator<Item = (u64, Duration)> {
    let rounds = number("TEPUI_CRASH_ROUNDS").unwrap_or(8);
    let seed = number("TEPUI_CRASH_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("TEPUI_CRASH_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    (0..rounds).map(move |round| (round, Duration::from_millis(shortest + random.u64(..spread))))
}

/// The round and the directory of a child; `None` in the parent.
pub(crate) fn child() -> Option<(u64, PathBuf)> {
    let round = number("TEPUI_CRASH_ROUND")?;
    Some((round, std::env::var_os("TEPUI_CRASH_DIRECTORY")?.into()))
}

/// Sends a line from the child to its parent. One call of the system per line: it is whole or not there.
pub(crate) fn send(line: &str) {
    std::io::stdout().write_all(format!("{MARK}{line}\n").as_bytes()).expect("the parent listens");
    std::io::stdout().flush().expect("the parent listens");
}

/// Runs the test `child` of this executable and kills it when `life` is over, which begins with its first line.
pub(crate) fn run_and_kill(directory: &Path, round: u64, life: Duration, mut received: impl FnMut(&str)) {
    let mut child = Command::new(std::env::current_exe().expect("a test knows its path"))
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env("TEPUI_CRASH_DIRECTORY", directory)
        .env("TEPUI_CRASH_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child can be started");
    let lines = BufReader::new(child.stdout.take().expect("the child's output is piped")).lines();
    let id = child.id().to_string();
    let mut killer = None;
    for line in lines {
        let line = line.expect("the child writes text");
        let Some((_, line)) = line.split_once(MARK) else { continue };
        received(line);
        killer.get_or_insert_with(|| {
            let id = id.clone();
            std::thread::spawn(move || {
                std::thread::sleep(life);
                Command::new("kill").args(["-KILL", &id]).status().expect("the child can be killed");
            })
        });
    }
    let status = child.wait().expect("the child ends");
    assert!(!status.success(), "the child was killed");
    killer.expect("the child sent a line").join().expect("the killer ends");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}
