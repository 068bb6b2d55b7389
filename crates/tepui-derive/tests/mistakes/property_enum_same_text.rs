use tepui_client::PropertyEnum;

#[derive(PropertyEnum)]
enum Status {
    Hired,
    #[property("Hired")]
    Left,
}

fn main() {}
