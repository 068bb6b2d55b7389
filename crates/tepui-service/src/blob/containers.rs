//! Containers themselves: the catalogue, metadata, access policies, and leases.

use super::cursor::RowCursor;
use super::lease::{Lease, Leased, Use};
use super::precondition::require_mutable;
use super::service::{Context, NextStep};
use super::write_set::WriteSet;
use crate::catalogue::next_incarnation;
use crate::coop::ROW_COST;
use crate::identity::account_guard;
use crate::keyspace::{self, Edge, Incarnation};
use crate::record::{self, Protection, SoftDelete, StoredBlob, StoredContainer};
use crate::transact::{Outcome, storage_error};
use crate::{MAX_PAGE_BYTES, MAX_PAGE_TIME};
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::blob::access::Allowed;
use tepui_model::blob::name::LOGS;
use tepui_model::blob::{
    Changed, Conditions, ContainerEncryption, ContainerMarker, ContainerName, ContainerPage,
    ContainerProperties, DeletedContainer, LeaseAction, ListContainers, ListedContainer, Preconditions,
    PublicAccess, Reply, SoftDeleted, Tags, Unmet, Validators,
};
use tepui_model::cost::Cost;
use tepui_model::metadata::Metadata;
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Key, Snapshot, Value};

/// About the size of an entry without its name and metadata.
const ENTRY_BYTES: usize = 512;

/// The catalogue row of a container, and its key.
pub(super) async fn find<S: Snapshot>(
    context: &Context<'_, S>,
    container: &ContainerName,
) -> Result<(Key, StoredContainer), ServiceError> {
    find_in(context, context.account, container).await
}

/// Like [`find`], in any account.
pub(super) async fn find_in<S: Snapshot>(
    context: &Context<'_, S>,
    account: &str,
    container: &ContainerName,
) -> Result<(Key, StoredContainer), ServiceError> {
    let key = keyspace::container(account, container.as_str());
    let row = context.catalogue.get(context.snapshot, &key).await?;
    let found = of_row(context, container, row)?;
    Ok((key, found))
}

/// The container of a catalogue row.
fn of_row<S>(
    context: &Context<'_, S>,
    container: &ContainerName,
    row: Option<Value>,
) -> Result<StoredContainer, ServiceError> {
    match row {
        Some(row) => StoredContainer::decode(&row),
        // The first log creates it.
        None if container.is_logs() && !context.is_server => Ok(logs()),
        None => Err(ErrorCode::ContainerNotFound.into()),
    }
}

/// Like [`find_in`], as far as the caller may know, and what `read` reads of the container: over a network, in one round trip
/// with the container's version. Anonymous callers learn only of public containers.
pub(super) async fn find_allowed_with<S: Snapshot, T, F>(
    context: &Context<'_, S>,
    (account, allowed): (&str, Allowed),
    container: &ContainerName,
    read: impl Fn(Incarnation) -> F,
) -> Result<(Key, StoredContainer, T), ServiceError>
where
    F: Future<Output = Result<T, ServiceError>>,
{
    let key = keyspace::container(account, container.as_str());
    let read = &read;
    let find = |row: Option<Value>| async move {
        let found = match of_row(context, container, row) {
            Err(error) if error.code == ErrorCode::ContainerNotFound && allowed.is_anonymous() => {
                return Err(ErrorCode::ResourceNotFound.into());
            }
            found => found?,
        };
        require_public(&found, allowed)?;
        let read = read(found.incarnation).await?;
        Ok((found, read))
    };
    let (found, read) = context.catalogue.get_with(context.snapshot, &key, find).await?;
    Ok((key, found, read))
}

/// Fails if the caller is anonymous and the container is not public.
fn require_public(container: &StoredContainer, allowed: Allowed) -> Result<(), ErrorCode> {
    let open = match (allowed, container.public_access) {
        (Allowed::IfPublic(PublicAccess::Blob), access) => access.is_some(),
        (Allowed::IfPublic(PublicAccess::Container), access) => access == Some(PublicAccess::Container),
        (Allowed::Fully | Allowed::IfAbsent, _) => true,
    };
    if open { Ok(()) } else { Err(ErrorCode::ResourceNotFound) }
}

/// The container of logs, which every account has without creating it, as long as it is empty: see `logs.rs`.
fn logs() -> StoredContainer {
    let since = Timestamp::parse_iso("2026-01-01").unwrap_or(Timestamp::MAX);
    StoredContainer {
        incarnation: Incarnation(0),
        stamp: since,
        changed: since,
        metadata: Metadata::default(),
        public_access: None,
        acl: Vec::new(),
        lease: Lease::Available,
        encryption: ContainerEncryption::default(),
        deleted: None,
        protection: Protection::Never,
    }
}

