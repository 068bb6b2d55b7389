//! The driver for stable: see README.md.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tepui_fuzz::run::{Options, Report, check, run, silence_panics};
use tepui_fuzz::targets::{ALL, Target};

const HELP: &str = "\
Usage: tepui-fuzz [--seconds N] [--seed N] [--careful] [target…]
       tepui-fuzz --replay FILE target
       tepui-fuzz --list

Runs each target, or only those named, on its corpus and then for N seconds (default 5) on mutations.
The same seed makes the same inputs. A failing input is written to artifacts/.
--careful writes each input there before it is run, for crashes that end the process.";

fn main() -> ExitCode {
    match command(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("fuzz: {message}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

/// Whether everything passed.
fn command(mut args: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut seconds, mut seed, mut careful, mut replay) =
        (5, RandomState::new().build_hasher().finish(), false, None);
    let mut targets: Vec<&Target> = Vec::new();
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().unwrap_or_default();
            text.parse::<u64>().map_err(|_| format!("not a number: {text}"))
        };
        match arg.as_str() {
            "--seconds" => seconds = number()?,
            "--seed" => seed = number()?,
            "--careful" => careful = true,
            "--replay" => replay = Some(args.next().ok_or("--replay needs a file")?),
            "--list" => {
                ALL.iter().for_each(|target| println!("{}", target.name));
                return Ok(true);
            }
            "-h" | "--help" => {
                println!("{HELP}");
                return Ok(true);
            }
            name => {
                let known = ALL.iter().find(|target| target.name == name);
                targets.push(known.ok_or_else(|| format!("no such target: {name}"))?);
            }
        }
    }
    if let Some(file) = replay {
        let [target] = targets[..] else { return Err("--replay needs one target".to_owned()) };
        return replay_file(target, &file);
    }
    if targets.is_empty() {
        targets.extend(ALL);
    }
    let home = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    fuzz(&targets, &Options { time: Duration::from_secs(seconds), seed, home, careful })
}

fn fuzz(targets: &[&Target], options: &Options) -> Result<bool, String> {
    silence_panics();
    println!("fuzz: seed {}, {} s for each target", options.seed, options.time.as_secs());
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Result<(), String> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report =
                run(target, options).map_err(|error| format!("cannot run {}: {error}", target.name))?;
            failed.fetch_add(usize::from(report.failure.is_some()), Ordering::Relaxed);
            print!("{}", described(target, &report));
        }
        Ok(())
    };
    // As many at a time as there are processors, or one, so that its last input is known.
    let count = if options.careful { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread has panicked".to_owned())))
    })?;
    let failed = failed.into_inner();
    println!("fuzz: {} passed, {failed} failed", targets.len() - failed);
    Ok(failed == 0)
}

fn described(target: &Target, report: &Report) -> String {
    let name = target.name;
    let rate = report.executions as f64 / report.time.as_secs_f64().max(0.001);
    let mut text = format!(
        "{name:20} {:9} runs, {rate:7.0}/s, {} seeds, slowest {:.1?}\n",
        report.executions, report.seeds, report.slowest
    );
    if let Some(failure) = &report.failure {
        text += &format!(
            "{name}: FAILED: {}\n  replay: cargo run --release --manifest-path fuzz/Cargo.toml -- --replay {} {name}\n",
            failure.why,
            failure.file.display()
        );
    }
    text
}

fn replay_file(target: &Target, file: &str) -> Result<bool, String> {
    let input = std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    // Panics are not silenced here, so that RUST_BACKTRACE shows where.
    let outcome = check(target, &input);
    match &outcome {
        Ok(()) => println!("fuzz: 1 passed, 0 failed"),
        Err(why) => println!("{}: FAILED: {why}\nfuzz: 0 passed, 1 failed", target.name),
    }
    Ok(outcome.is_ok())
}
