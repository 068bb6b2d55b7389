//! Guards on locks that conflict as TiKV's do: on the mock of TiKV's client for Go. The stores of the other tests forget locks
//! that were committed, so that they would not show a crowd that conflicts.

mod shared;
#[cfg(feature = "test-services")]
#[path = "../../tepui-service/tests/shared/writers.rs"]
mod writers;

use shared::process::{Directory, Process, free_port, wait_for};
use shared::{crowd, dropped, is_skipped, open, options, program, range, raw};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tepui_storage::{CommitError, Engine, Guard, Key, Transaction, Write};
use tepui_tikv::TikvOptions;

struct Mock {
    _process: Process,
    _directory: Directory,
    endpoint: String,
}

impl Mock {
    fn start() -> Self {
        Self::start_with(&[])
    }

    /// With a second region that begins with this key.
    fn start_with_border(key: &[u8]) -> Self {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Self::start_with(&[format!("-border={key}")])
    }

    fn start_with(options: &[String]) -> Self {
        let directory = Directory::new();
        let endpoint = format!("127.0.0.1:{}", free_port());
        let arguments = [&[format!("-address={endpoint}")], options].concat();
        let process = Process::start(&program("mock"), &arguments, directory.path().join("mock.log"));
        wait_for("the mock", Duration::from_secs(60), || TcpStream::connect(&endpoint).ok());
        Self { _process: process, _directory: directory, endpoint }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_guard_is_as_good_as_many() {
    if is_skipped() {
        return;
    }
    let mock = Mock::start();
    let shared_ranges = vec![range(b"guards/", b"guards0")];
    let options = TikvOptions { shared_ranges, ..options(&mock.endpoint, "crowd") };
    // Two nodes that choose copies without knowing of each other, and one of them alone.
    let engine = Arc::new(open(options.clone()).await);
    crowd::one_guard_is_as_good_as_many(&engine, "mock", 20).await;
    let other = Arc::new(open(options).await);
    let guard = |_| Guard::Shared(Key::from_static(b"guards/one"));
    let (first, second) =
        tokio::join!(crowd::crowd(&engine, "first", 20, guard), crowd::crowd(&other, "second", 20, guard));
    println!("two nodes on one guard: {first:?}, {second:?}");
    let commits = 2 * 20 * crowd::WRITERS as u64;
    assert!(first.conflicts + second.conflicts < commits / 2, "of {commits}: {first:?}, {second:?}");
}

/// The same by way of the Table service.
#[cfg(feature = "test-services")]
#[tokio::test(flavor = "multi_thread")]
async fn one_table_is_as_good_as_many() {
    if is_skipped() {
        return;
    }
    let mock = Mock::start();
    let shared_ranges = tepui_service::shared_guard_ranges();
    let engine = open(TikvOptions { shared_ranges, ..options(&mock.endpoint, "tables") }).await;
    writers::one_table_is_as_good_as_many(engine, "mock", 20).await;
}

/// That the mock does what it is for: a guard that is not shared is a lock, and a crowd on it conflicts.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_on_one_lock_conflicts() {
    if is_skipped() {
        return;
    }
    let mock = Mock::start();
    let engine = Arc::new(open(options(&mock.endpoint, "locks")).await);
    let crowd =
        crowd::crowd(&engine, "locks", 5, |_| Guard::Unchanged(Key::from_static(b"guards/one"))).await;
    println!("16 writers on one lock: {crowd:?}");
    assert!(crowd.conflicts > 5 * crowd::WRITERS as u64, "{crowd:?}");
}

/// A write that cannot lock all copies leaves nothing behind that others would have to wait for, also where it has locked copies in
/// another region.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_given_up_leaves_no_locks() {
    if is_skipped() {
        return;
    }
    let row = Key::from_static(b"guards/one");
    let mock = Mock::start_with_border(&raw::copy("given-up", &row, 64));
    let shared_ranges = vec![range(b"guards/", b"guards0")];
    // A write waits for half of it.
    let timeout = Duration::from_secs(2);
    let options = TikvOptions { shared_ranges, timeout, ..options(&mock.endpoint, "given-up") };
    let engine = open(options).await;
    crowd::put(&engine, row.clone(), "table").await;
    let client = raw::client(&mock.endpoint).await;
    let mut other = raw::pessimistic(&client).await;
    other.lock_keys([raw::copy("given-up", &row, 8)]).await.expect("it is free");
    let transaction = engine.begin().await.expect("it begins");
    let given_up = transaction.commit(vec![Write::Delete(row.clone())].into()).await;
    assert_eq!(given_up, Err(CommitError::Conflict));
    let now = client.current_timestamp().await.expect("there is a time");
    let left = client.scan_locks(&now, .., 1024).await.expect("they can be listed");
    other.rollback().await.expect("it can be rolled back");
    let began = Instant::now();
    crowd::put(&engine, row, "table").await;
    println!("{} locks of one that goes on; written {:?} after its end", left.len(), began.elapsed());
    assert_eq!(left.len(), 1, "locks are left");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_under_a_guard_that_was_deleted() {
    if is_skipped() {
        return;
    }
    let mock = Mock::start();
    // Its pessimistic locks conflict with what was committed before they were taken, which TiKV's do not: a drop needs a gap.
    dropped::nothing_is_written_under_a_guard_that_was_deleted(&mock.endpoint, Duration::from_millis(50))
        .await;
}
