//! What happens to metrics tables whether or not there are requests: rows of hours without any, capacity once a day, and the end of
//! what is older than the account wants to keep.
//!
//! Of several nodes, one does it at a time. Everything may be done twice: rows that are there stay as they are or are written
//! alike.

use super::metrics_writer::{empty_rows, hour_table, minute_table};
use super::minute_counts::Minute;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::table::{EntityKey, MetricsTable, Properties, PropertiesBuilder, ValueRef};
use tepui_model::{Clock, ServiceError};
use tepui_service::blob::Capacity;
use tepui_service::{BlobService, MetricsError, MetricsRow, ServiceSettings, TableService, Work, WorkLeases};
use tepui_storage::{Engine, Extents};
use tepui_wire::address::Service;

/// The time between two looks at the clock and at the settings.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The time after which it is tried again where the store has failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The task that writes empty rows and deletes old ones.
pub(crate) struct MetricsKeeper<E> {
    tables: Arc<TableService<E>>,
    clock: Arc<dyn Clock>,
    /// The hour of the last round, and the services that have their rows of it.
    hour: Option<Minute>,
    has_rows: HashSet<(String, Service)>,
    /// The oldest partitions that are kept, as far as older ones were deleted.
    kept_from: HashMap<(String, MetricsTable), Minute>,
}

impl<E: Engine> MetricsKeeper<E> {
    pub(crate) fn new(tables: Arc<TableService<E>>, clock: Arc<dyn Clock>) -> Self {
        Self { tables, clock, hour: None, has_rows: HashSet::new(), kept_from: HashMap::new() }
    }

