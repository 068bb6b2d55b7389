//! The services of a server that is a test bench, and short ways to ask them for things.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tepui_model::blob::{self, *};
use tepui_model::condition::Condition;
use tepui_model::grant::KeyBounds;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{self, QueueName, SequencedOperation};
use tepui_model::service_properties::{Logging, ServicePropertiesChange};
use tepui_model::table::{
    self, Action, Change, EntityKey, EntitySink, EntityView, PageSize, PropertiesBuilder, QueryEntities,
    QueryTables, TableName, ValueRef, Written,
};
use tepui_model::time::SystemClock;
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_service::blob::Caller;
use tepui_service::check::RowCheck;
use tepui_service::test_bench::{GarbagePause, TestBench};
use tepui_service::{
    BlobOptions, BlobService, GarbageCollector, QueueOptions, QueueService, StoreAccess, TableOptions,
    TableService, WorkLeases,
};
use tepui_storage::rewindable::RewindableEngine;
use tepui_storage::{Engine, Extents, Key, KeyRange, ScanLimit, Snapshot};
use tokio::task::JoinSet;

pub(crate) struct World<E: Engine, X: Extents> {
    pub(crate) bench: Arc<TestBench<E, X>>,
    pub(crate) extents: Arc<X>,
    _chores: JoinSet<()>,
}

/// Everything that callers can see, of all accounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// By account and name: entities by their row keys, with value and ETag.
    pub(crate) tables: BTreeMap<(String, String), BTreeMap<String, (i32, Timestamp)>>,
    /// The texts of messages.
    pub(crate) queues: BTreeMap<(String, String), Vec<Bytes>>,
    /// Blobs, and their bytes.
    pub(crate) containers: BTreeMap<(String, String), BTreeMap<String, Bytes>>,
    /// A setting of the Table service, by account.
    pub(crate) settings: BTreeMap<String, u32>,
}

