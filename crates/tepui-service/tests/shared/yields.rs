//! Counts how often long work yields.

use std::cell::Cell;
use std::future::Future;

/// The result of the work, and how often another task of the same thread was polled meanwhile.
pub(crate) async fn yields_during<T>(work: impl Future<Output = T>) -> (T, usize) {
    let (done, yields) = (Cell::new(false), Cell::new(0));
    let work = async {
        let outcome = work.await;
        done.set(true);
        outcome
    };
    let others = async {
        while !done.get() {
            yields.set(yields.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    (tokio::join!(work, others).0, yields.get())
}
