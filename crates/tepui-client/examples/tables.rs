//! A tour of tables: `cargo run -p tepui-client --example tables [CONNECTION STRING]`.
//!
//! Without an argument it asks the development account on this machine, which Tepui and Azurite serve. It makes a table of
//! its own and deletes it in the end. After each step it prints what the step cost, where the service says so.

use std::error::Error;
use tepui_client::filter::property;
use tepui_client::{AccountBuilder, DynamicEntity, EntityKey, ErrorKind, Match, Retry, SentRequest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let connection = std::env::args().nth(1);
    tour(connection.as_deref().unwrap_or("UseDevelopmentStorage=true")).await
}

/// Also called by a test.
pub(crate) async fn tour(connection_string: &str) -> Result<(), Box<dyn Error>> {
    let builder = AccountBuilder::from_connection_string(connection_string)?;
    let account = builder.retry(Retry::quick()).observe(print_cost).build()?;
    // Two runs at a time do not get in each other's way.
    let employees = account.table(&format!("TourEmployees{}", std::process::id()))?;

    println!("A table, and a hundred employees of two departments. Not atomic: each has its own outcome.");
    employees.create().await?;
    let hired = (0..100).map(|id| {
        let department = if id % 2 == 0 { "Sales" } else { "Marketing" };
        DynamicEntity::new(department, format!("empid_{id:06}"))
            .with("Age", 20 + id % 45)
            .with("Visits", 0_i64)
    });
    let report = employees.bulk().insert(hired).await;
    println!("{} of {} written", report.written(), report.outcomes.len());

    println!("\nOne of them, by both keys: the cheapest read there is.");
    let key = EntityKey::new("Sales", "empid_000042");
    let found = employees.get(&key).await?.ok_or("the employee is not there")?;
    println!("{:?}, version {}", found.get("Age"), found.etag);

    println!("\nAn update that nobody else's is lost by, and one that comes too late.");
    employees
        .modify(&key, |employee| {
            let visits = employee.get("Visits").and_then(|visits| visits.as_i64()).unwrap_or(0);
            employee.set("Visits", visits + 1);
        })
        .await?;
    match employees.replace(&found, &found).await {
        Err(error) if error.kind() == ErrorKind::Conflict => println!("refused: {error}"),
        other => println!("unexpected: {other:?}"),
    }

    println!("\nA range of one partition: all that is read is returned.");
    let few = employees.partition("Sales").row_prefix("empid_00001").all().await?;
    println!("{} employees", few.len());

    println!("\nA filter on a property, in pages: the whole partition is read for it.");
    let mut pages = employees.partition("Sales").scan().filter(property("Age").lt(30)).page_size(10).pages();
    while let Some(page) = pages.next_page().await? {
        println!(
            "{} employees; the next page: {}",
            page.entities.len(),
            page.next.map_or("none".into(), |next| next.to_string())
        );
    }

    println!("\nTwo changes of one partition, together or not at all.");
    let mut transaction = employees.transaction("Sales")?;
    transaction.delete(&key, Match::Any)?;
    transaction.insert(&DynamicEntity::new("Sales", "former_000042").with("Age", 62))?;
    transaction.commit().await?;

    employees.delete_table().await?;
    Ok(())
}

fn print_cost(request: &SentRequest<'_>) {
    if let Some(receipt) = request.receipt {
        println!("    {} {}: {receipt}", request.method, request.service);
    }
}
