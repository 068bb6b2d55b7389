//! Copies everything from one storage to another: rows, and the large bytes that they refer to. For `tepui storage copy`.
//!
//! | | |
//! | --- | --- |
//! | `copy.rs` | the order of the steps |
//! | `survey.rs` | reads all rows of the source first: counts them, checks them, and takes their digest |
//! | `resume.rs` | from where it goes on: how far it is, in a row of the target that every commit writes |
//! | `extents.rs` | first the extents, several at a time |
//! | `rows.rs` | then the rows, page by page, with the new names of extents in them (`rename.rs`) |
//! | `verify.rs` | then both sides are compared: every row, and the bytes of every extent |
//! | `read.rs` | pages of rows, read ahead |
//! | `patience.rs` | repeats calls while a storage is not available |
//! | `progress.rs` | the counts for those who watch |
//!
//! It can be stopped at any moment, and continues where it was: an extent is written, then one commit says where it is and how
//! often it is referred to, and only rows that come later refer to it. Extents that were written and not committed are swept by
//! the first server that uses the target, as those of any process that was killed.
//!
//! Nobody may write to the source meanwhile. Nothing is written to it: that it is the same as before an interruption is known
//! by the digest of its rows.

mod extents;
mod patience;
mod progress;
mod read;
mod rename;
mod resume;
mod rows;
mod survey;
mod verify;

pub use progress::{CopyProgress, CopyStage, ProgressReport};

use crate::MAX_CLOCK_SKEW;
use crate::check::{RowCounts, RowDamage};
use crate::keyspace;
use crate::record::{StorageCopy, StorageCopyPhase, WorkLease};
use patience::patiently;
use read::Rows;
use resume::ResumeState;
use std::fmt;
use std::sync::Arc;
use survey::Survey;
use tepui_model::{Clock, ServiceError};
use tepui_storage::{CommitError, Engine, Extents, StorageError};
use verify::KnownBytes;

/// A storage: the engine for rows, and the extents for large bytes.
pub struct Storage<E, X> {
    pub engine: Arc<E>,
    pub extents: Arc<X>,
}

impl<E, X> Clone for Storage<E, X> {
    fn clone(&self) -> Self {
        Self { engine: Arc::clone(&self.engine), extents: Arc::clone(&self.extents) }
    }
}

/// Why a copy was not made, or not finished.
#[derive(Debug)]
pub enum CopyError {
    /// It must not be made as it was asked for. Nothing was written.
    Refused(String),
    /// Source and target are not the same.
    Different(Vec<String>),
    /// A storage failed. The copy can be continued.
    Storage(StorageError),
    /// A commit to the target failed. The copy can be continued.
    Commit(CommitError),
    /// A row cannot be decoded.
    Row(ServiceError),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => f.write_str(why),
            Self::Different(found) => write!(f, "source and target differ: {}", found.join("; ")),
            Self::Storage(error) => error.fmt(f),
            Self::Commit(error) => error.fmt(f),
            Self::Row(error) => match &error.cause {
                Some(cause) => write!(f, "{cause}"),
                None => error.fmt(f),
            },
        }
    }
}

impl std::error::Error for CopyError {}

impl From<StorageError> for CopyError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ServiceError> for CopyError {
    fn from(error: ServiceError) -> Self {
        Self::Row(error)
    }
}

/// What was copied, or compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyReport {
    pub counts: RowCounts,
    /// All rows but the reference counts of extents, with their keys.
    pub rows: u64,
    pub row_bytes: u64,
    pub extent_bytes: u64,
    /// Whether a copy that was interrupted was continued.
    pub is_continued: bool,
}

/// Whether a copy to this storage was begun and is not finished: nobody may use it before it is.
pub async fn unfinished<E: Engine>(engine: &E) -> Result<bool, StorageError> {
    let keys = [keyspace::copy_state()];
    let found = patiently(|| engine.get_many(&keys)).await?;
    Ok(found.iter().any(Option::is_some))
}

/// What to say of a storage that is [`unfinished`].
pub const UNFINISHED: &str =
    "a copy to this storage is not finished: repeat the same `tepui storage copy`, which continues it";

