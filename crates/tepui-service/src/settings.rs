//! Service properties: stored once for each account and service, and asked for with every request.

use crate::keyspace;
use crate::record;
use crate::transact::engine_error;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tepui_model::ServiceError;
use tepui_model::blob::{BlobServiceProperties, BlobServicePropertiesChange};
use tepui_model::service_properties::{ServiceProperties, ServicePropertiesChange};
use tepui_storage::{Engine, Snapshot, Write};
use tokio::time::Instant;

/// How long service properties are remembered: another server on the same data may change them.
const AGE: Duration = Duration::from_secs(5);

/// Service properties as a service has them.
pub(crate) trait Kept: Default {
    type Change;

    fn encode(&self) -> Bytes;
    fn decode(bytes: &[u8]) -> Result<Self, ServiceError>;
    fn apply(&mut self, change: &Self::Change);
}

impl Kept for ServiceProperties {
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
}

impl Kept for BlobServiceProperties {
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
}

/// The service properties of one service, of all accounts.
pub(crate) struct Settings<P = ServiceProperties> {
    /// The service's name in keys.
    service: &'static str,
    remembered: RwLock<Remembered<P>>,
}

struct Remembered<P> {
    /// By account, and since when.
    properties: HashMap<String, (Instant, Arc<P>)>,
    /// How often some were forgotten: what was read before that may be out of date.
    forgotten: u64,
}

impl<P: Kept> Settings<P> {
    pub(crate) fn of_service(service: &'static str) -> Self {
        Self { service, remembered: RwLock::new(Remembered { properties: HashMap::new(), forgotten: 0 }) }
    }

    /// Changes made by this process hold at once, those of another after a few seconds. To be asked for accounts
    /// that exist: it remembers each.
    pub(crate) async fn of_account<E: Engine>(
        &self,
        engine: &E,
        account: &str,
    ) -> Result<Arc<P>, ServiceError> {
        let forgotten = {
            let remembered = self.remembered.read().unwrap_or_else(PoisonError::into_inner);
            if let Some((since, properties)) = remembered.properties.get(account)
                && since.elapsed() < AGE
            {
                return Ok(Arc::clone(properties));
            }
            remembered.forgotten
        };
        let now = Instant::now();
        let snapshot = engine.snapshot().await.map_err(engine_error)?;
        let properties = Arc::new(self.read(&snapshot, account).await?);
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        if remembered.forgotten == forgotten {
            remembered.properties.insert(account.to_owned(), (now, Arc::clone(&properties)));
        }
        Ok(properties)
    }

    /// As `snapshot` has them.
    pub(crate) async fn read<S: Snapshot>(&self, snapshot: &S, account: &str) -> Result<P, ServiceError> {
        let key = keyspace::service_properties(account, self.service);
        match snapshot.get(&key).await.map_err(engine_error)? {
            Some(value) => P::decode(&value),
            None => Ok(P::default()),
        }
    }

    /// The write that makes a change.
    pub(crate) async fn change<S: Snapshot>(
        &self,
        snapshot: &S,
        account: &str,
        change: &P::Change,
    ) -> Result<Write, ServiceError> {
        let mut properties = self.read(snapshot, account).await?;
        properties.apply(change);
        let key = keyspace::service_properties(account, self.service);
        Ok(Write::Put(key, properties.encode()))
    }

    /// To be called when a change was committed.
    pub(crate) fn forget(&self, account: &str) {
        let mut remembered = self.remembered.write().unwrap_or_else(PoisonError::into_inner);
        remembered.properties.remove(account);
        remembered.forgotten += 1;
    }
}
