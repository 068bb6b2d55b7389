use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", kind = "Employee")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct EmployeeV1 {
    department: String,
    id: u32,
}

#[derive(Entity)]
#[entity(table = "People", kind = "Employee", version = 1)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[upgrade(from = EmployeeV1)]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

impl From<EmployeeV1> for Employee {
    fn from(old: EmployeeV1) -> Self {
        Self { department: old.department, id: old.id, name: String::new() }
    }
}

fn main() {}
