use tepui_client::{Entity, Table};

#[derive(Entity)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    id: u32,
    #[encrypt]
    amount: i64,
}

async fn insert(table: Table<Salary>, salary: Salary) {
    let _ = table.insert(&salary).await;
}

fn main() {}
