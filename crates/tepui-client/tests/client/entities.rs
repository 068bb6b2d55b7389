//! Tables and single entities.

use crate::support::{TestServer, entity, key, new_table, number};
use tepui_client::{DynamicEntity, EntityKey, ErrorKind, Guid, Match, Timestamp, Value};

#[tokio::test]
async fn tables_are_created_listed_and_deleted() {
    let server = TestServer::start().await;
    let account = server.account();
    for name in ["Logins20260102", "Logins20260101", "Other"] {
        assert!(account.table(name).unwrap().create_if_missing().await.unwrap());
    }
    let table = account.table("Other").unwrap();
    assert!(!table.create_if_missing().await.unwrap());
    assert_eq!(table.create().await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(account.table_names("Logins").await.unwrap(), ["Logins20260101", "Logins20260102"]);
    table.delete_table().await.unwrap();
    assert_eq!(table.delete_table().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(account.table_names("").await.unwrap().len(), 2);
    assert_eq!(account.table("a_b").unwrap_err().kind(), ErrorKind::KeyInvalid);
}

#[tokio::test]
async fn values_come_back_with_their_types() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let values: Vec<(&str, Value)> = vec![
        ("Text", "Größe <&> \"'\u{1F600}".into()),
        ("Empty", "".into()),
        ("Small", i32::MIN.into()),
        ("Large", i64::MAX.into()),
        ("Share", 0.1.into()),
        ("Infinite", f64::NEG_INFINITY.into()),
        ("Whole", 3.0.into()),
        ("Yes", true.into()),
        ("When", Timestamp::parse_iso("2026-03-10T08:15:30.1234567Z").unwrap().into()),
        ("Id", Guid([7; 16]).into()),
        ("Bytes", vec![0, 255, 7].into()),
    ];
    let mut written = DynamicEntity::new("a b'c", "ü%2F+");
    for (name, value) in values {
        written.set(name, value);
    }
    let etag = table.insert(&written).await.unwrap();
    let read = table.get(&written.key).await.unwrap().unwrap();
    assert_eq!(read.entity, written);
    assert_eq!(read.etag, etag);
    assert!(read.timestamp.is_some());
    assert_eq!(table.get(&EntityKey::new("a b'c", "other")).await.unwrap(), None);
}

#[tokio::test]
async fn writes_depend_on_what_they_say() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let first = table.insert(&entity("1", 1).with("Other", "stays")).await.unwrap();
    assert_eq!(table.insert(&entity("1", 1)).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let second = table.merge(&entity("1", 2), &first).await.unwrap();
    let stale = table.merge(&entity("1", 3), &first).await.unwrap_err();
    assert_eq!((stale.kind(), stale.code()), (ErrorKind::Conflict, Some("UpdateConditionNotSatisfied")));
    assert!(stale.request_id().is_some());
    let read = table.get(&key("1")).await.unwrap().unwrap();
    assert_eq!((number(&read), read.get("Other").is_some()), (Some(2), true));
    assert_eq!(table.replace(&entity("1", 3), &first).await.unwrap_err().kind(), ErrorKind::Conflict);
    table.replace(&entity("1", 3), &second).await.unwrap();
    assert_eq!(table.get(&key("1")).await.unwrap().unwrap().get("Other"), None);
    table.replace(&entity("1", 4), Match::Any).await.unwrap();
    assert_eq!(table.replace(&entity("2", 4), Match::Any).await.unwrap_err().kind(), ErrorKind::NotFound);
    table.upsert_merge(&entity("2", 5)).await.unwrap();
    table.upsert_replace(&entity("3", 6)).await.unwrap();
    assert_eq!(table.delete(&key("1"), second).await.unwrap_err().kind(), ErrorKind::Conflict);
    table.delete(&key("1"), Match::Any).await.unwrap();
    assert_eq!(table.delete(&key("1"), Match::Any).await.unwrap_err().kind(), ErrorKind::NotFound);
    let found = table.get_many(["1", "2", "3", "4"].map(key)).await.unwrap();
    let numbers: Vec<_> = found.iter().map(|found| found.as_ref().and_then(|found| number(found))).collect();
    assert_eq!(numbers, [None, Some(5), Some(6), None]);
}

#[tokio::test]
async fn what_cannot_be_stored_is_not_sent() {
    let server = TestServer::start().await;
    let table = new_table(&server.account()).await;
    let large = "x".repeat(40_000);
    let many = (0..253).fold(entity("1", 1), |entity, index| entity.with(format!("P{index}"), index));
    for (case, entity, expected) in [
        ("a slash", DynamicEntity::new("a/b", ""), ErrorKind::KeyInvalid),
        ("a control character", DynamicEntity::new("", "\t"), ErrorKind::KeyInvalid),
        ("a long key", DynamicEntity::new("", "k".repeat(1025)), ErrorKind::KeyInvalid),
        ("a long text", entity("1", 1).with("Text", large.as_str()), ErrorKind::TooLarge),
        ("too many properties", many, ErrorKind::TooLarge),
        ("a name that is none", entity("1", 1).with("a b", 1), ErrorKind::Refused),
    ] {
        let error = table.insert(&entity).await.unwrap_err();
        assert_eq!((error.kind(), error.request_id()), (expected, None), "{case}");
    }
}

#[tokio::test]
async fn modify_counts_every_time() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    table.insert(&entity("1", 0)).await.unwrap();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let table = table.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    // Eight conflicts in a row are possible, and said.
                    while let Err(error) = table
                        .modify(&key("1"), |entity| {
                            let count = number(entity).unwrap();
                            entity.set("Number", count + 1);
                        })
                        .await
                    {
                        assert_eq!(error.kind(), ErrorKind::Contended);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&table.get(&key("1")).await.unwrap().unwrap()), Some(20));
    assert_eq!(table.modify(&key("2"), |_| {}).await.unwrap_err().kind(), ErrorKind::NotFound);
    let moved = table.modify(&key("1"), |entity| entity.key = key("2")).await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn a_wrong_key_is_denied() {
    let server = TestServer::start().await;
    let account = server.builder().shared_key("devstoreaccount1", "d3Jvbmc=").build().unwrap();
    assert_eq!(account.table_names("").await.unwrap_err().kind(), ErrorKind::Denied);
}
