//! The tasks of metrics tables, by a clock that the tests move, and with processes that end at any time.

use super::Analytics;
use super::metrics_keeper::{CapacityMeter, MetricsKeeper};
use super::metrics_writer::MetricsWriter;
use super::minute_counts::Minute;
use super::transactions::Transactions;
use crate::pipeline::{AccountProperties, Caller, FinishedExchange, OperationKind};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::grant::KeyBounds;
use tepui_model::service_properties::{Metrics, ServiceProperties, ServicePropertiesChange};
use tepui_model::table::{
    self, EntitySink, EntityView, MetricsTable, Operation, Properties, QueryEntities, ValueRef,
};
use tepui_model::time::ManualClock;
use tepui_model::{Clock, ErrorCode, Timestamp};
use tepui_service::test_bench::ResetScope;
use tepui_service::{BlobOptions, BlobService, GarbageCollector, TableOptions, TableService};
use tepui_storage::{Engine, MemoryEngine, MemoryExtents};
use tepui_storage_faulty::{Faults, FaultyEngine, Rates};

const ACCOUNT: &str = "devstoreaccount1";
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// What outlasts a process.
struct World<E> {
    engine: Arc<E>,
    clock: Arc<ManualClock>,
    tables: Arc<TableService<E>>,
}

/// What does not.
struct Process<E> {
    analytics: Arc<Analytics>,
    writer: MetricsWriter<E>,
}

/// All rows of a table, by PartitionKey and RowKey.
#[derive(Default)]
struct Rows(BTreeMap<(String, String), Properties>);

