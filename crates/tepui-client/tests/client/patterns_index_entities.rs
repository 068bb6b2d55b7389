//! The index entities pattern, in all of its forms.

use crate::support::TestServer;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tepui_client::patterns::index_entities::{InBlob, InPartition, ListIndex, Listed, MemberRows};
use tepui_client::{Entity, ErrorKind, Match, Table};
use tokio::task::JoinSet;

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Employees", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    last_name: Option<String>,
    age: i32,
}

impl Listed for Employee {
    fn listed_under(&self) -> Option<&str> {
        self.last_name.as_deref()
    }
}

fn employee(id: u32, last_name: &str) -> Employee {
    Employee { department: "Sales".to_owned(), id, last_name: Some(last_name.to_owned()), age: 30 }
}

fn key(id: u32) -> tepui_client::EntityKey {
    Employee::key("Sales", id).unwrap()
}

const NAMES: [&str; 4] = ["Jones", "O'Hara/Smith #2", "", "Jonesson"];

async fn employees(server: &TestServer) -> Table<Employee> {
    let table = server.account().table_of::<Employee>().unwrap();
    table.create().await.unwrap();
    let container = server.account().container("lists").unwrap();
    container.create_if_missing().await.unwrap();
    table
}

async fn ids(index: &impl ListIndex<Employee>, name: &str) -> Vec<u32> {
    index.find(name).await.unwrap().iter().map(|employee| employee.id).collect()
}

/// Each list is the set of entities with its value, no more and no less.
async fn check(index: &impl ListIndex<Employee>, table: &Table<Employee>) {
    let rows = Employee::rows_between_id(0, 999_999).unwrap();
    let all = table.query().partition("Sales").rows(rows).all().await.unwrap();
    let mut expected: BTreeMap<&str, BTreeSet<String>> = NAMES.map(|name| (name, BTreeSet::new())).into();
    for employee in &all {
        if let Some(name) = employee.listed_under() {
            expected.get_mut(name).unwrap().insert(employee.entity_key().unwrap().row_key);
        }
    }
    for (name, expected) in expected {
        let listed: Vec<_> = index.keys(name).await.unwrap().into_iter().map(|key| key.row_key).collect();
        assert_eq!(listed, expected.iter().cloned().collect::<Vec<_>>(), "{name}");
        assert_eq!(ids(index, name).await.len(), expected.len());
    }
}

async fn every_form_lists_its_entities(index: &impl ListIndex<Employee>, table: &Table<Employee>) {
    for (id, name) in [(1, NAMES[0]), (3, NAMES[0]), (2, NAMES[1]), (4, NAMES[2]), (5, NAMES[3])] {
        index.insert(&employee(id, name)).await.unwrap();
    }
    let again = index.insert(&employee(3, NAMES[3])).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again:?}");
    check(index, table).await;
    assert_eq!(ids(index, "Jones").await, [1, 3]);
    index.change(&key(2), |employee| employee.last_name = Some("Jones".to_owned())).await.unwrap();
    assert_eq!(ids(index, "Jones").await, [1, 2, 3]);
    index.change(&key(2), |employee| employee.age = 31).await.unwrap();
    index.change(&key(1), |employee| employee.last_name = None).await.unwrap();
    index.remove(&key(3)).await.unwrap();
    assert_eq!(ids(index, "Jones").await, [2]);
    assert_eq!(ids(index, NAMES[1]).await, [0; 0]);
    index.change(&key(1), |employee| employee.last_name = Some("Jones".to_owned())).await.unwrap();
    check(index, table).await;
    let missing = index.change(&key(9), |employee| employee.age = 31).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(index.remove(&key(9)).await.unwrap_err().kind(), ErrorKind::NotFound);
    let moved = index.change(&key(2), |employee| employee.id = 7).await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Refused);
    check(index, table).await;
}

async fn lists_agree_after_parallel_renames<I>(index: I, table: &Table<Employee>)
where
    I: ListIndex<Employee> + Send + Sync + 'static,
{
    let index = Arc::new(index);
    for id in 0..4 {
        index.insert(&employee(id, NAMES[0])).await.unwrap();
    }
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let index = Arc::clone(&index);
        writers.spawn(async move {
            let mut random = fastrand::Rng::with_seed(writer);
            for _ in 0..12 {
                // Renames of the same few, back and forth, and some that come and go.
                let (id, name) = (random.u32(0..5), NAMES[random.usize(0..2)]);
                let outcome = match random.u32(0..6) {
                    0 => index.insert(&employee(id, name)).await,
                    1 => index.remove(&key(id)).await,
                    _ => index.change(&key(id), |employee| employee.last_name = Some(name.to_owned())).await,
                };
                if let Err(error) = outcome {
                    let expected = [ErrorKind::AlreadyExists, ErrorKind::NotFound, ErrorKind::Contended];
                    assert!(expected.contains(&error.kind()), "{error:?}");
                }
            }
        });
    }
    writers.join_all().await;
    check(&*index, table).await;
}

