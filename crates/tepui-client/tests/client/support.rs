//! A server with everything in memory, and an account of it.

use std::sync::atomic::{AtomicU32, Ordering};
use tepui_client::{Account, AccountBuilder, DynamicEntity, EntityKey, Retry, Table};
use tepui_model::account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tepui_server::Server;
use tepui_server::config::{AdminToken, Config, ServiceName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

const ADMIN_TOKEN: &str = "for-tests-0123456789";

/// Ends with the runtime of its test.
pub(crate) struct TestServer {
    urls: [String; 3],
    admin: std::net::SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
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
        let addresses = server.addresses();
        let url = |service| {
            let (_, address) = addresses.iter().find(|(known, _)| *known == service).unwrap();
            format!("http://{address}/{DEVELOPMENT_ACCOUNT}")
        };
        let urls = [ServiceName::Table, ServiceName::Queue, ServiceName::Blob].map(url);
        let admin = server.admin_address().unwrap();
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { urls, admin, _stop: stop }
    }

    pub(crate) fn builder(&self) -> AccountBuilder {
        let [tables, queues, blobs] = &self.urls;
        Account::at(tables)
            .queues_at(queues)
            .blobs_at(blobs)
            .shared_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64)
            .retry(Retry::quick())
    }

    pub(crate) fn connection_string(&self) -> String {
        let [tables, queues, blobs] = &self.urls;
        format!(
            "AccountName={DEVELOPMENT_ACCOUNT};AccountKey={DEVELOPMENT_KEY_BASE64};TableEndpoint={tables};\
             QueueEndpoint={queues};BlobEndpoint={blobs}"
        )
    }

    pub(crate) fn account(&self) -> Account {
        self.builder().build().unwrap()
    }

    pub(crate) async fn table(&self) -> Table {
        new_table(&self.account()).await
    }

    /// The server with a table of it.
    pub(crate) async fn table_kept(self) -> (Self, Table) {
        let table = self.table().await;
        (self, table)
    }

    /// Adds a fault: see docs/admin.md.
    pub(crate) async fn fault(&self, rule: &str) {
        let answer = self.admin("POST", "/admin/v1/faults", rule).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }

    pub(crate) async fn clear_faults(&self) {
        self.admin("DELETE", "/admin/v1/faults", "").await;
    }

    /// Moves the clock of the server on.
    pub(crate) async fn advance(&self, seconds: u64) {
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

/// A table that no other test has.
pub(crate) async fn new_table(account: &Account) -> Table {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let table = account.table(&format!("Test{}", COUNT.fetch_add(1, Ordering::Relaxed))).unwrap();
    table.create().await.unwrap();
    table
}

pub(crate) fn entity(row: &str, number: i32) -> DynamicEntity {
    DynamicEntity::new("p", row).with("Number", number)
}

pub(crate) fn key(row: &str) -> EntityKey {
    EntityKey::new("p", row)
}

pub(crate) fn number(entity: &DynamicEntity) -> Option<i32> {
    entity.get("Number").and_then(|value| value.as_i32())
}
