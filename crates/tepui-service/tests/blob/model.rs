//! Random operations, and the same answers from a plain map. Where the store leaves the outcome of a request open, the map is a set
//! of states, and each answer has to be explained by one of them. At the end nothing is left of any byte.

use super::*;
use crate::engine::TestEngine;
use crate::possible::Possible;
use crate::store::{Settle, repeat_unless_open};
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["a", "b", "c"];
const IDS: [&str; 4] = ["0", "1", "2", "3"];

/// A blob as it should be.
#[derive(Debug, Default, Clone, PartialEq)]
struct Plain {
    content: Option<Vec<u8>>,
    /// Of blobs that came in blocks.
    committed: BTreeMap<usize, Vec<u8>>,
    uncommitted: BTreeMap<usize, Vec<u8>>,
    /// With their names, if an answer has told them.
    snapshots: Vec<(Option<Timestamp>, Vec<u8>)>,
}

impl Plain {
    /// The blob with another content, which discards its uncommitted blocks.
    fn replaced(&self, content: Vec<u8>, committed: BTreeMap<usize, Vec<u8>>) -> Self {
        let snapshots = self.snapshots.clone();
        Self { content: Some(content), committed, uncommitted: BTreeMap::new(), snapshots }
    }

    fn is_there(&self) -> bool {
        self.content.is_some() || !self.uncommitted.is_empty()
    }

    /// The contents of blocks, if all of them are there.
    fn blocks(&self, chosen: &[usize]) -> Option<Vec<Vec<u8>>> {
        chosen.iter().map(|id| self.uncommitted.get(id).or(self.committed.get(id)).cloned()).collect()
    }
}

struct RandomIds(u64);

impl RandomIds {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = [1, 100, LARGE][self.below(3)];
        bytes(length, self.below(256) as u8)
    }
}

struct World<E: Engine> {
    engine: E,
    bench: Bench<E>,
    possible: Possible<Plain>,
    random: RandomIds,
    /// Whether all changes that may happen later write the row of their blob, as those do that are refused if it has changed.
    late_write_blobs: bool,
}

/// What an operation writes.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// The row of the blob.
    Blob,
    /// Perhaps only rows of blocks.
    Blocks,
}

enum Request<'a> {
    Operation(Operation),
    Upload(UploadOperation, &'a [u8]),
}

impl<E: Engine + Settle> World<E> {
    /// The answer to one request. `None` if it leaves open what became of it.
    async fn ask(&mut self, request: Request<'_>) -> Option<Result<Reply, ErrorCode>> {
        let bench = &self.bench;
        let attempt = || async {
            match &request {
                Request::Upload(operation, body) => bench.try_send_as(Allowed::Fully, operation, body).await,
                Request::Operation(operation) => {
                    let answer = bench.service().execute(Caller::owner(ACCOUNT), operation).await;
                    answer.map(|answer| answer.reply)
                }
            }
        };
        match repeat_unless_open(attempt).await {
            Err(error) if store::is_open(&error) => None,
            answer => Some(answer.map_err(|error| error.code)),
        }
    }

    async fn settle(&mut self) {
        self.engine.settle().await;
        self.possible.settled();
        self.late_write_blobs = true;
    }

    /// Called before a change of a blob: changes may still happen later that it would not refuse.
    async fn prepare(&mut self, at: usize, scope: Scope) {
        if self.possible.has_late(at) && !(scope == Scope::Blob && self.late_write_blobs) {
            self.settle().await;
        }
    }

    /// A change of a blob that cannot be refused.
    async fn change(
        &mut self,
        (at, scope): (usize, Scope),
        request: Request<'_>,
        change: impl Fn(&[Plain]) -> Plain,
    ) {
        self.prepare(at, scope).await;
        match self.ask(request).await {
            Some(answer) => {
                answer.unwrap();
                self.possible.changed(at, |parts| Some(change(parts)));
            }
            None => self.leave_open(at, scope, |parts| Some(change(parts))),
        }
    }

    fn leave_open(&mut self, at: usize, scope: Scope, judge: impl Fn(&[Plain]) -> Option<Plain>) {
        self.possible.left_open(at, judge);
        self.late_write_blobs &= scope == Scope::Blob;
    }

