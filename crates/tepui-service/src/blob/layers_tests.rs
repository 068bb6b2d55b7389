//! Page blobs of a service in memory: whatever is done to them, their layers and rows stay few.

use super::*;
use crate::blob::{BlobOptions, BlobService, Caller};
use crate::keyspace::Incarnation;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tepui_model::blob::{
    BlobName, BlobPath, ByteRange, Checksums, ContainerEncryption, ContainerName, CustomerKey,
    CustomerSecret, DeleteBlob, EmptyContent, Encryption, GetBlob, GetPageRanges, NewBlob, Operation,
    PageRange, PageState, PageWrite, Piece, Preconditions, PreviousSnapshot, PutEmptyBlob, PutPages, Reply,
    Revision, SequenceConditions, SetBlobProperties, TierConditions, Upload, UploadOperation,
};
use tepui_model::metadata::Metadata;
use tepui_model::time::ManualClock;
use tepui_model::{Clock, ErrorCode, Timestamp};
use tepui_storage::{Engine, MemoryEngine, MemoryExtents};

const PAGE: u64 = 512;
const PAGES: u64 = 400;

struct Disk {
    engine: Arc<MemoryEngine>,
    service: BlobService<MemoryEngine, MemoryExtents>,
    encryption: Encryption,
}

/// Without a key, and with one: then everything takes longer.
fn encryptions() -> [Encryption; 2] {
    let (key, secret) = (CustomerKey { sha256: [7; 32] }, CustomerSecret([8; 32]));
    [Encryption::default(), Encryption { key: Some(key), secret: Some(secret), scope: None }]
}

fn path() -> BlobPath {
    BlobPath { container: ContainerName::parse("disks").unwrap(), blob: BlobName::parse("disk").unwrap() }
}

