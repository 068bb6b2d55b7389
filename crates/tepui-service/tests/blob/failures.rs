//! What becomes of bytes when they cannot be committed.

use super::*;
use std::sync::Mutex;
use tepui_engine::{Chain, CommitError, EngineError, Key, KeyRange, Version, Write};

/// An engine whose next commit fails in a way that the test chooses.
struct Failing {
    engine: MemoryEngine,
    next: Arc<Mutex<Option<Fault>>>,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Refused,
    /// Nobody can tell, and nothing was written.
    UnknownLost,
    /// Nobody can tell, and all was written.
    UnknownKept,
}

impl Engine for Failing {
    type Snapshot = <MemoryEngine as Engine>::Snapshot;

    async fn snapshot(&self) -> Result<Self::Snapshot, EngineError> {
        self.engine.snapshot().await
    }

    async fn commit(&self, at: Version, guards: Vec<Key>, writes: Vec<Write>) -> Result<(), CommitError> {
        let fault = self.next.lock().unwrap().take();
        match fault {
            None => self.engine.commit(at, guards, writes).await,
            Some(Fault::Refused) => Err(CommitError::Engine(EngineError::Unavailable("full".to_owned()))),
            Some(Fault::UnknownLost) => Err(CommitError::Unknown("lost".to_owned())),
            Some(Fault::UnknownKept) => {
                self.engine.commit(at, guards, writes).await?;
                Err(CommitError::Unknown("kept".to_owned()))
            }
        }
    }

    fn commit_in(
        &self,
        chain: &Chain,
        at: Version,
        guards: Vec<Key>,
        writes: Vec<Write>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send + 'static {
        self.engine.commit_in(chain, at, guards, writes)
    }

    async fn reclaim(&self, range: KeyRange) -> Result<(), EngineError> {
        self.engine.reclaim(range).await
    }

    fn health(&self) -> Result<(), EngineError> {
        self.engine.health()
    }
}

#[tokio::test]
async fn bytes_are_freed_if_it_is_certain_that_they_are_not_committed() {
    let next = Arc::new(Mutex::new(None));
    let engine = Failing { engine: MemoryEngine::new(), next: Arc::clone(&next) };
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    for (fault, outcome, left) in [
        (Fault::Refused, Err(ErrorCode::ServerBusy), 0),
        // Until the next start, which sees what is there.
        (Fault::UnknownLost, Err(ErrorCode::InternalError), 1),
        (Fault::UnknownKept, Ok(()), 2),
    ] {
        let operation = Operation::PutBlob(Bench::put_operation("a", Preconditions::default()));
        *next.lock().unwrap() = Some(fault);
        let put = bench.send(operation, &vec![7; LARGE]).await;
        assert_eq!(put.map(drop).map_err(|error| error.code), outcome, "{fault:?}");
        assert_eq!(bench.extents.count(), left, "{fault:?}");
    }
    assert_eq!(bench.get("a").await, Ok(vec![7; LARGE]));
}