impl EntitySink for Rows {
    fn accept(&mut self, entity: &EntityView<'_>) {
        let key = (entity.partition_key.to_owned(), entity.row_key.to_owned());
        let properties = Properties::from_stored(entity.packed.to_vec().into());
        assert_eq!(self.0.insert(key, properties), None, "once");
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl Rows {
    fn keys(&self) -> Vec<String> {
        self.0.keys().map(|(partition, row)| format!("{partition} {row}")).collect()
    }

    fn partitions(&self) -> Vec<&str> {
        let mut partitions: Vec<&str> = self.0.keys().map(|(partition, _)| partition.as_str()).collect();
        partitions.dedup();
        partitions
    }

    /// The sum of a column over the rows with this RowKey.
    fn sum(&self, row_key: &str, column: &str) -> u64 {
        let of_key = self.0.iter().filter(|((_, row), _)| row == row_key);
        let number = |row: &Properties| match row.get(column) {
            Some(ValueRef::Int64(number)) => number as u64,
            other => panic!("{column}: {other:?}"),
        };
        of_key.map(|(_, row)| number(row)).sum()
    }

    fn requests(&self) -> u64 {
        self.sum("user;All", "TotalRequests")
    }
}

fn settings(hour: Metrics, minute: Metrics) -> ServiceProperties {
    ServiceProperties { hour_metrics: hour, minute_metrics: minute, ..Default::default() }
}

fn on(include_apis: bool) -> Metrics {
    Metrics { enabled: true, include_apis: Some(include_apis), ..Metrics::default() }
}

fn kept_for(days: u32, enabled: bool) -> Metrics {
    Metrics { enabled, retention_days: Some(days), ..Metrics::default() }
}

impl<E: Engine> World<E> {
    fn new(engine: E, start: &str) -> Self {
        let engine = Arc::new(engine);
        let clock = Arc::new(ManualClock::at(Timestamp::parse_iso(start).unwrap()));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let tables = TableService::new(
            Arc::clone(&engine),
            Arc::<ManualClock>::clone(&clock),
            collector,
            TableOptions::default(),
        );
        Self { engine, clock, tables: Arc::new(tables) }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::<ManualClock>::clone(&self.clock)
    }

    fn process(&self) -> Process<E> {
        let analytics = Arc::new(Analytics::default());
        let writer =
            MetricsWriter::new(Arc::clone(&self.tables), self.clock(), Arc::clone(&analytics), MINUTE);
        Process { analytics, writer }
    }

    async fn set(&self, properties: &ServiceProperties) {
        let ServiceProperties { hour_metrics, minute_metrics, .. } = properties.clone();
        let change = ServicePropertiesChange {
            hour_metrics: Some(hour_metrics),
            minute_metrics: Some(minute_metrics),
            ..Default::default()
        };
        let set = Operation::SetServiceProperties(change);
        self.tables.execute(ACCOUNT, &set, &KeyBounds::EVERYTHING).await.unwrap();
    }

    async fn rows(&self, table: MetricsTable) -> Rows {
        let mut rows = Rows::default();
        let mut query = QueryEntities { table: table.name().to_owned(), ..Default::default() };
        loop {
            let time = Duration::from_secs(30);
            let page =
                self.tables.query_entities(ACCOUNT, &query, &KeyBounds::EVERYTHING, time, &mut rows).await;
            match page {
                Ok(page) if page.next.is_none() => return rows,
                Ok(page) => query.from = page.next,
                Err(error) if error.code == ErrorCode::TableNotFound => return rows,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

impl<E: Engine> Process<E> {
    /// A request that ends now.
    fn request(&self, world: &World<E>, properties: &ServiceProperties, kind: table::OperationKind) {
        let mut exchange = FinishedExchange::example("GET", "/devstoreaccount1/People()", &[]);
        exchange.started_at = world.clock.now();
        exchange.caller = Some(Caller::AccountKey);
        exchange.operation = Some(OperationKind::Table(kind));
        exchange.settings = Some(AccountProperties::Common(Arc::new(properties.clone())));
        self.analytics.record(&exchange);
    }

    /// A minute ends.
    async fn minute_ends(&mut self, world: &World<E>) {
        world.clock.advance(MINUTE);
        self.writer.write(Some(Minute::of(world.clock.now()))).await;
    }
}

use table::OperationKind::{DeleteEntity, GetEntity, InsertEntity};

/// Requests are counted in memory, or wait to be written again, when a reset comes.
#[tokio::test]
async fn a_reset_forgets_counts_wherever_they_are() {
    let faults = Faults::new(Rates { unavailable: 1, ..Rates::NONE }, 0);
    let engine = FaultyEngine::new(MemoryEngine::new(), faults);
    let world = World::new(engine, "2026-03-10T08:58:30Z");
    let properties = settings(on(true), Metrics::default());
    let mut process = world.process();
    let everything = ResetScope::default();

    process.request(&world, &properties, InsertEntity);
    process.minute_ends(&world).await;
    process.request(&world, &properties, InsertEntity);
    let analytics = Arc::clone(&process.analytics);
    analytics.reset(everything.clone(), async { Ok(()) }).await.unwrap();
    let _calm = world.engine.calm();
    process.minute_ends(&world).await;
    assert!(world.rows(MetricsTable::HourTable).await.0.is_empty(), "in memory, and not written at first");

    process.request(&world, &properties, InsertEntity);
    let alone = analytics.writing.write().await;
    let (_, ()) = tokio::join!(process.minute_ends(&world), async {
        analytics.forget(&everything);
        drop(alone);
    });
    assert!(world.rows(MetricsTable::HourTable).await.0.is_empty(), "on their way");

    process.request(&world, &properties, GetEntity);
    process.minute_ends(&world).await;
    let rows = world.rows(MetricsTable::HourTable).await;
    assert_eq!((rows.requests(), rows.sum("user;QueryEntity", "Success")), (1, 1));
    assert_eq!(analytics.dropped_metrics_requests(), 0);
}

#[tokio::test]
async fn rows_by_what_the_account_wants() {
    let all = ["user;All", "system;All"];
    for (case, properties, in_hour, in_minute) in [
        ("hours", settings(on(false), Metrics::default()), &all[..], &[][..]),
        ("minutes", settings(Metrics::default(), on(false)), &[], &all),
        (
            "hours by operation",
            settings(on(true), on(false)),
            &["user;All", "system;All", "user;QueryEntity", "user;InsertEntity"],
            &all,
        ),
        (
            "minutes by operation",
            settings(on(false), on(true)),
            &all,
            &["user;All", "system;All", "user;QueryEntity", "user;InsertEntity"],
        ),
        ("neither", ServiceProperties::default(), &[], &[]),
    ] {
        let world = World::new(MemoryEngine::new(), "2026-03-10T08:58:30Z");
        let mut process = world.process();
        for _ in 0..3 {
            process.request(&world, &properties, GetEntity);
            process.request(&world, &properties, InsertEntity);
            process.request(&world, &properties, GetEntity);
            process.minute_ends(&world).await;
        }
        for (table, partitions, expected) in [
            (MetricsTable::HourTable, &["20260310T0800", "20260310T0900"][..], in_hour),
            (MetricsTable::MinuteTable, &["20260310T0858", "20260310T0859", "20260310T0900"], in_minute),
        ] {
            let rows = world.rows(table).await;
            let mut keys = Vec::new();
            for partition in partitions {
                keys.extend(expected.iter().map(|row| format!("{partition} {row}")));
            }
            keys.sort();
            assert_eq!(rows.keys(), keys, "{case}: {}", table.name());
            if !expected.is_empty() {
                assert_eq!(rows.requests(), 9, "{case}");
                assert_eq!(rows.sum("system;All", "TotalRequests"), 0, "{case}");
            }
            if expected.contains(&"user;QueryEntity") {
                assert_eq!(rows.sum("user;QueryEntity", "Success"), 6, "{case}");
                assert_eq!(rows.sum("user;InsertEntity", "Success"), 3, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_that_ends_late_goes_into_its_minute() {
    let world = World::new(MemoryEngine::new(), "2026-03-10T08:58:30Z");
    let (mut process, properties) = (world.process(), settings(on(false), on(false)));
    process.request(&world, &properties, GetEntity);
    process.minute_ends(&world).await;
    // Heard of after its minute was written.
    world.clock.set(Timestamp::parse_iso("2026-03-10T08:58:59Z").unwrap());
    process.request(&world, &properties, GetEntity);
    world.clock.set(Timestamp::parse_iso("2026-03-10T09:00:01Z").unwrap());
    process.request(&world, &properties, GetEntity);
    process.writer.write(Some(Minute::of(world.clock.now()))).await;
    let rows = world.rows(MetricsTable::MinuteTable).await;
    assert_eq!((rows.partitions(), rows.requests()), (vec!["20260310T0858"], 2));
    process.writer.write(None).await;
    let rows = world.rows(MetricsTable::MinuteTable).await;
    assert_eq!((rows.partitions(), rows.requests()), (vec!["20260310T0858", "20260310T0900"], 3));
}

/// Processes end in the middle of a minute, without a word.
#[tokio::test]
async fn a_kill_loses_at_most_a_minute() {
    let world = World::new(MemoryEngine::new(), "2026-03-10T08:50:00Z");
    let properties = settings(on(true), on(false));
    let (mut recorded, mut lost) = (0, 0);
    for run in 0..5 {
        let mut process = world.process();
        for minute in 0..4 {
            for kind in [GetEntity, InsertEntity, DeleteEntity].into_iter().cycle().take(run + 7 * minute) {
                process.request(&world, &properties, kind);
                recorded += 1;
            }
            process.minute_ends(&world).await;
        }
        for _ in 0..=run {
            process.request(&world, &properties, GetEntity);
            (recorded, lost) = (recorded + 1, lost + 1);
        }
    }
    let hours = world.rows(MetricsTable::HourTable).await;
    let minutes = world.rows(MetricsTable::MinuteTable).await;
    assert_eq!((hours.requests(), minutes.requests()), (recorded - lost, recorded - lost));
    let by_operation: u64 = ["user;QueryEntity", "user;InsertEntity", "user;DeleteEntity"]
        .iter()
        .map(|row| hours.sum(row, "TotalRequests"))
        .sum();
    assert_eq!(by_operation, recorded - lost);
}

/// Commits whose outcome is open, conflicts, transactions that become too old: nothing is counted twice, and what is missing is known.
#[tokio::test]
async fn nothing_is_counted_twice_on_a_faulty_store() {
    let faults = Faults::from_environment(Rates { unknown_kept: 6, unknown_lost: 6, ..Rates::ALL });
    let world = World::new(FaultyEngine::in_memory(faults), "2026-03-10T08:00:00Z");
    let (mut process, properties) = (world.process(), settings(on(true), on(true)));
    let mut recorded = 0;
    for minute in 0..150 {
        for _ in 0..minute % 5 + 1 {
            process.request(&world, &properties, GetEntity);
            recorded += 1;
        }
        process.minute_ends(&world).await;
    }
    process.writer.write(None).await;
    let dropped = process.analytics.metrics.dropped();
    // No outcome is open any more, and reading does not fail.
    world.engine.settle().await;
    let _calm = world.engine.calm();
    let hours = world.rows(MetricsTable::HourTable).await;
    let minutes = world.rows(MetricsTable::MinuteTable).await;
    assert_eq!(hours.requests(), minutes.requests(), "both or none");
    assert!(hours.requests() <= recorded, "{} of {recorded}", hours.requests());
    assert!(hours.requests() + dropped >= recorded, "{} and {dropped} of {recorded}", hours.requests());
    assert!(dropped > 0 && dropped < recorded, "{dropped} of {recorded}: the test tests nothing");
}

/// A store that takes nothing for a while delays rows, and loses none.
#[tokio::test]
async fn what_was_not_written_is_written_later() {
    let memory = MemoryEngine::new();
    let engine = |rates| FaultyEngine::new(memory.clone(), Faults::new(rates, 1));
    let start = "2026-03-10T08:58:00Z";
    let world = World::new(engine(Rates::NONE), start);
    let refusing = World::new(engine(Rates { conflict: 1, ..Rates::NONE }), start).tables;
    let (mut process, properties) = (world.process(), settings(on(false), on(false)));
    let mut recorded = 0;
    for minute in 0..4 {
        process.writer.tables =
            if (1..3).contains(&minute) { Arc::clone(&refusing) } else { Arc::clone(&world.tables) };
        for _ in 0..=minute {
            process.request(&world, &properties, InsertEntity);
            recorded += 1;
        }
        process.minute_ends(&world).await;
        let written = world.rows(MetricsTable::HourTable).await.requests();
        assert_eq!(written, if (1..3).contains(&minute) { 1 } else { recorded }, "{minute}");
    }
    let minutes = world.rows(MetricsTable::MinuteTable).await;
    assert_eq!((minutes.partitions().len(), minutes.requests()), (4, recorded));
    assert_eq!(process.analytics.metrics.dropped(), 0);
}

#[tokio::test]
async fn hours_without_requests_have_rows() {
    let world = World::new(MemoryEngine::new(), "2026-03-10T22:30:00Z");
    let mut keeper = MetricsKeeper::new(Arc::clone(&world.tables), world.clock());
    keeper.round().await.unwrap();
    assert!(world.rows(MetricsTable::HourTable).await.0.is_empty(), "nobody wants them");
    let properties = settings(on(true), on(true));
    world.set(&properties).await;
    for _ in 0..3 {
        keeper.round().await.unwrap();
        keeper.round().await.unwrap();
        world.clock.advance(HOUR);
    }
    let rows = world.rows(MetricsTable::HourTable).await;
    assert_eq!(rows.partitions(), ["20260310T2200", "20260310T2300", "20260311T0000"]);
    assert_eq!((rows.0.len(), rows.requests()), (6, 0));
    let empty = Transactions::default().to_properties();
    assert!(rows.0.values().all(|row| *row == empty));
    assert!(world.rows(MetricsTable::MinuteTable).await.0.is_empty());
    // They do not harm what was counted.
    let mut process = world.process();
    process.request(&world, &properties, GetEntity);
    process.writer.write(None).await;
    MetricsKeeper::new(Arc::clone(&world.tables), world.clock()).round().await.unwrap();
    let rows = world.rows(MetricsTable::HourTable).await;
    assert_eq!((rows.0.len(), rows.requests()), (9, 1));
}

#[tokio::test]
async fn old_rows_are_deleted_whether_or_not_metrics_are_on() {
    for (case, hour, minute, kept_hours, kept_minutes) in [
        ("for ever", on(false), on(false), 96, 96),
        ("hours for two days", kept_for(2, true), on(false), 48, 96),
        ("minutes for a day, hours for three", kept_for(3, true), kept_for(1, true), 72, 24),
        ("switched off", kept_for(1, false), kept_for(2, false), 24, 48),
        ("switched off, for ever", Metrics::default(), Metrics::default(), 96, 96),
    ] {
        let world = World::new(MemoryEngine::new(), "2026-03-06T08:15:00Z");
        let (mut process, properties) = (world.process(), settings(on(false), on(false)));
        for _ in 0..96 {
            process.request(&world, &properties, GetEntity);
            process.writer.write(None).await;
            world.clock.advance(HOUR);
        }
        world.set(&settings(hour.clone(), minute)).await;
        let mut keeper = MetricsKeeper::new(Arc::clone(&world.tables), world.clock());
        keeper.round().await.unwrap();
        let requests = async |table| world.rows(table).await.requests();
        assert_eq!(requests(MetricsTable::HourTable).await, kept_hours, "{case}");
        assert_eq!(requests(MetricsTable::MinuteTable).await, kept_minutes, "{case}");
        // Time goes by, without requests.
        world.clock.advance(10 * HOUR);
        keeper.round().await.unwrap();
        let left = if hour.retention_days.is_some() { kept_hours - 10 } else { kept_hours };
        assert_eq!(requests(MetricsTable::HourTable).await, left, "{case}");
        world.clock.advance(100 * 24 * HOUR);
        keeper.round().await.unwrap();
        let left = if hour.retention_days.is_some() { 0 } else { kept_hours };
        assert_eq!(requests(MetricsTable::HourTable).await, left, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn capacity_is_measured_once_a_day() {
    use tepui_model::blob;
    let world = World::new(MemoryEngine::new(), "2026-03-10T08:15:00Z");
    let blobs = Arc::new(BlobService::new(
        Arc::clone(&world.engine),
        Arc::new(MemoryExtents::new()),
        world.clock(),
        crate::ids::random_ids(),
        BlobOptions::default(),
    ));
    let meter = || CapacityMeter::new(Arc::clone(&world.tables), Arc::clone(&blobs), world.clock());
    let execute = async |operation: blob::Operation| {
        use tepui_service::blob::Caller;
        blobs.execute(Caller::owner(ACCOUNT), &operation).await.map(drop).unwrap();
    };
    let mut today = meter();
    today.round().await.unwrap();
    let rows = async || world.rows(MetricsTable::CapacityBlob).await;
    assert!(rows().await.0.is_empty());
    let create = |name: &str| blob::Operation::CreateContainer {
        container: blob::ContainerName::parse(name).unwrap(),
        metadata: Default::default(),
        public_access: None,
        encryption: Default::default(),
    };
    execute(create("first")).await;
    let shared = ServicePropertiesChange { hour_metrics: Some(on(false)), ..Default::default() };
    let change = blob::BlobServicePropertiesChange { shared, ..Default::default() };
    execute(blob::Operation::SetServiceProperties(change)).await;
    today.round().await.unwrap();
    execute(create("second")).await;
    today.round().await.unwrap();
    meter().round().await.unwrap();
    let found = rows().await;
    assert_eq!(found.keys(), ["20260310T0000 analytics", "20260310T0000 data"]);
    assert_eq!(found.sum("data", "ContainerCount"), 1, "measured once");
    assert_eq!(found.sum("analytics", "ContainerCount"), 1);
    world.clock.advance(16 * HOUR);
    today.round().await.unwrap();
    let found = rows().await;
    assert_eq!(found.partitions(), ["20260310T0000", "20260311T0000"]);
    assert_eq!(found.sum("data", "ContainerCount"), 1 + 2);
}
