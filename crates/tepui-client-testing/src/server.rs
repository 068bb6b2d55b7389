//! A server with everything in memory, and an account of it.

use std::net::SocketAddr;
use tepui_client::{Account, AccountBuilder, Retry};
use tepui_model::account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tepui_server::Server;
use tepui_server::config::{AdminToken, Config, ServiceName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

const ADMIN_TOKEN: &str = "for-tests-0123456789";

/// A server on free ports of this machine. Ends with the runtime that it was started on.
pub struct TestServer {
    /// Those of tables, queues and blobs.
    addresses: [SocketAddr; 3],
    admin: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl TestServer {
    pub async fn start() -> Self {
        let config = Config {
            in_memory: true,
            table_port: 0,
            queue_port: 0,
            blob_port: 0,
            admin_port: Some(0),
            admin_token: Some(ADMIN_TOKEN.parse::<AdminToken>().unwrap()),
            test_bench: true,
            ..Config::default()
        };
        let server = Server::start(config).await.unwrap();
        let bound = server.addresses();
        let address = |service| bound.iter().find(|(known, _)| *known == service).unwrap().1;
        let addresses = [ServiceName::Table, ServiceName::Queue, ServiceName::Blob].map(address);
        let admin = server.admin_address().unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { addresses, admin, _stop: stop }
    }

    /// Where tables are served, without TLS.
    pub fn table_address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where queues are served, without TLS.
    pub fn queue_address(&self) -> SocketAddr {
        self.addresses[1]
    }

    pub fn connection_string(&self) -> String {
        let [tables, queues, blobs] =
            self.addresses.map(|address| format!("http://{address}/{DEVELOPMENT_ACCOUNT}"));
        format!(
            "AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY_BASE64};TableEndpoint={tables};\
             QueueEndpoint={queues};BlobEndpoint={blobs}"
        )
    }

    /// Does not wait long before it tries again.
    pub fn builder(&self) -> AccountBuilder {
        AccountBuilder::from_connection_string(&self.connection_string()).unwrap().retry(Retry::quick())
    }

    pub fn account(&self) -> Account {
        self.builder().build().unwrap()
    }

    /// Adds a fault: see docs/admin.md.
    pub async fn fault(&self, rule: &str) {
        let answer = self.admin("POST", "/admin/v1/faults", rule).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    pub async fn clear_faults(&self) {
        let answer = self.admin("DELETE", "/admin/v1/faults", "").await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// Moves the clock of the server on.
    pub async fn advance(&self, seconds: u64) {
        let body = format!(r#"{{"seconds":{seconds}}}"#);
        let answer = self.admin("POST", "/admin/v1/clock/advance", &body).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    async fn admin(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.admin,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}
