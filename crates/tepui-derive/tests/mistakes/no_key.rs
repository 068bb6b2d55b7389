use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
struct Person {
    department: String,
    id: u32,
}

fn main() {}
