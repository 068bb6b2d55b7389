//! Append blobs.

use super::*;

pub(crate) async fn create(bench: &Bench, name: &str) {
    bench.run(Bench::put_empty(name, EmptyContent::Append, NewBlob::default())).await.unwrap();
}

async fn append_if(
    bench: &Bench,
    name: &str,
    bytes: &[u8],
    append: AppendConditions,
) -> Result<(u64, u32), ErrorCode> {
    let operation = UploadOperation::AppendBlock(AppendBlock {
        blob: path(name),
        piece: Piece::Sent(upload()),
        append,
        preconditions: Preconditions::default(),
        encryption: Encryption::default(),
    });
    match bench.send(operation, bytes).await.map_err(|error| error.code)? {
        Reply::Appended { offset, committed_blocks, .. } => Ok((offset, committed_blocks)),
        other => panic!("not appended: {other:?}"),
    }
}

pub(crate) async fn append(bench: &Bench, name: &str, bytes: &[u8]) -> Result<(u64, u32), ErrorCode> {
    append_if(bench, name, bytes, AppendConditions::default()).await
}

#[tokio::test]
async fn blobs_grow() {
    let bench = Bench::new().await;
    assert_eq!(append(&bench, "log", b"x").await, Err(ErrorCode::BlobNotFound));
    create(&bench, "log").await;
    let large = bytes(LARGE, 5);
    assert_eq!(append(&bench, "log", b"Hello").await, Ok((0, 1)));
    assert_eq!(append(&bench, "log", &large).await, Ok((5, 2)));
    let taken = bench.snapshot("log").await;
    assert_eq!(append(&bench, "log", b"World").await, Ok((5 + LARGE as u64, 3)));
    assert!(bench.get("log").await.unwrap() == [b"Hello", &large[..], b"World"].concat());
    let snapshot = bench.get_revision("log", Revision::Snapshot(taken)).await.unwrap();
    assert!(snapshot == [b"Hello", &large[..]].concat());
    bench.put("block", b"").await;
    assert_eq!(append(&bench, "block", b"x").await, Err(ErrorCode::InvalidBlobType));
}

#[tokio::test]
async fn positions_and_seals() {
    use ErrorCode::*;
    let bench = Bench::new().await;
    create(&bench, "log").await;
    let at = |position, max_bytes| AppendConditions { position, max_bytes };
    assert_eq!(append_if(&bench, "log", b"Hello", at(Some(0), None)).await, Ok((0, 1)));
    let refused = append_if(&bench, "log", b"Hello", at(Some(0), None)).await;
    assert_eq!(refused, Err(AppendPositionConditionNotMet));
    let refused = append_if(&bench, "log", b"Hello", at(None, Some(6))).await;
    assert_eq!(refused, Err(MaxBlobSizeConditionNotMet));
    let seal = |position| Operation::SealBlob {
        blob: path("log"),
        position,
        preconditions: Preconditions::default(),
    };
    assert_eq!(bench.run(seal(Some(4))).await, Err(AppendPositionConditionNotMet));
    assert!(bench.run(seal(Some(5))).await.is_ok() && bench.run(seal(None)).await.is_ok());
    assert_eq!(append(&bench, "log", b"x").await, Err(BlobIsSealed));
    assert_eq!(bench.get("log").await.unwrap(), b"Hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_at_once_follow_one_another() {
    let bench = Arc::new(Bench::for_many().await);
    create(&bench, "log").await;
    let tasks: Vec<_> = (0..20u8)
        .map(|number| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move { append(&bench, "log", &[number; 100]).await.unwrap().0 })
        })
        .collect();
    let mut offsets = Vec::new();
    for task in tasks {
        offsets.push(task.await.unwrap());
    }
    let content = bench.get("log").await.unwrap();
    for (number, offset) in offsets.iter().enumerate() {
        assert_eq!(content[*offset as usize..][..100], [number as u8; 100]);
    }
    offsets.sort_unstable();
    assert_eq!(offsets, (0..20).map(|number| number * 100).collect::<Vec<_>>());
}
