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

/// What a list has come to.
#[derive(Debug, Default)]
pub(crate) struct BlobPage {
    /// The name of each entry, and what is special about it.
    pub(crate) blobs: Vec<String>,
    /// What each of them takes.
    entry_bytes: usize,
    pub(crate) next: Option<BlobMarker>,
}

impl BlobSink for BlobPage {
    fn accept(&mut self, listed: &ListedBlob<'_>) {
        self.blobs.push(summary(listed));
    }

    fn bytes(&self) -> usize {
        self.blobs.len() * self.entry_bytes
    }
}

pub(crate) async fn page(bench: &Bench, query: ListBlobs) -> BlobPage {
    page_as(bench, Allowed::Fully, query).await.unwrap()
}

pub(crate) async fn page_as<E: Engine>(
    bench: &Bench<E>,
    allowed: Allowed,
    query: ListBlobs,
) -> Result<BlobPage, ServiceError> {
    let caller = Caller { allowed, ..Caller::owner(ACCOUNT) };
    let list = || async {
        let mut page = BlobPage::default();
        page.next = bench.service().list_blobs(caller, &query, &mut page).await?.next;
        Ok(page)
    };
    repeat(list).await.answer
}

/// The name of an entry, and what is special about it.
fn summary(entry: &ListedBlob<'_>) -> String {
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
    let only = if entry.has_versions_only { " only" } else { "" };
    format!("{}{revision}{deleted}{uncommitted}{only}", entry.name)
}

/// All pages of a list.
async fn all(bench: &Bench, mut query: ListBlobs) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let page = page(bench, query.clone()).await;
        assert!(page.blobs.len() <= query.page_size);
        pages.push(page.blobs);
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

#[tokio::test]
async fn versions_of_what_is_gone() {
    let versioned_accounts = vec![ACCOUNT.to_owned()];
    let bench = Bench::with(BlobOptions { versioned_accounts, ..BlobOptions::default() }).await;
    bench.retain_deleted(7).await;
    for name in ["a", "b", "c", "dir/d"] {
        bench.put(name, b"old").await;
        bench.advance(1);
    }
    let first = bench.put("b", b"new").await.version.unwrap();
    bench.snapshot("b").await;
    bench.put("c", b"new").await;
    bench.delete("c", Revision::Base, None).await.unwrap();
    bench.delete("dir/d", Revision::Base, None).await.unwrap();
    bench.delete("b", Revision::Version(first), None).await.unwrap();
    let none = BlobInclude::default();
    for (case, include, expected) in [
        ("nothing", none, &["a", "b"][..]),
        ("deleted", BlobInclude { deleted: true, ..none }, &["a", "b"]),
        (
            "versions",
            BlobInclude { versions: true, ..none },
            &["a", "b version", "b", "c version", "c version", "dir/d version"],
        ),
        (
            "versions and deleted",
            BlobInclude { versions: true, deleted: true, ..none },
            &["a", "b version", "b version deleted", "b", "c version", "c version", "dir/d version"],
        ),
        (
            "deleted with versions",
            BlobInclude { deleted_with_versions: true, ..none },
            &["a", "b", "c version only", "dir/d version only"],
        ),
        (
            "versions and deleted with versions",
            BlobInclude { versions: true, deleted_with_versions: true, ..none },
            &["a", "b version", "b", "c version", "c version only", "dir/d version only"],
        ),
        (
            "snapshots and versions",
            BlobInclude { versions: true, snapshots: true, ..none },
            &["a", "b snapshot", "b version", "b", "c version", "c version", "dir/d version"],
        ),
    ] {
        for page_size in [1, 2, 3, 100] {
            let query = ListBlobs { include, ..query("", None, page_size) };
            assert_eq!(all(&bench, query).await.concat(), expected, "{case} {page_size}");
        }
    }
    let mut folded = query("", Some("/"), 10);
    folded.include.deleted_with_versions = true;
    assert_eq!(all(&bench, folded).await.concat(), ["a", "b", "c version only", "[dir/]"]);

    let open = Operation::SetContainerAcl {
        container: container(),
        public_access: Some(PublicAccess::Container),
        identifiers: Vec::new(),
        preconditions: Preconditions::default(),
    };
    bench.run(open).await.unwrap();
    let include =
        BlobInclude { snapshots: true, deleted: true, versions: true, deleted_with_versions: true, ..none };
    let query = ListBlobs { include, ..query("", None, 100) };
    let seen = page_as(&bench, Allowed::IfPublic(PublicAccess::Container), query).await.unwrap();
    assert_eq!(seen.blobs, ["a", "b snapshot", "b"], "what everybody sees");
}

#[tokio::test]
async fn a_page_ends_when_enough_was_read() {
    let bench = Bench::new().await;
    let names: Vec<String> = (0..3000).map(|number| format!("{number:04}")).collect();
    for name in &names {
        bench.put(name, b"").await;
        let metadata = Metadata::new(pairs("k", &"v".repeat(8000))).unwrap();
        bench
            .run(Operation::SetBlobMetadata {
                blob: path(name),
                metadata,
                preconditions: Preconditions::default(),
                encryption: Encryption::default(),
            })
            .await
            .unwrap();
    }
    let pages = all(&bench, query("", None, 5000)).await;
    assert_eq!((pages.len(), pages[0].len() < 2200), (2, true), "{}", pages[0].len());
    assert_eq!(pages.concat(), names);
    let list = || async {
        let mut large = BlobPage { entry_bytes: 4096, ..BlobPage::default() };
        let (caller, query) = (Caller::owner(ACCOUNT), query("", None, 5000));
        large.next = bench.service().list_blobs(caller, &query, &mut large).await?.next;
        Ok(large)
    };
    let large = repeat_until_done(list).await;
    assert_eq!(large.blobs.len(), 1024, "4 MiB");
    assert_eq!(large.next, Some(BlobMarker::At(BlobName::parse("1024").unwrap(), Revision::Base)));
    // What is skipped counts, too: these have old versions of every name in between.
    let mut of_all = query("", None, 5000);
    of_all.include.deleted_with_versions = true;
    assert_eq!(all(&bench, of_all).await.concat(), names);
}
