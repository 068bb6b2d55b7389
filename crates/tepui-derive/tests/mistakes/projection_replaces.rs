use tepui_client::{Entity, Match, Projection, Table};

#[derive(Entity)]
#[entity(table = "People", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    email: String,
    age: Option<i32>,
}

#[derive(Projection)]
#[projection(of = Employee)]
struct Contact {
    id: u32,
    email: String,
}

async fn change(people: &Table<Employee>, contact: &Contact) {
    people.replace(contact, Match::Any).await.unwrap();
    people.of::<Contact>().replace(contact, Match::Any).await.unwrap();
}

fn main() {}
