//! Blobs that are found by their tags.

use super::*;

async fn put_tagged(bench: &Bench, name: &str, tags: &[(&str, &str)]) {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let new = NewBlob { tags: Tags::new(tags).unwrap(), ..NewBlob::default() };
    let put = PutBlob { new, ..Bench::put_operation(name, Preconditions::default()) };
    bench.send(UploadOperation::PutBlob(put), b"x").await.unwrap();
}

fn is(key: &str, how: TagComparison, value: &str) -> TagFilter {
    TagFilter::Compare { key: key.to_owned(), how, value: value.to_owned() }
}

fn and(left: TagFilter, right: TagFilter) -> TagFilter {
    TagFilter::And(Box::new(left), Box::new(right))
}

/// The names that are found, page after page.
async fn find(bench: &Bench, filter: &TagFilter, page_size: usize) -> Vec<String> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let query = FindBlobsByTags {
            container: None,
            filter: filter.clone(),
            from,
            page_size,
            with_deleted: false,
            with_versions: false,
        };
        let reply = bench.run(Operation::FindBlobsByTags(query)).await;
        let Ok(Reply::Found(page)) = reply else { panic!("{reply:?}") };
        assert!(page.blobs.len() <= page_size);
        names.extend(page.blobs.into_iter().map(|blob| blob.name));
        from = page.next;
        if from.is_none() {
            return names;
        }
    }
}

#[tokio::test]
async fn tags_lead_to_blobs() {
    use TagComparison::*;
    let bench = Bench::new().await;
    put_tagged(&bench, "c", &[("env", "prod"), ("n", "1")]).await;
    put_tagged(&bench, "a", &[("env", "prod"), ("n", "3")]).await;
    put_tagged(&bench, "b", &[("env", "test"), ("n", "2")]).await;
    put_tagged(&bench, "d", &[("env", "prod")]).await;
    put_tagged(&bench, "gone", &[("env", "prod")]).await;
    bench.delete("gone", Revision::Base, None).await.unwrap();
    put_tagged(&bench, "changed", &[("env", "prod")]).await;
    put_tagged(&bench, "changed", &[("env", "other")]).await;
    for (filter, expected) in [
        (is("env", Equal, "prod"), &["a", "c", "d"][..]),
        (is("env", Equal, "Prod"), &[]),
        (is("n", Greater, "1"), &["a", "b"]),
        (is("n", LessOrEqual, "2"), &["b", "c"]),
        (and(is("n", GreaterOrEqual, "1"), is("n", Less, "3")), &["b", "c"]),
        (and(is("n", Greater, "0"), is("env", Equal, "prod")), &["a", "c"]),
        (and(is("env", Equal, "prod"), TagFilter::Container(CONTAINER.to_owned())), &["a", "c", "d"]),
        (and(is("env", Equal, "prod"), TagFilter::Container("other".to_owned())), &[]),
    ] {
        for page_size in [1, 2, 10] {
            assert_eq!(find(&bench, &filter, page_size).await, expected, "{filter:?} {page_size}");
        }
    }
}

#[tokio::test]
async fn many_blobs_are_found_in_pages_while_others_run() {
    use TagComparison::*;
    const BLOBS: usize = 25_000;
    let bench = Bench::new().await;
    for number in 0..BLOBS {
        // Names and values are in different orders.
        let (name, value) = (format!("{number:05}"), format!("{:05}", number * 7919 % BLOBS));
        put_tagged(&bench, &name, &[("n", &value)]).await;
    }
    let all: Vec<String> = (0..BLOBS).map(|number| format!("{number:05}")).collect();
    let few = |number: &usize| (number * 7919 % BLOBS) < 100;
    let few: Vec<String> = (0..BLOBS).filter(few).map(|number| format!("{number:05}")).collect();
    for (case, filter, expected) in [
        ("all of them", is("n", GreaterOrEqual, "0"), &all),
        ("none of very many", and(is("n", Greater, "0"), is("other", Less, "x")), &Vec::new()),
        ("a small range", is("n", Less, "00100"), &few),
    ] {
        let (found, yields) = yields_during(find(&bench, &filter, 5000)).await;
        assert_eq!(&found, expected, "{case}");
        // Some 8,000 rows are examined in one time slice at most.
        assert!(found.len() == few.len() || yields >= BLOBS / 12_500, "{case}: {yields}");
    }
}
