use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:6}")]
struct Person {
    department: String,
    id: u32,
}

fn main() {}
