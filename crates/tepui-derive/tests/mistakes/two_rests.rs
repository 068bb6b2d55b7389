use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
    #[rest]
    others: tepui_client::entity::Properties,
    #[rest]
    more: tepui_client::entity::Properties,
}

fn main() {}
