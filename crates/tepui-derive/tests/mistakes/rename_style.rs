use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", rename_all = "snake_case")]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
}

fn main() {}
