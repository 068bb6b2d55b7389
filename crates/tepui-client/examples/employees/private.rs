//! What not everybody may see, and what is too large for a table: salaries, photos, access of single users.

use crate::{Application, Outcome};
use std::time::Duration;
use tepui_client::patterns::encryption::{AesKey, Policy};
use tepui_client::patterns::large_entity::LargeValues;
use tepui_client::{AccountBuilder, DynamicEntity, Entity, EntityKey};

#[derive(Entity, Debug)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    id: u32,
    #[encrypt]
    amount: i64,
}

#[derive(Entity, Debug)]
#[entity(table = "Notes")]
#[key(partition = "{department}", row = "{user}_{id:06}")]
struct Note {
    department: String,
    user: String,
    id: u32,
    text: String,
}

pub(crate) async fn run(application: &Application) -> Outcome {
    let Application { account, costs, .. } = application;

    application.step("Client-side encryption: the service stores bytes");
    let stored = account.table(&application.name("Salaries"))?;
    stored.create().await?;
    let key = AesKey::new("2026-11", &[7; 32])?; // From where your secrets are.
    let salaries = stored.of::<Salary>().encrypted(Policy::new(key).require());
    salaries.insert(&Salary { department: "Sales".to_owned(), id: 22, amount: 71_000 }).await?;
    let found = salaries.get(&Salary::key("Sales", 22)?).await?.ok_or("no salary")?;
    costs.show(format_args!("{} for who has the key", found.amount));
    stored.delete_table().await?;

    application.step("Large entity: a photo is in a blob, and the employee has a link to it");
    let photos = account.table(&application.name("Photos"))?;
    let container = account.container(&application.name("photos-"))?;
    photos.create().await?;
    container.create_if_missing().await?;
    let key = EntityKey::new("Sales", "000022");
    photos.insert(&DynamicEntity::new("Sales", "000022")).await?;
    let values = LargeValues::new(&photos, &container, "Photo")?;
    values.put(&key, vec![7; 100_000], "image/png").await?;
    let photo = values.fetch(&key).await?.ok_or("no photo")?;
    costs.show(format_args!("{} bytes", photo.bytes.len()));
    photos.delete_table().await?;
    container.delete_container().await?;

    application.step("SAS per user: e2 reads the notes of e2, and not those of e22");
    let notes = account.table(&application.name("Notes"))?.of::<Note>();
    notes.create().await?;
    for user in ["e2", "e22"] {
        let (department, user) = ("Sales".to_owned(), user.to_owned());
        notes.insert(&Note { department, user, id: 1, text: "Call back".to_owned() }).await?;
    }
    let minutes = Duration::from_secs(30 * 60);
    let sas = notes.sas().partition("Sales").rows(Note::rows_with_user("e2")?).read().for_(minutes)?;
    let theirs = AccountBuilder::from_connection_string(&application.connection_string)?.sas(sas.as_str());
    let theirs = theirs.build()?.table(notes.name())?.of::<Note>();
    let own = theirs.get(&Note::key("Sales", "e2", 1)?).await?.is_some();
    let others = theirs.get(&Note::key("Sales", "e22", 1)?).await.is_ok();
    costs.show(format_args!("own: {own}, others': {others}"));
    notes.delete_table().await?;
    Ok(())
}
