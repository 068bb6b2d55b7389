//! The services on a storage, with something of everything in it, and all that can be seen through them.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tepui_model::blob::{self, *};
use tepui_model::condition::Condition;
use tepui_model::grant::KeyBounds;
use tepui_model::metadata::Metadata;
use tepui_model::queue::{self, QueueName, SequencedOperation};
use tepui_model::table::{
    self, Action, Change, EntityKey, EntitySink, EntityView, PageSize, PropertiesBuilder, QueryEntities,
    QueryTables, TableName, ValueRef,
};
use tepui_model::time::ManualClock;
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_service::blob::Caller;
use tepui_service::copy::Storage;
use tepui_service::{
    BlobOptions, BlobService, GarbageCollector, QueueOptions, QueueService, TableOptions, TableService,
};
use tepui_storage::{Engine, Extents};

/// Keeps versions of its blobs.
pub(crate) const VERSIONED: &str = "versioned";
pub(crate) const PLAIN: &str = "plain";
/// Too long for a row.
const LARGE: usize = 70_000;
const SECRET: CustomerSecret = CustomerSecret([7; 32]);

pub(crate) fn clock_start() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap()
}

pub(crate) struct World<E: Engine, X: Extents> {
    tables: TableService<E>,
    queues: Arc<QueueService<E>>,
    pub(crate) blobs: BlobService<E, X>,
    account: &'static str,
}

/// Different bytes for each seed.
pub(crate) fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ seed).collect()
}

fn path(container: &str, name: &str) -> BlobPath {
    BlobPath { container: ContainerName::parse(container).unwrap(), blob: BlobName::parse(name).unwrap() }
}

fn upload() -> operation::Upload {
    operation::Upload { bytes: None, max_bytes: 1 << 30, checksums: Checksums::default() }
}

fn block_id(id: &str) -> BlockId {
    BlockId::from_bytes(id.as_bytes().to_vec()).unwrap()
}

fn encrypted() -> Encryption {
    Encryption { key: Some(CustomerKey { sha256: [9; 32] }), secret: Some(SECRET), scope: None }
}

impl<E: Engine, X: Extents> World<E, X> {
    pub(crate) fn of(storage: &Storage<E, X>, account: &'static str) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (engine, extents) = (Arc::clone(&storage.engine), Arc::clone(&storage.extents));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(clock_start()));
        let collector = Arc::new(GarbageCollector::new(Arc::clone(&engine)));
        let tables = TableService::new(
            Arc::clone(&engine),
            Arc::clone(&clock),
            Arc::clone(&collector),
            TableOptions::default(),
        );
        let queues =
            QueueService::new(Arc::clone(&engine), Arc::clone(&clock), collector, QueueOptions::default());
        let ids = Arc::new(|| u128::from(NEXT_ID.fetch_add(1, Ordering::SeqCst)));
        let options = BlobOptions {
            versioned_accounts: vec![VERSIONED.to_owned()],
            container_retention: Some(Duration::from_secs(86_400)),
            ..BlobOptions::default()
        };
        let blobs = BlobService::new(engine, extents, clock, ids, options);
        Self { tables, queues: Arc::new(queues), blobs, account }
    }

    async fn table(&self, operation: table::Operation) -> table::Reply {
        self.tables.execute(self.account, &operation, &KeyBounds::default()).await.unwrap()
    }

    pub(crate) async fn create_table(&self, name: &str) {
        self.table(table::Operation::CreateTable { name: TableName::parse(name).unwrap() }).await;
    }

