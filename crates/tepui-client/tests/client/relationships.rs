//! Links, and small tables in memory.

use crate::support::{TestServer, key, number};
use std::sync::Arc;
use std::time::Duration;
use tepui_client::patterns::relationships::{Cached, Link};
use tepui_client::{DynamicEntity, Entity, ErrorKind, Match, Scans};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Employees", closed)]
#[key(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    manager: Option<Link<Employee>>,
}

#[tokio::test]
async fn links_are_followed_and_may_dangle() {
    let server = TestServer::start().await;
    let people = server.account().table_of::<Employee>().unwrap();
    people.create().await.unwrap();
    let boss = Employee { department: "IT".to_owned(), id: 1, manager: None };
    let one = Employee { department: "Sales".to_owned(), id: 2, manager: Some(Link::to(&boss).unwrap()) };
    people.insert(&boss).await.unwrap();
    people.insert(&one).await.unwrap();
    let read = people.get(&one.entity_key().unwrap()).await.unwrap().unwrap();
    assert_eq!(*read, one);
    let link = read.manager.as_ref().unwrap();
    assert_eq!(*people.follow(link).await.unwrap().unwrap(), boss);
    people.delete(link.key(), Match::Any).await.unwrap();
    assert!(people.follow(link).await.unwrap().is_none());
}

#[tokio::test]
async fn small_tables_are_held_in_memory() {
    let (server, table) = TestServer::start().await.table_kept().await;
    for row in 0..20 {
        table.insert(&crate::support::entity(&format!("{row:02}"), row)).await.unwrap();
    }
    let cached = Cached::new(table.scan(), Duration::from_secs(600));
    let find = async |row: &str| cached.get(&key(row)).await.unwrap().and_then(|found| number(&found));
    assert_eq!((find("07").await, find("x").await), (Some(7), None));
    table.insert(&crate::support::entity("x", 1)).await.unwrap();
    assert_eq!(find("x").await, None, "not yet too old");
    cached.forget().await;
    assert_eq!(find("x").await, Some(1));
    assert!(Arc::ptr_eq(&cached.all().await.unwrap(), &cached.all().await.unwrap()));

    let old = Cached::new(table.partition("p").scan(), Duration::ZERO);
    assert_eq!(old.all().await.unwrap().len(), 21);
    table.delete(&key("x"), Match::Any).await.unwrap();
    assert_eq!(old.all().await.unwrap().len(), 20, "read again each time");

    let large = Cached::new(table.scan(), Duration::from_secs(600)).max_entities(19);
    assert_eq!(large.all().await.unwrap_err().kind(), ErrorKind::TooLarge);
    let strict = server.builder().scans(Scans::Refuse).build().unwrap().table(table.name()).unwrap();
    let refused = Cached::<DynamicEntity>::new(strict.scan(), Duration::ZERO);
    assert_eq!(refused.all().await.unwrap_err().kind(), ErrorKind::Refused);
}
