use tepui_client::PropertyEnum;

#[derive(PropertyEnum)]
enum Status {
    Hired,
    Left(i32),
}

fn main() {}