impl Disk {
    async fn new(encryption: Encryption) -> Self {
        let (engine, extents) = (Arc::new(MemoryEngine::new()), Arc::new(MemoryExtents::new()));
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::parse_iso("2026-03-10").unwrap()));
        let count = AtomicU64::new(1);
        let random_ids = Arc::new(move || u128::from(count.fetch_add(1, Ordering::SeqCst)));
        let service =
            BlobService::new(Arc::clone(&engine), extents, clock, random_ids, BlobOptions::default());
        let disk = Self { engine, service, encryption: encryption.clone() };
        disk.run(Operation::CreateContainer {
            container: path().container,
            metadata: Metadata::default(),
            public_access: None,
            encryption: ContainerEncryption::default(),
        })
        .await
        .unwrap();
        let content = EmptyContent::Page { bytes: PAGES * PAGE, sequence_number: 0 };
        let new = NewBlob { encryption, ..NewBlob::default() };
        let preconditions = Preconditions::default();
        let put = PutEmptyBlob { blob: path(), new, content, preconditions };
        disk.run(Operation::PutEmptyBlob(put)).await.unwrap();
        disk
    }

    async fn run(&self, operation: Operation) -> Result<Reply, ErrorCode> {
        let done = self.service.execute(Caller::owner("acct"), &operation).await;
        done.map(|answer| answer.reply).map_err(|error| error.code)
    }

    /// Writes pages, or clears them.
    async fn write(&self, pages: &Range<u64>, fill: Option<u8>) {
        let range = ByteRange { first: pages.start * PAGE, last: Some(pages.end * PAGE - 1) };
        let write = PageWrite {
            blob: path(),
            pages: PageRange::new(range).unwrap(),
            sequence: SequenceConditions::default(),
            preconditions: Preconditions::default(),
            encryption: self.encryption.clone(),
        };
        let Some(fill) = fill else {
            return drop(self.run(Operation::ClearPages(write)).await.unwrap());
        };
        let upload = Upload { bytes: None, max_bytes: 1 << 22, checksums: Checksums::default() };
        let operation = UploadOperation::PutPages(PutPages { write, piece: Piece::Sent(upload) });
        let mut upload = self.service.begin_upload(&operation);
        upload.write(vec![fill; ((pages.end - pages.start) * PAGE) as usize].into()).await.unwrap();
        let uploaded = upload.finish().await.unwrap();
        self.service.execute_upload(Caller::owner("acct"), &operation, uploaded).await.unwrap();
    }

    async fn resize(&self, pages: u64) {
        let operation = Operation::SetBlobProperties(SetBlobProperties {
            blob: path(),
            http: None,
            resize: Some(pages * PAGE),
            sequence_number: None,
            preconditions: Preconditions::default(),
            encryption: self.encryption.clone(),
        });
        self.run(operation).await.unwrap();
    }

    async fn snapshot(&self) -> Timestamp {
        let operation = Operation::SnapshotBlob {
            blob: path(),
            metadata: Metadata::default(),
            preconditions: Preconditions::default(),
            encryption: self.encryption.clone(),
        };
        match self.run(operation).await {
            Ok(Reply::Snapshot { snapshot, .. }) => snapshot,
            other => panic!("no snapshot: {other:?}"),
        }
    }

    async fn delete(&self, revision: Revision) {
        let operation = Operation::DeleteBlob(DeleteBlob {
            blob: path(),
            revision,
            snapshots: None,
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        self.run(operation).await.unwrap();
    }

    async fn read(&self, revision: Revision) -> Vec<u8> {
        let operation = Operation::GetBlob(GetBlob {
            blob: path(),
            revision,
            range: None,
            range_checksum: None,
            preconditions: Preconditions::default(),
            encryption: self.encryption.clone(),
        });
        let answer = self.service.execute(Caller::owner("acct"), &operation).await.unwrap();
        let (mut download, mut read) = (answer.content.unwrap(), Vec::new());
        while let Some(pieces) = download.next().await.unwrap() {
            pieces.iter().for_each(|bytes| read.extend_from_slice(bytes));
        }
        read
    }

    /// The pages that have changed since a snapshot, by what has become of them.
    async fn changes(&self, since: Timestamp) -> Vec<Option<PageState>> {
        let operation = Operation::GetPageRanges(GetPageRanges {
            blob: path(),
            revision: Revision::Base,
            since: Some(PreviousSnapshot::At(since)),
            range: None,
            from: None,
            page_size: None,
            preconditions: Preconditions::default(),
        });
        let Ok(Reply::PageRanges(found)) = self.run(operation).await else { panic!("no ranges") };
        let mut pages = vec![None; PAGES as usize];
        for (state, range) in found.ranges {
            let end = (range.last.unwrap() + 1) / PAGE;
            pages[(range.first / PAGE) as usize..end as usize].fill(Some(state));
        }
        pages
    }

    /// The reported changes since a snapshot agree with the bytes then and the bytes now.
    async fn check_changes(&self, taken: Timestamp, then: &[u8], now: &[u8]) {
        let changes = self.changes(taken).await;
        for (page, change) in changes.iter().enumerate() {
            let of = |bytes: &[u8]| bytes.get(page * PAGE as usize).copied();
            let was = of(then).unwrap_or(0);
            // A page that was rewritten with the same bytes may be reported or not.
            let fits = match (change, of(now)) {
                (None, is) => is.is_none_or(|is| was == is),
                (Some(PageState::Written), is) => is.is_some_and(|is| is != 0),
                (Some(PageState::Cleared), is) => is == Some(0) && was != 0,
            };
            assert!(fits, "page {page} of {taken:?}: {was} {:?} {change:?}", of(now));
        }
    }

    /// How many layers the blob has, and how many rows are in the one on top.
    async fn layers(&self) -> (usize, usize) {
        let snapshot = self.engine.begin().await.unwrap();
        let row = snapshot.get(&keyspace::blob(Incarnation(1), "disk", Revision::Base)).await.unwrap();
        let Content::Listed(top) = StoredBlob::decode(&row.unwrap()).unwrap().content else { return (0, 0) };
        let (mut layers, mut next) = (0, Some(top));
        while let Some(content) = next {
            layers += 1;
            next = head_of(&snapshot, content).await.unwrap().parent.map(|(parent, _)| parent);
        }
        let (mut rows, mut count) = (RowCursor::new(&snapshot, keyspace::pieces_from(top, 0), 1000), 0);
        while rows.next().await.unwrap().is_some() {
            count += 1;
        }
        (layers, count)
    }
}

/// Numbers that look random.
fn dice() -> impl FnMut(u64) -> u64 {
    let mut seed = 4711u64;
    move |below| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    }
}

#[tokio::test]
async fn layers_stay_few() {
    for (encryption, rounds) in encryptions().into_iter().zip([4000, 400]) {
        check_layers_stay_few(encryption, rounds).await;
    }
}

