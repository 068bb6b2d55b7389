//! Queues and their messages.

use crate::support::TestServer;
use std::time::Duration;
use tepui_client::{ErrorKind, PutMessage};

const HOLD: Duration = Duration::from_secs(30);

#[tokio::test]
async fn messages_are_put_taken_updated_and_deleted() {
    let server = TestServer::start().await;
    let queue = server.account().queue("work").unwrap();
    assert_eq!(queue.put("early").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(queue.create_if_missing().await.unwrap());
    assert!(!queue.create_if_missing().await.unwrap());
    queue.put("a <b> & \"c\"").await.unwrap();
    let hidden = queue.put(PutMessage::new("later").visible_after(HOLD).never_expires()).await.unwrap();
    assert_eq!(queue.peek(32).await.unwrap().len(), 1);
    assert_eq!(queue.approximate_count().await.unwrap(), 2);
    let mut taken = queue.get(32, HOLD).await.unwrap();
    assert_eq!((taken.len(), taken[0].text.as_str(), taken[0].dequeue_count), (1, "a <b> & \"c\"", 1));
    let stale = taken[0].clone();
    queue.update(&mut taken[0], HOLD, Some("progress")).await.unwrap();
    assert_eq!(taken[0].text, "progress");
    assert!(queue.delete(&stale).await.is_err(), "its receipt is old");
    queue.delete(&taken[0]).await.unwrap();
    // Whoever puts a message holds it until it is visible.
    queue.delete(&hidden).await.unwrap();
    assert_eq!(queue.delete(&hidden).await.unwrap_err().kind(), ErrorKind::NotFound);
    queue.put("last").await.unwrap();
    assert_eq!(queue.delete(&queue.peek(1).await.unwrap()[0]).await.unwrap_err().kind(), ErrorKind::Refused);
    queue.clear().await.unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 0);
    queue.delete_queue().await.unwrap();
    assert_eq!(server.account().queue("No").unwrap_err().kind(), ErrorKind::KeyInvalid);
    assert_eq!(queue.put("x".repeat(70_000)).await.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn lost_answers_of_queues() {
    let server = TestServer::start().await;
    let queue = server.account().queue("work").unwrap();
    queue.create_if_missing().await.unwrap();
    for operation in ["PutMessage", "DeleteMessage"] {
        server.fault(&format!(r#"{{"operation":"{operation}","when":"after","cut":true,"count":1}}"#)).await;
    }
    let put = queue.put("twice").await.unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 2, "put at least once");
    queue.delete(&put).await.unwrap();
    assert_eq!(queue.approximate_count().await.unwrap(), 1);
    server.fault(r#"{"operation":"UpdateMessage","when":"after","cut":true,"count":1}"#).await;
    let mut taken = queue.get(1, HOLD).await.unwrap().remove(0);
    let error = queue.update(&mut taken, HOLD, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}");
}
