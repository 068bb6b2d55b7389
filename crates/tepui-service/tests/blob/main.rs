//! The Blob service on engines and extents in memory, by a clock that the tests move.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
// Futures of gRPC are deep, where tepui-tikv compiles this.
#![recursion_limit = "256"]

mod appends;
mod blocks;
mod capacity;
mod containers;
mod copies;
mod deletes;
mod encryption;
#[path = "../shared/engine.rs"]
mod engine;
mod extents;
mod failures;
mod finds;
mod gc;
mod lists;
mod logs;
mod model;
mod on_disk;
mod pages;
#[path = "../shared/possible.rs"]
mod possible;
mod puts;
mod shared_volumes;
#[path = "../shared/store.rs"]
mod store;
mod two_nodes;
#[path = "../shared/yields.rs"]
mod yields;

use bytes::Bytes;
use extents::PlainExtents;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{Course, FaultyEngine, Nodes, repeat, repeat_until_done};
use tepui_digest::{Checksum as _, crc64_of_zeros};
use tepui_model::blob::access::Allowed;
use tepui_model::blob::*;
use tepui_model::metadata::Metadata;
use tepui_model::time::{ManualClock, NodeNumber};
use tepui_model::{Clock, ErrorCode, ServiceError, Timestamp};
use tepui_service::blob::{
    BlobOptions, BlobService, BytesOrHole, Caller, CopyUnderWay, Interrupted, Uploaded,
};
use tepui_storage::{Engine, Extents, MemoryEngine};
use tepui_storage_faulty::FaultyExtents;
use yields::yields_during;

const ACCOUNT: &str = "account";
const CONTAINER: &str = "pictures";
/// Too long to be kept with what is known of the blob, whatever the store.
const LARGE: usize = 70_000;

/// When the clocks of the tests begin.
fn clock_start() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:00:00Z").unwrap()
}

#[test]
fn all_of_it_on_a_faulty_store() {
    Course::Faulty.run();
}

#[test]
fn all_of_it_with_two_nodes_on_a_faulty_store() {
    Course::TwoNodes.run();
}

#[test]
fn all_of_it_with_two_nodes_on_a_database() {
    Course::Database.run();
}

fn container() -> ContainerName {
    ContainerName::parse(CONTAINER).unwrap()
}

fn path(name: &str) -> BlobPath {
    BlobPath { container: container(), blob: BlobName::parse(name).unwrap() }
}

