use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People", kind = "Employee")]
#[key(partition = "all", row = "{id:06}")]
struct Employee {
    id: u32,
    #[property("EntityType")]
    sort: String,
}

fn main() {}
