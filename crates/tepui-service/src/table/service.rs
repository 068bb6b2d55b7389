//! The Table service of all accounts of a server.

use super::entities::{self, Decision};
use super::query::{self, QueryBudget};
use super::{plan, tables};
use crate::catalogue::CatalogueCache;
use crate::gc::GarbageCollector;
use crate::keyspace::{self, Incarnation};
use crate::record::{StoredEntity, StoredTable};
use crate::settings::Settings;
use crate::transact::{Outcome, SpaceUse, commit, engine_error, retry};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::access_policy::SignedIdentifier;
use tepui_model::grant::KeyBounds;
use tepui_model::service_properties::ServiceProperties;
use tepui_model::table::{
    Change, ChangeSet, Entity, EntityKey, EntityPage, EntitySink, Operation, QueryEntities, Reply, Written,
};
use tepui_model::{Clock, ErrorCode, ServiceError};
use tepui_storage::{Engine, EngineError, Key, Snapshot, Write};

/// Options of the Table service.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableOptions {
    pub budget: QueryBudget,
    /// How long the name of a deleted table stays reserved. Azure takes some 40 s; the default is zero.
    pub deleted_name_reserved_for: Duration,
}

pub struct TableService<E> {
    engine: Arc<E>,
    clock: Arc<dyn Clock>,
    options: TableOptions,
    catalogue: CatalogueCache,
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

    /// Executes any operation but a query for entities, which needs a sink: see [`Self::query_entities`].
    /// Writes outside `bounds` are refused.
    pub async fn execute(
        &self,
        account: &str,
        operation: &Operation,
        bounds: &KeyBounds,
    ) -> Result<Reply, ServiceError> {
        let space = SpaceUse::frees_if(operation.frees_space());
        let reply = retry((), |()| async move {
            let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
            let outcome = self.decide(&snapshot, account, operation, bounds).await?;
            commit(&*self.engine, &snapshot, outcome, space).await.map_err(ServiceError::from)
        });
        let reply = reply.await?;
        self.after_commit(account, operation);
        Ok(reply)
    }

