use tepui_client::{Entity, Match, Projection, Table};

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    age: Option<i32>,
}

#[derive(Projection)]
#[projection(of = Employee)]
struct Age {
    age: Option<i32>,
}

async fn change(people: &Table<Employee>, age: &Age) {
    people.merge_part(&Employee::key("Sales", 1).unwrap(), age, Match::Any).await.unwrap();
}

fn main() {}
