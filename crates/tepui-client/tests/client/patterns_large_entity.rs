//! The large entities pattern; `tests/crashes_large_entity.rs` has its crashes.

use crate::support::{TestServer, key};
use std::time::Duration;
use tepui_client::patterns::large_entity::LargeValues;
use tepui_client::{Container, DynamicEntity, ErrorKind, Match, Table, WriteIf};
use tokio::task::JoinSet;

async fn values(server: &TestServer) -> (Table, Container, LargeValues) {
    let table = server.table().await;
    let container = server.account().container("values").unwrap();
    container.create_if_missing().await.unwrap();
    let values = LargeValues::new(&table, &container, "Photo").unwrap();
    (table, container, values.commit_within(Duration::from_millis(500)))
}

async fn content(values: &LargeValues, row: &str) -> Option<String> {
    let content = values.fetch(&key(row)).await.unwrap()?;
    Some(String::from_utf8(content.bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn values_are_put_fetched_and_removed() {
    let server = TestServer::start().await;
    let (table, container, values) = values(&server).await;
    assert_eq!(values.put(&key("1"), "a", "text/plain").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(container.list("").await.unwrap(), [], "what cannot be linked is not left there");
    table.insert(&DynamicEntity::new("p", "1").with("Age", 34)).await.unwrap();
    assert_eq!(content(&values, "1").await, None);
    for value in ["a", "b"] {
        values.put(&key("1"), value, "text/plain").await.unwrap();
        assert_eq!(content(&values, "1").await.as_deref(), Some(value));
        assert_eq!(container.list("").await.unwrap().len(), 1);
    }
    let entity = table.get(&key("1")).await.unwrap().unwrap();
    assert_eq!(entity.get("Age"), Some(&34.into()));
    assert_eq!(values.blob(&entity).unwrap().unwrap().get_range(0..1).await.unwrap().total_bytes, 1);
    values.remove(&key("1")).await.unwrap();
    values.remove(&key("1")).await.unwrap();
    assert_eq!((content(&values, "1").await, container.list("").await.unwrap().len()), (None, 0));
    values.put(&key("1"), "c", "text/plain").await.unwrap();
    assert_eq!(values.delete_entity(&entity).await.unwrap_err().kind(), ErrorKind::Conflict);
    let entity = table.get(&key("1")).await.unwrap().unwrap();
    values.delete_entity(&entity).await.unwrap();
    assert_eq!(container.list("").await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_writers_leave_one_value() {
    let server = TestServer::start().await;
    let (table, container, values) = values(&server).await;
    let values = values.commit_within(Duration::from_secs(60));
    table.insert(&DynamicEntity::new("p", "1")).await.unwrap();
    let mut tasks = JoinSet::new();
    for writer in 0..3 {
        let values = values.clone();
        tasks.spawn(async move {
            for round in 0..8 {
                match values.put(&key("1"), format!("{writer} {round}"), "text/plain").await {
                    Ok(()) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Contended, "{error:?}"),
                }
                assert!(values.fetch(&key("1")).await.unwrap().is_some());
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(container.list("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn garbage_is_what_is_old_and_has_no_link() {
    let server = TestServer::start().await;
    let (table, container, values) = values(&server).await;
    for row in ["1", "ä b", ""] {
        table.insert(&DynamicEntity::new("p", row)).await.unwrap();
        values.put(&key(row), row.to_owned(), "text/plain").await.unwrap();
    }
    // An entity that somebody deleted, an upload without a link, and blobs that are something else.
    table.insert(&DynamicEntity::new("p", "gone")).await.unwrap();
    values.put(&key("gone"), "gone", "text/plain").await.unwrap();
    table.delete(&key("gone"), Match::Any).await.unwrap();
    server.fault(r#"{"operation":"UpdateEntity","error":{"code":"InvalidInput"}}"#).await;
    server.fault(r#"{"operation":"DeleteBlob","error":{"code":"InvalidInput"}}"#).await;
    values.put(&key("1"), "2", "text/plain").await.unwrap_err();
    server.clear_faults().await;
    let prefix = format!("{}/Photo/", table.name());
    for other in [format!("{prefix}notes.txt"), "Other/Photo/pp/r1/0".to_owned()] {
        container.blob(&other).unwrap().put("x", "text/plain", WriteIf::Always).await.unwrap();
    }
    assert_eq!(container.list("").await.unwrap().len(), 7);
    let too_soon = values.collect_garbage(Duration::from_millis(900)).await.unwrap_err();
    assert_eq!(too_soon.kind(), ErrorKind::Refused);
    let collected = values.collect_garbage(Duration::from_secs(60)).await.unwrap();
    assert_eq!((collected.young, collected.deleted), (6, 0));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    values.put(&key("1"), "3", "text/plain").await.unwrap();
    let collected = values.collect_garbage(Duration::from_secs(1)).await.unwrap();
    assert_eq!((collected.deleted, collected.linked, collected.young, collected.foreign), (2, 2, 1, 1));
    assert_eq!(container.list("").await.unwrap().len(), 5);
    for (row, expected) in [("1", "3"), ("ä b", "ä b"), ("", "")] {
        assert_eq!(content(&values, row).await.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn a_link_that_came_too_late_is_not_written() {
    let server = TestServer::start().await;
    let (table, container, values) = values(&server).await;
    table.insert(&DynamicEntity::new("p", "1")).await.unwrap();
    server.fault(r#"{"operation":"PutBlob","when":"after","delayMs":700}"#).await;
    let late = values.put(&key("1"), "a", "text/plain").await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::DeadlineExceeded, "{late:?}");
    assert_eq!((content(&values, "1").await, container.list("").await.unwrap().len()), (None, 0));
}

#[tokio::test]
async fn a_link_that_was_lost_and_overwritten_does_not_come_back() {
    let server = TestServer::start().await;
    let (table, container, values) = values(&server).await;
    let values = values.commit_within(Duration::from_secs(60));
    table.insert(&DynamicEntity::new("p", "1")).await.unwrap();
    values.put(&key("1"), "before", "text/plain").await.unwrap();
    // The link is written, no answer of it arrives, and the look at what became of it takes long enough for another.
    server.fault(r#"{"operation":"UpdateEntity","when":"after","cut":true,"count":1}"#).await;
    server.fault(r#"{"operation":"QueryEntity","nth":2,"delayMs":600}"#).await;
    let slow = tokio::spawn({
        let values = values.clone();
        async move { values.put(&key("1"), "slow", "text/plain").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    values.put(&key("1"), "fast", "text/plain").await.unwrap();
    assert_eq!(slow.await.unwrap().unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(content(&values, "1").await.as_deref(), Some("fast"));
    assert_eq!(container.list("").await.unwrap().len(), 2, "the one before is garbage");
}
