//! Lists of blobs.

use super::*;

pub(crate) fn query(prefix: &str, delimiter: Option<&str>, page_size: usize) -> ListBlobs {
    ListBlobs {
        container: container(),
        prefix: prefix.to_owned(),
        delimiter: delimiter.map(str::to_owned),
        from: None,
        page_size,
        include: BlobInclude::default(),
    }
}

pub(crate) async fn page(bench: &Bench, query: ListBlobs) -> BlobPage {
    match bench.run(Operation::ListBlobs(query)).await {
        Ok(Reply::Blobs(page)) => page,
        other => panic!("no list: {other:?}"),
    }
}

/// The name of an entry, and what is special about it.
pub(crate) fn summary(entry: &ListedBlob) -> String {
    let entry = match entry {
        ListedBlob::Prefix(prefix) => return format!("[{prefix}]"),
        ListedBlob::Blob(entry) => entry,
    };
    let revision = match entry.revision {
        Revision::Base => "",
        Revision::Snapshot(_) => " snapshot",
        Revision::Version(_) => " version",
    };
    let deleted = if entry.deleted.is_some() { " deleted" } else { "" };
    let uncommitted =
        if matches!(entry.content, ListedContent::Uncommitted { .. }) { " uncommitted" } else { "" };
    format!("{}{revision}{deleted}{uncommitted}", entry.name)
}

/// All pages of a list.
async fn all(bench: &Bench, mut query: ListBlobs) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let page = page(bench, query.clone()).await;
        assert!(page.blobs.len() <= query.page_size);
        pages.push(page.blobs.iter().map(summary).collect());
        query.from = page.next;
        if query.from.is_none() {
            return pages;
        }
    }
}

#[tokio::test]
async fn pages_and_prefixes() {
    let bench = Bench::new().await;
    for name in ["a", "b", "dir/1", "dir/2", "dir/sub/3", "dir0", "é", "😀"] {
        bench.put(name, b"x").await;
    }
    for (prefix, delimiter, page_size, expected) in [
        ("", None, 3, &[&["a", "b", "dir/1"][..], &["dir/2", "dir/sub/3", "dir0"], &["é", "😀"]][..]),
        ("", Some("/"), 2, &[&["a", "b"], &["[dir/]", "dir0"], &["é", "😀"]]),
        ("", Some("/"), 3, &[&["a", "b", "[dir/]"], &["dir0", "é", "😀"]]),
        ("", Some("r/"), 9, &[&["a", "b", "[dir/]", "dir0", "é", "😀"]]),
        ("dir/", Some("/"), 1, &[&["dir/1"], &["dir/2"], &["[dir/sub/]"]]),
        ("dir", None, 9, &[&["dir/1", "dir/2", "dir/sub/3", "dir0"]]),
        ("none", None, 9, &[&[]]),
    ] {
        assert_eq!(
            all(&bench, query(prefix, delimiter, page_size)).await,
            expected,
            "{prefix} {delimiter:?}"
        );
    }
}

#[tokio::test]
async fn what_is_included() {
    let bench = Bench::new().await;
    bench.put("a", b"x").await;
    bench.snapshot("a").await;
    bench.snapshot("a").await;
    bench.put_block("a", "1", b"x").await.unwrap();
    bench.put_block("b", "1", b"x").await.unwrap();
    bench.put_block("b", "2", b"x").await.unwrap();
    bench.put_block("dir/c", "2", b"x").await.unwrap();
    bench.put("e", b"x").await;
    for (snapshots, uncommitted, delimiter, expected) in [
        (false, false, None, &["a", "e"][..]),
        (true, false, None, &["a snapshot", "a snapshot", "a", "e"]),
        (false, true, None, &["a", "b uncommitted", "dir/c uncommitted", "e"]),
        (false, true, Some("/"), &["a", "b uncommitted", "[dir/]", "e"]),
    ] {
        for page_size in [1, 2, 10] {
            let mut query = query("", delimiter, page_size);
            query.include.snapshots = snapshots;
            query.include.uncommitted = uncommitted;
            assert_eq!(all(&bench, query).await.concat(), expected, "{snapshots} {uncommitted} {page_size}");
        }
    }
}
