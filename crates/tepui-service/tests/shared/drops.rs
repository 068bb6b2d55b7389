//! Tables, queues and containers that one node drops while two others write into them, on any engine: nothing comes back, and
//! nothing is left.

#![allow(dead_code, reason = "not every suite needs all of it")]

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tepui_model::blob::{
    BlobInclude, BlobName, BlobPath, BlobSink, Checksums, ContainerEncryption, ContainerName, ListBlobs,
    ListedBlob, NewBlob, Preconditions, PutBlob, UploadOperation, operation,
};
use tepui_model::grant::KeyBounds;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{QueueName, SequencedOperation};
use tepui_model::table::{
    Action, Change, EntityKey, EntitySink, EntityView, PageSize, Properties, QueryEntities, TableName,
};
use tepui_model::time::{NodeNumber, SystemClock};
use tepui_model::{Clock, ErrorCode, ServiceError, blob, queue, table};
use tepui_service::blob::{BlobOptions, BlobService, Caller};
use tepui_service::{
    GarbageCollector, QueueOptions, QueueService, StoreAccess, TableOptions, TableService, WorkLeases,
};
use tepui_storage::{Engine, KeyRange, MemoryExtents, ScanLimit, Snapshot};

const ACCOUNT: &str = "account";
const NAME: &str = "dropped";

/// One node.
struct Node<E: Engine> {
    tables: TableService<E>,
    queues: Arc<QueueService<E>>,
    blobs: BlobService<E, MemoryExtents>,
}

/// Three nodes on a store.
pub(crate) struct DropTest<E: Engine> {
    engine: Arc<E>,
    nodes: Vec<Arc<Node<E>>>,
    collector: Arc<GarbageCollector<E>>,
    leases: WorkLeases<E>,
}

/// What is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    Queue,
    Container,
}

#[derive(Default)]
struct Counter(usize);

impl EntitySink for Counter {
    fn accept(&mut self, _: &EntityView<'_>) {
        self.0 += 1;
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl BlobSink for Counter {
    fn accept(&mut self, _: &ListedBlob<'_>) {
        self.0 += 1;
    }

    fn bytes(&self) -> usize {
        0
    }
}

impl<E: Engine> Node<E> {
    fn new(
        engine: &Arc<E>,
        extents: &Arc<MemoryExtents>,
        collector: &Arc<GarbageCollector<E>>,
        number: u64,
    ) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let node = NodeNumber::new(number).expect("a few nodes");
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::of_node(node));
        let random_ids = Arc::new(|| u128::from(NEXT_ID.fetch_add(1, Ordering::Relaxed)));
        let engine = || Arc::clone(engine);
        let collector = || Arc::clone(collector);
        Self {
            tables: TableService::new(engine(), Arc::clone(&clock), collector(), TableOptions::default()),
            queues: Arc::new(QueueService::new(
                engine(),
                Arc::clone(&clock),
                collector(),
                QueueOptions::default(),
            )),
            blobs: BlobService::new(engine(), Arc::clone(extents), clock, random_ids, BlobOptions::default()),
        }
    }

    async fn create(&self, kind: Kind) -> Result<(), ServiceError> {
        match kind {
            Kind::Table => {
                let create = table::Operation::CreateTable { name: TableName::parse(NAME)? };
                self.tables.execute(ACCOUNT, &create, &KeyBounds::EVERYTHING).await.map(drop)
            }
            Kind::Queue => {
                let queue = QueueName::parse(NAME)?;
                let create = queue::Operation::CreateQueue { queue, metadata: Metadata::default() };
                self.queues.execute(ACCOUNT, &create.into()).await.map(drop)
            }
            Kind::Container => {
                let create = blob::Operation::CreateContainer {
                    container: ContainerName::parse(NAME)?,
                    metadata: Metadata::default(),
                    public_access: None,
                    encryption: ContainerEncryption::default(),
                };
                self.blobs.execute(Caller::owner(ACCOUNT), &create).await.map(drop)
            }
        }
    }

    /// Creates it, though the outcome of an attempt may be open: then the next one may find it there.
    async fn insist_on_creating(&self, kind: Kind, round: usize) {
        let (created, is_repeated) = insist(|| self.create(kind)).await;
        let was_there = match kind {
            Kind::Table => ErrorCode::TableAlreadyExists,
            Kind::Queue => ErrorCode::QueueAlreadyExists,
            Kind::Container => ErrorCode::ContainerAlreadyExists,
        };
        match created {
            Ok(()) => {}
            Err(code) => assert!(is_repeated && code == was_there, "{kind:?} {round}: {code:?}"),
        }
    }

