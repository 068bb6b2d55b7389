//! Signatures for single users: what is inside is allowed, and nothing else.

use crate::support::TestServer;
use fastrand::Rng;
use std::time::Duration;
use tepui_client::key::{KeyRange, KeyWriter, Until};
use tepui_client::patterns::sas_per_user::Sas;
use tepui_client::{DynamicEntity, EntityKey, ErrorKind, Match, Table};

const LIFE: Duration = Duration::from_secs(600);

/// Those whose names begin alike, and characters at the ends of what keys may have.
const NAMES: [&str; 12] = [
    "user1",
    "user10",
    "user",
    "User1",
    "user1 ",
    "user1~",
    "user1\u{A0}",
    "use",
    "é",
    "😀",
    "x\u{D7FF}",
    "x\u{E000}",
];

fn with_sas(server: &TestServer, table: &Table, sas: &Sas) -> Table {
    server.builder().sas(sas.as_str()).build().unwrap().table(table.name()).unwrap()
}

fn row(user: &str, id: u64) -> String {
    KeyWriter::new().plain(user, Until::Separator('_')).literal("_").padded(id, 3).finish().unwrap()
}

fn random_range(rng: &mut Rng) -> KeyRange {
    let name = |rng: &mut Rng| NAMES[rng.usize(..NAMES.len())];
    match rng.u8(..5) {
        0 => KeyRange::prefix(""),
        1 => KeyRange::prefix(name(rng)),
        2 => KeyRange::prefix(format!("{}_", name(rng))),
        3 => {
            let user = name(rng);
            let (first, last) = (rng.u64(..12), rng.u64(..12));
            KeyRange::prefixes(row(user, first.min(last)), &row(user, first.max(last)))
        }
        // Any texts, as somebody might write them.
        _ => KeyRange { start: name(rng).to_owned(), end: rng.bool().then(|| row(name(rng), 6)) },
    }
}

#[tokio::test]
async fn what_is_inside_is_allowed_and_nothing_else() {
    let seed = std::env::var("TEPUI_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TEPUI_TEST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let (server, table) = TestServer::start().await.table_kept().await;
    let mut keys = Vec::new();
    for partition in NAMES {
        for user in NAMES {
            keys.extend((0..12).step_by(3).map(|id| EntityKey::new(partition, row(user, id))));
            keys.push(EntityKey::new(partition, user));
        }
    }
    let rows = keys.iter().map(|key| DynamicEntity::new(&key.partition_key, &key.row_key));
    assert!(table.bulk().insert(rows).await.is_all_written());
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..60 {
        let partition = NAMES[rng.usize(..NAMES.len())];
        let range = random_range(&mut rng);
        let is_inside = |key: &EntityKey| key.partition_key == partition && range.contains(&key.row_key);
        let sas = table.sas().partition(partition).rows(range.clone()).read().for_(LIFE);
        let Ok(sas) = sas else {
            assert!(!keys.iter().any(is_inside), "refused, so there is nothing in it: {range:?}");
            continue;
        };
        let reader = with_sas(&server, &table, &sas);
        let found = reader.scan().all().await.unwrap();
        let found: Vec<_> = found.into_iter().map(|found| found.entity.key).collect();
        let expected = keys.iter().filter(|key| is_inside(key));
        assert_eq!(found.len(), expected.clone().count(), "{partition:?} {range:?}");
        assert!(expected.clone().all(|key| found.contains(key)), "{partition:?} {range:?}");
        let asked = (0..20).map(|_| &keys[rng.usize(..keys.len())]).chain(expected.take(5));
        for key in asked.collect::<Vec<_>>() {
            let is_read = matches!(reader.get(key).await, Ok(Some(_)));
            assert_eq!(is_read, is_inside(key), "{key:?} with {partition:?} {range:?}");
            *if is_read { &mut allowed } else { &mut refused } += 1;
        }
    }
    assert!(allowed > 50 && refused > 50, "{allowed} {refused}");
}

#[tokio::test]
async fn rights_are_those_that_were_said() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let entity = |row: &str| DynamicEntity::new("user1", row).with("A", 1);
    table.insert(&entity("a")).await.unwrap();
    let key = EntityKey::new("user1", "a");
    let sas = || table.sas().partition("user1");

    let reader = with_sas(&server, &table, &sas().read().for_(LIFE).unwrap());
    assert!(reader.get(&key).await.unwrap().is_some());
    assert_eq!(reader.insert(&entity("b")).await.unwrap_err().kind(), ErrorKind::Denied);
    let writer = with_sas(&server, &table, &sas().add().update().for_(LIFE).unwrap());
    writer.insert(&entity("b")).await.unwrap();
    writer.upsert_replace(&entity("b")).await.unwrap();
    assert_eq!(writer.get(&key).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(writer.delete(&key, Match::Any).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(writer.insert(&DynamicEntity::new("user10", "b")).await.is_err());
    let deleter = with_sas(&server, &table, &sas().delete().for_(LIFE).unwrap());
    deleter.delete(&key, Match::Any).await.unwrap();

    let expired = sas().read().for_(Duration::from_secs(1)).unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let late = with_sas(&server, &table, &expired).get(&key).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Denied);
}
