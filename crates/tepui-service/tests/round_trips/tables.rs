//! Tables.

use super::*;
use std::sync::Arc;
use std::time::Duration;
use tepui_model::condition::Condition;
use tepui_model::grant::KeyBounds;
use tepui_model::table::{
    Action, Change, ChangeSet, Comparison, EntityKey, EntitySink, EntityView, Filter, Literal, Operation,
    PageSize, Properties, QueryEntities, QueryTables, TableName,
};
use tepui_model::time::{NodeNumber, SystemClock};
use tepui_service::{GarbageCollector, TableOptions, TableService};

const TABLE: &str = "People";

type Service = TableService<RemoteEngine>;

fn service(engine: &RemoteEngine) -> Service {
    let engine = Arc::new(engine.clone());
    let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
    let clock = Arc::new(SystemClock::of_node(NodeNumber::new(1).unwrap()));
    TableService::new(engine, clock, collector, TableOptions::default())
}

#[derive(Default)]
struct Counter(usize);

impl EntitySink for Counter {
    fn accept(&mut self, _: &EntityView<'_>) {
        self.0 += 1;
    }

    fn bytes(&self) -> usize {
        100 * self.0
    }
}

fn key(row: usize) -> EntityKey {
    EntityKey::new("p", format!("{row:06}"))
}

async fn change(service: &Service, row: usize, action: Action) {
    let change = Change { key: key(row), action };
    service.change_entity(ACCOUNT, TABLE, &change, &KeyBounds::EVERYTHING).await.unwrap();
}

async fn insert_many(service: &Service, rows: std::ops::Range<usize>) {
    let insert =
        |row| (TABLE.to_owned(), Change { key: key(row), action: Action::Insert(Properties::default()) });
    let set = ChangeSet::new(rows.map(insert).collect()).unwrap();
    service.transact(ACCOUNT, &set, &KeyBounds::EVERYTHING).await.unwrap();
}

async fn update_many(service: &Service, rows: std::ops::Range<usize>) {
    let update = |row| {
        let action = Action::Update(Condition::Any, Properties::default());
        (TABLE.to_owned(), Change { key: key(row), action })
    };
    let set = ChangeSet::new(rows.map(update).collect()).unwrap();
    service.transact(ACCOUNT, &set, &KeyBounds::EVERYTHING).await.unwrap();
}

async fn query(service: &Service, filter: Option<Filter>, expected: usize) {
    let query = QueryEntities {
        table: TABLE.to_owned(),
        filter,
        page_size: PageSize::new(1000).unwrap(),
        from: None,
    };
    let mut found = Counter::default();
    let time = Duration::from_secs(30);
    service.query_entities(ACCOUNT, &query, &KeyBounds::EVERYTHING, time, &mut found).await.unwrap();
    assert_eq!(found.0, expected);
}

async fn run(service: &Service, operation: Operation) {
    service.execute(ACCOUNT, &operation, &KeyBounds::EVERYTHING).await.unwrap();
}

fn create(table: &str) -> Operation {
    Operation::CreateTable { name: TableName::parse(table).unwrap() }
}

fn point(row: usize) -> Filter {
    let compare = |property: &str, text: String| Filter::Compare {
        property: property.to_owned(),
        how: Comparison::Equal,
        value: Literal::String(text),
    };
    let key = key(row);
    Filter::And(vec![compare("PartitionKey", key.partition_key), compare("RowKey", key.row_key)])
}

/// Measures a request of a service that knows the table, and of one that does not.
macro_rules! measure {
    ($costs:ident, $engine:ident, $warm:ident, $name:literal, |$service:ident, $first:ident| $request:expr) => {{
        let cold = service(&$engine);
        let ($service, $first) = (&cold, true);
        let _ = $first;
        let ((), cold) = counted(&$engine, $request).await;
        let ($service, $first) = (&$warm, false);
        let _ = $first;
        let ((), warm) = counted(&$engine, $request).await;
        $costs.add($name, warm, cold);
    }};
}

