use tepui_client::{Entity, EntityEnum};

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
}

#[derive(EntityEnum)]
enum Row {
    Person(Person),
    Nothing,
}

fn main() {}
