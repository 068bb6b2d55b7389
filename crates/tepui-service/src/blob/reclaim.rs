//! Gives back the space of what was deleted, and deletes what has expired. In the background, in small steps,
//! each of which is a commit of its own, so that it can be stopped at any time and goes on after a restart.

use super::contents;
use super::edit::{Edit, Rows};
use super::service::{BlobService, extent_error};
use super::target::{More, discard_blocks, discard_spent};
use crate::keyspace::{self, ContentId, Incarnation};
use crate::record::{self, Content, Pieces, StoredBlob, StoredBlock, StoredContainer, StoredExtent};
use crate::transact::{commit, engine_error};
use std::time::Duration;
use tepui_engine::{Engine, Key, KeyRange};
use tepui_extents::{Extent, Extents};
use tepui_model::{ErrorCode, ServiceError, Timestamp};

/// How often notes are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often blocks are looked for that nobody has committed, and containers that nobody has restored.
const EXPIRE_EVERY: Duration = Duration::from_secs(10 * 60);
/// How long blocks wait for being committed, counted from the last one of their blob.
const BLOCKS_LAST: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How many rows one step is about.
const STEP: usize = 256;

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
        for volume in self.extents.leftovers() {
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let mut rows = Rows::of(&snapshot, keyspace::extents_of_volume(volume), 1000);
            let mut kept = Vec::new();
            while let Some((key, row)) = rows.next().await? {
                let (volume, offset) = keyspace::place_of_extent(&key).ok_or(ErrorCode::InternalError)?;
                kept.push(Extent { volume, offset, bytes: StoredExtent::decode(&row)?.bytes });
            }
            self.extents.sweep(volume, kept).await.map_err(extent_error)?;
        }
        Ok(())
    }

    /// Works off all notes that are there.
    pub async fn reclaim_once(&self) -> Result<(), ServiceError> {
        self.fail_interrupted_copies().await?;
        while let Some((note, _)) = self.first(keyspace::retained_until(self.clock.now())).await? {
            self.forget_deleted(note).await?;
        }
        while let Some((note, _)) = self.first(keyspace::all_spent_blocks()).await? {
            self.discard_spent(&note).await?;
        }
        while let Some((note, _)) = self.first(keyspace::all_dropped_containers()).await? {
            self.empty_container(note).await?;
        }
        while let Some(note) = self.first_dropped_content().await? {
            self.release_pieces(note).await?;
        }
        self.free_extents().await
    }

    async fn first(&self, range: KeyRange) -> Result<Option<(Key, bytes::Bytes)>, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        Rows::of(&snapshot, range, 1).next().await
    }

    /// The first content that nothing refers to, but for those that are being made.
    async fn first_dropped_content(&self) -> Result<Option<Key>, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut rows = Rows::of(&snapshot, keyspace::all_dropped_contents(), 16);
        while let Some((note, _)) = rows.next().await? {
            let content = keyspace::dropped_content_id(&note).ok_or(ErrorCode::InternalError)?;
            if !self.making.has(content) {
                return Ok(Some(note));
            }
        }
        Ok(None)
    }

    /// Commits a step. If something has changed meanwhile, the step is taken again, as all of them are until
    /// nothing is left to do.
    async fn step(&self, snapshot: &E::Snapshot, edit: Edit<'_, E::Snapshot>) -> Result<(), ServiceError> {
        commit(&*self.engine, snapshot, edit.finish(())).await?;
        Ok(())
    }

    /// Deletes a state of a blob that cannot be restored any more.
    async fn forget_deleted(&self, note: Key) -> Result<(), ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut edit = Edit::of(&snapshot);
        if let Some((container, name, revision)) = keyspace::retained_blob(&note) {
            let key = keyspace::blob(container, &name, revision);
            if let Some(row) = edit.get(&key).await? {
                let blob = StoredBlob::decode(&row)?;
                edit.guard(key.clone());
                // It may have been restored, or deleted again.
                if blob.deleted.is_some_and(|deleted| deleted.until <= self.clock.now()) {
                    contents::release(&mut edit, &blob.content).await?;
                    edit.delete(key);
                }
            }
        }
        edit.delete(note);
        self.step(&snapshot, edit).await
    }

    /// Discards blocks that a list was made of.
    async fn discard_spent(&self, note: &Key) -> Result<(), ServiceError> {
        let (container, name) = keyspace::spent_blocks_of(note).ok_or(ErrorCode::InternalError)?;
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut edit = Edit::of(&snapshot);
        discard_spent(&mut edit, container, &name).await?;
        self.step(&snapshot, edit).await
    }

    /// Releases what is in a container that nobody can reach any more.
    async fn empty_container(&self, note: Key) -> Result<(), ServiceError> {
        let number = note.get(1..).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
        let container = Incarnation(number.ok_or(ErrorCode::InternalError)?);
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut edit = Edit::of(&snapshot);
        if discard_blocks(&mut edit, keyspace::blocks_with_prefix(container, "")).await? == More::Yes {
            return self.step(&snapshot, edit).await;
        }
        let mut rows = Rows::of(&snapshot, keyspace::blobs(container), STEP);
        for _ in 0..STEP {
            let Some((key, row)) = rows.next().await? else {
                self.engine.reclaim(keyspace::tags(container)).await.map_err(engine_error)?;
                edit.delete(note);
                return self.step(&snapshot, edit).await;
            };
            contents::release(&mut edit, &StoredBlob::decode(&row)?.content).await?;
            edit.delete(key);
        }
        self.step(&snapshot, edit).await
    }

    /// Releases what the pieces of a content refer to.
    async fn release_pieces(&self, note: Key) -> Result<(), ServiceError> {
        let content: ContentId = keyspace::dropped_content_id(&note).ok_or(ErrorCode::InternalError)?;
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut edit = Edit::of(&snapshot);
        let mut rows = Rows::of(&snapshot, keyspace::pieces_from(content, 0), 16);
        for _ in 0..16 {
            let Some((key, row)) = rows.next().await? else {
                if let Some((parent, _)) = contents::head(&edit, content).await?.parent {
                    contents::release(&mut edit, &Content::Listed(parent)).await?;
                }
                edit.delete(keyspace::content(content));
                edit.delete(note);
                break;
            };
            for piece in Pieces::decode(&row)?.pieces {
                if let Some(extent) = contents::extent_of(&piece.source) {
                    contents::release_extent(&mut edit, extent).await?;
                }
            }
            edit.delete(key);
        }
        self.step(&snapshot, edit).await
    }

    /// Frees the extents that nothing refers to any more.
    async fn free_extents(&self) -> Result<(), ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut notes = Rows::of(&snapshot, keyspace::all_free_extents(), STEP);
        let mut next = notes.next().await?;
        if next.is_none() {
            return Ok(());
        }
        // Once for all: whoever begins to read after this finds nothing that there is a note about.
        self.extents.wait_for_readers().await;
        while next.is_some() {
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let mut edit = Edit::of(&snapshot);
            let mut extents = Vec::with_capacity(STEP);
            while let Some((note, row)) = next.take() {
                let (volume, offset) = keyspace::place_of_extent(&note).ok_or(ErrorCode::InternalError)?;
                let extent = Extent { volume, offset, bytes: record::decode_number(&row)? };
                if edit.get(&keyspace::extent(extent)).await?.is_none() {
                    extents.push(extent);
                }
                edit.delete(note);
                next = notes.next().await?;
                if extents.len() == STEP {
                    break;
                }
            }
            self.extents.free(extents).await.map_err(extent_error)?;
            self.step(&snapshot, edit).await?;
        }
        Ok(())
    }

    /// Discards blocks that nobody has committed, and drops containers that nobody has restored in time.
    pub async fn expire_once(&self) -> Result<(), ServiceError> {
        let now = self.clock.now();
        for (container, name) in self.expired_blocks(now).await? {
            loop {
                let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
                let mut edit = Edit::of(&snapshot);
                let range = keyspace::blocks(container, &name);
                let more = discard_blocks(&mut edit, range).await?;
                self.step(&snapshot, edit).await?;
                if more == More::No {
                    break;
                }
            }
        }
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let mut rows = Rows::of(&snapshot, keyspace::all_containers(), 1000);
        while let Some((key, row)) = rows.next().await? {
            let container = StoredContainer::decode(&row)?;
            if container.deleted.is_some_and(|deleted| deleted.until <= now) {
                let mut edit = Edit::of(&snapshot);
                edit.delete(key);
                let note = keyspace::dropped_container(container.incarnation);
                edit.put(note, record::encode_number(now.ticks()));
                self.step(&snapshot, edit).await?;
            }
        }
        Ok(())
    }

    /// Blobs whose blocks have waited too long: as many as are worth looking at in one round.
    async fn expired_blocks(&self, now: Timestamp) -> Result<Vec<(Incarnation, String)>, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
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

fn is_over(newest: Timestamp, now: Timestamp) -> bool {
    newest.saturating_add(BLOCKS_LAST) <= now
}
