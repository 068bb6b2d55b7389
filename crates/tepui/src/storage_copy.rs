//! `tepui storage copy` and `tepui storage verify`.

use crate::serve::Failure;
use crate::storage;
use crate::{FAILED, USAGE};
use clap::Args;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_files::SystemFiles;
use tepui_local::{DiskEngine, DiskExtents, EngineOptions, ExtentsOptions};
use tepui_model::time::SystemClock;
use tepui_server::config::{StorageSetting, StorageUrl};
use tepui_server::{Config, SharedStorage};
use tepui_service::copy::{
    CopyError, CopyProgress, CopyReport, CopyStage, ProgressReport, Storage, compare_storages, copy_storage,
};
use tepui_storage::StorageError;
use tepui_storage::dynamic::{BoxFuture, DynEngine, DynExtents};

/// How often the progress is shown on a terminal, and how often a line of it is written elsewhere.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Copies everything that a server stores to another storage, and verifies the copy.
///
/// No server may use either of them meanwhile. Nothing is changed in FROM. TO must be empty, or have a copy of FROM that was
/// interrupted: the same command continues it, at any time and as often as needed. No server starts on TO before the copy is
/// complete and verified.
#[derive(Args)]
pub(crate) struct CopyOptions {
    #[command(flatten)]
    sides: Sides,
}

/// Compares everything in two storages.
///
/// Every row and every byte of blobs is read on both sides. No server may use them meanwhile, nor may one have changed either
/// since the copy. Exit code 0: equal, 1: different, and what is.
#[derive(Args)]
pub(crate) struct VerifyOptions {
    #[command(flatten)]
    sides: Sides,
}

#[derive(Args)]
struct Sides {
    /// The storage to read, as --storage of `tepui serve` names it: local:DIR, postgres://…, tikv://…
    #[arg(value_name = "FROM")]
    from: String,

    /// The other storage, named likewise
    #[arg(value_name = "TO")]
    to: String,

    /// Where the large bytes of FROM are, as --blobs of `tepui serve` has it; those of local:DIR are in DIR
    #[arg(long, value_name = "BLOBS")]
    from_blobs: Option<String>,

    /// Where the large bytes of TO are to be
    #[arg(long, value_name = "BLOBS")]
    to_blobs: Option<String>,
}

pub(crate) fn copy(options: &CopyOptions) -> Result<(), Failure> {
    let began = Instant::now();
    let report = block_on(async {
        let sides = Opened::open(&options.sides, Target::MayBeMissing).await?;
        let progress = Arc::new(CopyProgress::default());
        let shown = Shown::of(&progress);
        let (clock, run) = (SystemClock::new(), random()?);
        let copied = copy_storage(&sides.from.storage, &sides.to.storage, &clock, run, &progress).await;
        drop(shown);
        sides.close().await;
        copied.map_err(|error| explain("nothing is finished", &error))
    })?;
    let what = if report.is_continued { "continued and verified" } else { "copied and verified" };
    print!("{}", as_text(&report, what, began.elapsed()));
    Ok(())
}

pub(crate) fn verify(options: &VerifyOptions) -> Result<(), Failure> {
    let began = Instant::now();
    let report = block_on(async {
        let sides = Opened::open(&options.sides, Target::MustExist).await?;
        let progress = Arc::new(CopyProgress::default());
        let shown = Shown::of(&progress);
        let compared =
            compare_storages(&sides.from.storage, &sides.to.storage, &SystemClock::new(), &progress).await;
        drop(shown);
        sides.close().await;
        compared.map_err(|error| explain("not verified", &error))
    })?;
    print!("{}", as_text(&report, "equal", began.elapsed()));
    Ok(())
}

fn failed(message: String) -> Failure {
    Failure { message, code: FAILED }
}

fn usage(message: String) -> Failure {
    Failure { message, code: USAGE }
}

fn explain(what: &str, error: &CopyError) -> Failure {
    match error {
        CopyError::Refused(why) => failed(why.clone()),
        CopyError::Different(_) => failed(error.to_string()),
        CopyError::Storage(_) | CopyError::Commit(_) | CopyError::Row(_) => {
            failed(format!("{what}, and the same command goes on where it was: {error}"))
        }
    }
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| failed(format!("cannot start threads: {error}")))?.block_on(work)
}

/// A number that no other process has.
fn random() -> Result<u128, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| failed(format!("no random bytes: {error}")))?;
    Ok(u128::from_le_bytes(bytes))
}

/// Whether the target of a command has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    MustExist,
    MayBeMissing,
}

/// Both storages, open.
struct Opened {
    from: Side,
    to: Side,
}

/// A storage that is open, and how it is closed.
struct Side {
    storage: Storage<DynEngine, DynExtents>,
    close: BoxFuture<'static, ()>,
}

