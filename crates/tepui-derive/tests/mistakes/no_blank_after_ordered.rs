use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department:ordered}_{id:06}", row = "1")]
struct Person {
    department: String,
    id: u32,
}

fn main() {}