    /// Works until it is dropped. For a background task.
    pub(crate) async fn run(mut self, leases: Arc<WorkLeases<E>>) {
        loop {
            let pause = match leases.run(Work::KeepMetrics, self.round()).await {
                Some(Err(error)) => {
                    tracing::warn!(%error, "metrics tables cannot be kept up yet");
                    RETRY_INTERVAL
                }
                Some(Ok(())) | None => POLL_INTERVAL,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Does what is due, for every account that it can be done for. Returns the last error.
    pub(crate) async fn round(&mut self) -> Result<(), ServiceError> {
        let mut outcome = Ok(());
        let now = Minute::of(self.clock.now());
        if self.hour != Some(now.hour()) {
            self.hour = Some(now.hour());
            self.has_rows.clear();
        }
        for settings in self.tables.all_settings().await? {
            let Some(service) = service_named(&settings.service) else { continue };
            // First what frees space.
            outcome = self.expire(&settings, service, now).await.and(outcome);
            if settings.properties.hour_metrics.enabled {
                outcome = self.write_empty_rows(&settings.account, service, now).await.and(outcome);
            }
        }
        outcome
    }

    async fn write_empty_rows(
        &mut self,
        account: &str,
        service: Service,
        now: Minute,
    ) -> Result<(), ServiceError> {
        let of_service = (account.to_owned(), service);
        if !self.has_rows.contains(&of_service) {
            let written = self.tables.update_metrics(account, &empty_rows(service, now)).await;
            written.map_err(service_error)?;
            self.has_rows.insert(of_service);
        }
        Ok(())
    }

    /// Deletes what is older than the account wants, also if it has switched metrics off meanwhile.
    async fn expire(
        &mut self,
        settings: &ServiceSettings,
        service: Service,
        now: Minute,
    ) -> Result<(), ServiceError> {
        let ServiceSettings { account, properties, .. } = settings;
        let (hour, minute) = (&properties.hour_metrics, &properties.minute_metrics);
        let before = |days: Option<u32>| days.map(|days| now.days_before(days));
        let capacity = (service == Service::Blob).then_some(MetricsTable::CapacityBlob);
        for (table, first_kept) in [
            (Some(hour_table(service)), before(hour.retention_days).map(Minute::hour)),
            // Once an hour: each time leaves tombstones in front of what is read.
            (Some(minute_table(service)), before(minute.retention_days).map(Minute::hour)),
            (capacity, before(hour.retention_days).map(Minute::day)),
        ] {
            let (Some(table), Some(first_kept)) = (table, first_kept) else { continue };
            let of_table = (account.clone(), table);
            if self.kept_from.get(&of_table) == Some(&first_kept) {
                continue;
            }
            let deleted = self.tables.expire_metrics(account, table, &first_kept.partition_key()).await?;
            if deleted > 0 {
                tracing::info!(account, table = table.name(), rows = deleted, "old metrics are deleted");
            }
            self.kept_from.insert(of_table, first_kept);
        }
        Ok(())
    }
}

/// The task that measures capacity.
pub(crate) struct CapacityMeter<E, X> {
    tables: Arc<TableService<E>>,
    blobs: Arc<BlobService<E, X>>,
    clock: Arc<dyn Clock>,
    /// The day on which each account was last measured.
    measured: HashMap<String, Minute>,
}

impl<E: Engine, X: Extents> CapacityMeter<E, X> {
    pub(crate) fn new(
        tables: Arc<TableService<E>>,
        blobs: Arc<BlobService<E, X>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { tables, blobs, clock, measured: HashMap::new() }
    }

    /// Works until it is dropped. For a background task.
    pub(crate) async fn run(mut self, leases: Arc<WorkLeases<E>>) {
        loop {
            let pause = match leases.run(Work::MeasureCapacity, self.round()).await {
                Some(Err(error)) => {
                    tracing::warn!(%error, "capacity cannot be measured yet");
                    RETRY_INTERVAL
                }
                Some(Ok(())) | None => POLL_INTERVAL,
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Measures the accounts that have no rows of this day yet. Returns the last error.
    pub(crate) async fn round(&mut self) -> Result<(), ServiceError> {
        let mut outcome = Ok(());
        for ServiceSettings { account, service, properties } in self.tables.all_settings().await? {
            if service == Service::Blob.name() && properties.hour_metrics.enabled {
                outcome = self.measure(account).await.and(outcome);
            }
        }
        outcome
    }

    async fn measure(&mut self, account: String) -> Result<(), ServiceError> {
        let day = Minute::of(self.clock.now()).day();
        if self.measured.get(&account) == Some(&day) {
            return Ok(());
        }
        let key = capacity_key(day, DATA);
        if !self.tables.has_metrics(&account, MetricsTable::CapacityBlob, &key).await? {
            let capacity = self.blobs.capacity(&account).await?;
            let rows = [
                CapacityRow { key, capacity: capacity.data },
                CapacityRow { key: capacity_key(day, ANALYTICS), capacity: capacity.analytics },
            ];
            self.tables.update_metrics(&account, &rows).await.map_err(service_error)?;
        }
        self.measured.insert(account, day);
        Ok(())
    }
}

/// The RowKeys of capacity: what users store, and what Storage Analytics does.
const DATA: &str = "data";
const ANALYTICS: &str = "analytics";

fn capacity_key(day: Minute, of: &str) -> EntityKey {
    EntityKey::new(day.partition_key(), of)
}

struct CapacityRow {
    key: EntityKey,
    capacity: Capacity,
}

impl MetricsRow for CapacityRow {
    fn table(&self) -> MetricsTable {
        MetricsTable::CapacityBlob
    }

    fn key(&self) -> EntityKey {
        self.key.clone()
    }

    fn merged(&self, _: Option<&Properties>) -> Option<Properties> {
        let Capacity { bytes, containers, objects } = self.capacity;
        let mut columns = PropertiesBuilder::new();
        for (name, number) in [("Capacity", bytes), ("ContainerCount", containers), ("ObjectCount", objects)]
        {
            columns.push(name, ValueRef::Int64(i64::try_from(number).unwrap_or(i64::MAX))).ok()?;
        }
        Some(columns.finish())
    }
}

fn service_named(name: &str) -> Option<Service> {
    [Service::Blob, Service::Queue, Service::Table].into_iter().find(|service| service.name() == name)
}

/// These rows may be written again.
fn service_error(error: MetricsError) -> ServiceError {
    match error {
        MetricsError::NotWritten(error) | MetricsError::Unknown(error) => error,
    }
}
