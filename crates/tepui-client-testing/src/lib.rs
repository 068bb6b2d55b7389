//! For tests and examples of `tepui-client`: a server in the same process, with everything in memory.
//!
//! Examples in documentation run with two hidden lines, one before and one after what is shown:
//!
//! ```
//! # tepui_client_testing::run(async |account| {
//! let people = account.table("People")?;
//! assert!(people.create_if_missing().await?);
//! # Ok(()) });
//! ```
//!
//! | | gives an example |
//! | --- | --- |
//! | [`run`] | an account with nothing in it |
//! | [`run_with_table`] | an empty table |
//! | [`run_with_connection_string`] | the connection string of such an account |
//!
//! Errors of any type may be returned with `?`; they fail the test.

#![expect(clippy::unwrap_used, reason = "only tests and examples use it")]

mod server;

pub use server::TestServer;

use std::error::Error;
use tepui_client::{Account, Table};

/// What an example ends with.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Runs an example with an account that has nothing in it.
///
/// ```should_panic
/// tepui_client_testing::run(async |account| Err(account.table("9lives").unwrap_err().into()));
/// ```
pub fn run(example: impl AsyncFnOnce(Account) -> Outcome) {
    with_server(async |server| example(server.account()).await);
}

/// Runs an example with an empty table.
///
/// ```
/// tepui_client_testing::run_with_table(async |table| Ok(assert!(!table.create_if_missing().await?)));
/// ```
pub fn run_with_table(example: impl AsyncFnOnce(Table) -> Outcome) {
    with_server(async |server| {
        let table = server.account().table("Example")?;
        table.create().await?;
        example(table).await
    });
}

/// Runs an example with the connection string of an account that has nothing in it.
///
/// ```
/// use tepui_client::Account;
/// tepui_client_testing::run_with_connection_string(async |connection_string| {
///     let account = Account::from_connection_string(&connection_string)?;
///     Ok(assert!(account.table_names("").await?.is_empty()))
/// });
/// ```
pub fn run_with_connection_string(example: impl AsyncFnOnce(String) -> Outcome) {
    with_server(async |server| example(server.connection_string()).await);
}

fn with_server(example: impl AsyncFnOnce(&TestServer) -> Outcome) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(async {
        let server = TestServer::start().await;
        example(&server).await
    });
    if let Err(error) = outcome {
        panic!("the example ended with an error: {error}");
    }
}
