use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "all", row = "{id:06}")]
struct Employee {
    id: u32,
    #[split]
    note: String,
    note1: String,
}

fn main() {}
