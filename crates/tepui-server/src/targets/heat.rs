//! Partition heat: the partitions, queues and blobs that cost most, and tables that grow at one end only.
//!
//! What is counted are units, as in receipts. What is older than some seconds counts less and less. The memory is bounded, however
//! many partitions there are: see `sketch.rs`. Where requests are many, some small ones stand for the others: see `sampler.rs`.

use super::Scope;
use super::growth::{Growth, KeyGrowth, replace};
use super::sampler::Sampler;
use super::sketch::Sketch;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};
use tepui_wire::address::Service;

/// What each partition has cost lately.
pub struct Heat {
    sampler: Sampler,
    hasher: RandomState,
    partitions: Vec<Mutex<Decaying<Partition>>>,
    tables: Vec<Mutex<Decaying<Table>>>,
}

/// 1,024 partitions and 256 tables in all, of which each may have keys of some KiB.
const SHARDS: usize = 8;
const PARTITIONS_OF_SHARD: usize = 128;
const TABLES_OF_SHARD: usize = 32;

/// How long until something counts half.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// After so many times that, nothing is left of it.
const FORGOTTEN_AFTER: u32 = 64;

/// A partition that is asked for much.
#[derive(Debug, Clone, PartialEq)]
pub struct HotPartition {
    pub service: Service,
    pub account: String,
    /// A table, a queue or a container.
    pub resource: String,
    /// The PartitionKey, or the name of the blob. `None` of a queue, and of queries that read several partitions of a table.
    pub partition: Option<String>,
    pub units_per_second: f64,
    /// By how much that may be too large.
    pub error_per_second: f64,
    /// If entities are added at one end of the partition only.
    pub row_keys: Option<KeyGrowth>,
    /// If partitions are added at one end of the table only.
    pub partition_keys: Option<KeyGrowth>,
}

/// A table whose partitions are added at one end only.
#[derive(Debug, Clone, PartialEq)]
pub struct GrowingTable {
    pub account: String,
    pub table: String,
    pub partition_keys: KeyGrowth,
    pub inserts_per_second: f64,
}

#[derive(Debug)]
struct Partition {
    service: Service,
    account: String,
    resource: String,
    partition: String,
    has_partition: bool,
    /// Of the table.
    table: u64,
    row_keys: Growth,
}

impl Default for Partition {
    fn default() -> Self {
        Self {
            service: Service::Table,
            account: String::new(),
            resource: String::new(),
            partition: String::new(),
            has_partition: false,
            table: 0,
            row_keys: Growth::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    account: String,
    name: String,
    partition_keys: Growth,
}

/// A sketch whose counts are halved again and again.
struct Decaying<V> {
    sketch: Sketch<V>,
    since: Instant,
    /// The seconds before `since`, as often halved as what was counted in them.
    seconds: f64,
}

impl<V: Default> Decaying<V> {
    fn new(capacity: usize, now: Instant) -> Self {
        Self { sketch: Sketch::new(capacity), since: now, seconds: 0.0 }
    }

    fn advance(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) >= HALF_LIFE * FORGOTTEN_AFTER {
            self.sketch.clear();
            self.seconds = 0.0;
            self.since = now;
        }
        while now.saturating_duration_since(self.since) >= HALF_LIFE {
            self.sketch.halve();
            self.seconds = (self.seconds + HALF_LIFE.as_secs_f64()) / 2.0;
            self.since += HALF_LIFE;
        }
    }

    /// What counts are to be divided by. Time is halved as they are, so that the quotient is right for a steady rate.
    fn seconds(&self, now: Instant) -> f64 {
        (self.seconds + now.saturating_duration_since(self.since).as_secs_f64()).max(1.0)
    }
}

impl Default for Heat {
    fn default() -> Self {
        Self::new(Instant::now())
    }
}

impl Heat {
    pub fn new(now: Instant) -> Self {
        let shards = |capacity| (0..SHARDS).map(move |_| capacity);
        Self {
            sampler: Sampler::new(now),
            hasher: RandomState::new(),
            partitions: shards(PARTITIONS_OF_SHARD).map(|c| Mutex::new(Decaying::new(c, now))).collect(),
            tables: shards(TABLES_OF_SHARD).map(|c| Mutex::new(Decaying::new(c, now))).collect(),
        }
    }

