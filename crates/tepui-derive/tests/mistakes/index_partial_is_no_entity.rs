use tepui_client::{Entity};

#[derive(Entity)]
#[entity(table = "People", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_email, row = "email_{email}", fields(name))]
struct Employee {
    department: String,
    id: u32,
    email: String,
    name: String,
    age: i32,
}

fn whole(entry: EmployeeByEmail) -> Employee {
    entry.into()
}

fn main() {}
