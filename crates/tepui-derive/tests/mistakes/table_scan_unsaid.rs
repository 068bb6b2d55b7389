use tepui_client::Table;

async fn everything(people: &Table) {
    people.query().all().await.unwrap();
}

fn main() {}
