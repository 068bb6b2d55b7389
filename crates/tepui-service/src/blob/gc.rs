//! Garbage collection: frees the space of deleted blobs, and deletes what has expired. It runs in the background in small
//! steps with a commit each, so that it can be stopped at any time and continues after a restart.
//!
//! A commit that makes something unreachable writes a GC record, which says what is to be collected.

use super::contents;
use super::cursor::RowCursor;
use super::service::{BlobService, extent_error};
use super::slot::{Progress, discard_blocks, discard_consumed};
use super::staged;
use super::write_set::WriteSet;
use crate::coop::CoopSnapshot;
use crate::keyspace::{self, ContentId, Incarnation};
use crate::record::{self, Content, PieceRow, StoredBlob, StoredBlock, StoredContainer, StoredExtent};
use crate::transact::{Attempt, Outcome, SpaceUse, commit, engine_error};
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Engine, Extent, ExtentError, Extents, Key, KeyRange, ScanLimit, Snapshot};
use tokio::time::Instant;

/// The time between two scans for GC records.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// The time between two scans for expired blocks and expired soft-deleted containers.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// The lifetime of uncommitted blocks, from the newest one of their blob.
const UNCOMMITTED_BLOCK_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// About the number of rows of one step.
const STEP_ROWS: usize = 256;
/// The records of free extents that are held in memory.
const RECORD_PAGE: ScanLimit = ScanLimit { max_rows: 32 * STEP_ROWS, max_bytes: 4 * 1024 * 1024 };
/// The pause after a step, as a multiple of the step's time, and the longest pause.
const PAUSE_FACTOR: u32 = 2;
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// A step that is not committed yet.
struct GcStep<S> {
    snapshot: S,
    began: Instant,
}

/// What is left to collect of an unreachable container.
struct DroppedContainer {
    blocks: KeyRange,
    blobs: KeyRange,
}

