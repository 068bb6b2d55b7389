//! Copies extents, several at a time. One commit says where some of them are now, and how often each is referred to.

use super::patience::patiently;
use super::progress::CopyProgress;
use super::read::{RowPages, following};
use super::resume::ResumeState;
use super::{CopyError, Storage};
use crate::keyspace;
use crate::record::{CopiedExtent, StoredExtent};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::ErrorCode;
use tepui_storage::{
    Engine, Extent, ExtentWriter, Extents, Key, PIECE_BYTES, ScanLimit, StorageError, Write,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Extents that are copied, or read back, at a time. Each has `READ_BYTES` in memory, and what its writer keeps.
pub(super) const PARALLEL: usize = 8;
/// The bytes of one read: whole pieces.
const READ_BYTES: u64 = 32 * PIECE_BYTES;
/// Extents whose reference counts are read at a time.
const PAGE: ScanLimit = ScanLimit { max_rows: 1024, max_bytes: 1 << 20 };
/// A commit is made for so many extents that were copied, or after so long: what is not committed is lost with the process.
const MAX_UNCOMMITTED: usize = 64;
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// An extent of the source.
struct Counted {
    /// Of its reference count.
    key: Key,
    extent: Extent,
    references: u64,
}

/// An extent that is in the target.
struct Copied {
    source: Counted,
    copy: CopiedExtent,
}

pub(super) async fn copy<E1: Engine, X1: Extents, E2: Engine, X2: Extents>(
    source: &Storage<E1, X1>,
    target: &Storage<E2, X2>,
    resume: &mut ResumeState<E2>,
    progress: &Arc<CopyProgress>,
) -> Result<(), CopyError> {
    let from = resume.state().next.clone();
    let mut pages = Some(RowPages::new(&source.engine, &keyspace::extent_counts(), &from, PAGE));
    // What was read and is not begun; what is being copied; what was copied and is not committed.
    let mut waiting: VecDeque<Counted> = VecDeque::new();
    let mut running: JoinSet<Result<Copied, CopyError>> = JoinSet::new();
    let mut running_keys: BTreeSet<Key> = BTreeSet::new();
    let mut copied: Vec<Copied> = Vec::new();
    let mut read_to = from;
    let mut due = Instant::now() + COMMIT_INTERVAL;
    loop {
        while running.len() < PARALLEL {
            if waiting.is_empty()
                && let Some(reader) = &mut pages
            {
                match reader.next().await? {
                    Some(page) => {
                        let page = page.into_iter().map(|(key, value)| counted(key, &value));
                        let page: Vec<Counted> = page.collect::<Result<_, _>>()?;
                        read_to = page.last().map_or(read_to, |last| following(&last.key));
                        waiting.extend(not_copied(&*target.engine, page).await?);
                    }
                    None => pages = None,
                }
                continue;
            }
            let Some(next) = waiting.pop_front() else { break };
            running_keys.insert(next.key.clone());
            let (from, to) = (Arc::clone(&source.extents), Arc::clone(&target.extents));
            let progress = Arc::clone(progress);
            running.spawn(async move {
                let copy = patiently(|| copy_one(&*from, &*to, next.extent, &progress)).await?;
                Ok(Copied { source: next, copy })
            });
        }
        let is_due = copied.len() >= MAX_UNCOMMITTED || running.is_empty() || Instant::now() >= due;
        if is_due && !copied.is_empty() {
            let first_left = running_keys.first().or(waiting.front().map(|first| &first.key));
            let next = first_left.unwrap_or(&read_to).clone();
            commit(target, resume, std::mem::take(&mut copied), next).await?;
            due = Instant::now() + COMMIT_INTERVAL;
        }
        if running.is_empty() {
            return Ok(());
        }
        if copied.is_empty() {
            due = Instant::now() + COMMIT_INTERVAL;
        }
        if let Ok(Some(done)) = tokio::time::timeout_at(due, running.join_next()).await {
            let done = done.map_err(|panic| StorageError::failed(panic.to_string()))??;
            running_keys.remove(&done.source.key);
            progress.add_extent();
            copied.push(done);
        }
    }
}

fn counted(key: Key, value: &[u8]) -> Result<Counted, CopyError> {
    let StoredExtent { bytes, references } = StoredExtent::decode(value)?;
    let extent = keyspace::extent_at(&key, bytes).ok_or(ErrorCode::InternalError);
    let extent = extent.map_err(|code| CopyError::Row(code.into()))?;
    Ok(Counted { key, extent, references })
}

/// Those that an earlier process has not copied.
async fn not_copied<E: Engine>(target: &E, page: Vec<Counted>) -> Result<Vec<Counted>, StorageError> {
    let keys: Vec<Key> = page.iter().map(|counted| keyspace::copied_extent(counted.extent)).collect();
    let found = patiently(|| target.get_many(&keys)).await?;
    Ok(page.into_iter().zip(found).filter(|(_, found)| found.is_none()).map(|(counted, _)| counted).collect())
}

async fn commit<E: Engine, X: Extents>(
    target: &Storage<E, X>,
    resume: &mut ResumeState<E>,
    copied: Vec<Copied>,
    next: Key,
) -> Result<(), CopyError> {
    let mut writes = Vec::with_capacity(2 * copied.len() + 1);
    for Copied { source, copy } in &copied {
        let count = StoredExtent { bytes: copy.extent.bytes, references: source.references };
        writes.push(Write::Put(keyspace::extent(copy.extent), count.encode()));
        writes.push(Write::Put(keyspace::copied_extent(source.extent), copy.encode()));
    }
    resume
        .commit(writes, |state| {
            state.next = next;
            state.extents += copied.len() as u64;
            state.extent_bytes += copied.iter().map(|copied| copied.copy.extent.bytes).sum::<u64>();
        })
        .await?;
    copied.iter().for_each(|copied| target.extents.unpin(copied.copy.extent));
    Ok(())
}

/// Copies the bytes of an extent.
async fn copy_one<X1: Extents, X2: Extents>(
    source: &X1,
    target: &X2,
    extent: Extent,
    progress: &CopyProgress,
) -> Result<CopiedExtent, StorageError> {
    let mut done = 0;
    let copied = async {
        let mut writer = target.begin().await?;
        let mut sha256 = Sha256::new();
        let mut pieces = Pieces::new(source, extent);
        while let Some(read) = pieces.next().await? {
            for piece in read {
                sha256.update(&piece);
                done += piece.len() as u64;
                progress.add_bytes(piece.len() as u64);
                writer.write(piece).await?;
            }
        }
        let copy = writer.finish().await?;
        match copy.bytes == extent.bytes {
            true => Ok(CopiedExtent { extent: copy, sha256: sha256.finalize().into() }),
            false => Err(StorageError::failed(format!("{copy:?} is to have the bytes of {extent:?}"))),
        }
    };
    let copied = copied.await;
    if copied.is_err() {
        progress.take_back(done);
    }
    copied
}

/// The SHA-256 of an extent's bytes.
pub(super) async fn digest<X: Extents>(
    extents: &X,
    extent: Extent,
    progress: &CopyProgress,
) -> Result<[u8; 32], StorageError> {
    let mut done = 0;
    let read = async {
        let mut sha256 = Sha256::new();
        let mut pieces = Pieces::new(extents, extent);
        while let Some(read) = pieces.next().await? {
            for piece in read {
                sha256.update(&piece);
                done += piece.len() as u64;
                progress.add_bytes(piece.len() as u64);
            }
        }
        Ok(sha256.finalize().into())
    };
    let read = read.await;
    if read.is_err() {
        progress.take_back(done);
    }
    read
}

/// The bytes of an extent, some at a time.
struct Pieces<'a, X: Extents> {
    extents: &'a X,
    extent: Extent,
    at: u64,
    _guard: X::ReadGuard,
}

impl<'a, X: Extents> Pieces<'a, X> {
    fn new(extents: &'a X, extent: Extent) -> Self {
        Self { extents, extent, at: 0, _guard: extents.read_guard() }
    }

    async fn next(&mut self) -> Result<Option<Vec<bytes::Bytes>>, StorageError> {
        if self.at == self.extent.bytes {
            return Ok(None);
        }
        let end = self.extent.bytes.min(self.at + READ_BYTES);
        let (extents, extent, range) = (self.extents, self.extent, self.at..end);
        let read = patiently(|| extents.read(extent, range.clone())).await?;
        let bytes: u64 = read.iter().map(|piece| piece.len() as u64).sum();
        if bytes != end - self.at {
            return Err(StorageError::corrupt(format!("{bytes} bytes in {:?} of {extent:?}", self.at..end)));
        }
        self.at = end;
        Ok(Some(read))
    }
}
