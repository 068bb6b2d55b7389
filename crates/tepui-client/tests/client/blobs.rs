//! Containers and blobs.

use crate::support::TestServer;
use tepui_client::{ErrorKind, Match, WriteIf};

#[tokio::test]
async fn blobs_are_put_read_listed_and_deleted() {
    let server = TestServer::start().await;
    let container = server.account().container("pictures").unwrap();
    assert!(container.create_if_missing().await.unwrap());
    assert!(!container.create_if_missing().await.unwrap());
    let blob = container.blob("2026/ä b%2F#?.png").unwrap();
    let first = blob.put(&b"0123456789"[..], "image/png", WriteIf::Absent).await.unwrap();
    let again = blob.put("x", "text/plain", WriteIf::Absent).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let read = blob.get().await.unwrap();
    assert_eq!((&read.bytes[..], &read.etag), (&b"0123456789"[..], &first));
    assert_eq!(read.content_type.as_deref(), Some("image/png"));
    assert_eq!(blob.get_if_changed(&first).await.unwrap(), None);
    let part = blob.get_range(2..5).await.unwrap();
    assert_eq!((&part.bytes[..], part.total_bytes), (&b"234"[..], 10));
    let second = blob.put("new", "text/plain", WriteIf::ETag(first.clone())).await.unwrap();
    let stale = blob.put("newer", "text/plain", WriteIf::ETag(first.clone())).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::Conflict);
    assert!(blob.get_if_changed(&first).await.unwrap().is_some());
    container.blob("other").unwrap().put("", "text/plain", WriteIf::Always).await.unwrap();
    let listed = container.list("2026/").await.unwrap();
    assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].total_bytes), (1, blob.name(), 3));
    assert_eq!(listed[0].etag, second);
    assert_eq!(blob.delete(first).await.unwrap_err().kind(), ErrorKind::Conflict);
    blob.delete(second).await.unwrap();
    assert_eq!(blob.get().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(blob.delete(Match::Any).await.unwrap_err().kind(), ErrorKind::NotFound);
    container.delete_container().await.unwrap();
}

#[tokio::test]
async fn large_blobs_and_appends() {
    let server = TestServer::start().await;
    let container = server.account().container("logs").unwrap();
    container.create_if_missing().await.unwrap();
    let blob = container.blob("large").unwrap();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|index| (index % 251) as u8).collect();
    blob.put(bytes.clone(), "application/octet-stream", WriteIf::Always).await.unwrap();
    assert!(blob.get().await.unwrap().bytes == bytes);
    let log = container.blob("log").unwrap();
    log.create_append("text/plain", WriteIf::Absent).await.unwrap();
    assert_eq!(log.append("one\n", Some(0)).await.unwrap(), 0);
    assert_eq!(log.append("two\n", None).await.unwrap(), 4);
    assert_eq!(log.append("three\n", Some(4)).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(&log.get().await.unwrap().bytes[..], b"one\ntwo\n");
}

#[tokio::test]
async fn an_append_that_was_lost_is_unknown() {
    let server = TestServer::start().await;
    let container = server.account().container("logs").unwrap();
    container.create_if_missing().await.unwrap();
    let log = container.blob("log").unwrap();
    log.create_append("text/plain", WriteIf::Absent).await.unwrap();
    server.fault(r#"{"operation":"AppendBlock","when":"after","cut":true,"count":1}"#).await;
    assert_eq!(log.append("one\n", Some(0)).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(&log.get().await.unwrap().bytes[..], b"one\n");
}