fn pairs(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

fn upload() -> operation::Upload {
    operation::Upload { bytes: None, max_bytes: 1 << 30, checksums: Checksums::default() }
}

/// A service, its clock, and short ways to ask it for things of one container.
struct Bench<E: Engine = FaultyEngine, X: Extents = FaultyExtents<PlainExtents>> {
    nodes: Nodes<BlobService<E, X>>,
    extents: X,
    clock: Arc<ManualClock>,
}

impl Bench {
    async fn new() -> Self {
        Self::with(BlobOptions::default()).await
    }

    /// For tests of what only the node knows that does it.
    async fn of_one_node() -> Self {
        let extents = store::extents(PlainExtents::default());
        let bench = Self::on(store::engine(), extents, BlobOptions::default());
        bench.create().await.unwrap();
        bench
    }

    /// For tests with many clients at once.
    async fn for_many() -> Self {
        let (engine, extents) = (store::for_many(store::tested()), store::extents(PlainExtents::default()));
        let (options, clock) = (BlobOptions::default(), ManualClock::at(clock_start()));
        let bench = Self::of_nodes(engine, extents, options, clock, store::nodes());
        bench.create().await.unwrap();
        bench
    }

    async fn with(options: BlobOptions) -> Self {
        let extents = store::extents(PlainExtents::default());
        let bench =
            Self::of_nodes(store::engine(), extents, options, ManualClock::at(clock_start()), store::nodes());
        bench.create().await.unwrap();
        bench
    }

    fn put_operation(name: &str, preconditions: Preconditions) -> PutBlob {
        let new = NewBlob::default();
        PutBlob { blob: path(name), new, upload: upload(), preconditions }
    }

    fn put_empty(name: &str, content: EmptyContent, new: NewBlob) -> Operation {
        let preconditions = Preconditions::default();
        Operation::PutEmptyBlob(PutEmptyBlob { blob: path(name), new, content, preconditions })
    }

    fn get_operation(name: &str, revision: Revision) -> GetBlob {
        GetBlob {
            blob: path(name),
            revision,
            range: None,
            range_checksum: None,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        }
    }
}

impl<E: Engine> Bench<E> {
    /// How many extents there are that something refers to, or will be collected. Others are swept, as the next start does.
    async fn count_extents(&self) -> usize {
        if Course::current() != Course::Memory {
            self.free_orphaned_extents().await;
        }
        self.extents.count()
    }
}

impl<E: Engine, X: Extents + Clone> Bench<E, X> {
    fn on(engine: E, extents: X, options: BlobOptions) -> Self {
        Self::of_nodes(engine, extents, options, ManualClock::at(clock_start()), 1)
    }

    /// So many nodes, with one clock.
    fn of_nodes(engine: E, extents: X, options: BlobOptions, clock: ManualClock, count: usize) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let (engine, clock) = (Arc::new(engine), Arc::new(clock));
        let node = |_| {
            let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
            let random_ids = Arc::new(|| u128::from(NEXT_ID.fetch_add(1, Ordering::SeqCst)));
            let (engine, extents) = (Arc::clone(&engine), Arc::new(extents.clone()));
            BlobService::new(engine, extents, time, random_ids, options.clone())
        };
        Self { nodes: Nodes::new(count, node), extents, clock }
    }

    /// The node that answers the next request.
    fn service(&self) -> &BlobService<E, X> {
        self.nodes.next()
    }

    async fn create(&self) -> Result<Reply, ErrorCode> {
        self.run(Operation::CreateContainer {
            container: container(),
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        })
        .await
    }

    async fn delete_container(&self) -> Result<Reply, ErrorCode> {
        let preconditions = Preconditions::default();
        self.run(Operation::DeleteContainer { container: container(), preconditions }).await
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    async fn run(&self, operation: Operation) -> Result<Reply, ErrorCode> {
        self.run_as(Allowed::Fully, operation).await.map_err(|error| error.code)
    }

    async fn run_as(&self, allowed: Allowed, operation: Operation) -> Result<Reply, ServiceError> {
        let caller = Caller { allowed, ..Caller::owner(ACCOUNT) };
        let attempt =
            || async { self.service().execute(caller, &operation).await.map(|answer| answer.reply) };
        repeat(attempt).await.unless_done(|code| already_done(&operation, code))
    }

    async fn collect_garbage(&self) {
        repeat_until_done(|| async { self.service().collect_garbage_once().await }).await;
    }

    async fn expire(&self) {
        repeat_until_done(|| async { self.service().expire_once().await }).await;
    }

    async fn free_orphaned_extents(&self) {
        repeat_until_done(|| async { self.service().free_orphaned_extents().await }).await;
    }

    /// Carries out an operation with bytes, as the server does.
    async fn send(&self, operation: UploadOperation, bytes: &[u8]) -> Result<Reply, ServiceError> {
        self.send_as(Allowed::Fully, operation, bytes).await
    }

    async fn send_as(
        &self,
        allowed: Allowed,
        operation: UploadOperation,
        bytes: &[u8],
    ) -> Result<Reply, ServiceError> {
        repeat(|| async { self.try_send_as(allowed, &operation, bytes).await }).await.answer
    }

    /// One attempt.
    async fn try_send_as(
        &self,
        allowed: Allowed,
        operation: &UploadOperation,
        bytes: &[u8],
    ) -> Result<Reply, ServiceError> {
        let caller = Caller { allowed, ..Caller::owner(ACCOUNT) };
        let service = self.service();
        service.check(caller, operation).await?;
        let mut upload = service.begin_upload(operation);
        for chunk in bytes.chunks(7_000) {
            upload.write(Bytes::copy_from_slice(chunk)).await?;
        }
        let uploaded = upload.finish().await?;
        service.execute_upload(caller, operation, uploaded).await
    }

    async fn put_if(
        &self,
        name: &str,
        bytes: &[u8],
        preconditions: Preconditions,
    ) -> Result<Written, ErrorCode> {
        let operation = UploadOperation::PutBlob(Bench::put_operation(name, preconditions));
        match self.send(operation, bytes).await.map_err(|error| error.code)? {
            Reply::BlobPut { written, .. } => Ok(written),
            other => panic!("not put: {other:?}"),
        }
    }

    async fn put(&self, name: &str, bytes: &[u8]) -> Written {
        self.put_if(name, bytes, Preconditions::default()).await.unwrap()
    }

    async fn put_block(&self, name: &str, id: &str, bytes: &[u8]) -> Result<Reply, ErrorCode> {
        let operation = UploadOperation::PutBlock(PutBlock {
            blob: path(name),
            id: block_id(id),
            piece: Piece::Sent(upload()),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        });
        self.send(operation, bytes).await.map_err(|error| error.code)
    }

    async fn put_list(&self, name: &str, blocks: &[(&str, BlockSearch)]) -> Result<Written, ErrorCode> {
        let blocks = blocks.iter().map(|(id, search)| ChosenBlock { id: block_id(id), search: *search });
        let operation = Operation::PutBlockList(PutBlockList {
            blob: path(name),
            blocks: blocks.collect(),
            list_checksums: Checksums::default(),
            new: NewBlob::default(),
            preconditions: Preconditions::default(),
        });
        match self.run(operation).await? {
            Reply::BlockListPut { written, .. } => Ok(written),
            other => panic!("not put: {other:?}"),
        }
    }

    async fn read(&self, get: GetBlob) -> Result<(Content, Vec<u8>), ServiceError> {
        let operation = Operation::GetBlob(get);
        repeat(|| async { self.try_read(&operation).await }).await.answer
    }

    /// One attempt.
    async fn try_read(&self, get: &Operation) -> Result<(Content, Vec<u8>), ServiceError> {
        let caller = Caller::owner(ACCOUNT);
        let answer = self.service().execute(caller, get).await?;
        let (Reply::Content(content), Some(mut download)) = (answer.reply, answer.content) else {
            panic!("no content")
        };
        let mut read = Vec::new();
        while let Some(pieces) = download.next().await? {
            pieces.iter().for_each(|bytes| read.extend_from_slice(bytes));
        }
        Ok((*content, read))
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, ErrorCode> {
        self.get_revision(name, Revision::Base).await
    }

    async fn get_revision(&self, name: &str, revision: Revision) -> Result<Vec<u8>, ErrorCode> {
        let read = self.read(Bench::get_operation(name, revision)).await;
        read.map(|(_, bytes)| bytes).map_err(|error| error.code)
    }

    async fn properties(&self, name: &str) -> Result<BlobProperties, ErrorCode> {
        let operation = Operation::GetBlobProperties {
            blob: path(name),
            revision: Revision::Base,
            detail: Detail::Properties,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        match self.run(operation).await? {
            Reply::Blob(properties) => Ok(*properties),
            other => panic!("no properties: {other:?}"),
        }
    }

    async fn snapshot(&self, name: &str) -> Timestamp {
        let operation = Operation::SnapshotBlob {
            blob: path(name),
            metadata: Metadata::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        match self.run(operation).await {
            Ok(Reply::Snapshot { snapshot, .. }) => snapshot,
            other => panic!("no snapshot: {other:?}"),
        }
    }

    async fn delete(
        &self,
        name: &str,
        revision: Revision,
        snapshots: Option<DeleteSnapshots>,
    ) -> Result<bool, ErrorCode> {
        let operation = Operation::DeleteBlob(DeleteBlob {
            blob: path(name),
            revision,
            snapshots,
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        match self.run(operation).await? {
            Reply::BlobDeleted { permanently } => Ok(permanently),
            other => panic!("not deleted: {other:?}"),
        }
    }

    async fn retain_deleted(&self, days: u32) {
        self.set_retention(Some(days)).await;
    }

    /// `None`: deleted is deleted.
    async fn set_retention(&self, days: Option<u32>) {
        let delete_retention = Some(DeleteRetention { days, allow_permanent_delete: true });
        let change = BlobServicePropertiesChange { delete_retention, ..Default::default() };
        self.run(Operation::SetServiceProperties(change)).await.unwrap();
    }
}

/// The answer to an operation, if a refusal means that it has been carried out before.
fn already_done(operation: &Operation, refusal: ErrorCode) -> Option<Reply> {
    match (operation, refusal) {
        // Nothing shows that it was this deletion, if nothing but rows of the blob went with it.
        (Operation::DeleteBlob(_), ErrorCode::BlobNotFound) => Some(Reply::BlobDeleted { permanently: true }),
        _ => None,
    }
}

fn block_id(id: &str) -> BlockId {
    BlockId::from_bytes(id.as_bytes().to_vec()).unwrap()
}

/// Bytes that are different wherever one looks.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ seed).collect()
}