    async fn drop_it(&self, kind: Kind) -> Result<(), ServiceError> {
        match kind {
            Kind::Table => {
                let delete = table::Operation::DeleteTable { table: NAME.to_owned() };
                self.tables.execute(ACCOUNT, &delete, &KeyBounds::EVERYTHING).await.map(drop)
            }
            Kind::Queue => {
                let delete = SequencedOperation::DeleteQueue { queue: QueueName::parse(NAME)? };
                self.queues.execute(ACCOUNT, &delete.into()).await.map(drop)
            }
            Kind::Container => {
                let (container, preconditions) = (ContainerName::parse(NAME)?, Preconditions::default());
                let delete = blob::Operation::DeleteContainer { container, preconditions };
                self.blobs.execute(Caller::owner(ACCOUNT), &delete).await.map(drop)
            }
        }
    }

    async fn write(&self, kind: Kind, name: &str) -> Result<(), ServiceError> {
        match kind {
            Kind::Table => {
                let action = Action::InsertOrReplace(Properties::default());
                let change = Change { key: EntityKey::new("p", name), action };
                self.tables.change_entity(ACCOUNT, NAME, &change, &KeyBounds::EVERYTHING).await.map(drop)
            }
            Kind::Queue => {
                let put = SequencedOperation::PutMessage {
                    queue: QueueName::parse(NAME)?,
                    text: Bytes::copy_from_slice(name.as_bytes()),
                    visibility: Duration::ZERO,
                    lifetime: Some(Duration::from_secs(3600)),
                };
                self.queues.execute(ACCOUNT, &put.into()).await.map(drop)
            }
            Kind::Container => {
                let blob = BlobPath { container: ContainerName::parse(NAME)?, blob: BlobName::parse(name)? };
                let upload =
                    operation::Upload { bytes: None, max_bytes: 1 << 20, checksums: Checksums::default() };
                let (new, preconditions) = (NewBlob::default(), Preconditions::default());
                let put = UploadOperation::PutBlob(PutBlob { blob, new, upload, preconditions });
                let mut upload = self.blobs.begin_upload(&put);
                upload.write(Bytes::from(vec![7; 1000])).await?;
                let uploaded = upload.finish().await?;
                self.blobs.execute_upload(Caller::owner(ACCOUNT), &put, uploaded).await.map(drop)
            }
        }
    }

    /// How much there is.
    async fn count(&self, kind: Kind) -> Result<usize, ServiceError> {
        let mut found = Counter::default();
        match kind {
            Kind::Table => {
                let page_size = PageSize::new(1000).expect("a page");
                let query = QueryEntities { table: NAME.to_owned(), page_size, ..QueryEntities::default() };
                let (bounds, time) = (&KeyBounds::EVERYTHING, Duration::from_secs(30));
                self.tables.query_entities(ACCOUNT, &query, bounds, time, &mut found).await?;
            }
            Kind::Queue => {
                let queue = QueueName::parse(NAME)?;
                let counted = queue::Operation::GetMetadata { queue: queue.clone() };
                match self.queues.execute(ACCOUNT, &counted.into()).await? {
                    queue::Reply::Metadata { messages, .. } => found.0 = messages as usize,
                    other => panic!("not counted: {other:?}"),
                }
                let all = self.queues.all_messages(ACCOUNT, &queue, None, 10_000).await?;
                assert_eq!(all.messages.len(), found.0, "the count is exact");
            }
            Kind::Container => {
                let query = ListBlobs {
                    container: ContainerName::parse(NAME)?,
                    prefix: String::new(),
                    delimiter: None,
                    from: None,
                    page_size: 1000,
                    include: BlobInclude::default(),
                };
                self.blobs.list_blobs(Caller::owner(ACCOUNT), &query, &mut found).await?;
            }
        }
        Ok(found.0)
    }
}

fn is_gone(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TableNotFound
            | ErrorCode::ResourceNotFound
            | ErrorCode::QueueNotFound
            | ErrorCode::ContainerNotFound
    )
}

/// Repeats a request that a faulty store has refused, or whose outcome it has left open.
async fn insist<T, F>(mut request: impl FnMut() -> F) -> (Result<T, ErrorCode>, bool)
where
    F: Future<Output = Result<T, ServiceError>>,
{
    let mut is_repeated = false;
    for _ in 0..200 {
        match request().await {
            Err(error) if matches!(error.code, ErrorCode::ServerBusy | ErrorCode::InternalError) => {
                is_repeated = true;
            }
            answer => return (answer.map_err(|error| error.code), is_repeated),
        }
    }
    panic!("a request does not succeed");
}

