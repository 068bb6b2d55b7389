//! What goes wrong in a run.

use crate::model::Rows;
use crate::run::{DIRECTORY, RESERVE, Run, Setup, drive, options, rows_of, simulated};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_files::{CrashOutcome, Failure, FileSystem, SimulatedFiles, repeated_seed};
use tepui_local::check::{Damage, DirectoryCheck};
use tepui_local::{DiskEngine, OfflineDirectory, OfflineError};
use tepui_storage::{Engine, Key, Snapshot, StorageErrorKind, Transaction, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    OneFailure,
    RowOfFailures,
    Crash,
    FlippedBit,
    LostFile,
    FullDisk,
}

/// How much was tried.
#[derive(Default)]
pub(crate) struct Report {
    runs: usize,
    crash_states: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs, {} crash states", self.runs, self.crash_states)
    }
}

/// Tries everything that can go wrong in the run of a seed, or what there is time for.
pub(crate) fn explore(mode: Mode, seed: u64, time: Duration, report: &mut Report) -> Result<(), String> {
    let began = Instant::now();
    let setup = Setup::new(seed);
    let plain = Run::new(setup.clone()).trace();
    check(mode, &setup, async |run| {
        run.work().await?;
        run.recover().await
    })?;
    report.runs += 1;
    // With little time, any of the cases; in their order they would always be those of the first calls.
    let mut order: Vec<usize> = (0..plain.len()).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);
    for index in order {
        if began.elapsed() > time {
            return Ok(());
        }
        let call = &plain[index];
        match mode {
            Mode::OneFailure => {
                for failure in Failure::ALL.into_iter().filter(|failure| failure.fits(call.call)) {
                    let setup = Setup { failures: vec![(call.number, failure)], ..setup.clone() };
                    check(mode, &setup, fail_and_recover)?;
                    report.runs += 1;
                }
            }
            Mode::RowOfFailures => {
                for length in [3, 10, 40] {
                    let failure = Failure::ALL[fastrand::Rng::with_seed(seed ^ call.number).usize(..5)];
                    let row = (call.number..call.number + length).map(|number| (number, failure));
                    // What cannot fail so fails with EIO.
                    let failures = row.map(|(number, failure)| {
                        let fits = plain.get(number as usize).is_some_and(|call| failure.fits(call.call));
                        (number, if fits { failure } else { Failure::Input })
                    });
                    let setup = Setup { failures: failures.collect(), ..setup.clone() };
                    check(mode, &setup, fail_and_recover)?;
                    report.runs += 1;
                }
            }
            Mode::Crash => {
                for outcome in [CrashOutcome::Nothing, CrashOutcome::Everything, CrashOutcome::Some] {
                    let setup = Setup { crash_at: Some(call.number), ..setup.clone() };
                    check(mode, &setup, async |run| {
                        run.work().await?;
                        run.crash(outcome).await?;
                        // Once more: what the recovery did must be there as well.
                        run.setup.steps = 20;
                        run.work().await?;
                        run.crash(CrashOutcome::Some).await
                    })?;
                    report.runs += 1;
                    report.crash_states += 2;
                }
            }
            Mode::FlippedBit => {
                // One run, many bits.
                return damage(seed, time, report);
            }
            Mode::LostFile => return lose(seed, report),
            Mode::FullDisk => {
                let steps = index % setup.steps;
                check(mode, &Setup { steps, ..setup.clone() }, fill_and_empty)?;
                report.runs += 1;
            }
        }
    }
    Ok(())
}

