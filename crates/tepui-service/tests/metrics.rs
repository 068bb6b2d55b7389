//! Metrics tables: what users may do with them, and how the server itself writes them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use tepui_model::condition::Condition;
use tepui_model::grant::KeyBounds;
use tepui_model::service_properties::{Metrics, ServicePropertiesChange};
use tepui_model::table::*;
use tepui_model::time::ManualClock;
use tepui_model::{ErrorCode, Timestamp};
use tepui_service::{GarbageCollector, MetricsError, MetricsRow, TableOptions, TableService};
use tepui_storage::{Engine, MemoryEngine};
use tepui_storage_faulty::{Faults, FaultyEngine, Rates};

const ACCOUNT: &str = "account";
const HOUR: &str = "$MetricsHourPrimaryTransactionsTable";

fn service<E: Engine>(engine: &Arc<E>) -> TableService<E> {
    let clock = Arc::new(ManualClock::at(Timestamp::parse_iso("2026-03-10").unwrap()));
    let collector = Arc::new(GarbageCollector::new(Arc::clone(engine)));
    TableService::new(Arc::clone(engine), clock, collector, TableOptions::default())
}

fn enable(hour: bool, minute: bool) -> Operation {
    let metrics = |enabled| Some(Metrics { enabled, ..Metrics::default() });
    let change = ServicePropertiesChange {
        hour_metrics: metrics(hour),
        minute_metrics: metrics(minute),
        ..Default::default()
    };
    Operation::SetServiceProperties(change)
}

async fn run<E: Engine>(service: &TableService<E>, operation: Operation) -> Result<Reply, ErrorCode> {
    service.execute(ACCOUNT, &operation, &KeyBounds::EVERYTHING).await.map_err(|error| error.code)
}

