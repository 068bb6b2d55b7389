//! What becomes of bytes when they cannot be committed.

use super::*;
use crate::engine::{Fault, TestEngine};
use tepui_storage::MemoryExtents;

#[tokio::test]
async fn bytes_are_freed_if_it_is_certain_that_they_are_not_committed() {
    let engine = TestEngine::new();
    let next = Arc::clone(&engine.control().fault);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    for (fault, outcome, left) in [
        (Fault::Refused, Err(ErrorCode::ServerBusy), 0),
        // Until the next start, which reads what is stored.
        (Fault::UnknownLost, Err(ErrorCode::InternalError), 1),
        (Fault::UnknownKept, Ok(()), 2),
    ] {
        let operation = UploadOperation::PutBlob(Bench::put_operation("a", Preconditions::default()));
        *next.lock().unwrap() = Some(fault);
        let put = bench.send(operation, &vec![7; LARGE]).await;
        assert_eq!(put.map(drop).map_err(|error| error.code), outcome, "{fault:?}");
        assert_eq!(bench.extents.count(), left, "{fault:?}");
    }
    assert_eq!(bench.get("a").await, Ok(vec![7; LARGE]));
}

/// A blob of which somebody else has deleted or replaced what a request was about to: both give up the same bytes, or keep the same
/// version of it, so what they leave in the store is the same but for the blob itself.
#[tokio::test]
async fn a_lost_deletion_is_not_taken_for_that_of_somebody_else() {
    let (versioned_accounts, retention) = (vec![ACCOUNT.to_owned()], Some(Duration::from_secs(60)));
    for (options, retention_days) in [
        (BlobOptions::default(), None),
        (BlobOptions { versioned_accounts, ..BlobOptions::default() }, None),
        (BlobOptions { container_retention: retention, ..BlobOptions::default() }, Some(7)),
    ] {
        let engine = TestEngine::new();
        let control = engine.control().clone();
        let bench = Arc::new(Bench::on(engine, PlainExtents::default(), options));
        bench.create().await.unwrap();
        bench.set_retention(retention_days).await;
        for content in ["in the row", "in a row of its own", "in an extent", "in a list"] {
            for replaces in [true, false] {
                put_with_content(&bench, content).await;
                let other = Arc::clone(&bench);
                *control.meanwhile.lock().unwrap() = Some(Box::pin(async move {
                    match replaces {
                        true => drop(other.put("a", b"of somebody else").await),
                        false => drop(other.delete("a", Revision::Base, None).await.unwrap()),
                    }
                }));
                *control.fault.lock().unwrap() = Some(Fault::UnknownOvertaken);
                let deleted = bench.delete("a", Revision::Base, None).await;
                let case = format!("{content}, replaced: {replaces}, retention: {retention_days:?}");
                assert_eq!(deleted, Err(ErrorCode::InternalError), "{case}");
                let left = bench.get("a").await;
                match replaces {
                    true => assert_eq!(left, Ok(b"of somebody else".to_vec()), "{case}"),
                    false => assert_eq!(left, Err(ErrorCode::BlobNotFound), "{case}"),
                }
            }
        }
        // The same for a whole container.
        let other = Arc::clone(&bench);
        *control.meanwhile.lock().unwrap() = Some(Box::pin(async move {
            other.delete_container().await.unwrap();
        }));
        *control.fault.lock().unwrap() = Some(Fault::UnknownOvertaken);
        assert_eq!(bench.delete_container().await, Err(ErrorCode::InternalError));
    }
}

async fn put_with_content(bench: &Bench<TestEngine, PlainExtents>, content: &str) {
    match content {
        "in the row" => drop(bench.put("a", b"x").await),
        "in a row of its own" => drop(bench.put("a", &[1; 20_000]).await),
        "in an extent" => drop(bench.put("a", &[1; LARGE]).await),
        _ => {
            bench.put_block("a", "1", &[1; LARGE]).await.unwrap();
            bench.put_block("a", "2", &[2; LARGE]).await.unwrap();
            bench.put_list("a", &[("1", BlockSearch::Latest), ("2", BlockSearch::Latest)]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_list_goes_on_when_its_transaction_is_too_old() {
    let engine = TestEngine::new();
    let reads_left = Arc::clone(&engine.control().reads_left);
    let bench = Bench::on(engine, PlainExtents::default(), BlobOptions::default());
    bench.create().await.unwrap();
    for number in 0..40 {
        bench.put(&format!("b{number:02}"), b"x").await;
        bench.put_block(&format!("s{number:02}"), "id", b"y").await.unwrap();
    }
    let all = BlobInclude { uncommitted: true, ..BlobInclude::default() };
    let query = ListBlobs { include: all, ..lists::query("", None, 100) };
    let list = async || {
        let mut page = lists::BlobPage::default();
        page.next = bench.service().list_blobs(Caller::owner(ACCOUNT), &query, &mut page).await?.next;
        Ok::<_, ServiceError>(page.blobs)
    };
    let expected = list().await.unwrap();
    assert_eq!(expected.len(), 80);
    for lifetimes in [vec![0], vec![1], vec![3], vec![10, 5, 20], vec![4; 8], vec![60, 2]] {
        reads_left.lock().unwrap().extend(&lifetimes);
        assert_eq!(list().await.unwrap(), expected, "{lifetimes:?}");
    }
    reads_left.lock().unwrap().extend([0; 9]);
    assert_eq!(list().await.map_err(|error| error.code), Err(ErrorCode::ServerBusy), "not for ever");
}

#[tokio::test]
async fn a_download_holds_no_transaction() {
    let engine = TestEngine::new();
    let reads_left = Arc::clone(&engine.control().reads_left);
    let extents = MemoryExtents::new();
    let bench = Bench::on(engine, extents.clone(), BlobOptions::default());
    bench.create().await.unwrap();
    // Each block is a row of its own, and more rows than are read at once.
    bench.run(Bench::put_empty("log", EmptyContent::Append, NewBlob::default())).await.unwrap();
    let mut expected = Vec::new();
    for number in 0..200u8 {
        let piece = bytes(4000, number);
        let operation = UploadOperation::AppendBlock(AppendBlock {
            blob: path("log"),
            piece: Piece::Sent(upload()),
            append: AppendConditions::default(),
            preconditions: Preconditions::default(),
            encryption: Encryption::default(),
        });
        bench.send(operation, &piece).await.unwrap();
        expected.extend(piece);
    }
    let get = Operation::GetBlob(Bench::get_operation("log", Revision::Base));
    let answer = bench.service().execute(Caller::owner(ACCOUNT), &get).await.unwrap();
    let mut download = answer.content.unwrap();
    let mut read = download.next().await.unwrap().unwrap().concat();
    bench.delete("log", Revision::Base, None).await.unwrap();
    let collecting = bench.service().collect_garbage_once();
    let reading = async {
        // The collector has begun, and waits.
        tokio::task::yield_now().await;
        reads_left.lock().unwrap().extend([0, 1, 2]);
        while let Some(pieces) = download.next().await.unwrap() {
            read.extend(pieces.concat());
        }
        drop(download);
        read
    };
    let (collected, read) = tokio::join!(collecting, reading);
    collected.unwrap();
    assert!(read == expected);
    assert_eq!(extents.bytes(), 0);
}
