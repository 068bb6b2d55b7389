use tepui_client::{DynamicEntity, EntityEnum};

#[derive(EntityEnum)]
enum Row {
    #[other]
    Other(DynamicEntity),
}

fn main() {}
