//! What follows from entities by way of the outbox: indexes, lists, copied properties, views; and counts, which need none.

use crate::outbox::Employee;
use crate::support::TestServer;
use std::time::Duration;
use tepui_client::entity::Properties;
use tepui_client::patterns::copies::CopyRow;
use tepui_client::patterns::denormalization::{Counter, Denormalized};
use tepui_client::patterns::index_across_partitions::IndexAcrossPartitions;
use tepui_client::patterns::index_entities::elsewhere::Elsewhere;
use tepui_client::patterns::materialized_view::{MaterializedView, View};
use tepui_client::patterns::outbox::{Outbox, Worker};
use tepui_client::{Account, DynamicEntity, Entity, EntityKey, Error, ErrorKind, Match, Queue, Table};

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

async fn start() -> (TestServer, Account, Table<Employee>, Queue) {
    let server = TestServer::start().await;
    let account = server.account();
    for table in ["Staff", "Phones", "Lists", "Departments"] {
        account.table(table).unwrap().create().await.unwrap();
    }
    let queue = account.queue("staff").unwrap();
    queue.create_if_missing().await.unwrap();
    let table = account.table_of().unwrap();
    (server, account, table, queue)
}

fn employee(id: u32, email: &str, phone: Option<&str>) -> Employee {
    let (department, email) = ("Sales".to_owned(), email.to_owned());
    Employee { department, id, email, phone: phone.map(str::to_owned) }
}

fn key(id: u32) -> EntityKey {
    Employee::key("Sales", id).unwrap()
}

#[tokio::test]
async fn an_index_across_partitions_is_read_verified_and_repaired() {
    let (_server, account, table, queue) = start().await;
    let outbox = Outbox::new(table.clone(), queue);
    for (id, email) in [(1, "ann"), (2, "abe"), (3, "bob")] {
        outbox.insert(&employee(id, email, Some(&format!("+{id}")))).await.unwrap();
    }
    let by_email = IndexAcrossPartitions::of(&outbox);
    let entries = by_email.query("email").row_prefix("a").all().await.unwrap();
    let primaries: Vec<_> = entries.iter().map(|entry| entry.primary.clone()).collect();
    assert_eq!(primaries, [key(2), key(1)]);
    let by_phone = IndexAcrossPartitions::in_table(&outbox, "Phones").unwrap();
    let entry = by_phone.get(&EntityKey::new("phone", "+3")).await.unwrap().unwrap();
    assert_eq!((entry.primary, entry.copy.get("Id").cloned()), (key(3), Some(3_u32.into())));

    // An entry that is behind: the change is made, but not followed yet.
    outbox.clone().leave_it_to_workers().modify(&key(1), |one| one.email = "zoe".to_owned()).await.unwrap();
    assert_eq!(by_email.query("email").row_prefix("a").all().await.unwrap().len(), 2);
    let found = by_email.query("email").row_prefix("a").verified().all().await.unwrap();
    assert_eq!(found.iter().map(|one| one.id).collect::<Vec<_>>(), [2]);
    assert_eq!(by_email.get_verified(&EntityKey::new("email", "ann")).await.unwrap(), None);
    Worker::of(&outbox).drain().await.unwrap();
    assert!(by_email.get_verified(&EntityKey::new("email", "zoe")).await.unwrap().is_some());
    assert_eq!(by_email.get(&EntityKey::new("email", "ann")).await.unwrap(), None, "a tombstone is no entry");

    let fine = by_email.repair("Sales").await.unwrap();
    assert_eq!((fine.checked, fine.repaired), (3, 0));
    // Writes that nobody has told the outbox of.
    table.merge(&employee(2, "eve", None), Match::Any).await.unwrap();
    table.insert(&employee(4, "new", None)).await.unwrap();
    table.delete(&key(3), Match::Any).await.unwrap();
    account.table("Phones").unwrap().delete(&EntityKey::new("phone", "+1"), Match::Any).await.unwrap();
    assert_eq!(by_email.repair("Sales").await.unwrap().repaired, 3);
    assert_eq!(by_email.repair_entries("email").await.unwrap().repaired, 2, "abe and bob");
    assert_eq!(by_phone.repair_entries("phone").await.unwrap().repaired, 1);
    for repaired in [
        by_email.repair("Sales").await,
        by_email.repair_entries("email").await,
        by_phone.repair_entries("phone").await,
    ] {
        assert_eq!(repaired.unwrap().repaired, 0, "a second time there is nothing to do");
    }
    let entries = by_email.query("email").all().await.unwrap();
    let rows: Vec<_> = entries.iter().map(|entry| entry.copy.key.row_key.as_str()).collect();
    assert_eq!(rows, ["eve", "new", "zoe"]);
    let phones = by_phone.query("phone").all().await.unwrap();
    assert_eq!(phones.iter().map(|entry| entry.primary.clone()).collect::<Vec<_>>(), [key(1), key(2)]);
}

