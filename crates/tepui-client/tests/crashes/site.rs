//! A server for one run, and processes that use it.

use crate::proxy::{self, Plan, Shared};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use tepui_client::{Account, AccountBuilder, DynamicEntity, Queue, Retry, Table};
use tepui_client_testing::TestServer;
use tepui_model::account::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64};
use tokio::time::sleep;

const ROLE: &str = "TEPUI_CRASHES_ROLE";
const TABLES: &str = "TEPUI_CRASHES_TABLES";
const QUEUES: &str = "TEPUI_CRASHES_QUEUES";

/// Ends with the runtime of its test.
pub(crate) struct Site {
    server: TestServer,
    pub(crate) account: Account,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let server = TestServer::start().await;
        Self { account: server.account(), server }
    }

    pub(crate) fn table(&self, name: &str) -> Table {
        self.account.table(name).unwrap()
    }

    pub(crate) fn queue(&self, name: &str) -> Queue {
        self.account.queue(name).unwrap()
    }

    pub(crate) async fn rows(&self, table: &str) -> Vec<DynamicEntity> {
        let rows = self.table(table).scan().all().await.unwrap();
        rows.into_iter().map(|row| row.into_inner()).collect()
    }

    /// Moves the clock of the server on, so that nobody has to wait until messages are seen again.
    pub(crate) async fn advance(&self, time: Duration) {
        self.server.advance(time.as_secs()).await;
    }

    /// Runs a process, which is this program again, with a failure at one of its requests. Says how many requests it has sent.
    pub(crate) async fn run(&self, role: &str, plan: Plan) -> usize {
        let shared = Shared::new(plan);
        let (tables, _table_proxy) = proxy::start(self.server.table_address(), shared.clone()).await;
        let (queues, _queue_proxy) = proxy::start(self.server.queue_address(), shared.clone()).await;
        {
            // Locked until the process is there to be killed.
            let mut process = shared.process().lock().unwrap();
            let command = std::env::current_exe().unwrap();
            let started = Command::new(command)
                .args(["--exact", "role", "--nocapture", "--test-threads", "1"])
                .env(ROLE, role)
                .env(TABLES, tables.to_string())
                .env(QUEUES, queues.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn();
            *process = Some(started.unwrap());
        }
        let status = loop {
            let ended = shared.process().lock().unwrap().as_mut().unwrap().try_wait().unwrap();
            match ended {
                Some(status) => break status,
                None => sleep(Duration::from_millis(1)).await,
            }
        };
        let is_killed = plan.is_some_and(|(request, failure)| {
            failure != proxy::Failure::LoseAnswer && request <= shared.requests()
        });
        if !is_killed && !status.success() {
            let process = shared.process().lock().unwrap().take().unwrap();
            let output = process.wait_with_output().unwrap();
            panic!("{role} with {plan:?} has failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        shared.requests()
    }
}

/// The role of this process, and the account it has to use, if it is not the one that tests.
pub(crate) fn role() -> Option<(String, Account)> {
    let role = std::env::var(ROLE).ok()?;
    let address = |name| std::env::var(name).unwrap().parse::<SocketAddr>().unwrap();
    Some((role, account(address(TABLES), address(QUEUES))))
}

fn account(tables: SocketAddr, queues: SocketAddr) -> Account {
    let builder: AccountBuilder = Account::at(format!("http://{tables}/{DEVELOPMENT_ACCOUNT}"))
        .queues_at(format!("http://{queues}/{DEVELOPMENT_ACCOUNT}"))
        .shared_key(DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY_BASE64)
        .retry(Retry::quick());
    builder.build().unwrap()
}