/// One run. A failure is reported with everything needed to reproduce it.
fn check(
    mode: Mode,
    setup: &Setup,
    act: impl AsyncFnOnce(&mut Run) -> Result<(), String>,
) -> Result<(), String> {
    let mut run = Run::new(setup.clone());
    simulated(act(&mut run)).map_err(|error| {
        let tail = run.log.len().saturating_sub(if repeated_seed().is_some() { 400 } else { 25 });
        let failed: Vec<String> = run
            .files
            .trace()
            .into_iter()
            .filter(|call| call.failed.is_some())
            .map(|call| {
                format!(
                    "call {}: {:?} of {} fails: {:?}",
                    call.number,
                    call.call,
                    call.path.display(),
                    call.failed
                )
            })
            .collect();
        let (log, failed) = (run.log[tail..].join("\n  "), failed.join("\n  "));
        format!(
            "{mode:?}: {error}\n{setup:?}\n  {failed}\n  {log}\nrepeat with TEPUI_SIM_SEED={}",
            setup.seed
        )
    })
}

async fn fail_and_recover(run: &mut Run) -> Result<(), String> {
    run.work().await?;
    run.recover().await
}

/// The disk fills up while the engine works. Then everything is deleted, which must be possible, and then there is space again.
async fn fill_and_empty(run: &mut Run) -> Result<(), String> {
    run.work().await?;
    let left = fastrand::Rng::with_seed(run.setup.seed ^ run.setup.steps as u64).u64(..2 * RESERVE);
    run.files.set_capacity(run.files.used_bytes() + left);
    run.setup.steps = 120;
    run.work().await?;
    if !run.open().await? {
        return run.recover_with_space().await;
    }
    run.idle(20).await;
    run.check_all().await?;
    // What is on the disk beyond what a restart leaves there is kept for nothing.
    let held = run.files.used_bytes();
    let again = run.files.copy();
    {
        let opened = DiskEngine::open_stepped(options(&again));
        let (_engine, mut stepper) =
            opened.map_err(|error| format!("a full disk cannot be opened: {error}"))?;
        for _ in 0..20 {
            stepper.commit();
            stepper.remove_obsolete();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
    let needed = again.used_bytes();
    if held > needed + (96 << 10) {
        return Err(format!("{held} bytes are held, {needed} are needed"));
    }
    let free = run.files.free_space(Path::new(DIRECTORY)).map_err(|error| error.to_string())?;
    if free > RESERVE / 2 && run.open().await? && !run.delete_all().await? {
        return Err(format!("nothing can be deleted though {free} bytes are free"));
    }
    run.recover_with_space().await
}

impl Run {
    async fn recover_with_space(&mut self) -> Result<(), String> {
        self.files.set_capacity(1 << 40);
        self.recover().await
    }
}

/// A closed directory, and what is in it.
fn closed(seed: u64) -> Result<(SimulatedFiles, Rows), String> {
    let mut run = Run::new(Setup::new(seed));
    simulated(async {
        run.work().await?;
        let rows = run.close().await?;
        let (damages, found) = check_offline(&run.files.copy());
        if damages != 0 || found != rows {
            return Err(format!(
                "{damages} damages, {} of {} rows in a healthy directory",
                found.len(),
                rows.len()
            ));
        }
        Ok((run.files.copy(), rows))
    })
}

fn damage(seed: u64, time: Duration, report: &mut Report) -> Result<(), String> {
    let began = Instant::now();
    let (files, rows) = closed(seed)?;
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        if began.elapsed() > time {
            break;
        }
        let list: Vec<_> = files.list().into_iter().filter(|(_, length)| *length > 0).collect();
        let (path, length) = &list[random.usize(..list.len())];
        let (offset, bit) = (random.u64(..*length), random.u8(..8));
        let damaged = files.copy();
        damaged.flip_bit(path, offset, bit);
        let what = format!("seed {seed}: bit {bit} of byte {offset} of {} flipped", path.display());
        simulated(check_damaged(&damaged, &rows, &mut random)).map_err(|error| format!("{what}: {error}"))?;
        report.runs += 1;
    }
    Ok(())
}

fn lose(seed: u64, report: &mut Report) -> Result<(), String> {
    let (files, rows) = closed(seed)?;
    let mut random = fastrand::Rng::with_seed(seed);
    let paths = files.list().into_iter().map(|(path, _)| path).chain(files.directories());
    for path in paths.filter(|path| path.starts_with(DIRECTORY) && *path != Path::new(DIRECTORY)) {
        let damaged = files.copy();
        damaged.lose(&path);
        let what = format!("seed {seed}: {} is missing", path.display());
        simulated(check_damaged(&damaged, &rows, &mut random)).map_err(|error| format!("{what}: {error}"))?;
        report.runs += 1;
    }
    Ok(())
}

/// Damage is reported, or does no harm: what is read is right, and the rest can be written.
async fn check_damaged(
    files: &SimulatedFiles,
    rows: &Rows,
    random: &mut fastrand::Rng,
) -> Result<(), String> {
    let (damages, _) = check_offline(&files.copy());
    let mut is_damaged = false;
    let (engine, mut stepper) = match DiskEngine::open_stepped(options(files)) {
        Ok(opened) => opened,
        Err(error) if error.kind() == StorageErrorKind::Corrupt && damages > 0 => return Ok(()),
        Err(error) if error.kind() == StorageErrorKind::Corrupt => {
            return Err(format!("an offline check does not find it: {error}"));
        }
        // One number is as good as another.
        Err(error) if error.message().contains("has format") => return Ok(()),
        Err(error) => return Err(format!("not reported as damage: {error}")),
    };
    let mut read = async |what: &str| {
        let snapshot = engine.begin().await.map_err(|error| format!("{what}: {error}"))?;
        for (key, value) in rows {
            match drive(files, snapshot.get(key)).await {
                Ok(Some(found)) if found == value => {}
                Err(error) if error.kind() == StorageErrorKind::Corrupt => is_damaged = true,
                other => return Err(format!("{what}: {}: {other:?}", String::from_utf8_lossy(key))),
            }
        }
        match rows_of(files, &snapshot).await {
            Ok(mut found) => {
                found.retain(|key, _| !key.starts_with(b"new"));
                (found == *rows).then_some(()).ok_or_else(|| format!("{what}: other rows"))
            }
            Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                is_damaged = true;
                Ok(())
            }
            Err(error) => Err(format!("{what}: {error}")),
        }
    };
    read("at once").await?;
    // Background work meets the damage, and goes on with the rest.
    for number in 0..60 {
        let snapshot = engine.begin().await.map_err(|error| error.to_string())?;
        let key = Key::from(format!("new {:04}", random.u16(..200)));
        let put = vec![Write::Put(key, vec![b'n'; 400].into())];
        let committing = snapshot.commit(put.into());
        let mut committing = std::pin::pin!(committing);
        let _ =
            std::future::poll_fn(|context| std::task::Poll::Ready(committing.as_mut().poll(context))).await;
        stepper.commit();
        stepper.flush();
        stepper.compact(true);
        stepper.remove_obsolete();
        tokio::time::advance(Duration::from_secs(1)).await;
        committing.await.map_err(|error| format!("commit {number} was refused: {error}"))?;
    }
    read("after compactions").await?;
    match is_damaged && damages == 0 {
        true => Err("an offline check does not find it".to_owned()),
        false => Ok(()),
    }
}

/// How many damages an offline check finds, and the rows that it can read.
fn check_offline(files: &SimulatedFiles) -> (usize, Rows) {
    let mut damages = 0;
    // There are no extents here.
    let mut count = |damage: Damage| damages += usize::from(!damage.file.ends_with("extents"));
    let mut rows = Rows::default();
    match OfflineDirectory::open(Arc::new(files.clone()), Path::new(DIRECTORY)) {
        Ok(directory) => {
            let mut check = DirectoryCheck::open(directory, &mut count).expect("nothing fails");
            check.verify_tables(&mut |_| {}, &mut count).expect("nothing fails");
            let read = check.rows(&mut |_, key, value| {
                rows.insert(key.to_vec(), value.to_vec());
                Ok(())
            });
            read.expect("nothing fails");
        }
        Err(OfflineError::Damaged(_)) => damages += 1,
        Err(OfflineError::Unusable(_)) => damages += 1,
        Err(error) => panic!("{error}"),
    }
    (damages, rows)
}