impl<E: Engine, X: Extents> World<E, X> {
    pub(crate) fn new(engine: Arc<E>, extents: Arc<X>) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let engine = Arc::new(RewindableEngine::on(engine));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let tables = TableService::new(
            Arc::clone(&engine),
            Arc::clone(&clock),
            Arc::clone(&collector),
            TableOptions::default(),
        );
        let queues = QueueService::new(
            Arc::clone(&engine),
            Arc::clone(&clock),
            Arc::clone(&collector),
            QueueOptions::default(),
        );
        let ids = Arc::new(|| u128::from(NEXT_ID.fetch_add(1, Ordering::SeqCst)));
        let blobs = Arc::new(BlobService::new(
            Arc::clone(&engine),
            Arc::clone(&extents),
            Arc::clone(&clock),
            ids,
            BlobOptions::default(),
        ));
        let garbage = Arc::new(GarbagePause::default());
        let leases =
            Arc::new(WorkLeases::new(Arc::clone(&engine), Arc::clone(&clock), StoreAccess::Exclusive, 1));
        let mut chores = JoinSet::new();
        let (pause, of_tables, collects) =
            (Arc::clone(&garbage), Arc::clone(&leases), Arc::clone(&collector));
        chores.spawn(async move { pause.run_between(|| collects.run(&of_tables)).await });
        let (pause, cleaner) = (Arc::clone(&garbage), Arc::clone(&blobs));
        chores.spawn(async move { pause.run_between(|| cleaner.collect_garbage(&leases)).await });
        let bench = Arc::new(TestBench {
            engine,
            tables: Arc::new(tables),
            queues: Arc::new(queues),
            blobs,
            collector,
            clock,
            garbage,
        });
        Self { bench, extents, _chores: chores }
    }

    pub(crate) async fn create_table(&self, account: &str, table: &str) -> Result<(), ErrorCode> {
        let operation = table::Operation::CreateTable { name: TableName::parse(table).unwrap() };
        self.table(account, operation).await.map(drop)
    }

    pub(crate) async fn table(
        &self,
        account: &str,
        operation: table::Operation,
    ) -> Result<table::Reply, ErrorCode> {
        let bounds = KeyBounds::default();
        self.bench.tables.execute(account, &operation, &bounds).await.map_err(|error| error.code)
    }

    pub(crate) async fn delete_table(&self, account: &str, table: &str) -> Result<(), ErrorCode> {
        self.table(account, table::Operation::DeleteTable { table: table.to_owned() }).await.map(drop)
    }

    /// Puts or deletes an entity.
    pub(crate) async fn change(
        &self,
        account: &str,
        table: &str,
        row: &str,
        value: Option<i32>,
    ) -> Result<Written, ErrorCode> {
        let action = match value {
            Some(value) => {
                let mut properties = PropertiesBuilder::new();
                properties.push("Value", ValueRef::Int32(value)).unwrap();
                Action::InsertOrReplace(properties.finish())
            }
            None => Action::Delete(Condition::Any),
        };
        let change = Change { key: EntityKey::new("p".to_owned(), row.to_owned()), action };
        let bounds = KeyBounds::default();
        let run = self.bench.tables.change_entity(account, table, &change, &bounds);
        run.await.map_err(|error| error.code)
    }

    pub(crate) async fn set_logging_days(&self, account: &str, days: u32) {
        let logging = Logging { retention_days: Some(days), ..Logging::default() };
        let change = ServicePropertiesChange { logging: Some(logging), ..Default::default() };
        self.table(account, table::Operation::SetServiceProperties(change)).await.unwrap();
    }

    pub(crate) async fn queue(
        &self,
        account: &str,
        call: impl Into<queue::Call>,
    ) -> Result<queue::Reply, ErrorCode> {
        self.bench.queues.execute(account, &call.into()).await.map_err(|error| error.code)
    }

    pub(crate) async fn create_queue(&self, account: &str, name: &str) -> Result<(), ErrorCode> {
        let operation =
            queue::Operation::CreateQueue { queue: queue_name(name), metadata: Metadata::default() };
        self.queue(account, operation).await.map(drop)
    }

    pub(crate) async fn put_message(&self, account: &str, name: &str, text: Bytes) -> Result<(), ErrorCode> {
        let put = SequencedOperation::PutMessage {
            queue: queue_name(name),
            text,
            visibility: Duration::ZERO,
            lifetime: None,
        };
        self.queue(account, put).await.map(drop)
    }

    /// Gets a message and deletes it.
    pub(crate) async fn consume(&self, account: &str, name: &str) -> Result<Option<Bytes>, ErrorCode> {
        let queue = queue_name(name);
        let visibility = Duration::from_secs(600);
        let get = SequencedOperation::GetMessages { queue: queue.clone(), count: 1, visibility };
        let queue::Reply::Messages(mut messages) = self.queue(account, get).await? else { panic!() };
        let Some(message) = messages.pop() else { return Ok(None) };
        let (id, receipt) = (Some(message.stamp.id), Some(message.receipt));
        self.queue(account, SequencedOperation::DeleteMessage { queue, id, receipt }).await?;
        Ok(Some(message.text))
    }

    pub(crate) async fn blob(
        &self,
        account: &str,
        operation: blob::Operation,
    ) -> Result<blob::Reply, ErrorCode> {
        let run = self.bench.blobs.execute(Caller::owner(account), &operation);
        run.await.map(|answer| answer.reply).map_err(|error| error.code)
    }

    pub(crate) async fn create_container(&self, account: &str, name: &str) -> Result<(), ErrorCode> {
        let operation = blob::Operation::CreateContainer {
            container: ContainerName::parse(name).unwrap(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        };
        self.blob(account, operation).await.map(drop)
    }

    pub(crate) async fn delete_container(&self, account: &str, name: &str) -> Result<(), ErrorCode> {
        let container = ContainerName::parse(name).unwrap();
        let preconditions = Preconditions::default();
        self.blob(account, blob::Operation::DeleteContainer { container, preconditions }).await.map(drop)
    }

    pub(crate) async fn put_blob(
        &self,
        account: &str,
        container: &str,
        name: &str,
        bytes: Bytes,
    ) -> Result<(), ErrorCode> {
        let upload = operation::Upload { bytes: None, max_bytes: 1 << 30, checksums: Checksums::default() };
        let operation = blob::UploadOperation::PutBlob(PutBlob {
            blob: path(container, name),
            new: NewBlob::default(),
            upload,
            preconditions: Preconditions::default(),
        });
        let put = async {
            let mut upload = self.bench.blobs.begin_upload(&operation);
            upload.write(bytes).await?;
            let uploaded = upload.finish().await?;
            self.bench.blobs.execute_upload(Caller::owner(account), &operation, uploaded).await
        };
        put.await.map(drop).map_err(|error: ServiceError| error.code)
    }

    pub(crate) async fn snapshot_blob(
        &self,
        account: &str,
        container: &str,
        name: &str,
    ) -> Result<(), ErrorCode> {
        let operation = blob::Operation::SnapshotBlob {
            blob: path(container, name),
            metadata: Metadata::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        self.blob(account, operation).await.map(drop)
    }

    pub(crate) async fn delete_blob(
        &self,
        account: &str,
        container: &str,
        name: &str,
    ) -> Result<(), ErrorCode> {
        let operation = blob::Operation::DeleteBlob(DeleteBlob {
            blob: path(container, name),
            revision: Revision::Base,
            snapshots: Some(DeleteSnapshots::Include),
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        self.blob(account, operation).await.map(drop)
    }

    pub(crate) async fn read_blob(
        &self,
        account: &str,
        container: &str,
        name: &str,
    ) -> Result<Bytes, ErrorCode> {
        let get = GetBlob {
            blob: path(container, name),
            revision: Revision::Base,
            range: None,
            range_checksum: None,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        let read = async {
            let operation = blob::Operation::GetBlob(get);
            let answer = self.bench.blobs.execute(Caller::owner(account), &operation).await?;
            let mut read = Vec::new();
            let mut download = answer.content.unwrap();
            while let Some(pieces) = download.next().await? {
                pieces.iter().for_each(|bytes| read.extend_from_slice(bytes));
            }
            Ok(Bytes::from(read))
        };
        read.await.map_err(|error: ServiceError| error.code)
    }

    pub(crate) async fn entities(&self, account: &str, table: &str) -> BTreeMap<String, (i32, Timestamp)> {
        let mut found = Entities::default();
        let mut query = QueryEntities { table: table.to_owned(), ..QueryEntities::default() };
        loop {
            let (bounds, time) = (KeyBounds::default(), Duration::from_secs(60));
            let page = self.bench.tables.query_entities(account, &query, &bounds, time, &mut found);
            let Some(next) = page.await.unwrap().next else { return found.0 };
            query.from = Some(next);
        }
    }

    /// Everything of these accounts, by what the services say.
    pub(crate) async fn see(&self, accounts: &[&str]) -> Seen {
        let mut seen = Seen::default();
        for account in accounts {
            let named = |name: &str| ((*account).to_owned(), name.to_owned());
            let query = QueryTables { filter: None, page_size: PageSize::MAX, from: None };
            let table::Reply::Tables(page) =
                self.table(account, table::Operation::QueryTables(query)).await.unwrap()
            else {
                panic!()
            };
            for table in page.names {
                seen.tables.insert(named(&table), self.entities(account, &table).await);
            }
            let properties = self.bench.tables.service_properties(account).await.unwrap();
            seen.settings.extend(properties.logging.retention_days.map(|days| ((*account).to_owned(), days)));
            let list = queue::ListQueues {
                prefix: String::new(),
                from: None,
                page_size: 5000,
                with_metadata: false,
            };
            let queue::Reply::Queues(page) =
                self.queue(account, queue::Operation::ListQueues(list)).await.unwrap()
            else {
                panic!()
            };
            for listed in page.queues {
                let peek = queue::Operation::PeekMessages { queue: queue_name(&listed.name), count: 1000 };
                let queue::Reply::Peeked(messages) = self.queue(account, peek).await.unwrap() else {
                    panic!()
                };
                seen.queues
                    .insert(named(&listed.name), messages.into_iter().map(|message| message.text).collect());
            }
            let list = ListContainers {
                prefix: String::new(),
                from: None,
                page_size: 5000,
                with_metadata: false,
                with_deleted: false,
                with_system: false,
            };
            let blob::Reply::Containers(page) =
                self.blob(account, blob::Operation::ListContainers(list)).await.unwrap()
            else {
                panic!()
            };
            for container in page.containers {
                let container = container.name.to_string();
                let mut blobs = BTreeMap::new();
                for name in self.blob_names(account, &container).await {
                    let bytes = self.read_blob(account, &container, &name).await.unwrap();
                    blobs.insert(name, bytes);
                }
                seen.containers.insert(named(&container), blobs);
            }
        }
        seen
    }

    pub(crate) async fn blob_names(&self, account: &str, container: &str) -> Vec<String> {
        let mut names = BlobNames::default();
        let mut query = ListBlobs {
            container: ContainerName::parse(container).unwrap(),
            prefix: String::new(),
            delimiter: None,
            from: None,
            page_size: 5000,
            include: BlobInclude::default(),
        };
        loop {
            let caller = Caller::owner(account);
            let page = self.bench.blobs.list_blobs(caller, &query, &mut names).await.unwrap();
            let Some(next) = page.next else { return names.0 };
            query.from = Some(next);
        }
    }

    /// That every row belongs to something and everything is counted right. Returns how many rows and extents are garbage.
    pub(crate) async fn check_rows(&self) -> (u64, u64) {
        let mut damages = Vec::new();
        let mut check = RowCheck::default();
        let rows = self.rows().await;
        for (key, value) in &rows {
            check.row(key, value, &mut |damage| damages.push(damage));
        }
        let (counts, mut trace) = check.finish(&[], &mut |damage| damages.push(damage));
        while trace.needs_pass() {
            rows.iter().for_each(|(key, value)| trace.row(key, value));
            trace.end_of_pass(&mut |damage| damages.push(damage));
        }
        assert!(damages.is_empty(), "{damages:#?}");
        (counts.garbage_rows, counts.garbage_extents)
    }

    async fn rows(&self) -> Vec<(Key, Bytes)> {
        let transaction = self.bench.engine.begin().await.unwrap();
        let mut range = KeyRange { start: Key::new(), end: Key::from_static(&[0xFF]) };
        let limit = ScanLimit { max_rows: 10_000, max_bytes: 16 << 20 };
        let mut rows = Vec::new();
        loop {
            let page = transaction.scan(&range, limit).await.unwrap();
            rows.extend(page.rows);
            let Some(next) = page.next else { return rows };
            range.start = next;
        }
    }

    /// Waits until all garbage is collected.
    pub(crate) async fn garbage_is_gone(&self) {
        for _ in 0..600 {
            if self.check_rows().await == (0, 0) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("garbage is left: {:?}", self.check_rows().await);
    }
}

pub(crate) fn queue_name(name: &str) -> QueueName {
    QueueName::parse(name).unwrap()
}

fn path(container: &str, blob: &str) -> BlobPath {
    BlobPath { container: ContainerName::parse(container).unwrap(), blob: BlobName::parse(blob).unwrap() }
}

#[derive(Default)]
struct Entities(BTreeMap<String, (i32, Timestamp)>);

impl EntitySink for Entities {
    fn accept(&mut self, entity: &EntityView<'_>) {
        let mut values = table::properties::iter(entity.packed);
        let Some((_, ValueRef::Int32(value))) = values.next() else { panic!("no value") };
        self.0.insert(entity.row_key.to_owned(), (value, entity.timestamp));
    }

    fn bytes(&self) -> usize {
        0
    }
}

#[derive(Default)]
struct BlobNames(Vec<String>);

impl BlobSink for BlobNames {
    fn accept(&mut self, listed: &ListedBlob<'_>) {
        if let ListedBlob::Blob(entry) = listed {
            self.0.push(entry.name.to_owned());
        }
    }

    fn bytes(&self) -> usize {
        0
    }
}
