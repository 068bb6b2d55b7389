//! The data series pattern.

use crate::support::{TestServer, key};
use tepui_client::patterns::data_series::Series;
use tepui_client::{DynamicEntity, ErrorKind, Retry};
use tokio::task::JoinSet;

#[tokio::test]
async fn values_are_set_and_others_stay() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let series = Series::<i64, 24, 1>::new(&table, "H").unwrap();
    assert_eq!(series.read(&key("1")).await.unwrap(), None);
    table.insert(&DynamicEntity::new("p", "1").with("Name", "Jun")).await.unwrap();
    series.set(&key("1"), 0, 5).await.unwrap();
    series.set(&key("1"), 23, -7).await.unwrap();
    series.set(&key("1"), 0, 6).await.unwrap();
    let values = series.read(&key("1")).await.unwrap().unwrap();
    assert_eq!((values[0], values[1], values[23]), (Some(6), None, Some(-7)));
    let stored = table.get(&key("1")).await.unwrap().unwrap();
    assert_eq!(stored.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["Name", "H00", "H23"]);
    assert_eq!(series.set(&key("1"), 24, 1).await.unwrap_err().kind(), ErrorKind::Refused);
    let large = Series::<f64, 251>::new(&table, "D").unwrap();
    assert_eq!(large.property(250).unwrap(), "D250");
    let other = Series::<i32, 24, 1>::new(&table, "H").unwrap();
    assert_eq!(other.read(&key("1")).await.unwrap_err().kind(), ErrorKind::Decode);
    assert!(Series::<i32, 24>::new(&table, "1 or true").is_err());
}

#[tokio::test]
async fn nothing_that_is_added_is_lost() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let series = Series::<i32, 4>::new(&table, "H").unwrap();
    let mut clients = JoinSet::new();
    for client in 0..4_usize {
        let series = series.clone();
        clients.spawn(async move {
            for round in 0..10 {
                // Two slots, so that they meet also on what others have set.
                while let Err(error) = series.add(&key("1"), (client + round) % 2, 1).await {
                    assert_eq!(error.kind(), ErrorKind::Contended, "{error:?}");
                }
                series.set(&key("1"), 2, 1).await.unwrap();
            }
        });
    }
    clients.join_all().await;
    let values = series.read(&key("1")).await.unwrap().unwrap();
    assert_eq!(values[0].unwrap() + values[1].unwrap(), 40);
    assert_eq!((values[2], values[3]), (Some(1), None));
    series.set(&key("1"), 3, i32::MAX).await.unwrap();
    assert_eq!(series.add(&key("1"), 3, 1).await.unwrap_err().kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn an_addition_whose_answer_was_lost_counts_once() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let series = Series::<i32, 4>::new(&table, "H").unwrap();
    for (expected, operation) in [(1, "InsertEntity"), (2, "MergeEntity"), (3, "MergeEntity")] {
        server.fault(&format!(r#"{{"operation":"{operation}","when":"after","cut":true,"count":1}}"#)).await;
        assert_eq!(series.add(&key("1"), 0, 1).await.unwrap(), expected);
        server.clear_faults().await;
    }
    // When it cannot be found out, it is not hidden.
    let account = server.builder().retry(Retry::never()).build().unwrap();
    let series = Series::<i32, 4>::new(&account.table(table.name()).unwrap(), "H").unwrap();
    server.fault(r#"{"operation":"MergeEntity","when":"after","cut":true}"#).await;
    server.fault(r#"{"operation":"QueryEntity","cut":true,"nth":2}"#).await;
    assert_eq!(series.add(&key("1"), 0, 1).await.unwrap_err().kind(), ErrorKind::Unknown);
}
