//! Copies in another partition, in another table, in the same partition, also of entities that move or are archived.

use crate::scenario::Scenario;
use crate::site::Site;
use std::collections::BTreeMap;
use std::time::Duration;
use tepui_client::patterns::copies::{Copies, CopyRow};
use tepui_client::patterns::outbox::{Outbox, Worker};
use tepui_client::{Account, DynamicEntity, Entity, EntityKey, Error, ErrorKind, Match};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", closed, rename_all = "PascalCase")]
#[key(partition = "dept_{department}", row = "{id:06}")]
pub(crate) struct Employee {
    pub(crate) department: String,
    pub(crate) id: u32,
    pub(crate) email: String,
    pub(crate) name: String,
}

impl Copies for Employee {
    fn copies(&self) -> Result<Vec<CopyRow>, Error> {
        let properties = |name: &str| DynamicEntity::new("", "").with("Name", name).to_properties();
        Ok(vec![
            CopyRow {
                table: None,
                key: EntityKey::new("email", self.email.as_str()),
                properties: properties(&self.name)?,
            },
            CopyRow {
                table: Some("Names".to_owned()),
                key: EntityKey::new(self.name.as_str(), format!("{:06}", self.id)),
                properties: properties(&self.email)?,
            },
            CopyRow {
                table: None,
                key: EntityKey::new(format!("dept_{}", self.department), format!("email_{}", self.email)),
                properties: properties(&self.name)?,
            },
        ])
    }
}

pub(crate) fn employee(id: u32, email: &str, name: &str) -> Employee {
    Employee { department: "Sales".to_owned(), id, email: email.to_owned(), name: name.to_owned() }
}

pub(crate) struct IndexEntries;

pub(crate) struct Moves;

fn outbox(account: &Account, leaves_it: bool) -> Outbox<Employee> {
    let queue = account.queue("staff").unwrap();
    let archive = Outbox::without_copies(account.table("Former").unwrap().of(), queue.clone());
    let outbox = Outbox::new(account.table_of().unwrap(), queue).archive_to(archive);
    if leaves_it { outbox.leave_it_to_workers() } else { outbox }
}

fn key(id: u32) -> EntityKey {
    Employee::key("Sales", id).unwrap()
}

async fn set_up(account: &Account, employees: &[Employee]) -> Result<(), Error> {
    for table in ["Staff", "Names", "Former"] {
        account.table(table)?.create().await?;
    }
    account.queue("staff")?.create_if_missing().await?;
    for employee in employees {
        outbox(account, false).insert(employee).await?;
    }
    Ok(())
}

fn worker(account: &Account) -> Worker {
    Worker::of(&outbox(account, false)).attempts(50).delay(Duration::from_secs(1))
}

/// Whether something was done, or need not be done any more because another author was there.
pub(crate) fn settled<T>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => Err(error),
        _ => Ok(()),
    }
}

impl Scenario for IndexEntries {
    const NAME: &str = "index entries";

    async fn set_up(account: &Account) -> Result<(), Error> {
        set_up(account, &[employee(1, "one", "Jones")]).await
    }

    async fn author(account: &Account, leaves_it: bool) -> Result<(), Error> {
        let outbox = outbox(account, leaves_it);
        // One leaves an address, another takes it, and leaves.
        settled(
            outbox.modify(&key(1), |one| (one.email, one.name) = ("uno".to_owned(), "Cao".to_owned())).await,
        )?;
        settled(outbox.insert(&employee(2, "one", "Jones")).await)?;
        settled(outbox.delete(&key(2), Match::Any).await)
    }

    fn worker(account: &Account) -> Worker {
        worker(account)
    }

    async fn check(site: &Site) {
        check(site, &["000001"]).await;
    }
}

impl Scenario for Moves {
    const NAME: &str = "moves";

    async fn set_up(account: &Account) -> Result<(), Error> {
        set_up(account, &[employee(1, "one", "Jones"), employee(2, "two", "Jones")]).await
    }

    async fn author(account: &Account, leaves_it: bool) -> Result<(), Error> {
        let outbox = outbox(account, leaves_it);
        settled(outbox.move_to(&key(1), Match::Any, &Employee::key("Admin", 1)?).await)?;
        settled(outbox.archive(&key(2), Match::Any).await)
    }

    fn worker(account: &Account) -> Worker {
        worker(account)
    }

    async fn check(site: &Site) {
        check(site, &["000001", "000002"]).await;
    }
}

/// Entries are what the entities say, and each entity is in one place.
async fn check(site: &Site, expected_ids: &[&str]) {
    let is_live = |row: &DynamicEntity| row.get("Name").is_some();
    let (mut primaries, mut copies) = (Vec::new(), BTreeMap::new());
    for row in site.rows("Staff").await {
        if row.key.row_key.starts_with('~') {
            assert!(!is_live(&row), "{row:?}");
        } else if row.get("Email").is_some() {
            let key = row.key.clone();
            let found = site.account.table_of::<Employee>().unwrap().get(&key).await.unwrap();
            primaries.push(found.unwrap().into_inner());
        } else if is_live(&row) {
            copies.insert(("Staff".to_owned(), row.key.partition_key.clone(), row.key.row_key.clone()), row);
        }
    }
    for row in site.rows("Names").await.into_iter().filter(is_live) {
        copies.insert(("Names".to_owned(), row.key.partition_key.clone(), row.key.row_key.clone()), row);
    }
    let expected: BTreeMap<_, _> = primaries
        .iter()
        .flat_map(|primary| primary.copies().unwrap())
        .map(|copy| {
            let table = copy.table.unwrap_or_else(|| "Staff".to_owned());
            let EntityKey { partition_key, row_key } = copy.key;
            ((table, partition_key, row_key), copy.properties)
        })
        .collect();
    let copies: BTreeMap<_, _> =
        copies.into_iter().map(|(key, row)| (key, row.to_properties().unwrap())).collect();
    assert_eq!(copies, expected, "of {primaries:?}");
    // An entity that moves is in one place.
    let former = site.rows("Former").await;
    let former = former.iter().filter(|row| row.get("Email").is_some()).map(|row| &row.key.row_key);
    let mut ids: Vec<_> =
        primaries.iter().map(|one| format!("{:06}", one.id)).chain(former.cloned()).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "somewhere twice: {primaries:?}");
    for id in expected_ids {
        assert!(ids.iter().any(|known| known == id), "{id} is lost: {primaries:?}");
    }
    assert_is_quiet(site, "staff").await;
}

/// No messages, no poison, and no marker of a change that was not followed.
pub(crate) async fn assert_is_quiet(site: &Site, queue: &str) {
    assert_eq!(site.queue(queue).approximate_count().await.unwrap(), 0);
    let poison = site.queue(&format!("{queue}-poison")).approximate_count().await;
    assert!(poison.is_err_and(|error| error.kind() == ErrorKind::NotFound), "nothing is poison here");
}
