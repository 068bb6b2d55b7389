use tepui_client::patterns::encryption::EncryptedTable;
use tepui_client::{Entity, Match};

#[derive(Entity)]
#[entity(table = "Salaries")]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    id: u32,
    #[encrypt]
    amount: i64,
}

async fn replace(table: EncryptedTable<Salary>, salary: Salary) {
    let _ = table.replace(&salary, Match::Any).await;
}

fn main() {}
