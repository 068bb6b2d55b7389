//! How much an account stores: a scan of its blobs, for the capacity metrics of once a day.
//!
//! It reads page by page, each in a transaction of its own, so that it holds none for long. What changes meanwhile is counted as it is
//! met.

use super::service::BlobService;
use crate::keyspace::{self, Incarnation};
use crate::record::{self, Content, StoredBlob, StoredBlock, StoredContainer};
use crate::transact::{restart, storage_error};
use std::time::Duration;
use tepui_model::ServiceError;
use tepui_model::blob::Revision;
use tepui_model::blob::name::LOGS;
use tepui_storage::{Engine, Extents, Key, KeyRange, ScanLimit, Snapshot, Value};
use tokio::time::Instant;

/// Rows that are read at once.
const PAGE: ScanLimit = ScanLimit { max_rows: 512, max_bytes: 1024 * 1024 };
/// The pause after a page, as a multiple of the time it took, and the longest pause.
const PAUSE_FACTOR: u32 = 2;
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// What is stored in some containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Of blobs, snapshots, versions, soft-deleted blobs and uncommitted blocks. Revisions of a blob that share all their bytes
    /// count once. A page blob counts with its length.
    pub bytes: u64,
    pub containers: u64,
    /// Blobs, and names that have only uncommitted blocks.
    pub objects: u64,
}

/// The capacity of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountCapacity {
    /// What users have stored.
    pub data: Capacity,
    /// The logs of Storage Analytics.
    pub analytics: Capacity,
}

/// What is remembered of the name that is being counted.
#[derive(Default)]
struct CurrentName {
    name: Vec<u8>,
    /// Where the bytes of its revisions are. Few: most names have one revision.
    contents: Vec<Content>,
}

impl CurrentName {
    /// Whether the bytes of a revision are shared with one before.
    fn shares(&mut self, name: &str, content: Content) -> bool {
        /// The contents of more are not remembered.
        const MAX_CONTENTS: usize = 64;
        if self.name != name.as_bytes() {
            *self = Self { name: name.as_bytes().to_vec(), contents: Vec::new() };
        }
        if matches!(content, Content::Inline(_)) {
            return false;
        }
        let is_known = self.contents.contains(&content);
        if !is_known && self.contents.len() < MAX_CONTENTS {
            self.contents.push(content);
        }
        is_known
    }
}

/// What is known of a name that has blocks.
struct NameWithBlocks {
    /// Whether it counts as an object already, because there is a blob that is not deleted.
    is_counted: bool,
    /// Blocks that were put until these ticks are a part of the blob now, and not collected yet.
    consumed_until: Option<u64>,
}

impl<E: Engine, X: Extents> BlobService<E, X> {
    /// Counts what an account stores. For a background task: it takes as long as there are blobs, and pauses after each page.
    pub async fn capacity(&self, account: &str) -> Result<AccountCapacity, ServiceError> {
        let mut capacity = AccountCapacity::default();
        let mut containers = keyspace::containers(account, "");
        while let Some(page) = self.next_page(&mut containers).await? {
            for (key, row) in page {
                let Some((name, deleted)) = keyspace::container_name(account, &key) else { continue };
                let of_container = match &*name {
                    LOGS => &mut capacity.analytics,
                    _ => &mut capacity.data,
                };
                // What is in a soft-deleted container takes space, too.
                let is_live = u64::from(deleted.is_none());
                of_container.containers += is_live;
                let container = StoredContainer::decode(&row)?.incarnation;
                let mut counted = Capacity::default();
                self.count_blobs(container, &mut counted).await?;
                self.count_blocks(container, &mut counted).await?;
                of_container.bytes += counted.bytes;
                of_container.objects += counted.objects * is_live;
            }
        }
        // Every account has it without creating it.
        capacity.analytics.containers = 1;
        Ok(capacity)
    }

    async fn count_blobs(&self, container: Incarnation, capacity: &mut Capacity) -> Result<(), ServiceError> {
        let mut blobs = keyspace::blobs(container);
        let mut current = CurrentName::default();
        while let Some(page) = self.next_page(&mut blobs).await? {
            for (key, row) in page {
                let Some((name, revision)) = keyspace::blob_of(&key) else { continue };
                let blob = StoredBlob::decode(&row)?;
                if revision == Revision::Base && blob.deleted.is_none() {
                    capacity.objects += 1;
                }
                let bytes = blob.bytes;
                if !current.shares(&name, blob.content) {
                    capacity.bytes += bytes;
                }
            }
        }
        Ok(())
    }

    async fn count_blocks(
        &self,
        container: Incarnation,
        capacity: &mut Capacity,
    ) -> Result<(), ServiceError> {
        let mut blocks = keyspace::blocks_with_prefix(container, "");
        let mut current: Option<(String, NameWithBlocks)> = None;
        while let Some(page) = self.next_page(&mut blocks).await? {
            for (key, row) in page {
                let Some((name, _)) = keyspace::block_of(&key) else { continue };
                let (_, of_name) = match &mut current {
                    Some(same) if same.0 == name => same,
                    other => {
                        let of_name = self.name_with_blocks(container, &name).await?;
                        other.insert((name.into_owned(), of_name))
                    }
                };
                let block = StoredBlock::decode(&row)?;
                if of_name.consumed_until.is_some_and(|until| block.put.ticks() <= until) {
                    continue;
                }
                capacity.bytes += block.content.bytes();
                if !std::mem::replace(&mut of_name.is_counted, true) {
                    capacity.objects += 1;
                }
            }
        }
        Ok(())
    }

    async fn name_with_blocks(
        &self,
        container: Incarnation,
        name: &str,
    ) -> Result<NameWithBlocks, ServiceError> {
        let keys =
            [keyspace::blob(container, name, Revision::Base), keyspace::consumed_blocks(container, name)];
        let rows = restart(|| async { self.begin().await?.get_many(&keys).await.map_err(storage_error) });
        let mut rows = rows.await?.into_iter();
        let blob = rows.next().flatten().map(|row| StoredBlob::decode(&row)).transpose()?;
        let consumed_until = rows.next().flatten().map(|row| record::decode_number(&row)).transpose()?;
        Ok(NameWithBlocks { is_counted: blob.is_some_and(|blob| blob.deleted.is_none()), consumed_until })
    }

    /// The first rows of a range, which then begins after them. `None` at its end.
    async fn next_page(&self, range: &mut KeyRange) -> Result<Option<Vec<(Key, Value)>>, ServiceError> {
        if range.start >= range.end {
            return Ok(None);
        }
        let began = Instant::now();
        let wanted = &*range;
        let page = restart(|| async { self.begin().await?.scan(wanted, PAGE).await.map_err(storage_error) });
        let page = page.await?;
        range.start = page.next.unwrap_or_else(|| range.end.clone());
        // Requests come first.
        tokio::time::sleep((began.elapsed() * PAUSE_FACTOR).min(MAX_PAUSE)).await;
        Ok(Some(page.rows))
    }
}
