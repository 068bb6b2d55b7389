use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{at:asc}", row = "{id:06}")]
struct Person {
    at: tepui_client::Timestamp,
    id: u32,
}

fn main() {}
