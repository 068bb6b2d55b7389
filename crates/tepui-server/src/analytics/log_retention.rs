//! Deletes analytics logs that are older than their account wants, also after logging was switched off.

use super::log_buffer::Hour;
use super::log_writer::hour_of;
use super::{Analytics, SystemRequest};
use std::sync::Arc;
use std::time::Duration;
use tepui_model::blob::BlobMarker;
use tepui_model::{Clock, ServiceError, Timestamp};
use tepui_service::{BlobService, ServiceSettings, TableService};
use tepui_storage::{Engine, Extents};
use tokio::time::Instant;

/// How often the clock is looked at, which a test may have moved.
const TICK: Duration = Duration::from_secs(1);
/// How often logs are looked at, by the clock of the server and by that of the machine.
const PERIOD: Duration = Duration::from_secs(60);
const HOURS_PER_DAY: u64 = 24;
const LIST_PAGE: usize = 1000;

/// What retention asks for the settings of accounts, and for their logs.
pub(crate) struct LogRetention<E: Engine, X> {
    pub(crate) blobs: Arc<BlobService<E, X>>,
    pub(crate) tables: Arc<TableService<E>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) analytics: Arc<Analytics>,
}

impl<E: Engine, X: Extents> LogRetention<E, X> {
    pub(crate) async fn run(self) {
        let mut last: Option<(u64, Instant)> = None;
        loop {
            let minute = self.clock.now().seconds() / PERIOD.as_secs();
            if last.is_none_or(|(before, at)| before != minute || at.elapsed() >= PERIOD) {
                self.sweep().await;
                last = Some((minute, Instant::now()));
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Deletes what is too old, of all accounts.
    pub(crate) async fn sweep(&self) {
        let all = match self.tables.all_settings().await {
            Ok(all) => all,
            Err(error) => {
                return tracing::warn!(%error, "settings cannot be read: old analytics logs are not deleted");
            }
        };
        for ServiceSettings { account, service, properties } in all {
            let Some(days) = properties.logging.retention_days else { continue };
            if let Err(error) = self.sweep_service(&account, &service, days).await {
                tracing::warn!(account, service, %error, "old analytics logs cannot be deleted");
            }
        }
    }

    async fn sweep_service(&self, account: &str, service: &str, days: u32) -> Result<(), ServiceError> {
        let first_kept = first_kept(self.clock.now(), days);
        let (prefix, mut from): (String, Option<BlobMarker>) = (format!("{service}/"), None);
        loop {
            let (names, next) = self.blobs.log_names(account, &prefix, from, LIST_PAGE).await?;
            for name in &names {
                match hour_of(name) {
                    // Names are in the order of their hours.
                    Some(hour) if hour >= first_kept => return Ok(()),
                    Some(_) => self.delete(account, name).await?,
                    None => {}
                }
            }
            from = next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    async fn delete(&self, account: &str, name: &str) -> Result<(), ServiceError> {
        // It is counted before a reset forgets the counts, or begins after it.
        let _held = self.analytics.hold_resets().await;
        let began = Instant::now();
        let deleted = self.blobs.delete_log(account, name).await;
        let done = SystemRequest { bytes: 0, time: began.elapsed(), succeeded: deleted.is_ok() };
        let properties = self.blobs.service_properties(account).await?;
        self.analytics.record_system(account, &properties.shared, "DeleteBlob", self.clock.now(), done);
        deleted
    }
}

/// The first hour that is kept: a log goes when its last line is so many days old.
fn first_kept(now: Timestamp, days: u32) -> Hour {
    Hour(Hour::of(now).0.saturating_sub(u64::from(days) * HOURS_PER_DAY))
}
