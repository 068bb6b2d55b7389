//! Extents as objects that two nodes share: what one node is taken for dead over, it cannot refer to any more.

use super::copies::{fetched, from_elsewhere, start};
use super::*;
use crate::engine::TestEngine;
use std::time::SystemTime;
use tepui_objects::object_store::ObjectStore;
use tepui_objects::object_store::memory::InMemory;
use tepui_objects::{MachineClock, ObjectExtents, ObjectOptions};
use tepui_storage::{KeyRange, ScanLimit, Snapshot, Transaction, Write};

/// More than is kept in rows.
const LONG: usize = 100_000;
/// The lease on a volume lasts two minutes.
const AFTER_LEASE: Duration = Duration::from_secs(123);

/// One of the nodes, with its own store on the same objects.
struct Node {
    bench: Bench<TestEngine, ObjectExtents>,
    /// How far its clock is ahead, in seconds.
    ahead: Arc<AtomicU64>,
}

struct Cluster {
    objects: Arc<InMemory>,
    engine: TestEngine,
    /// How long frees wait for readers of other nodes.
    wait_for_other_nodes: Duration,
}

impl Cluster {
    fn new() -> Self {
        let objects = Arc::new(InMemory::new());
        Self { objects, engine: TestEngine::new(), wait_for_other_nodes: Duration::ZERO }
    }

    async fn node(&self) -> Node {
        let ahead = Arc::new(AtomicU64::new(0));
        let (seconds, start) =
            (Arc::clone(&ahead), (SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_790_000_000)));
        let clock = MachineClock::new(move || start + Duration::from_secs(seconds.load(Ordering::SeqCst)));
        let wait_for_other_nodes = self.wait_for_other_nodes;
        let options = ObjectOptions { clock, wait_for_other_nodes, ..ObjectOptions::new("not read") };
        let objects: Arc<dyn ObjectStore> = Arc::<InMemory>::clone(&self.objects);
        let extents = ObjectExtents::open_on(objects, "x".into(), options).await.unwrap();
        let options = BlobOptions { clock_skew: tepui_service::MAX_CLOCK_SKEW, ..BlobOptions::default() };
        Node { bench: Bench::on(self.engine.clone(), extents, options), ahead }
    }

    async fn nodes(&self) -> [Node; 2] {
        let nodes = [self.node().await, self.node().await];
        nodes[0].bench.create().await.unwrap();
        nodes
    }

    /// How many objects are extents.
    async fn extents(&self) -> usize {
        let extents = self.objects.list_with_delimiter(Some(&"x/extents".into())).await.unwrap();
        let mut found = 0;
        for volume in extents.common_prefixes {
            found += self.objects.list_with_delimiter(Some(&volume)).await.unwrap().objects.len();
        }
        found
    }

    /// The rows of volumes.
    async fn volume_rows(&self) -> usize {
        let limit = ScanLimit { max_rows: 1000, max_bytes: 1 << 20 };
        self.engine.begin().await.unwrap().scan(&volumes(), limit).await.unwrap().rows.len()
    }
}

/// The rows of all volumes.
fn volumes() -> KeyRange {
    KeyRange { start: Bytes::from_static(&[0x47]), end: Bytes::from_static(&[0x48]) }
}

impl Node {
    fn advance(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::SeqCst);
    }

    async fn received(&self, name: &str, seed: u8) -> (UploadOperation, Uploaded) {
        let operation = UploadOperation::PutBlob(Bench::put_operation(name, Preconditions::default()));
        let mut upload = self.bench.service().begin_upload(&operation);
        upload.write(bytes(LONG, seed).into()).await.unwrap();
        let uploaded = upload.finish().await.unwrap();
        assert!(uploaded.is_stored());
        (operation, uploaded)
    }

    async fn execute(
        &self,
        (operation, uploaded): (UploadOperation, Uploaded),
    ) -> Result<Reply, ServiceError> {
        self.bench.service().execute_upload(Caller::owner(ACCOUNT), &operation, uploaded).await
    }
}

