use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:06}")]
enum Person {
    Known,
}

fn main() {}
