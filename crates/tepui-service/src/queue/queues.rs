//! Queues themselves: the catalogue, metadata and access policies.

use crate::MAX_PAGE_BYTES;
use crate::catalogue::{CatalogueCache, incarnation_after};
use crate::identity::account_guard;
use crate::keyspace;
use crate::record::{self, StoredQueue};
use crate::transact::{Outcome, storage_error};
use tepui_model::cost::Cost;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{ListQueues, ListedQueue, QueuePage, Reply};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, ScanLimit, Snapshot, Value, Write};

/// The catalogue row of a queue, and its key.
pub(super) async fn find<S: Snapshot>(
    catalogue: &CatalogueCache,
    snapshot: &S,
    account: &str,
    queue: &str,
) -> Result<(Key, Value), ServiceError> {
    let key = keyspace::queue(account, queue);
    let value = catalogue.get(snapshot, &key).await?;
    Ok((key, value.ok_or(ErrorCode::QueueNotFound)?))
}

pub(super) async fn create<S: Snapshot>(
    snapshot: &S,
    account: &str,
    name: &str,
    metadata: &Metadata,
    now: Timestamp,
) -> Result<Outcome<Reply>, ServiceError> {
    let (key, reserved) = (keyspace::queue(account, name), keyspace::reserved_queue_name(account, name));
    let keys = [key.clone(), reserved.clone(), keyspace::incarnation_counter(), keyspace::account(account)];
    let mut stored = snapshot.get_many(&keys).await.map_err(storage_error)?.into_iter();
    if let Some(value) = stored.next().flatten() {
        return match StoredQueue::decode(&value)?.metadata.says_the_same_as(metadata) {
            true => Ok(Outcome::read(Reply::QueueExists)),
            false => Err(ErrorCode::QueueAlreadyExists.into()),
        };
    }
    let mut writes = Vec::with_capacity(4);
    if let Some(until) = stored.next().flatten() {
        if now.ticks() < record::decode_number(&until)? {
            return Err(ErrorCode::QueueBeingDeleted.into());
        }
        writes.push(Write::Delete(reserved));
    }
    let (incarnation, numbered) = incarnation_after(stored.next().flatten().as_ref())?;
    let guards = vec![account_guard(account, stored.next().flatten().as_ref())?];
    let queue = StoredQueue { incarnation, created: now, metadata: metadata.clone(), acl: Vec::new() };
    writes.push(numbered);
    writes.push(Write::Put(key, queue.encode()));
    Ok(Outcome { reply: Reply::QueueCreated, guards, writes })
}

/// Changes the catalogue row of a queue.
pub(super) async fn change<S: Snapshot>(
    catalogue: &CatalogueCache,
    snapshot: &S,
    account: &str,
    queue: &str,
    reply: Reply,
    change: impl FnOnce(&mut StoredQueue),
) -> Result<Outcome<Reply>, ServiceError> {
    let (key, value) = find(catalogue, snapshot, account, queue).await?;
    let mut queue = StoredQueue::decode(&value)?;
    change(&mut queue);
    Ok(Outcome { reply, guards: Vec::new(), writes: vec![Write::Put(key, queue.encode())] })
}

/// One page of queues. Reads as many rows as the page has, and one more.
pub(super) async fn list<S: Snapshot>(
    snapshot: &S,
    account: &str,
    query: &ListQueues,
) -> Result<QueuePage, ServiceError> {
    let mut range = keyspace::queues(account, &query.prefix);
    if let Some(from) = &query.from {
        range.start = range.start.max(keyspace::queue(account, from));
    }
    let mut page = QueuePage { cost: Cost::of_list(1), ..QueuePage::default() };
    let mut bytes = 0;
    'page: while range.start < range.end {
        let max_rows = query.page_size + 1 - page.queues.len();
        let limit = ScanLimit { max_rows, max_bytes: 1024 * 1024 };
        let rows = snapshot.scan(&range, limit).await.map_err(storage_error)?;
        for (key, value) in &rows.rows {
            page.cost.look_at(key.len() + value.len());
            let Some(name) = keyspace::queue_name(account, key) else { continue };
            if page.queues.len() == query.page_size || bytes >= MAX_PAGE_BYTES {
                page.next = Some(name.into_owned());
                break 'page;
            }
            let metadata = match query.with_metadata {
                true => Some(StoredQueue::decode(value)?.metadata),
                false => None,
            };
            bytes += key.len() + if query.with_metadata { value.len() } else { 0 };
            page.queues.push(ListedQueue { name: name.into_owned(), metadata });
        }
        let Some(next) = rows.next else { break };
        range.start = next;
    }
    page.cost = page.cost.of_page(page.queues.len(), page.next.is_some());
    Ok(page)
}
