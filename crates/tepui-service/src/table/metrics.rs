//! Metrics tables: which there are, what users may do with them, and how the server itself writes and expires their entities.
//!
//! They are rows of the catalogue like other tables, made by the commit that enables metrics. What is in the entities is not known
//! here.

use super::service::TableService;
use super::tables;
use crate::catalogue::next_incarnation;
use crate::identity::account_guard;
use crate::keyspace::{self, Edge, Incarnation};
use crate::record::{self, StoredEntity, StoredTable};
use crate::transact::{
    Attempt, CommitFailure, CommitState, Outcome, SpaceUse, commit, restart, retry, storage_error,
};
use std::collections::HashMap;
use tepui_model::service_properties::ServiceProperties;
use tepui_model::table::{Action, EntityKey, MetricsTable, MetricsTableName, Operation, Properties};
use tepui_model::{ErrorCode, ServiceError, Timestamp};
use tepui_storage::{Engine, Guard, Key, KeyRange, ScanLimit, Snapshot, Write};

/// Entities that are deleted by one commit.
const EXPIRED_ROWS: usize = 256;
/// Service properties that are read at once.
const SETTINGS_PAGE: ScanLimit = ScanLimit { max_rows: 256, max_bytes: 1024 * 1024 };

/// A change of one entity of a metrics table.
pub trait MetricsRow: Sync {
    fn table(&self) -> MetricsTable;
    fn key(&self) -> EntityKey;
    /// What to store in the place of what is there. `None`: it stays as it is.
    fn merged(&self, stored: Option<&Properties>) -> Option<Properties>;
}

/// Why rows were not written.
#[derive(Debug)]
pub enum MetricsError {
    /// Nothing was written: it can be tried again.
    NotWritten(ServiceError),
    /// They may have been written, and must not be added once more.
    Unknown(ServiceError),
}

impl From<CommitFailure> for MetricsError {
    fn from(failure: CommitFailure) -> Self {
        match failure.state {
            CommitState::NotCommitted => Self::NotWritten(failure.error),
            CommitState::Unknown => Self::Unknown(failure.error),
        }
    }
}

/// The settings of one service of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSettings {
    pub account: String,
    /// `blob`, `queue` or `table`.
    pub service: String,
    pub properties: ServiceProperties,
}

/// The tables that the settings of a service ask for.
fn enabled_tables(service: &str, properties: &ServiceProperties) -> Vec<MetricsTable> {
    use MetricsTable::*;
    let (hour, minute, capacity) = match service {
        "blob" => (HourBlob, MinuteBlob, Some(CapacityBlob)),
        "queue" => (HourQueue, MinuteQueue, None),
        _ => (HourTable, MinuteTable, None),
    };
    let hourly = properties.hour_metrics.enabled;
    let minutely = properties.minute_metrics.enabled;
    let of_hour = [Some(hour), capacity].into_iter().flatten().filter(|_| hourly);
    of_hour.chain(Some(minute).filter(|_| minutely)).collect()
}

/// Adds the writes that create the tables which the settings of a service ask for and which do not exist yet.
pub(crate) async fn create_enabled<S: Snapshot>(
    snapshot: &S,
    account: &str,
    service: &str,
    properties: &ServiceProperties,
    now: Timestamp,
    writes: &mut Vec<Write>,
) -> Result<(), ServiceError> {
    create_missing(snapshot, account, &enabled_tables(service, properties), now, writes).await.map(drop)
}

/// The keys of the catalogue rows of tables, and their incarnations.
type FoundTables = HashMap<MetricsTable, (Key, Incarnation)>;

/// Finds tables, and adds the writes that create those which do not exist yet.
async fn create_missing<S: Snapshot>(
    snapshot: &S,
    account: &str,
    wanted: &[MetricsTable],
    now: Timestamp,
    writes: &mut Vec<Write>,
) -> Result<FoundTables, ServiceError> {
    let mut found = FoundTables::new();
    for table in wanted {
        let name = table.name();
        let key = keyspace::table(account, &name.to_ascii_lowercase());
        let incarnation = match snapshot.get(&key).await.map_err(storage_error)? {
            Some(row) => StoredTable::incarnation_of(&row)?,
            None => {
                let incarnation = number(snapshot, writes).await?;
                let row = StoredTable { incarnation, name: name.to_owned(), created: now, acl: Vec::new() };
                writes.push(Write::Put(key.clone(), row.encode()));
                incarnation
            }
        };
        found.insert(*table, (key, incarnation));
    }
    Ok(found)
}

/// A new incarnation, also if `writes` have numbered others before.
async fn number<S: Snapshot>(snapshot: &S, writes: &mut Vec<Write>) -> Result<Incarnation, ServiceError> {
    let counter = keyspace::incarnation_counter();
    for write in &mut *writes {
        if let Write::Put(key, value) = write
            && *key == counter
        {
            let next = record::decode_number(value)? + 1;
            *value = record::encode_number(next);
            return Ok(Incarnation(next));
        }
    }
    let (incarnation, numbered) = next_incarnation(snapshot).await?;
    writes.push(numbered);
    Ok(incarnation)
}

/// Refuses what only the service itself does with a metrics table.
pub(super) fn check_operation(operation: &Operation) -> Result<(), ErrorCode> {
    match operation {
        Operation::DeleteTable { table }
        | Operation::GetTableAcl { table }
        | Operation::SetTableAcl { table, .. }
            if MetricsTableName::find(table).is_some() =>
        {
            Err(ErrorCode::AuthorizationFailure)
        }
        // What creates a table has a name that no metrics table has.
        _ => Ok(()),
    }
}

