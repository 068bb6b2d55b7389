//! Writes what was counted into the metrics tables, after each minute and when it has waited for long enough.
//!
//! Rows are added to: the commit reads what is stored and writes the sum. The rows of a minute and those of its hour are in one
//! commit, so that both have the same requests after a crash, and a request that ends late goes into its own minute. What could
//! not be written is tried again after the next minute. What may have been written is not: no request is counted twice.

use super::Analytics;
use super::minute_counts::{Bucket, Minute, Origin, PeriodRows};
use super::resets::Written;
use super::transactions::Transactions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::Clock;
use tepui_model::table::{EntityKey, MetricsTable, Properties};
use tepui_service::{MetricsError, MetricsRow, TableService};
use tepui_storage::Engine;
use tepui_wire::address::Service;
use tokio::sync::watch;
use tokio::time::Instant;

/// How often the clock is looked at: tests set it, and machines sleep.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long a server that stops waits for its metrics.
const MAX_STOP_TIME: Duration = Duration::from_secs(10);
/// The most buckets that wait to be written again.
const MAX_UNWRITTEN: usize = 1024;

/// The task that writes transaction metrics.
pub(crate) struct MetricsWriter<E> {
    pub(super) tables: Arc<TableService<E>>,
    clock: Arc<dyn Clock>,
    analytics: Arc<Analytics>,
    /// What could not be written, by account.
    unwritten: Vec<(String, Bucket)>,
    /// The longest that a request stays in memory, whatever the clock says.
    flush_after: Duration,
    last: (Minute, Instant),
}

impl<E: Engine> MetricsWriter<E> {
    pub(crate) fn new(
        tables: Arc<TableService<E>>,
        clock: Arc<dyn Clock>,
        analytics: Arc<Analytics>,
        flush_after: Duration,
    ) -> Self {
        let last = (Minute::of(clock.now()), Instant::now());
        Self { tables, clock, analytics, unwritten: Vec::new(), flush_after, last }
    }

    /// Writes until it is told to stop, and then everything that is left.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while tokio::time::timeout(POLL_INTERVAL, stop.wait_for(|stop| *stop)).await.is_err() {
            self.write_if_due().await;
        }
        if tokio::time::timeout(MAX_STOP_TIME, self.write(None)).await.is_err() {
            tracing::warn!(
                "metrics could not be written in time: the last requests are missing in their tables"
            );
        }
        let lost: u64 = self.unwritten.iter().map(|(_, bucket)| bucket.requests()).sum();
        if lost > 0 {
            self.analytics.metrics.count_dropped(lost);
            tracing::warn!(requests = lost, "requests are missing in the metrics tables");
        }
    }

    /// Writes if a minute has ended, or something has waited for long.
    async fn write_if_due(&mut self) {
        let now = Minute::of(self.clock.now());
        let (minute, at) = self.last;
        if now != minute {
            self.write(Some(now)).await;
        } else if at.elapsed() + POLL_INTERVAL >= self.flush_after {
            self.write(None).await;
        } else {
            return;
        }
        self.last = (now, Instant::now());
    }

    /// Writes what was counted, apart from the requests of one minute.
    pub(crate) async fn write(&mut self, except: Option<Minute>) {
        let mut waiting = std::mem::take(&mut self.unwritten);
        waiting.extend(self.analytics.metrics.take(except));
        // The last error of each kind stands for all: a store that fails does so for every account.
        let (mut delayed, mut missing) = (None, (0, None));
        for (account, bucket) in waiting {
            let _held = self.analytics.hold_resets().await;
            if self.analytics.is_undone(Written::Metrics, &account, bucket.service, bucket.since) {
                continue;
            }
            match self.tables.update_metrics(&account, &rows(&bucket)).await {
                Ok(()) => {}
                Err(MetricsError::NotWritten(error)) if self.unwritten.len() < MAX_UNWRITTEN => {
                    self.unwritten.push((account, bucket));
                    delayed = Some(error);
                }
                Err(MetricsError::NotWritten(error) | MetricsError::Unknown(error)) => {
                    self.analytics.metrics.count_dropped(bucket.requests());
                    missing = (missing.0 + bucket.requests(), Some(error));
                }
            }
        }
        if let Some(error) = delayed {
            tracing::warn!(%error, waiting = self.unwritten.len(), "metrics cannot be written yet");
        }
        if let (requests, Some(error)) = missing {
            tracing::warn!(%error, requests, "requests are missing in the metrics tables");
        }
    }
}