async fn check_layers_stay_few(encryption: Encryption, rounds: u64) {
    let (disk, mut next) = (Disk::new(encryption).await, dice());
    let mut plain = vec![0; (PAGES * PAGE) as usize];
    let mut kept: Vec<(Timestamp, Vec<u8>)> = Vec::new();
    let mut deepest = 0;
    for round in 0..rounds {
        let start = next(PAGES);
        let pages = start..(start + 1 + next(40)).min(PAGES);
        let fill = (next(4) > 0).then_some(round as u8 | 1);
        disk.write(&pages, fill).await;
        plain[(pages.start * PAGE) as usize..(pages.end * PAGE) as usize].fill(fill.unwrap_or(0));
        if next(3) == 0 {
            kept.push((disk.snapshot().await, plain.clone()));
        }
        // Some snapshots last, most do not.
        while kept.len() > 60 {
            let (taken, _) = kept.remove(next(50) as usize);
            disk.delete(Revision::Snapshot(taken)).await;
        }
        if round % 50 == 0 {
            disk.service.collect_garbage_once().await.unwrap();
            assert!(disk.read(Revision::Base).await == plain, "{round}");
            deepest = deepest.max(disk.layers().await.0);
        }
    }
    println!("at most {deepest} layers");
    assert!(deepest > MAX_LAYERS / 2 && deepest <= MAX_LAYERS + 1, "{deepest}");
    for (taken, then) in &kept {
        assert!(disk.read(Revision::Snapshot(*taken)).await == *then);
        disk.check_changes(*taken, then, &plain).await;
    }
    for (taken, _) in kept {
        disk.delete(Revision::Snapshot(taken)).await;
    }
    disk.delete(Revision::Base).await;
    disk.service.collect_garbage_once().await.unwrap();
    let snapshot = disk.engine.begin().await.unwrap();
    for (what, range) in [
        ("extents", keyspace::extents_of_volume(tepui_storage::StoreId::LOCAL, 1)),
        ("notes", keyspace::all_dropped_contents()),
    ] {
        assert!(RowCursor::new(&snapshot, range, 1).next().await.unwrap().is_none(), "{what}");
    }
}

#[tokio::test]
async fn changes_of_length_are_changes() {
    for (encryption, rounds) in encryptions().into_iter().zip([1000, 100]) {
        check_changes_of_length_are_changes(encryption, rounds).await;
    }
}

async fn check_changes_of_length_are_changes(encryption: Encryption, rounds: u64) {
    let (disk, mut next) = (Disk::new(encryption).await, dice());
    let mut plain = vec![0; (PAGES * PAGE) as usize];
    let mut kept: Vec<(Timestamp, Vec<u8>)> = Vec::new();
    for round in 0..rounds {
        let length = plain.len() as u64 / PAGE;
        let start = next(length);
        let pages = start..(start + 1 + next(60)).min(length);
        match next(8) {
            0 => {
                let length = 1 + next(PAGES);
                disk.resize(length).await;
                plain.resize((length * PAGE) as usize, 0);
            }
            1 => kept.push((disk.snapshot().await, plain.clone())),
            fate => {
                let fill = (fate > 3).then_some(round as u8 | 1);
                disk.write(&pages, fill).await;
                plain[(pages.start * PAGE) as usize..(pages.end * PAGE) as usize].fill(fill.unwrap_or(0));
            }
        }
        if kept.len() > 40 {
            let (taken, _) = kept.remove(next(40) as usize);
            disk.delete(Revision::Snapshot(taken)).await;
        }
        assert!(disk.read(Revision::Base).await == plain, "{round}");
        if round % 10 == 0 {
            for (taken, then) in &kept {
                disk.check_changes(*taken, then, &plain).await;
            }
        }
    }
    for (taken, then) in &kept {
        assert!(disk.read(Revision::Snapshot(*taken)).await == *then);
    }
}

#[tokio::test]
async fn small_pieces_become_large_ones() {
    let (disk, mut next) = (Disk::new(Encryption::default()).await, dice());
    let mut plain = vec![0; (PAGES * PAGE) as usize];
    let mut order: Vec<u64> = (0..PAGES).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, next(at as u64 + 1) as usize);
    }
    for page in order {
        disk.write(&(page..page + 1), Some(page as u8 | 1)).await;
        plain[(page * PAGE) as usize..((page + 1) * PAGE) as usize].fill(page as u8 | 1);
    }
    let (layers, rows) = disk.layers().await;
    assert!(layers == 1 && rows <= 2 * PAGES as usize * PAGE as usize / MAX_INLINE_BYTES, "{rows}");
    assert!(disk.read(Revision::Base).await == plain);
}
