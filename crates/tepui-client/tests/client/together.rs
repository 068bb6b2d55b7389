//! Transactions and bulk writes.

use crate::support::{TestServer, entity, key, number};
use tepui_client::{BulkOutcome, DynamicEntity, EntityKey, ErrorKind, Match};

#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let etag = table.insert(&entity("0", 0)).await.unwrap();
    let mut transaction = table.transaction("p").unwrap();
    transaction.replace(&entity("0", 10), &etag).unwrap();
    transaction.insert(&entity("1", 1)).unwrap();
    transaction.upsert_merge(&entity("2", 2)).unwrap();
    transaction.upsert_replace(&entity("3", 3)).unwrap();
    let etags = transaction.commit().await.unwrap();
    assert_eq!(etags.len(), 4);
    assert_eq!(table.get(&key("1")).await.unwrap().unwrap().etag, *etags[1].as_ref().unwrap());

    let mut transaction = table.transaction("p").unwrap();
    transaction.delete(&key("1"), Match::Any).unwrap();
    transaction.merge(&entity("0", 11), &etag).unwrap();
    let error = transaction.commit().await.unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::Conflict, Some(1)));
    assert!(table.get(&key("1")).await.unwrap().is_some());
    assert_eq!(table.transaction("p").unwrap().commit().await.unwrap(), []);
}

#[tokio::test]
async fn what_does_not_fit_into_a_transaction_is_refused_at_once() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let mut transaction = table.transaction("p").unwrap();
    for index in 0..99 {
        transaction.insert(&entity(&index.to_string(), index)).unwrap();
    }
    let twice = transaction.upsert_merge(&entity("7", 1)).unwrap_err();
    assert_eq!(
        (twice.kind(), twice.code(), twice.index()),
        (ErrorKind::Refused, Some("InvalidDuplicateRow"), Some(99))
    );
    let other = transaction.insert(&DynamicEntity::new("q", "1")).unwrap_err();
    assert_eq!((other.kind(), other.index()), (ErrorKind::Refused, Some(99)));
    transaction.delete(&EntityKey::new("p", "none"), Match::Any).unwrap();
    let more = transaction.insert(&entity("100", 1)).unwrap_err();
    assert_eq!((more.kind(), more.index()), (ErrorKind::TooLarge, Some(100)));
    assert_eq!(transaction.len(), 100);

    // As much as fits is taken by the service, and the next one is not.
    let mut transaction = table.transaction("p").unwrap();
    let large = |row: usize| {
        let text = "x".repeat(32 * 1024);
        (0..9).fold(entity(&format!("large{row}"), 1), |entity, index| {
            entity.with(format!("T{index}"), text.as_str())
        })
    };
    let error = (0..).find_map(|row| transaction.insert(&large(row)).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(transaction.len(), 14);
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn bulk_has_an_outcome_for_each() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    for row in ["017", "120"] {
        table.insert(&entity(row, -1)).await.unwrap();
    }
    let mut entities: Vec<_> = (0..250).map(|index| entity(&format!("{index:03}"), index)).collect();
    entities.push(DynamicEntity::new("q", "1"));
    entities.push(DynamicEntity::new("q/", "1"));
    let report = table.bulk().insert(entities).await;
    assert_eq!(report.written(), 249);
    for (index, outcome) in report.outcomes.iter().enumerate() {
        let refused = match outcome {
            BulkOutcome::Written(_) => None,
            BulkOutcome::Refused(error) => Some(error.kind()),
            BulkOutcome::Unknown(error) => panic!("{error:?}"),
        };
        let expected = match index {
            17 | 120 => Some(ErrorKind::AlreadyExists),
            251 => Some(ErrorKind::KeyInvalid),
            _ => None,
        };
        assert_eq!(refused, expected, "{index}");
    }
    assert_eq!(table.query().partition("p").all().await.unwrap().len(), 250);
}

#[tokio::test]
async fn bulk_keeps_the_order_within_a_partition() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let entities = (0..50).map(|index| entity(&(index % 5).to_string(), index));
    assert!(table.bulk().upsert_replace(entities).await.is_all_written());
    for row in 0..5 {
        assert_eq!(number(&table.get(&key(&row.to_string())).await.unwrap().unwrap()), Some(45 + row));
    }
    let nowhere = table.of::<DynamicEntity>();
    table.delete_table().await.unwrap();
    let report = nowhere.bulk().upsert_merge([entity("1", 1), entity("2", 2)]).await;
    assert!(matches!(&report.outcomes[..], [BulkOutcome::Refused(_), BulkOutcome::Refused(_)]), "{report:?}");
}