    /// Counts a request. `inserted`: the row keys of the entities that it inserted into a partition of a table.
    pub(crate) fn record<'a>(
        &self,
        account: &str,
        scope: Scope<'_>,
        units: u64,
        inserted: impl Iterator<Item = &'a str>,
    ) {
        let units = units.max(1);
        if let Some((weight, now)) = self.sampler.weigh(units, Instant::now) {
            self.count(account, scope, (units, weight as f64 / units as f64), inserted, now);
        }
    }

    /// Counts a request of so many units so many times.
    fn count<'a>(
        &self,
        account: &str,
        scope: Scope<'_>,
        (units, times): (u64, f64),
        inserted: impl Iterator<Item = &'a str>,
        now: Instant,
    ) {
        let (service, resource, partition) = match scope {
            Scope::Table(table) => (Service::Table, table, None),
            Scope::Partition { table, key } => (Service::Table, table, Some(key)),
            Scope::Queue(queue) => (Service::Queue, queue, None),
            Scope::Blob { container, blob } => (Service::Blob, container, Some(blob)),
        };
        let table = self.hasher.hash_one((service.name(), account, resource));
        let key = self.hasher.hash_one((table, partition));
        let mut inserts = 0_u32;
        {
            let mut shard = shard(&self.partitions, key).lock();
            shard.advance(now);
            let counted = shard.sketch.add(key, units as f64 * times, |counter| {
                counter.service = service;
                replace(&mut counter.account, account);
                replace(&mut counter.resource, resource);
                replace(&mut counter.partition, partition.unwrap_or_default());
                counter.has_partition = partition.is_some();
                counter.table = table;
                counter.row_keys.reset();
            });
            for row in inserted {
                counted.row_keys.insert(row);
                inserts += 1;
            }
        }
        if let Some(partition) = partition
            && inserts > 0
        {
            let mut shard = shard(&self.tables, table).lock();
            shard.advance(now);
            let counted = shard.sketch.add(table, f64::from(inserts) * times, |counter| {
                replace(&mut counter.account, account);
                replace(&mut counter.name, resource);
                counter.partition_keys.reset();
            });
            (0..inserts).for_each(|_| counted.partition_keys.insert(partition));
        }
    }

    /// The partitions that cost most, the hottest first.
    pub fn top(&self, count: usize) -> Vec<HotPartition> {
        self.top_at(count, Instant::now())
    }

    fn top_at(&self, count: usize, now: Instant) -> Vec<HotPartition> {
        let mut all = Vec::new();
        for shard in &self.partitions {
            let mut shard = shard.lock();
            shard.advance(now);
            let seconds = shard.seconds(now);
            // What was forgotten is not hot.
            let counted = shard.sketch.iter().filter(|counted| counted.count / seconds >= 0.001);
            all.extend(counted.map(|counted| {
                let Partition { service, account, resource, partition, has_partition, table, row_keys } =
                    counted.value;
                let hot = HotPartition {
                    service: *service,
                    account: account.clone(),
                    resource: resource.clone(),
                    partition: has_partition.then(|| partition.clone()),
                    units_per_second: counted.count / seconds,
                    error_per_second: counted.error / seconds,
                    row_keys: row_keys.growth(),
                    partition_keys: None,
                };
                (*table, hot)
            }));
        }
        all.sort_by(|(_, a), (_, b)| b.units_per_second.total_cmp(&a.units_per_second));
        all.truncate(count);
        let grown = |(table, hot): (u64, HotPartition)| HotPartition {
            partition_keys: shard(&self.tables, table)
                .lock()
                .sketch
                .get(table)
                .and_then(|table| table.partition_keys.growth()),
            ..hot
        };
        all.into_iter().map(grown).collect()
    }

    /// The tables whose partitions are added at one end only, the busiest first.
    pub fn growing_tables(&self, count: usize) -> Vec<GrowingTable> {
        self.growing_tables_at(count, Instant::now())
    }

    fn growing_tables_at(&self, count: usize, now: Instant) -> Vec<GrowingTable> {
        let mut all = Vec::new();
        for shard in &self.tables {
            let mut shard = shard.lock();
            shard.advance(now);
            let seconds = shard.seconds(now);
            all.extend(shard.sketch.iter().filter_map(|counted| {
                Some(GrowingTable {
                    account: counted.value.account.clone(),
                    table: counted.value.name.clone(),
                    partition_keys: counted.value.partition_keys.growth()?,
                    inserts_per_second: counted.count / seconds,
                })
            }));
        }
        all.sort_by(|a, b| b.inserts_per_second.total_cmp(&a.inserts_per_second));
        all.truncate(count);
        all
    }
}

