//! Many entities at once, of any partitions: for data that tests begin with.

use super::service::TableService;
use crate::keyspace;
use crate::record::StoredEntity;
use crate::transact::{Outcome, SpaceUse, commit, retry, storage_error};
use std::collections::HashMap;
use tepui_model::ServiceError;
use tepui_model::table::{EntityKey, Properties};
use tepui_storage::{Engine, Guard, Key, Snapshot, Write};

impl<E: Engine> TableService<E> {
    /// Inserts or replaces entities in one commit, but for those that are there already just so: these keep their timestamps.
    /// Returns how many were written. Of those with the same keys the last one counts.
    ///
    /// The entities have passed [`Properties::check_entity`], and are not more than a few MiB.
    pub async fn import(
        &self,
        account: &str,
        table: &str,
        entities: &[(EntityKey, Properties)],
    ) -> Result<usize, ServiceError> {
        retry(|()| async move {
            let transaction = self.begin().await?;
            let (table_key, table) = self.table(&transaction, account, table).await?;
            let last: HashMap<Key, &Properties> =
                entities.iter().map(|(key, properties)| (keyspace::of(table, key), properties)).collect();
            let keys: Vec<Key> = last.keys().cloned().collect();
            let stored = transaction.get_many(&keys).await.map_err(storage_error)?;
            let mut writes = Vec::with_capacity(keys.len());
            for (key, stored) in keys.into_iter().zip(stored) {
                let Some(properties) = last.get(&key) else { continue };
                let stored = stored.as_ref().map(StoredEntity::decode).transpose()?;
                if stored.as_ref().is_some_and(|stored| stored.properties == **properties) {
                    continue;
                }
                let now = self.clock.tick();
                let timestamp = stored.map_or(now, |stored| now.later_than(stored.timestamp));
                writes.push(Write::Put(key, StoredEntity::encode(timestamp, properties)));
            }
            let (reply, guards) = (writes.len(), vec![Guard::Shared(table_key)]);
            let outcome = Outcome { reply, guards, writes };
            commit(&*self.engine, transaction, outcome, SpaceUse::Consumes).await.map_err(ServiceError::from)
        })
        .await
    }
}
