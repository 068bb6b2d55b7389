use super::*;
use crate::analytics::LogRetention;
use crate::pipeline::{AccountProperties, Caller, FinishedExchange};
use tepui_model::Clock;
use tepui_model::blob;
use tepui_model::blob::BlobServicePropertiesChange;
use tepui_model::service_properties::{Logging, ServiceProperties, ServicePropertiesChange};
use tepui_model::table::Operation;
use tepui_model::time::ManualClock;
use tepui_service::blob::Caller as BlobCaller;
use tepui_service::test_bench::ResetScope;
use tepui_service::{BlobOptions, GarbageCollector, TableOptions, TableService};
use tepui_storage::{MemoryEngine, MemoryExtents};
use tepui_wire::access::table::bounds;

pub(super) const ACCOUNT: &str = "devstoreaccount1";

/// Blobs and tables on one store in memory.
struct Bench {
    clock: Arc<ManualClock>,
    blobs: Arc<BlobService<MemoryEngine, MemoryExtents>>,
    tables: Arc<TableService<MemoryEngine>>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::parse_iso("2026-03-10T08:15:30Z").unwrap()));
        let time: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let engine = Arc::new(MemoryEngine::new());
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        Self {
            blobs: Arc::new(BlobService::new(
                Arc::clone(&engine),
                Arc::new(MemoryExtents::new()),
                Arc::clone(&time),
                crate::ids::random_ids(),
                BlobOptions::default(),
            )),
            tables: Arc::new(TableService::new(engine, time, collector, TableOptions::default())),
            clock,
        }
    }

    fn writer(&self) -> LogWriter<MemoryEngine, MemoryExtents> {
        LogWriter::new(Arc::new(Analytics::default()), Arc::clone(&self.blobs), Duration::from_secs(50))
    }

    fn retention(&self) -> LogRetention<MemoryEngine, MemoryExtents> {
        LogRetention {
            blobs: Arc::clone(&self.blobs),
            tables: Arc::clone(&self.tables),
            clock: Arc::clone(&self.clock) as _,
            analytics: Arc::default(),
        }
    }

    async fn names(&self) -> Vec<String> {
        self.blobs.log_names(ACCOUNT, "", None, 1000).await.unwrap().0
    }

    /// Switches the retention of tables and of blobs.
    async fn retain(&self, tables: Option<u32>, blobs: Option<u32>) {
        let change = |retention_days| ServicePropertiesChange {
            logging: Some(Logging { retention_days, ..Logging::default() }),
            ..ServicePropertiesChange::default()
        };
        let of_tables = Operation::SetServiceProperties(change(tables));
        let grant = tepui_model::grant::Grant::AccountKey;
        self.tables.execute(ACCOUNT, &of_tables, bounds(&grant)).await.unwrap();
        let shared = change(blobs);
        let of_blobs = blob::Operation::SetServiceProperties(BlobServicePropertiesChange {
            shared,
            ..Default::default()
        });
        self.blobs.execute(BlobCaller::owner(ACCOUNT), &of_blobs).await.unwrap();
    }
}

/// A request that ended at this time.
pub(super) fn request(service: Service, method: &str, at: Timestamp) -> FinishedExchange {
    let logging = Logging { read: true, write: true, delete: true, ..Logging::default() };
    let properties = ServiceProperties { logging, ..ServiceProperties::default() };
    FinishedExchange {
        service,
        settings: Some(AccountProperties::Common(Arc::new(properties))),
        caller: Some(Caller::AccountKey),
        started_at: at,
        ..FinishedExchange::example(method, "/devstoreaccount1/Things", &[])
    }
}

#[tokio::test]
async fn logs_are_numbered_by_service_and_hour() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    let at = |text| Timestamp::parse_iso(text).unwrap();
    let minute = Duration::from_secs(60);
    for (service, method, time) in [
        (Service::Table, "GET", "2026-03-10T08:15:30.9Z"),
        (Service::Table, "DELETE", "2026-03-10T08:16:40.1Z"),
        (Service::Table, "GET", "2026-03-10T09:00:00Z"),
        (Service::Blob, "PUT", "2026-03-10T08:59:59Z"),
    ] {
        writer.analytics.record(&request(service, method, at(time)));
    }
    writer.flush(minute).await;
    assert!(bench.names().await.is_empty(), "nothing has waited for a minute");
    writer.flush(Duration::ZERO).await;
    let first = [
        "blob/2026/03/10/0800/000000.log",
        "table/2026/03/10/0800/000000.log",
        "table/2026/03/10/0900/000000.log",
    ];
    assert_eq!(bench.names().await, first);
    let get = blob::Operation::GetBlobProperties {
        blob: blob::BlobPath {
            container: blob::ContainerName::parse("$logs").unwrap(),
            blob: BlobName::parse(first[1]).unwrap(),
        },
        revision: blob::Revision::Base,
        detail: blob::Detail::Properties,
        preconditions: blob::Preconditions::default(),
        encryption: blob::Encryption::default(),
    };
    let answer = bench.blobs.execute(BlobCaller::owner(ACCOUNT), &get).await.unwrap();
    let blob::Reply::Blob(found) = answer.reply else { panic!("no blob") };
    let expected = [
        ("LogType", "read,delete"),
        ("StartTime", "2026-03-10T08:15:30Z"),
        ("EndTime", "2026-03-10T08:16:40Z"),
        ("LogVersion", "1.0"),
    ];
    assert_eq!(found.state.metadata.iter().collect::<Vec<_>>(), expected);

    // Others go on counting: another node, and a process after this one, even if somebody has deleted logs.
    let mut writers = [bench.writer(), writer, bench.writer()];
    for (index, expected) in [(0, "000001"), (1, "000002"), (2, "000003"), (0, "000004")] {
        let writer = &mut writers[index];
        let mut request = request(Service::Table, "GET", at("2026-03-10T09:30:00Z"));
        request.request_id = expected.to_owned();
        writer.analytics.record(&request);
        writer.flush(Duration::ZERO).await;
        assert_eq!(bench.names().await.last().unwrap(), &format!("table/2026/03/10/0900/{expected}.log"));
        assert_eq!(writer.analytics.dropped_log_lines(), 0);
        bench.blobs.delete_log(ACCOUNT, "table/2026/03/10/0900/000000.log").await.unwrap();
    }
}