impl Opened {
    async fn open(sides: &Sides, target: Target) -> Result<Self, Failure> {
        let [from, to] = [(&sides.from, &sides.from_blobs), (&sides.to, &sides.to_blobs)]
            .map(|(storage, blobs)| named(storage, blobs.as_deref()));
        let (from, to) = (from?, to?);
        let from = Side::open(&from, Target::MustExist).await.map_err(|failure| of_side("FROM", failure))?;
        match Side::open(&to, target).await {
            Ok(to) => Ok(Self { from, to }),
            Err(failure) => {
                from.close.await;
                Err(of_side("TO", failure))
            }
        }
    }

    async fn close(self) {
        self.to.close.await;
        self.from.close.await;
    }
}

fn of_side(side: &str, failure: Failure) -> Failure {
    Failure { message: format!("{side}: {}", failure.message), ..failure }
}

impl Side {
    async fn open(config: &Config, target: Target) -> Result<Self, Failure> {
        if let Some(SharedStorage { engine, extents, close, .. }) = storage::open(config).await? {
            return Ok(Self {
                storage: Storage { engine: Arc::new(engine), extents: Arc::new(extents) },
                close,
            });
        }
        let directory = match config.storage().map_err(|error| usage(error.to_string()))? {
            StorageSetting::Local(directory) => directory,
            StorageSetting::Memory | StorageSetting::Shared { .. } => {
                return Err(usage("a storage is local:DIR, or one over a network".to_owned()));
            }
        };
        if target == Target::MustExist {
            check_exists(&directory)?;
        }
        let open = move || open_local(&directory).map_err(|error| failed(error.to_string()));
        let opened = tokio::task::spawn_blocking(open).await;
        let Storage { engine, extents } = opened.map_err(|panic| failed(panic.to_string()))??;
        let storage = Storage {
            engine: Arc::new(DynEngine::from_arc(Arc::clone(&engine))),
            extents: Arc::new(DynExtents::from_arc(Arc::clone(&extents))),
        };
        let close = async move {
            let close = move || {
                extents.close();
                engine.close();
            };
            let _ = tokio::task::spawn_blocking(close).await;
        };
        Ok(Self { storage, close: Box::pin(close) })
    }
}

/// The configuration that names a storage.
fn named(storage: &str, blobs: Option<&str>) -> Result<Config, Failure> {
    let invalid = |error: String| usage(format!("{error} (as for --storage and --blobs of `tepui serve`)"));
    let parse = |text: &str| text.parse::<StorageUrl>().map_err(|error| invalid(error.to_string()));
    let config =
        Config { storage: Some(parse(storage)?), blobs: blobs.map(parse).transpose()?, ..Config::default() };
    config.storage().map_err(|error| invalid(error.to_string()))?;
    Ok(config)
}

fn check_exists(directory: &Path) -> Result<(), Failure> {
    match tepui_local::is_initialized(&SystemFiles, directory) {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(format!("not a data directory: {}", directory.display()))),
        Err(error) => {
            Err(failed(format!("cannot read the data directory: {error}: {}", directory.display())))
        }
    }
}

/// As a server opens it.
fn open_local(directory: &Path) -> Result<Storage<DiskEngine, DiskExtents>, StorageError> {
    let mut engine = EngineOptions::new(directory);
    engine.resident_range = tepui_service::catalogue_versions();
    let mut extents = ExtentsOptions::new(directory.join("extents"));
    // From the time on when the engine says that everything is there, what is missing is damage.
    extents.must_exist = tepui_local::is_initialized(&SystemFiles, directory).unwrap_or(true);
    let is_new = !extents.must_exist;
    let extents = DiskExtents::open(extents)?;
    if is_new && !extents.unsealed_volumes().is_empty() {
        let message = format!("there are bytes of blobs, but nothing else: {}", directory.display());
        return Err(StorageError::corrupt(message));
    }
    Ok(Storage { engine: Arc::new(DiskEngine::open(engine)?), extents: Arc::new(extents) })
}

/// Shows the progress on standard error until it is dropped.
struct Shown {
    task: tokio::task::JoinHandle<()>,
    is_terminal: bool,
}

