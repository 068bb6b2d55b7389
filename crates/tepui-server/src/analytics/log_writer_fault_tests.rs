//! Logs on a store that fails, and requests that are logged faster than logs can be written.

use super::tests::{ACCOUNT, request};
use super::*;

use tepui_model::blob;
use tepui_model::time::SystemClock;
use tepui_service::BlobOptions;
use tepui_service::blob::Caller;
use tepui_storage::MemoryExtents;
use tepui_storage_faulty::{Faults, FaultyEngine, Rates};

type Writer = LogWriter<FaultyEngine, MemoryExtents>;

/// A writer, and the engine below it.
fn writer(rates: Rates, seed: u64) -> (Writer, Arc<FaultyEngine>) {
    let engine = Arc::new(FaultyEngine::in_memory(Faults::new(rates, seed)));
    let blobs = BlobService::new(
        Arc::clone(&engine),
        Arc::new(MemoryExtents::new()),
        Arc::new(SystemClock::new()),
        crate::ids::random_ids(),
        BlobOptions::default(),
    );
    (LogWriter::new(Arc::new(Analytics::default()), Arc::new(blobs), Duration::from_secs(50)), engine)
}

fn now() -> Timestamp {
    Timestamp::parse_iso("2026-03-10T08:15:30Z").unwrap()
}

/// The ids of all requests that are logged. No outcome is open any more, and reading does not fail.
async fn logged(writer: &Writer, engine: &FaultyEngine) -> Vec<String> {
    engine.settle().await;
    let _calm = engine.calm();
    let mut ids = Vec::new();
    for name in writer.blobs.log_names(ACCOUNT, "", None, 1000).await.unwrap().0 {
        let get = blob::Operation::GetBlob(blob::GetBlob {
            blob: blob::BlobPath {
                container: blob::ContainerName::parse("$logs").unwrap(),
                blob: BlobName::parse(&name).unwrap(),
            },
            revision: blob::Revision::Base,
            range: None,
            range_checksum: None,
            preconditions: blob::Preconditions::default(),
            encryption: blob::Encryption::default(),
        });
        let answer = writer.blobs.execute(Caller::owner(ACCOUNT), &get).await.unwrap();
        let (mut content, mut text) = (answer.content.unwrap(), Vec::new());
        while let Some(pieces) = content.next_up_to(1 << 20).await.unwrap() {
            pieces.iter().for_each(|piece| text.extend_from_slice(piece));
        }
        let text = String::from_utf8(text).unwrap();
        ids.extend(text.lines().map(|line| line.split(';').nth(13).unwrap().to_owned()));
    }
    ids.sort();
    ids
}

#[tokio::test(start_paused = true)]
async fn a_line_is_written_once_whatever_the_store_does() {
    const LOGS: usize = 60;
    for seed in 0..5 {
        let (mut writer, engine) = writer(Rates { pause: 0, ..Rates::ALL }, seed);
        let expected: Vec<_> = (0..LOGS).map(|number| format!("{number:04}")).collect();
        for id in &expected {
            let mut request = request(Service::Table, "GET", now());
            request.request_id.clone_from(id);
            writer.analytics.record(&request);
            writer.flush(Duration::ZERO).await;
        }
        assert_eq!(logged(&writer, &engine).await, expected, "seed {seed}");
        assert_eq!(writer.analytics.dropped_log_lines(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_is_counted_and_frees_its_memory() {
    // Nothing is ever committed.
    let (mut writer, _) = writer(Rates { conflict: 1, ..Rates::NONE }, 0);
    for round in 1..=3 {
        for service in [Service::Blob, Service::Queue, Service::Table] {
            writer.analytics.record(&request(service, "GET", now()));
        }
        let begun = tokio::time::Instant::now();
        writer.flush(Duration::ZERO).await;
        assert_eq!(writer.analytics.dropped_log_lines(), 3 * round);
        // Only the first of them is tried again and again.
        let longest = if round == 1 { Duration::from_secs(7) } else { Duration::from_millis(1) };
        assert!(begun.elapsed() <= longest, "{:?}", begun.elapsed());
    }
    assert_eq!(writer.analytics.logs.waiting_bytes(), 0);
}

/// Threads log as fast as they can while nothing is written: no line is lost that is not counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_drops_and_counts() {
    const EACH: u64 = 40_000;
    const THREADS: u64 = 4;
    let (mut writer, engine) = writer(Rates::NONE, 0);
    let analytics = Arc::clone(&writer.analytics);
    std::thread::scope(|scope| {
        let log = || {
            let mut request = request(Service::Table, "GET", now());
            for _ in 0..EACH {
                request.ended = std::time::Instant::now();
                analytics.record(&request);
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(log)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let dropped = analytics.dropped_log_lines();
    assert!(dropped > 0 && analytics.logs.waiting_bytes() <= 32 << 20, "{dropped}");
    writer.flush(Duration::ZERO).await;
    assert_eq!(logged(&writer, &engine).await.len() as u64 + dropped, THREADS * EACH);
    assert_eq!((analytics.dropped_log_lines(), analytics.logs.waiting_bytes()), (dropped, 0));
}