/// Copies everything from `source` to `target`, which is empty, or has an unfinished copy of the same source. `run` is random.
pub async fn copy_storage<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
    clock: &dyn Clock,
    run: u128,
    progress: &Arc<CopyProgress>,
) -> Result<CopyReport, CopyError> {
    let nodes_of_source = check_source(&*source.engine, clock).await?;
    check_unused(&*target.engine, clock, "target").await?;
    // Before the long survey, so that a wrong target is told at once.
    resume::find(&*target.engine).await?;
    progress.enter(CopyStage::Surveying, 0, 0);
    let survey = Survey::of(&source.engine, target.engine.limits(), progress).await?;
    let mut resume = ResumeState::begin(&target.engine, survey.digest, run).await?;
    let is_continued = resume.is_continued();
    // From now on no node takes a number of the target, nor renews it (`nodes.rs`). One may have done so since it was looked at.
    if let Err(refused) = check_unused(&*target.engine, clock, "target").await {
        if !is_continued {
            resume.forget().await?;
        }
        return Err(refused);
    }
    let StorageCopy { row_bytes, extent_bytes, .. } = resume.state();
    progress.enter(CopyStage::Copying, row_bytes + extent_bytes, survey.row_bytes + survey.extent_bytes);
    if resume.phase() == StorageCopyPhase::Extents {
        extents::copy(source, target, &mut resume, progress).await?;
        resume.enter(StorageCopyPhase::Rows).await?;
    }
    if resume.phase() == StorageCopyPhase::Rows {
        rows::copy(source, target, &mut resume, progress).await?;
        resume.enter(StorageCopyPhase::Verify).await?;
    }
    if resume.phase() == StorageCopyPhase::Verify {
        progress.enter(CopyStage::Verifying, 0, survey.row_bytes + survey.extent_bytes);
        let compared = verify::compare(source, target, KnownBytes::ByDigest, progress).await?;
        if compared != survey.counts {
            let why = format!("the source has changed meanwhile: {:?} became {compared:?}", survey.counts);
            return Err(CopyError::Different(vec![why]));
        }
        let nodes = check_source(&*source.engine, clock).await?;
        check_never_used(&nodes_of_source, &nodes, "source")?;
        resume.enter(StorageCopyPhase::CleanUp).await?;
    }
    progress.enter(CopyStage::Finishing, 0, 0);
    resume.finish().await?;
    Ok(survey.report(is_continued))
}

/// Compares everything in two storages that nobody uses.
pub async fn compare_storages<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
    clock: &dyn Clock,
    progress: &Arc<CopyProgress>,
) -> Result<CopyReport, CopyError> {
    let nodes_of_source = check_source(&*source.engine, clock).await?;
    let nodes_of_target = check_unused(&*target.engine, clock, "target").await?;
    if patiently(|| unfinished(&*target.engine)).await? {
        return Err(CopyError::Refused(format!("target: {UNFINISHED}")));
    }
    progress.enter(CopyStage::Surveying, 0, 0);
    let survey = Survey::of(&source.engine, source.engine.limits(), progress).await?;
    progress.enter(CopyStage::Verifying, 0, survey.row_bytes + survey.extent_bytes);
    verify::compare(source, target, KnownBytes::InSource, progress).await?;
    check_never_used(&nodes_of_source, &check_source(&*source.engine, clock).await?, "source")?;
    check_never_used(&nodes_of_target, &check_unused(&*target.engine, clock, "target").await?, "target")?;
    Ok(survey.report(false))
}

/// Refuses a source that is in use or not whole. Returns the rows of its nodes.
async fn check_source<E: Engine>(engine: &E, clock: &dyn Clock) -> Result<Rows, CopyError> {
    let nodes = check_unused(engine, clock, "source").await?;
    match unfinished(engine).await? {
        true => Err(CopyError::Refused(format!("source: {UNFINISHED}"))),
        false => Ok(nodes),
    }
}

/// Refuses a storage that nodes use. Returns the rows of those that have used it.
async fn check_unused<E: Engine>(engine: &E, clock: &dyn Clock, side: &str) -> Result<Rows, CopyError> {
    let nodes = read::all(engine, &keyspace::nodes()).await?;
    for (_, row) in &nodes {
        let lease = WorkLease::decode(row)?;
        // A number that was given back has no owner.
        if lease.owner != 0 && lease.until.saturating_add(MAX_CLOCK_SKEW) > clock.now() {
            let why = format!(
                "the {side} is in use: stop all servers on it (one that was killed counts for half a minute)"
            );
            return Err(CopyError::Refused(why));
        }
    }
    Ok(nodes)
}

/// Refuses a storage that a node has used between two looks at its nodes. A node that takes a number and gives it back leaves
/// another row than it has found, and what it has written may be where nobody has looked again.
fn check_never_used(before: &Rows, after: &Rows, side: &str) -> Result<(), CopyError> {
    match before == after {
        true => Ok(()),
        false => Err(CopyError::Different(vec![format!("a server has used the {side} meanwhile")])),
    }
}

/// A damage in one line.
fn told(side: &str, RowDamage { what, affects }: &RowDamage) -> String {
    match affects.is_empty() {
        true => format!("{side}: {what}"),
        false => format!("{side}: {what} ({affects})"),
    }
}
