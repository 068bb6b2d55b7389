//! Requests of accounts with metrics, counted in memory by minute until a task writes them.
//!
//! A request takes one of several locks, by its thread, finds its account and operation, and adds to some numbers. Nothing is
//! allocated but for the first request of an operation in a minute.

use super::operation;
use super::transactions::Transactions;
use crate::pipeline::FinishedExchange;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use tepui_model::Timestamp;
use tepui_model::service_properties::ServiceProperties;
use tepui_wire::address::Service;

/// As many as there are threads on most machines: two threads seldom share one.
const SHARDS: usize = 16;
/// The most numbers of operations that a shard holds, of some 300 bytes each.
const MAX_OPERATIONS: usize = 4096;

/// The requests that were counted and not written yet.
#[derive(Default)]
pub(crate) struct MinuteCounts {
    shards: [Mutex<Shard>; SHARDS],
    dropped: AtomicU64,
}

#[derive(Default)]
struct Shard {
    accounts: HashMap<String, Vec<Bucket>>,
    operations: usize,
}

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Origin {
    User,
    /// Storage Analytics itself.
    System,
}

/// The requests of one service of an account that ended in one minute.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) service: Service,
    pub(crate) minute: Minute,
    pub(crate) wanted: WantedRows,
    pub(crate) operations: HashMap<(Origin, &'static str), Transactions>,
    /// When the first of them was counted.
    pub(crate) since: Instant,
}

/// A minute, by its number since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Minute(u64);

impl Minute {
    pub(crate) fn of(time: Timestamp) -> Self {
        Self(time.unix_seconds() / 60)
    }

    pub(crate) fn hour(self) -> Self {
        Self(self.0 / 60 * 60)
    }

    pub(crate) fn day(self) -> Self {
        Self(self.0 / (24 * 60) * (24 * 60))
    }

    pub(crate) fn days_before(self, days: u32) -> Self {
        Self(self.0.saturating_sub(u64::from(days) * 24 * 60))
    }

    /// Its PartitionKey.
    pub(crate) fn partition_key(self) -> String {
        let start = std::time::Duration::from_secs(self.0.saturating_mul(60));
        let at = Timestamp::UNIX_EPOCH.saturating_add(start).calendar();
        format!("{:04}{:02}{:02}T{:02}{:02}", at.year, at.month, at.day, at.hour, at.minute)
    }
}

/// Which rows the account wanted when the requests ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WantedRows {
    pub(crate) hour: PeriodRows,
    pub(crate) minute: PeriodRows,
}

/// Which rows of hours, or of minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum PeriodRows {
    #[default]
    None,
    All,
    /// And one for each operation.
    ByOperation,
}

impl WantedRows {
    pub(crate) fn of(properties: &ServiceProperties) -> Self {
        let rows = |metrics: &tepui_model::service_properties::Metrics| match metrics.enabled {
            false => PeriodRows::None,
            true if metrics.include_apis == Some(true) => PeriodRows::ByOperation,
            true => PeriodRows::All,
        };
        Self { hour: rows(&properties.hour_metrics), minute: rows(&properties.minute_metrics) }
    }

    fn or(self, other: Self) -> Self {
        Self { hour: self.hour.max(other.hour), minute: self.minute.max(other.minute) }
    }
}

impl Bucket {
    fn add(&mut self, other: Self) {
        self.wanted = self.wanted.or(other.wanted);
        self.since = self.since.min(other.since);
        for (operation, transactions) in other.operations {
            self.operations.entry(operation).or_default().add(&transactions);
        }
    }

    /// How many requests they are.
    pub(crate) fn requests(&self) -> u64 {
        self.operations.values().map(Transactions::total).sum()
    }
}

impl MinuteCounts {
    /// Counts a request that has ended, if its account has metrics.
    pub(crate) fn record(&self, exchange: &FinishedExchange) {
        let Some(settings) = &exchange.settings else { return };
        let wanted = WantedRows::of(settings.shared());
        if wanted == WantedRows::default() {
            return;
        }
        let minute = Minute::of(exchange.ended_at());
        let operation = (Origin::User, operation::name(exchange));
        self.add(&exchange.account, exchange.service, minute, wanted, operation, &Transactions::of(exchange));
    }

    /// Counts a request of Storage Analytics itself: it wrote or deleted logs.
    pub(crate) fn record_system(
        &self,
        account: &str,
        service: Service,
        properties: &ServiceProperties,
        at: Timestamp,
        operation: &'static str,
        request: &Transactions,
    ) {
        let wanted = WantedRows::of(properties);
        if wanted != WantedRows::default() {
            self.add(account, service, Minute::of(at), wanted, (Origin::System, operation), request);
        }
    }