pub(super) fn view(container: &StoredContainer, now: Timestamp) -> ContainerProperties {
    ContainerProperties {
        changed: Changed(container.changed),
        metadata: container.metadata.clone(),
        public_access: container.public_access,
        lease: container.lease.view(now),
        encryption: container.encryption.clone(),
    }
}

pub(super) async fn create<S: Snapshot>(
    context: &Context<'_, S>,
    name: &ContainerName,
    metadata: &Metadata,
    public_access: Option<PublicAccess>,
    encryption: &ContainerEncryption,
) -> Result<Outcome<Reply>, ServiceError> {
    let mut writes = WriteSet::new(context.snapshot);
    check_name_available(context, &mut writes, name).await?;
    let (incarnation, numbered) = next_incarnation(context.snapshot).await?;
    if let tepui_storage::Write::Put(key, value) = numbered {
        writes.put(key, value);
    }
    let container = StoredContainer {
        incarnation,
        stamp: context.now,
        changed: context.now,
        metadata: metadata.clone(),
        public_access,
        acl: Vec::new(),
        lease: Lease::Available,
        encryption: encryption.clone(),
        deleted: None,
        protection: Protection::Never,
    };
    writes.put_stamped(keyspace::container(context.account, name.as_str()), container.encode());
    Ok(writes.finish(Reply::ContainerCreated(Changed(context.now))))
}

/// Enabling the static website creates its container, unless it exists. scenario: web-container-enabled
pub(super) async fn create_web<S: Snapshot>(
    context: &Context<'_, S>,
) -> Result<Outcome<Reply>, ServiceError> {
    let (metadata, encryption) = (Metadata::default(), ContainerEncryption::default());
    let outcome = match create(context, &ContainerName::web(), &metadata, None, &encryption).await {
        Err(error) if error.code == ErrorCode::ContainerAlreadyExists => Outcome::read(()),
        created => created?.map(drop),
    };
    Ok(outcome.map(|()| Reply::ServicePropertiesSet))
}

/// Fails if the container exists, or if its name is still reserved.
async fn check_name_available<S: Snapshot>(
    context: &Context<'_, S>,
    writes: &mut WriteSet<'_, S>,
    name: &ContainerName,
) -> Result<(), ServiceError> {
    if writes.get(&keyspace::container(context.account, name.as_str())).await?.is_some() {
        return Err(ErrorCode::ContainerAlreadyExists.into());
    }
    let reserved = keyspace::reserved_container_name(context.account, name.as_str());
    let account = keyspace::account(context.account);
    writes.prefetch([reserved.clone(), account.clone()]).await?;
    account_guard(context.account, writes.get(&account).await?.as_ref())?;
    writes.guard(account);
    if let Some(until) = writes.get(&reserved).await? {
        if context.now.ticks() < record::decode_number(&until)? {
            return Err(ErrorCode::ContainerBeingDeleted.into());
        }
        writes.delete(reserved);
    }
    Ok(())
}

fn validators<'a>(container: &StoredContainer, name: &'a ContainerName, tags: &'a Tags) -> Validators<'a> {
    Validators { changed: container.changed, container: name.as_str(), tags }
}

/// Reads a container.
pub(super) async fn get<S: Snapshot>(
    context: &Context<'_, S>,
    name: &ContainerName,
    preconditions: &Preconditions,
) -> Result<StoredContainer, ServiceError> {
    let caller = (context.account, context.allowed);
    let (_, container, ()) = find_allowed_with(context, caller, name, |_| std::future::ready(Ok(()))).await?;
    container.lease.check(preconditions.lease, Leased::Container, Use::Read, context.now)?;
    match preconditions.conditions.check_read(&validators(&container, name, &Tags::default())) {
        Ok(()) => Ok(container),
        Err(Unmet::NotModified) => Err(ServiceError::new(ErrorCode::ConditionNotMet).with_status(304)),
        Err(Unmet::Failed) => Err(ErrorCode::ConditionNotMet.into()),
    }
}

/// Changes a container, and so its ETag.
pub(super) async fn change<S: Snapshot>(
    context: &Context<'_, S>,
    name: &ContainerName,
    preconditions: &Preconditions,
    reply: impl FnOnce(Changed) -> Reply,
    change: impl FnOnce(&mut StoredContainer),
) -> Result<Outcome<Reply>, ServiceError> {
    let (key, mut container) = find(context, name).await?;
    container.lease.check(preconditions.lease, Leased::Container, Use::Read, context.now)?;
    preconditions.conditions.check_write(&validators(&container, name, &Tags::default()))?;
    change(&mut container);
    container.changed = context.now.later_than(container.changed);
    container.stamp = context.now.later_than(container.stamp);
    let mut writes = WriteSet::new(context.snapshot);
    writes.put_stamped(key, container.encode());
    Ok(writes.finish(reply(Changed(container.changed))))
}

