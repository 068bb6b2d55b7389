use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "all", row = "{name}")]
struct Employee {
    #[split]
    name: String,
}

fn main() {}
