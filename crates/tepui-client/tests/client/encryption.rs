//! Encrypted entities on a server: what is stored, what is refused, and new keys.

use crate::support::TestServer;
use tepui_client::filter::property;
use tepui_client::patterns::encryption::{
    AesKey, EncryptedTable, Format, KeyRing, Policy, Rotated, RotationReport, TypedEncryptedEntity as _,
};
use tepui_client::{DynamicEntity, EdmType, Entity, EntityKey, ErrorKind, Match, Table, Value};

const DETAILS: &str = "_ClientEncryptionMetadata1";
const LIST: &str = "_ClientEncryptionMetadata2";

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Salaries", closed)]
#[key(partition = "{department}", row = "{id:06}")]
struct Salary {
    department: String,
    id: u32,
    currency: String,
    #[encrypt]
    amount: i64,
    #[encrypt]
    #[json]
    bonuses: Vec<i32>,
    #[encrypt]
    iban: Option<String>,
}

fn salary(id: u32) -> Salary {
    let (department, currency) = ("Sales".to_owned(), "EUR".to_owned());
    let iban = id.is_multiple_of(2).then(|| format!("DE{id:020}"));
    Salary { department, id, currency, amount: i64::from(id) * 1000, bonuses: vec![1, 2], iban }
}

/// A part of a salary.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(table = "Salaries")]
#[key(partition = "{department}", row = "{id:06}")]
struct Amount {
    department: String,
    id: u32,
    #[encrypt]
    amount: i64,
}

fn aes(id: &str, byte: u8) -> AesKey {
    AesKey::new(id, &[byte; 32]).unwrap()
}

async fn typed() -> (TestServer, EncryptedTable<Salary>) {
    let server = TestServer::start().await;
    let table = server.account().encrypted_table_of(Policy::new(aes("k1", 1)).require()).unwrap();
    table.create().await.unwrap();
    (server, table)
}

fn key(id: u32) -> EntityKey {
    Salary::key("Sales", id).unwrap()
}

