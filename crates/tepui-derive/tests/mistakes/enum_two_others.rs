use tepui_client::{DynamicEntity, Entity, EntityEnum};

#[derive(Entity)]
#[entity(table = "People")]
#[key(partition = "{department}", row = "{id:06}")]
struct Person {
    department: String,
    id: u32,
}

#[derive(EntityEnum)]
enum Row {
    Person(Person),
    #[other]
    Other(DynamicEntity),
    #[other]
    More(DynamicEntity),
}

fn main() {}