/// A row and what is added to it.
pub(super) struct TransactionRow {
    pub(super) table: MetricsTable,
    pub(super) key: EntityKey,
    pub(super) added: Transactions,
}

impl MetricsRow for TransactionRow {
    fn table(&self) -> MetricsTable {
        self.table
    }

    fn key(&self) -> EntityKey {
        self.key.clone()
    }

    fn merged(&self, stored: Option<&Properties>) -> Option<Properties> {
        if stored.is_some() && self.added == Transactions::default() {
            return None;
        }
        let mut sum = stored.map(Transactions::from_properties).unwrap_or_default();
        sum.add(&self.added);
        Some(sum.to_properties())
    }
}

/// The rows of the minute and of the hour, as far as they are wanted.
fn rows(bucket: &Bucket) -> Vec<TransactionRow> {
    let mut sums: BTreeMap<(Origin, &str), Transactions> = BTreeMap::new();
    for ((origin, operation), transactions) in &bucket.operations {
        sums.entry((*origin, operation)).or_default().add(transactions);
    }
    let mut all = [(Origin::User, Transactions::default()), (Origin::System, Transactions::default())];
    for ((origin, _), transactions) in &sums {
        for (_, sum) in all.iter_mut().filter(|(of, _)| of == origin) {
            sum.add(transactions);
        }
    }
    let Bucket { service, minute, wanted, .. } = bucket;
    let mut rows = Vec::new();
    for (wanted, table, minute) in
        [(wanted.hour, hour_table(*service), minute.hour()), (wanted.minute, minute_table(*service), *minute)]
    {
        if wanted == PeriodRows::None {
            continue;
        }
        let partition_key = minute.partition_key();
        let row = |origin, operation: &str, added| {
            let key = EntityKey::new(&partition_key, row_key(origin, operation));
            TransactionRow { table, key, added }
        };
        rows.extend(all.iter().map(|(origin, sum)| row(*origin, ALL, *sum)));
        if wanted == PeriodRows::ByOperation {
            rows.extend(sums.iter().map(|((origin, operation), sum)| row(*origin, operation, *sum)));
        }
    }
    rows
}

/// The rows of an hour that are there even if nobody asks for anything.
pub(super) fn empty_rows(service: Service, minute: Minute) -> [TransactionRow; 2] {
    [Origin::User, Origin::System].map(|origin| TransactionRow {
        table: hour_table(service),
        key: EntityKey::new(minute.hour().partition_key(), row_key(origin, ALL)),
        added: Transactions::default(),
    })
}

/// In the place of an operation: all of them.
const ALL: &str = "All";

fn row_key(origin: Origin, operation: &str) -> String {
    match origin {
        Origin::User => format!("user;{operation}"),
        Origin::System => format!("system;{operation}"),
    }
}

pub(super) fn hour_table(service: Service) -> MetricsTable {
    match service {
        Service::Blob => MetricsTable::HourBlob,
        Service::Queue => MetricsTable::HourQueue,
        Service::Table => MetricsTable::HourTable,
    }
}

pub(super) fn minute_table(service: Service) -> MetricsTable {
    match service {
        Service::Blob => MetricsTable::MinuteBlob,
        Service::Queue => MetricsTable::MinuteQueue,
        Service::Table => MetricsTable::MinuteTable,
    }
}
