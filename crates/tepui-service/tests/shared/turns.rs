//! How often others get to run while something long is done.

use std::cell::Cell;
use std::future::Future;

/// What the work comes to, and how often another task of the same thread had its turn meanwhile.
pub(crate) async fn turns_during<T>(work: impl Future<Output = T>) -> (T, usize) {
    let (done, turns) = (Cell::new(false), Cell::new(0));
    let work = async {
        let outcome = work.await;
        done.set(true);
        outcome
    };
    let others = async {
        while !done.get() {
            turns.set(turns.get() + 1);
            tokio::task::yield_now().await;
        }
    };
    (tokio::join!(work, others).0, turns.get())
}