/// The same for a change of an entity.
pub(super) fn check_change(table: &str, action: &Action) -> Result<(), ErrorCode> {
    match action {
        Action::Delete(_) => Ok(()),
        _ if MetricsTableName::find(table).is_some() => Err(ErrorCode::AuthorizationFailure),
        _ => Ok(()),
    }
}

impl<E: Engine> TableService<E> {
    /// Changes entities of metrics tables, all or none, whatever users may do. Tables that do not exist are created.
    pub async fn update_metrics<R: MetricsRow>(&self, account: &str, rows: &[R]) -> Result<(), MetricsError> {
        let updated: Result<(), CommitFailure> = retry(|()| async move {
            let transaction = self.begin().await?;
            let outcome = self.decide_metrics(&transaction, account, rows).await?;
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await
        })
        .await;
        Ok(updated?)
    }

    async fn decide_metrics<R: MetricsRow>(
        &self,
        snapshot: &E::Transaction,
        account: &str,
        rows: &[R],
    ) -> Result<Outcome<()>, ServiceError> {
        let mut wanted: Vec<MetricsTable> = Vec::new();
        for row in rows {
            if !wanted.contains(&row.table()) {
                wanted.push(row.table());
            }
        }
        let mut writes = Vec::new();
        let found = create_missing(snapshot, account, &wanted, self.clock.now(), &mut writes).await?;
        let mut guards: Vec<Guard> = found.values().map(|(key, _)| Guard::Shared(key.clone())).collect();
        if !writes.is_empty() {
            let row = snapshot.get(&keyspace::account(account)).await.map_err(storage_error)?;
            guards.push(account_guard(account, row.as_ref())?);
        }
        let key = |row: &R| found.get(&row.table()).map(|(_, table)| keyspace::of(*table, &row.key()));
        let keys: Vec<Key> = rows.iter().filter_map(key).collect();
        let stored = snapshot.get_many(&keys).await.map_err(storage_error)?;
        for ((row, key), stored) in rows.iter().zip(keys).zip(stored) {
            let stored = stored.as_ref().map(StoredEntity::decode).transpose()?;
            let Some(properties) = row.merged(stored.as_ref().map(|stored| &stored.properties)) else {
                continue;
            };
            // Every write has a timestamp of its own, which proves a commit whose outcome is unknown.
            let now = self.clock.tick();
            let timestamp = stored.map_or(now, |stored| now.later_than(stored.timestamp));
            writes.push(Write::Put(key, StoredEntity::encode(timestamp, &properties)));
        }
        Ok(Outcome { reply: (), guards, writes })
    }

    /// Deletes the entities of a metrics table whose PartitionKey is less than `before`. Returns how many.
    pub async fn expire_metrics(
        &self,
        account: &str,
        table: MetricsTable,
        before: &str,
    ) -> Result<usize, ServiceError> {
        let mut total = 0;
        loop {
            let deleted: Result<usize, ServiceError> = retry(|()| async move {
                let transaction = self.begin().await?;
                let Some((_, row)) =
                    tables::find(&self.catalogue, &transaction, account, table.name()).await?
                else {
                    return Ok(Attempt::Done(0));
                };
                let table = StoredTable::incarnation_of(&row)?;
                let end = keyspace::partition_edge(table, before, Edge::Before);
                let range = KeyRange { end, ..keyspace::entities(table) };
                let limit = ScanLimit { max_rows: EXPIRED_ROWS, max_bytes: 1024 * 1024 };
                let page = transaction.scan_some(&range, limit).await.map_err(storage_error)?;
                let writes: Vec<Write> = page.rows.into_iter().map(|(key, _)| Write::Delete(key)).collect();
                let outcome = Outcome { reply: writes.len(), guards: Vec::new(), writes };
                commit(&*self.engine, transaction, outcome, SpaceUse::Frees).await.map_err(ServiceError::from)
            })
            .await;
            match deleted? {
                0 => return Ok(total),
                some => total += some,
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether there is an entity in a metrics table.
    pub async fn has_metrics(
        &self,
        account: &str,
        table: MetricsTable,
        key: &EntityKey,
    ) -> Result<bool, ServiceError> {
        restart(|| async {
            let snapshot = self.begin().await?;
            let found = tables::find(&self.catalogue, &snapshot, account, table.name()).await?;
            let Some((_, row)) = found else { return Ok(false) };
            let key = keyspace::of(StoredTable::incarnation_of(&row)?, key);
            Ok(snapshot.get(&key).await.map_err(storage_error)?.is_some())
        })
        .await
    }

    /// The settings of all services of all accounts that ever set them.
    pub async fn all_settings(&self) -> Result<Vec<ServiceSettings>, ServiceError> {
        restart(|| async {
            let snapshot = self.begin().await?;
            let (mut range, mut all) = (keyspace::all_service_properties(), Vec::new());
            loop {
                let page = snapshot.scan(&range, SETTINGS_PAGE).await.map_err(storage_error)?;
                for (key, row) in &page.rows {
                    let Some((account, service)) = keyspace::account_and_service(key) else { continue };
                    let decoded = match &*service {
                        "blob" => record::decode_blob_settings(row).map(|settings| settings.shared),
                        _ => record::decode_service_properties(row),
                    };
                    let (account, service) = (account.into_owned(), service.into_owned());
                    match decoded {
                        Ok(properties) => all.push(ServiceSettings { account, service, properties }),
                        // Others need not suffer from it.
                        Err(error) => tracing::error!(%error, account, service, "settings cannot be read"),
                    }
                }
                match page.next {
                    Some(next) => range.start = next,
                    None => return Ok(all),
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }
}
