//! Long bodies in both directions, and clients that read slowly or not at all.

use crate::support::{PATIENCE, SelfSigned, client_of, connect};
use hyper::http::{Response, request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tepui_server::{
    Body, Config, Handler, Limits, Peer, ReplyBody, Shared, Tls, TrustedProxies, serve_handler,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::version::{TLS12, TLS13};

const LONG: usize = 8 * 1024 * 1024;

/// Answers with the body that it was sent, or with as many bytes as the query says.
struct Echo;

impl Handler for Echo {
    const HAS_METADATA: bool = true;

    async fn handle(&self, peer: Peer, head: request::Parts, body: Body) -> Response<ReplyBody> {
        assert!(peer.tls && peer.address.ip().is_loopback());
        Response::new(match head.uri.query() {
            Some(length) => ReplyBody::from(pattern(length.parse().unwrap())),
            None => ReplyBody::from(body.read_whole(LONG).await.unwrap()),
        })
    }

    async fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

struct Running {
    address: SocketAddr,
    shared: Arc<Shared>,
    files: SelfSigned,
    _directory: TempDir,
}

async fn start(limits: Limits) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let files = SelfSigned::make(directory.path(), "server");
    let (cert, key) = (Some(files.cert.clone()), Some(files.key.clone()));
    let tls = Tls::open(&Config { cert, key, ..Config::default() }).unwrap();
    let shared = Shared::of_server(TrustedProxies::default(), tls, limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_handler(listener, Arc::new(Echo), Arc::clone(&shared)));
    Running { address, shared, files, _directory: directory }
}

impl Running {
    async fn connect(&self, version: &'static SupportedProtocolVersion) -> TlsStream<TcpStream> {
        let config = Arc::new(client_of(&self.files.cert, &[version]));
        connect(&config, self.address, "localhost").await.unwrap()
    }
}

/// Reads a reply of so many bytes.
async fn body(stream: &mut TlsStream<TcpStream>, length: usize) -> Vec<u8> {
    let mut read = Vec::new();
    let mut head = None;
    while head.is_none_or(|head| read.len() < head + length) {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0, "it breaks off after {}", read.len());
        head = head.or_else(|| read.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4));
    }
    read.split_off(head.unwrap())
}

#[tokio::test]
async fn long_bodies_arrive_whole() {
    let server = start(Limits::default()).await;
    for version in [&TLS12, &TLS13] {
        let mut stream = server.connect(version).await;
        for length in [0, 1, 16 * 1024, LONG] {
            let sent = pattern(length);
            let head = format!("PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&sent).await.unwrap();
            stream.flush().await.unwrap();
            assert!(body(&mut stream, length).await == sent, "{version:?} {length}");
        }
    }
}

#[tokio::test]
async fn a_reply_that_was_not_read_yet_is_sent_whole_before_the_end() {
    let server = start(Limits { shutdown_grace: PATIENCE, ..Limits::default() }).await;
    let mut stream = server.connect(&TLS13).await;
    let request = format!("GET /?{LONG} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let shared = Arc::clone(&server.shared);
    let stopping = tokio::spawn(async move { shared.stop().await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(body(&mut stream, LONG).await == pattern(LONG));
    assert_eq!(tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected() {
    let limits = Limits { write_timeout: Duration::from_millis(500), ..Limits::default() };
    let server = start(limits).await;
    let mut stream = server.connect(&TLS13).await;
    let request = format!("GET /?{LONG} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let since = Instant::now();
    while server.shared.open_connections() > 0 {
        assert!(since.elapsed() < PATIENCE, "it is still connected");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(since.elapsed() >= Duration::from_millis(400), "{:?}", since.elapsed());
}