    async fn step(&mut self) {
        let at = self.random.below(3);
        let name = NAMES[at];
        match self.random.below(10) {
            0 | 1 => {
                let content = self.random.bytes();
                let put = UploadOperation::PutBlob(Bench::put_operation(name, Preconditions::default()));
                let put = Request::Upload(put, &content);
                self.change((at, Scope::Blob), put, |parts| {
                    parts[at].replaced(content.clone(), BTreeMap::new())
                })
                .await;
            }
            2..=4 => {
                let (id, content) = (self.random.below(4), self.random.bytes());
                let put = UploadOperation::PutBlock(PutBlock {
                    blob: path(name),
                    id: block_id(IDS[id]),
                    piece: Piece::Sent(upload()),
                    preconditions: Preconditions::default(),
                    encryption: Encryption::default(),
                });
                self.change((at, Scope::Blocks), Request::Upload(put, &content), |parts| {
                    let mut blob = parts[at].clone();
                    blob.uncommitted.insert(id, content.clone());
                    blob
                })
                .await;
            }
            5 | 6 => self.put_list(at).await,
            7 if self.possible.all(|parts| parts[at].content.is_some()) => self.snapshot(at).await,
            8 if self.possible.all(|parts| parts[at].content.is_some()) => {
                let to = self.random.below(3);
                let from = copies::source(name, Revision::Base);
                let copy = copies::copy(from, NAMES[to], CopyPace::Background);
                self.change((to, Scope::Blob), Request::Operation(copies::shared(copy)), |parts| {
                    let Plain { content, committed, .. } = parts[at].clone();
                    parts[to].replaced(content.unwrap_or_default(), committed)
                })
                .await;
            }
            9 => self.delete(at).await,
            _ => self.bench.collect_garbage().await,
        }
    }

    async fn put_list(&mut self, at: usize) {
        let chosen: Vec<usize> = (0..self.random.below(5)).map(|_| self.random.below(4)).collect();
        let blocks =
            chosen.iter().map(|id| ChosenBlock { id: block_id(IDS[*id]), search: BlockSearch::Latest });
        let put = Operation::PutBlockList(PutBlockList {
            blob: path(NAMES[at]),
            blocks: blocks.collect(),
            list_checksums: Checksums::default(),
            new: NewBlob::default(),
            preconditions: Preconditions::default(),
        });
        self.prepare(at, Scope::Blocks).await;
        let judge = |parts: &[Plain]| {
            let found = parts[at].blocks(&chosen)?;
            Some(parts[at].replaced(found.concat(), chosen.iter().copied().zip(found).collect()))
        };
        match self.ask(Request::Operation(put)).await {
            None => self.leave_open(at, Scope::Blocks, judge),
            Some(Ok(_)) => self.possible.changed(at, judge),
            Some(Err(ErrorCode::InvalidBlockList)) => self.possible.seen(|parts| judge(parts).is_none()),
            Some(other) => panic!("not put: {other:?}"),
        }
    }

    async fn snapshot(&mut self, at: usize) {
        let operation = Operation::SnapshotBlob {
            blob: path(NAMES[at]),
            metadata: Metadata::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        };
        self.prepare(at, Scope::Blob).await;
        let with = |parts: &[Plain], taken| {
            let mut blob = parts[at].clone();
            blob.snapshots.push((taken, blob.content.clone()?));
            Some(blob)
        };
        match self.ask(Request::Operation(operation)).await {
            None => self.leave_open(at, Scope::Blob, |parts| with(parts, None)),
            Some(Ok(Reply::Snapshot { snapshot, .. })) => {
                self.possible.changed(at, |parts| with(parts, Some(snapshot)));
            }
            Some(other) => panic!("not taken: {other:?}"),
        }
    }