    async fn decide(
        &self,
        snapshot: &E::Snapshot,
        account: &str,
        operation: &Operation,
        bounds: &KeyBounds,
    ) -> Result<Outcome<Reply>, ServiceError> {
        match operation {
            Operation::GetEntity { table, key } => {
                self.get_entity(snapshot, account, table, key, bounds).await.map(Outcome::read)
            }
            Operation::ChangeEntity { table, change } => {
                self.change(snapshot, account, table, change, bounds).await
            }
            Operation::EntityGroupTransaction(set) => self.change_all(snapshot, account, set, bounds).await,
            Operation::QueryTables(query) => {
                tables::query(snapshot, account, query).await.map(Reply::Tables).map(Outcome::read)
            }
            Operation::GetTable { table } => {
                tables::get(&self.catalogue, snapshot, account, table).await.map(Outcome::read)
            }
            Operation::CreateTable { name } => {
                tables::create(snapshot, account, name, self.clock.now()).await
            }
            Operation::DeleteTable { table } => {
                let reserved_for = self.options.deleted_name_reserved_for;
                let until = (!reserved_for.is_zero()).then(|| self.clock.now().saturating_add(reserved_for));
                tables::delete(&self.catalogue, snapshot, account, table, until).await
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
                let write = self.settings.change(snapshot, account, change).await?;
                let writes = vec![write];
                Ok(Outcome { reply: Reply::ServicePropertiesSet, guards: Vec::new(), writes })
            }
            Operation::GetServiceStats => {
                Ok(Outcome::read(Reply::ServiceStats { last_sync: self.clock.now() }))
            }
            Operation::QueryEntities(_) => {
                let error = ServiceError::new(ErrorCode::InternalError);
                Err(error.with_cause("a query for entities was executed without a sink"))
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

    /// Queries a page of entities within `bounds` into `sink`. The request times out after `time`.
    pub async fn query_entities(
        &self,
        account: &str,
        query: &QueryEntities,
        bounds: &KeyBounds,
        time: Duration,
        sink: &mut dyn EntitySink,
    ) -> Result<EntityPage, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        let (_, table) = self.table(&snapshot, account, &query.table).await?;
        let plan = plan::entities(table, query.filter.as_ref(), bounds);
        let from = query.from.as_ref().map(|from| keyspace::continued_at(table, from));
        let page_size = query.page_size.get();
        let budget = self.options.budget.within(time);
        query::run(&snapshot, plan, query.filter.as_ref(), page_size, from, budget, sink).await
    }

    async fn get_entity(
        &self,
        snapshot: &E::Snapshot,
        account: &str,
        table: &str,
        key: &EntityKey,
        bounds: &KeyBounds,
    ) -> Result<Reply, ServiceError> {
        let (_, table) = self.table(snapshot, account, table).await?;
        within(bounds, key)?;
        let value = snapshot.get(&keyspace::of(table, key)).await.map_err(engine_error)?;
        let StoredEntity { timestamp, properties } =
            StoredEntity::decode(&value.ok_or(ErrorCode::ResourceNotFound)?)?;
        Ok(Reply::Entity(Entity { key: key.clone(), timestamp, properties }))
    }

    async fn change(
        &self,
        snapshot: &E::Snapshot,
        account: &str,
        table: &str,
        change: &Change,
        bounds: &KeyBounds,
    ) -> Result<Outcome<Reply>, ServiceError> {
        let (table_key, table) = self.table(snapshot, account, table).await?;
        let (write, written) = self.decide_change(snapshot, table, change, bounds).await?;
        // The catalogue row is a guard: a deleted table cannot gain entities.
        Ok(Outcome { reply: Reply::Written(written), guards: vec![table_key], writes: vec![write] })
    }

    /// Decides every change on the same snapshot; the first error fails them all.
    async fn change_all(
        &self,
        snapshot: &E::Snapshot,
        account: &str,
        set: &ChangeSet,
        bounds: &KeyBounds,
    ) -> Result<Outcome<Reply>, ServiceError> {
        if set.changes().is_empty() {
            return Ok(Outcome::read(Reply::Transaction(Vec::new())));
        }
        let (table_key, table) =
            self.table(snapshot, account, set.table()).await.map_err(|error| error.at_change(0))?;
        let mut writes = Vec::with_capacity(set.changes().len());
        let mut all_written = Vec::with_capacity(set.changes().len());
        for (index, change) in set.changes().iter().enumerate() {
            let decided = self.decide_change(snapshot, table, change, bounds).await;
            let (write, written) = decided.map_err(|error| error.at_change(index))?;
            writes.push(write);
            all_written.push(written);
        }
        Ok(Outcome { reply: Reply::Transaction(all_written), guards: vec![table_key], writes })
    }

    async fn decide_change(
        &self,
        snapshot: &E::Snapshot,
        table: Incarnation,
        change: &Change,
        bounds: &KeyBounds,
    ) -> Result<(Write, Written), ServiceError> {
        within(bounds, &change.key)?;
        let key = keyspace::of(table, &change.key);
        let stored = snapshot.get(&key).await.map_err(engine_error)?;
        let stored = stored.as_ref().map(StoredEntity::decode).transpose()?;
        Ok(match entities::decide(stored.as_ref(), change, self.clock.tick())? {
            Decision::Store(timestamp, properties) => {
                (Write::Put(key, StoredEntity::encode(timestamp, &properties)), Written::Stored(timestamp))
            }
            Decision::Delete => (Write::Delete(key), Written::Deleted),
        })
    }

    /// The key of the catalogue row, for a guard, and the table's incarnation.
    async fn table(
        &self,
        snapshot: &E::Snapshot,
        account: &str,
        table: &str,
    ) -> Result<(Key, Incarnation), ServiceError> {
        let found = tables::find(&self.catalogue, snapshot, account, table).await?;
        let (key, value) = found.ok_or(ErrorCode::TableNotFound)?;
        Ok((key, StoredTable::incarnation_of(&value)?))
    }

    /// Fails if there is no such table.
    pub async fn require_table(&self, account: &str, table: &str) -> Result<(), ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        self.table(&snapshot, account, table).await.map(drop)
    }

    /// The stored access policy `id` of a table, if there is one.
    pub async fn signed_identifier(
        &self,
        account: &str,
        table: &str,
        id: &str,
    ) -> Result<Option<SignedIdentifier>, ServiceError> {
        let snapshot = self.engine.snapshot().await.map_err(engine_error)?;
        match tables::acl(&self.catalogue, &snapshot, account, table).await {
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

    /// Whether the engine takes writes now.
    pub fn health(&self) -> Result<(), EngineError> {
        self.engine.health()
    }
}

fn within(bounds: &KeyBounds, key: &EntityKey) -> Result<(), ServiceError> {
    if bounds.is_everything() || bounds.contains(&key.partition_key, &key.row_key) {
        Ok(())
    } else {
        Err(ErrorCode::AuthorizationFailure.into())
    }
}