fn shard<T>(shards: &[T], key: u64) -> &T {
    &shards[key as usize % shards.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: std::iter::Empty<&str> = std::iter::empty();

    /// Counted once.
    fn once(units: u64) -> (u64, f64) {
        (units, 1.0)
    }

    fn partition(key: &str) -> Scope<'_> {
        Scope::Partition { table: "Orders", key }
    }

    #[test]
    fn the_hottest_come_first_with_their_rates() {
        let start = Instant::now();
        let heat = Heat::new(start);
        // A minute: 100 units a second in one partition, 30 in a queue, 1 in each of 50 blobs, and 10 of scans.
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            for _ in 0..10 {
                heat.count("people", partition("berlin"), once(10), NONE, now);
            }
            heat.count("people", Scope::Queue("jobs"), once(30), NONE, now);
            heat.count("people", Scope::Table("Orders"), once(10), NONE, now);
            for blob in 0..50 {
                let blob = format!("{blob}.txt");
                heat.count("other", Scope::Blob { container: "files", blob: &blob }, once(1), NONE, now);
            }
        }
        let top = heat.top_at(4, start + Duration::from_secs(60));
        let found: Vec<_> = top
            .iter()
            .map(|hot| (hot.service.name(), hot.resource.as_str(), hot.partition.as_deref()))
            .collect();
        assert_eq!(
            found[..3],
            [("table", "Orders", Some("berlin")), ("queue", "jobs", None), ("table", "Orders", None)]
        );
        for (hot, expected) in top.iter().zip([100.0, 30.0, 10.0, 1.0]) {
            assert!((hot.units_per_second / expected - 1.0).abs() < 0.05, "{hot:?}");
            assert_eq!(hot.error_per_second, 0.0);
        }
        assert_eq!(top[3].account, "other");
        assert_eq!(heat.top_at(100, start + Duration::from_secs(60)).len(), 53);
        assert_eq!(heat.top_at(100, start + Duration::from_secs(3600)).len(), 0, "all is over");
    }

    #[test]
    fn a_hot_partition_is_found_among_many() {
        let start = Instant::now();
        let heat = Heat::new(start);
        for number in 0..200_000u64 {
            let now = start + Duration::from_micros(5 * number);
            heat.count("people", partition(&number.to_string()), once(1), NONE, now);
            if number % 20 == 0 {
                heat.count("people", partition("hot"), once(1), NONE, now);
            }
        }
        let top = heat.top_at(1, start + Duration::from_secs(1));
        let hot = &top[0];
        assert_eq!(hot.partition.as_deref(), Some("hot"));
        // 10,000 in a second; each shard had some 25,000 others and 128 counters.
        let (most, least) = (hot.units_per_second, hot.units_per_second - hot.error_per_second);
        assert!(least <= 10_000.0 && 10_000.0 <= most && hot.error_per_second < 250.0, "{hot:?}");
        let counters: usize = heat.partitions.iter().map(|shard| shard.lock().sketch.iter().count()).sum();
        assert_eq!(counters, SHARDS * PARTITIONS_OF_SHARD);
    }

    #[test]
    fn growth_at_one_end_is_told() {
        let start = Instant::now();
        let heat = Heat::new(start);
        for number in 0..200 {
            let now = start + Duration::from_millis(5 * number);
            let (day, row) = (format!("2026-{:02}", number / 10), format!("{number:05}"));
            heat.count(
                "people",
                Scope::Partition { table: "Log", key: &day },
                once(1),
                [&*row].into_iter(),
                now,
            );
            let spread = format!("{:016x}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            heat.count(
                "people",
                Scope::Partition { table: "Users", key: &spread },
                once(1),
                [&*row].into_iter(),
                now,
            );
            let last_first = format!("{:05}", 99_999 - number);
            heat.count("people", partition("all"), once(3), [&*last_first].into_iter(), now);
        }
        let now = start + Duration::from_secs(1);
        let growing = heat.growing_tables_at(10, now);
        assert_eq!(growing.len(), 1, "{growing:?}");
        assert_eq!((growing[0].table.as_str(), growing[0].partition_keys), ("Log", KeyGrowth::Rising));
        assert!((growing[0].inserts_per_second - 200.0).abs() < 1.0);
        let top = heat.top_at(2, now);
        assert_eq!((top[0].resource.as_str(), top[0].row_keys), ("Orders", Some(KeyGrowth::Falling)));
        let of_log = heat.top_at(1000, now).into_iter().find(|hot| hot.resource == "Log").unwrap();
        assert_eq!(of_log.partition_keys, Some(KeyGrowth::Rising));
    }
}
