//! The client against a server in the same process: one program, so that the server is linked once.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod blobs;
mod connections;
mod credentials;
mod entities;
mod followers;
mod lost_answers;
mod outbox;
mod queries;
mod queues;
mod retries;
mod support;
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