pub(super) fn set_acl(
    public_access: Option<PublicAccess>,
    identifiers: &[SignedIdentifier],
) -> impl FnOnce(&mut StoredContainer) {
    move |container| {
        container.public_access = public_access;
        container.acl = identifiers.to_vec();
    }
}

pub(super) async fn lease<S: Snapshot>(
    context: &Context<'_, S>,
    name: &ContainerName,
    action: LeaseAction,
    conditions: &Conditions,
) -> Result<Outcome<Reply>, ServiceError> {
    let (key, mut container) = find(context, name).await?;
    conditions.check_write(&validators(&container, name, &Tags::default()))?;
    let (lease, outcome) = container.lease.act_in(context, action)?;
    container.lease = lease;
    container.stamp = context.now.later_than(container.stamp);
    let mut writes = WriteSet::new(context.snapshot);
    writes.put_stamped(key, container.encode());
    Ok(writes.finish(Reply::Lease { changed: Changed(container.changed), outcome }))
}

/// Deletes a container, unless one of its blobs is immutable. Its blobs are unreachable at once, and are collected
/// later.
pub(super) async fn delete<S: Snapshot>(
    context: &Context<'_, S>,
    name: &ContainerName,
    preconditions: &Preconditions,
) -> Result<Outcome<NextStep>, ServiceError> {
    let (key, mut container) = find(context, name).await?;
    container.lease.check(preconditions.lease, Leased::Container, Use::Write, context.now)?;
    preconditions.conditions.check_write(&validators(&container, name, &Tags::default()))?;
    let (incarnation, now) = (container.incarnation, context.now);
    let mut writes = WriteSet::new(context.snapshot);
    match container.protection {
        Protection::Never => {}
        Protection::Possible => {
            container.protection = Protection::BeingChecked;
            container.stamp = now.later_than(container.stamp);
            writes.put_stamped(key, container.encode());
            return Ok(writes.finish(NextStep::Continue));
        }
        Protection::BeingChecked => require_none_protected(context, incarnation).await?,
    }
    writes.delete(key);
    match context.options.container_retention {
        Some(retention) => {
            container.deleted = Some(SoftDelete { at: now, until: now.saturating_add(retention) });
            container.lease = Lease::Available;
            container.stamp = now.later_than(container.stamp);
            let key = keyspace::deleted_container(context.account, name.as_str(), incarnation);
            writes.put_stamped(key, container.encode());
        }
        None => {
            writes.put_stamped(keyspace::dropped_container(incarnation), record::encode_number(now.ticks()));
        }
    }
    let reserved_for = context.options.deleted_name_reserved_for;
    if reserved_for > Duration::ZERO {
        let reserved = keyspace::reserved_container_name(context.account, name.as_str());
        writes.put(reserved, record::encode_number(now.saturating_add(reserved_for).ticks()));
    }
    Ok(writes.finish(Reply::ContainerDeleted.into()))
}

/// Fails if a blob of a container is immutable.
async fn require_none_protected<S: Snapshot>(
    context: &Context<'_, S>,
    container: Incarnation,
) -> Result<(), ServiceError> {
    let mut rows = RowCursor::new(context.snapshot, keyspace::blobs(container), 256);
    let mut read = 0u32;
    while let Some((_, row)) = rows.next().await? {
        require_mutable(&StoredBlob::decode(&row)?, context.now)?;
        read += 1;
        if read.is_multiple_of(256) {
            tokio::task::yield_now().await; // There may be millions.
        }
    }
    Ok(())
}

/// To be called when a blob becomes protected: a concurrent delete of the container conflicts, and a later one checks the
/// blobs.
pub(super) fn mark_protected<S: Snapshot>(
    writes: &mut WriteSet<'_, S>,
    key: &Key,
    container: &StoredContainer,
) {
    if container.protection != Protection::Possible {
        let stamp = container.stamp.next();
        let noted = StoredContainer { protection: Protection::Possible, stamp, ..container.clone() };
        writes.put(key.clone(), noted.encode());
    }
}

pub(super) async fn restore<S: Snapshot>(
    context: &Context<'_, S>,
    name: &ContainerName,
    deleted: &ContainerName,
    version: &str,
) -> Result<Outcome<Reply>, ServiceError> {
    let incarnation = parse_version(version).ok_or(ErrorCode::ContainerNotFound)?;
    let key = keyspace::deleted_container(context.account, deleted.as_str(), incarnation);
    let row = context.snapshot.get(&key).await.map_err(storage_error)?;
    let mut container = StoredContainer::decode(&row.ok_or(ErrorCode::ContainerNotFound)?)?;
    if container.deleted.is_none_or(|deleted| deleted.until <= context.now) {
        return Err(ErrorCode::ContainerNotFound.into());
    }
    let mut writes = WriteSet::new(context.snapshot);
    check_name_available(context, &mut writes, name).await?;
    container.deleted = None;
    container.stamp = context.now.later_than(container.stamp);
    writes.delete(key);
    writes.put_stamped(keyspace::container(context.account, name.as_str()), container.encode());
    Ok(writes.finish(Reply::ContainerRestored))
}

