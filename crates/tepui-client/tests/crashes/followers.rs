//! Lists, copied properties and views, all of the same entities, and counts.

use crate::copies::{Employee, assert_is_quiet, employee, settled};
use crate::scenario::Scenario;
use crate::site::Site;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tepui_client::entity::Properties;
use tepui_client::patterns::copies::CopyRow;
use tepui_client::patterns::denormalization::{Counter, Denormalized};
use tepui_client::patterns::index_entities::elsewhere::Elsewhere;
use tepui_client::patterns::materialized_view::{MaterializedView, View};
use tepui_client::patterns::outbox::{Outbox, Worker};
use tepui_client::{Account, DynamicEntity, Entity, EntityKey, Error, Match, Table};

const NAMES: [&str; 3] = ["Cao", "Jones", "Smith"];

fn key(id: u32) -> EntityKey {
    Employee::key("Sales", id).unwrap()
}

fn staff(account: &Account) -> Table<Employee> {
    account.table_of().unwrap()
}

async fn employees(site: &Site) -> Vec<Employee> {
    let rows = staff(&site.account).query().partition("dept_Sales").row_prefix("0").all().await.unwrap();
    rows.into_iter().map(|row| row.into_inner()).collect()
}

async fn set_up(account: &Account, tables: &[&str]) -> Result<(), Error> {
    for table in tables {
        account.table(table)?.create().await?;
    }
    account.queue("staff")?.create_if_missing().await.map(drop)
}

/// The changes that all of these scenarios make: a new one, one that changes, one that leaves.
async fn change(outbox: &Outbox<Employee>, leaves_it: bool) -> Result<(), Error> {
    let outbox = if leaves_it { outbox.clone().leave_it_to_workers() } else { outbox.clone() };
    settled(outbox.insert(&employee(2, "two", "Jones")).await)?;
    settled(outbox.modify(&key(1), |one| one.name = "Smith".to_owned()).await)?;
    settled(outbox.delete(&key(2), Match::Any).await)
}

fn worker(outbox: &Outbox<Employee>) -> Worker {
    Worker::of(outbox).attempts(50).delay(Duration::from_secs(1))
}

pub(crate) struct Lists;

impl Lists {
    fn lists(account: &Account) -> Elsewhere<Employee> {
        Elsewhere::new("by_name", account.table("Lists").unwrap(), |one: &Employee| {
            Ok(vec![EntityKey::new("name", one.name.as_str())])
        })
    }

    fn outbox(account: &Account) -> Outbox<Employee> {
        Outbox::without_copies(staff(account), account.queue("staff").unwrap()).with(Self::lists(account))
    }
}

impl Scenario for Lists {
    const NAME: &str = "lists";

    async fn set_up(account: &Account) -> Result<(), Error> {
        set_up(account, &["Staff", "Lists"]).await?;
        Self::outbox(account).insert(&employee(1, "one", "Jones")).await.map(drop)
    }

    async fn author(account: &Account, leaves_it: bool) -> Result<(), Error> {
        change(&Self::outbox(account), leaves_it).await
    }

    fn worker(account: &Account) -> Worker {
        worker(&Self::outbox(account))
    }

    async fn check(site: &Site) {
        let employees = employees(site).await;
        for name in NAMES {
            let members = Self::lists(&site.account).members(&EntityKey::new("name", name)).await.unwrap();
            let expected: Vec<_> =
                employees.iter().filter(|one| one.name == name).map(|one| key(one.id)).collect();
            assert_eq!(members, expected, "{name}");
        }
        assert_is_quiet(site, "staff").await;
    }
}

pub(crate) struct CopiedProperties;

impl CopiedProperties {
    /// The newest address goes into an entity for each name.
    fn outbox(account: &Account) -> Outbox<Employee> {
        let names = account.table("Names").unwrap();
        let copied = Denormalized::new("address", names, |one: &Employee| {
            let properties = DynamicEntity::new("", "").with("Email", one.email.as_str()).to_properties()?;
            Ok(vec![CopyRow { table: None, key: EntityKey::new(Self::partition(one), "name"), properties }])
        });
        let staff = staff(account);
        Outbox::without_copies(staff.clone(), account.queue("staff").unwrap()).with(copied.of(&staff))
    }

    /// Of each name and id, as an entity takes properties of one other.
    fn partition(one: &Employee) -> String {
        format!("{} {}", one.name, one.id)
    }
}

impl Scenario for CopiedProperties {
    const NAME: &str = "copied properties";

    async fn set_up(account: &Account) -> Result<(), Error> {
        set_up(account, &["Staff", "Names"]).await?;
        for name in NAMES {
            for id in 1..=2 {
                let target = DynamicEntity::new(format!("{name} {id}"), "name").with("Own", 1);
                account.table("Names")?.insert(&target).await?;
            }
        }
        Self::outbox(account).insert(&employee(1, "one", "Jones")).await.map(drop)
    }

    async fn author(account: &Account, leaves_it: bool) -> Result<(), Error> {
        change(&Self::outbox(account), leaves_it).await
    }

    fn worker(account: &Account) -> Worker {
        worker(&Self::outbox(account))
    }

