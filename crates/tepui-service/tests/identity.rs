//! Accounts and role assignments that are stored: on a store that fails at random, with two nodes, and with services that go on while
//! an account is deleted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "shared/engine.rs"]
mod engine;

use engine::TestEngine;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tepui_model::account::AccountKey;
use tepui_model::blob::{self, ContainerEncryption, ContainerName};
use tepui_model::grant::KeyBounds;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{self, QueueName};
use tepui_model::role::{Role, RoleAssignment};
use tepui_model::service_properties::ServicePropertiesChange;
use tepui_model::table::{self, TableName};
use tepui_model::time::{ManualClock, NodeNumber};
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_service::blob::Caller;
use tepui_service::identity::{
    AccountOrigin, AccountRecord, AccountStage, IdentityError, IdentityStore, NewAccount, StoredKey, Switch,
};
use tepui_service::{
    BlobOptions, BlobService, GarbageCollector, QueueOptions, QueueService, TableOptions, TableService,
};
use tepui_storage::{Engine, MemoryEngine, MemoryExtents};
use tepui_storage_faulty::{AT_RANDOM, Faults, FaultyEngine, Rates};

fn clock(node: u64) -> Arc<ManualClock> {
    let clock = ManualClock::at(Timestamp::parse_iso("2026-03-10").unwrap());
    Arc::new(clock.of_node(NodeNumber::new(node).unwrap()))
}

fn key(byte: u8) -> AccountKey {
    AccountKey::new(vec![byte; 64])
}

fn new_account(byte: u8) -> NewAccount {
    NewAccount {
        keys: [key(byte), key(byte + 1)],
        delegation: key(byte + 2),
        disabled: false,
        allow_shared_keys: true,
    }
}

/// One node: the services, and the accounts.
struct Node<E: Engine> {
    store: IdentityStore<E>,
    tables: TableService<E>,
    queues: Arc<QueueService<E>>,
    blobs: BlobService<E, MemoryExtents>,
}

impl<E: Engine> Node<E> {
    fn new(engine: &Arc<E>, number: u64) -> Self {
        let clock: Arc<dyn Clock> = clock(number);
        let collector = Arc::new(GarbageCollector::new(Arc::clone(engine)));
        let ids = Arc::new(|| 7);
        Self {
            store: IdentityStore::new(Arc::clone(engine), Arc::clone(&clock)),
            tables: TableService::new(
                Arc::clone(engine),
                Arc::clone(&clock),
                Arc::clone(&collector),
                TableOptions::default(),
            ),
            queues: Arc::new(QueueService::new(
                Arc::clone(engine),
                Arc::clone(&clock),
                collector,
                QueueOptions::default(),
            )),
            blobs: BlobService::new(
                Arc::clone(engine),
                Arc::new(MemoryExtents::new()),
                clock,
                ids,
                BlobOptions::default(),
            ),
        }
    }

    async fn create_table(&self, account: &str, name: &str) -> Result<(), ServiceError> {
        let create = table::Operation::CreateTable { name: TableName::parse(name).unwrap() };
        self.tables.execute(account, &create, &KeyBounds::EVERYTHING).await.map(drop)
    }

    async fn create_queue(&self, account: &str, name: &str) -> Result<(), ServiceError> {
        let create = queue::Operation::CreateQueue {
            queue: QueueName::parse(name).unwrap(),
            metadata: Metadata::default(),
        };
        self.queues.execute(account, &queue::Call::Operation(create)).await.map(drop)
    }

