use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_email, partition = "email_{email}", row = "email_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    name: Option<String>,
}

fn main() {}