#[tokio::test]
async fn who_was_taken_for_dead_before_its_commit_is_refused() {
    for made_before in [false, true] {
        let cluster = Cluster::new();
        let [suspended, other] = cluster.nodes().await;
        if made_before {
            // The row of the volume is there already.
            suspended.bench.put("before", &bytes(LONG, 1)).await;
        }
        let received = suspended.received("a", 2).await;
        other.advance(AFTER_LEASE);
        other.bench.free_orphaned_extents().await;
        let refused = suspended.execute(received).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::ServerBusy, "{refused:?}");
        assert_eq!(other.bench.get("a").await, Err(ErrorCode::BlobNotFound));
        // It wakes up, and goes on with another volume.
        suspended.advance(AFTER_LEASE);
        suspended.bench.put("a", &bytes(LONG, 3)).await;
        assert!(other.bench.get("a").await == Ok(bytes(LONG, 3)));
        assert_eq!(suspended.bench.get("before").await.is_ok(), made_before);
        assert_eq!(cluster.extents().await, 1 + usize::from(made_before));
    }
}

/// Its bytes can never be referred to any more, so it is not tried for ever.
#[tokio::test(start_paused = true)]
async fn a_copy_whose_bytes_were_swept_fails() {
    let cluster = Cluster::new();
    let [suspended, other] = cluster.nodes().await;
    let operation = from_elsewhere("a", None);
    let (_, copy) = start(&suspended.bench, &operation).await.unwrap();
    let uploaded = fetched(&suspended.bench, &UploadOperation::CopyBlob(operation), &bytes(LONG, 3)).await;
    assert!(uploaded.is_stored());
    other.advance(AFTER_LEASE);
    other.bench.free_orphaned_extents().await;
    let ended = suspended.bench.service().finish_copy(&copy, Ok(uploaded));
    assert!(tokio::time::timeout(Duration::from_secs(90), ended).await.is_ok(), "it never ends");
    let shown = other.bench.properties("a").await.unwrap().state.copy.unwrap();
    assert_eq!(shown.status, CopyStatus::Failed);
    assert!(shown.description.is_some_and(|why| why.starts_with("500 InternalError")));
    assert_eq!(cluster.extents().await, 0);
    other.bench.put("a", b"free again").await;
}

/// The commit waits here and there, so that the volume is swept before, during and after it.
#[tokio::test]
async fn a_reference_is_made_before_the_sweep_or_not_at_all() {
    let (mut made, mut refused) = (0, 0);
    for delay in 0..40 {
        let cluster = Cluster::new();
        let [suspended, other] = cluster.nodes().await;
        let received = suspended.received("a", 2).await;
        other.advance(AFTER_LEASE);
        cluster.engine.control().delays.lock().unwrap().extend([delay % 20; 2]);
        let sweep = async {
            for _ in 0..delay / 2 {
                tokio::task::yield_now().await;
            }
            other.bench.free_orphaned_extents().await;
        };
        let (answer, ()) = tokio::join!(suspended.execute(received), sweep);
        match answer {
            Ok(_) => {
                made += 1;
                assert!(other.bench.get("a").await == Ok(bytes(LONG, 2)), "{delay}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.code, ErrorCode::ServerBusy, "{delay}: {error:?}");
                assert_eq!(other.bench.get("a").await, Err(ErrorCode::BlobNotFound));
                assert_eq!(cluster.extents().await, 0);
            }
        }
    }
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused");
}

#[tokio::test]
async fn what_a_node_has_left_behind_is_freed_after_its_lease() {
    let cluster = Cluster::new();
    let [crashed, other] = cluster.nodes().await;
    crashed.bench.put("kept", &bytes(LONG, 1)).await;
    let _never_committed = crashed.received("a", 2).await;
    drop(crashed);
    other.bench.free_orphaned_extents().await;
    assert_eq!(cluster.extents().await, 2, "it may live");
    other.advance(AFTER_LEASE);
    other.bench.free_orphaned_extents().await;
    assert_eq!(cluster.extents().await, 1);
    assert!(other.bench.get("kept").await == Ok(bytes(LONG, 1)));
    // Once more, for what was on its way; what is deleted then is collected as ever.
    other.advance(Duration::from_secs(2 * 60 * 60));
    other.bench.free_orphaned_extents().await;
    assert!(other.bench.get("kept").await == Ok(bytes(LONG, 1)));
    other.bench.delete("kept", Revision::Base, None).await.unwrap();
    other.bench.collect_garbage().await;
    assert_eq!(cluster.extents().await, 0);
}

#[tokio::test]
async fn nothing_is_swept_where_no_container_was_ever_created() {
    let cluster = Cluster::new();
    let [crashed, _] = cluster.nodes().await;
    crashed.bench.put("kept", &bytes(LONG, 1)).await;
    drop(crashed);
    // The same objects, and rows that were lost.
    let other = Cluster { engine: TestEngine::new(), ..cluster };
    let node = other.node().await;
    node.advance(AFTER_LEASE);
    let refused = node.bench.service().free_orphaned_extents().await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::InternalError);
    assert_eq!(other.extents().await, 1);
}

