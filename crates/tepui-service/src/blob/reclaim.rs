//! Gives back the space of what was deleted, and deletes what has expired. In the background, in small steps,
//! each of which is a commit of its own, so that it can be stopped at any time and goes on after a restart.

use super::contents;
use super::edit::{Edit, Rows};
use super::service::{BlobService, extent_error};
use super::staged;
use super::target::{More, discard_blocks, discard_spent};
use crate::keyspace::{self, ContentId, Incarnation};
use crate::pace::Paced;
use crate::record::{self, Content, Pieces, StoredBlob, StoredBlock, StoredContainer, StoredExtent};
use crate::transact::{Attempt, Outcome, Space, commit, engine_error};
use std::time::Duration;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Engine, Extent, ExtentError, Extents, Key, KeyRange, ScanLimit, Snapshot};
use tokio::time::Instant;

/// How often notes are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often blocks are looked for that nobody has committed, and containers that nobody has restored.
const EXPIRE_EVERY: Duration = Duration::from_secs(10 * 60);
/// How long blocks wait for being committed, counted from the last one of their blob.
const BLOCKS_LAST: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// About how many rows one step is about.
const STEP: usize = 256;
/// How many notes about free extents are held in memory.
const NOTES: ScanLimit = ScanLimit { max_rows: 32 * STEP, max_bytes: 4 * 1024 * 1024 };
/// How many times as long as a step took the rest after it is, and the longest rest.
const REST: u32 = 2;
const MAX_REST: Duration = Duration::from_millis(50);

/// A step on its way to its commit.
struct Step<S> {
    snapshot: S,
    began: Instant,
}

/// What is left in a container that nobody can reach any more.
struct Emptied {
    blocks: KeyRange,
    blobs: KeyRange,
}

