//! A server with a handler that does as the path says, and clients on raw sockets.

use bytes::Bytes;
use hyper::http::{Response, StatusCode, request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tepui_server::{Body, BodyError, Handler, Limits, Peer, ReplyBody, Shared, serve_handler};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
#[cfg(target_os = "linux")]
use tokio::net::TcpSocket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(crate) const BODY_LIMIT: usize = 6 * 1024 * 1024;
pub(crate) const LARGE_REPLY: usize = 64 * 1024 * 1024;

/// Does as the path says.
pub(crate) struct Obedient {
    pub(crate) sick: AtomicBool,
    /// How many requests are waiting in `/hold`, and what they wait for.
    pub(crate) holding: Semaphore,
    pub(crate) release: Semaphore,
    pub(crate) dropped: AtomicUsize,
    /// What a reply to `/held` holds until it is sent.
    pub(crate) memory: Arc<Semaphore>,
}

impl Handler for Obedient {
    const HAS_METADATA: bool = true;

    async fn handle(&self, peer: Peer, head: request::Parts, body: Body) -> Response<ReplyBody> {
        assert!(peer.address.ip().is_loopback() && !peer.tls);
        let mut status = StatusCode::OK;
        let reply = match head.uri.path() {
            // The length of the body, or what went wrong.
            "/length" => match body.read_whole(BODY_LIMIT).await {
                Ok(bytes) => ReplyBody::from(bytes.len().to_string()),
                Err(error) => {
                    status = status_of(error);
                    ReplyBody::from(error.to_string())
                }
            },
            "/echo" => match body.read_whole(BODY_LIMIT).await {
                Ok(bytes) => ReplyBody::from(bytes),
                Err(error) => panic!("{error}"),
            },
            // The length of a body that is not kept.
            "/stream" => {
                let (mut body, mut length) = (body, 0);
                body.charge(head.uri.query().unwrap_or_default());
                let mut begun = body.begin_stream(1024 * 1024).await;
                while begun.is_ok() {
                    match body.next().await {
                        Ok(Some(piece)) => length += piece.len(),
                        Ok(None) => break,
                        Err(error) => begun = Err(error),
                    }
                }
                if let Err(error) = begun {
                    status = status_of(error);
                }
                ReplyBody::from(length.to_string())
            }
            "/refuse" => {
                body.discard().await;
                status = StatusCode::FORBIDDEN;
                ReplyBody::from("no")
            }
            // Reads the body, then waits.
            "/hold" => {
                let left = Left(self);
                let bytes = body.read_whole(BODY_LIMIT).await.map_or(0, |bytes| bytes.len());
                self.holding.add_permits(1);
                self.release.acquire().await.expect("never closed").forget();
                std::mem::forget(left);
                ReplyBody::from(bytes.to_string())
            }
            "/large" => ReplyBody::from(vec![b'x'; LARGE_REPLY]),
            "/held" => {
                let permit = Arc::clone(&self.memory).try_acquire_owned().expect("there is a permit");
                ReplyBody::from(vec![b'x'; LARGE_REPLY]).holding(Some(permit))
            }
            "/pieces" => ReplyBody::pieces(vec![Bytes::from("one "), Bytes::new(), Bytes::from("two")]),
            _ => ReplyBody::empty(),
        };
        let mut reply = Response::new(reply);
        *reply.status_mut() = status;
        reply
    }

    async fn health(&self) -> Result<(), String> {
        if self.sick.load(Ordering::Relaxed) { Err("the disk is \"full\"".to_owned()) } else { Ok(()) }
    }
}

fn status_of(error: BodyError) -> StatusCode {
    match error {
        BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        BodyError::Broken => StatusCode::BAD_REQUEST,
        BodyError::Busy => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Counts the requests that were given up.
struct Left<'a>(&'a Obedient);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) handler: Arc<Obedient>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) accepting: tokio::task::JoinHandle<()>,
}

pub(crate) async fn start(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handler = Arc::new(Obedient {
        sick: AtomicBool::new(false),
        holding: Semaphore::new(0),
        release: Semaphore::new(0),
        dropped: AtomicUsize::new(0),
        memory: Arc::new(Semaphore::new(1)),
    });
    let shared = Shared::new(limits);
    let accepting = tokio::spawn(serve_handler(listener, Arc::clone(&handler), Arc::clone(&shared)));
    Running { address, handler, shared, accepting }
}

impl Running {
    /// The same server on another port.
    pub(crate) async fn second_port(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve_handler(listener, Arc::clone(&self.handler), Arc::clone(&self.shared)));
        address
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }
}

/// Nothing in these tests takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), read: Vec::new() }
    }

    /// From another address of this machine.
    #[cfg(target_os = "linux")]
    pub(crate) async fn connect_from(from: &str, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
        Self { stream: socket.connect(address).await.unwrap(), read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.write_all(text.as_ref()).await.unwrap();
    }

    pub(crate) async fn get(&mut self, path: &str) -> String {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        self.reply().await
    }

    /// The next reply: its head and, if that gives a length, its body.
    pub(crate) async fn reply(&mut self) -> String {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(size) = complete(&self.read) {
                    let rest = self.read.split_off(size);
                    let reply = std::mem::replace(&mut self.read, rest);
                    return String::from_utf8(reply).unwrap();
                }
                let count = self.stream.read_buf(&mut self.read).await.unwrap();
                assert!(count > 0, "closed after: {}", String::from_utf8_lossy(&self.read));
            }
        })
        .await
        .expect("no reply")
    }

    /// Everything until the server closes the connection, by an end or by a reset.
    pub(crate) async fn rest(&mut self) -> String {
        tokio::time::timeout(PATIENCE, async {
            while matches!(self.stream.read_buf(&mut self.read).await, Ok(count) if count > 0) {}
        })
        .await
        .expect("not closed");
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }
}

/// The size of the reply at the front, if all of it is there.
fn complete(read: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(read);
    let head = text.find("\r\n\r\n")? + 4;
    let length = text[..head]
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let size = head + length.map_or(0, |length| length.trim().parse().unwrap());
    (read.len() >= size).then_some(size)
}
