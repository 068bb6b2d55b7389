//! Many writers of one table, and as many of a table each. Every write of an entity rests on the row of its table, and must not
//! wait for the other writes that do.

#![allow(dead_code, reason = "not every suite needs all of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_model::grant::KeyBounds;
use tepui_model::table::{
    Action, Change, EntityKey, Operation, PropertiesBuilder, Reply, TableName, ValueRef, Written,
};
use tepui_model::time::{NodeNumber, SystemClock};
use tepui_service::{GarbageCollector, TableOptions, TableService};
use tepui_storage::Engine;

const ACCOUNT: &str = "account";
const WRITERS: usize = 16;
/// How fast those of one table have to be, as a part of the others.
const LEAST_RATIO: f64 = 0.8;
/// Attempts, and turns of each: the machine has other work, too.
const ATTEMPTS: usize = 5;
const TURNS: usize = 3;

type Nodes<E> = [Arc<TableService<E>>; 2];

/// Lets 16 writers, half of them on each of two nodes, insert so many entities each.
pub(crate) async fn one_table_is_as_good_as_many<E: Engine>(engine: E, name: &str, entities: usize) {
    let engine = Arc::new(engine);
    let nodes: Nodes<E> = [1, 2].map(|number| {
        let clock = Arc::new(SystemClock::of_node(NodeNumber::new(number).expect("a few nodes")));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        Arc::new(TableService::new(Arc::clone(&engine), clock, collector, TableOptions::default()))
    });
    let tables: Vec<String> = (0..WRITERS).map(|number| format!("Table{number}")).collect();
    for table in &tables {
        let create = Operation::CreateTable { name: TableName::parse(table).expect("a name") };
        let reply = nodes[0].execute(ACCOUNT, &create, &KeyBounds::EVERYTHING).await;
        assert!(matches!(reply, Ok(Reply::TableCreated { .. })), "{reply:?}");
    }
    let (one, many) = (vec![tables[0].clone(); WRITERS], tables);
    insert(&nodes, &many, "warm", 2).await;
    let mut ratios = Vec::new();
    for attempt in 0..ATTEMPTS {
        let (mut in_one, mut in_many) = (Duration::ZERO, Duration::ZERO);
        for turn in 0..TURNS {
            in_one += insert(&nodes, &one, &format!("one-{attempt}-{turn}"), entities).await;
            in_many += insert(&nodes, &many, &format!("many-{attempt}-{turn}"), entities).await;
        }
        let inserted = (TURNS * WRITERS * entities) as f64;
        let ratio = in_many.as_secs_f64() / in_one.as_secs_f64();
        println!(
            "{name}: {WRITERS} writers in one table {:.0}/s, in {WRITERS} tables {:.0}/s, ratio {ratio:.2}",
            inserted / in_one.as_secs_f64(),
            inserted / in_many.as_secs_f64(),
        );
        if ratio >= LEAST_RATIO {
            return;
        }
        ratios.push(ratio);
    }
    panic!("{name}: writers of one table are slower than those of many: {ratios:?}");
}

/// How long it takes. Each writer has a table of `tables` and a partition of its own.
async fn insert<E: Engine>(nodes: &Nodes<E>, tables: &[String], run: &str, entities: usize) -> Duration {
    let began = Instant::now();
    let writers: Vec<_> = tables
        .iter()
        .enumerate()
        .map(|(writer, table)| {
            let (node, table) = (Arc::clone(&nodes[writer % nodes.len()]), table.clone());
            let partition = format!("{run}-{writer}");
            tokio::spawn(async move {
                for number in 0..entities {
                    let mut properties = PropertiesBuilder::new();
                    properties.push("Number", ValueRef::Int32(number as i32)).expect("it is short");
                    let key = EntityKey::new(partition.clone(), format!("{number:05}"));
                    let change = Change { key, action: Action::Insert(properties.finish()) };
                    let written = node.change_entity(ACCOUNT, &table, &change, &KeyBounds::EVERYTHING).await;
                    assert!(matches!(written, Ok(Written::Stored(_))), "{written:?}");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("it does not panic");
    }
    began.elapsed()
}
