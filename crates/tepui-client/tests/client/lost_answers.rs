//! Writes whose answers are lost, before or after the work.

use crate::support::{TestServer, entity, key, number};
use tepui_client::{ErrorKind, Match, Retry};

const AFTER: &str = r#""when":"after","cut":true,"count":1"#;
const BEFORE: &str = r#""when":"before","cut":true,"count":1"#;

#[tokio::test]
async fn an_insert_that_was_lost_after_the_work_is_unknown_or_settled() {
    let (server, table) = TestServer::start().await.table_kept().await;
    server.fault(&format!(r#"{{"operation":"InsertEntity",{AFTER}}}"#)).await;
    let error = table.insert(&entity("1", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
    assert!(table.get(&key("1")).await.unwrap().is_some());

    let table = table.with_write_tokens();
    server.clear_faults().await;
    server.fault(&format!(r#"{{"operation":"InsertEntity",{AFTER}}}"#)).await;
    let etag = table.insert(&entity("2", 2)).await.unwrap();
    let read = table.get(&key("2")).await.unwrap().unwrap();
    assert_eq!((&read.etag, &read.entity), (&etag, &entity("2", 2)));
}

#[tokio::test]
async fn a_request_that_was_lost_before_the_work_is_carried_out() {
    let (server, table) = TestServer::start().await.table_kept().await;
    server.fault(&format!(r#"{{"operation":"InsertEntity",{BEFORE}}}"#)).await;
    let etag = table.insert(&entity("1", 1)).await.unwrap();
    server.fault(&format!(r#"{{"operation":"MergeEntity",{BEFORE}}}"#)).await;
    table.merge(&entity("1", 2), etag).await.unwrap();
    server.fault(&format!(r#"{{"operation":"QueryEntity",{BEFORE}}}"#)).await;
    assert_eq!(number(&table.get(&key("1")).await.unwrap().unwrap()), Some(2));
}

#[tokio::test]
async fn conditional_writes_do_not_lie() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let etag = table.insert(&entity("1", 1)).await.unwrap();
    server.fault(&format!(r#"{{"operation":"UpdateEntity",{AFTER}}}"#)).await;
    // The second attempt meets the ETag of the first.
    assert_eq!(table.replace(&entity("1", 2), etag).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(number(&table.get(&key("1")).await.unwrap().unwrap()), Some(2));

    let etag = table.get(&key("1")).await.unwrap().unwrap().etag;
    server.clear_faults().await;
    server.fault(&format!(r#"{{"operation":"DeleteEntity",{AFTER}}}"#)).await;
    assert_eq!(table.delete(&key("1"), etag).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(table.get(&key("1")).await.unwrap(), None);
}

#[tokio::test]
async fn what_can_be_repeated_is_repeated_in_silence() {
    let (server, table) = TestServer::start().await.table_kept().await;
    for operation in
        ["InsertOrReplaceEntity", "InsertOrMergeEntity", "UpdateEntity", "MergeEntity", "DeleteEntity"]
    {
        server.fault(&format!(r#"{{"operation":"{operation}",{AFTER}}}"#)).await;
    }
    table.upsert_replace(&entity("1", 1)).await.unwrap();
    table.upsert_merge(&entity("1", 2)).await.unwrap();
    table.replace(&entity("1", 3), Match::Any).await.unwrap();
    table.merge(&entity("1", 4), Match::Any).await.unwrap();
    assert_eq!(number(&table.get(&key("1")).await.unwrap().unwrap()), Some(4));
    table.delete(&key("1"), Match::Any).await.unwrap();
    assert_eq!(table.get(&key("1")).await.unwrap(), None);
}

#[tokio::test]
async fn modify_with_tokens_counts_once() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let table = table.with_write_tokens();
    table.insert(&entity("1", 0)).await.unwrap();
    for _ in 0..3 {
        server.clear_faults().await;
        server.fault(&format!(r#"{{"operation":"UpdateEntity",{AFTER}}}"#)).await;
        let add = |entity: &mut tepui_client::DynamicEntity| {
            let count = number(entity).unwrap();
            entity.set("Number", count + 1);
        };
        table.modify(&key("1"), add).await.unwrap();
    }
    assert_eq!(number(&table.get(&key("1")).await.unwrap().unwrap()), Some(3));
}

#[tokio::test]
async fn a_transaction_that_was_lost_is_unknown_or_settled() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let fault = format!(r#"{{"operation":"EntityGroupTransaction",{AFTER}}}"#);
    for (row, settles) in [("a", false), ("b", true)] {
        server.clear_faults().await;
        server.fault(&fault).await;
        let table = if settles { table.with_write_tokens() } else { table.clone() };
        let mut transaction = table.transaction("p").unwrap();
        transaction.insert(&entity(&format!("{row}1"), 1)).unwrap();
        transaction.insert(&entity(&format!("{row}2"), 2)).unwrap();
        match transaction.commit().await {
            Ok(etags) => assert!(settles && etags.iter().all(Option::is_some)),
            Err(error) => assert_eq!((settles, error.kind()), (false, ErrorKind::Unknown), "{error:?}"),
        }
        assert!(table.get(&key(&format!("{row}2"))).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn nothing_is_said_to_have_failed_when_attempts_run_out() {
    let server = TestServer::start().await;
    let account = server.builder().retry(Retry::never()).build().unwrap();
    let table = crate::support::new_table(&account).await;
    for (when, rule) in [
        ("before", r#""when":"before","cut":true"#),
        ("after", r#""when":"after","error":{"code":"InternalError"}"#),
    ] {
        server.clear_faults().await;
        server.fault(&format!(r#"{{"operation":"InsertEntity",{rule}}}"#)).await;
        assert_eq!(table.insert(&entity(when, 1)).await.unwrap_err().kind(), ErrorKind::Unknown, "{when}");
    }
    // A busy service has not begun with it.
    server.clear_faults().await;
    server.fault(r#"{"operation":"InsertEntity","error":{"code":"ServerBusy"}}"#).await;
    assert_eq!(table.insert(&entity("busy", 1)).await.unwrap_err().kind(), ErrorKind::Throttled);
    // A read changes nothing, so there is nothing to be in doubt of.
    server.fault(r#"{"operation":"QueryEntity","cut":true}"#).await;
    assert_eq!(table.get(&key("busy")).await.unwrap_err().kind(), ErrorKind::Transport);
}
