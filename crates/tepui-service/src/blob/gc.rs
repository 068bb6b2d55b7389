//! Garbage collection: frees the space of deleted blobs, and deletes what has expired. It runs in the background in small
//! steps with a commit each, so that it can be stopped at any time and continues after a restart.
//!
//! A commit that makes something unreachable writes a GC record, which says what is to be collected.

use super::contents;
use super::cursor::RowCursor;
use super::pending::Interrupted;
use super::service::BlobService;
use super::slot::{Progress, discard_blocks, discard_consumed, discard_put_until};
use super::staged;
use super::write_set::WriteSet;
use crate::coop::CoopSnapshot;
use crate::keyspace::{self, ContentId, Incarnation};
use crate::record::{self, Content, PieceRow, StoredBlob, StoredBlock, StoredContainer, StoredExtent};
use crate::transact::{Attempt, CommitState, Outcome, SpaceUse, commit, restart, storage_error};
use crate::work_lease::{StoreAccess, Work, WorkLeases};
use std::collections::VecDeque;
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{
    Engine, Extent, Extents, Key, KeyRange, ScanLimit, Snapshot, StorageErrorKind, StoreId, Value,
};
use tokio::time::Instant;

/// The time between two scans for GC records.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// The time between two scans for expired blocks and expired soft-deleted containers.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// The lifetime of uncommitted blocks, from the newest one of their blob.
const UNCOMMITTED_BLOCK_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// About the number of rows of one step.
pub(super) const STEP_ROWS: usize = 256;
/// How many free extents the readers are waited for at once. Where several nodes share the store, each wait takes a minute.
const MAX_FREED_AT_ONCE: usize = 64 * 1024;
/// A page of records of the garbage collector.
const RECORD_PAGE: ScanLimit = ScanLimit { max_rows: 32 * STEP_ROWS, max_bytes: 4 * 1024 * 1024 };
/// The pause after a step, as a multiple of the step's time, and the longest pause.
const PAUSE_FACTOR: u32 = 2;
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// A step that is not committed yet.
pub(super) struct GcStep<S> {
    pub(super) snapshot: S,
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
        let rows = RowCursor::new(writes.snapshot, self.blobs.clone(), STEP_ROWS).take(STEP_ROWS).await?;
        let progress = if rows.len() < STEP_ROWS { Progress::Complete } else { Progress::Partial };
        let contents = rows.into_iter().map(|(key, row)| Ok((key, StoredBlob::decode(&row)?.content)));
        let contents = contents.collect::<Result<Vec<_>, ServiceError>>()?;
        writes.prefetch(contents.iter().filter_map(|(_, content)| contents::count_key(content))).await?;
        for (key, content) in contents {
            contents::release(writes, &content).await?;
            self.blobs.start = key.clone();
            writes.delete(key);
        }
        Ok(progress)
    }
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Collects garbage until it is dropped. For a background task.
    pub async fn collect_garbage(&self, leases: &WorkLeases<E>) {
        if leases.access() == StoreAccess::Exclusive {
            while let Err(error) = self.clean_up_after_earlier_processes().await {
                tracing::warn!(%error, "cannot clean up after earlier processes yet");
                tokio::time::sleep(SCAN_INTERVAL).await;
            }
        }
        let mut expired_at = None;
        let mut is_clock_set = false;
        loop {
            let clock_set = self.clock.changed();
            let now = self.clock.now();
            let due = expired_at.is_none_or(|last: Timestamp| now >= last.saturating_add(EXPIRY_INTERVAL));
            let round = async {
                if due {
                    // In a store that others use, too, their orphans are found one day.
                    self.free_orphaned_extents().await?;
                }
                if due || is_clock_set {
                    self.expire_once().await?;
                }
                self.collect_garbage_once().await
            };
            match leases.run(Work::CollectBlobs, round).await {
                Some(Ok(())) if due || is_clock_set => expired_at = Some(now),
                Some(Ok(())) | None => {}
                Some(Err(error)) => {
                    tracing::warn!(%error, "cannot give back the space of deleted blobs yet")
                }
            }
            is_clock_set = tokio::select! {
                () = tokio::time::sleep(SCAN_INTERVAL) => false,
                () = clock_set => true,
            };
        }
    }

    /// Ends what processes have left behind that used the store before this one, which is the only one now.
    pub async fn clean_up_after_earlier_processes(&self) -> Result<(), ServiceError> {
        self.fail_interrupted_copies(Interrupted::OfOtherProcesses).await?;
        self.free_orphaned_extents().await
    }

    /// Frees extents that nothing refers to, in volumes that are not written any more.
    pub async fn free_orphaned_extents(&self) -> Result<(), ServiceError> {
        restart(|| self.sweep_volumes()).await
    }

    async fn sweep_volumes(&self) -> Result<(), ServiceError> {
        let mut volumes = self.extents.sweepable_volumes().await.map_err(storage_error)?.into_iter();
        loop {
            // Several at once, because each time the readers are waited for.
            let (mut due, mut extents) = (Vec::new(), 0);
            while extents < MAX_FREED_AT_ONCE
                && let Some(volume) = volumes.next()
            {
                let kept = self.kept_extents(volume).await?;
                extents += kept.len();
                due.push((volume, kept));
            }
            if due.is_empty() {
                return Ok(());
            }
            // Readers that begin after this cannot reach what is not kept. Others may be about what was referred to until just now.
            self.extents.wait_for_readers().await;
            for (volume, kept) in due {
                match self.extents.sweep(volume, kept).await {
                    // A damaged volume stays as it is for inspection; the others are swept.
                    Err(error) if error.kind() == StorageErrorKind::Corrupt => {
                        tracing::error!(%error, volume, "a volume is not swept")
                    }
                    swept => swept.map_err(storage_error)?,
                }
            }
        }
    }

    /// What is kept of a volume that is to be swept: from now on no reference to it is added.
    async fn kept_extents(&self, volume: u64) -> Result<Vec<Extent>, ServiceError> {
        // A container is created before any extent is written, and it is numbered. So if nothing ever was, the rows are
        // lost, or they are those of another installation.
        let snapshot = self.begin().await?;
        let numbered = snapshot.get(&keyspace::incarnation_counter()).await.map_err(storage_error)?;
        if numbered.is_none() {
            let why = format!(
                "volume {volume} has bytes of blobs, but no container was ever created: nothing is swept"
            );
            return Err(ServiceError::new(ErrorCode::InternalError).with_cause(why));
        }
        drop(snapshot);
        if self.extents.store() != StoreId::LOCAL {
            self.mark_swept(volume).await?;
        }
        self.referenced_extents(volume).await
    }

    /// The extents of a volume that something refers to. No reference to the volume is added any more, so that each page may
    /// be read on a snapshot of its own.
    async fn referenced_extents(&self, volume: u64) -> Result<Vec<Extent>, ServiceError> {
        let mut kept = Vec::new();
        let mut left = Some(keyspace::extents_of_volume(self.extents.store(), volume));
        while let Some(range) = left {
            let snapshot = self.engine.begin().await.map_err(storage_error)?;
            let page = snapshot.scan_some(&range, RECORD_PAGE).await.map_err(storage_error)?;
            for (key, row) in page.rows {
                let bytes = StoredExtent::decode(&row)?.bytes;
                kept.push(keyspace::extent_at(&key, bytes).ok_or(ErrorCode::InternalError)?);
            }
            left = page.next.map(|start| KeyRange { start, end: range.end });
        }
        Ok(kept)
    }

    /// Processes all GC records.
    pub async fn collect_garbage_once(&self) -> Result<(), ServiceError> {
        restart(|| self.collect()).await
    }

    async fn collect(&self) -> Result<(), ServiceError> {
        self.fail_interrupted_copies(Interrupted::Expired).await?;
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
        while self.release_contents().await? {}
        self.free_discarded().await.map_err(storage_error)?;
        self.free_extents().await
    }

    /// The first key of a range, whose start advances to it. Thousands of tombstones may lie before it, which are not to
    /// be scanned again for each record.
    async fn first(&self, left: &mut KeyRange) -> Result<Option<Key>, ServiceError> {
        let snapshot = self.begin().await?;
        let Some((key, _)) = RowCursor::new(&snapshot, left.clone(), 1).next().await? else {
            return Ok(None);
        };
        left.start = key.clone();
        Ok(Some(key))
    }

    pub(super) async fn begin_step(&self) -> Result<GcStep<CoopSnapshot<E::Transaction>>, ServiceError> {
        let began = Instant::now();
        Ok(GcStep { snapshot: self.begin().await?, began })
    }

    /// Commits a step, and pauses to let requests go first. After a conflict the step has to be repeated.
    pub(super) async fn commit(
        &self,
        step: GcStep<CoopSnapshot<E::Transaction>>,
        changes: Outcome<()>,
    ) -> Result<Attempt<()>, ServiceError> {
        let attempt = match commit(&*self.engine, step.snapshot.into_inner(), changes, SpaceUse::Frees).await
        {
            // A step that was committed finds nothing to do when it is repeated.
            Err(failure) if failure.state == CommitState::Unknown => Attempt::Retry(()),
            attempt => attempt?,
        };
        tokio::time::sleep((step.began.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE)).await;
        Ok(attempt)
    }

    /// Deletes soft-deleted revisions whose retention has ended, as the first records of `left` say.
    async fn purge_soft_deleted(&self, left: &mut KeyRange) -> Result<Progress, ServiceError> {
        let step = self.begin_step().await?;
        let mut writes = WriteSet::new(&step.snapshot);
        let gc_records = RowCursor::new(&step.snapshot, left.clone(), STEP_ROWS).take(STEP_ROWS).await?;
        let retained = gc_records.iter().filter_map(|(gc_record, _)| keyspace::retained_blob(gc_record));
        let blobs = retained.map(|(container, name, revision)| keyspace::blob(container, &name, revision));
        writes.prefetch(blobs).await?;
        let mut last = None;
        for (gc_record, _) in gc_records {
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
        writes: &mut WriteSet<'_, CoopSnapshot<E::Transaction>>,
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
        let step = self.begin_step().await?;
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
            let step = self.begin_step().await?;
            let mut writes = WriteSet::new(&step.snapshot);
            let progress = left.release_batch(&mut writes).await?;
            let changes = writes.finish(());
            match self.commit(step, changes).await? {
                // The record is still there: the next scan continues.
                Attempt::Retry(()) => return Ok(()),
                Attempt::Done(()) | Attempt::Continue(()) if progress == Progress::Complete => break,
                Attempt::Done(()) | Attempt::Continue(()) => {}
            }
        }
        // Not within a step: its transaction may have the only connection to the store.
        for range in [keyspace::tags(container), keyspace::staged_in(container)] {
            self.engine.reclaim(range).await.map_err(storage_error)?;
        }
        let step = self.begin_step().await?;
        let mut writes = WriteSet::new(&step.snapshot);
        writes.delete(gc_record);
        let changes = writes.finish(());
        self.commit(step, changes).await?;
        Ok(())
    }

    /// Releases all unreferenced contents. Each may hold the last reference to another.
    /// Returns whether there was any.
    async fn release_contents(&self) -> Result<bool, ServiceError> {
        let mut left = Some(keyspace::all_dropped_contents());
        let mut released = false;
        while let Some(range) = left {
            let snapshot = self.begin().await?;
            let page = snapshot.scan_some(&range, RECORD_PAGE).await.map_err(storage_error)?;
            drop(snapshot);
            if page.rows.is_empty() {
                break;
            }
            // Downloads read lists of pieces as they go on, without a transaction that would keep them.
            self.extents.wait_for_readers().await;
            left = page.next.map(|start| KeyRange { start, end: range.end });
            let mut waited_for: VecDeque<Key> =
                page.rows.into_iter().map(|(gc_record, _)| gc_record).collect();
            while !waited_for.is_empty() {
                released |= self.release_content_batch(&mut waited_for).await?;
            }
        }
        Ok(released)
    }

    /// Releases the contents of the first of these records, except those that are being made. Returns whether it was any.
    async fn release_content_batch(&self, left: &mut VecDeque<Key>) -> Result<bool, ServiceError> {
        let step = self.begin_step().await?;
        let mut writes = WriteSet::new(&step.snapshot);
        let first: Vec<Key> = left.iter().take(STEP_ROWS).cloned().collect();
        let contents = first.iter().filter_map(|gc_record| keyspace::dropped_content_id(gc_record));
        writes.prefetch(first.iter().cloned().chain(contents.map(keyspace::content))).await?;
        // Those that are done with if the step is committed, and one that is not.
        let (mut done, mut rows, mut partial) = (0, 0, None);
        while rows < STEP_ROWS
            && let Some(gc_record) = first.get(done)
        {
            done += 1;
            let content = keyspace::dropped_content_id(gc_record).ok_or(ErrorCode::InternalError)?;
            let Some(row) = writes.get(gc_record).await? else { continue };
            // Later than now: it is being made, by this node or another one. See merge.rs.
            let kept_until = record::decode_number(&row)?;
            if kept_until > self.clock.of_machine(self.clock.now()).ticks() {
                continue;
            }
            rows += 1;
            if release_pieces(&mut writes, content, &mut rows).await? == Progress::Complete {
                writes.delete(gc_record.clone());
            } else {
                writes.guard(gc_record.clone());
                partial = Some(gc_record.clone());
                if kept_until > 0 {
                    // Whoever makes it finds that it is not whole any more.
                    writes.put(gc_record.clone(), record::encode_number(0));
                }
            }
        }
        let changes = writes.finish(());
        if let Attempt::Done(()) = self.commit(step, changes).await? {
            left.drain(..done);
            left.extend(partial);
        }
        Ok(rows > 0)
    }

    /// Frees unreferenced extents.
    async fn free_extents(&self) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_free_extents());
        while left.is_some() {
            // Many at once, because each time the readers are waited for.
            let mut records = Vec::new();
            while records.len() < MAX_FREED_AT_ONCE
                && let Some(range) = left.take()
            {
                // Dropped at once: a transaction keeps files that compaction replaces.
                let transaction = self.engine.begin().await.map_err(storage_error)?;
                let page = transaction.scan_some(&range, RECORD_PAGE).await.map_err(storage_error)?;
                left = page.next.map(|start| KeyRange { start, end: range.end });
                records.extend(page.rows);
            }
            if records.is_empty() {
                return Ok(());
            }
            let bytes = |(_, row): &(Key, Value)| record::decode_number(row).unwrap_or(0);
            let mut backlog: u64 = records.iter().map(bytes).sum();
            self.stats.free_backlog_bytes.set(backlog);
            // Readers that begin after this cannot reach an extent that has a record.
            self.extents.wait_for_readers().await;
            for gc_records in records.chunks(STEP_ROWS) {
                let step = self.begin_step().await?;
                let mut writes = WriteSet::new(&step.snapshot);
                let mut extents = Vec::with_capacity(gc_records.len());
                for (gc_record, row) in gc_records {
                    let bytes = record::decode_number(row)?;
                    extents.push(keyspace::extent_at(gc_record, bytes).ok_or(ErrorCode::InternalError)?);
                    writes.delete(gc_record.clone());
                }
                let keys: Vec<Key> = extents.iter().map(|extent| keyspace::extent(*extent)).collect();
                let rows = step.snapshot.get_many(&keys).await.map_err(storage_error)?;
                let is_free = |(extent, row): (Extent, Option<Value>)| row.is_none().then_some(extent);
                let extents = extents.into_iter().zip(rows).filter_map(is_free).collect();
                self.extents.free(extents).await.map_err(storage_error)?;
                let changes = writes.finish(());
                self.commit(step, changes).await?;
                backlog -= gc_records.iter().map(bytes).sum::<u64>();
                self.stats.free_backlog_bytes.set(backlog);
            }
        }
        Ok(())
    }

    /// Discards expired uncommitted blocks, and drops soft-deleted containers whose retention has ended.
    pub async fn expire_once(&self) -> Result<(), ServiceError> {
        restart(|| self.expire()).await
    }

    async fn expire(&self) -> Result<(), ServiceError> {
        let now = self.clock.now();
        let until = now.saturating_sub(UNCOMMITTED_BLOCK_LIFETIME).ticks();
        for (container, name) in self.expired_blocks(now).await? {
            loop {
                let step = self.begin_step().await?;
                let mut writes = WriteSet::new(&step.snapshot);
                let progress = discard_put_until(&mut writes, container, &name, until).await?;
                let changes = writes.finish(());
                let attempt = self.commit(step, changes).await?;
                if progress == Progress::Complete && matches!(attempt, Attempt::Done(())) {
                    break;
                }
            }
        }
        self.remove_stale_markers().await?;
        self.forget_volumes().await?;
        self.drop_expired_containers(now).await
    }

    /// Drops soft-deleted containers whose retention has ended.
    async fn drop_expired_containers(&self, now: Timestamp) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_containers());
        while let Some(range) = left.take() {
            let step = self.begin_step().await?;
            let mut writes = WriteSet::new(&step.snapshot);
            let limit = ScanLimit { max_rows: STEP_ROWS, max_bytes: 1024 * 1024 };
            let page = step.snapshot.scan(&range, limit).await.map_err(storage_error)?;
            let mut next = page.next;
            for (key, row) in page.rows {
                if writes.is_full() {
                    next = Some(key);
                    break;
                }
                let container = StoredContainer::decode(&row)?;
                if container.deleted.is_some_and(|deleted| deleted.until <= now) {
                    writes.delete(key);
                    let gc_record = keyspace::dropped_container(container.incarnation);
                    writes.put(gc_record, record::encode_number(now.ticks()));
                }
            }
            let changes = writes.finish(());
            left = match self.commit(step, changes).await? {
                Attempt::Done(()) => next.map(|start| KeyRange { start, end: range.end }),
                Attempt::Retry(()) | Attempt::Continue(()) => Some(range),
            };
        }
        Ok(())
    }

    /// Removes the markers of blobs that have no uncommitted blocks.
    async fn remove_stale_markers(&self) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_staged());
        while let Some(range) = left.clone() {
            let step = self.begin_step().await?;
            let mut writes = WriteSet::new(&step.snapshot);
            let limit = ScanLimit { max_rows: STEP_ROWS, max_bytes: 1024 * 1024 };
            let page = step.snapshot.scan(&range, limit).await.map_err(storage_error)?;
            let mut next = page.next;
            for (marker, row) in page.rows {
                if writes.is_full() {
                    next = Some(marker);
                    break;
                }
                staged::remove_stale(&mut writes, (marker, row)).await?;
            }
            let changes = writes.finish(());
            if let Attempt::Done(()) = self.commit(step, changes).await? {
                left = next.map(|start| KeyRange { start, end: range.end });
            }
        }
        Ok(())
    }

    /// Blobs whose uncommitted blocks have expired, at most 1000. Every page is read on a snapshot of its own: blocks that
    /// are put meanwhile are not expired, and those of a blob that was read in part are looked at again.
    async fn expired_blocks(&self, now: Timestamp) -> Result<Vec<(Incarnation, String)>, ServiceError> {
        let mut expired = Vec::new();
        let mut current: Option<((Incarnation, String), Timestamp)> = None;
        let mut left = Some(keyspace::all_blocks());
        while let Some(range) = left.filter(|_| expired.len() < 1000) {
            let snapshot = self.begin().await?;
            let limit = ScanLimit { max_rows: 1000, max_bytes: 1024 * 1024 };
            let page = snapshot.scan(&range, limit).await.map_err(storage_error)?;
            for (key, row) in page.rows {
                let put = StoredBlock::decode(&row)?.put;
                let (Some(container), Some((name, _))) =
                    (keyspace::container_of_blob(&key), keyspace::block_of(&key))
                else {
                    continue;
                };
                match &mut current {
                    Some((blob, newest)) if blob.0 == container && blob.1 == name => {
                        *newest = put.max(*newest);
                    }
                    _ => {
                        let before = current.replace(((container, name.into_owned()), put));
                        expired.extend(
                            before.filter(|(_, newest)| is_expired(*newest, now)).map(|(blob, _)| blob),
                        );
                    }
                }
            }
            left = page.next.map(|start| KeyRange { start, end: range.end });
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
        let extents = || listed.iter().filter_map(|piece| contents::extent_of(&piece.source));
        writes.prefetch(extents().map(keyspace::extent)).await?;
        for extent in extents() {
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
