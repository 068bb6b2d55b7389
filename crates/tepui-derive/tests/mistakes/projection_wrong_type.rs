use tepui_client::{Entity, Projection};

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    age: Option<i32>,
}

#[derive(Projection)]
#[projection(of = Employee)]
struct Age {
    age: i32,
}

fn main() {}
