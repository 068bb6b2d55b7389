use std::future::Future;
use std::pin::Pin;
use tepui_client::{Account, Entity, Error, Table};

#[derive(Entity)]
#[entity(table = "People", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_email, row = "email_{email}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
}

async fn hire(people: Table<Employee>, employee: Employee) -> Result<(), Error> {
    people.insert(&employee).await?;
    Ok(())
}

fn main() -> Result<(), Error> {
    let people = Account::from_connection_string("UseDevelopmentStorage=true")?.table_of()?;
    let employee = Employee { department: "Sales".to_owned(), id: 223, email: "junc@contoso.com".to_owned() };
    // Never asked for: nothing is sent.
    let _hired: Pin<Box<dyn Future<Output = Result<(), Error>>>> = Box::pin(hire(people, employee));
    Ok(())
}
