//! The wide entities pattern.

use crate::support::{TestServer, key};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tepui_client::patterns::wide_entity::WideTable;
use tepui_client::{DynamicEntity, ErrorKind, Match};
use tokio::task::JoinSet;

/// All properties have the same number: another one is of another write.
fn wide(properties: usize, number: i32) -> DynamicEntity {
    let mut entity = DynamicEntity::new("p", "1");
    for property in 0..properties {
        entity.set(format!("P{property:04}"), number);
    }
    entity
}

fn numbers(entity: &DynamicEntity) -> Vec<i32> {
    let mut numbers: Vec<_> = entity.iter().map(|(_, value)| value.as_i32().unwrap()).collect();
    numbers.dedup();
    numbers
}

#[tokio::test]
async fn entities_grow_and_shrink() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    let entities = WideTable::new(&table);
    assert_eq!(entities.get(&key("1")).await.unwrap(), None);
    entities.insert(&wide(600, 1)).await.unwrap();
    assert_eq!(entities.insert(&wide(10, 2)).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    for (properties, rows) in [(600, 3), (300, 2), (1000, 5), (0, 1), (10, 1)] {
        let read = entities.get(&key("1")).await.unwrap().unwrap();
        entities.replace(&wide(properties, 2), &read).await.unwrap();
        let stale = entities.replace(&wide(properties, 3), &read).await.unwrap_err();
        assert_eq!(stale.kind(), ErrorKind::Conflict, "{stale:?}");
        let read = entities.get(&key("1")).await.unwrap().unwrap();
        assert_eq!((read.rows, &read.entity), (rows, &wide(properties, 2)));
        assert_eq!(table.query().partition("p").all().await.unwrap().len(), rows);
    }
    let read = entities.get(&key("1")).await.unwrap().unwrap();
    entities.delete(&key("1"), &read).await.unwrap();
    assert_eq!(table.scan().all().await.unwrap(), []);
    assert_eq!(entities.get(&key("a~00")).await.unwrap_err().kind(), ErrorKind::KeyInvalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_torn_read_is_ever_returned() {
    let (_server, table) = TestServer::start().await.table_kept().await;
    // A request for each row, with others' writes between them: without the check, most reads would be torn.
    let entities = WideTable::new(&table).rows_per_request(1);
    entities.insert(&wide(260, 0)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for reader in 0..2 {
        let (entities, done) = (entities.clone(), Arc::clone(&done));
        tasks.spawn(async move {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                match entities.get(&key("1")).await {
                    Ok(read) => {
                        assert_eq!(numbers(&read.unwrap().entity).len(), 1, "reader {reader}");
                        reads += 1;
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Contended, "{error:?}"),
                }
            }
            reads
        });
    }
    for number in 1..=39 {
        // Mostly the same size: then only the generation tells rows of two writes apart.
        let size = if number % 8 == 0 { 100 } else { 260 };
        entities.modify(&key("1"), |entity| *entity = wide(size, number)).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    assert!(tasks.join_all().await.iter().sum::<i32>() > 0);
    // Rows that somebody wrote by hand are not taken for an entity.
    let row = table.get(&key("1~01")).await.unwrap().unwrap();
    table.delete(&row.key, Match::Any).await.unwrap();
    assert_eq!(entities.get(&key("1")).await.unwrap_err().kind(), ErrorKind::Contended);
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_recognised() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let entities = WideTable::new(&table);
    for number in 0..3 {
        server.fault(r#"{"operation":"EntityGroupTransaction","when":"after","cut":true,"count":1}"#).await;
        if number == 0 {
            entities.insert(&wide(300, 0)).await.unwrap();
        } else {
            entities.modify(&key("1"), |entity| *entity = wide(300, numbers(entity)[0] + 1)).await.unwrap();
        }
        server.clear_faults().await;
    }
    assert_eq!(numbers(&entities.get(&key("1")).await.unwrap().unwrap().entity), [2]);
}
