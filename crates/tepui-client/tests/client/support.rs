//! A service to test against, and an account of it that no other test has.
//!
//! It is Tepui in this process with everything in memory, unless the environment variable `TEPUI_CLIENT_TEST_CONNECTION` has a
//! connection string of another service. There, `{account}` stands for the name of an account: each test takes one
//! of its own, `test1`, `test2` and so on. `conformance/azurite/run` tests Azurite like this.

use std::env;
use std::sync::atomic::{AtomicU32, Ordering};
use tepui_client::{Account, AccountBuilder, DynamicEntity, EntityKey, Retry, Table};
use tepui_wire::connection_string::{ConnectionString, Credential};

const OTHER_SERVICE: &str = "TEPUI_CLIENT_TEST_CONNECTION";

/// Ends with the runtime of its test, if it is Tepui.
pub(crate) struct TestServer {
    connection_string: String,
    tepui: Option<tepui_client_testing::TestServer>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        match env::var(OTHER_SERVICE) {
            Ok(template) => {
                static COUNT: AtomicU32 = AtomicU32::new(1);
                let account = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
                Self { connection_string: template.replace("{account}", &account), tepui: None }
            }
            Err(_) => {
                let tepui = tepui_client_testing::TestServer::start().await;
                Self { connection_string: tepui.connection_string(), tepui: Some(tepui) }
            }
        }
    }

    pub(crate) fn builder(&self) -> AccountBuilder {
        AccountBuilder::from_connection_string(&self.connection_string).unwrap().retry(Retry::quick())
    }

    pub(crate) fn connection_string(&self) -> String {
        self.connection_string.clone()
    }

    /// The name of the account, and what it is signed with.
    pub(crate) fn signer(&self) -> tepui_wire::auth::Signer {
        let ConnectionString { account, credential, .. } =
            ConnectionString::parse(&self.connection_string).unwrap();
        let Credential::AccountKey(key) = credential else { panic!("tests need the key of the account") };
        tepui_wire::auth::Signer::new(&account.unwrap(), key).unwrap()
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

    /// For what other services do not have. A test that ends here is skipped: `conformance/azurite/run` looks for these words.
    pub(crate) fn tepui(&self, what: &str) -> &tepui_client_testing::TestServer {
        self.tepui.as_ref().unwrap_or_else(|| panic!("only Tepui has {what}"))
    }

    /// Adds a fault: see docs/admin.md.
    pub(crate) async fn fault(&self, rule: &str) {
        self.tepui("faults").fault(rule).await;
    }

    pub(crate) async fn clear_faults(&self) {
        self.tepui("faults").clear_faults().await;
    }

    /// Moves the clock of the server on.
    pub(crate) async fn advance(&self, seconds: u64) {
        self.tepui("a clock that can be set").advance(seconds).await;
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
