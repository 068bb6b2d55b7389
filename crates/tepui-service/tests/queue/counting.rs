//! What a queue costs after much was consumed from it.

use super::*;
use std::sync::Mutex;
use tepui_engine::{
    Chain, CommitError, EngineError, Key, KeyRange, ScanLimit, ScanPage, Snapshot, Value, Version, Write,
};

/// Notes how many rows were scanned, and the ranges.
struct Counting {
    inner: MemoryEngine,
    scanned: Arc<Mutex<(usize, Vec<KeyRange>)>>,
}

struct CountingSnapshot {
    inner: <MemoryEngine as Engine>::Snapshot,
    scanned: Arc<Mutex<(usize, Vec<KeyRange>)>>,
}

impl Engine for Counting {
    type Snapshot = CountingSnapshot;

    async fn snapshot(&self) -> Result<CountingSnapshot, EngineError> {
        Ok(CountingSnapshot { inner: self.inner.snapshot().await?, scanned: Arc::clone(&self.scanned) })
    }

    async fn commit(&self, at: Version, guards: Vec<Key>, writes: Vec<Write>) -> Result<(), CommitError> {
        self.inner.commit(at, guards, writes).await
    }

    fn commit_in(
        &self,
        chain: &Chain,
        at: Version,
        guards: Vec<Key>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        self.inner.commit_in(chain, at, guards, writes)
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), EngineError> {
        self.inner.reclaim(range).await
    }

    fn health(&self) -> Result<(), EngineError> {
        self.inner.health()
    }
}

impl Snapshot for CountingSnapshot {
    fn version(&self) -> Version {
        self.inner.version()
    }

    fn catalogue_version(&self) -> Version {
        self.inner.catalogue_version()
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.inner.get(key).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, EngineError> {
        let page = self.inner.scan(range, limit).await?;
        let mut scanned = self.scanned.lock().unwrap();
        scanned.0 += page.rows.len();
        scanned.1.push(range.clone());
        Ok(page)
    }
}

/// Messages were deleted, so these rows may be markers of deletions that a scan has to step over.
#[tokio::test]
async fn nobody_looks_where_everything_was_consumed() {
    let scanned = Arc::default();
    let bench = Bench::on(Counting { inner: MemoryEngine::new(), scanned: Arc::clone(&scanned) });
    bench.create().await;
    let mut places = Vec::new();
    for number in 0..500 {
        places.push(bench.put(&number.to_string()).await.receipt.visible);
    }
    scanned.lock().unwrap().0 = 0;
    for number in 0..500 {
        let taken = bench.get(1, 30).await.remove(0);
        assert_eq!(taken.text, number.to_string());
        bench.delete(Some(taken.stamp.id), Some(taken.receipt)).await.unwrap();
        places.push(taken.receipt.visible);
    }
    assert!(scanned.lock().unwrap().0 <= 500 * 65, "a page for each get at most");
    bench.advance(seconds(60));
    assert!(bench.get(1, 30).await.is_empty());
    scanned.lock().unwrap().1.clear();
    assert!(bench.get(1, 30).await.is_empty() && bench.peek(1).await.is_empty());
    let last = places.into_iter().max().unwrap().ticks().to_be_bytes();
    let ranges = std::mem::take(&mut scanned.lock().unwrap().1);
    assert_eq!(ranges.len(), 2);
    for range in ranges {
        assert!(range.start[9..17] > last[..], "a scan starts before what was consumed");
    }
    // An idle queue is left alone.
    let before = bench.engine.snapshot().await.unwrap().version();
    bench.advance(seconds(60));
    assert!(bench.get(1, 30).await.is_empty());
    assert_eq!(bench.engine.snapshot().await.unwrap().version(), before);
}
