//! The client against a server in the same process, or another service: see `support.rs`. One program, so that the server is
//! linked once.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod blobs;
mod connections;
mod credentials;
mod encryption;
mod entities;
mod followers;
mod indexes;
mod lost_answers;
mod outbox;
mod patterns_data_series;
mod patterns_index_entities;
mod patterns_large_entity;
mod patterns_log_blobs;
mod patterns_log_tail;
mod patterns_table_series;
mod patterns_wide_entity;
mod queries;
mod queues;
mod relationships;
mod retries;
mod sas_per_user;
mod support;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod typed;

#[path = "../../examples/tables.rs"]
#[expect(dead_code, reason = "only its tour is called, not the program")]
mod tables_example;

#[tokio::test]
async fn the_example_runs() {
    let server = support::TestServer::start().await;
    tables_example::tour(&server.connection_string()).await.unwrap();
    assert_eq!(server.account().table_names("").await.unwrap(), [""; 0]);
}