    async fn delete(&mut self, at: usize) {
        let delete = Operation::DeleteBlob(DeleteBlob {
            blob: path(NAMES[at]),
            revision: Revision::Base,
            snapshots: Some(DeleteSnapshots::Include),
            tier_conditions: TierConditions::default(),
            permanently: false,
            preconditions: Preconditions::default(),
        });
        self.prepare(at, Scope::Blocks).await;
        let judge = |parts: &[Plain]| parts[at].is_there().then(Plain::default);
        match self.ask(Request::Operation(delete)).await {
            None => self.leave_open(at, Scope::Blocks, judge),
            Some(Ok(_)) => self.possible.changed(at, judge),
            Some(Err(ErrorCode::BlobNotFound)) => self.possible.seen(|parts| !parts[at].is_there()),
            Some(other) => panic!("not deleted: {other:?}"),
        }
    }

    async fn compare(&mut self) {
        for (at, name) in NAMES.iter().enumerate() {
            let found = self.bench.get(name).await;
            self.possible.seen(|parts| match (&found, &parts[at].content) {
                (Ok(found), Some(content)) => found == content,
                (found, content) => *found == Err(ErrorCode::BlobNotFound) && content.is_none(),
            });
            let names = |parts: &[Plain]| -> Vec<Timestamp> {
                parts[at].snapshots.iter().filter_map(|(taken, _)| *taken).collect()
            };
            let mut taken = self.possible.each(names).concat();
            taken.sort_unstable();
            taken.dedup();
            for taken in taken {
                let found = self.bench.get_revision(name, Revision::Snapshot(taken)).await;
                self.possible.seen(|parts| {
                    let known = parts[at].snapshots.iter().find(|(name, _)| *name == Some(taken));
                    found.as_ref().ok() == known.map(|(_, content)| content)
                });
            }
            let query = ListBlobs {
                include: BlobInclude { snapshots: true, ..BlobInclude::default() },
                ..lists::query(name, None, 5000)
            };
            let listed = lists::page_as(&self.bench, Allowed::Fully, query).await.unwrap().blobs;
            let listed = listed.iter().filter(|entry| entry.ends_with(" snapshot")).count();
            self.possible.seen(|parts| parts[at].snapshots.len() == listed);
        }
    }
}

#[tokio::test]
async fn random_operations() {
    check(|_| store::with_open_outcomes(store::tested())).await;
}

#[tokio::test]
async fn random_operations_on_an_engine_that_forgets() {
    check(TestEngine::forgetful).await;
}

async fn check<E: Engine + Settle + Clone>(engine: impl Fn(u64) -> E) {
    for (seed, versions, retention) in
        [(1, false, false), (2, false, false), (3, false, true), (4, true, false), (5, true, true)]
    {
        let versioned_accounts = if versions { vec![ACCOUNT.to_owned()] } else { Vec::new() };
        let options = BlobOptions { versioned_accounts, ..BlobOptions::default() };
        let extents = store::extents(PlainExtents::default());
        let clock = ManualClock::at(clock_start());
        let engine = engine(seed);
        let bench = Bench::of_nodes(engine.clone(), extents, options, clock, store::nodes());
        let created = bench.create().await;
        assert!(matches!(created, Ok(_) | Err(ErrorCode::ContainerAlreadyExists)), "{created:?}");
        if retention {
            bench.retain_deleted(1).await;
        }
        let (possible, random) = (Possible::new(vec![Plain::default(); 3]), RandomIds(seed));
        let mut world = World { engine, bench, possible, random, late_write_blobs: true };
        for round in 0..400 {
            world.step().await;
            if round % 20 == 0 {
                world.bench.advance(60 * 60);
                world.compare().await;
            }
        }
        world.settle().await;
        world.compare().await;
        if !versions && !retention {
            for at in 0..NAMES.len() {
                world.delete(at).await;
                world.settle().await;
                // If it was left open.
                world.delete(at).await;
            }
            world.settle().await;
            world.bench.collect_garbage().await;
            world.settle().await;
            assert_eq!(world.bench.count_extents().await, 0, "{seed}");
        }
        let deleted = world.bench.delete_container().await;
        assert!(matches!(deleted, Ok(_) | Err(ErrorCode::ContainerNotFound)), "{deleted:?}");
        world.settle().await;
        world.bench.collect_garbage().await;
        assert_eq!(world.bench.count_extents().await, 0, "{seed}");
    }
}
