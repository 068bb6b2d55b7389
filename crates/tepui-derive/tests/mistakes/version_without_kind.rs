use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", version = 2)]
#[key(partition = "all", row = "{id:06}")]
struct Employee {
    id: u32,
}

fn main() {}
