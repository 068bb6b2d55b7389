use tepui_client::{Entity, Table};

#[derive(Entity)]
#[entity(table = "People", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_name, partition = "name_{name}", row = "name_{department}_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    name: String,
}

async fn hire(people: &Table<Employee>, employee: &Employee) {
    people.indexed().insert(employee).await.unwrap();
}

fn main() {}
