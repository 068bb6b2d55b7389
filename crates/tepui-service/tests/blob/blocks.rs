//! Blobs that come in blocks.

use super::*;
use BlockSearch::*;

async fn lists(bench: &Bench, name: &str) -> Result<(Vec<String>, Vec<String>), ErrorCode> {
    let operation = Operation::GetBlockList {
        blob: path(name),
        revision: Revision::Base,
        list: BlockListType::All,
        preconditions: Preconditions::default(),
    };
    let Reply::BlockList(list) = bench.run(operation).await? else { panic!("no list") };
    let names = |blocks: Option<Vec<ListedBlock>>| {
        let name = |block: &ListedBlock| String::from_utf8(block.id.bytes().to_vec()).unwrap();
        blocks.unwrap().iter().map(name).collect()
    };
    Ok((names(list.committed), names(list.uncommitted)))
}

#[tokio::test]
async fn blocks_become_a_blob() {
    let bench = Bench::new().await;
    let (one, two) = (bytes(LARGE, 1), bytes(10, 2));
    bench.put_block("a", "1", &one).await.unwrap();
    bench.put_block("a", "2", &two).await.unwrap();
    assert_eq!(bench.get("a").await, Err(ErrorCode::BlobNotFound));
    assert_eq!(bench.put_block("a", "10", b"x").await, Err(ErrorCode::InvalidBlobOrBlock));
    assert_eq!(bench.put_list("a", &[("3", Latest)]).await, Err(ErrorCode::InvalidBlockList));
    bench.put_list("a", &[("2", Latest), ("1", Uncommitted), ("2", Latest)]).await.unwrap();
    assert!(bench.get("a").await.unwrap() == [&two[..], &one, &two].concat());
    let names = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
    assert_eq!(lists(&bench, "a").await, Ok((names("212"), Vec::new())));
    // Another length of ids, and blocks that are there already.
    bench.put_block("a", "33", b"three").await.unwrap();
    assert_eq!(bench.put_list("a", &[("1", Uncommitted)]).await, Err(ErrorCode::InvalidBlockList));
    bench.put_list("a", &[("33", Latest), ("2", Committed)]).await.unwrap();
    assert!(bench.get("a").await.unwrap() == [b"three", &two[..]].concat());
    let range = Some(ByteRange { first: 3, last: Some(6) });
    let get = GetBlob { range, ..Bench::get_operation("a", Revision::Base) };
    assert_eq!(bench.read(get).await.unwrap().1, [b"ee", &two[..2]].concat());
}

#[tokio::test]
async fn lists_of_blocks() {
    let bench = Bench::new().await;
    assert_eq!(lists(&bench, "a").await, Err(ErrorCode::BlobNotFound));
    bench.put_block("a", "2", b"x").await.unwrap();
    bench.put_block("a", "1", b"y").await.unwrap();
    bench.put_block("a", "1", b"z").await.unwrap();
    assert_eq!(lists(&bench, "a").await.unwrap().1, ["1", "2"]);
    // A blob that is put discards them; one that is put whole has no blocks.
    bench.put("a", b"whole").await;
    assert_eq!(lists(&bench, "a").await, Ok((Vec::new(), Vec::new())));
    bench.put_list("a", &[]).await.unwrap();
    assert_eq!(bench.get("a").await.unwrap(), b"");
}

#[tokio::test]
async fn very_many_blocks() {
    let bench = Bench::new().await;
    let ids: Vec<String> = (0..1500).map(|number| format!("{number:04}")).collect();
    for id in &ids {
        bench.put_block("a", id, id.as_bytes()).await.unwrap();
    }
    let chosen: Vec<_> = ids.iter().map(|id| (id.as_str(), Latest)).collect();
    bench.put_list("a", &chosen[..400]).await.unwrap();
    assert!(bench.get("a").await.unwrap() == ids[..400].concat().as_bytes());
    assert!(lists(&bench, "a").await.unwrap().1.is_empty());
    bench
        .put_list("a", &chosen[100..300].iter().map(|(id, _)| (*id, Committed)).collect::<Vec<_>>())
        .await
        .unwrap();
    assert!(bench.get("a").await.unwrap() == ids[100..300].concat().as_bytes());
}

#[tokio::test]
async fn blobs_that_are_not_committed_are_deleted() {
    let bench = Bench::new().await;
    assert_eq!(bench.delete("a", Revision::Base, None).await, Err(ErrorCode::BlobNotFound));
    bench.put_block("a", "1", b"x").await.unwrap();
    assert_eq!(bench.delete("a", Revision::Base, None).await, Ok(true));
    assert_eq!(bench.delete("a", Revision::Base, None).await, Err(ErrorCode::BlobNotFound));
}

#[tokio::test]
async fn as_many_blocks_as_there_can_be() {
    let bench = Bench::new().await;
    // The longest name in bytes, and the longest ids: the keys of so many do not fit into one commit.
    let name = "\u{20AC}".repeat(1024);
    let ids: Vec<String> = (0..22_000).map(|number| format!("{number:064}")).collect();
    for id in &ids {
        bench.put_block(&name, id, b"x").await.unwrap();
    }
    let chosen: Vec<_> = ids.iter().cycle().take(50_000).map(|id| (id.as_str(), Latest)).collect();
    bench.put_list(&name, &chosen).await.unwrap();
    assert_eq!(bench.properties(&name).await.unwrap().state.bytes, 50_000);
    let (committed, uncommitted) = lists(&bench, &name).await.unwrap();
    assert_eq!((committed.len(), uncommitted.len()), (50_000, 0));
    // What was left behind is no block any more, for lists and for new blocks.
    let first = [(ids[0].as_str(), BlockSearch::Uncommitted)];
    assert_eq!(bench.put_list(&name, &first).await.map(drop), Err(ErrorCode::InvalidBlockList));
    bench.put_block(&name, "short", b"y").await.unwrap();
    assert_eq!(lists(&bench, &name).await.unwrap().1.len(), 1);
    assert!(bench.get(&name).await.unwrap() == [b'x'; 50_000]);
    // As many again, all of them committed already.
    bench.put_list(&name, &chosen.iter().map(|(id, _)| (*id, Committed)).collect::<Vec<_>>()).await.unwrap();
    assert!(bench.get(&name).await.unwrap() == [b'x'; 50_000]);
    bench.delete(&name, Revision::Base, None).await.unwrap();
    bench.collect_garbage().await;
    assert_eq!(bench.count_extents().await, 0);
}

#[tokio::test]
async fn others_run_while_a_long_list_is_put_and_read() {
    const BLOCKS: usize = 10_000;
    let bench = Bench::new().await;
    let ids: Vec<String> = (0..BLOCKS).map(|number| format!("{number:05}")).collect();
    for id in &ids {
        bench.put_block("a", id, b"x").await.unwrap();
    }
    // Some 8,000 rows are examined in one time slice at most.
    let at_least = BLOCKS / 10_000;
    let chosen = |search| ids.iter().map(|id| (id.as_str(), search)).collect::<Vec<_>>();
    let (listed, yields) = yields_during(lists(&bench, "a")).await;
    assert_eq!(listed.unwrap().1, ids);
    assert!(yields >= at_least, "uncommitted blocks: {yields}");
    for search in [Uncommitted, Committed] {
        let (put, yields) = yields_during(bench.put_list("a", &chosen(search))).await;
        put.unwrap();
        assert!(yields >= at_least, "{search:?}: {yields}");
    }
}
