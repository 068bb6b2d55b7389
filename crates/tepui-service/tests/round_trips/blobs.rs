//! Blobs. Only what is asked of the ordered store is counted, not of the store of large bytes.

use super::*;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tepui_model::blob::*;
use tepui_model::metadata::Metadata;
use tepui_model::time::{NodeNumber, SystemClock};
use tepui_service::blob::{BlobOptions, BlobService, Caller};
use tepui_storage::MemoryExtents;

type Service = BlobService<RemoteEngine, MemoryExtents>;

fn service(engine: &RemoteEngine, extents: &Arc<MemoryExtents>) -> Service {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let clock = Arc::new(SystemClock::of_node(NodeNumber::new(1).unwrap()));
    let random_ids = Arc::new(|| u128::from(NEXT_ID.fetch_add(1, Ordering::Relaxed)));
    let (engine, extents) = (Arc::new(engine.clone()), Arc::clone(extents));
    BlobService::new(engine, extents, clock, random_ids, BlobOptions::default())
}

fn container() -> ContainerName {
    ContainerName::parse("pictures").unwrap()
}

fn path(name: &str) -> BlobPath {
    BlobPath { container: container(), blob: BlobName::parse(name).unwrap() }
}

fn upload() -> operation::Upload {
    operation::Upload { bytes: None, max_bytes: 1 << 30, checksums: Checksums::default() }
}

async fn run(service: &Service, operation: Operation) {
    service.execute(Caller::owner(ACCOUNT), &operation).await.unwrap();
}

async fn send(service: &Service, operation: UploadOperation, bytes: usize) {
    let mut upload = service.begin_upload(&operation);
    upload.write(Bytes::from(vec![7; bytes])).await.unwrap();
    let uploaded = upload.finish().await.unwrap();
    service.execute_upload(Caller::owner(ACCOUNT), &operation, uploaded).await.unwrap();
}

async fn put(service: &Service, name: &str, bytes: usize) {
    let (new, preconditions) = (NewBlob::default(), Preconditions::default());
    let put = PutBlob { blob: path(name), new, upload: upload(), preconditions };
    send(service, UploadOperation::PutBlob(put), bytes).await;
}

async fn get(service: &Service, name: &str) {
    let get = GetBlob {
        blob: path(name),
        revision: Revision::Base,
        range: None,
        range_checksum: None,
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    };
    let answer = service.execute(Caller::owner(ACCOUNT), &Operation::GetBlob(get)).await.unwrap();
    let mut content = answer.content.unwrap();
    while content.next().await.unwrap().is_some() {}
}

async fn put_block(service: &Service, name: &str, id: &str) {
    let put = PutBlock {
        blob: path(name),
        id: block_id(id),
        piece: Piece::Sent(upload()),
        encryption: Encryption::default(),
        preconditions: Preconditions::default(),
    };
    send(service, UploadOperation::PutBlock(put), 20_000).await;
}

fn list_blocks(name: &str) -> Operation {
    let line = |id: &str| ChosenBlock { id: block_id(id), search: BlockSearch::Latest };
    Operation::PutBlockList(PutBlockList {
        blob: path(name),
        blocks: vec![line("1"), line("2")],
        list_checksums: Checksums::default(),
        new: NewBlob::default(),
        preconditions: Preconditions::default(),
    })
}

fn block_id(id: &str) -> BlockId {
    BlockId::from_bytes(id.as_bytes().to_vec()).unwrap()
}

struct Nowhere;

impl BlobSink for Nowhere {
    fn accept(&mut self, _: &ListedBlob<'_>) {}

    fn bytes(&self) -> usize {
        0
    }
}

async fn list(service: &Service) {
    let query = ListBlobs {
        container: container(),
        prefix: String::new(),
        delimiter: None,
        from: None,
        page_size: 999,
        include: BlobInclude::default(),
    };
    service.list_blobs(Caller::owner(ACCOUNT), &query, &mut Nowhere).await.unwrap();
}

#[tokio::test]
async fn requests_for_blobs() {
    let engine = RemoteEngine::new();
    let extents = Arc::new(MemoryExtents::new());
    let warm = service(&engine, &extents);
    let create = Operation::CreateContainer {
        container: container(),
        metadata: Metadata::default(),
        public_access: None,
        encryption: ContainerEncryption::default(),
    };
    run(&warm, create).await;
    // Service properties are known as well.
    put(&warm, "known", 100).await;
    put(&warm, "known", 100).await;
    let mut costs = Costs::default();
    let tiers = [("inline (up to 256 bytes)", "i", 100), ("small", "s", 10_000), ("large", "l", 200_000)];
    macro_rules! measure {
        ($request:expr, |$service:ident, $suffix:ident| $work:expr) => {{
            let fresh = service(&engine, &extents);
            let ($service, $suffix) = (&fresh, "1");
            let _ = $suffix;
            let ((), cold) = counted(&engine, $work).await;
            let ($service, $suffix) = (&warm, "2");
            let _ = $suffix;
            let ((), warm) = counted(&engine, $work).await;
            costs.add($request, warm, cold);
        }};
    }
    for (tier, name, bytes) in tiers {
        measure!(&format!("Put Blob, new, {tier}"), |service, suffix| async {
            put(service, &format!("{name}{suffix}"), bytes).await;
        });
        measure!(&format!("Put Blob, again, {tier}"), |service, suffix| async {
            put(service, &format!("{name}{suffix}"), bytes).await;
        });
        measure!(&format!("Get Blob, {tier}"), |service, suffix| async {
            get(service, &format!("{name}{suffix}")).await;
        });
    }
    measure!("Get Blob Properties", |service, suffix| async {
        let operation = Operation::GetBlobProperties {
            blob: path(&format!("i{suffix}")),
            revision: Revision::Base,
            detail: Detail::Properties,
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        run(service, operation).await;
    });
    measure!("List Blobs, up to 1,000", |service, _suffix| list(service));
    measure!("Put Block", |service, suffix| put_block(service, &format!("b{suffix}"), "1"));
    measure!("Put Block, further ones", |service, suffix| put_block(service, &format!("b{suffix}"), "2"));
    measure!("Put Block List, 2 blocks", |service, suffix| async {
        run(service, list_blocks(&format!("b{suffix}"))).await;
    });
    measure!("Delete Blob", |service, suffix| async {
        let delete = DeleteBlob {
            blob: path(&format!("s{suffix}")),
            revision: Revision::Base,
            snapshots: None,
            permanently: false,
            preconditions: Preconditions::default(),
            tier_conditions: TierConditions::default(),
        };
        run(service, Operation::DeleteBlob(delete)).await;
    });
    costs.check();
}
