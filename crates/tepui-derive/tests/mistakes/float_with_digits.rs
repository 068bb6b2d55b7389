use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{score:06}")]
struct Person {
    department: String,
    score: f64,
}

fn main() {}
