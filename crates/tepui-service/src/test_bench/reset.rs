//! Reset: every table, queue and container of a scope is dropped in a few commits, and service properties are deleted.

use crate::catalogue::add_versions;
use crate::keyspace::{self, space};
use crate::queue;
use crate::record::{self, StoredContainer, StoredQueue, StoredTable};
use crate::transact::storage_error;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::rewindable::Exclusive;
use tepui_storage::{Commit, CommitError, Engine, Key, KeyRange, ScanLimit, Snapshot, Value, Write};

/// The rows of one commit. One of a table takes two writes.
const PAGE: ScanLimit = ScanLimit { max_rows: 4096, max_bytes: 8 << 20 };

/// A service whose data can be reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceKind {
    Blob,
    Queue,
    Table,
}

/// What is reset: everything, or what is of an account, of a service, or of both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResetScope {
    pub account: Option<String>,
    pub service: Option<ServiceKind>,
}

/// What a reset has dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResetCounts {
    pub tables: usize,
    pub queues: usize,
    /// With soft-deleted ones.
    pub containers: usize,
}

impl ServiceKind {
    /// As service properties have it in their keys.
    fn name(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Queue => "queue",
            Self::Table => "table",
        }
    }
}

impl ResetScope {
    fn includes(&self, service: ServiceKind) -> bool {
        self.service.is_none_or(|only| only == service)
    }

    /// The rows of the catalogue that are to be deleted.
    fn ranges(&self) -> Vec<KeyRange> {
        let spaces = [
            (ServiceKind::Table, [space::TABLE, space::RESERVED_NAME]),
            (ServiceKind::Queue, [space::QUEUE, space::RESERVED_QUEUE_NAME]),
            (ServiceKind::Blob, [space::CONTAINER, space::RESERVED_CONTAINER_NAME]),
        ];
        let spaces = spaces.into_iter().filter(|(service, _)| self.includes(*service));
        let spaces = spaces.flat_map(|(_, spaces)| spaces).chain([space::SERVICE_PROPERTIES]);
        spaces.map(|space| keyspace::rows_of_account(space, self.account.as_deref())).collect()
    }
}

pub(super) async fn reset<E: Engine>(
    alone: &Exclusive<E>,
    scope: &ResetScope,
    now: Timestamp,
) -> Result<ResetCounts, ServiceError> {
    let mut counts = ResetCounts::default();
    for range in scope.ranges() {
        let mut left = Some(range);
        while let Some(range) = left {
            let transaction = alone.begin().await.map_err(storage_error)?;
            let page = transaction.scan_some(&range, PAGE).await.map_err(storage_error)?;
            let mut writes = drop_rows(&transaction, page.rows, scope, now, &mut counts).await?;
            add_versions(&transaction, &mut writes).await?;
            if !writes.is_empty() {
                let commit = Commit::from(writes).with_frees_space(true);
                alone.commit(transaction, commit).await.map_err(commit_error)?;
            }
            left = page.next.map(|start| KeyRange { start, end: range.end });
        }
    }
    Ok(counts)
}

/// Deletes rows of the catalogue, with the GC records of what they stand for.
async fn drop_rows<S: Snapshot>(
    snapshot: &S,
    rows: Vec<(Key, Value)>,
    scope: &ResetScope,
    now: Timestamp,
    counts: &mut ResetCounts,
) -> Result<Vec<Write>, ServiceError> {
    let mut writes = Vec::with_capacity(2 * rows.len());
    let mut queues = Vec::new();
    for (key, row) in rows {
        match key.first().copied().unwrap_or_default() {
            space::TABLE => {
                let table = StoredTable::incarnation_of(&row)?;
                writes.push(Write::Put(keyspace::dropped(table), record::encode_number(table.0)));
                counts.tables += 1;
            }
            space::QUEUE => queues.push(StoredQueue::incarnation_of(&row)?),
            space::CONTAINER => {
                let gc_record = keyspace::dropped_container(StoredContainer::decode(&row)?.incarnation);
                writes.push(Write::Put(gc_record, record::encode_number(now.ticks())));
                counts.containers += 1;
            }
            space::SERVICE_PROPERTIES => {
                let (_, service) = keyspace::service_properties_of(&key).ok_or(ErrorCode::InternalError)?;
                if scope.service.is_some_and(|only| only.name() != service) {
                    continue;
                }
            }
            _ => {}
        }
        writes.push(Write::Delete(key));
    }
    let states = queue::states(snapshot, &queues).await?;
    for (queue, state) in queues.into_iter().zip(states) {
        let gc_record = keyspace::dropped(state.messages);
        writes.push(Write::Put(gc_record, record::encode_number(state.messages.0)));
        writes.push(Write::Delete(keyspace::queue_state(queue)));
        writes.push(Write::Put(keyspace::dropped(queue), record::encode_number(queue.0)));
        counts.queues += 1;
    }
    Ok(writes)
}

fn commit_error(error: CommitError) -> ServiceError {
    match error {
        CommitError::Storage(error) => storage_error(error),
        error => ServiceError::new(ErrorCode::InternalError).with_cause(error),
    }
}
