//! Indexes in the partition of their entities: at every moment the copies are those that follow from the entities.

use crate::support::TestServer;
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tepui_client::entity::Properties;
use tepui_client::entity::typed::IndexEntry as _;
use tepui_client::patterns::copies::{Copies, CopyRow};
use tepui_client::patterns::index_within_partition::CopiesWithinPartition;
use tepui_client::{
    DynamicEntity, Entity, EntityKey, Error, ErrorKind, Match, PropertyEnum, ReplaceEntity, StoredEntity,
    Table,
};

#[derive(PropertyEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Junior,
    Senior,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Staff", closed, entry_derive(Debug, Clone, PartialEq))]
#[key(partition = "{department}", row = "empid_{id:06}")]
#[index(by_email, row = "email_{email}")]
#[index(by_name, row = "name_{name:ordered} {id:06}", fields(level))]
#[index(by_level, row = "level_{level}_{id:06}", fields())]
struct Employee {
    department: String,
    id: u32,
    email: String,
    name: String,
    level: Level,
    age: Option<i32>,
}

fn employee(id: u32, email: &str) -> Employee {
    let (department, name) = ("Sales".to_owned(), format!("Name {}", id % 3));
    Employee { department, id, email: email.to_owned(), name, level: Level::Junior, age: Some(30) }
}

fn key(id: u32) -> EntityKey {
    Employee::key("Sales", id).unwrap()
}

async fn started() -> (TestServer, Table<Employee>) {
    let server = TestServer::start().await;
    let table = server.account().table_of::<Employee>().unwrap();
    table.create().await.unwrap();
    (server, table)
}

/// The rows of the partition, as one request saw them.
async fn rows(table: &Table<Employee>) -> BTreeMap<String, Properties> {
    let page = table.of::<DynamicEntity>().partition("Sales").page().await.unwrap();
    assert!(page.next.is_none(), "one page is one moment");
    page.entities.iter().map(|row| (row.key.row_key.clone(), row.to_properties().unwrap())).collect()
}

/// Whether the copies are those that follow from the entities: all of them, and no others.
fn check(rows: &BTreeMap<String, Properties>) -> usize {
    let (mut expected, mut entities) = (BTreeMap::new(), 0);
    for (row_key, properties) in rows.iter().filter(|(row_key, _)| row_key.starts_with("empid_")) {
        let stored = StoredEntity {
            key: EntityKey::new("Sales", row_key.as_str()),
            etag: tepui_client::ETag::new(""),
            timestamp: None,
            properties: properties.clone(),
        };
        let copies = Employee::from_stored(&stored).unwrap().copies().unwrap();
        expected.extend(copies.into_iter().map(|copy| (copy.key.row_key, copy.properties)));
        expected.insert(row_key.clone(), properties.clone());
        entities += 1;
    }
    let names = |rows: &BTreeMap<String, Properties>| rows.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(rows), names(&expected));
    assert_eq!(*rows, expected);
    entities
}

/// Of entries of any index.
macro_rules! ids {
    ($found:expr) => {
        $found.iter().map(|entry| entry.id).collect::<Vec<u32>>()
    };
}

#[tokio::test]
async fn entities_are_found_by_their_indexes() {
    let (_server, table) = started().await;
    for id in 0..6 {
        table.indexed().insert(&employee(id, &format!("{id}@contoso.com"))).await.unwrap();
    }
    assert_eq!(check(&rows(&table).await), 6);
    let found = table.partition("Sales").by_email().with_email("3@contoso.com").all().await.unwrap();
    assert_eq!(Employee::from(found[0].entity.clone()), employee(3, "3@contoso.com"));
    let named = table.partition("Sales").by_name().with_name("Name 1").all().await.unwrap();
    assert_eq!(ids!(named), [1, 4]);
    assert_eq!((named[0].level, named[0].primary_key().unwrap()), (Level::Junior, key(1)));
    let prefixed = table.partition("Sales").by_name().name_prefix("Name ").all().await.unwrap();
    assert_eq!(ids!(prefixed), [0, 3, 1, 4, 2, 5]);
    let juniors = table.partition("Sales").by_level().id(Level::Junior, 2..=3).all().await.unwrap();
    assert_eq!(ids!(juniors), [2, 3]);
    let whole = table.get_primary(&juniors[0].entity).await.unwrap().unwrap();
    assert_eq!(*whole, employee(2, "2@contoso.com"));
    // Copies are no employees, whatever properties they have.
    assert_eq!(ids!(table.scan().filter(Employee::AGE.eq(30)).all().await.unwrap()), [0, 1, 2, 3, 4, 5]);
    assert_eq!(ids!(table.partition("Sales").all_rows().all().await.unwrap()).len(), 6);
}

