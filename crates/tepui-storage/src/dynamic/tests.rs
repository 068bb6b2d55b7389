//! Methods that traits implement are passed on all the same.

use super::DynEngine;
use crate::rewindable::RewindableEngine;
use crate::{
    Commit, CommitError, CommitPipeline, Engine, Key, KeyRange, Limits, MemoryEngine, ScanLimit, ScanPage,
    Snapshot, StorageError, Transaction, Value, Write,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// Notes which methods were called, each in its own way.
#[derive(Clone, Default)]
struct Noting {
    inner: MemoryEngine,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

struct NotingReader<R>(R, Arc<Mutex<Vec<&'static str>>>);

impl Engine for Noting {
    type Transaction = NotingReader<<MemoryEngine as Engine>::Transaction>;
    type Pipeline = NotingReader<<MemoryEngine as Engine>::Pipeline>;

    async fn begin(&self) -> Result<Self::Transaction, StorageError> {
        Ok(NotingReader(self.inner.begin().await?, Arc::clone(&self.calls)))
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.calls.lock().push("get_many without a transaction");
        self.inner.get_many(keys).await
    }

    async fn begin_pipeline(&self) -> Result<Self::Pipeline, StorageError> {
        Ok(NotingReader(self.inner.begin_pipeline().await?, Arc::clone(&self.calls)))
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), StorageError> {
        self.inner.reclaim(range).await
    }

    async fn health(&self) -> Result<(), StorageError> {
        Err(StorageError::unavailable("no"))
    }

    fn limits(&self) -> Limits {
        Limits { max_key_bytes: 7, ..Limits::LOCAL }
    }
}

impl<R: Snapshot> Snapshot for NotingReader<R> {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, StorageError> {
        self.0.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, StorageError> {
        self.0.get_many(keys).await
    }

    async fn scan(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.0.scan(range, limit).await
    }

    async fn first(&self, range: &KeyRange) -> Result<Option<(Key, Value)>, StorageError> {
        self.1.lock().push("first");
        self.0.first(range).await
    }

    async fn scan_some(&self, range: &KeyRange, limit: ScanLimit) -> Result<ScanPage, StorageError> {
        self.1.lock().push("scan_some");
        self.0.scan_some(range, limit).await
    }
}

impl<T: Transaction> Transaction for NotingReader<T> {
    async fn commit(self, commit: Commit) -> Result<(), CommitError> {
        self.0.commit(commit).await
    }
}

impl<P: CommitPipeline> CommitPipeline for NotingReader<P> {
    fn submit(&self, commit: Commit) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        self.0.submit(commit)
    }

    fn is_ended(&self) -> bool {
        self.0.is_ended()
    }
}

async fn calls<E: Engine>(engine: &E, noting: &Noting) -> Vec<&'static str> {
    let range = KeyRange { start: "a".into(), end: "c".into() };
    let limit = ScanLimit { max_rows: 1, max_bytes: 1 };
    let row = (Key::from("b"), Value::from("1"));
    engine
        .begin()
        .await
        .unwrap()
        .commit(vec![Write::Put(row.0.clone(), row.1.clone())].into())
        .await
        .unwrap();
    noting.calls.lock().clear();
    assert_eq!(engine.get_many(&["b".into(), "x".into()]).await, Ok(vec![Some(row.1.clone()), None]));
    let transaction = engine.begin().await.unwrap();
    assert_eq!(transaction.first(&range).await, Ok(Some(row.clone())));
    assert_eq!(transaction.scan_some(&range, limit).await.unwrap().rows, std::slice::from_ref(&row));
    let pipeline = engine.begin_pipeline().await.unwrap();
    assert_eq!(pipeline.first(&range).await, Ok(Some(row.clone())));
    assert_eq!(pipeline.scan_some(&range, limit).await.unwrap().rows, [row]);
    std::mem::take(&mut noting.calls.lock())
}

#[tokio::test]
async fn every_method_is_passed_on() {
    let noting = Noting::default();
    let expected = ["get_many without a transaction", "first", "scan_some", "first", "scan_some"];
    let engine = DynEngine::new(noting.clone());
    assert_eq!(calls(&engine, &noting).await, expected);
    assert_eq!(Engine::limits(&engine).max_key_bytes, 7);
    assert_eq!(Engine::health(&engine).await, Err(StorageError::unavailable("no")));
    for engine in [RewindableEngine::off, RewindableEngine::on].map(|make| make(Arc::new(engine.clone()))) {
        assert_eq!(calls(&engine, &noting).await, expected);
    }
}