/// Lines wait in memory, or are on their way to the store, when a reset comes.
#[tokio::test]
async fn a_reset_forgets_lines_wherever_they_are() {
    let bench = Bench::new();
    let analytics = Arc::new(Analytics::default());
    let mut writer =
        LogWriter::new(Arc::clone(&analytics), Arc::clone(&bench.blobs), Duration::from_secs(50));
    let everything = ResetScope::default();
    let record = |method| analytics.record(&request(Service::Table, method, bench.clock.now()));
    let reset = async || analytics.reset(everything.clone(), async { Ok(()) }).await.unwrap();
    let first = "table/2026/03/10/0800/000000.log";

    record("GET");
    reset().await;
    assert_eq!(analytics.logs.waiting_bytes(), 0);
    writer.flush(Duration::ZERO).await;
    assert!(bench.names().await.is_empty(), "in memory");

    record("GET");
    let alone = analytics.writing.write().await;
    let (_, ()) = tokio::join!(writer.flush(Duration::ZERO), async {
        analytics.forget(&everything);
        drop(alone);
    });
    assert!(bench.names().await.is_empty(), "on their way");
    assert_eq!((analytics.logs.waiting_bytes(), analytics.dropped_log_lines()), (0, 0));

    let under_way = request(Service::Table, "GET", bench.clock.now());
    reset().await;
    analytics.record(&under_way);
    writer.flush(Duration::ZERO).await;
    assert!(bench.names().await.is_empty(), "of a request that began before");

    record("GET");
    writer.flush(Duration::ZERO).await;
    assert_eq!(bench.names().await, [first]);
    // As a reset does it.
    bench.blobs.delete_log(ACCOUNT, first).await.unwrap();
    reset().await;
    record("GET");
    writer.flush(Duration::ZERO).await;
    assert_eq!(bench.names().await, [first], "numbers begin again");
}

#[tokio::test]
async fn old_logs_are_deleted_by_the_hour_in_their_name() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    let now = bench.clock.now();
    let hours = |hours: u64| Duration::from_secs(3600 * hours);
    for service in [Service::Blob, Service::Table] {
        for ago in [0, 1, 23, 24, 25, 47, 48, 49, 100] {
            writer.analytics.record(&request(service, "GET", now.saturating_sub(hours(ago))));
        }
    }
    writer.flush(Duration::ZERO).await;
    let count =
        async |prefix: &str| bench.blobs.log_names(ACCOUNT, prefix, None, 1000).await.unwrap().0.len();
    let retention = bench.retention();
    for (case, tables, blobs, move_hours, expected) in [
        ("for ever", None, None, 0, (9, 9)),
        ("two days of tables", Some(2), None, 0, (7, 9)),
        ("an hour later", Some(2), None, 1, (6, 9)),
        ("one day of blobs", Some(2), Some(1), 0, (6, 3)),
        ("much later", Some(2), None, 24 * 365, (0, 3)),
    ] {
        bench.retain(tables, blobs).await;
        bench.clock.advance(hours(move_hours));
        retention.sweep().await;
        assert_eq!((count("table/").await, count("blob/").await), expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_server_moves_retention() {
    let bench = Bench::new();
    let mut writer = bench.writer();
    writer.analytics.record(&request(Service::Table, "GET", bench.clock.now()));
    writer.flush(Duration::ZERO).await;
    bench.retain(Some(1), None).await;
    let sweeping = tokio::spawn(bench.retention().run());
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(bench.names().await.len(), 1);
    bench.clock.advance(Duration::from_secs(25 * 3600));
    tokio::time::sleep(TICK * 2).await;
    assert!(bench.names().await.is_empty());
    sweeping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_stops_writes_what_is_left() {
    let bench = Bench::new();
    let writer = bench.writer();
    let analytics = Arc::clone(&writer.analytics);
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(writer.run(stopped));
    analytics.record(&request(Service::Queue, "GET", bench.clock.now()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(bench.names().await.is_empty());
    stop.send(true).unwrap();
    running.await.unwrap();
    assert_eq!(bench.names().await, ["queue/2026/03/10/0800/000000.log"]);
}

#[test]
fn names_say_the_hour() {
    for (name, expected) in [
        ("table/2026/03/10/0800/000000.log", Some("table/2026/03/10/0800/")),
        ("blob/2026/12/31/2300/000123.log", Some("blob/2026/12/31/2300/")),
        ("blob/2026/12/31/2400/000123.log", None),
        ("blob/2026/12/3/2300/000123.log", None),
        ("blob/2026", None),
        ("", None),
    ] {
        let service = if name.starts_with("table") { Service::Table } else { Service::Blob };
        assert_eq!(hour_of(name).map(|hour| folder(service, hour)).as_deref(), expected, "{name}");
    }
}
