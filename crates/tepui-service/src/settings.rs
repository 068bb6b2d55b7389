//! Service properties: one record for each account and service.
//!
//! Every request needs some of them (CORS rules, say), so they are cached for some seconds: that is how late changes made by
//! another node may take effect. What decides about data, such as soft delete, is read with [`Settings::read_guarded`]
//! instead, and is exact on every node.

use crate::catalogue::CatalogueCache;
use crate::identity::account_guard;
use crate::keyspace;
use crate::record;
use crate::table::metrics;
use crate::transact::{restart, storage_error};
use bytes::Bytes;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::blob::{BlobServiceProperties, BlobServicePropertiesChange};
use tepui_model::service_properties::{ServiceProperties, ServicePropertiesChange};
use tepui_model::{ServiceError, Timestamp};
use tepui_storage::{Engine, Guard, Key, Snapshot, Write};
use tokio::time::Instant;

/// How long service properties are cached: another process may change them.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The most accounts whose properties are cached.
const MAX_ACCOUNTS: usize = 4096;

/// Service properties of one kind of service, and their record.
pub(crate) trait StoredProperties: Default {
    type Change;

    fn encode(&self) -> Bytes;
    fn decode(bytes: &[u8]) -> Result<Self, ServiceError>;
    fn apply(&mut self, change: &Self::Change);
    /// Those that every service has.
    fn shared(&self) -> &ServiceProperties;
}

impl StoredProperties for ServiceProperties {
    type Change = ServicePropertiesChange;

    fn encode(&self) -> Bytes {
        record::encode_service_properties(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        record::decode_service_properties(bytes)
    }

    fn apply(&mut self, change: &Self::Change) {
        change.apply(self);
    }

    fn shared(&self) -> &ServiceProperties {
        self
    }
}

impl StoredProperties for BlobServiceProperties {
    type Change = BlobServicePropertiesChange;

    fn encode(&self) -> Bytes {
        record::encode_blob_settings(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, ServiceError> {
        record::decode_blob_settings(bytes)
    }

    fn apply(&mut self, change: &Self::Change) {
        change.apply(self);
    }

    fn shared(&self) -> &ServiceProperties {
        &self.shared
    }
}

/// The service properties of one service for all accounts.
pub(crate) struct Settings<P = ServiceProperties> {
    /// The service's name in keys.
    service: &'static str,
    cached: RwLock<Cached<P>>,
}

struct Cached<P> {
    /// By account, with the time of the read.
    properties: HashMap<String, (Instant, Arc<P>)>,
    /// Counts invalidations: what was read before one may be stale.
    invalidations: u64,
}

impl<P: StoredProperties> Settings<P> {
    pub(crate) fn of_service(service: &'static str) -> Self {
        Self { service, cached: RwLock::new(Cached { properties: HashMap::new(), invalidations: 0 }) }
    }

    /// Changes made by this process are visible at once, those of another after a few seconds.
    pub(crate) async fn of_account<E: Engine>(
        &self,
        engine: &E,
        account: &str,
    ) -> Result<Arc<P>, ServiceError> {
        let invalidations = {
            let cached = self.cached.read();
            if let Some((since, properties)) = cached.properties.get(account)
                && since.elapsed() < MAX_AGE
            {
                return Ok(Arc::clone(properties));
            }
            cached.invalidations
        };
        let now = Instant::now();
        let properties = restart(|| async {
            let transaction = engine.begin().await.map_err(storage_error)?;
            self.read(&transaction, account).await
        });
        let properties = Arc::new(properties.await?);
        let mut cached = self.cached.write();
        if cached.invalidations == invalidations {
            if cached.properties.len() >= MAX_ACCOUNTS && !cached.properties.contains_key(account) {
                // Any name may be an account.
                cached.properties.clear();
            }
            cached.properties.insert(account.to_owned(), (now, Arc::clone(&properties)));
        }
        Ok(properties)
    }

    /// What was cached last, however long ago. Waits for nothing.
    pub(crate) fn cached(&self, account: &str) -> Option<Arc<P>> {
        let cached = self.cached.read();
        cached.properties.get(account).map(|(_, properties)| Arc::clone(properties))
    }

    /// Reads them from a snapshot.
    pub(crate) async fn read<S: Snapshot>(&self, snapshot: &S, account: &str) -> Result<P, ServiceError> {
        let key = keyspace::service_properties(account, self.service);
        match snapshot.get(&key).await.map_err(storage_error)? {
            Some(value) => P::decode(&value),
            None => Ok(P::default()),
        }
    }

    /// Reads them from a snapshot, through the cache of the catalogue, and returns their key: a commit that rests on them has
    /// it as a guard.
    pub(crate) async fn read_guarded<S: Snapshot>(
        &self,
        catalogue: &CatalogueCache,
        snapshot: &S,
        account: &str,
    ) -> Result<(Key, P), ServiceError> {
        let key = keyspace::service_properties(account, self.service);
        let row = catalogue.get(snapshot, &key).await?;
        Ok((key, row.map_or_else(|| Ok(P::default()), |row| P::decode(&row))?))
    }

    /// Adds the writes of a change. Metrics tables come to be with it. Returns the guard of the account.
    pub(crate) async fn change<S: Snapshot>(
        &self,
        snapshot: &S,
        account: &str,
        change: &P::Change,
        now: Timestamp,
        writes: &mut Vec<Write>,
    ) -> Result<Guard, ServiceError> {
        let key = keyspace::service_properties(account, self.service);
        let keys = [key.clone(), keyspace::account(account)];
        let mut stored = snapshot.get_many(&keys).await.map_err(storage_error)?.into_iter();
        let mut properties =
            stored.next().flatten().map_or_else(|| Ok(P::default()), |row| P::decode(&row))?;
        let guard = account_guard(account, stored.next().flatten().as_ref())?;
        properties.apply(change);
        let shared = properties.shared();
        metrics::create_enabled(snapshot, account, self.service, shared, now, writes).await?;
        writes.push(Write::Put(key, properties.encode()));
        Ok(guard)
    }

    /// To be called after a change was committed.
    pub(crate) fn invalidate(&self, account: &str) {
        let mut cached = self.cached.write();
        cached.properties.remove(account);
        cached.invalidations += 1;
    }

    /// The same for all accounts.
    pub(crate) fn invalidate_all(&self) {
        let mut cached = self.cached.write();
        cached.properties.clear();
        cached.invalidations += 1;
    }
}
