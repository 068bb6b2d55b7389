//! Servers and connections that fail.

use crate::proxy::{Cut, Proxy};
use crate::shared::{commit, get, impatient, open, open_with, put};
use std::time::{Duration, Instant};
use tepui_postgres::{PostgresEngine, PostgresOptions};
use tepui_postgres_testing::{PostgresServer, is_skipped};
use tepui_storage::{CommitError, Engine, Snapshot, StorageErrorKind, Transaction};

/// Repeats a read until it succeeds, within the time in which the service has to be back.
async fn wait_for(engine: &PostgresEngine, key: &str) -> Option<tepui_storage::Value> {
    let began = Instant::now();
    loop {
        match get(engine, key).await {
            Ok(found) => return found,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(10), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_of_commit_leaves_the_outcome_open() {
    if is_skipped() {
        return;
    }
    let (proxy, engine) = behind(PostgresServer::shared()).await;
    for round in 0..20 {
        for (cut, is_there) in [(Cut::BeforeCommit, false), (Cut::AfterCommit, true)] {
            let key = format!("{cut:?}/{round}");
            let transaction = engine.begin().await.expect("it asks nothing");
            assert_eq!(transaction.get(key.as_bytes()).await, Ok(None));
            proxy.cut(cut);
            let outcome = transaction.commit(vec![put(key.clone(), "v")].into()).await;
            assert!(matches!(outcome, Err(CommitError::Unknown(_))), "{key}: {outcome:?}");
            // It may take the server a moment. What has not arrived never happens.
            let began = Instant::now();
            while wait_for(&engine, &key).await.is_some() != is_there {
                assert!(began.elapsed() < Duration::from_secs(5), "{key}: it is there: {}", !is_there);
            }
            // A definite conflict is one, also if the next answer is lost.
            let stale = engine.begin().await.expect("it asks nothing");
            assert!(stale.get(key.as_bytes()).await.is_ok());
            commit(&engine, vec![put(key.clone(), "w")]).await.expect("nobody else writes");
            assert_eq!(stale.commit(vec![put(key, "x")].into()).await, Err(CommitError::Conflict));
        }
    }
    assert_eq!(engine.stats().commits.unknown.get(), 40);
}

/// An engine on a new schema, by way of a proxy.
async fn behind(server: &PostgresServer) -> (Proxy, PostgresEngine) {
    let proxy = Proxy::start(server.port()).await;
    let url = server.new_schema().replace(&format!(":{}", server.port()), &format!(":{}", proxy.port));
    let engine = open(&url).await;
    (proxy, engine)
}

/// What was sent after it would be one transaction for each statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_in_a_transaction_that_did_not_begin() {
    if is_skipped() {
        return;
    }
    let (proxy, engine) = behind(PostgresServer::shared()).await;
    for reads in [false, true] {
        let transaction = engine.begin().await.expect("it asks nothing");
        proxy.cut(Cut::SpoilBegin);
        if reads {
            assert!(transaction.get(b"a").await.is_err(), "it did not begin");
        }
        let outcome = transaction.commit(vec![put("a", "1"), put("b", "1")].into()).await;
        assert!(matches!(outcome, Err(CommitError::Storage(_))), "{reads}: {outcome:?}");
        assert_eq!(get(&engine, "a").await, Ok(None), "{reads}");
    }
    assert_eq!(commit(&engine, vec![put("a", "1")]).await, Ok(()));
}

/// That is a definite failure, and no reason to give connections up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_too_long_for_a_row_is_told_so() {
    if is_skipped() {
        return;
    }
    let server = PostgresServer::start();
    let engine = open_with(impatient(&server.url(), Duration::from_secs(3))).await;
    commit(&engine, vec![put("a", "1")]).await.expect("nobody else writes");
    std::thread::scope(|scope| {
        let lock = "BEGIN; SELECT 1 FROM tepui_rows FOR UPDATE; SELECT pg_sleep(6); COMMIT";
        scope.spawn(|| server.sql(lock));
        let began = Instant::now();
        while server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1" {
            assert!(began.elapsed() < Duration::from_secs(5), "nobody holds the row");
        }
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(async {
                let connects = engine.stats().connects.get();
                let outcome = commit(&engine, vec![put("a", "2")]).await;
                let Err(CommitError::Storage(error)) = outcome else { panic!("{outcome:?}") };
                assert_eq!(error.kind(), StorageErrorKind::Busy, "{error}");
                assert_eq!(get(&engine, "a").await, Ok(Some("1".into())));
                assert_eq!(engine.stats().connects.get(), connects, "connections are as good as before");
                assert_eq!(engine.stats().unavailable.get(), 0);
            })
        });
    });
    assert_eq!(commit(&engine, vec![put("a", "2")]).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_answer_is_unavailable_and_comes_back() {
    if is_skipped() {
        return;
    }
    let server = PostgresServer::start();
    let timeout = Duration::from_millis(1500);
    let engine = open_with(impatient(&server.url(), timeout)).await;
    commit(&engine, vec![put("a", "1")]).await.expect("nobody else writes");
    // Several connections, so that there are some that nobody has noticed to be dead.
    let held: Vec<_> = futures_util::future::join_all((0..8).map(|_| async {
        let transaction = engine.begin().await.expect("it asks nothing");
        assert!(transaction.get(b"a").await.is_ok());
        transaction
    }))
    .await;
    let mut held = held.into_iter();
    let reading = held.next().expect("there are eight");
    let writing = held.next().expect("there are eight");
    drop(held);
    server.pause();
    let began = Instant::now();
    let error = reading.get(b"a").await.expect_err("nobody answers");
    assert_eq!(error.kind(), StorageErrorKind::Unavailable);
    assert!(began.elapsed() < 3 * timeout, "{:?}", began.elapsed());
    let outcome = writing.commit(vec![put("b", "1")].into()).await;
    assert!(matches!(outcome, Err(CommitError::Unknown(_) | CommitError::Storage(_))), "{outcome:?}");
    for _ in 0..3 {
        let error = get(&engine, "a").await.expect_err("nobody answers");
        assert_eq!(error.kind(), StorageErrorKind::Unavailable, "{error}");
    }
    assert!(engine.health().await.is_err());
    assert!(began.elapsed() < 9 * timeout, "{:?}", began.elapsed());
    assert!(engine.stats().unavailable.get() >= 4);
    server.resume();
    assert_eq!(wait_for(&engine, "a").await, Some("1".into()));
    assert!(commit(&engine, vec![put("c", "1")]).await.is_ok());
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(engine.health().await, Ok(()), "what was found out about health is forgotten after a second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_is_found_again() {
    if is_skipped() {
        return;
    }
    let mut server = PostgresServer::start();
    let engine = open(&server.url()).await;
    for round in 0..3 {
        let key = format!("a{round}");
        commit(&engine, vec![put(key.clone(), "1")]).await.expect("nobody else writes");
        let open = engine.begin().await.expect("it asks nothing");
        assert!(open.get(key.as_bytes()).await.is_ok());
        server.kill();
        let error = open.get(key.as_bytes()).await.expect_err("it is gone");
        assert_eq!(error.kind(), StorageErrorKind::Unavailable);
        let error = get(&engine, &key).await.expect_err("it is gone");
        assert_eq!(error.kind(), StorageErrorKind::Unavailable);
        assert!(matches!(commit(&engine, vec![put("b", "1")]).await, Err(CommitError::Storage(_))));
        server.restart();
        assert_eq!(wait_for(&engine, &key).await, Some("1".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_hosts_the_one_that_accepts_writes_is_used() {
    if is_skipped() {
        return;
    }
    let mut first = PostgresServer::start();
    let second = PostgresServer::start();
    let standby = PostgresServer::with(&[("default_transaction_read_only", "on")]);
    let hosts =
        format!("127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}", standby.port(), first.port(), second.port());
    let engine = open(&format!("postgres://postgres@{hosts}/postgres")).await;
    commit(&engine, vec![put("a", "1")]).await.expect("nobody else writes");
    assert_eq!(first.sql("SELECT count(*) FROM tepui_rows"), "1");
    assert_eq!(
        PostgresEngine::init(&PostgresOptions::new(second.url())).await.ok(),
        Some(tepui_postgres::SchemaChange::Created)
    );
    first.kill();
    assert_eq!(wait_for(&engine, "a").await, None, "the other server is another one");
    commit(&engine, vec![put("b", "1")]).await.expect("nobody else writes");
    assert_eq!(second.sql("SELECT count(*) FROM tepui_rows"), "1");
    // One that accepts no writes any more is left.
    second.sql("ALTER SYSTEM SET default_transaction_read_only = on");
    second.sql("SELECT pg_reload_conf()");
    first.restart();
    let began = Instant::now();
    while let Err(error) = commit(&engine, vec![put("c", "1")]).await {
        assert!(began.elapsed() < Duration::from_secs(10), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(first.sql("SELECT count(*) FROM tepui_rows"), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_that_are_dropped_give_their_connections_back() {
    if is_skipped() {
        return;
    }
    let server = PostgresServer::start();
    let options = PostgresOptions { max_connections: 3, ..impatient(&server.url(), Duration::from_secs(10)) };
    let engine = open_with(options).await;
    let worker = |worker: usize| {
        let engine = engine.clone();
        async move {
            for round in 0..60 {
                let transaction = engine.begin().await.expect("it asks nothing");
                let key = format!("{worker}/{round}");
                let read = transaction.get(key.as_bytes());
                match round % 4 {
                    0 => assert_eq!(read.await, Ok(None)),
                    // Dropped while it is under way.
                    1 => drop(tokio::time::timeout(Duration::ZERO, read).await),
                    2 => drop(
                        tokio::time::timeout(Duration::ZERO, engine.get_many(&[key.clone().into()])).await,
                    ),
                    _ => {
                        assert_eq!(read.await, Ok(None));
                        let commit = transaction.commit(vec![put(key.clone(), "1")].into());
                        drop(tokio::time::timeout(Duration::from_micros(200), commit).await);
                    }
                }
            }
        }
    };
    futures_util::future::join_all((0..8).map(worker)).await;
    // What nobody waited for happens nevertheless.
    let began = Instant::now();
    while engine.stats().in_use.get() > 0 || server.sql("SELECT count(*) FROM tepui_rows") != "120" {
        assert!(began.elapsed() < Duration::from_secs(5), "{} in use", engine.stats().in_use.get());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tepui'";
    assert_eq!(server.sql(&format!("{connections} AND state LIKE '%transaction%'")), "0");
    assert!(server.sql(connections).parse::<u32>().is_ok_and(|count| count <= 3));
    assert!(engine.stats().connects.get() <= 3, "{} were opened", engine.stats().connects.get());
    assert_eq!(engine.stats().unavailable.get(), 0);
}

#[tokio::test]
async fn who_waits_too_long_for_a_connection_is_told_that_all_are_in_use() {
    if is_skipped() {
        return;
    }
    let timeout = Duration::from_millis(1500);
    let options =
        PostgresOptions { max_connections: 1, ..impatient(&PostgresServer::shared().new_schema(), timeout) };
    let engine = open_with(options).await;
    let holder = engine.begin().await.expect("it asks nothing");
    assert_eq!(holder.get(b"a").await, Ok(None));
    let began = Instant::now();
    let error = get(&engine, "a").await.expect_err("there is one connection");
    assert_eq!(error.kind(), StorageErrorKind::Busy);
    assert!(began.elapsed() < 3 * timeout);
    drop(holder);
    assert_eq!(get(&engine, "a").await, Ok(None));
}
