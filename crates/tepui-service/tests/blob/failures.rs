//! What becomes of bytes when they cannot be committed.

use super::*;
use crate::engine::{Fault, TestEngine};

#[tokio::test]
async fn bytes_are_freed_if_it_is_certain_that_they_are_not_committed() {
    let engine = TestEngine::new();
    let next = Arc::clone(&engine.fault);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    for (fault, outcome, left) in [
        (Fault::Refused, Err(ErrorCode::ServerBusy), 0),
        // Until the next start, which reads what is stored.
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