    fn add(
        &self,
        account: &str,
        service: Service,
        minute: Minute,
        wanted: WantedRows,
        operation: (Origin, &'static str),
        request: &Transactions,
    ) {
        let mut shard = self.shards[shard_of_thread()].lock();
        let Shard { accounts, operations } = &mut *shard;
        let buckets = match accounts.get_mut(account) {
            Some(buckets) => buckets,
            None if *operations >= MAX_OPERATIONS => return self.count_dropped(request.total()),
            None => accounts.entry(account.to_owned()).or_default(),
        };
        let found = buckets.iter().position(|bucket| bucket.service == service && bucket.minute == minute);
        let index = found.unwrap_or_else(|| {
            let since = Instant::now();
            buckets.push(Bucket { service, minute, wanted, operations: HashMap::new(), since });
            buckets.len() - 1
        });
        let bucket = &mut buckets[index];
        bucket.wanted = bucket.wanted.or(wanted);
        match bucket.operations.get_mut(&operation) {
            Some(transactions) => transactions.add(request),
            None if *operations >= MAX_OPERATIONS => self.count_dropped(request.total()),
            None => {
                *operations += 1;
                bucket.operations.insert(operation, *request);
            }
        }
    }

    /// Takes what was counted, apart from the requests of one minute.
    pub(crate) fn take(&self, except: Option<Minute>) -> Vec<(String, Bucket)> {
        let mut taken: BTreeMap<(String, &'static str, Minute), Bucket> = BTreeMap::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let Shard { accounts, operations } = &mut *shard;
            let mut of_shard = Vec::new();
            accounts.retain(|account, buckets| {
                for bucket in buckets.extract_if(.., |bucket| Some(bucket.minute) != except) {
                    *operations = operations.saturating_sub(bucket.operations.len());
                    of_shard.push((account.clone(), bucket));
                }
                !buckets.is_empty()
            });
            drop(shard);
            for (account, bucket) in of_shard {
                match taken.entry((account, bucket.service.name(), bucket.minute)) {
                    std::collections::btree_map::Entry::Occupied(mut same) => same.get_mut().add(bucket),
                    std::collections::btree_map::Entry::Vacant(new) => {
                        new.insert(bucket);
                    }
                }
            }
        }
        taken.into_iter().map(|((account, ..), bucket)| (account, bucket)).collect()
    }

    /// Drops what was counted of some services of some accounts.
    pub(crate) fn forget(&self, is_forgotten: impl Fn(&str, Service) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let Shard { accounts, operations } = &mut *shard;
            accounts.retain(|account, buckets| {
                for bucket in buckets.extract_if(.., |bucket| is_forgotten(account, bucket.service)) {
                    *operations = operations.saturating_sub(bucket.operations.len());
                }
                !buckets.is_empty()
            });
        }
    }

    /// Counts requests that will be in no row.
    pub(crate) fn count_dropped(&self, requests: u64) {
        self.dropped.fetch_add(requests, Ordering::Relaxed);
    }

    /// How many requests were dropped: too much was waiting to be written, or it is not known whether it was.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Every thread keeps to one shard.
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<Option<usize>> = const { Cell::new(None) };
    }
    SHARD.with(|shard| {
        shard.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            shard.set(Some(next));
            next
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytics::status::{RequestStatus, Requester, StatusKind};
    use std::time::Duration;

    const ALL: WantedRows = WantedRows { hour: PeriodRows::All, minute: PeriodRows::None };

    fn one() -> Transactions {
        let status = RequestStatus { kind: StatusKind::Success, requester: Requester::Key };
        Transactions::one(status, 1, 1, Duration::ZERO, Duration::ZERO)
    }

    fn total(taken: &[(String, Bucket)]) -> u64 {
        taken.iter().map(|(_, bucket)| bucket.requests()).sum()
    }

    #[test]
    fn partition_keys() {
        let minute = Minute::of(Timestamp::parse_iso("2026-03-10T08:15:59.9Z").unwrap());
        assert_eq!(minute.partition_key(), "20260310T0815");
        assert_eq!(minute.hour().partition_key(), "20260310T0800");
        assert_eq!(minute.day().partition_key(), "20260310T0000");
        assert_eq!(minute.days_before(10).partition_key(), "20260228T0815");
        assert_eq!(Minute(3).days_before(1), Minute(0));
    }

    #[test]
    fn threads_add_up_and_the_current_minute_stays() {
        let counts = MinuteCounts::default();
        std::thread::scope(|scope| {
            for thread in 0..2 * SHARDS {
                let counts = &counts;
                scope.spawn(move || {
                    for round in 0..1000 {
                        let minute = Minute(7 + (round % 2));
                        let operation = (Origin::User, ["GetBlob", "PutBlob"][thread % 2]);
                        counts.add("account", Service::Blob, minute, ALL, operation, &one());
                    }
                });
            }
        });
        let half = 1000 * SHARDS as u64;
        let taken = counts.take(Some(Minute(8)));
        assert_eq!((taken.len(), total(&taken)), (1, half));
        let bucket = &taken[0].1;
        assert_eq!((bucket.minute, bucket.wanted, bucket.operations.len()), (Minute(7), ALL, 2));
        assert_eq!(total(&counts.take(None)), half);
        assert!(counts.take(None).is_empty());
        assert_eq!(counts.dropped(), 0);
    }

    #[test]
    fn what_does_not_fit_is_counted_as_dropped() {
        let counts = MinuteCounts::default();
        let more = 100;
        for account in 0..MAX_OPERATIONS + more {
            let operation = (Origin::User, "GetBlob");
            counts.add(&account.to_string(), Service::Blob, Minute(1), ALL, operation, &one());
        }
        let known = (Origin::User, "GetBlob");
        counts.add("0", Service::Blob, Minute(1), ALL, known, &one());
        counts.add("0", Service::Blob, Minute(1), ALL, (Origin::User, "PutBlob"), &one());
        assert_eq!(counts.dropped(), more as u64 + 1);
        assert_eq!(total(&counts.take(None)), MAX_OPERATIONS as u64 + 1);
        counts.add("new", Service::Blob, Minute(1), ALL, known, &one());
        assert_eq!(total(&counts.take(None)), 1);
    }
}
