use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
#[index(by_email, row = "email_{email}")]
struct Salary {
    department: String,
    id: u32,
    email: String,
    #[encrypt]
    amount: i64,
}

fn main() {}