#[tokio::test(start_paused = true)]
async fn frees_wait_for_readers_that_nobody_knows() {
    let wait_for_other_nodes = Duration::from_secs(61);
    let cluster = Cluster { wait_for_other_nodes, ..Cluster::new() };
    let [reader, deleter] = cluster.nodes().await;
    reader.bench.put("a", &bytes(LONG, 1)).await;
    let get = Operation::GetBlob(Bench::get_operation("a", Revision::Base));
    let answer = reader.bench.service().execute(Caller::owner(ACCOUNT), &get).await.unwrap();
    let mut download = answer.content.unwrap();
    deleter.bench.delete("a", Revision::Base, None).await.unwrap();
    let reading = async {
        tokio::time::sleep(Duration::from_secs(59)).await;
        let mut read = Vec::new();
        while let Some(pieces) = download.next().await.unwrap() {
            pieces.iter().for_each(|piece| read.extend_from_slice(piece));
        }
        assert!(read == bytes(LONG, 1));
    };
    tokio::join!(deleter.bench.collect_garbage(), reading);
    assert_eq!(cluster.extents().await, 0);
}

/// Also those of what was deleted in a volume that is swept: the node that has written it runs no more.
#[tokio::test]
async fn sweeps_wait_for_readers_that_nobody_knows() {
    let wait_for_other_nodes = Duration::from_millis(1500);
    let cluster = Cluster { wait_for_other_nodes, ..Cluster::new() };
    let [crashed, deleter] = cluster.nodes().await;
    let reader = cluster.node().await;
    crashed.bench.put("a", &bytes(LONG, 1)).await;
    crashed.bench.put("kept", &bytes(LONG, 2)).await;
    let _never_committed = crashed.received("b", 3).await;
    drop(crashed);
    let get = Operation::GetBlob(Bench::get_operation("a", Revision::Base));
    let answer = reader.bench.service().execute(Caller::owner(ACCOUNT), &get).await.unwrap();
    let mut download = answer.content.unwrap();
    deleter.advance(AFTER_LEASE);
    deleter.bench.delete("a", Revision::Base, None).await.unwrap();
    let reading = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut read = Vec::new();
        while let Some(pieces) = download.next().await.unwrap() {
            pieces.iter().for_each(|piece| read.extend_from_slice(piece));
        }
        assert!(read == bytes(LONG, 1));
    };
    tokio::join!(deleter.bench.free_orphaned_extents(), reading);
    assert_eq!(cluster.extents().await, 1);
    deleter.bench.collect_garbage().await;
    assert!(deleter.bench.get("kept").await == Ok(bytes(LONG, 2)));
}

