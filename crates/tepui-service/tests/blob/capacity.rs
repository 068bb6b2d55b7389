//! How much an account stores, step by step.

use super::*;
use tepui_service::blob::{AccountCapacity, Capacity, NewLog};

async fn capacity(bench: &Bench, account: &str) -> AccountCapacity {
    repeat_until_done(|| async { bench.service().capacity(account).await }).await
}

#[tokio::test(start_paused = true)]
async fn everything_counts_once() {
    let bench = Bench::with(BlobOptions::default()).await;
    let check = async |case: &str, objects: u64, bytes: usize| {
        let found = capacity(&bench, ACCOUNT).await;
        assert_eq!(found.data, Capacity { bytes: bytes as u64, containers: 1, objects }, "{case}");
        assert_eq!(found.analytics, Capacity { containers: 1, ..Capacity::default() }, "{case}");
    };
    check("nothing", 0, 0).await;
    bench.put("small", &bytes(10, 1)).await;
    bench.put("middle", &bytes(1000, 1)).await;
    bench.put("large", &bytes(LARGE, 1)).await;
    check("blobs of all sizes", 3, 1010 + LARGE).await;
    bench.put("large", &bytes(LARGE + 1, 2)).await;
    check("replaced", 3, 1011 + LARGE).await;
    bench.snapshot("large").await;
    bench.snapshot("large").await;
    check("snapshots that share the bytes", 3, 1011 + LARGE).await;
    bench.put("large", &bytes(LARGE + 2, 3)).await;
    check("snapshots of what was replaced", 3, 1013 + 2 * LARGE).await;
    bench.put_block("blocks", "1", &bytes(100, 1)).await.unwrap();
    bench.put_block("blocks", "2", &bytes(200, 1)).await.unwrap();
    check("uncommitted blocks", 4, 1313 + 2 * LARGE).await;
    bench.put_list("blocks", &[("1", BlockSearch::Latest)]).await.unwrap();
    check("a list of one of them", 4, 1113 + 2 * LARGE).await;
    bench.put_block("blocks", "3", &bytes(50, 1)).await.unwrap();
    check("and one more", 4, 1163 + 2 * LARGE).await;
    repeat_until_done(|| async { bench.service().collect_garbage_once().await }).await;
    check("after garbage collection", 4, 1163 + 2 * LARGE).await;
    bench.retain_deleted(1).await;
    bench.delete("middle", Revision::Base, None).await.unwrap();
    check("soft-deleted: no object, but its bytes", 3, 1163 + 2 * LARGE).await;
}

#[tokio::test(start_paused = true)]
async fn more_blobs_than_a_page_and_logs_on_their_own() {
    let bench = Bench::of_one_node().await;
    for number in 0..1200 {
        bench.put(&format!("{number:04}"), &bytes(number % 7, 1)).await;
    }
    let log = NewLog {
        name: BlobName::parse("table/2026/03/10/0800/000000.log").unwrap(),
        metadata: Metadata::default(),
        text: Bytes::from_static(b"a line\n"),
    };
    while bench.service().put_log(ACCOUNT, &log).await.is_err() {}
    let found = capacity(&bench, ACCOUNT).await;
    let expected = (0..1200).map(|number| number % 7).sum();
    assert_eq!(found.data, Capacity { bytes: expected, containers: 1, objects: 1200 });
    assert_eq!(found.analytics, Capacity { bytes: 7, containers: 1, objects: 1 });
    assert_eq!(capacity(&bench, "other").await.data, Capacity::default());
}