    pub(crate) async fn put_entity(&self, table: &str, keys: (&str, &str), values: &[(&str, ValueRef<'_>)]) {
        let mut properties = PropertiesBuilder::new();
        for (name, value) in values {
            properties.push(name, *value).unwrap();
        }
        let key = EntityKey::new(keys.0.to_owned(), keys.1.to_owned());
        let change = Change { key, action: Action::InsertOrReplace(properties.finish()) };
        self.tables.change_entity(self.account, table, &change, &KeyBounds::default()).await.unwrap();
    }

    async fn delete_entity(&self, table: &str, keys: (&str, &str)) {
        let key = EntityKey::new(keys.0.to_owned(), keys.1.to_owned());
        let change = Change { key, action: Action::Delete(Condition::Any) };
        self.tables.change_entity(self.account, table, &change, &KeyBounds::default()).await.unwrap();
    }

    async fn queue(&self, call: impl Into<queue::Call>) -> queue::Reply {
        self.queues.execute(self.account, &call.into()).await.unwrap()
    }

    pub(crate) async fn create_queue(&self, name: &str) {
        let (queue, metadata) = (QueueName::parse(name).unwrap(), Metadata::default());
        self.queue(queue::Operation::CreateQueue { queue, metadata }).await;
    }

    pub(crate) async fn put_message(&self, name: &str, text: &str, visibility: u64, lifetime: Option<u64>) {
        let (queue, text) = (QueueName::parse(name).unwrap(), Bytes::copy_from_slice(text.as_bytes()));
        let (visibility, lifetime) = (Duration::from_secs(visibility), lifetime.map(Duration::from_secs));
        self.queue(SequencedOperation::PutMessage { queue, text, visibility, lifetime }).await;
    }

    async fn receive(&self, name: &str, count: usize) -> Vec<Bytes> {
        let (queue, visibility) = (QueueName::parse(name).unwrap(), Duration::from_secs(600));
        match self.queue(SequencedOperation::GetMessages { queue, count, visibility }).await {
            queue::Reply::Messages(messages) => messages.into_iter().map(|message| message.text).collect(),
            other => panic!("{other:?}"),
        }
    }

    async fn blob(&self, operation: blob::Operation) -> Result<blob::Reply, ErrorCode> {
        let run = self.blobs.execute(Caller::owner(self.account), &operation);
        run.await.map(|answer| answer.reply).map_err(|error| error.code)
    }

    pub(crate) async fn create_container(&self, name: &str) {
        let container = ContainerName::parse(name).unwrap();
        let metadata = Metadata::new(vec![("team".to_owned(), name.to_owned())]).unwrap();
        let encryption = ContainerEncryption::default();
        let create =
            blob::Operation::CreateContainer { container, metadata, public_access: None, encryption };
        self.blob(create).await.unwrap();
    }

    async fn send(&self, operation: UploadOperation, bytes: &[u8]) -> blob::Reply {
        let send = async {
            let mut upload = self.blobs.begin_upload(&operation);
            upload.write(Bytes::copy_from_slice(bytes)).await?;
            let uploaded = upload.finish().await?;
            self.blobs.execute_upload(Caller::owner(self.account), &operation, uploaded).await
        };
        send.await.unwrap_or_else(|error: ServiceError| panic!("{error:?}"))
    }

    pub(crate) async fn put_blob(&self, container: &str, name: &str, new: NewBlob, bytes: &[u8]) {
        let preconditions = Preconditions::default();
        let put = PutBlob { blob: path(container, name), new, upload: upload(), preconditions };
        self.send(UploadOperation::PutBlob(put), bytes).await;
    }

    async fn put_empty(&self, container: &str, name: &str, content: EmptyContent) {
        let (new, preconditions) = (NewBlob::default(), Preconditions::default());
        let put = PutEmptyBlob { blob: path(container, name), new, content, preconditions };
        self.blob(blob::Operation::PutEmptyBlob(put)).await.unwrap();
    }

    pub(crate) async fn put_block(&self, container: &str, name: &str, id: &str, bytes: &[u8]) {
        self.put_block_with(container, name, id, Encryption::default(), bytes).await;
    }

    async fn put_block_with(&self, container: &str, name: &str, id: &str, key: Encryption, bytes: &[u8]) {
        let put = PutBlock {
            blob: path(container, name),
            id: block_id(id),
            piece: Piece::Sent(upload()),
            preconditions: Preconditions::default(),
            encryption: key,
        };
        self.send(UploadOperation::PutBlock(put), bytes).await;
    }

    async fn put_list(&self, container: &str, name: &str, ids: &[&str], encryption: Encryption) {
        let chosen = |id: &&str| ChosenBlock { id: block_id(id), search: BlockSearch::Latest };
        let list = PutBlockList {
            blob: path(container, name),
            blocks: ids.iter().map(chosen).collect(),
            list_checksums: Checksums::default(),
            new: NewBlob { encryption, ..NewBlob::default() },
            preconditions: Preconditions::default(),
        };
        self.blob(blob::Operation::PutBlockList(list)).await.unwrap();
    }

    async fn append(&self, container: &str, name: &str, bytes: &[u8]) {
        let append = AppendBlock {
            blob: path(container, name),
            piece: Piece::Sent(upload()),
            append: AppendConditions::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        self.send(UploadOperation::AppendBlock(append), bytes).await;
    }

    fn pages(container: &str, name: &str, pages: std::ops::Range<u64>) -> PageWrite {
        let range = ByteRange { first: pages.start * 512, last: Some(pages.end * 512 - 1) };
        PageWrite {
            blob: path(container, name),
            pages: PageRange::new(range).unwrap(),
            sequence: SequenceConditions::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        }
    }

    async fn write_pages(&self, container: &str, name: &str, pages: std::ops::Range<u64>, seed: u8) {
        let content = bytes(((pages.end - pages.start) * 512) as usize, seed);
        let put = PutPages { write: Self::pages(container, name, pages), piece: Piece::Sent(upload()) };
        self.send(UploadOperation::PutPages(put), &content).await;
    }

    pub(crate) async fn snapshot(&self, container: &str, name: &str) {
        let operation = blob::Operation::SnapshotBlob {
            blob: path(container, name),
            metadata: Metadata::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        self.blob(operation).await.unwrap();
    }

    pub(crate) async fn delete_blob(&self, container: &str, name: &str) {
        let snapshots = Some(DeleteSnapshots::Include);
        let operation = blob::Operation::DeleteBlob(DeleteBlob {
            blob: path(container, name),
            revision: Revision::Base,
            snapshots,
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        self.blob(operation).await.unwrap();
    }

    pub(crate) async fn copy_blob(&self, container: &str, from: &str, to: &str) {
        let here = SourceBlob {
            account: self.account.to_owned(),
            blob: path(container, from),
            revision: Revision::Base,
        };
        let source = CopySource {
            url: format!("http://127.0.0.1:10000/{}/{container}/{from}", self.account),
            place: SourcePlace::Here(here),
            authorization: None,
            conditions: Conditions::default(),
        };
        let copy = CopyBlob {
            blob: path(container, to),
            source,
            pace: CopyPace::Background,
            metadata: Metadata::default(),
            tags: CopyTags::These(Tags::default()),
            tier: None,
            priority: None,
            seal: None,
            immutability: None,
            legal_hold: None,
            encryption: Encryption::default(),
            preconditions: Preconditions::default(),
        };
        let Call::Operation(operation) = copy.into() else { panic!("not shared") };
        self.blob(operation).await.unwrap();
    }

    /// Something of everything.
    pub(crate) async fn fill(&self) {
        self.fill_tables().await;
        self.fill_queues().await;
        self.fill_blobs().await;
        self.fill_special_blobs().await;
    }

    async fn fill_tables(&self) {
        self.create_table("People").await;
        self.create_table("Dropped").await;
        let guid = tepui_model::table::Guid(*b"0123456789abcdef");
        let large = bytes(60_000, 3);
        for (row, values) in [
            ("string", vec![("Value", ValueRef::string("ünïcode \u{1F600}"))]),
            ("numbers", vec![("A", ValueRef::Int32(-7)), ("B", ValueRef::Int64(1 << 60))]),
            ("double", vec![("A", ValueRef::Double(f64::NAN)), ("B", ValueRef::Double(-0.1))]),
            ("others", vec![("A", ValueRef::Boolean(true)), ("B", ValueRef::DateTime(clock_start()))]),
            ("guid", vec![("A", ValueRef::Guid(guid)), ("B", ValueRef::Binary(&[0, 1, 255]))]),
            ("large", vec![("A", ValueRef::Binary(&large)), ("B", ValueRef::Binary(&large))]),
            ("", vec![]),
            ("a\u{0}zero", vec![("A", ValueRef::Int32(1))]),
        ] {
            self.put_entity("People", ("p", row), &values).await;
            self.put_entity("Dropped", ("p", row), &values).await;
        }
        // The longest keys.
        self.put_entity("People", (&"k".repeat(512), &"\u{FFFD}".repeat(512)), &[]).await;
        self.put_entity("People", ("p", "gone"), &[]).await;
        self.delete_entity("People", ("p", "gone")).await;
        self.table(table::Operation::DeleteTable { table: "Dropped".to_owned() }).await;
    }

    async fn fill_queues(&self) {
        self.create_queue("jobs").await;
        self.create_queue("empty").await;
        for number in 0..40u64 {
            let text = format!("message {number}");
            self.put_message("jobs", &text, if number % 5 == 4 { 500 } else { 0 }, Some(1000 + number)).await;
        }
        self.put_message("jobs", "forever", 0, None).await;
        assert_eq!(self.receive("jobs", 10).await.len(), 10);
    }

    async fn fill_blobs(&self) {
        let change = BlobServicePropertiesChange {
            delete_retention: Some(DeleteRetention { days: Some(5), allow_permanent_delete: false }),
            ..Default::default()
        };
        self.blob(blob::Operation::SetServiceProperties(change)).await.unwrap();
        for container in ["pics", "dropped"] {
            self.create_container(container).await;
            for (number, length) in [0, 10, 3_000, 17_000, LARGE, 300_000].into_iter().enumerate() {
                let metadata = Metadata::new(vec![("number".to_owned(), number.to_string())]).unwrap();
                let tags = Tags::new(vec![("length".to_owned(), length.to_string())]).unwrap();
                let new = NewBlob { metadata, tags, ..NewBlob::default() };
                let name = format!("blob/{number}");
                self.put_blob(container, &name, new, &bytes(length, number as u8)).await;
            }
            self.copy_blob(container, "blob/5", "copied").await;
            self.copy_blob(container, "blob/1", "copied-short").await;
            self.snapshot(container, "blob/4").await;
            self.put_blob(container, "blob/4", NewBlob::default(), &bytes(LARGE, 99)).await;
            self.snapshot(container, "blob/4").await;
            // Overwritten, so that there is garbage; and soft-deleted.
            self.put_blob(container, "blob/3", NewBlob::default(), &bytes(17_000, 98)).await;
            for length in [20, LARGE] {
                self.put_blob(container, &format!("deleted{length}"), NewBlob::default(), &bytes(length, 1))
                    .await;
                self.delete_blob(container, &format!("deleted{length}")).await;
            }
        }
        let container = ContainerName::parse("dropped").unwrap();
        let preconditions = Preconditions::default();
        self.blob(blob::Operation::DeleteContainer { container, preconditions }).await.unwrap();
    }

    async fn fill_special_blobs(&self) {
        let container = "pics";
        self.put_block(container, "list", "1", &bytes(LARGE, 1)).await;
        self.put_block(container, "list", "2", &bytes(100, 2)).await;
        self.put_block(container, "list", "3", &[0; 9000]).await;
        self.put_list(container, "list", &["2", "1", "3", "1"], Encryption::default()).await;
        self.put_block(container, "list", "4", &bytes(LARGE, 4)).await;
        for id in ["1", "2"] {
            self.put_block(container, "uncommitted", id, &bytes(LARGE, 5)).await;
        }
        self.put_empty(container, "log", EmptyContent::Append).await;
        for (length, seed) in [(10, 1), (LARGE, 2), (300, 3)] {
            self.append(container, "log", &bytes(length, seed)).await;
            self.snapshot(container, "log").await;
        }
        self.put_empty(container, "disk", EmptyContent::Page { bytes: 1 << 20, sequence_number: 5 }).await;
        self.write_pages(container, "disk", 0..300, 1).await;
        self.snapshot(container, "disk").await;
        self.write_pages(container, "disk", 100..101, 2).await;
        self.write_pages(container, "disk", 250..500, 3).await;
        let clear = Self::pages(container, "disk", 280..290);
        self.blob(blob::Operation::ClearPages(clear)).await.unwrap();
        for length in [10, 3_000, LARGE] {
            let new = NewBlob { encryption: encrypted(), ..NewBlob::default() };
            self.put_blob(container, &format!("secret{length}"), new, &bytes(length, 6)).await;
        }
        self.put_block_with(container, "secret-list", "1", encrypted(), &bytes(LARGE, 7)).await;
        self.put_block_with(container, "secret-list", "2", encrypted(), &bytes(LARGE, 8)).await;
        self.put_list(container, "secret-list", &["2", "1"], encrypted()).await;
        let action = LeaseAction::Acquire { duration: LeaseDuration::Infinite, proposed: Some(LeaseId(5)) };
        let (blob, conditions) = (path(container, "blob/5"), Conditions::default());
        self.blob(blob::Operation::LeaseBlob { blob, action, conditions }).await.unwrap();
        let blob = path(container, "blob/2");
        let (tier, priority, preconditions) = (AccessTier::Cool, None, Preconditions::default());
        let revision = Revision::Base;
        let set = blob::Operation::SetBlobTier { blob, revision, tier, priority, preconditions };
        self.blob(set).await.unwrap();
        let (blob, hold) = (path(container, "blob/1"), true);
        self.blob(blob::Operation::SetLegalHold { blob, revision, hold }).await.unwrap();
    }

    /// All that can be seen, in words.
    pub(crate) async fn see(&self) -> Vec<String> {
        let mut seen = self.see_tables().await;
        seen.extend(self.see_queues().await);
        seen.extend(self.see_blobs().await);
        seen
    }

    async fn see_tables(&self) -> Vec<String> {
        let query = QueryTables { filter: None, page_size: PageSize::MAX, from: None };
        let table::Reply::Tables(page) = self.table(table::Operation::QueryTables(query)).await else {
            panic!("no tables")
        };
        let mut seen = Vec::new();
        for table in page.names {
            seen.push(format!("table {table}"));
            let mut query = QueryEntities { table: table.clone(), ..QueryEntities::default() };
            loop {
                let mut entities = Entities(Vec::new());
                let (bounds, time) = (KeyBounds::default(), Duration::from_secs(60));
                let page = self.tables.query_entities(self.account, &query, &bounds, time, &mut entities);
                let next = page.await.unwrap().next;
                seen.extend(entities.0);
                let Some(next) = next else { break };
                query.from = Some(next);
            }
        }
        seen
    }

    async fn see_queues(&self) -> Vec<String> {
        let list =
            queue::ListQueues { prefix: String::new(), from: None, page_size: 5000, with_metadata: true };
        let queue::Reply::Queues(page) = self.queue(queue::Operation::ListQueues(list)).await else {
            panic!("no queues")
        };
        let mut seen = Vec::new();
        for listed in page.queues {
            seen.push(format!("queue {listed:?}"));
            let (queue, mut from) = (QueueName::parse(&listed.name).unwrap(), None);
            loop {
                let page = self.queues.all_messages(self.account, &queue, from, 100).await.unwrap();
                seen.extend(page.messages.iter().map(|message| format!("{message:?}")));
                from = page.next;
                if from.is_none() {
                    break;
                }
            }
        }
        seen
    }

    async fn see_blobs(&self) -> Vec<String> {
        let list = ListContainers {
            prefix: String::new(),
            from: None,
            page_size: 5000,
            with_metadata: true,
            with_deleted: true,
            with_system: true,
        };
        let Ok(blob::Reply::Containers(page)) = self.blob(blob::Operation::ListContainers(list)).await else {
            panic!("no containers")
        };
        let mut seen: Vec<String> = page.containers.iter().map(|listed| format!("{listed:?}")).collect();
        for container in page.containers.iter().filter(|container| container.deleted.is_none()) {
            let mut listed = Listed::default();
            let mut query = ListBlobs {
                container: ContainerName::parse(&container.name).unwrap(),
                prefix: String::new(),
                delimiter: None,
                from: None,
                page_size: 5000,
                include: BlobInclude {
                    snapshots: true,
                    metadata: true,
                    uncommitted: true,
                    copy: true,
                    deleted: true,
                    tags: true,
                    versions: true,
                    deleted_with_versions: true,
                    immutability_policy: true,
                    legal_hold: true,
                },
            };
            loop {
                let caller = Caller::owner(self.account);
                let page = self.blobs.list_blobs(caller, &query, &mut listed).await.unwrap();
                let Some(next) = page.next else { break };
                query.from = Some(next);
            }
            seen.extend(listed.told);
            for (name, revision) in listed.readable {
                let container = ContainerName::parse(&container.name).unwrap();
                let blob = BlobPath { container, blob: name };
                seen.push(self.see_content(blob, revision).await);
            }
        }
        seen
    }

    /// The bytes of a blob, its blocks and its pages.
    async fn see_content(&self, blob: BlobPath, revision: Revision) -> String {
        let mut content = self.read(&blob, revision, Encryption::default()).await;
        if content == Err(ErrorCode::BlobUsesCustomerSpecifiedEncryption) {
            content = self.read(&blob, revision, encrypted()).await;
        }
        let blocks = blob::Operation::GetBlockList {
            blob: blob.clone(),
            revision,
            list: BlockListType::All,
            preconditions: Preconditions::default(),
        };
        let blocks = self.blob(blocks).await;
        let ranges = blob::Operation::GetPageRanges(GetPageRanges {
            blob: blob.clone(),
            revision,
            since: None,
            range: None,
            from: None,
            page_size: None,
            preconditions: Preconditions::default(),
        });
        let ranges = self.blob(ranges).await;
        // Not all of the bytes: messages of failed tests would be long.
        let content = content.map(|bytes| (bytes.len(), crc(&bytes)));
        format!("{blob:?} {revision:?}: {content:?}, {blocks:?}, {ranges:?}")
    }

    async fn read(
        &self,
        blob: &BlobPath,
        revision: Revision,
        encryption: Encryption,
    ) -> Result<Vec<u8>, ErrorCode> {
        let get = blob::Operation::GetBlob(GetBlob {
            blob: blob.clone(),
            revision,
            range: None,
            range_checksum: None,
            preconditions: Preconditions::default(),
            encryption,
        });
        let read = async {
            let answer = self.blobs.execute(Caller::owner(self.account), &get).await?;
            let (mut download, mut read) = (answer.content.unwrap(), Vec::new());
            while let Some(pieces) = download.next().await? {
                pieces.iter().for_each(|bytes| read.extend_from_slice(bytes));
            }
            Ok(read)
        };
        read.await.map_err(|error: ServiceError| error.code)
    }

    /// What only works if all rows are as they were: deleted blobs are restored, blocks are committed, messages received and
    /// new things made. Returns what can be seen then, but for times.
    pub(crate) async fn go_on(&self) -> Vec<String> {
        let mut seen = Vec::new();
        if self.account == PLAIN {
            for name in ["deleted20", "deleted70000"] {
                self.blob(blob::Operation::UndeleteBlob { blob: path("pics", name) }).await.unwrap();
            }
        }
        self.put_list("pics", "uncommitted", &["2", "1"], Encryption::default()).await;
        self.append("pics", "log", &bytes(LARGE, 9)).await;
        self.write_pages("pics", "disk", 90..120, 9).await;
        self.put_blob("pics", "new", NewBlob::default(), &bytes(LARGE, 10)).await;
        for name in ["deleted20", "deleted70000", "uncommitted", "log", "disk", "new", "copied"] {
            let content = self.read(&path("pics", name), Revision::Base, Encryption::default()).await;
            seen.push(format!("{name}: {:?}", content.map(|bytes| (bytes.len(), crc(&bytes)))));
        }
        seen.push(format!("{:?}", self.receive("jobs", 32).await));
        self.create_table("New").await;
        self.put_entity("New", ("p", "r"), &[]).await;
        self.put_entity("People", ("p", "new"), &[]).await;
        self.create_queue("new").await;
        self.put_message("new", "text", 0, None).await;
        seen.push(format!("{:?}", self.receive("new", 1).await));
        self.delete_blob("pics", "copied").await;
        self.blobs.clean_up_after_earlier_processes().await.unwrap();
        self.blobs.collect_garbage_once().await.unwrap();
        let content = self.read(&path("pics", "blob/5"), Revision::Base, Encryption::default()).await;
        seen.push(format!("{:?}", content.map(|bytes| (bytes.len(), crc(&bytes)))));
        seen
    }
}

fn crc(bytes: &[u8]) -> u64 {
    let mut crc = tepui_digest::Crc64::new();
    crc.update(bytes);
    crc.finish()
}

struct Entities(Vec<String>);

impl EntitySink for Entities {
    fn accept(&mut self, entity: &EntityView<'_>) {
        let values: Vec<String> = table::properties::iter(entity.packed)
            .map(|(name, value)| format!("{name:?}={value:?}"))
            .collect();
        let EntityView { partition_key, row_key, timestamp, .. } = entity;
        let values = values.join(",");
        self.0.push(format!(
            "{partition_key:?} {row_key:?} {timestamp:?} {} {}",
            values.len(),
            crc(values.as_bytes())
        ));
    }

    fn bytes(&self) -> usize {
        0
    }
}

#[derive(Default)]
struct Listed {
    told: Vec<String>,
    readable: Vec<(BlobName, Revision)>,
}

impl BlobSink for Listed {
    fn accept(&mut self, listed: &ListedBlob<'_>) {
        self.told.push(format!("{listed:?}"));
        if let ListedBlob::Blob(entry) = listed
            && entry.deleted.is_none()
            && !entry.has_versions_only
        {
            self.readable.push((BlobName::parse(entry.name).unwrap(), entry.revision));
        }
    }

    fn bytes(&self) -> usize {
        0
    }
}
