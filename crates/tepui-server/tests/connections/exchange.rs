//! What goes over a connection: bodies, framing, health, and the end of it all.

use crate::support::{BODY_LIMIT, start};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tepui_server::Limits;
use tokio::io::AsyncReadExt;

#[tokio::test]
async fn bodies_arrive_whole() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    let long = "0123456789".repeat(100_000);
    let chunked = "4\r\nwiki\r\n5\r\npedia\r\n0\r\n\r\n";
    for (case, head, pieces, expected) in [
        ("none", "PUT /echo HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), vec![], ""),
        ("length 0", "PUT /echo HTTP/1.1\r\nContent-Length: 0\r\n\r\n".to_owned(), vec![], ""),
        ("one piece", "PUT /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello".to_owned(), vec![], "hello"),
        ("two", "PUT /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\n".to_owned(), vec!["hel", "lo"], "hello"),
        ("long", format!("PUT /echo HTTP/1.1\r\nContent-Length: {}\r\n\r\n", long.len()), vec![&long], &long),
        (
            "chunked",
            "PUT /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            vec![&chunked[..7], &chunked[7..]],
            "wikipedia",
        ),
    ] {
        client.send(head).await;
        for piece in pieces {
            tokio::time::sleep(Duration::from_millis(5)).await;
            client.send(piece).await;
        }
        let reply = client.reply().await;
        assert!(reply.split("\r\n\r\n").nth(1) == Some(expected), "{case}: {}", &reply[..60]);
    }
}

#[tokio::test]
async fn requests_may_be_sent_without_waiting_for_replies() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    client.send("PUT /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\naPUT /echo HTTP/1.1\r\nContent-Length: 1\r\n\r\nb").await;
    assert!(client.reply().await.ends_with("\r\n\r\na"));
    assert!(client.reply().await.ends_with("\r\n\r\nb"));
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_go_on() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    client.send("PUT /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").await;
    assert_eq!(client.reply().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello").await;
    assert!(client.reply().await.ends_with("hello"));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_and_the_answer_arrives() {
    let server = start(Limits::default()).await;
    let size = BODY_LIMIT * 2;
    let declared = format!("PUT /length HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n");
    let chunk = "PUT /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffff0\r\n";
    for (case, head) in [("declared", declared.as_str()), ("chunked", chunk)] {
        let client = server.connect().await;
        let (mut read, mut write) = client.stream.into_split();
        let head = head.to_owned();
        // Sends all of it, whatever the server says: as most clients do.
        let sending = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            write.write_all(head.as_bytes()).await.unwrap();
            let sent = write.write_all(&vec![b'x'; size]).await;
            (write, sent)
        });
        let mut reply = [0; 12];
        let (_write, sent) = sending.await.unwrap();
        sent.unwrap_or_else(|error| panic!("{case}: {error}"));
        read.read_exact(&mut reply).await.unwrap();
        assert_eq!(&reply, b"HTTP/1.1 413", "{case}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_takes_its_request_along() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.handler.holding.acquire().await.unwrap().forget();
    drop(client);
    let begun = Instant::now();
    while server.handler.dropped.load(Ordering::Relaxed) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "still waiting for a client that has left");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn replies_have_a_length() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    let reply = client.get("/pieces").await;
    assert!(reply.contains("content-length: 7\r\n") && reply.ends_with("\r\n\r\none two"), "{reply}");
    let reply = client.get("/").await;
    assert!(reply.contains("content-length: 0\r\n"), "{reply}");
}

#[tokio::test]
async fn health_is_told_to_those_who_bring_no_credentials() {
    let server = start(Limits::default()).await;
    let mut client = server.connect().await;
    let reply = client.get("/health").await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains(r#"{"status":"ok","#), "{reply}");
    server.handler.sick.store(true, Ordering::Relaxed);
    let reply = client.get("/health").await;
    assert!(reply.starts_with("HTTP/1.1 503"), "{reply}");
    assert!(reply.contains(r#"{"status":"unavailable","reason":"the disk is \"full\""}"#), "{reply}");
    client.send("GET /health HTTP/1.1\r\nAuthorization: SharedKey a:b\r\n\r\n").await;
    let reply = client.reply().await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("content-length: 0"), "{reply}");
}

#[tokio::test]
async fn stopping_ends_what_is_under_way_and_closes_the_rest_at_once() {
    let server = start(Limits::default()).await;
    let mut silent = server.connect().await;
    let mut idle = server.connect().await;
    idle.get("/").await;
    let mut busy = server.connect().await;
    busy.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.handler.holding.acquire().await.unwrap().forget();

    let shared = server.shared.clone();
    let stopping = tokio::spawn(async move { shared.stop().await });
    assert_eq!(silent.rest().await, "");
    assert_eq!(idle.rest().await, "");
    server.accepting.await.unwrap();
    assert!(tokio::net::TcpStream::connect(server.address).await.is_err(), "still accepting");
    assert!(!stopping.is_finished());
    server.handler.release.add_permits(1);
    let reply = busy.rest().await;
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("connection: close"), "{reply}");
    assert_eq!(stopping.await.unwrap(), 0);
}

#[tokio::test]
async fn stopping_does_not_wait_longer_than_its_grace() {
    let server = start(Limits { shutdown_grace: Duration::from_millis(50), ..Limits::default() }).await;
    let mut busy = server.connect().await;
    busy.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n").await;
    server.handler.holding.acquire().await.unwrap().forget();
    assert_eq!(server.shared.stop().await, 1);
    assert_eq!(busy.rest().await, "");
}