#[tokio::test]
async fn rows_of_volumes_are_removed_unless_they_were_swept() {
    let cluster = Cluster::new();
    let [first, second] = cluster.nodes().await;
    for node in [&first, &second] {
        node.bench.put("a", b"in its row").await;
        node.bench.put("b", &bytes(LONG, 1)).await;
        node.bench.put("c", &bytes(LONG, 1)).await;
    }
    assert_eq!(cluster.volume_rows().await, 2, "one for each node");
    first.bench.expire().await;
    assert_eq!(cluster.volume_rows().await, 0);
    second.bench.put("c", &bytes(LONG, 2)).await;
    assert_eq!(cluster.volume_rows().await, 1, "it is made again");
    first.advance(AFTER_LEASE);
    first.bench.free_orphaned_extents().await;
    first.bench.expire().await;
    assert_eq!(cluster.volume_rows().await, 2, "swept, that of the first node, too, which has lost it");
    assert!(second.bench.get("c").await == Ok(bytes(LONG, 2)));
}

#[tokio::test]
async fn rows_of_many_volumes_are_removed_a_few_at_a_time() {
    let cluster = Cluster::new();
    let [first, _second] = cluster.nodes().await;
    first.bench.put("a", &bytes(LONG, 1)).await;
    // As those of 60 other nodes.
    let transaction = cluster.engine.begin().await.unwrap();
    let (_, row) = transaction.first(&volumes()).await.unwrap().unwrap();
    let key = |number: u64| [&[0x47][..], &7u64.to_be_bytes(), &number.to_be_bytes()].concat();
    let rows: Vec<Write> = (0..60).map(|number| Write::Put(key(number).into(), row.clone())).collect();
    transaction.commit(rows.into()).await.unwrap();
    assert_eq!(cluster.volume_rows().await, 61);
    let control = cluster.engine.control();
    control.most_shared_writes.store(0, Ordering::Relaxed);
    first.bench.expire().await;
    assert_eq!(cluster.volume_rows().await, 0);
    assert_eq!(control.most_shared_writes.load(Ordering::Relaxed), 16);
}

/// Short contents stay in rows: an object is a request, and is paid for.
#[tokio::test]
async fn short_contents_are_no_objects() {
    let cluster = Cluster::new();
    let [node, _] = cluster.nodes().await;
    for length in [1, 300, 20_000, 64 * 1024] {
        node.bench.put("a", &bytes(length, 1)).await;
        assert!(node.bench.get("a").await == Ok(bytes(length, 1)));
        assert_eq!(cluster.extents().await, 0, "{length}");
    }
    node.bench.put("a", &bytes(64 * 1024 + 1, 1)).await;
    assert_eq!(cluster.extents().await, 1);
}

/// Reads from objects are larger than what is sent at once.
#[tokio::test]
async fn downloads_of_any_size_are_what_was_uploaded() {
    let cluster = Cluster::new();
    let [node, other] = cluster.nodes().await;
    for length in [70_000, 256 * 1024, 1 << 20, (1 << 20) + 1, 3_500_000] {
        let content = bytes(length, 7);
        node.bench.put("a", &content).await;
        assert!(other.bench.get("a").await == Ok(content.clone()), "{length}");
        for at_once in [1000, 256 << 10, 1 << 20, 4 << 20] {
            let get = Operation::GetBlob(Bench::get_operation("a", Revision::Base));
            let answer = other.bench.service().execute(Caller::owner(ACCOUNT), &get).await.unwrap();
            let (mut download, mut read) = (answer.content.unwrap(), Vec::new());
            while let Some(pieces) = download.next_up_to(at_once).await.unwrap() {
                let sent: usize = pieces.iter().map(Bytes::len).sum();
                assert!(sent as u64 <= at_once && sent > 0);
                pieces.iter().for_each(|piece| read.extend_from_slice(piece));
            }
            assert!(read == content, "{length} {at_once}");
        }
    }
}