/// A row with one number, to which others are added.
struct Count(&'static str, i64);

impl MetricsRow for Count {
    fn table(&self) -> MetricsTable {
        MetricsTable::HourTable
    }

    fn key(&self) -> EntityKey {
        EntityKey::new(self.0, "user;All")
    }

    fn merged(&self, stored: Option<&Properties>) -> Option<Properties> {
        let mut builder = PropertiesBuilder::new();
        builder.push("Count", ValueRef::Int64(stored.map_or(0, count) + self.1)).unwrap();
        Some(builder.finish())
    }
}

fn count(properties: &Properties) -> i64 {
    match properties.get("Count") {
        Some(ValueRef::Int64(count)) => count,
        other => panic!("{other:?}"),
    }
}

async fn counted<E: Engine>(service: &TableService<E>, partition: &str) -> Result<i64, ErrorCode> {
    let key = EntityKey::new(partition, "user;All");
    match run(service, Operation::GetEntity { table: HOUR.to_owned(), key }).await? {
        Reply::Entity(entity) => Ok(count(&entity.properties)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn tables_come_to_be_when_metrics_are_enabled_and_stay() {
    let service = service(&Arc::new(MemoryEngine::new()));
    let exists = async |name: &str| match run(&service, Operation::GetTable { table: name.to_owned() }).await
    {
        Ok(Reply::Table { name }) => Some(name),
        Err(ErrorCode::ResourceNotFound) => None,
        other => panic!("{other:?}"),
    };
    let minute = "$MetricsMinutePrimaryTransactionsTable";
    assert_eq!(exists(HOUR).await, None);
    run(&service, enable(true, false)).await.unwrap();
    assert_eq!(exists(&HOUR.to_ascii_uppercase()).await.as_deref(), Some(HOUR));
    assert_eq!(exists("$metricstransactionstable").await.as_deref(), Some("$MetricsTransactionsTable"));
    for absent in
        [minute, "$MetricsTransactionsBlob", "$MetricsCapacityBlob", "$MetricsHourPrimaryTransactionsFile"]
    {
        assert_eq!(exists(absent).await, None, "{absent}");
    }
    run(&service, enable(false, true)).await.unwrap();
    assert_eq!(exists(HOUR).await.as_deref(), Some(HOUR), "what was there is kept");
    assert_eq!(exists(minute).await.as_deref(), Some(minute));
    run(&service, Operation::CreateTable { name: TableName::parse("Orders").unwrap() }).await.unwrap();
    for filter in [None, Some(("TableName", Comparison::GreaterOrEqual, "$"))] {
        let filter = filter.map(|(property, how, value)| Filter::Compare {
            property: property.to_owned(),
            how,
            value: Literal::String(value.to_owned()),
        });
        let from = filter.is_some().then(|| "$metrics".to_owned());
        let listed =
            run(&service, Operation::QueryTables(QueryTables { filter, from, ..Default::default() })).await;
        assert!(matches!(listed, Ok(Reply::Tables(page)) if page.names == ["Orders"]));
    }
}

#[tokio::test]
async fn users_read_and_delete_and_do_nothing_else() {
    use ErrorCode::*;
    let service = service(&Arc::new(MemoryEngine::new()));
    run(&service, enable(true, true)).await.unwrap();
    service.update_metrics(ACCOUNT, &[Count("20260310T0800", 7), Count("20260310T0900", 8)]).await.unwrap();
    for name in
        [HOUR, "$METRICSTRANSACTIONSTABLE", "$MetricsMinutePrimaryTransactionsTable", "$MetricsCapacityBlob"]
    {
        let table = || name.to_owned();
        for operation in [
            Operation::DeleteTable { table: table() },
            Operation::GetTableAcl { table: table() },
            Operation::SetTableAcl { table: table(), identifiers: Vec::new() },
        ] {
            assert_eq!(run(&service, operation.clone()).await, Err(AuthorizationFailure), "{operation:?}");
        }
        let properties = Properties::default;
        for action in [
            Action::Insert(properties()),
            Action::Update(Condition::Any, properties()),
            Action::Merge(Condition::Any, properties()),
            Action::InsertOrReplace(properties()),
            Action::InsertOrMerge(properties()),
        ] {
            let change = Change { key: EntityKey::new("20260310T0800", "user;All"), action };
            let alone = service.change_entity(ACCOUNT, name, &change, &KeyBounds::EVERYTHING).await;
            assert_eq!(alone.map_err(|error| error.code), Err(AuthorizationFailure), "{change:?}");
            let set = ChangeSet::new(vec![(name.to_owned(), change)]).unwrap();
            let together = service.transact(ACCOUNT, &set, &KeyBounds::EVERYTHING).await;
            let refused = together.map_err(|error| (error.code, error.change));
            assert_eq!(refused, Err((AuthorizationFailure, Some(0))));
        }
    }
    assert_eq!(counted(&service, "20260310T0800").await, Ok(7));
    let delete = |partition: &str| Change {
        key: EntityKey::new(partition, "user;All"),
        action: Action::Delete(Condition::Any),
    };
    let everything = &KeyBounds::EVERYTHING;
    service.change_entity(ACCOUNT, HOUR, &delete("20260310T0800"), everything).await.unwrap();
    let old_name = "$MetricsTransactionsTable".to_owned();
    let set = ChangeSet::new(vec![(old_name, delete("20260310T0900"))]).unwrap();
    service.transact(ACCOUNT, &set, everything).await.unwrap();
    for partition in ["20260310T0800", "20260310T0900"] {
        assert_eq!(counted(&service, partition).await, Err(ResourceNotFound));
    }
}

/// Conflicts, calls that are refused, transactions that become too old: what was written is there once.
#[tokio::test]
async fn numbers_are_added_once() {
    let rates = Rates { unknown_kept: 0, unknown_lost: 0, unknown_late: 0, ..Rates::ALL };
    let engine = Arc::new(FaultyEngine::in_memory(Faults::from_environment(rates)));
    let nodes = [service(&engine), service(&engine)];
    let mut expected = 0;
    for round in 0..200 {
        let add = Count("20260310T0800", round);
        loop {
            match nodes[round as usize % 2].update_metrics(ACCOUNT, &[Count(add.0, add.1)]).await {
                Ok(()) => break,
                Err(MetricsError::NotWritten(_)) => {}
                Err(MetricsError::Unknown(error)) => panic!("no outcome is open here: {error}"),
            }
        }
        expected += round;
    }
    let _calm = engine.calm();
    assert_eq!(counted(&nodes[0], "20260310T0800").await, Ok(expected));
}

#[tokio::test]
async fn what_is_older_is_expired_in_steps() {
    let service = service(&Arc::new(MemoryEngine::new()));
    let before = "20260310T0000";
    assert_eq!(
        service.expire_metrics(ACCOUNT, MetricsTable::HourTable, before).await.unwrap(),
        0,
        "no table"
    );
    for day in 8..=11 {
        for minute in 0..300 {
            let partition = format!("202603{day:02}T{:02}{:02}", minute / 60, minute % 60);
            service.update_metrics(ACCOUNT, &[Count(partition.leak(), 1)]).await.unwrap();
        }
    }
    assert_eq!(service.expire_metrics(ACCOUNT, MetricsTable::HourTable, before).await.unwrap(), 600);
    assert_eq!(service.expire_metrics(ACCOUNT, MetricsTable::HourTable, before).await.unwrap(), 0);
    assert_eq!(counted(&service, "20260309T0459").await, Err(ErrorCode::ResourceNotFound));
    assert_eq!(counted(&service, before).await, Ok(1));
}
