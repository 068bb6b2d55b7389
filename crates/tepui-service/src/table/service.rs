//! The Table service of all accounts of a server.

use super::entities::{self, Decision};
use super::query::{PageQuery, QueryBudget};
use super::{key_ranges, metrics, tables};
use crate::catalogue::CatalogueCache;
use crate::gc::GarbageCollector;
use crate::keyspace::{self, Incarnation};
use crate::phase::{self, Phase};
use crate::record::{StoredEntity, StoredTable};
use crate::settings::Settings;
use crate::transact::{MAX_RESTARTS, Outcome, SpaceUse, commit, restart, retry, storage_error};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::grant::KeyBounds;
use tepui_model::service_properties::ServiceProperties;
use tepui_model::table::{
    Change, ChangeSet, Entity, EntityKey, EntityPage, EntitySink, Operation, QueryEntities, Reply, Written,
};
use tepui_model::{Clock, ErrorCode, ServiceError};
use tepui_storage::{Engine, Guard, Key, Snapshot, StorageError, Value, Write};

/// Options of the Table service.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableOptions {
    pub budget: QueryBudget,
    /// How long the name of a deleted table stays reserved. Azure takes some 40 s; the default is zero.
    pub deleted_name_reserved_for: Duration,
}

pub struct TableService<E> {
    pub(super) engine: Arc<E>,
    pub(super) clock: Arc<dyn Clock>,
    options: TableOptions,
    pub(super) catalogue: CatalogueCache,
    settings: Settings,
    collector: Arc<GarbageCollector<E>>,
}

impl<E: Engine> TableService<E> {
    pub fn new(
        engine: Arc<E>,
        clock: Arc<dyn Clock>,
        collector: Arc<GarbageCollector<E>>,
        options: TableOptions,
    ) -> Self {
        let settings = Settings::of_service("table");
        Self { engine, clock, options, catalogue: CatalogueCache::default(), settings, collector }
    }

    /// Executes an operation. Reads outside `bounds` are refused.
    pub async fn execute(
        &self,
        account: &str,
        operation: &Operation,
        bounds: &KeyBounds,
    ) -> Result<Reply, ServiceError> {
        let space = SpaceUse::frees_if(operation.frees_space());
        let reply = retry(|()| async move {
            phase::enter(Phase::Read);
            let transaction = self.begin().await?;
            let outcome = self.decide(&transaction, account, operation, bounds).await?;
            commit(&*self.engine, transaction, outcome, space).await.map_err(ServiceError::from)
        });
        let reply = reply.await?;
        self.after_commit(account, operation);
        Ok(reply)
    }

    /// Get Entity. The most frequent operation, so its future has no room for others.
    pub async fn get_entity(
        &self,
        account: &str,
        table: &str,
        key: &EntityKey,
        bounds: &KeyBounds,
    ) -> Result<Entity, ServiceError> {
        restart(|| async move {
            phase::enter(Phase::Read);
            let table_key = tables::catalogue_key(account, table);
            if let Some(cached) = self.catalogue.cached(&table_key)
                && let Some(row) = &cached.row
            {
                // Without a transaction, and at once: over a network that is one round trip.
                let keys = [cached.version_key(), keyspace::of(StoredTable::incarnation_of(row)?, key)];
                let values = self.engine.get_many(&keys).await.map_err(storage_error)?;
                if let Ok([version, stored]) = <[_; 2]>::try_from(values)
                    && cached.is_of(version.as_ref())?
                {
                    within(bounds, key)?;
                    return entity_of(key, stored);
                }
            }
            let transaction = self.begin().await?;
            let row = self.catalogue.refresh(&transaction, &table_key).await?;
            let table = StoredTable::incarnation_of(&row.ok_or(ErrorCode::TableNotFound)?)?;
            within(bounds, key)?;
            entity_of(key, transaction.get(&keyspace::of(table, key)).await.map_err(storage_error)?)
        })
        .await
    }

    pub(super) async fn begin(&self) -> Result<E::Transaction, ServiceError> {
        self.engine.begin().await.map_err(storage_error)
    }

