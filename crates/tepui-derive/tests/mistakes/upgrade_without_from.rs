use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", kind = "Employee")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct EmployeeV1 {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(table = "People", kind = "Employee", version = 2)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[upgrade(from = EmployeeV1)]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

fn main() {}
