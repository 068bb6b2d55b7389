//! Retries: when, how often, and not at all.

use crate::support::{TestServer, entity, key, new_table};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tepui_client::{ErrorKind, Retry, SentRequest};

#[tokio::test]
async fn busy_services_are_asked_again_and_refusals_are_not() {
    let server = TestServer::start().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let seen = Arc::clone(&seen);
        move |request: &SentRequest<'_>| seen.lock().unwrap().push((request.attempt, request.status))
    };
    let account = server.builder().observe(observer).build().unwrap();
    let table = new_table(&account).await;
    for (case, code, count, expected, attempts) in [
        ("busy twice", "ServerBusy", 2, Ok(()), vec![503, 503, 201]),
        ("timed out", "OperationTimedOut", 1, Ok(()), vec![500, 201]),
        ("busy for too long", "ServerBusy", 9, Err(ErrorKind::Throttled), vec![503; 5]),
        ("refused", "InvalidInput", 9, Err(ErrorKind::Refused), vec![400]),
        ("denied", "AuthorizationFailure", 9, Err(ErrorKind::Denied), vec![403]),
    ] {
        server.clear_faults().await;
        server
            .fault(&format!(r#"{{"operation":"InsertEntity","count":{count},"error":{{"code":"{code}"}}}}"#))
            .await;
        seen.lock().unwrap().clear();
        let outcome = table.insert(&entity(case, 1)).await.map(drop).map_err(|error| error.kind());
        assert_eq!(outcome, expected, "{case}");
        let statuses: Vec<_> = seen.lock().unwrap().iter().map(|(_, status)| status.unwrap()).collect();
        let attempts: Vec<_> =
            attempts.into_iter().map(|status| if status == 201 { 204 } else { status }).collect();
        assert_eq!(statuses, attempts, "{case}");
    }
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let (server, table) = TestServer::start().await.table_kept().await;
    server.fault(r#"{"delayMs":20000}"#).await;
    let started = Instant::now();
    let hasty = table.within(Duration::from_millis(200));
    assert_eq!(hasty.get(&key("1")).await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    // It may arrive yet.
    assert_eq!(hasty.insert(&entity("1", 1)).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_wait_that_is_longer_than_the_deadline_is_not_begun() {
    let server = TestServer::start().await;
    let account = server.builder().retry(Retry::guide()).within(Duration::from_millis(900)).build().unwrap();
    let table = new_table(&account).await;
    server.fault(r#"{"operation":"InsertEntity","error":{"code":"ServerBusy"}}"#).await;
    let started = Instant::now();
    assert_eq!(table.insert(&entity("1", 1)).await.unwrap_err().kind(), ErrorKind::Throttled);
    assert!(started.elapsed() < Duration::from_millis(900));
}

#[tokio::test]
async fn parts_of_a_transaction_are_judged_by_themselves() {
    let server = TestServer::start().await;
    let count = Arc::new(Mutex::new(0));
    let observer = {
        let count = Arc::clone(&count);
        move |_: &SentRequest<'_>| *count.lock().unwrap() += 1
    };
    let account = server.builder().observe(observer).build().unwrap();
    let table = new_table(&account).await;
    table.insert(&entity("2", 1)).await.unwrap();
    let mut transaction = table.transaction("p").unwrap();
    for row in ["1", "2", "3"] {
        transaction.insert(&entity(row, 1)).unwrap();
    }
    *count.lock().unwrap() = 0;
    let error = transaction.commit().await.unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::AlreadyExists, Some(1)));
    assert_eq!(*count.lock().unwrap(), 1, "it is not sent again");
}

#[tokio::test]
async fn many_requests_at_a_time_share_the_connections() {
    let server = TestServer::start().await;
    let account = server.builder().parallel(4).build().unwrap();
    let table = new_table(&account).await;
    let tasks: Vec<_> = (0..64)
        .map(|index| {
            let table = table.clone();
            tokio::spawn(async move { table.insert(&entity(&index.to_string(), index)).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(table.scan().all().await.unwrap().len(), 64);
}

#[tokio::test]
async fn nobody_there() {
    let account = tepui_client::Account::at("http://127.0.0.1:1/acct")
        .shared_key("acct", "c2VjcmV0")
        .retry(Retry::quick())
        .build()
        .unwrap();
    let error = account.table_names("").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transport);
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn requests_to_a_busy_partition_get_through() {
    let server = TestServer::start().await;
    let account =
        server.builder().retry(Retry::after([Duration::from_millis(20); 12])).parallel(16).build().unwrap();
    let table = new_table(&account).await;
    server.fault(r#"{"operation":"InsertEntity","share":0.3,"seed":7,"error":{"code":"ServerBusy"}}"#).await;
    let tasks: Vec<_> = (0..100)
        .map(|index| {
            let table = table.clone();
            tokio::spawn(async move { table.insert(&entity(&index.to_string(), index)).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(table.scan().all().await.unwrap().len(), 100);
}

/// Nobody answers on this port; the clock is paused, so that what is measured are the waits alone.
#[tokio::test(start_paused = true)]
async fn the_guide_waits_as_it_says() {
    let account = tepui_client::Account::at("http://127.0.0.1:1/acct")
        .sas("sig=x")
        .retry(Retry::guide())
        .build()
        .unwrap();
    let started = tokio::time::Instant::now();
    assert_eq!(account.table_names("").await.unwrap_err().kind(), ErrorKind::Transport);
    let waited = started.elapsed().as_secs_f64();
    assert!((46.0 * 0.8..46.0 * 1.2 + 0.1).contains(&waited), "{waited}");
}