impl DroppedContainer {
    /// Releases the first blocks that are left, or the first blobs once no block is left.
    async fn release_batch<S: Snapshot>(
        &mut self,
        writes: &mut WriteSet<'_, S>,
    ) -> Result<Progress, ServiceError> {
        if discard_blocks(writes, &mut self.blocks).await? == Progress::Partial {
            return Ok(Progress::Partial);
        }
        self.blocks.start = self.blocks.end.clone();
        let mut rows = RowCursor::new(writes.snapshot, self.blobs.clone(), STEP_ROWS);
        for _ in 0..STEP_ROWS {
            let Some((key, row)) = rows.next().await? else { return Ok(Progress::Complete) };
            contents::release(writes, &StoredBlob::decode(&row)?.content).await?;
            self.blobs.start = key.clone();
            writes.delete(key);
        }
        Ok(Progress::Partial)
    }
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Collects garbage until it is dropped. For a background task.
    pub async fn collect_garbage(&self) {
        while let Err(error) = self.free_orphaned_extents().await {
            tracing::warn!(%error, "cannot free the orphaned extents of an earlier run yet");
            tokio::time::sleep(SCAN_INTERVAL).await;
        }
        let mut expired_at = None;
        loop {
            let now = self.clock.now();
            let due = expired_at.is_none_or(|last: Timestamp| now >= last.saturating_add(EXPIRY_INTERVAL));
            let outcome = match due {
                true => self.expire_once().await.map(|()| expired_at = Some(now)),
                false => Ok(()),
            };
            let outcome = match outcome {
                Ok(()) => self.collect_garbage_once().await,
                failed => failed,
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "cannot give back the space of deleted blobs yet");
            }
            tokio::time::sleep(SCAN_INTERVAL).await;
        }
    }

    /// Frees extents that an earlier process wrote and nothing refers to. To be called once, after a start.
    pub async fn free_orphaned_extents(&self) -> Result<(), ServiceError> {
        for volume in self.extents.unsealed_volumes() {
            let snapshot = self.snapshot().await?;
            // A container is created before any extent is written. So if there is no row at all, the rows are lost.
            if snapshot.first(&keyspace::everything()).await.map_err(engine_error)?.is_none() {
                let why = format!(
                    "volume {volume} has bytes of blobs, but there is no row at all: nothing is swept"
                );
                return Err(ServiceError::new(ErrorCode::InternalError).with_cause(why));
            }
            let mut rows = RowCursor::new(&snapshot, keyspace::extents_of_volume(volume), 1000);
            let mut kept = Vec::new();
            while let Some((key, row)) = rows.next().await? {
                let (volume, offset) = keyspace::extent_location(&key).ok_or(ErrorCode::InternalError)?;
                kept.push(Extent { volume, offset, bytes: StoredExtent::decode(&row)?.bytes });
            }
            match self.extents.sweep(volume, kept).await {
                // A damaged volume stays as it is for inspection; the others are swept.
                Err(error @ ExtentError::Corrupt(_)) => {
                    tracing::error!(%error, volume, "a volume is not swept")
                }
                swept => swept.map_err(extent_error)?,
            }
        }
        Ok(())
    }

    /// Processes all GC records.
    pub async fn collect_garbage_once(&self) -> Result<(), ServiceError> {
        self.fail_interrupted_copies().await?;
        let mut left = keyspace::retained_until(self.clock.now());
        while self.purge_soft_deleted(&mut left).await? == Progress::Partial {}
        let mut left = keyspace::all_consumed_blocks();
        while let Some(gc_record) = self.first(&mut left).await? {
            self.discard_consumed(&gc_record).await?;
        }
        let mut left = keyspace::all_dropped_containers();
        while let Some(gc_record) = self.first(&mut left).await? {
            self.purge_container(gc_record).await?;
        }
        while self.release_contents().await? == Progress::Partial {}
        self.free_extents().await
    }

    /// The first key of a range, whose start advances to it. Thousands of tombstones may lie before it, which are not to
    /// be scanned again for each record.
    async fn first(&self, left: &mut KeyRange) -> Result<Option<Key>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let Some((key, _)) = RowCursor::new(&snapshot, left.clone(), 1).next().await? else {
            return Ok(None);
        };
        left.start = key.clone();
        Ok(Some(key))
    }

    async fn begin(&self) -> Result<GcStep<CoopSnapshot<E::Snapshot>>, ServiceError> {
        let began = Instant::now();
        Ok(GcStep { snapshot: self.snapshot().await?, began })
    }

    /// Commits a step, and pauses to let requests go first. After a conflict the step has to be repeated.
    async fn commit(
        &self,
        step: GcStep<CoopSnapshot<E::Snapshot>>,
        changes: Outcome<()>,
    ) -> Result<Attempt<()>, ServiceError> {
        let attempt = commit(&*self.engine, &step.snapshot, changes, SpaceUse::Frees).await?;
        // The snapshot would keep what is being freed.
        drop(step.snapshot);
        tokio::time::sleep((step.began.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE)).await;
        Ok(attempt)
    }

    /// Deletes soft-deleted revisions whose retention has ended, as the first records of `left` say.
    async fn purge_soft_deleted(&self, left: &mut KeyRange) -> Result<Progress, ServiceError> {
        let step = self.begin().await?;
        let mut writes = WriteSet::new(&step.snapshot);
        let mut gc_records = RowCursor::new(&step.snapshot, left.clone(), STEP_ROWS);
        let mut last = None;
        for _ in 0..STEP_ROWS {
            let Some((gc_record, _)) = gc_records.next().await? else { break };
            self.purge(&mut writes, &gc_record).await?;
            writes.delete(gc_record.clone());
            last = Some(gc_record);
        }
        let Some(last) = last else { return Ok(Progress::Complete) };
        let changes = writes.finish(());
        if let Attempt::Done(()) = self.commit(step, changes).await? {
            left.start = last;
        }
        Ok(Progress::Partial)
    }

    async fn purge(
        &self,
        writes: &mut WriteSet<'_, CoopSnapshot<E::Snapshot>>,
        gc_record: &Key,
    ) -> Result<(), ServiceError> {
        let Some((container, name, revision)) = keyspace::retained_blob(gc_record) else { return Ok(()) };
        let key = keyspace::blob(container, &name, revision);
        let Some(row) = writes.get(&key).await? else { return Ok(()) };
        let blob = StoredBlob::decode(&row)?;
        writes.guard(key.clone());
        // It may have been restored, or deleted once more.
        if blob.deleted.is_some_and(|deleted| deleted.until <= self.clock.now()) {
            contents::release(writes, &blob.content).await?;
            writes.delete(key);
        }
        Ok(())
    }

    /// Discards blocks that were consumed by a block list.
    async fn discard_consumed(&self, gc_record: &Key) -> Result<(), ServiceError> {
        let (container, name) = keyspace::blob_of_marker(gc_record).ok_or(ErrorCode::InternalError)?;
        let step = self.begin().await?;
        let mut writes = WriteSet::new(&step.snapshot);
        discard_consumed(&mut writes, container, &name).await?;
        let changes = writes.finish(());
        self.commit(step, changes).await?;
        Ok(())
    }

    /// Releases everything in an unreachable container.
    async fn purge_container(&self, gc_record: Key) -> Result<(), ServiceError> {
        let number = gc_record.get(1..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
        let container = Incarnation(number.ok_or(ErrorCode::InternalError)?);
        let mut left = DroppedContainer {
            blocks: keyspace::blocks_with_prefix(container, ""),
            blobs: keyspace::blobs(container),
        };
        loop {
            let step = self.begin().await?;
            let mut writes = WriteSet::new(&step.snapshot);
            let progress = left.release_batch(&mut writes).await?;
            if progress == Progress::Complete {
                for range in [keyspace::tags(container), keyspace::staged_in(container)] {
                    self.engine.reclaim(range).await.map_err(engine_error)?;
                }
                writes.delete(gc_record.clone());
            }
            let changes = writes.finish(());
            let attempt = self.commit(step, changes).await?;
            if progress == Progress::Complete || matches!(attempt, Attempt::Retry(())) {
                // If the record is still there, the next scan continues.
                return Ok(());
            }
        }
    }

    /// Releases all unreferenced contents. Each may hold the last reference to another.
    async fn release_contents(&self) -> Result<Progress, ServiceError> {
        let mut left = keyspace::all_dropped_contents();
        let mut progress = Progress::Complete;
        while self.release_content_batch(&mut left).await? == Progress::Partial {
            progress = Progress::Partial;
        }
        Ok(progress)
    }

    /// Releases the contents of the first records of `left`, except pinned ones.
    async fn release_content_batch(&self, left: &mut KeyRange) -> Result<Progress, ServiceError> {
        let step = self.begin().await?;
        let mut writes = WriteSet::new(&step.snapshot);
        let mut gc_records = RowCursor::new(&step.snapshot, left.clone(), STEP_ROWS);
        let mut last = None;
        let mut rows = 0;
        while rows < STEP_ROWS
            && let Some((gc_record, _)) = gc_records.next().await?
        {
            let content = keyspace::dropped_content_id(&gc_record).ok_or(ErrorCode::InternalError)?;
            if self.pinned.contains(content) {
                continue;
            }
            rows += 1;
            if release_pieces(&mut writes, content, &mut rows).await? == Progress::Complete {
                writes.delete(gc_record.clone());
            }
            last = Some(gc_record);
        }
        let Some(last) = last else { return Ok(Progress::Complete) };
        let changes = writes.finish(());
        if let Attempt::Done(()) = self.commit(step, changes).await? {
            left.start = last;
        }
        Ok(Progress::Partial)
    }

    /// Frees unreferenced extents.
    async fn free_extents(&self) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_free_extents());
        while let Some(range) = left {
            // Dropped at once: a snapshot keeps files that compaction replaces. One large page, because every page waits for
            // the readers.
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let page = snapshot.scan_some(&range, RECORD_PAGE).await.map_err(engine_error)?;
            drop(snapshot);
            left = page.next.map(|start| KeyRange { start, end: range.end });
            if page.rows.is_empty() {
                return Ok(());
            }
            // Readers that begin after this cannot reach an extent that has a record.
            self.extents.wait_for_readers().await;
            for gc_records in page.rows.chunks(STEP_ROWS) {
                let step = self.begin().await?;
                let mut writes = WriteSet::new(&step.snapshot);
                let mut extents = Vec::with_capacity(gc_records.len());
                for (gc_record, row) in gc_records {
                    let (volume, offset) =
                        keyspace::extent_location(gc_record).ok_or(ErrorCode::InternalError)?;
                    let extent = Extent { volume, offset, bytes: record::decode_number(row)? };
                    if writes.get(&keyspace::extent(extent)).await?.is_none() {
                        extents.push(extent);
                    }
                    writes.delete(gc_record.clone());
                }
                self.extents.free(extents).await.map_err(extent_error)?;
                let changes = writes.finish(());
                self.commit(step, changes).await?;
            }
        }
        Ok(())
    }

    /// Discards expired uncommitted blocks, and drops soft-deleted containers whose retention has ended.
    pub async fn expire_once(&self) -> Result<(), ServiceError> {
        let now = self.clock.now();
        for (container, name) in self.expired_blocks(now).await? {
            loop {
                let step = self.begin().await?;
                let mut writes = WriteSet::new(&step.snapshot);
                let progress = discard_blocks(&mut writes, &mut keyspace::blocks(container, &name)).await?;
                let changes = writes.finish(());
                self.commit(step, changes).await?;
                if progress == Progress::Complete {
                    break;
                }
            }
        }
        self.remove_stale_markers().await?;
        let snapshot = self.snapshot().await?;
        let mut rows = RowCursor::new(&snapshot, keyspace::all_containers(), 1000);
        while let Some((key, row)) = rows.next().await? {
            let container = StoredContainer::decode(&row)?;
            if container.deleted.is_some_and(|deleted| deleted.until <= now) {
                let mut writes = WriteSet::new(&snapshot);
                writes.delete(key);
                let gc_record = keyspace::dropped_container(container.incarnation);
                writes.put(gc_record, record::encode_number(now.ticks()));
                commit(&*self.engine, &snapshot, writes.finish(()), SpaceUse::Frees).await?;
            }
        }
        Ok(())
    }

    /// Removes the markers of blobs that have no uncommitted blocks.
    async fn remove_stale_markers(&self) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_staged());
        while let Some(range) = left.clone() {
            let step = self.begin().await?;
            let mut writes = WriteSet::new(&step.snapshot);
            let limit = ScanLimit { max_rows: STEP_ROWS, max_bytes: 1024 * 1024 };
            let page = step.snapshot.scan(&range, limit).await.map_err(engine_error)?;
            for gc_record in page.rows {
                staged::remove_stale(&mut writes, gc_record).await?;
            }
            let changes = writes.finish(());
            if let Attempt::Done(()) = self.commit(step, changes).await? {
                left = page.next.map(|start| KeyRange { start, end: range.end });
            }
        }
        Ok(())
    }

    /// Blobs whose uncommitted blocks have expired, at most 1000.
    async fn expired_blocks(&self, now: Timestamp) -> Result<Vec<(Incarnation, String)>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let mut rows = RowCursor::new(&snapshot, keyspace::all_blocks(), 1000);
        let mut expired = Vec::new();
        let mut current: Option<((Incarnation, String), Timestamp)> = None;
        while let Some((key, row)) = rows.next().await?
            && expired.len() < 1000
        {
            let put = StoredBlock::decode(&row)?.put;
            let (Some(container), Some((name, _))) =
                (keyspace::container_of_blob(&key), keyspace::block_of(&key))
            else {
                continue;
            };
            match &mut current {
                Some((blob, newest)) if blob.0 == container && blob.1 == name => *newest = put.max(*newest),
                _ => {
                    let before = current.replace(((container, name.into_owned()), put));
                    expired
                        .extend(before.filter(|(_, newest)| is_expired(*newest, now)).map(|(blob, _)| blob));
                }
            }
        }
        expired.extend(current.filter(|(_, newest)| is_expired(*newest, now)).map(|(blob, _)| blob));
        Ok(expired)
    }
}

/// Releases the references of the first pieces of a content, and deletes the content with the last of them. `rows` counts.
async fn release_pieces<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    content: ContentId,
    rows: &mut usize,
) -> Result<Progress, ServiceError> {
    let mut pieces = RowCursor::new(writes.snapshot, keyspace::pieces_from(content, 0), 16);
    while let Some((key, row)) = pieces.next().await? {
        if *rows >= STEP_ROWS {
            return Ok(Progress::Partial);
        }
        let listed = PieceRow::decode(&row)?.pieces;
        *rows += listed.len().div_ceil(8);
        for extent in listed.iter().filter_map(|piece| contents::extent_of(&piece.source)) {
            contents::release_extent(writes, extent).await?;
        }
        writes.delete(key);
    }
    if let Some((parent, _)) = contents::head(writes, content).await?.parent {
        contents::release(writes, &Content::Listed(parent)).await?;
    }
    writes.delete(keyspace::content(content));
    Ok(Progress::Complete)
}

fn is_expired(newest: Timestamp, now: Timestamp) -> bool {
    newest.saturating_add(UNCOMMITTED_BLOCK_LIFETIME) <= now
}