#[tokio::test]
async fn lists_elsewhere_follow() {
    let (server, account, table, queue) = start().await;
    let lists = Elsewhere::new("by_first_letter", account.table("Lists").unwrap(), |one: &Employee| {
        Ok(vec![EntityKey::new("letter", one.email.get(..1).unwrap_or_default())])
    });
    let outbox = Outbox::without_copies(table, queue).with(lists.clone());
    let list = |letter: &str| EntityKey::new("letter", letter);
    // At the same time, so that they meet at the list.
    let hire = |id| {
        let outbox = outbox.clone();
        tokio::spawn(async move { outbox.insert(&employee(id, "a", None)).await })
    };
    for hired in [1, 2, 3, 4].map(hire) {
        hired.await.unwrap().unwrap();
    }
    server.advance(61).await;
    Worker::of(&outbox).delay(Duration::ZERO).drain().await.unwrap();
    assert_eq!(lists.members(&list("a")).await.unwrap(), [key(1), key(2), key(3), key(4)]);
    outbox.modify(&key(2), |one| one.email = "b".to_owned()).await.unwrap();
    outbox.delete(&key(3), Match::Any).await.unwrap();
    assert_eq!(lists.members(&list("a")).await.unwrap(), [key(1), key(4)]);
    assert_eq!(lists.members(&list("b")).await.unwrap(), [key(2)]);
    assert_eq!(lists.members(&list("c")).await.unwrap(), []);
    // Nothing that cannot be a key is committed.
    let refused = outbox.insert(&employee(5, "/", None)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::KeyInvalid);
    assert_eq!(outbox.table().get(&key(5)).await.unwrap(), None);

    assert_eq!(lists.sweep(&list("a"), Duration::from_secs(1)).await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(lists.sweep(&list("a"), WEEK).await.unwrap(), 0, "noted");
    server.advance(8 * 24 * 60 * 60).await;
    assert_eq!(lists.sweep(&list("a"), WEEK).await.unwrap(), 2);
    assert_eq!(lists.members(&list("a")).await.unwrap(), [key(1), key(4)]);
}

#[tokio::test]
async fn copied_properties_follow() {
    let (_server, account, table, queue) = start().await;
    let departments = account.table("Departments").unwrap();
    // Whoever has a telephone answers for the department of that number.
    let contact = Denormalized::new("contact", departments.clone(), |one: &Employee| {
        let Some(phone) = &one.phone else { return Ok(Vec::new()) };
        let properties = DynamicEntity::new("", "").with("Contact", one.email.as_str()).to_properties()?;
        Ok(vec![CopyRow { table: None, key: EntityKey::new(phone.as_str(), "department"), properties }])
    });
    let outbox = Outbox::without_copies(table.clone(), queue).with(contact.of(&table));
    let read = async |department: &str| {
        let found = departments.get(&EntityKey::new(department, "department")).await.unwrap();
        found.map(|one| one.into_inner().with("Floor", 0)).and_then(|one| one.get("Contact").cloned())
    };
    departments.insert(&DynamicEntity::new("d1", "department").with("Floor", 1)).await.unwrap();
    outbox.insert(&employee(1, "ann", Some("d1"))).await.unwrap();
    assert_eq!(read("d1").await, Some("ann".into()));
    outbox.modify(&key(1), |one| one.email = "eve".to_owned()).await.unwrap();
    assert_eq!(read("d1").await, Some("eve".into()));

    // To a department that is not there yet, and another takes the first.
    outbox.modify(&key(1), |one| one.phone = Some("d2".to_owned())).await.unwrap();
    assert_eq!((read("d1").await, read("d2").await), (None, None));
    outbox.insert(&employee(2, "bob", Some("d1"))).await.unwrap();
    assert_eq!(read("d1").await, Some("bob".into()));
    let second = EntityKey::new("d2", "department");
    assert!(!contact.fill(&second).await.unwrap(), "not there");
    departments.insert(&DynamicEntity::new("d2", "department").with("Floor", 2)).await.unwrap();
    assert!(contact.fill(&second).await.unwrap());
    assert!(!contact.fill(&second).await.unwrap(), "it has it");
    assert_eq!(read("d2").await, Some("eve".into()));
    let floor = departments.get(&second).await.unwrap().unwrap().get("Floor").cloned();
    assert_eq!(floor, Some(2.into()), "the department's own properties stay");
    outbox.delete(&key(1), Match::Any).await.unwrap();
    assert_eq!(read("d2").await, None);
}

#[tokio::test]
async fn a_counter_is_the_number_of_members() {
    let (server, _, table, _) = start().await;
    let counter = Counter::new(table.of::<DynamicEntity>(), "department", "EmployeeCount");
    let counter = std::sync::Arc::new(counter);
    let department = DynamicEntity::new("Sales", "department").with("Floor", 3);
    table.of::<DynamicEntity>().insert(&department).await.unwrap();
    server.fault(r#"{"operation":"EntityGroupTransaction","when":"after","cut":true,"count":1}"#).await;
    counter.insert(&DynamicEntity::new("Sales", "000001")).await.unwrap();
    server.clear_faults().await;
    let hire = |id: u32| {
        let counter = std::sync::Arc::clone(&counter);
        tokio::spawn(async move { counter.insert(&DynamicEntity::new("Sales", format!("{id:06}"))).await })
    };
    for hired in [2, 3, 4, 5].map(hire) {
        hired.await.unwrap().unwrap();
    }
    counter.delete(&EntityKey::new("Sales", "000002"), Match::Any).await.unwrap();
    let again = counter.insert(&DynamicEntity::new("Sales", "000001")).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let missing = counter.delete(&EntityKey::new("Sales", "000002"), Match::Any).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(counter.count("Sales").await.unwrap(), 4);
    assert_eq!(counter.count("Admin").await.unwrap(), 0);
    let rows = table.of::<DynamicEntity>().query().partition("Sales").all().await.unwrap();
    assert_eq!(rows.len(), 5, "four members, and the department");
    assert_eq!(rows.iter().find_map(|row| row.get("Floor").cloned()), Some(3.into()));
    let itself = counter.insert(&department).await.unwrap_err();
    assert_eq!(itself.kind(), ErrorKind::Refused);
}

/// How many there are of each first letter, and who they are.
struct ByLetter;

impl View for ByLetter {
    type Source = Employee;

    fn keys(&self, one: &Employee) -> Result<Vec<String>, Error> {
        Ok(one.email.get(..1).map(str::to_owned).into_iter().chain(["all".to_owned()]).collect())
    }

    fn fold(&self, key: &str, sources: &[Employee]) -> Result<Properties, Error> {
        let names: Vec<_> = sources.iter().map(|one| one.email.as_str()).collect();
        let count = i64::try_from(sources.len()).unwrap_or(i64::MAX);
        DynamicEntity::new("", "")
            .with("Key", key)
            .with("Count", count)
            .with("Names", names.join(","))
            .to_properties()
    }
}

#[tokio::test]
async fn a_view_that_is_rebuilt_is_the_one_that_was_kept_up() {
    let (_server, account, table, queue) = start().await;
    let view = MaterializedView::new(ByLetter, "Letters", &table).unwrap();
    assert_eq!(view.get("a").await.unwrap_err().kind(), ErrorKind::NotFound, "not created");
    view.create_if_missing().await.unwrap();
    view.create_if_missing().await.unwrap();
    let outbox = Outbox::without_copies(table.clone(), queue).with(view.clone());
    for (id, email) in [(1, "ann"), (2, "abe"), (3, "bob"), (4, "cid")] {
        outbox.insert(&employee(id, email, None)).await.unwrap();
    }
    outbox.modify(&key(2), |one| one.email = "ben".to_owned()).await.unwrap();
    outbox.delete(&key(4), Match::Any).await.unwrap();
    let names =
        async |letter: &str| view.get(letter).await.unwrap().and_then(|row| row.get("Names").cloned());
    assert_eq!(names("a").await, Some("ann".into()));
    assert_eq!(names("b").await, Some("ben,bob".into()));
    assert_eq!(names("c").await, None);
    assert_eq!(names("all").await, Some("ann,ben,bob".into()));

    let kept_up = view.all().await.unwrap();
    let rebuilt = view.rebuild(&outbox).await.unwrap();
    assert_eq!((rebuilt.sources, rebuilt.rows, rebuilt.former.as_str()), (3, 3, "Letters1"));
    assert_eq!(view.all().await.unwrap(), kept_up);
    account.table(&rebuilt.former).unwrap().delete_table().await.unwrap();
    outbox.modify(&key(1), |one| one.email = "amy".to_owned()).await.unwrap();
    assert_eq!(names("a").await, Some("amy".into()));
    // An entity that nobody has told of is found by a rebuild.
    table.insert(&employee(5, "eve", None)).await.unwrap();
    view.rebuild(&outbox).await.unwrap();
    assert_eq!(names("e").await, Some("eve".into()));
}

#[tokio::test]
async fn changes_during_a_rebuild_are_in_the_view() {
    let (_server, _, table, queue) = start().await;
    let view = MaterializedView::new(ByLetter, "Letters", &table).unwrap();
    view.create_if_missing().await.unwrap();
    let outbox = Outbox::without_copies(table.clone(), queue).with(view.clone());
    for id in 0..20 {
        outbox.insert(&employee(id, &format!("a{id}"), None)).await.unwrap();
    }
    let changing = outbox.clone();
    let changes = tokio::spawn(async move {
        for id in 0..20 {
            match id % 3 {
                0 => changing.delete(&key(id), Match::Any).await.map(drop).unwrap(),
                1 => changing.modify(&key(id), |one| one.email = format!("b{id}")).await.map(drop).unwrap(),
                _ => changing.insert(&employee(100 + id, "new", None)).await.map(drop).unwrap(),
            }
        }
    });
    view.rebuild(&outbox).await.unwrap();
    changes.await.unwrap();
    Worker::of(&outbox).drain().await.unwrap();
    let incremental = view.all().await.unwrap();
    view.rebuild(&outbox).await.unwrap();
    assert_eq!(view.all().await.unwrap(), incremental);
    let count = view.get("all").await.unwrap().unwrap().get("Count").cloned();
    assert_eq!(count, Some(19_i64.into()));
}
