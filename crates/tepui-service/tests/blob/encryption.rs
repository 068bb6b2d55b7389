//! Keys that customers bring along.

use super::*;

fn encryption(secret: Option<CustomerSecret>) -> Encryption {
    Encryption { key: Some(CustomerKey { sha256: [9; 32] }), secret, scope: None }
}

async fn get(bench: &Bench, name: &str, encryption: &Encryption) -> Result<Vec<u8>, ErrorCode> {
    let get = GetBlob { encryption: encryption.clone(), ..Bench::get_operation(name, Revision::Base) };
    bench.read(get).await.map(|(_, bytes)| bytes).map_err(|error| error.code)
}

async fn put(bench: &Bench, name: &str, encryption: &Encryption, bytes: &[u8]) {
    let metadata = Metadata::new(pairs("note", "kept")).unwrap();
    let new = NewBlob { encryption: encryption.clone(), metadata, ..NewBlob::default() };
    let put = PutBlob { new, ..Bench::put_operation(name, Preconditions::default()) };
    bench.send(UploadOperation::PutBlob(put), bytes).await.unwrap();
}

async fn append(bench: &Bench, name: &str, encryption: &Encryption, bytes: &[u8]) {
    let append = AppendBlock {
        blob: path(name),
        piece: Piece::Sent(upload()),
        append: AppendConditions::default(),
        preconditions: Preconditions::default(),
        encryption: encryption.clone(),
    };
    bench.send(UploadOperation::AppendBlock(append), bytes).await.unwrap();
}

async fn put_block(bench: &Bench, name: &str, id: &str, encryption: &Encryption, bytes: &[u8]) {
    let put = PutBlock {
        blob: path(name),
        id: block_id(id),
        piece: Piece::Sent(upload()),
        preconditions: Preconditions::default(),
        encryption: encryption.clone(),
    };
    bench.send(UploadOperation::PutBlock(put), bytes).await.unwrap();
}

/// Earlier builds knew the hash of a key and stored bytes as they came: so does an operation that has only the hash.
#[tokio::test]
async fn blobs_of_earlier_builds_are_read_and_go_on_encrypted() {
    let bench = Bench::new().await;
    let (before, now) = (encryption(None), encryption(Some(CustomerSecret([1; 32]))));
    for length in [10, 1000, LARGE] {
        put(&bench, "whole", &before, &bytes(length, 1)).await;
        assert!(get(&bench, "whole", &now).await.unwrap() == bytes(length, 1), "{length}");
        assert_eq!(
            get(&bench, "whole", &Encryption::default()).await,
            Err(ErrorCode::BlobUsesCustomerSpecifiedEncryption)
        );
    }
    let new = NewBlob { encryption: before.clone(), ..NewBlob::default() };
    bench.run(Bench::put_empty("log", EmptyContent::Append, new)).await.unwrap();
    append(&bench, "log", &before, &bytes(LARGE, 2)).await;
    append(&bench, "log", &now, &bytes(LARGE, 3)).await;
    append(&bench, "log", &now, &bytes(100, 4)).await;
    let whole = [bytes(LARGE, 2), bytes(LARGE, 3), bytes(100, 4)].concat();
    assert!(get(&bench, "log", &now).await.unwrap() == whole);
    put_block(&bench, "list", "1", &before, &bytes(LARGE, 5)).await;
    put_block(&bench, "list", "2", &now, &bytes(LARGE, 6)).await;
    let list = PutBlockList {
        blob: path("list"),
        blocks: ["2", "1"].map(|id| ChosenBlock { id: block_id(id), search: BlockSearch::Latest }).into(),
        new: NewBlob { encryption: now.clone(), ..NewBlob::default() },
        preconditions: Preconditions::default(),
        list_checksums: Checksums::default(),
    };
    bench.run(Operation::PutBlockList(list)).await.unwrap();
    assert!(get(&bench, "list", &now).await.unwrap() == [bytes(LARGE, 6), bytes(LARGE, 5)].concat());
}

#[tokio::test]
async fn space_of_encrypted_blobs_comes_back() {
    let bench = Bench::new().await;
    let key = encryption(Some(CustomerSecret([1; 32])));
    for length in [10, 1000, LARGE] {
        put(&bench, "a", &key, &bytes(length, 1)).await;
        assert!(get(&bench, "a", &key).await.unwrap() == bytes(length, 1), "{length}");
    }
    bench.delete("a", Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}