macro_rules! forms {
    ($($module:ident: |$table:ident, $server:ident| $index:expr, $rename:literal;)*) => {
        $(mod $module {
            use super::*;

            #[tokio::test]
            async fn lists_its_entities() {
                let $server = TestServer::start().await;
                let $table = employees(&$server).await;
                every_form_lists_its_entities(&$index, &$table).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn agrees_after_parallel_renames() {
                let $server = TestServer::start().await;
                let $table = employees(&$server).await;
                lists_agree_after_parallel_renames($index, &$table).await;
            }

            #[tokio::test]
            async fn a_rename_whose_answer_was_lost_is_settled() {
                let $server = TestServer::start().await;
                let $table = employees(&$server).await;
                let index = $index;
                index.insert(&employee(1, NAMES[0])).await.unwrap();
                index.insert(&employee(2, NAMES[0])).await.unwrap();
                for operation in [$rename, "PutBlob", "DeleteBlob"] {
                    let lost = format!(r#"{{"operation":"{operation}","when":"after","cut":true,"count":1}}"#);
                    $server.fault(&lost).await;
                }
                index.change(&key(1), |employee| employee.last_name = Some(NAMES[1].to_owned())).await.unwrap();
                $server.clear_faults().await;
                check(&index, &$table).await;
                assert_eq!(ids(&index, NAMES[1]).await, [1]);
            }
        })*
    };
}

forms! {
    member_rows: |table, server| MemberRows::new(&table, "Sales", "ln_").unwrap(), "EntityGroupTransaction";
    in_partition: |table, server| InPartition::new(&table, "Sales", "ln_").unwrap(), "EntityGroupTransaction";
    in_blob: |table, server| InBlob::new(&table, &server.account().container("lists").unwrap(), "last-names/"), "UpdateEntity";
}

#[tokio::test]
async fn members_are_found_by_the_beginning_of_their_value() {
    let server = TestServer::start().await;
    let table = employees(&server).await;
    let index = MemberRows::new(&table, "Sales", "ln_").unwrap();
    for (id, name) in [(1, "Jonesson"), (2, "Jones"), (3, "Jo Nes"), (4, "Cao"), (5, "Jones")] {
        index.insert(&employee(id, name)).await.unwrap();
    }
    let found = index.keys_beginning("Jones").await.unwrap();
    assert_eq!(found, [key(2), key(5), key(1)]);
    assert_eq!(index.keys_beginning("").await.unwrap().len(), 5);
}

#[tokio::test]
async fn what_somebody_left_in_a_list_is_left_out_and_repaired() {
    let server = TestServer::start().await;
    let account = server.builder().within(Duration::from_millis(500)).build().unwrap();
    let table = employees(&server).await;
    let container = account.container("lists").unwrap();
    let index = InBlob::new(&account.table_of::<Employee>().unwrap(), &container, "last-names/");
    for id in 1..4 {
        index.insert(&employee(id, "Jones")).await.unwrap();
    }
    // As if the writer had ended after the entity: once deleted, once renamed.
    table.delete(&key(1), Match::Any).await.unwrap();
    table.replace(&employee(2, "Cao"), Match::Any).await.unwrap();
    assert_eq!(index.keys("Jones").await.unwrap().len(), 3);
    assert_eq!(ids(&index, "Jones").await, [3]);
    let too_soon = index.repair("Jones", Duration::from_millis(900)).await.unwrap_err();
    assert_eq!(too_soon.kind(), ErrorKind::Refused);
    assert_eq!(index.repair("Jones", Duration::from_secs(60)).await.unwrap(), None);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(index.repair("Jones", Duration::from_secs(1)).await.unwrap(), Some(2));
    assert_eq!(index.keys("Jones").await.unwrap(), [key(3)]);
    assert_eq!(index.repair("Nobody", Duration::from_secs(1)).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_slow_writer_does_not_take_out_what_another_has_put_back() {
    let server = TestServer::start().await;
    let table = employees(&server).await;
    let container = server.account().container("lists").unwrap();
    let index = Arc::new(InBlob::new(&table, &container, "last-names/"));
    index.insert(&employee(1, "Jones")).await.unwrap();
    // The first writer reads the list before it renames, and again when it takes its entry out: that takes long.
    server.fault(r#"{"operation":"GetBlob","path":"/lists/last-names/vJones","nth":2,"delayMs":800}"#).await;
    let slow = tokio::spawn({
        let index = Arc::clone(&index);
        async move { index.change(&key(1), |employee| employee.last_name = Some("Cao".to_owned())).await }
    });
    while ids(&*index, "Cao").await != [1] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    index.change(&key(1), |employee| employee.last_name = Some("Jones".to_owned())).await.unwrap();
    assert!(!slow.is_finished(), "it was not slow enough to tell");
    slow.await.unwrap().unwrap();
    assert_eq!(ids(&*index, "Jones").await, [1]);
    assert_eq!(index.keys("Cao").await.unwrap(), []);
}