    async fn decide(
        &self,
        snapshot: &E::Transaction,
        account: &str,
        operation: &Operation,
        bounds: &KeyBounds,
    ) -> Result<Outcome<Reply>, ServiceError> {
        metrics::check_operation(operation)?;
        match operation {
            Operation::GetEntity { table, key } => {
                let entity = self.read_entity(snapshot, account, table, key, bounds).await?;
                Ok(Outcome::read(Reply::Entity(entity)))
            }
            Operation::QueryTables(query) => {
                tables::query(snapshot, account, query).await.map(Reply::Tables).map(Outcome::read)
            }
            Operation::GetTable { table } => {
                tables::get(&self.catalogue, snapshot, account, table).await.map(Outcome::read)
            }
            Operation::CreateTable { name } => {
                tables::create(snapshot, account, name, self.clock.tick()).await
            }
            Operation::DeleteTable { table } => {
                let reserved_for = self.options.deleted_name_reserved_for;
                let now = self.clock.tick();
                let until = (!reserved_for.is_zero()).then(|| now.saturating_add(reserved_for));
                tables::delete(&self.catalogue, snapshot, account, table, until, now).await
            }
            Operation::GetTableAcl { table } => tables::acl(&self.catalogue, snapshot, account, table)
                .await
                .map(Reply::Acl)
                .map(Outcome::read),
            Operation::SetTableAcl { table, identifiers } => {
                tables::set_acl(&self.catalogue, snapshot, account, table, identifiers).await
            }
            Operation::GetServiceProperties => {
                let properties = self.settings.read(snapshot, account).await?;
                Ok(Outcome::read(Reply::ServiceProperties(properties)))
            }
            Operation::SetServiceProperties(change) => {
                let (now, mut writes) = (self.clock.now(), Vec::new());
                let guard = self.settings.change(snapshot, account, change, now, &mut writes).await?;
                Ok(Outcome { reply: Reply::ServicePropertiesSet, guards: vec![guard], writes })
            }
            Operation::GetServiceStats => {
                Ok(Outcome::read(Reply::ServiceStats { last_sync: self.clock.now() }))
            }
        }
    }

    /// Updates the state in memory after an operation was committed.
    fn after_commit(&self, account: &str, operation: &Operation) {
        match operation {
            Operation::SetServiceProperties(_) => self.settings.invalidate(account),
            Operation::DeleteTable { .. } => self.collector.wake(),
            _ => {}
        }
    }

