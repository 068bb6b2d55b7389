use tepui_client::{Entity, Table};

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    age: i32,
}

fn old(people: &Table<Employee>) {
    people.partition("Sales").all_rows().filter(Employee::AGE.gt(60));
}

fn main() {}
