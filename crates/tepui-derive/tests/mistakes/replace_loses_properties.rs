use tepui_client::{Entity, Match, Table};

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
}

async fn overwrite(people: &Table<Employee>, employee: &Employee) {
    let mut hire = people.transaction("Sales").unwrap();
    hire.replace(employee, Match::Any).unwrap();
}

fn main() {}