#[tokio::test]
async fn requests_for_tables() {
    let engine = RemoteEngine::new();
    let warm = service(&engine);
    run(&warm, create(TABLE)).await;
    insert_many(&warm, 0..100).await;
    let mut costs = Costs::default();
    let empty = Properties::default;
    measure!(costs, engine, warm, "Get Entity", |service, _first| async {
        service.get_entity(ACCOUNT, TABLE, &key(7), &KeyBounds::EVERYTHING).await.unwrap();
    });
    measure!(costs, engine, warm, "Insert Entity", |service, first| async {
        change(service, if first { 200 } else { 201 }, Action::Insert(empty())).await;
    });
    measure!(costs, engine, warm, "Update Entity", |service, _first| async {
        change(service, 1, Action::Update(Condition::Any, empty())).await;
    });
    measure!(costs, engine, warm, "Merge Entity", |service, _first| async {
        change(service, 1, Action::Merge(Condition::Any, empty())).await;
    });
    measure!(costs, engine, warm, "Insert Or Replace Entity", |service, _first| async {
        change(service, 2, Action::InsertOrReplace(empty())).await;
    });
    measure!(costs, engine, warm, "Delete Entity", |service, first| async {
        change(service, if first { 3 } else { 4 }, Action::Delete(Condition::Any)).await;
    });
    measure!(costs, engine, warm, "batch of 100 inserts", |service, first| async {
        insert_many(service, if first { 300..400 } else { 400..500 }).await;
    });
    measure!(costs, engine, warm, "batch of 100 updates", |service, _first| async {
        update_many(service, 300..400).await;
    });
    for start in (1000..2000).step_by(100) {
        insert_many(&warm, start..start + 100).await;
    }
    measure!(costs, engine, warm, "Query Entities, a page of 1,000", |service, _first| async {
        query(service, None, 1000).await;
    });
    measure!(costs, engine, warm, "Query Entities by both keys", |service, _first| async {
        query(service, Some(point(1)), 1).await;
    });
    measure!(costs, engine, warm, "Create Table", |service, first| async {
        run(service, create(if first { "First" } else { "Second" })).await;
    });
    measure!(costs, engine, warm, "Query Tables", |service, _first| async {
        let page_size = PageSize::new(1000).unwrap();
        run(service, Operation::QueryTables(QueryTables { filter: None, page_size, from: None })).await;
    });
    // Known to the second service, too.
    run(&warm, Operation::GetTable { table: "Second".to_owned() }).await;
    measure!(costs, engine, warm, "Delete Table", |service, first| async {
        run(service, Operation::DeleteTable { table: if first { "First" } else { "Second" }.to_owned() })
            .await;
    });
    costs.check();
}

#[tokio::test]
async fn what_another_node_has_changed_is_found_out() {
    let engine = RemoteEngine::new();
    let (here, there) = (service(&engine), service(&engine));
    run(&here, create(TABLE)).await;
    for round in 0..10 {
        insert_many(&here, 0..10).await;
        query(&there, None, 10).await;
        there.get_entity(ACCOUNT, TABLE, &key(1), &KeyBounds::EVERYTHING).await.unwrap();
        run(&here, Operation::DeleteTable { table: TABLE.to_owned() }).await;
        let gone = there.get_entity(ACCOUNT, TABLE, &key(1), &KeyBounds::EVERYTHING).await;
        assert_eq!(gone.unwrap_err().code, tepui_model::ErrorCode::TableNotFound, "{round}");
        if round % 2 == 0 {
            // The second node remembers that there is none.
            let change = Change { key: key(1), action: Action::Insert(Properties::default()) };
            let gone = there.change_entity(ACCOUNT, TABLE, &change, &KeyBounds::EVERYTHING).await;
            assert_eq!(gone.unwrap_err().code, tepui_model::ErrorCode::TableNotFound, "{round}");
        }
        run(&here, create(TABLE)).await;
        match round % 3 {
            0 => query(&there, None, 0).await,
            1 => {
                let missing = there.get_entity(ACCOUNT, TABLE, &key(1), &KeyBounds::EVERYTHING).await;
                assert_eq!(missing.unwrap_err().code, tepui_model::ErrorCode::ResourceNotFound);
            }
            _ => {
                change(&there, 1, Action::Insert(Properties::default())).await;
                query(&here, None, 1).await;
                change(&here, 1, Action::Delete(Condition::Any)).await;
            }
        }
    }
}
