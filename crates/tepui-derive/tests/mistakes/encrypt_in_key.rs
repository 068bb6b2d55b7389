use tepui_client::Entity;

#[derive(Entity)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    #[encrypt]
    id: u32,
}

fn main() {}
