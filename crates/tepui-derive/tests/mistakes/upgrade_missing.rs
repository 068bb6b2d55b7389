use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", kind = "Employee", version = 2)]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

fn main() {}
