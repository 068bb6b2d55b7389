use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    id: u32,
    #[encrypt]
    #[skip]
    amount: i64,
}

fn main() {}
