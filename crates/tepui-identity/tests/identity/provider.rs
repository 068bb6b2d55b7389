//! An issuer for tests: a discovery document and keys over HTTP, as slow and as wrong as a test wants.

use crate::make::key_set;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What it answers, and what it was asked.
#[derive(Default)]
pub(crate) struct Behaviour {
    pub(crate) keys: Vec<Value>,
    /// Instead of the keys.
    pub(crate) body: Option<String>,
    /// Instead of the issuer's own name.
    pub(crate) named: Option<String>,
    /// Instead of 200, and with these headers.
    pub(crate) head: Option<String>,
    pub(crate) delay: Duration,
    pub(crate) fetches: usize,
}

pub(crate) struct Provider {
    pub(crate) address: SocketAddr,
    pub(crate) behaviour: Arc<Mutex<Behaviour>>,
    serving: Option<JoinHandle<()>>,
}

impl Provider {
    pub(crate) async fn start(keys: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let behaviour = Behaviour { keys: keys.to_vec(), ..Behaviour::default() };
        let mut provider = Self { address, behaviour: Arc::new(Mutex::new(behaviour)), serving: None };
        provider.serve(listener);
        provider
    }

    pub(crate) fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn fetches(&self) -> usize {
        self.behaviour.lock().fetches
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour.lock());
    }

    /// From now on nobody listens.
    pub(crate) async fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
            let _ = serving.await;
        }
    }

    pub(crate) async fn start_again(&mut self) {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(self.address).unwrap();
        self.serve(socket.listen(16).unwrap());
    }

    fn serve(&mut self, listener: TcpListener) {
        let (behaviour, issuer) = (Arc::clone(&self.behaviour), self.issuer());
        self.serving = Some(tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, Arc::clone(&behaviour), issuer.clone()));
            }
        }));
    }
}

async fn answer(mut stream: TcpStream, behaviour: Arc<Mutex<Behaviour>>, issuer: String) {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => request.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
    let request = String::from_utf8(request).unwrap();
    let (head, body, delay) = {
        let mut behaviour = behaviour.lock();
        let mut delay = Duration::ZERO;
        let named = behaviour.named.clone().unwrap_or_else(|| issuer.clone());
        let (head, body) = if request.starts_with("GET /.well-known/openid-configuration ") {
            (None, json!({"issuer": named, "jwks_uri": format!("{issuer}/keys")}).to_string())
        } else if request.starts_with("GET /keys ") {
            behaviour.fetches += 1;
            delay = behaviour.delay;
            let keys = key_set(&behaviour.keys);
            (behaviour.head.clone(), behaviour.body.clone().unwrap_or(keys))
        } else {
            (Some("404 Not Found".to_owned()), String::new())
        };
        (head.unwrap_or_else(|| "200 OK".to_owned()), body, delay)
    };
    tokio::time::sleep(delay).await;
    let answer = format!(
        "HTTP/1.1 {head}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
}