    /// Changes one entity. Writes outside `bounds` are refused.
    pub async fn change_entity(
        &self,
        account: &str,
        table: &str,
        change: &Change,
        bounds: &KeyBounds,
    ) -> Result<Written, ServiceError> {
        let space = SpaceUse::frees_if(change.frees_space());
        retry(|()| async move {
            phase::enter(Phase::Read);
            let transaction = self.begin().await?;
            let outcome = self.change(&transaction, account, table, change, bounds).await?;
            commit(&*self.engine, transaction, outcome, space).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Makes all changes of a set, or none. Returns what became of each, in their order.
    pub async fn transact(
        &self,
        account: &str,
        set: &ChangeSet,
        bounds: &KeyBounds,
    ) -> Result<Vec<Written>, ServiceError> {
        let space = SpaceUse::frees_if(set.frees_space());
        retry(|()| async move {
            phase::enter(Phase::Read);
            let transaction = self.begin().await?;
            let outcome = self.change_all(&transaction, account, set, bounds).await?;
            commit(&*self.engine, transaction, outcome, space).await.map_err(ServiceError::from)
        })
        .await
    }

    /// Queries a page of entities within `bounds` into `sink`. The request times out after `time`.
    pub async fn query_entities(
        &self,
        account: &str,
        query: &QueryEntities,
        bounds: &KeyBounds,
        time: Duration,
        sink: &mut dyn EntitySink,
    ) -> Result<EntityPage, ServiceError> {
        let budget = self.options.budget.within(time);
        phase::enter(Phase::Read);
        let table_key = tables::catalogue_key(account, &query.table);
        let find = || async {
            let transaction = self.begin().await?;
            let row = self.catalogue.refresh(&transaction, &table_key).await?;
            Ok((transaction, StoredTable::incarnation_of(&row.ok_or(ErrorCode::TableNotFound)?)?))
        };
        let mut guess = self.catalogue.cached(&table_key);
        let (mut page, mut transaction, table) = loop {
            let guessed = guess.take().and_then(|cached| cached.row.clone().map(|row| (cached, row)));
            let (transaction, table, cached) = match guessed {
                Some((cached, row)) => {
                    (self.begin().await?, StoredTable::incarnation_of(&row)?, Some(cached))
                }
                None => {
                    let (transaction, table) = restart(find).await?;
                    (transaction, table, None)
                }
            };
            phase::enter(Phase::Plan);
            let plan = key_ranges::entities(table, query.filter.as_ref(), bounds);
            phase::enter(Phase::Read);
            let from = query.from.as_ref().map(|from| keyspace::continued_at(table, from));
            let page_size = query.page_size.get();
            let mut page = PageQuery::new(plan, query.filter.as_ref(), page_size, from, budget, &mut *sink);
            let Some(cached) = cached else { break (page, transaction, table) };
            // The first rows are read while the version is looked up: over a network that is one round trip.
            let version = async { transaction.get(&cached.version_key()).await.map_err(storage_error) };
            match tokio::join!(biased; version, page.read_ahead(&transaction)) {
                (Ok(version), read) if cached.is_of(version.as_ref())? => match read {
                    Err(error) if !error.is_outdated => return Err(error),
                    _ => break (page, transaction, table),
                },
                (Err(error), _) if !error.is_outdated => return Err(error),
                _ => {}
            }
        };
        for _ in 0..MAX_RESTARTS {
            match page.run(&transaction).await {
                Err(error) if error.is_outdated => {}
                done => return done,
            }
            let (renewed, found) = restart(find).await?;
            if found != table {
                // Deleted and created again.
                return Err(ErrorCode::TableNotFound.into());
            }
            transaction = renewed;
        }
        page.run(&transaction).await
    }

    async fn read_entity(
        &self,
        snapshot: &E::Transaction,
        account: &str,
        table: &str,
        key: &EntityKey,
        bounds: &KeyBounds,
    ) -> Result<Entity, ServiceError> {
        let table_key = tables::catalogue_key(account, table);
        let read = |row: Option<Value>| async move {
            let table = StoredTable::incarnation_of(&row.ok_or(ErrorCode::TableNotFound)?)?;
            within(bounds, key)?;
            snapshot.get(&keyspace::of(table, key)).await.map_err(storage_error)
        };
        entity_of(key, self.catalogue.get_with(snapshot, &table_key, read).await?)
    }

    async fn change(
        &self,
        snapshot: &E::Transaction,
        account: &str,
        table: &str,
        change: &Change,
        bounds: &KeyBounds,
    ) -> Result<Outcome<Written>, ServiceError> {
        metrics::check_change(table, &change.action)?;
        let table_key = tables::catalogue_key(account, table);
        let read = |row: Option<Value>| async move {
            let table = StoredTable::incarnation_of(&row.ok_or(ErrorCode::TableNotFound)?)?;
            within(bounds, &change.key)?;
            let key = keyspace::of(table, &change.key);
            let stored = snapshot.get(&key).await.map_err(storage_error)?;
            Ok((key, stored))
        };
        let (key, stored) = self.catalogue.get_with(snapshot, &table_key, read).await?;
        let (write, written) = self.decide_change(key, stored, change)?;
        // The catalogue row is a guard: a deleted table cannot gain entities.
        Ok(Outcome { reply: written, guards: vec![Guard::Shared(table_key)], writes: vec![write] })
    }

    /// Decides every change on the same snapshot; the first error fails them all.
    async fn change_all(
        &self,
        snapshot: &E::Transaction,
        account: &str,
        set: &ChangeSet,
        bounds: &KeyBounds,
    ) -> Result<Outcome<Vec<Written>>, ServiceError> {
        if set.changes().is_empty() {
            return Ok(Outcome::read(Vec::new()));
        }
        for (index, change) in set.changes().iter().enumerate() {
            metrics::check_change(set.table(), &change.action)
                .map_err(|code| ServiceError::from(code).at_change(index))?;
        }
        let table_key = tables::catalogue_key(account, set.table());
        let read = |row: Option<Value>| async move {
            let table = row.ok_or_else(|| ServiceError::from(ErrorCode::TableNotFound).at_change(0))?;
            let table = StoredTable::incarnation_of(&table)?;
            let keys = set.changes().iter().map(|change| keyspace::of(table, &change.key));
            let keys: Vec<Key> = keys.collect();
            let stored = snapshot.get_many(&keys).await.map_err(storage_error)?;
            Ok((keys, stored))
        };
        let (keys, stored) = self.catalogue.get_with(snapshot, &table_key, read).await?;
        let mut writes = Vec::with_capacity(set.changes().len());
        let mut all_written = Vec::with_capacity(set.changes().len());
        for (index, ((change, key), stored)) in set.changes().iter().zip(keys).zip(stored).enumerate() {
            let decided = within(bounds, &change.key).and_then(|()| self.decide_change(key, stored, change));
            let (write, written) = decided.map_err(|error| error.at_change(index))?;
            writes.push(write);
            all_written.push(written);
        }
        Ok(Outcome { reply: all_written, guards: vec![Guard::Shared(table_key)], writes })
    }

    /// Decides a change of what is stored under the key.
    fn decide_change(
        &self,
        key: Key,
        stored: Option<Value>,
        change: &Change,
    ) -> Result<(Write, Written), ServiceError> {
        let stored = stored.as_ref().map(StoredEntity::decode).transpose()?;
        Ok(match entities::decide(stored.as_ref(), change, self.clock.tick())? {
            Decision::Store(timestamp, properties) => {
                (Write::Put(key, StoredEntity::encode(timestamp, &properties)), Written::Stored(timestamp))
            }
            Decision::Delete => (Write::Delete(key), Written::Deleted),
        })
    }

    /// The key of the catalogue row, for a guard, and the table's incarnation.
    pub(super) async fn table(
        &self,
        snapshot: &E::Transaction,
        account: &str,
        table: &str,
    ) -> Result<(Key, Incarnation), ServiceError> {
        let found = tables::find(&self.catalogue, snapshot, account, table).await?;
        let (key, value) = found.ok_or(ErrorCode::TableNotFound)?;
        Ok((key, StoredTable::incarnation_of(&value)?))
    }

    /// Fails if there is no such table.
    pub async fn require_table(&self, account: &str, table: &str) -> Result<(), ServiceError> {
        restart(|| async { self.table(&self.begin().await?, account, table).await.map(drop) }).await
    }

    /// The stored access policy `id` of a table, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        table: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let acl =
            restart(|| async { tables::acl(&self.catalogue, &self.begin().await?, account, table).await });
        match acl.await {
            Ok(acl) => Ok(acl.into_iter().find(|identifier| identifier.id == id)),
            Err(error) if error.code == ErrorCode::TableNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The service properties of an account, cached: changes made by this process are visible at once, those of
    /// another process after a few seconds.
    pub async fn service_properties(&self, account: &str) -> Result<Arc<ServiceProperties>, ServiceError> {
        self.settings.of_account(&*self.engine, account).await
    }

    /// The service properties that were cached last, however long ago. Waits for nothing.
    pub fn cached_properties(&self, account: &str) -> Option<Arc<ServiceProperties>> {
        self.settings.cached(account)
    }

    /// Drops the cached service properties of all accounts: they were changed by something else than requests.
    pub(crate) fn forget_settings(&self) {
        self.settings.invalidate_all();
    }

    /// Whether the engine takes writes now.
    pub async fn health(&self) -> Result<(), StorageError> {
        self.engine.health().await
    }
}

/// The entity that is stored under a key.
fn entity_of(key: &EntityKey, stored: Option<Value>) -> Result<Entity, ServiceError> {
    let StoredEntity { timestamp, properties } =
        StoredEntity::decode(&stored.ok_or(ErrorCode::ResourceNotFound)?)?;
    Ok(Entity { key: key.clone(), timestamp, properties })
}

fn within(bounds: &KeyBounds, key: &EntityKey) -> Result<(), ServiceError> {
    if bounds.is_everything() || bounds.contains(&key.partition_key, &key.row_key) {
        Ok(())
    } else {
        Err(ErrorCode::AuthorizationFailure.into())
    }
}
