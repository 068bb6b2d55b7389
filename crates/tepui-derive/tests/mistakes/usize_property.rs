use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
    count: Option<usize>,
}

fn main() {}