#[tokio::test]
async fn structs_are_stored_encrypted() {
    let (server, table) = typed().await;
    let etag = table.insert(&salary(1)).await.unwrap();
    let stored = server.account().table(Salary::TABLE).unwrap().get(&key(1)).await.unwrap().unwrap();
    assert_eq!(stored.get("currency"), Some(&"EUR".into()));
    for name in ["amount", "bonuses"] {
        assert_eq!(stored.get(name).map(Value::edm_type), Some(EdmType::Binary), "{name}");
    }
    assert_eq!(stored.get("iban"), None);
    let found = table.get(&key(1)).await.unwrap().unwrap();
    assert_eq!((&found.entity, &found.etag), (&salary(1), &etag));
    assert_eq!(table.get(&key(2)).await.unwrap(), None);

    let changed = table.modify(&key(1), |salary| salary.amount += 1).await.unwrap();
    assert_eq!(changed.amount, 1001);
    assert_eq!(table.get(&key(1)).await.unwrap().unwrap().amount, 1001);
    assert_eq!(table.replace(&salary(1), &etag).await.unwrap_err().kind(), ErrorKind::Conflict);
    table.upsert_replace(&salary(1)).await.unwrap();
    table.delete(&key(1), Match::Any).await.unwrap();
    table.insert(&salary(1)).await.unwrap();
    assert_eq!(table.insert(&salary(1)).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn modifications_in_parallel_are_all_there() {
    let (_server, table) = typed().await;
    table.insert(&salary(0)).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let table = table.clone();
        tasks.spawn(async move { table.modify(&key(0), |salary| salary.amount += 1).await.is_ok() });
    }
    let mut changed = 0;
    while let Some(done) = tasks.join_next().await {
        changed += i64::from(done.unwrap());
    }
    assert!(changed > 0);
    assert_eq!(table.get(&key(0)).await.unwrap().unwrap().amount, changed);
}

#[tokio::test]
async fn transactions_and_queries() {
    let (_server, table) = typed().await;
    let mut transaction = table.transaction("Sales").unwrap();
    for id in 0..10 {
        transaction.insert(&salary(id)).await.unwrap();
    }
    transaction.plain().insert(&DynamicEntity::new("Sales", "department")).unwrap();
    transaction.commit().await.unwrap();
    let rows = Salary::rows_between_id(2, 5).unwrap();
    let found = table.partition("Sales").rows(rows).page_size(3).all().await.unwrap();
    assert_eq!(
        found.iter().map(|found| found.entity.clone()).collect::<Vec<_>>(),
        (2..=5).map(salary).collect::<Vec<_>>()
    );
    let keys = [key(3), key(99), key(1)];
    let many = table.get_many(keys).await.unwrap();
    let many: Vec<_> = many.into_iter().map(|found| found.map(|found| found.entity)).collect();
    assert_eq!(many, [Some(salary(3)), None, Some(salary(1))]);
    let few = table.partition("Sales").page_size(2).take(3).all().await.unwrap();
    assert_eq!(few.len(), 3);

    let mut transaction = table.transaction("Sales").unwrap();
    transaction.upsert_replace(&Salary { amount: 7, ..salary(0) }).await.unwrap();
    let first = &few[1];
    transaction.replace(&Salary { amount: 8, ..first.entity.clone() }, first).await.unwrap();
    transaction.delete(&key(9), Match::Any).unwrap();
    transaction.commit().await.unwrap();
    let amounts = table.partition("Sales").take(2).all().await.unwrap();
    assert_eq!(amounts.iter().map(|found| found.amount).collect::<Vec<_>>(), [7, 8]);
    let parts = table.of::<Amount>().partition("Sales").select(Amount::PROPERTIES.to_vec());
    let parts = parts.rows(Salary::rows_between_id(5, 5).unwrap()).all().await.unwrap();
    assert_eq!(parts[0].entity, Amount { department: "Sales".to_owned(), id: 5, amount: 5000 });
    // The department is not encrypted.
    let error = table.partition("Sales").all().await.unwrap_err();
    assert!(error.to_string().contains("not encrypted"), "{error}");
}

async fn dynamic(policy: Policy) -> (TestServer, Table, EncryptedTable<DynamicEntity>) {
    let (server, table) = TestServer::start().await.table_kept().await;
    let encrypted = table.encrypted(policy);
    (server, table, encrypted)
}

fn person(row: &str) -> DynamicEntity {
    DynamicEntity::new("p", row).with("Name", row).with("Age", 34).with("Secret", 7_i64).with("Other", "o")
}

#[tokio::test]
async fn projections_bring_what_decrypts_them() {
    let policy = Policy::new(aes("k1", 1)).encrypt(["Secret", "Other"]);
    let (_server, _, table) = dynamic(policy).await;
    table.insert(&person("1")).await.unwrap();
    let found = table.partition("p").select(["Secret"]).select(["Name"]).all().await.unwrap();
    assert_eq!(found[0].get("Secret"), Some(&7_i64.into()));
    assert_eq!(found[0].get("Name"), Some(&"1".into()));
    assert_eq!(found[0].iter().count(), 2);
}

#[tokio::test]
async fn encrypted_properties_are_not_compared() {
    let policy = Policy::new(aes("k1", 1)).encrypt(["Secret"]);
    let (_server, _, table) = dynamic(policy).await;
    table.insert(&person("1")).await.unwrap();
    let query = || table.partition("p");
    assert_eq!(query().scan().filter(property("Age").gt(30)).all().await.unwrap().len(), 1);
    let hidden = tepui_client::filter::any([property("Age").gt(30), property("Secret").eq(7_i64)]);
    assert_eq!(query().scan().filter(hidden).all().await.unwrap_err().kind(), ErrorKind::Refused);
}

#[tokio::test]
async fn a_closure_decides_by_the_key() {
    let policy = Policy::new(aes("k1", 1)).encrypt_if(|key, name| key.row_key == "1" && name == "Secret");
    let (_server, plain, table) = dynamic(policy).await;
    for row in ["1", "2"] {
        table.insert(&person(row)).await.unwrap();
        assert_eq!(table.get(&EntityKey::new("p", row)).await.unwrap().unwrap().entity, person(row));
    }
    for (row, expected) in [("1", EdmType::Binary), ("2", EdmType::Int64)] {
        let stored = plain.get(&EntityKey::new("p", row)).await.unwrap().unwrap();
        assert_eq!(stored.get("Secret").map(Value::edm_type), Some(expected), "{row}");
    }
}

#[tokio::test]
async fn ciphertext_that_is_moved_is_refused() {
    let policy = Policy::new(aes("k1", 1)).encrypt(["Secret"]).require();
    let (server, plain, table) = dynamic(policy.clone()).await;
    table.insert(&person("1")).await.unwrap();
    let stored = plain.get(&EntityKey::new("p", "1")).await.unwrap().unwrap().into_inner();
    let mut moved = DynamicEntity::new("p", "2");
    stored.iter().for_each(|(name, value)| moved.set(name, value.clone()));
    plain.insert(&moved).await.unwrap();
    let error = table.get(&EntityKey::new("p", "2")).await.unwrap_err();
    assert_eq!(error.to_string(), "the entity cannot be decrypted");
    let elsewhere = crate::support::new_table(&server.account()).await;
    elsewhere.insert(&stored).await.unwrap();
    let error = elsewhere.encrypted(policy).get(&EntityKey::new("p", "1")).await.unwrap_err();
    assert_eq!(error.to_string(), "the entity cannot be decrypted");
}

#[tokio::test]
async fn keys_are_rotated_without_the_properties() {
    for format in [Format::Tepui1, Format::LegacyV1] {
        let names = ["Other"];
        let old = Policy::new(aes("k1", 1)).encrypt(names).format(format);
        let (_server, plain, before) = dynamic(old).await;
        for row in ["1", "2", "3"] {
            before.insert(&person(row)).await.unwrap();
        }
        plain.insert(&person("4")).await.unwrap();
        let key = EntityKey::new("p", "1");
        let stored = plain.get(&key).await.unwrap().unwrap();

        let new = || Policy::new(aes("k2", 2)).encrypt(names).keys(KeyRing::new().with(aes("k1", 1)));
        let after = plain.encrypted(new());
        assert_eq!(after.rotate(&key).await.unwrap(), Rotated::Wrapped);
        assert_eq!(after.rotate(&key).await.unwrap(), Rotated::Current);
        assert_eq!(after.rotate(&EntityKey::new("p", "4")).await.unwrap(), Rotated::Nothing);
        assert_eq!(after.rotate(&EntityKey::new("p", "5")).await.unwrap(), Rotated::Nothing);
        let rotated = plain.get(&key).await.unwrap().unwrap();
        for (name, value) in stored.iter() {
            assert_eq!(rotated.get(name) == Some(value), name != DETAILS, "{name}");
        }
        assert!(rotated.get(LIST).is_some());
        let report = after.rotate_all(Some(property("PartitionKey").eq("p"))).await.unwrap();
        assert_eq!(report, RotationReport { wrapped: 2, current: 1, nothing: 1 });
        assert_eq!(after.rotate_all(None).await.unwrap().current, 3);

        // The old key is needed no more, and does not help any more.
        let only_new = plain.encrypted(Policy::new(aes("k2", 2)).encrypt(names));
        let only_old = plain.encrypted(Policy::new(aes("k1", 1)).encrypt(names));
        for row in ["1", "2", "3"] {
            let key = EntityKey::new("p", row);
            assert_eq!(only_new.get(&key).await.unwrap().unwrap().entity, person(row));
            assert!(only_old.get(&key).await.is_err());
        }
        assert_eq!(only_new.rotate_all(None).await.unwrap().wrapped, 0);
        let lost = plain.encrypted(Policy::new(aes("k3", 3)).encrypt(names)).rotate(&key).await;
        assert!(lost.is_err(), "without the key that wrapped it");
    }
}

/// A writer between the read and the merge of a rotation: what it wrote keeps its own content key.
#[tokio::test]
async fn rotations_and_writers_do_not_undo_each_other() {
    let names = ["Secret"];
    let (_server, plain, old) = dynamic(Policy::new(aes("k1", 1)).encrypt(names)).await;
    let new =
        plain.encrypted(Policy::new(aes("k2", 2)).encrypt(names).keys(KeyRing::new().with(aes("k1", 1))));
    let key = EntityKey::new("p", "1");
    old.insert(&person("1")).await.unwrap();
    let writer = {
        let old = old.clone();
        tokio::spawn(async move {
            for number in 0..200_i64 {
                old.upsert_replace(&person("1").with("Secret", number)).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        match new.rotate(&key).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::Contended),
        }
        let found = new.get(&key).await.unwrap().unwrap();
        assert!(found.get("Secret").and_then(|value| value.as_i64()).is_some());
    }
    writer.await.unwrap();
    assert_eq!(new.get(&key).await.unwrap().unwrap().get("Secret"), Some(&199_i64.into()));
}

#[tokio::test]
async fn write_tokens_go_along() {
    let (server, table) = TestServer::start().await.table_kept().await;
    let table =
        table.with_write_tokens().encrypted(Policy::new(aes("k1", 1)).encrypt_if(|_, _| true).require());
    server.fault(r#"{"operation":"InsertEntity","when":"after","cut":true,"count":1}"#).await;
    table.insert(&person("1")).await.unwrap();
    assert_eq!(table.get(&EntityKey::new("p", "1")).await.unwrap().unwrap().entity, person("1"));
}

#[tokio::test]
async fn the_metadata_count_as_properties() {
    let policy = Policy::new(aes("k1", 1)).encrypt(["P0"]);
    let (_server, _, table) = dynamic(policy).await;
    let with = |count: usize| {
        (0..count).fold(DynamicEntity::new("p", format!("{count}")), |entity, index| {
            entity.with(format!("P{index}"), "x")
        })
    };
    table.insert(&with(250)).await.unwrap();
    assert_eq!(table.insert(&with(251)).await.unwrap_err().kind(), ErrorKind::TooLarge);
}

/// Calls can be made in any task.
#[tokio::test]
async fn calls_can_be_spawned() {
    let (_server, table) = typed().await;
    table.insert(&salary(1)).await.unwrap();
    let (one, two, three) = (table.clone(), table.clone(), table.clone());
    assert!(tokio::spawn(async move { one.get_many([key(1)]).await.is_ok() }).await.unwrap());
    assert!(tokio::spawn(async move { two.partition("Sales").all().await.is_ok() }).await.unwrap());
    assert!(tokio::spawn(async move { three.rotate_all(None).await.is_ok() }).await.unwrap());
}