impl Shown {
    fn of(progress: &Arc<CopyProgress>) -> Self {
        let progress = Arc::clone(progress);
        let is_terminal = io::stderr().is_terminal();
        let interval = if is_terminal { TERMINAL_INTERVAL } else { LINE_INTERVAL };
        let task = tokio::spawn(async move {
            let mut speed = Speed::default();
            loop {
                tokio::time::sleep(interval).await;
                let line = speed.line(progress.report(), Instant::now());
                let _ = match is_terminal {
                    true => write!(io::stderr(), "\r\x1b[K{line}"),
                    false => writeln!(io::stderr(), "{line}"),
                };
            }
        });
        Self { task, is_terminal }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// How fast a stage is.
#[derive(Default)]
struct Speed {
    /// When a stage was first seen, and how far it was then.
    began: Option<(CopyStage, Instant, u64)>,
}

impl Speed {
    fn line(&mut self, report: ProgressReport, now: Instant) -> String {
        let ProgressReport { stage, bytes, total_bytes, rows, extents } = report;
        let what = match stage {
            CopyStage::Surveying => "reading the source",
            CopyStage::Copying => "copying",
            CopyStage::Verifying => "verifying",
            CopyStage::Finishing => return "finishing".to_owned(),
        };
        let (first, began, before) = *self.began.get_or_insert((stage, now, bytes));
        if first != stage {
            self.began = Some((stage, now, bytes));
            return self.line(report, now);
        }
        let mut line = format!("{what}: {} MiB", bytes >> 20);
        if let Some(percent) = bytes.min(total_bytes).saturating_mul(100).checked_div(total_bytes) {
            let _ = write!(line, " of {} MiB ({percent} %)", total_bytes >> 20);
        }
        let _ = write!(line, ", {rows} rows, {extents} extents");
        let done = bytes.saturating_sub(before);
        let seconds = now.saturating_duration_since(began).as_secs_f64();
        if seconds >= 1.0 && done > 0 {
            let rate = done as f64 / seconds;
            let _ = write!(line, ", {:.1} MiB/s", rate / f64::from(1 << 20));
            if total_bytes > bytes {
                let _ = write!(line, ", {:.0} s left", (total_bytes - bytes) as f64 / rate);
            }
        }
        line
    }
}

fn as_text(report: &CopyReport, what: &str, took: Duration) -> String {
    let CopyReport { counts, rows, row_bytes, extent_bytes, .. } = report;
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let lines = [
        format!(
            "tables      {} with {} entities ({})",
            counts.tables,
            counts.entities,
            mib(counts.entity_bytes)
        ),
        format!(
            "queues      {} with {} messages ({})",
            counts.queues,
            counts.messages,
            mib(counts.message_bytes)
        ),
        format!("containers  {} with {} blobs ({})", counts.containers, counts.blobs, mib(counts.blob_bytes)),
        format!(
            "            {} snapshots, versions and deleted ones, {} uncommitted blocks",
            counts.other_revisions, counts.uncommitted_blocks
        ),
        format!(
            "in all      {rows} rows ({}), {} extents ({}) in {:.1} s",
            mib(*row_bytes),
            counts.extents,
            mib(*extent_bytes),
            took.as_secs_f64()
        ),
        what.to_owned(),
    ];
    lines.map(|line| line + "\n").concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_named_as_for_servers() {
        for (case, storage, blobs) in [
            ("a directory", "local:/data", None),
            ("a database and a bucket", "postgres://db/tepui", Some("s3://bucket/prefix")),
        ] {
            assert!(named(storage, blobs).is_ok(), "{case}");
        }
        for (case, storage, blobs, says) in [
            ("a path", "/data", None, "/data"),
            ("no path", "local:", None, "local:"),
            ("blobs elsewhere", "local:/data", Some("s3://bucket"), "s3://bucket"),
            ("a database without blobs", "postgres://db/tepui", None, "--blobs"),
        ] {
            let refused = named(storage, blobs).err().unwrap();
            assert!(refused.code == USAGE && refused.message.contains(says), "{case}: {}", refused.message);
        }
    }

    #[test]
    fn speed_and_rest_are_of_the_stage() {
        let (start, mib) = (Instant::now(), 1 << 20);
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut speed = Speed::default();
        let report =
            |stage, bytes, total_bytes| ProgressReport { stage, bytes, total_bytes, rows: 7, extents: 2 };
        for (seconds, report, expected) in [
            (0, report(CopyStage::Surveying, 5 * mib, 0), "reading the source: 5 MiB, 7 rows, 2 extents"),
            // Continued: half of it was there.
            (
                2,
                report(CopyStage::Copying, 50 * mib, 100 * mib),
                "copying: 50 MiB of 100 MiB (50 %), 7 rows, 2 extents",
            ),
            (
                4,
                report(CopyStage::Copying, 60 * mib, 100 * mib),
                "copying: 60 MiB of 100 MiB (60 %), 7 rows, 2 extents, 5.0 MiB/s, 8 s left",
            ),
            (
                9,
                report(CopyStage::Verifying, 0, 100 * mib),
                "verifying: 0 MiB of 100 MiB (0 %), 7 rows, 2 extents",
            ),
            (9, report(CopyStage::Finishing, 0, 0), "finishing"),
        ] {
            assert_eq!(speed.line(report, at(seconds)), expected);
        }
    }
}
