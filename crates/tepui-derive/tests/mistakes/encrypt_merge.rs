use tepui_client::patterns::encryption::EncryptedTable;
use tepui_client::{Entity, Match, Table};

#[derive(Entity)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    id: u32,
    #[encrypt]
    amount: i64,
}

async fn plain(table: Table<Salary>, salary: Salary) {
    let _ = table.merge(&salary, Match::Any).await;
}

async fn encrypted(table: EncryptedTable<Salary>, salary: Salary) {
    let _ = table.merge(&salary, Match::Any).await;
}

fn main() {}