impl Emptied {
    /// Releases the first of what is left: blocks, and blobs once there are no blocks.
    async fn release_some<S: Snapshot>(&mut self, edit: &mut Edit<'_, S>) -> Result<More, ServiceError> {
        if discard_blocks(edit, &mut self.blocks).await? == More::Yes {
            return Ok(More::Yes);
        }
        self.blocks.start = self.blocks.end.clone();
        let mut rows = Rows::of(edit.snapshot, self.blobs.clone(), STEP);
        for _ in 0..STEP {
            let Some((key, row)) = rows.next().await? else { return Ok(More::No) };
            contents::release(edit, &StoredBlob::decode(&row)?.content).await?;
            self.blobs.start = key.clone();
            edit.delete(key);
        }
        Ok(More::Yes)
    }
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Gives back space for ever. Run it in the background; it can be stopped at any time.
    pub async fn reclaim(&self) {
        while let Err(error) = self.sweep_leftovers().await {
            tracing::warn!(%error, "cannot free what an earlier run has left behind yet");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let mut expired = None;
        loop {
            let now = self.clock.now();
            let due = expired.is_none_or(|last: Timestamp| now >= last.saturating_add(EXPIRE_EVERY));
            let outcome = match due {
                true => self.expire_once().await.map(|()| expired = Some(now)),
                false => Ok(()),
            };
            let outcome = match outcome {
                Ok(()) => self.reclaim_once().await,
                failed => failed,
            };
            if let Err(error) = outcome {
                tracing::warn!(%error, "cannot give back the space of deleted blobs yet");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Frees what an earlier run wrote and did not keep. To be done once, after a start.
    pub async fn sweep_leftovers(&self) -> Result<(), ServiceError> {
        for volume in self.extents.unsealed_volumes() {
            let snapshot = self.snapshot().await?;
            // Whoever has written bytes has made a container first. Without any row it is the rows that are missing.
            if snapshot.first(&keyspace::everything()).await.map_err(engine_error)?.is_none() {
                let why = format!(
                    "volume {volume} has bytes of blobs, but there is no row at all: nothing is swept"
                );
                return Err(ServiceError::new(ErrorCode::InternalError).with_cause(why));
            }
            let mut rows = Rows::of(&snapshot, keyspace::extents_of_volume(volume), 1000);
            let mut kept = Vec::new();
            while let Some((key, row)) = rows.next().await? {
                let (volume, offset) = keyspace::place_of_extent(&key).ok_or(ErrorCode::InternalError)?;
                kept.push(Extent { volume, offset, bytes: StoredExtent::decode(&row)?.bytes });
            }
            match self.extents.sweep(volume, kept).await {
                // It stays as it is, for whoever looks into it. The others need not wait for that.
                Err(error @ ExtentError::Corrupt(_)) => {
                    tracing::error!(%error, volume, "a volume is not swept")
                }
                swept => swept.map_err(extent_error)?,
            }
        }
        Ok(())
    }

    /// Works off all notes that are there.
    pub async fn reclaim_once(&self) -> Result<(), ServiceError> {
        self.fail_interrupted_copies().await?;
        let mut left = keyspace::retained_until(self.clock.now());
        while self.forget_deleted(&mut left).await? == More::Yes {}
        let mut left = keyspace::all_spent_blocks();
        while let Some(note) = self.first(&mut left).await? {
            self.discard_spent(&note).await?;
        }
        let mut left = keyspace::all_dropped_containers();
        while let Some(note) = self.first(&mut left).await? {
            self.empty_container(note).await?;
        }
        while self.release_contents().await? == More::Yes {}
        self.free_extents().await
    }

    /// The first key in what is left of a range. It begins there from now on: what lies before may be
    /// thousands of deletions, and is not to be read over for each of them.
    async fn first(&self, left: &mut KeyRange) -> Result<Option<Key>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let Some((key, _)) = Rows::of(&snapshot, left.clone(), 1).next().await? else { return Ok(None) };
        left.start = key.clone();
        Ok(Some(key))
    }

    async fn begin(&self) -> Result<Step<Paced<E::Snapshot>>, ServiceError> {
        let began = Instant::now();
        Ok(Step { snapshot: self.snapshot().await?, began })
    }

    /// Commits a step, and rests so that others come first. If something has changed meanwhile, the step has to
    /// be taken again.
    async fn commit(
        &self,
        step: Step<Paced<E::Snapshot>>,
        changes: Outcome<()>,
    ) -> Result<Attempt<()>, ServiceError> {
        let attempt = commit(&*self.engine, &step.snapshot, changes, Space::Frees).await?;
        // Held on to, it would keep what is being freed.
        drop(step.snapshot);
        tokio::time::sleep((step.began.elapsed() * REST).min(MAX_REST)).await;
        Ok(attempt)
    }

    /// Deletes states of blobs that cannot be restored any more, as the first notes of `left` say.
    async fn forget_deleted(&self, left: &mut KeyRange) -> Result<More, ServiceError> {
        let step = self.begin().await?;
        let mut edit = Edit::of(&step.snapshot);
        let mut notes = Rows::of(&step.snapshot, left.clone(), STEP);
        let mut last = None;
        for _ in 0..STEP {
            let Some((note, _)) = notes.next().await? else { break };
            self.forget(&mut edit, &note).await?;
            edit.delete(note.clone());
            last = Some(note);
        }
        let Some(last) = last else { return Ok(More::No) };
        let changes = edit.finish(());
        if let Attempt::Done(()) = self.commit(step, changes).await? {
            left.start = last;
        }
        Ok(More::Yes)
    }

    async fn forget(&self, edit: &mut Edit<'_, Paced<E::Snapshot>>, note: &Key) -> Result<(), ServiceError> {
        let Some((container, name, revision)) = keyspace::retained_blob(note) else { return Ok(()) };
        let key = keyspace::blob(container, &name, revision);
        let Some(row) = edit.get(&key).await? else { return Ok(()) };
        let blob = StoredBlob::decode(&row)?;
        edit.guard(key.clone());
        // It may have been restored, or deleted again.
        if blob.deleted.is_some_and(|deleted| deleted.until <= self.clock.now()) {
            contents::release(edit, &blob.content).await?;
            edit.delete(key);
        }
        Ok(())
    }

    /// Discards blocks that a list was made of.
    async fn discard_spent(&self, note: &Key) -> Result<(), ServiceError> {
        let (container, name) = keyspace::noted_blob(note).ok_or(ErrorCode::InternalError)?;
        let step = self.begin().await?;
        let mut edit = Edit::of(&step.snapshot);
        discard_spent(&mut edit, container, &name).await?;
        let changes = edit.finish(());
        self.commit(step, changes).await?;
        Ok(())
    }

    /// Releases what is in a container that nobody can reach any more.
    async fn empty_container(&self, note: Key) -> Result<(), ServiceError> {
        let number = note.get(1..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
        let container = Incarnation(number.ok_or(ErrorCode::InternalError)?);
        let mut left = Emptied {
            blocks: keyspace::blocks_with_prefix(container, ""),
            blobs: keyspace::blobs(container),
        };
        loop {
            let step = self.begin().await?;
            let mut edit = Edit::of(&step.snapshot);
            let more = left.release_some(&mut edit).await?;
            if more == More::No {
                for range in [keyspace::tags(container), keyspace::staged_in(container)] {
                    self.engine.reclaim(range).await.map_err(engine_error)?;
                }
                edit.delete(note.clone());
            }
            let changes = edit.finish(());
            let attempt = self.commit(step, changes).await?;
            if more == More::No || matches!(attempt, Attempt::Again) {
                // The note says whether there is anything left to do.
                return Ok(());
            }
        }
    }

    /// Releases all contents that nothing refers to. They may have been the last to refer to others.
    async fn release_contents(&self) -> Result<More, ServiceError> {
        let mut left = keyspace::all_dropped_contents();
        let mut more = More::No;
        while self.release_some_contents(&mut left).await? == More::Yes {
            more = More::Yes;
        }
        Ok(more)
    }

    /// Releases the first contents of those that the notes in `left` are about, but for contents that are being
    /// made.
    async fn release_some_contents(&self, left: &mut KeyRange) -> Result<More, ServiceError> {
        let step = self.begin().await?;
        let mut edit = Edit::of(&step.snapshot);
        let mut notes = Rows::of(&step.snapshot, left.clone(), STEP);
        let mut last = None;
        let mut rows = 0;
        while rows < STEP
            && let Some((note, _)) = notes.next().await?
        {
            let content = keyspace::dropped_content_id(&note).ok_or(ErrorCode::InternalError)?;
            if self.making.has(content) {
                continue;
            }
            rows += 1;
            if release_pieces(&mut edit, content, &mut rows).await? == More::No {
                edit.delete(note.clone());
            }
            last = Some(note);
        }
        let Some(last) = last else { return Ok(More::No) };
        let changes = edit.finish(());
        if let Attempt::Done(()) = self.commit(step, changes).await? {
            left.start = last;
        }
        Ok(More::Yes)
    }

    /// Frees the extents that nothing refers to any more.
    async fn free_extents(&self) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_free_extents());
        while let Some(range) = left {
            // Let go at once: a snapshot keeps what is merged away meanwhile. Read at once, too: each time, readers are
            // waited for.
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let page = snapshot.scan_some(&range, NOTES).await.map_err(engine_error)?;
            drop(snapshot);
            left = page.next.map(|start| KeyRange { start, end: range.end });
            if page.rows.is_empty() {
                return Ok(());
            }
            // Whoever begins to read after this finds nothing that there is a note about.
            self.extents.wait_for_readers().await;
            for notes in page.rows.chunks(STEP) {
                let step = self.begin().await?;
                let mut edit = Edit::of(&step.snapshot);
                let mut extents = Vec::with_capacity(notes.len());
                for (note, row) in notes {
                    let (volume, offset) = keyspace::place_of_extent(note).ok_or(ErrorCode::InternalError)?;
                    let extent = Extent { volume, offset, bytes: record::decode_number(row)? };
                    if edit.get(&keyspace::extent(extent)).await?.is_none() {
                        extents.push(extent);
                    }
                    edit.delete(note.clone());
                }
                self.extents.free(extents).await.map_err(extent_error)?;
                let changes = edit.finish(());
                self.commit(step, changes).await?;
            }
        }
        Ok(())
    }

    /// Discards blocks that nobody has committed, and drops containers that nobody has restored in time.
    pub async fn expire_once(&self) -> Result<(), ServiceError> {
        let now = self.clock.now();
        for (container, name) in self.expired_blocks(now).await? {
            loop {
                let step = self.begin().await?;
                let mut edit = Edit::of(&step.snapshot);
                let more = discard_blocks(&mut edit, &mut keyspace::blocks(container, &name)).await?;
                let changes = edit.finish(());
                self.commit(step, changes).await?;
                if more == More::No {
                    break;
                }
            }
        }
        self.tidy_staged().await?;
        let snapshot = self.snapshot().await?;
        let mut rows = Rows::of(&snapshot, keyspace::all_containers(), 1000);
        while let Some((key, row)) = rows.next().await? {
            let container = StoredContainer::decode(&row)?;
            if container.deleted.is_some_and(|deleted| deleted.until <= now) {
                let mut edit = Edit::of(&snapshot);
                edit.delete(key);
                let note = keyspace::dropped_container(container.incarnation);
                edit.put(note, record::encode_number(now.ticks()));
                commit(&*self.engine, &snapshot, edit.finish(()), Space::Frees).await?;
            }
        }
        Ok(())
    }

    /// Looks for notes about blocks of blobs that have none any more.
    async fn tidy_staged(&self) -> Result<(), ServiceError> {
        let mut left = Some(keyspace::all_staged());
        while let Some(range) = left.clone() {
            let step = self.begin().await?;
            let mut edit = Edit::of(&step.snapshot);
            let limit = ScanLimit { max_rows: STEP, max_bytes: 1024 * 1024 };
            let page = step.snapshot.scan(&range, limit).await.map_err(engine_error)?;
            for note in page.rows {
                staged::tidy(&mut edit, note).await?;
            }
            let changes = edit.finish(());
            if let Attempt::Done(()) = self.commit(step, changes).await? {
                left = page.next.map(|start| KeyRange { start, end: range.end });
            }
        }
        Ok(())
    }

    /// Blobs whose blocks have waited too long: as many as are worth looking at in one round.
    async fn expired_blocks(&self, now: Timestamp) -> Result<Vec<(Incarnation, String)>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let mut rows = Rows::of(&snapshot, keyspace::all_blocks(), 1000);
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
                    expired.extend(before.filter(|(_, newest)| is_over(*newest, now)).map(|(blob, _)| blob));
                }
            }
        }
        expired.extend(current.filter(|(_, newest)| is_over(*newest, now)).map(|(blob, _)| blob));
        Ok(expired)
    }
}

/// Releases what the first pieces of a content refer to, and the content with the last of them. `rows` counts.
async fn release_pieces<S: Snapshot>(
    edit: &mut Edit<'_, S>,
    content: ContentId,
    rows: &mut usize,
) -> Result<More, ServiceError> {
    let mut pieces = Rows::of(edit.snapshot, keyspace::pieces_from(content, 0), 16);
    while let Some((key, row)) = pieces.next().await? {
        if *rows >= STEP {
            return Ok(More::Yes);
        }
        let listed = Pieces::decode(&row)?.pieces;
        *rows += listed.len().div_ceil(8);
        for extent in listed.iter().filter_map(|piece| contents::extent_of(&piece.source)) {
            contents::release_extent(edit, extent).await?;
        }
        edit.delete(key);
    }
    if let Some((parent, _)) = contents::head(edit, content).await?.parent {
        contents::release(edit, &Content::Listed(parent)).await?;
    }
    edit.delete(keyspace::content(content));
    Ok(More::No)
}

fn is_over(newest: Timestamp, now: Timestamp) -> bool {
    newest.saturating_add(BLOCKS_LAST) <= now
}
