//! The high volume delete pattern.

use crate::support::TestServer;
use std::sync::Arc;
use std::time::Duration;
use tepui_client::patterns::table_series::TableSeries;
use tepui_client::{Account, DynamicEntity, ErrorKind, Timestamp};
use tepui_model::Clock as _;
use tepui_model::time::{ManualClock, SystemClock};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn real_now() -> Timestamp {
    SystemClock::new().now()
}

fn series(account: &Account, clock: &Arc<ManualClock>, keep: u32) -> TableSeries {
    let clock = Arc::clone(clock);
    TableSeries::daily("Logins").keep(keep).clock(move || clock.now()).open(account).unwrap()
}

/// A table as it would have been made on a day.
async fn table_of(account: &Account, series: &TableSeries, at: Timestamp, user: &str) {
    let table = account.table(&series.table_name(at)).unwrap();
    table.create().await.unwrap();
    table.insert(&DynamicEntity::new(user, at.to_string())).await.unwrap();
}

#[tokio::test]
async fn tables_are_created_early_and_deleted_late() {
    let server = TestServer::start().await;
    let account = server.account();
    let now = real_now();
    let clock = Arc::new(ManualClock::at(now));
    let logins = series(&account, &clock, 3);
    for days in 1..6 {
        table_of(&account, &logins, now.saturating_sub(days * DAY), "u").await;
    }
    account.table("Logins").unwrap().create().await.unwrap();
    account.table("LoginsOther20200101").unwrap().create().await.unwrap();
    logins.create_next().await.unwrap();
    logins.create_next().await.unwrap();
    assert_eq!(account.table_names("Logins").await.unwrap().len(), 9);
    let names = |days: std::ops::Range<u32>| {
        days.map(|days| logins.table_name(now.saturating_sub(days * DAY))).collect::<Vec<_>>()
    };
    let mut dropped = logins.drop_expired().await.unwrap();
    dropped.reverse();
    assert_eq!(dropped, names(4..6));
    assert_eq!(logins.drop_expired().await.unwrap(), [""; 0]);
    let left = account.table_names("Logins").await.unwrap();
    assert!(names(0..4).iter().all(|name| left.contains(name)) && left.len() == 7, "{left:?}");
}

#[tokio::test]
async fn a_clock_that_jumps_neither_deletes_nor_reuses() {
    let server = TestServer::start().await;
    let account = server.account();
    let now = real_now();
    let clock = Arc::new(ManualClock::at(now));
    let logins = series(&account, &clock, 3);
    for days in [0, 3, 4] {
        table_of(&account, &logins, now.saturating_sub(days * DAY), "u").await;
    }
    // Far ahead: the clock of the service counts. Nor is a table made there.
    clock.set(now.saturating_add(4000 * DAY));
    assert_eq!(logins.create_next().await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(logins.drop_expired().await.unwrap(), [logins.table_name(now.saturating_sub(4 * DAY))]);
    // Far behind: nothing is deleted, and what was deleted is not made again.
    clock.set(now.saturating_sub(4 * DAY));
    assert_eq!(logins.drop_expired().await.unwrap(), [""; 0]);
    assert_eq!(logins.create_next().await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(logins.table(logins.now()).await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(account.table_names("Logins").await.unwrap().len(), 2);
    clock.set(now);
    logins.table(now.saturating_sub(3 * DAY)).await.unwrap();
}

#[tokio::test]
async fn a_span_is_read_in_the_order_of_its_tables() {
    let server = TestServer::start().await;
    let account = server.account();
    let now = real_now();
    let logins = series(&account, &Arc::new(ManualClock::at(now)), 100);
    let mut expected = Vec::new();
    for days in (0..12).rev() {
        let at = now.saturating_sub(days * DAY);
        table_of(&account, &logins, at, "u1").await;
        let table = account.table(&logins.table_name(at)).unwrap();
        table.insert(&DynamicEntity::new("u2", "x")).await.unwrap();
        expected.push(at.to_string());
    }
    let read = async |from: u32, to: u32| {
        let (from, to) = (now.saturating_sub(from * DAY), now.saturating_sub(to * DAY));
        // Small pages, so that each table takes several.
        let mut stream = logins.stream(from, to, |query| query.partition("u1").page_size(1)).await.unwrap();
        let mut found = Vec::new();
        while let Some(entity) = stream.next_entity().await.unwrap() {
            found.push(entity.key.row_key.clone());
        }
        found
    };
    assert_eq!(read(30, 0).await, expected);
    assert_eq!(read(6, 2).await, expected[5..10]);
    assert_eq!(read(0, 6).await, [""; 0]);
    // An error ends the stream, and is told.
    server
        .fault(r#"{"operation":"QueryEntities","nth":3,"count":100,"error":{"code":"InvalidInput"}}"#)
        .await;
    let mut stream = logins.stream(now.saturating_sub(30 * DAY), now, |query| query.scan()).await.unwrap();
    let error = loop {
        match stream.next_entity().await {
            Ok(entity) => assert!(entity.is_some(), "it ended without an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Some("InvalidInput"));
    assert_eq!(stream.next_entity().await.unwrap(), None);
}

#[tokio::test]
async fn what_must_be_said_is_asked_for() {
    let server = TestServer::start().await;
    let account = server.account();
    for (builder, kind) in [
        (TableSeries::daily("Logins"), ErrorKind::Configuration),
        (TableSeries::hourly("Logins2").keep(1), ErrorKind::KeyInvalid),
        (TableSeries::monthly("9").keep(1), ErrorKind::KeyInvalid),
        (TableSeries::monthly(&"x".repeat(60)).keep(1), ErrorKind::KeyInvalid),
    ] {
        assert_eq!(builder.open::<DynamicEntity>(&account).unwrap_err().kind(), kind);
    }
}