/// The version that distinguishes deleted containers of one name.
fn print_version(container: Incarnation) -> String {
    format!("{:016X}", container.0)
}

fn parse_version(text: &str) -> Option<Incarnation> {
    let container = Incarnation(u64::from_str_radix(text, 16).ok()?);
    (print_version(container) == text).then_some(container)
}

pub(super) fn remaining(deleted: SoftDelete, now: Timestamp) -> SoftDeleted {
    let left = deleted.until.since(now.min(deleted.until));
    SoftDeleted { deleted: deleted.at, remaining_days: (left.as_secs() / (24 * 60 * 60)) as u32 }
}

/// One page of containers. Reads its rows, those that are left out, and one more.
pub(super) async fn list<S: Snapshot>(
    context: &Context<'_, S>,
    query: &ListContainers,
) -> Result<ContainerPage, ServiceError> {
    let mut range = keyspace::containers(context.account, &query.prefix);
    if let Some(ContainerMarker { name, deleted_version }) = &query.from {
        let start = match deleted_version.as_deref().map(parse_version) {
            None => keyspace::container(context.account, name),
            Some(Some(container)) => keyspace::deleted_container(context.account, name, container),
            Some(None) => return Err(ErrorCode::InvalidQueryParameterValue.into()),
        };
        range.start = range.start.max(start);
    }
    let mut rows = RowCursor::new(context.snapshot, range, query.page_size + 1);
    let mut page = ContainerPage { cost: Cost::of_list(1), ..ContainerPage::default() };
    let mut bytes = 0;
    while let Some((key, value)) = rows.next().await? {
        page.cost.look_at(key.len() + value.len());
        let Some((name, incarnation)) = keyspace::container_name(context.account, &key) else { continue };
        if incarnation.is_some() && !query.with_deleted {
            rows.skip_to(&keyspace::container_edge(context.account, &name, Edge::After));
            continue;
        }
        let is_system = ContainerName::parse(&name).is_ok_and(|name| name.is_system());
        if is_system && !asks_for_system(query) {
            continue;
        }
        let is_late = context.coop.charge(ROW_COST) && context.coop.yield_if_due().await >= MAX_PAGE_TIME;
        if page.containers.len() >= query.page_size || bytes >= MAX_PAGE_BYTES || is_late {
            let deleted_version = incarnation.map(print_version);
            page.next = Some(ContainerMarker { name: name.into_owned(), deleted_version });
            break;
        }
        let container = StoredContainer::decode(&value)?;
        if container.deleted.is_some_and(|deleted| deleted.until <= context.now) {
            continue;
        }
        let deleted = container.deleted.map(|deleted| DeletedContainer {
            version: print_version(container.incarnation),
            since: remaining(deleted, context.now),
        });
        let mut properties = view(&container, context.now);
        if !query.with_metadata {
            properties.metadata = Metadata::default();
        }
        let metadata_bytes = properties.metadata.iter().map(|(name, value)| 2 * name.len() + value.len());
        bytes += ENTRY_BYTES + name.len() + metadata_bytes.sum::<usize>();
        page.containers.push(ListedContainer { name: name.into_owned(), properties, deleted });
    }
    add_logs(context, query, &mut page);
    page.cost = page.cost.of_page(page.containers.len(), page.next.is_some());
    Ok(page)
}

/// Whether system containers are listed: the request includes them, or its prefix names them.
fn asks_for_system(query: &ListContainers) -> bool {
    query.with_system || query.prefix.starts_with('$')
}

/// Adds the container of logs to a page, unless it was read.
fn add_logs<S>(context: &Context<'_, S>, query: &ListContainers, page: &mut ContainerPage) {
    let reached = query.from.as_ref().is_none_or(|from| from.name.as_str() <= LOGS)
        && page.next.as_ref().is_none_or(|next| LOGS < next.name.as_str());
    let met = page.containers.iter().any(|listed| listed.name == LOGS && listed.deleted.is_none());
    if met || !reached || !asks_for_system(query) || !LOGS.starts_with(&query.prefix) {
        return;
    }
    let at = page.containers.iter().take_while(|listed| listed.name.as_str() < LOGS).count();
    let properties = view(&logs(), context.now);
    page.containers.insert(at, ListedContainer { name: LOGS.to_owned(), properties, deleted: None });
    if page.containers.len() > query.page_size {
        page.next = page.containers.pop().map(|listed| ContainerMarker {
            name: listed.name,
            deleted_version: listed.deleted.map(|deleted| deleted.version),
        });
    }
}