    async fn create_container(&self, account: &str, name: &str) -> Result<(), ServiceError> {
        let create = blob::Operation::CreateContainer {
            container: ContainerName::parse(name).unwrap(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        self.blobs.execute(Caller::owner(account), &create).await.map(drop)
    }

    async fn set_properties(&self, account: &str) -> Result<(), ServiceError> {
        let set = table::Operation::SetServiceProperties(ServicePropertiesChange::default());
        self.tables.execute(account, &set, &KeyBounds::EVERYTHING).await.map(drop)
    }

    async fn fill(&self, account: &str) -> Vec<Option<ErrorCode>> {
        let done = [
            self.create_table(account, "Table").await,
            self.create_queue(account, "queue").await,
            self.create_container(account, "container").await,
            self.set_properties(account).await,
        ];
        done.into_iter().map(|done| done.err().map(|error| error.code)).collect()
    }

    async fn tables(&self, account: &str) -> usize {
        let query = table::Operation::QueryTables(table::QueryTables::default());
        match self.tables.execute(account, &query, &KeyBounds::EVERYTHING).await.unwrap() {
            table::Reply::Tables(page) => page.names.len(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_account_from_its_making_to_its_end() {
    let engine = Arc::new(MemoryEngine::new());
    let node = Node::new(&engine, 1);
    let store = &node.store;
    assert_eq!(store.version().await, Ok(0));
    let made = store.create("people", &new_account(1)).await.unwrap();
    assert_eq!((made.stage, made.origin), (AccountStage::Live, AccountOrigin::Created));
    assert_eq!(store.create("people", &new_account(4)).await, Err(IdentityError::AccountExists));
    assert_eq!(store.version().await, Ok(1), "what is refused changes nothing");
    assert_eq!(node.fill("people").await, [None; 4]);

    let renewed = store
        .edit("people", false, |record, now| {
            record.keys[0] = Some(StoredKey { key: key(9), created: now, replaces: None });
        })
        .await
        .unwrap();
    assert_eq!(store.read().await.unwrap().accounts["people"], renewed);
    assert_eq!(store.edit("nobody", false, |_, _| {}).await, Err(IdentityError::NoSuchAccount));
    let configured = store
        .edit("configured", true, |record, _| {
            record.disabled = Some(Switch { value: true, configured: false });
        })
        .await
        .unwrap();
    assert_eq!(configured.origin, AccountOrigin::Configured);
    assert_eq!(store.begin_deletion("configured").await, Err(IdentityError::NoSuchAccount));

    let role = RoleAssignment {
        principal: "oid:o".parse().unwrap(),
        issuer: None,
        role: Role::TableDataReader,
        scope: "/people/table/Table".parse().unwrap(),
    };
    let (stored, is_new) = store.assign(&role).await.unwrap();
    assert!(is_new);
    assert_eq!(store.assign(&role).await, Ok((stored.clone(), false)));
    store.assign(&RoleAssignment { scope: "/".parse().unwrap(), ..role.clone() }).await.unwrap();

    store.begin_deletion("people").await.unwrap();
    store.begin_deletion("people").await.unwrap();
    let marked = &store.read().await.unwrap().accounts["people"];
    assert_eq!(
        (marked.stage, &marked.keys, &marked.delegation),
        (AccountStage::Deleting, &[None, None], &None)
    );
    assert_eq!(
        node.fill("people").await,
        [
            Some(ErrorCode::TableAlreadyExists),
            None,
            Some(ErrorCode::ContainerAlreadyExists),
            Some(ErrorCode::ResourceNotFound)
        ]
    );
    assert_eq!(node.create_table("people", "Other").await.unwrap_err().code, ErrorCode::ResourceNotFound);
    assert_eq!(node.create_queue("people", "other").await.unwrap_err().code, ErrorCode::ResourceNotFound);
    assert_eq!(node.create_container("people", "other").await.unwrap_err().code, ErrorCode::ResourceNotFound);
    assert_eq!(store.create("people", &new_account(4)).await, Err(IdentityError::BeingDeleted));
    assert_eq!(store.edit("people", false, |_, _| {}).await, Err(IdentityError::NoSuchAccount));
    assert_eq!(
        store.assign(&RoleAssignment { issuer: Some("i".into()), ..role.clone() }).await,
        Err(IdentityError::BeingDeleted)
    );

    let counts = store.finish_deletion("people").await.unwrap();
    assert_eq!((counts.tables, counts.queues, counts.containers), (1, 1, 1));
    let left = store.read().await.unwrap();
    assert_eq!(left.accounts["people"].stage, AccountStage::Deleted);
    assert_eq!(left.assignments.len(), 1, "only that of the server");
    assert_eq!(node.create_table("people", "Other").await.unwrap_err().code, ErrorCode::ResourceNotFound);
    store.create("people", &new_account(4)).await.unwrap();
    assert_eq!(node.tables("people").await, 0);
    assert_eq!(node.fill("people").await, [None; 4]);

    store.begin_deletion("people").await.unwrap();
    store.finish_deletion("people").await.unwrap();
    store.forget_deleted(Timestamp::MAX).await.unwrap();
    assert_eq!(store.read().await.unwrap().accounts.keys().collect::<Vec<_>>(), ["configured"]);
    assert_eq!(store.remove(stored.id).await, Ok(None));
}

#[tokio::test]
async fn data_of_others_is_not_given_away_and_secrets_stay() {
    let engine = Arc::new(MemoryEngine::new());
    let node = Node::new(&engine, 1);
    node.create_queue("configured", "queue").await.unwrap();
    assert_eq!(node.store.create("configured", &new_account(1)).await, Err(IdentityError::HasData));
    assert_eq!(node.store.make_server_secret(&key(1)).await, Ok(key(1)));
    assert_eq!(node.store.make_server_secret(&key(2)).await, Ok(key(1)));
    assert_eq!(node.store.read().await.unwrap().server_secret, Some(key(1)));
}

/// Repeats what failed at random.
/// An engine that keeps copies of the rows of the catalogue could not delete hundreds in one commit.
#[tokio::test]
async fn what_is_in_an_account_is_deleted_a_few_at_a_time() {
    let engine = Arc::new(TestEngine::new());
    let node = Node::new(&engine, 1);
    node.store.create("people", &new_account(1)).await.unwrap();
    for number in 0..20 {
        node.create_table("people", &format!("Table{number}")).await.unwrap();
        node.create_queue("people", &format!("queue{number}")).await.unwrap();
        node.create_container("people", &format!("container{number}")).await.unwrap();
    }
    node.store.begin_deletion("people").await.unwrap();
    let counts = node.store.finish_deletion("people").await.unwrap();
    assert_eq!((counts.tables, counts.queues, counts.containers), (20, 20, 20));
    assert_eq!(engine.control().most_shared_writes.load(Ordering::Relaxed), 16, "queues have two each");
}

async fn sure<T, E: Into<IdentityError>, F: Future<Output = Result<T, E>>>(
    call: impl Fn() -> F,
) -> Result<T, IdentityError> {
    loop {
        match call().await.map_err(Into::into) {
            Err(IdentityError::Failed(error)) if error.to_string().contains(AT_RANDOM) => {}
            // Conflicts at random, again and again.
            Err(IdentityError::Failed(error)) if error.code == ErrorCode::ServerBusy => {}
            done => return done,
        }
    }
}

#[tokio::test]
async fn nothing_is_left_of_a_deleted_account_whatever_fails() {
    let engine = Arc::new(FaultyEngine::in_memory(Faults::from_environment(Rates::ALL)));
    let nodes = [Node::new(&engine, 1), Node::new(&engine, 2)];
    for round in 0..12u8 {
        let (one, two) = (&nodes[usize::from(round % 2)], &nodes[usize::from((round + 1) % 2)]);
        let new = new_account(round);
        let made = sure(|| one.store.create("people", &new)).await;
        // An attempt that was told nothing may have done it nevertheless.
        assert!(matches!(made, Ok(_) | Err(IdentityError::AccountExists)), "{round}: {made:?}");
        // Another node goes on making tables until it is told that there is no account.
        let writer = async {
            for number in 0.. {
                match two.create_table("people", &format!("Tab{number}")).await {
                    Err(error) if error.code == ErrorCode::ResourceNotFound => return number,
                    _ => tokio::task::yield_now().await,
                }
            }
            0
        };
        let deleter = async {
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            sure(|| one.store.begin_deletion("people")).await.unwrap();
            sure(|| one.store.finish_deletion("people")).await.unwrap();
        };
        let (tables, ()) = tokio::join!(writer, deleter);
        let read = sure(|| two.store.read()).await.unwrap();
        assert_eq!(read.accounts["people"].stage, AccountStage::Deleted, "{round}, after {tables} tables");
        let made = sure(|| two.store.create("people", &new)).await;
        assert!(matches!(made, Ok(_) | Err(IdentityError::AccountExists)), "{round}: {made:?}");
        let left = loop {
            let query = table::Operation::QueryTables(table::QueryTables::default());
            match one.tables.execute("people", &query, &KeyBounds::EVERYTHING).await {
                Ok(table::Reply::Tables(page)) => break page.names,
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
        };
        assert_eq!(left, Vec::<String>::new(), "{round}");
        sure(|| two.store.begin_deletion("people")).await.unwrap();
        sure(|| two.store.finish_deletion("people")).await.unwrap();
    }
}

#[tokio::test]
async fn of_concurrent_changes_none_is_lost() {
    let rates = Rates { unknown_kept: 0, unknown_lost: 0, unknown_late: 0, ..Rates::ALL };
    let engine = Arc::new(FaultyEngine::in_memory(Faults::from_environment(rates)));
    let nodes = [Node::new(&engine, 1), Node::new(&engine, 2)];
    let new = new_account(1);
    sure(|| nodes[0].store.create("people", &new)).await.unwrap();
    let renew = |node: usize, slot: usize| {
        let store = &nodes[node].store;
        async move {
            for round in 0..20u8 {
                let change = |record: &mut AccountRecord, now: Timestamp| {
                    record.keys[slot] = Some(StoredKey { key: key(round), created: now, replaces: None });
                };
                sure(|| store.edit("people", false, change)).await.unwrap();
            }
        }
    };
    tokio::join!(renew(0, 0), renew(1, 1));
    let read = sure(|| nodes[0].store.read()).await.unwrap();
    let keys = read.accounts["people"].keys.each_ref().map(|stored| stored.as_ref().unwrap().key.clone());
    assert_eq!(keys, [key(19), key(19)]);
    assert_eq!(read.version, 41);
}
