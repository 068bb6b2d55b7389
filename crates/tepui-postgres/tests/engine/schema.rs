//! The schema, and what is refused when a database is opened.

use crate::shared::{commit, get, open, put};
use tepui_postgres::{PostgresEngine, PostgresOptions, SchemaChange};
use tepui_postgres_testing::{PostgresServer, is_skipped};
use tepui_storage::{StorageError, StorageErrorKind};

async fn refused(url: &str) -> StorageError {
    match PostgresEngine::open(PostgresOptions::new(url)).await {
        Ok(_) => panic!("it is opened"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_made_once_and_checked() {
    if is_skipped() {
        return;
    }
    let server = PostgresServer::shared();
    let url = server.new_schema();
    let error = refused(&url).await;
    assert!(
        error.kind() == StorageErrorKind::Failed && error.message().contains("tepui storage init"),
        "{error}"
    );
    // Many at once: one of them makes it.
    let inits = (0..8).map(|_| async { PostgresEngine::init(&PostgresOptions::new(url.clone())).await });
    let changes = futures_util::future::join_all(inits).await;
    let made = changes.iter().filter(|change| **change == Ok(SchemaChange::Created)).count();
    assert!(made == 1 && changes.iter().all(Result::is_ok), "{changes:?}");
    let engine = open(&url).await;
    commit(&engine, vec![put("a", "1")]).await.expect("nobody else writes");
    assert_eq!(PostgresEngine::init(&PostgresOptions::new(url.clone())).await, Ok(SchemaChange::Unchanged));
    // Another schema of the same database is another store.
    assert_eq!(get(&open(&server.new_schema()).await, "a").await, Ok(None));
    assert_eq!(get(&open(&url).await, "a").await, Ok(Some("1".into())));
    // A newer one is left alone.
    let name = url.rsplit("%3D").next().expect("the URL names a schema");
    server.sql(&format!("UPDATE {name}.tepui_meta SET value = '2' WHERE name = 'format'"));
    let error = refused(&url).await;
    assert!(error.message().contains("version 2"), "{error}");
    assert!(PostgresEngine::init(&PostgresOptions::new(url)).await.is_err());
}

#[tokio::test]
async fn what_cannot_work_is_refused_without_the_password() {
    if is_skipped() {
        return;
    }
    let server = PostgresServer::shared();
    let port = server.port();
    for (url, kind) in [
        (format!("postgres://postgres:secret@127.0.0.1:{port}/missing"), StorageErrorKind::Failed),
        (format!("postgres://nobody:secret@127.0.0.1:{port}/postgres"), StorageErrorKind::Failed),
        ("postgres://postgres:secret@127.0.0.1:1/postgres".to_owned(), StorageErrorKind::Unavailable),
        // The server has no certificate.
        (
            format!("postgres://postgres:secret@127.0.0.1:{port}/postgres?sslmode=require"),
            StorageErrorKind::Unavailable,
        ),
        (
            format!("postgres://postgres:secret@127.0.0.1:{port}/postgres?sslmode=verify-ca"),
            StorageErrorKind::Failed,
        ),
        (
            format!(
                "postgres://postgres:secret@127.0.0.1:{port}/postgres?sslmode=verify-full&sslrootcert=/none"
            ),
            StorageErrorKind::Failed,
        ),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let none = PostgresOptions { max_connections: 0, ..PostgresOptions::new(server.url()) };
    assert!(PostgresEngine::open(none).await.is_err());
}

/// What other servers are told is not refused by PostgreSQL, which would log it for each connection.
#[tokio::test]
async fn no_setting_is_refused() {
    if is_skipped() {
        return;
    }
    let server = PostgresServer::start();
    let engine = crate::shared::open(&server.url()).await;
    assert_eq!(crate::shared::get(&engine, "a").await, Ok(None));
    assert!(!server.log().contains("parameter"), "{}", server.log());
}
