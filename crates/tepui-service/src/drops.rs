//! Dropping tables, queues and containers by their rows of the catalogue, whatever is in them: for a reset, and for accounts that
//! are deleted. What was in them is collected as garbage.

use crate::keyspace::{self, space};
use crate::queue;
use crate::record::{self, StoredContainer, StoredQueue, StoredTable};
use tepui_model::{ErrorCode, Service, ServiceError, Timestamp};
use tepui_storage::{Key, KeyRange, Snapshot, Value, Write};

/// What was dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DropCounts {
    pub tables: usize,
    pub queues: usize,
    /// With soft-deleted ones.
    pub containers: usize,
}

/// The rows of the catalogue of an account and a service, or of all of them. Among them are the properties of all services.
pub(crate) fn catalogue_ranges(account: Option<&str>, service: Option<Service>) -> Vec<KeyRange> {
    let spaces = [
        (Service::Table, [space::TABLE, space::RESERVED_NAME]),
        (Service::Queue, [space::QUEUE, space::RESERVED_QUEUE_NAME]),
        (Service::Blob, [space::CONTAINER, space::RESERVED_CONTAINER_NAME]),
    ];
    let spaces = spaces.into_iter().filter(|(of, _)| service.is_none_or(|only| only == *of));
    let spaces = spaces.flat_map(|(_, spaces)| spaces).chain([space::SERVICE_PROPERTIES]);
    spaces.map(|space| keyspace::rows_of_account(space, account)).collect()
}

/// The writes that delete rows of the catalogue, with the GC records of what they stand for. Of the properties of services, only
/// those of `service`.
pub(crate) async fn drop_rows<S: Snapshot>(
    snapshot: &S,
    rows: Vec<(Key, Value)>,
    service: Option<Service>,
    now: Timestamp,
    counts: &mut DropCounts,
) -> Result<Vec<Write>, ServiceError> {
    let mut writes = Vec::with_capacity(2 * rows.len());
    let mut queues = Vec::new();
    for (key, row) in rows {
        match key.first().copied().unwrap_or_default() {
            space::TABLE => {
                let table = StoredTable::incarnation_of(&row)?;
                writes.push(Write::Put(keyspace::dropped(table), record::encode_number(now.ticks())));
                counts.tables += 1;
            }
            space::QUEUE => queues.push(StoredQueue::incarnation_of(&row)?),
            space::CONTAINER => {
                let gc_record = keyspace::dropped_container(StoredContainer::decode(&row)?.incarnation);
                writes.push(Write::Put(gc_record, record::encode_number(now.ticks())));
                counts.containers += 1;
            }
            space::SERVICE_PROPERTIES => {
                let (_, of) = keyspace::service_properties_of(&key).ok_or(ErrorCode::InternalError)?;
                if service.is_some_and(|only| only.name() != of) {
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
        writes.push(Write::Put(gc_record, record::encode_number(now.ticks())));
        writes.push(Write::Delete(keyspace::queue_state(queue)));
        writes.push(Write::Put(keyspace::dropped(queue), record::encode_number(now.ticks())));
        counts.queues += 1;
    }
    Ok(writes)
}
