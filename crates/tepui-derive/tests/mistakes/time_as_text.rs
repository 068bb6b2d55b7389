use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{at}")]
struct Person {
    department: String,
    at: tepui_client::Timestamp,
}

fn main() {}
