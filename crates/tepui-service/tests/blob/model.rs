//! Random operations, and the same answers from a plain map. At the end nothing is left of any byte.

use super::*;
use crate::engine::TestEngine;
use std::collections::BTreeMap;

const NAMES: [&str; 3] = ["a", "b", "c"];
const IDS: [&str; 4] = ["0", "1", "2", "3"];

/// A blob as it should be.
#[derive(Default, Clone)]
struct Plain {
    content: Option<Vec<u8>>,
    /// Of blobs that came in blocks.
    committed: BTreeMap<usize, Vec<u8>>,
    uncommitted: BTreeMap<usize, Vec<u8>>,
    snapshots: Vec<(Timestamp, Vec<u8>)>,
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

async fn step<E: Engine>(bench: &Bench<E>, plain: &mut [Plain; 3], random_ids: &mut RandomIds) {
    let at = random_ids.below(3);
    let name = NAMES[at];
    match random_ids.below(10) {
        0 | 1 => {
            let content = random_ids.bytes();
            bench.put(name, &content).await;
            let snapshots = std::mem::take(&mut plain[at].snapshots);
            plain[at] = Plain { content: Some(content), snapshots, ..Plain::default() };
        }
        2..=4 => {
            let (id, content) = (random_ids.below(4), random_ids.bytes());
            bench.put_block(name, IDS[id], &content).await.unwrap();
            plain[at].uncommitted.insert(id, content);
        }
        5 | 6 => {
            let chosen: Vec<usize> = (0..random_ids.below(5)).map(|_| random_ids.below(4)).collect();
            let blocks: Vec<_> = chosen.iter().map(|id| (IDS[*id], BlockSearch::Latest)).collect();
            let blob = &mut plain[at];
            let found = chosen.iter().map(|id| blob.uncommitted.get(id).or(blob.committed.get(id)));
            let found: Option<Vec<_>> = found.map(Option::<&Vec<u8>>::cloned).collect();
            let outcome = bench.put_list(name, &blocks).await.map(drop);
            let Some(found) = found else { return assert_eq!(outcome, Err(ErrorCode::InvalidBlockList)) };
            assert_eq!(outcome, Ok(()));
            blob.content = Some(found.concat());
            blob.committed = chosen.into_iter().zip(found).collect();
            blob.uncommitted.clear();
        }
        7 if plain[at].content.is_some() => {
            let taken = bench.snapshot(name).await;
            let content = plain[at].content.clone().unwrap();
            plain[at].snapshots.push((taken, content));
        }
        8 if plain[at].content.is_some() => {
            let to = random_ids.below(3);
            let from = copies::source(name, Revision::Base);
            let copy = copies::copy(from, NAMES[to], CopyPace::Background);
            bench.run(Operation::CopyBlob(copy)).await.unwrap();
            let snapshots = std::mem::take(&mut plain[to].snapshots);
            let Plain { content, committed, .. } = plain[at].clone();
            plain[to] = Plain { content, committed, uncommitted: BTreeMap::new(), snapshots };
        }
        9 => {
            let outcome = bench.delete(name, Revision::Base, Some(DeleteSnapshots::Include)).await;
            let before = std::mem::take(&mut plain[at]);
            let there = before.content.is_some() || !before.uncommitted.is_empty();
            assert_eq!(outcome.map(drop), if there { Ok(()) } else { Err(ErrorCode::BlobNotFound) });
        }
        _ => bench.collect_garbage().await,
    }
}

async fn compare<E: Engine>(bench: &Bench<E>, plain: &[Plain; 3]) {
    for (name, blob) in NAMES.iter().zip(plain) {
        let expected = blob.content.clone().ok_or(ErrorCode::BlobNotFound);
        assert!(bench.get(name).await == expected, "{name}");
        for (taken, content) in &blob.snapshots {
            assert!(bench.get_revision(name, Revision::Snapshot(*taken)).await.as_ref() == Ok(content));
        }
    }
}

#[tokio::test]
async fn random_operations() {
    check(|_| store::engine()).await;
}

#[tokio::test]
async fn random_operations_on_an_engine_that_forgets() {
    check(TestEngine::forgetful).await;
}

async fn check<E: Engine>(engine: impl Fn(u64) -> E) {
    for (seed, versions, retention) in
        [(1, false, false), (2, false, false), (3, false, true), (4, true, false), (5, true, true)]
    {
        let versioned_accounts = if versions { vec![ACCOUNT.to_owned()] } else { Vec::new() };
        let options = BlobOptions { versioned_accounts, ..BlobOptions::default() };
        let extents = store::extents(PlainExtents::default());
        let clock = ManualClock::at(clock_start());
        let bench = Bench::of_nodes(engine(seed), extents, options, clock, store::nodes());
        bench.create().await.unwrap();
        if retention {
            bench.retain_deleted(1).await;
        }
        let (mut plain, mut random_ids) = (<[Plain; 3]>::default(), RandomIds(seed));
        for round in 0..400 {
            step(&bench, &mut plain, &mut random_ids).await;
            if round % 20 == 0 {
                bench.advance(60 * 60);
                compare(&bench, &plain).await;
            }
        }
        if !versions && !retention {
            for name in NAMES {
                let _ = bench.delete(name, Revision::Base, Some(DeleteSnapshots::Include)).await;
            }
            bench.collect_garbage().await;
            assert_eq!(bench.count_extents().await, 0, "{seed}");
        }
        bench.delete_container().await.unwrap();
        bench.collect_garbage().await;
        assert_eq!(bench.count_extents().await, 0, "{seed}");
    }
}