impl<E: Engine> DropTest<E> {
    pub(crate) fn new(engine: E) -> Self {
        let (engine, extents) = (Arc::new(engine), Arc::new(MemoryExtents::new()));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let node = |number| Arc::new(Node::new(&engine, &extents, &collector, number));
        let nodes = (1..=3).map(node).collect();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let leases = WorkLeases::new(Arc::clone(&engine), clock, StoreAccess::Exclusive, 1);
        Self { engine, nodes, collector, leases }
    }

    /// Drops it again and again. `settle` lets everything happen that is still to come.
    pub(crate) async fn run(&self, kind: Kind, rounds: usize, settle: impl AsyncFn()) {
        let [dropper, writers @ ..] = self.nodes.as_slice() else { panic!("there are three") };
        let mut written = 0;
        for round in 0..rounds {
            dropper.insist_on_creating(kind, round).await;
            let is_dropped = Arc::new(AtomicBool::new(false));
            let tasks: Vec<_> = writers
                .iter()
                .enumerate()
                .flat_map(|(node, writer)| (0..2).map(move |task| (node, task, Arc::clone(writer))))
                .map(|(node, task, writer)| {
                    let is_dropped = Arc::clone(&is_dropped);
                    tokio::spawn(async move {
                        for number in 0.. {
                            let begun_after = is_dropped.load(Ordering::SeqCst);
                            let name = format!("{node}-{task}-{number}");
                            match insist(|| writer.write(kind, &name)).await.0 {
                                Ok(()) => assert!(!begun_after, "{kind:?} {round}: written after the drop"),
                                Err(code) if is_gone(code) => return number,
                                Err(code) => panic!("{kind:?} {round}: {code:?}"),
                            }
                        }
                        0
                    })
                })
                .collect();
            // Some have begun.
            for _ in 0..round % 40 {
                tokio::task::yield_now().await;
            }
            match insist(|| dropper.drop_it(kind)).await {
                (Ok(()), _) => {}
                (Err(code), is_repeated) => {
                    assert!(is_repeated && is_gone(code), "{kind:?} {round}: {code:?}")
                }
            }
            is_dropped.store(true, Ordering::SeqCst);
            for task in tasks {
                written += task.await.expect("a writer ends");
            }
            settle().await;
            // The name is free.
            writers[round % 2].insist_on_creating(kind, round).await;
            for node in &self.nodes {
                let found = insist(|| node.count(kind)).await.0;
                assert_eq!(found, Ok(0), "{kind:?} {round}: something has come back");
            }
            let (dropped, is_repeated) = insist(|| dropper.drop_it(kind)).await;
            assert!(dropped.is_ok() || is_repeated, "{kind:?} {round}: {dropped:?}");
            settle().await;
            if round % 20 == 19 || round + 1 == rounds {
                self.expect_nothing_left(kind, round).await;
            }
        }
        assert!(written > rounds, "{kind:?}: only {written} were written");
    }

    /// Collects garbage until only counters are left.
    async fn expect_nothing_left(&self, kind: Kind, round: usize) {
        let mut left = Vec::new();
        for attempt in 0..50 {
            // It goes on for ever. Over a network it takes longer until it is done.
            let patience = Duration::from_millis(20 + 10 * attempt);
            let collecting = self.collector.run(&self.leases);
            let _ = tokio::time::timeout(patience, collecting).await;
            if kind == Kind::Container {
                let _ = self.nodes[0].blobs.collect_garbage_once().await;
            }
            left = match self.rows().await {
                Ok(rows) if rows.is_empty() => return,
                Ok(rows) => rows,
                Err(_) => continue,
            };
        }
        panic!("{kind:?} {round}: {} rows are left: {:?}", left.len(), left.first());
    }

    /// All rows but counters and versions of the catalogue.
    async fn rows(&self) -> Result<Vec<tepui_storage::Key>, tepui_storage::StorageError> {
        let transaction = self.engine.begin().await?;
        let mut range = KeyRange { start: vec![0x12].into(), end: vec![0xFF].into() };
        let mut rows = Vec::new();
        loop {
            let limit = ScanLimit { max_rows: 1000, max_bytes: 1 << 20 };
            let page = transaction.scan(&range, limit).await?;
            rows.extend(page.rows.into_iter().map(|(key, _)| key));
            let Some(next) = page.next else { return Ok(rows) };
            range.start = next;
        }
    }
}
