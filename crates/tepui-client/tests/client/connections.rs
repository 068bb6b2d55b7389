//! Connections that behave badly: a server that answers from a script.

use crate::support::{entity, key};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tepui_client::{Account, ErrorKind, Retry, Table};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers each request with the next of its answers; after the last it closes connections.
pub(crate) struct ScriptedServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<Mutex<usize>>,
}

/// Closes the connection instead of an answer.
pub(crate) const CLOSE: &str = "";

impl ScriptedServer {
    pub(crate) async fn start<const N: usize>(answers: [&'static str; N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::new(Mutex::new(0));
        let (seen, count) = (Arc::clone(&requests), Arc::clone(&connections));
        tokio::spawn(async move {
            let mut answers = answers.into_iter();
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                *count.lock().unwrap() += 1;
                let mut buffer = vec![0; 64 * 1024];
                // A request of these tests comes in one piece.
                while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
                    seen.lock().unwrap().push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
                    match answers.next() {
                        Some(CLOSE) | None => break,
                        Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
                    }
                }
            }
        });
        Self { address, requests, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/acct", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    fn table(&self, retry: Retry) -> Table {
        let account = Account::at(self.url()).shared_key("acct", "c2VjcmV0").retry(retry).build().unwrap();
        account.table("People").unwrap()
    }
}

const WRITTEN: &str = "HTTP/1.1 204 No Content\r\nETag: W/\"1\"\r\n\r\n";
const EXISTS: &str =
    "HTTP/1.1 409 Conflict\r\nx-ms-error-code: EntityAlreadyExists\r\nContent-Length: 0\r\n\r\n";

#[tokio::test]
async fn connections_are_used_again() {
    let server = ScriptedServer::start([WRITTEN, WRITTEN, WRITTEN]).await;
    let table = server.table(Retry::never());
    for row in ["1", "2", "3"] {
        table.insert(&entity(row, 1)).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_no_error() {
    let server = ScriptedServer::start([
        "HTTP/1.1 204 No Content\r\nConnection: close\r\nETag: W/\"1\"\r\n\r\n",
        WRITTEN,
    ])
    .await;
    let table = server.table(Retry::never());
    table.insert(&entity("1", 1)).await.unwrap();
    table.insert(&entity("2", 1)).await.unwrap();
    assert_eq!((server.requests().len(), server.connections()), (2, 2));
}

#[tokio::test]
async fn a_refused_repetition_after_a_lost_answer_is_unknown() {
    let server = ScriptedServer::start([CLOSE, EXISTS, EXISTS]).await;
    let table = server.table(Retry::quick());
    assert_eq!(table.insert(&entity("1", 1)).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(table.insert(&entity("1", 1)).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    // Each attempt is signed anew, and says the same.
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests
            .iter()
            .all(|request| request.to_ascii_lowercase().contains("authorization: sharedkey acct:"))
    );
}

#[tokio::test]
async fn an_answer_that_ends_early_is_lost() {
    let server =
        ScriptedServer::start(["HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"value\":[", CLOSE]).await;
    let table = server.table(Retry::never());
    // The rest could come yet.
    let early = table.within(Duration::from_millis(300)).get(&key("1")).await;
    assert_eq!(early.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(table.get(&key("1")).await.unwrap_err().kind(), ErrorKind::Transport);
}

#[tokio::test]
async fn what_is_no_reply_is_a_decode_error() {
    let server = ScriptedServer::start(["HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<html/>"]).await;
    assert_eq!(server.table(Retry::quick()).get(&key("1")).await.unwrap_err().kind(), ErrorKind::Decode);
    assert_eq!(server.requests().len(), 1, "it is not asked for again");
    // A write that was answered like this may have been carried out.
    let server = ScriptedServer::start(["HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nOK"]).await;
    let mut transaction = server.table(Retry::quick()).transaction("p").unwrap();
    transaction.insert(&entity("1", 1)).unwrap();
    assert_eq!(transaction.commit().await.unwrap_err().kind(), ErrorKind::Unknown);
}

#[tokio::test]
async fn retry_after_goes_before_our_own_waits() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    let server = ScriptedServer::start([busy, busy, WRITTEN]).await;
    let started = Instant::now();
    server.table(Retry::guide()).insert(&entity("1", 1)).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "not the two seconds of the guide");
}

#[tokio::test]
async fn the_deadline_is_told_to_the_service() {
    let server = ScriptedServer::start([WRITTEN]).await;
    server.table(Retry::never()).within(Duration::from_secs(7)).insert(&entity("1", 1)).await.unwrap();
    assert!(
        server.requests()[0].starts_with("POST /acct/People?timeout=7 HTTP/1.1\r\n"),
        "{:?}",
        server.requests()
    );
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn what_does_not_speak_tls_is_not_trusted() {
    let server = ScriptedServer::start([WRITTEN]).await;
    let url = server.url().replace("http:", "https:");
    let account = Account::at(url).shared_key("acct", "c2VjcmV0").retry(Retry::never()).build().unwrap();
    let error = account.table("People").unwrap().insert(&entity("1", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Transport);
    assert!(!server.requests().concat().contains("sharedkey"), "nothing was sent in the clear");
}
