use tepui_client::Entity;

#[derive(Entity)]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
}

fn main() {}
