//! Queries: pages, streams, continuations.

use crate::support::{TestServer, number};
use futures_util::TryStreamExt as _;
use tepui_client::filter::{any, property};
use tepui_client::key::KeyRange;
use tepui_client::{Continuation, DynamicEntity, ErrorKind, Scans, Table, Versioned};

async fn filled() -> (TestServer, Table) {
    let (server, table) = TestServer::start().await.table_kept().await;
    let entities = (0..120).map(|index| {
        DynamicEntity::new(format!("p{}", index % 2), format!("{index:03}"))
            .with("Number", index)
            .with("Even", index % 2 == 0)
    });
    assert!(table.bulk().insert(entities).await.is_all_written());
    (server, table)
}

#[tokio::test]
async fn streams_go_over_pages() {
    let (_server, table) = filled().await;
    let found: Vec<_> = table.query().partition("p0").page_size(7).stream().try_collect().await.unwrap();
    assert_eq!(found.len(), 60);
    assert!(found.iter().all(|entity| number(entity).unwrap() % 2 == 0));
    let some = table.query().partition("p1").page_size(7).take(16).all().await.unwrap();
    assert_eq!(
        some.iter().map(|entity| number(entity).unwrap()).collect::<Vec<_>>(),
        (0..16).map(|n| 2 * n + 1).collect::<Vec<_>>()
    );
    assert_eq!(table.scan().take(0).all().await.unwrap().len(), 0);
    let mut stream = table.scan().filter(property("Number").ge(118)).stream();
    assert!(stream.next_entity().await.unwrap().is_some());
    assert!(stream.next_entity().await.unwrap().is_some());
    assert!(stream.next_entity().await.unwrap().is_none());
    assert!(stream.next_entity().await.unwrap().is_none());
}

#[tokio::test]
async fn filters_and_projections() {
    let (_server, table) = filled().await;
    let either = any([property("Number").eq(3), property("RowKey").eq("007")]);
    assert_eq!(table.scan().filter(either).all().await.unwrap().len(), 2);
    assert_eq!(table.query().partition("p1").row_prefix("00").all().await.unwrap().len(), 5);
    let quoted = table.scan().filter(property("Name").eq("' or true or Name eq '")).all().await.unwrap();
    assert_eq!(quoted.len(), 0);
    let selected = table.query().partition("p0").select_names(["Even"]).take(1).all().await.unwrap();
    assert_eq!(selected[0].key.row_key, "000");
    assert_eq!(selected[0].iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Even"]);
    assert!(selected[0].timestamp.is_some());
    let error = table.scan().filter(property("Age eq 1 or Age").eq(1)).all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyInvalid);
}

#[tokio::test]
async fn continuations_can_be_stored_and_are_of_one_query() {
    let (server, table) = filled().await;
    let query = || table.query().partition("p0").page_size(25);
    let first = query().page().await.unwrap();
    let stored = first.next.unwrap().to_string();
    let next: Continuation = stored.parse().unwrap();
    // By another program, with another page size.
    let other = server.account().table(table.name()).unwrap();
    let rest = other.query().partition("p0").resume(next.clone()).all().await.unwrap();
    assert_eq!((first.entities.len(), rest.len()), (25, 35));
    assert_eq!(number(&rest[0]), Some(50));
    for other in [table.query().partition("p1"), query().row_prefix("0"), query().select_names(["Even"])] {
        assert_eq!(other.resume(next.clone()).page().await.unwrap_err().kind(), ErrorKind::Refused);
    }
    assert_eq!(table.scan().resume(next).page().await.unwrap_err().kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn pages_say_what_they_cost() {
    let (server, table) = filled().await;
    server.tepui("receipts");
    let page = table.partition("p0").scan().filter(property("Number").lt(10)).page().await.unwrap();
    let cost = page.receipt.unwrap().cost;
    assert_eq!((cost.plan.unwrap().name(), cost.scanned, cost.returned), ("partition", 60, 5));
}

#[tokio::test]
async fn scans_can_be_refused() {
    let (server, table) = filled().await;
    let account = server.builder().scans(Scans::Refuse).build().unwrap();
    let strict = account.table(table.name()).unwrap();
    assert_eq!(strict.query().partition("p0").all().await.unwrap().len(), 60);
    assert_eq!(strict.scan().all().await.unwrap_err().kind(), ErrorKind::Refused);
    let error = strict.scan().filter(property("Number").eq(1)).all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    // What counts is what would be read.
    let within = strict.partition("p0").scan().filter(property("Number").lt(10));
    assert_eq!(within.all().await.unwrap().len(), 5);
    let fixed = strict.scan().filter(property("PartitionKey").eq("p1"));
    assert_eq!(fixed.all().await.unwrap().len(), 60);
    let parts = strict.scan().parallel_by(KeyRange::split_at(["p1"]));
    assert_eq!(parts.all().await.unwrap_err().kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn partitions_are_read_at_the_same_time_in_the_order_of_rows() {
    let (_server, table) = filled().await;
    let both = || table.fan_out(["p0", "p1", "empty"]);
    let numbers =
        |found: &[Versioned<DynamicEntity>]| found.iter().filter_map(|e| number(e)).collect::<Vec<_>>();
    assert_eq!(numbers(&both().all().await.unwrap()), (0..120).collect::<Vec<_>>());
    assert_eq!(numbers(&both().take(5).all().await.unwrap()), [0, 1, 2, 3, 4]);
    let rows = KeyRange::prefixes("010", "019");
    assert_eq!(numbers(&both().rows(rows).all().await.unwrap()), (10..20).collect::<Vec<_>>());
    let many = (0..1001).map(|index| format!("p{index}"));
    assert_eq!(table.fan_out(many).all().await.unwrap_err().kind(), ErrorKind::TooLarge);
    let none: [&str; 0] = [];
    assert_eq!(table.fan_out(none).all().await.unwrap().len(), 0);
    let wrong = both().rows(KeyRange { start: String::new(), end: None }).take(0);
    assert_eq!(wrong.all().await.unwrap().len(), 0);
}

#[tokio::test]
async fn scans_can_run_in_parallel() {
    let (_server, table) = filled().await;
    let scan = || table.scan().filter(property("Number").lt(50)).page_size(7);
    let mut found: Vec<_> = scan()
        .parallel_by(KeyRange::split_at(["p0", "p1", "q"]))
        .all()
        .await
        .unwrap()
        .iter()
        .filter_map(|entity| number(entity))
        .collect();
    found.sort_unstable();
    assert_eq!(found, (0..50).collect::<Vec<_>>());
    assert_eq!(scan().take(9).parallel_by(KeyRange::split_at(["p1"])).all().await.unwrap().len(), 9);
}