#[tokio::test]
async fn changes_of_keys_take_their_copies_along() {
    let (_server, table) = started().await;
    let people = table.indexed();
    people.insert(&employee(1, "a@contoso.com")).await.unwrap();
    people.insert(&employee(2, "b@contoso.com")).await.unwrap();
    let twice = people.insert(&employee(3, "a@contoso.com")).await.unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::AlreadyExists);
    let taken = people.update(&key(1), |one| one.email = "b@contoso.com".to_owned()).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    assert_eq!(check(&rows(&table).await), 2);

    let changed = people.update(&key(1), |one| one.age = None).await.unwrap();
    assert_eq!(table.get(&key(1)).await.unwrap().unwrap().etag, changed.etag);
    people.update(&key(1), |one| one.id = 7).await.unwrap();
    assert!(table.get(&key(1)).await.unwrap().is_none());
    let moved = people.update(&key(7), |one| one.department = "IT".to_owned()).await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Refused);
    assert!(moved.message().contains("another partition"), "{moved}");
    assert_eq!(check(&rows(&table).await), 2);
    people.delete(&key(7)).await.unwrap();
    assert_eq!(people.delete(&key(7)).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(people.update(&key(7), |_| {}).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(check(&rows(&table).await), 1);
}

/// Entities that were there before the index, and so have no copies.
#[tokio::test]
async fn missing_copies_are_written_by_a_change_or_a_repair() {
    let (_server, table) = started().await;
    let people = table.indexed();
    let raw = table.of::<DynamicEntity>();
    for id in 0..4 {
        people.insert(&employee(id, &format!("{id}@contoso.com"))).await.unwrap();
        raw.delete(&EntityKey::new("Sales", format!("email_{id}@contoso.com")), Match::Any).await.unwrap();
    }
    people.update(&key(0), |one| one.email = "x@contoso.com".to_owned()).await.unwrap();
    people.repair(&key(1)).await.unwrap();
    people.delete(&key(2)).await.unwrap();
    people.update(&key(3), |one| one.age = Some(1)).await.unwrap();
    assert_eq!(check(&rows(&table).await), 3);
}

/// An answer that was lost is no failure: nothing is tried again on a guess, and the copies are right either way.
#[tokio::test]
async fn lost_answers_are_unknown_or_settled() {
    let (server, table) = started().await;
    for settles in [false, true] {
        let people = if settles { table.with_write_tokens().indexed() } else { table.indexed() };
        let id = 1 + u32::from(settles);
        for step in 0..3 {
            server.clear_faults().await;
            server
                .fault(r#"{"operation":"EntityGroupTransaction","when":"after","cut":true,"count":1}"#)
                .await;
            let outcome = match step {
                0 => people.insert(&employee(id, &format!("{id}@contoso.com"))).await.map(drop),
                1 => people.update(&key(id), |one| one.email.push('x')).await.map(drop),
                _ => people.delete(&key(id)).await,
            };
            // A deletion leaves no token behind that could tell.
            if settles && step < 2 {
                outcome.unwrap();
            } else {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unknown, "{step}");
            }
            let read = table.get(&key(id)).await.unwrap().map(|one| one.email.clone());
            let expected = [Some(format!("{id}@contoso.com")), Some(format!("{id}@contoso.comx")), None];
            assert_eq!(read, expected[step], "it was carried out once");
            check(&rows(&table).await);
        }
    }
}

/// An entity with as many copies as it says.
struct Many(u32);

impl Entity for Many {
    fn entity_key(&self) -> Result<EntityKey, Error> {
        Ok(EntityKey::new("Sales", "many"))
    }
    fn to_properties(&self) -> Result<Properties, Error> {
        DynamicEntity::new("", "").with("Copies", self.0).to_properties()
    }
    fn from_stored(stored: &StoredEntity) -> Result<Self, Error> {
        let copies = DynamicEntity::from_stored(stored)?.get("Copies").and_then(|copies| copies.as_i64());
        Ok(Self(copies.and_then(|copies| copies.try_into().ok()).ok_or_else(|| Error::decode("Copies"))?))
    }
}

impl ReplaceEntity for Many {}
impl CopiesWithinPartition for Many {}

impl Copies for Many {
    fn copies(&self) -> Result<Vec<CopyRow>, Error> {
        let copy = |index| {
            let key = EntityKey::new("Sales", format!("copy_{index:03}"));
            CopyRow { table: None, key, properties: Properties::default() }
        };
        Ok((0..self.0).map(copy).collect())
    }
}

#[tokio::test]
async fn an_entity_and_its_copies_are_one_transaction_or_none() {
    let (_server, table) = started().await;
    let (many, key) = (table.of::<Many>().indexed(), EntityKey::new("Sales", "many"));
    let error = many.insert(&Many(100)).await.unwrap_err();
    assert_eq!((error.kind(), error.index()), (ErrorKind::TooLarge, Some(100)));
    assert_eq!(rows(&table).await.len(), 0);
    many.insert(&Many(99)).await.unwrap();
    assert_eq!(rows(&table).await.len(), 100);
    assert_eq!(many.update(&key, |one| one.0 = 100).await.unwrap().0, 100, "one row more and the entity");
    assert_eq!(many.delete(&key).await.unwrap_err().kind(), ErrorKind::TooLarge);
    many.update(&key, |one| one.0 = 3).await.unwrap();
    assert_eq!(rows(&table).await.len(), 4);
    many.delete(&key).await.unwrap();
    assert_eq!(rows(&table).await.len(), 0);
}

/// Writers change, insert and delete the same few entities, while readers look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_a_copy_without_its_entity() {
    const IDS: u32 = 5;
    let (_server, table) = started().await;
    let seed = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TEPUI_TEST_SEED={seed}");
    let is_done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (people, mut rng) = (table.indexed(), Rng::with_seed(seed + writer));
            tokio::spawn(async move {
                let mut done = 0;
                for _ in 0..60 {
                    let (id, number) = (rng.u32(0..IDS), rng.u32(0..8));
                    let email = format!("{number}@contoso.com");
                    let outcome = match rng.u8(0..8) {
                        0 | 1 => people.insert(&employee(id, &email)).await.map(drop),
                        2 => people.delete(&key(id)).await,
                        3 => people.update(&key(id), |one| one.id = number).await.map(drop),
                        4 => people.update(&key(id), |one| one.level = Level::Senior).await.map(drop),
                        5 => {
                            people.update(&key(id), |one| one.name = format!("Name {number}")).await.map(drop)
                        }
                        _ => people.update(&key(id), |one| one.email.clone_from(&email)).await.map(drop),
                    };
                    match outcome {
                        Ok(()) => done += 1,
                        Err(error) => assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::Contended
                            ),
                            "{error:?}"
                        ),
                    }
                }
                done
            })
        })
        .collect();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (table, is_done) = (table.clone(), Arc::clone(&is_done));
            tokio::spawn(async move {
                let mut looks = 0;
                while !is_done.load(Ordering::Relaxed) {
                    check(&rows(&table).await);
                    looks += 1;
                }
                looks
            })
        })
        .collect();
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    is_done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 5);
    }
    assert!(written > 20, "{written}");
    check(&rows(&table).await);
}
