//! The application of the table design guide, with the guide's patterns: departments and their employees, reviews, logins,
//! expense claims. After each step it prints what the requests of the step cost, where the service says so: Tepui does.
//!
//! ```text
//! cargo run -p tepui-client --example employees [CONNECTION STRING]
//! ```
//!
//! Without an argument it asks the development account on this machine, which Tepui and Azurite serve. It makes tables, a
//! queue and a container of its own and deletes them in the end.

mod costs;
mod directory;
mod events;
mod private;
mod staff;

use costs::Costs;
use std::error::Error;
use tepui_client::{Account, AccountBuilder, Retry};

/// What a step ends with.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// What all steps share.
pub(crate) struct Application {
    pub(crate) account: Account,
    pub(crate) connection_string: String,
    pub(crate) costs: Costs,
    /// Behind all names, so that two runs at a time do not get in each other's way.
    pub(crate) suffix: u32,
}

impl Application {
    /// A name of this run.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Prints the title of a step.
    pub(crate) fn step(&self, title: &str) {
        println!("\n{title}");
        self.costs.forget();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let connection_string = std::env::args().nth(1);
    run(connection_string.as_deref().unwrap_or("UseDevelopmentStorage=true")).await
}

/// Also called by a test.
pub(crate) async fn run(connection_string: &str) -> Outcome {
    let costs = Costs::default();
    let recorder = costs.clone();
    let builder = AccountBuilder::from_connection_string(connection_string)?;
    let account = builder.retry(Retry::quick()).observe(move |request| recorder.record(request)).build()?;
    let connection_string = connection_string.to_owned();
    let application = Application { account, connection_string, costs, suffix: std::process::id() };
    staff::run(&application).await?;
    directory::run(&application).await?;
    events::run(&application).await?;
    private::run(&application).await
}