    async fn check(site: &Site) {
        let employees = employees(site).await;
        let expected: BTreeMap<_, _> =
            employees.iter().map(|one| (Self::partition(one), one.email.clone())).collect();
        let rows = site.rows("Names").await;
        let targets: Vec<_> = rows.iter().filter(|row| row.key.row_key == "name").collect();
        assert_eq!(targets.len(), 6);
        assert!(targets.iter().all(|row| row.get("Own") == Some(&1.into())), "{targets:?}");
        let email =
            |row: &DynamicEntity| row.get("Email").and_then(|email| email.as_str()).map(str::to_owned);
        let copied: BTreeMap<_, _> =
            targets.iter().filter_map(|row| Some((row.key.partition_key.clone(), email(row)?))).collect();
        assert_eq!(copied, expected);
        assert_is_quiet(site, "staff").await;
    }
}

/// The addresses of each name.
struct ByName;

impl View for ByName {
    type Source = Employee;

    fn keys(&self, one: &Employee) -> Result<Vec<String>, Error> {
        Ok(vec![one.name.clone()])
    }

    fn fold(&self, _: &str, sources: &[Employee]) -> Result<Properties, Error> {
        let emails: Vec<_> = sources.iter().map(|one| one.email.as_str()).collect();
        DynamicEntity::new("", "").with("Emails", emails.join(",")).to_properties()
    }
}

/// A view that is kept up, and rebuilt by its author in between.
pub(crate) struct Views;

impl Views {
    fn view(account: &Account) -> MaterializedView<ByName> {
        MaterializedView::new(ByName, "ByName", &staff(account)).unwrap()
    }

    fn outbox(account: &Account) -> Outbox<Employee> {
        Outbox::without_copies(staff(account), account.queue("staff").unwrap()).with(Self::view(account))
    }
}

impl Scenario for Views {
    const NAME: &str = "views";

    async fn set_up(account: &Account) -> Result<(), Error> {
        set_up(account, &["Staff"]).await?;
        Self::view(account).create_if_missing().await?;
        Self::outbox(account).insert(&employee(1, "one", "Jones")).await.map(drop)
    }

    async fn author(account: &Account, leaves_it: bool) -> Result<(), Error> {
        let outbox = Self::outbox(account);
        let changing = if leaves_it { outbox.clone().leave_it_to_workers() } else { outbox.clone() };
        settled(changing.insert(&employee(2, "two", "Jones")).await)?;
        settled(changing.modify(&key(1), |one| one.name = "Smith".to_owned()).await)?;
        match Self::view(account).rebuild(&outbox).await {
            // Another author may rebuild it at the same time.
            Err(error) if error.kind() != tepui_client::ErrorKind::Conflict => return Err(error),
            _ => {}
        }
        settled(changing.delete(&key(2), Match::Any).await)
    }

    fn worker(account: &Account) -> Worker {
        worker(&Self::outbox(account))
    }

    async fn check(site: &Site) {
        let mut expected = BTreeMap::<String, Vec<String>>::new();
        for one in employees(site).await {
            expected.entry(one.name).or_default().push(one.email);
        }
        let expected: BTreeMap<_, _> =
            expected.into_iter().map(|(name, all)| (name, all.join(","))).collect();
        let read = async || -> BTreeMap<_, _> {
            let rows = Self::view(&site.account).all().await.unwrap();
            let emails =
                |row: &DynamicEntity| row.get("Emails").and_then(|all| all.as_str()).map(str::to_owned);
            rows.into_iter().map(|(key, row)| (key, emails(&row).unwrap())).collect()
        };
        assert_eq!(read().await, expected);
        // What an unfinished rebuild has left is taken up.
        Self::view(&site.account).rebuild(&Self::outbox(&site.account)).await.unwrap();
        assert_eq!(read().await, expected, "rebuilt");
        assert_is_quiet(site, "staff").await;
    }
}

/// Counts, which no worker has to see to: they are right whenever somebody looks.
pub(crate) struct Counts;

impl Scenario for Counts {
    const NAME: &str = "counts";

    async fn set_up(account: &Account) -> Result<(), Error> {
        set_up(account, &["Staff"]).await
    }

    async fn author(account: &Account, _: bool) -> Result<(), Error> {
        let counter = Counter::new(account.table("Staff")?, "department", "Count");
        for id in 1..=3 {
            certain(counter.insert(&DynamicEntity::new("Sales", format!("{id:06}"))).await)?;
        }
        certain(counter.delete(&EntityKey::new("Sales", "000002"), Match::Any).await)
    }

    fn worker(account: &Account) -> Worker {
        worker(&Lists::outbox(account))
    }

    async fn check(site: &Site) {
        let counter = Counter::new(site.table("Staff"), "department", "Count");
        let rows = site.rows("Staff").await;
        let members: BTreeSet<_> =
            rows.iter().map(|row| row.key.row_key.as_str()).filter(|row| *row != "department").collect();
        assert_eq!(counter.count("Sales").await.unwrap(), members.len() as i64, "{members:?}");
    }
}

/// What is in doubt because another author changes the count at the same time is told, and does no harm.
fn certain(outcome: Result<(), Error>) -> Result<(), Error> {
    match settled(outcome) {
        Err(error) if error.kind() != tepui_client::ErrorKind::Unknown => Err(error),
        _ => Ok(()),
    }
}
