//! Reads that miss the page cache wait for the disk on threads for blocking work.

use std::sync::Arc;
use std::task::Poll;
use tepui_files::SimulatedFiles;
use tepui_local::{DiskEngine, EngineOptions};
use tepui_storage::{CommitPipeline, Engine, KeyRange, ScanLimit, Snapshot, Write};

#[tokio::test]
async fn a_read_that_would_wait_does_so_elsewhere() {
    let files = SimulatedFiles::new(1);
    let mut options = EngineOptions::new("/data");
    options.files = Arc::new(files.clone());
    options.memtable_bytes = 1 << 10;
    let (engine, mut stepper) = DiskEngine::open_stepped(options).expect("a directory can be created");
    for number in 0..20 {
        let pipeline = engine.begin_pipeline().await.expect("a pipeline can begin");
        let put = vec![Write::Put(format!("key {number:02}").into(), vec![b'v'; 500].into())];
        let committing = pipeline.submit(put.into());
        stepper.commit();
        committing.await.expect("it is written");
        stepper.flush();
    }
    stepper.commit();
    let snapshot = engine.begin().await.expect("a transaction can begin");
    let range = KeyRange { start: "key 00".into(), end: "key 99".into() };
    let limit = ScanLimit { max_rows: 100, max_bytes: 1 << 20 };
    for (cached_percent, waits) in [(100, 0), (0, 1)] {
        files.set_cached_percent(cached_percent);
        let mut get = std::pin::pin!(snapshot.get(b"key 00"));
        let mut scan = std::pin::pin!(snapshot.scan(&range, limit));
        let polled = std::future::poll_fn(|context| {
            Poll::Ready((get.as_mut().poll(context), scan.as_mut().poll(context)))
        });
        match polled.await {
            (Poll::Ready(Ok(Some(_))), Poll::Ready(Ok(page))) => {
                assert_eq!((waits, page.rows.len()), (0, 20))
            }
            (Poll::Pending, Poll::Pending) => {
                assert_eq!((waits, files.waiting_work()), (1, 2), "one piece of work each");
                while files.run_blocking() {}
                assert!(get.await.expect("it can be read").is_some());
                assert_eq!(scan.await.expect("they can be read").rows.len(), 20);
            }
            other => panic!("{other:?}"),
        }
    }
}
