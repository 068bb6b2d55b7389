use tepui_client::{Entity, EntityEnum};

#[derive(Entity, EntityEnum)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
}

fn main() {}
