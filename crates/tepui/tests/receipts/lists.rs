//! Lists of tables, queues, containers and blobs, and blobs by their tags.

use crate::ledger::{Counted, Ledger, check, page_of};
use crate::support::blob::{BLOCK_BLOB, inside};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");

#[test]
fn tables() {
    let mut ledger = Ledger::of("table");
    let names: Vec<String> = (0..10).map(|number| format!("T{number}00")).collect();
    for name in &names {
        ledger.done("POST", "/Tables", &[JSON, ACCEPT], format!(r#"{{"TableName":"{name}"}}"#).as_bytes());
    }
    for (case, options, counted, receipt) in [
        ("all", "", page_of(10, 1000), "ranges=1, scanned=10, returned=10, units=1"),
        ("four", "?$top=4", page_of(10, 4), "ranges=1, scanned=5, returned=4, units=1, more"),
        (
            "some",
            "?$filter=TableName ge 'T3' and TableName lt 'T6'",
            page_of(3, 1000),
            "ranges=1, scanned=3, returned=3, units=1",
        ),
        (
            "two",
            "?$filter=TableName eq 'T100' or TableName eq 'T900'",
            page_of(2, 1000),
            "ranges=2, scanned=2, returned=2, units=1",
        ),
        (
            "none",
            "?$filter=TableName eq 'T101'",
            page_of(0, 1000),
            "ranges=1, scanned=0, returned=0, units=1",
        ),
    ] {
        let reply = ledger.done("GET", &format!("/Tables{options}"), &[ACCEPT], b"");
        check(case, &reply, receipt, counted);
        assert_eq!(reply.json()["value"].as_array().unwrap().len(), counted.returned, "{case}");
    }
    let first = ledger.done("GET", "/Tables?$top=8", &[ACCEPT], b"");
    let next = first.header("x-ms-continuation-nexttablename").unwrap();
    let reply = ledger.done("GET", &format!("/Tables?$top=8&NextTableName={next}"), &[ACCEPT], b"");
    check("the last two", &reply, "ranges=1, scanned=2, returned=2, units=1", page_of(2, 8));
    ledger.audit();
}

/// How many elements of a name an answer has.
fn elements(xml: &str, name: &str) -> usize {
    xml.matches(&format!("<{name}>")).count()
}

#[test]
fn queues() {
    let mut ledger = Ledger::of("queue");
    for number in 0..10 {
        let name = if number < 6 { format!("a-{number}") } else { format!("b-{number}") };
        ledger.done("PUT", &format!("/{name}"), &[], b"");
    }
    for (case, options, counted, receipt) in [
        ("all", "", page_of(10, 5000), "ranges=1, scanned=10, returned=10, units=1"),
        (
            "with metadata",
            "&include=metadata",
            page_of(10, 5000),
            "ranges=1, scanned=10, returned=10, units=1",
        ),
        ("a prefix", "&prefix=a-", page_of(6, 5000), "ranges=1, scanned=6, returned=6, units=1"),
        ("no such prefix", "&prefix=c", page_of(0, 5000), "ranges=1, scanned=0, returned=0, units=1"),
        ("three", "&maxresults=3", page_of(10, 3), "ranges=1, scanned=4, returned=3, units=1, more"),
        (
            "the last page of a prefix",
            "&prefix=a-&maxresults=3&marker=/devstoreaccount1/a-3",
            page_of(3, 3),
            "ranges=1, scanned=3, returned=3, units=1",
        ),
    ] {
        let reply = ledger.done("GET", &format!("/?comp=list{options}"), &[], b"");
        check(case, &reply, receipt, counted);
        assert_eq!(elements(&reply.text(), "Queue"), counted.returned, "{case}");
    }
    ledger.audit();
}

#[test]
fn containers_and_blobs() {
    let mut ledger = Ledger::of("blob");
    for name in ["a-0", "a-1", "a-2", "a-3", "listed"] {
        ledger.done("PUT", &format!("/{name}?restype=container"), &[], b"");
    }
    // Ten in one folder, five in another, one in none.
    let names: Vec<String> = (0..16)
        .map(|n| if n < 10 { format!("a/{n}") } else { format!("b/{n}") })
        .map(|n| n.replace("b/15", "c"))
        .collect();
    for name in &names {
        ledger.done("PUT", &format!("/listed/{name}"), &[BLOCK_BLOB], b"x");
    }
    let plain = names.len();
    let mut lists = vec![
        (
            "containers",
            "/?comp=list".to_owned(),
            page_of(5, 5000),
            "ranges=1, scanned=5, returned=5, units=1",
        ),
        (
            "containers by prefix",
            "/?comp=list&prefix=a-".to_owned(),
            page_of(4, 5000),
            "ranges=1, scanned=4, returned=4, units=1",
        ),
        (
            "two containers",
            "/?comp=list&maxresults=2".to_owned(),
            page_of(5, 2),
            "ranges=1, scanned=3, returned=2, units=1, more",
        ),
    ];
    let of_blobs = |options: &str| format!("/listed?restype=container&comp=list{options}");
    lists.extend([
        ("blobs", of_blobs(""), page_of(plain, 5000), "ranges=1, scanned=16, returned=16, units=1"),
        (
            "by prefix",
            of_blobs("&prefix=a/"),
            page_of(10, 5000),
            "ranges=1, scanned=10, returned=10, units=1",
        ),
        (
            "no such prefix",
            of_blobs("&prefix=x"),
            page_of(0, 5000),
            "ranges=1, scanned=0, returned=0, units=1",
        ),
        (
            "five",
            of_blobs("&maxresults=5"),
            page_of(plain, 5),
            "ranges=1, scanned=6, returned=5, units=1, more",
        ),
        // What is in a folder is not looked at, but for its first blob.
        ("folders", of_blobs("&delimiter=/"), page_of(3, 5000), "ranges=1, scanned=3, returned=3, units=1"),
        (
            "one folder",
            of_blobs("&delimiter=/&maxresults=1"),
            page_of(3, 1),
            "ranges=1, scanned=2, returned=1, units=1, more",
        ),
        (
            "in a folder",
            of_blobs("&delimiter=/&prefix=b/"),
            page_of(5, 5000),
            "ranges=1, scanned=5, returned=5, units=1",
        ),
    ]);
    for (case, path, counted, receipt) in lists {
        let reply = ledger.done("GET", &path, &[], b"");
        check(case, &reply, receipt, counted);
    }
    // The second page of a list, from where the first one ended.
    let first = ledger.done("GET", &of_blobs("&maxresults=10"), &[], b"").text();
    let marker = inside(&first, "NextMarker").unwrap();
    let reply = ledger.done("GET", &of_blobs(&format!("&maxresults=10&marker={marker}")), &[], b"");
    check("the second page", &reply, "ranges=1, scanned=6, returned=6, units=1", page_of(plain - 10, 10));

    // Revisions: the first snapshot is looked at to learn that there are some; the others are skipped.
    for _ in 0..3 {
        ledger.done("PUT", "/listed/c?comp=snapshot", &[], b"");
    }
    ledger.done("PUT", "/listed/u?comp=block&blockid=MQ==", &[], b"x");
    for (case, include, scanned, returned, receipt) in [
        ("without snapshots", "", plain + 1, plain, "ranges=1, scanned=17, returned=16, units=1"),
        (
            "with snapshots",
            "&include=snapshots",
            plain + 3,
            plain + 3,
            "ranges=1, scanned=19, returned=19, units=1",
        ),
        (
            "with what is not committed",
            "&include=uncommittedblobs",
            plain + 2,
            plain + 1,
            "ranges=2, scanned=18, returned=17, units=1",
        ),
    ] {
        let reply = ledger.done("GET", &of_blobs(include), &[], b"");
        check(case, &reply, receipt, Counted { scanned, returned, units: 1, has_more: false });
        assert_eq!(elements(&reply.text(), "Blob"), returned, "{case}");
    }
    let missing = ledger.send("GET", "/missing?restype=container&comp=list", &[], b"");
    assert_eq!((missing.status, missing.header("tepui-receipt")), (404, None), "a container that is missing");
    ledger.audit();
}

#[test]
fn blobs_by_tags() {
    let mut ledger = Ledger::of("blob");
    for name in ["one", "tagged", "two"] {
        ledger.done("PUT", &format!("/{name}?restype=container"), &[], b"");
    }
    // Twenty blobs with two tags, in one of three containers.
    let color = |number: usize| if number.is_multiple_of(2) { "red" } else { "blue" };
    for number in 0..20 {
        let tags = format!("color={}&size={number:02}", color(number));
        ledger.done("PUT", &format!("/tagged/b{number:02}"), &[BLOCK_BLOB, ("x-ms-tags", &tags)], b"x");
    }
    let here = "/tagged?restype=container&comp=blobs&where=";
    let everywhere = "/?comp=blobs&where=";
    let red = (0..20).filter(|number| color(*number) == "red").count();
    let some = (0..20).filter(|number| (5..10).contains(number)).count();
    let large_red = (10..20).filter(|number| color(*number) == "red").count();
    let counted = |scanned, returned| Counted { scanned, returned, units: 1, has_more: false };
    for (case, path, filter, expected, receipt) in [
        ("a value", here, "\"color\"='red'", counted(red, red), "ranges=1, scanned=10, returned=10, units=1"),
        (
            "no such value",
            here,
            "\"color\"='green'",
            counted(0, 0),
            "ranges=1, scanned=0, returned=0, units=1",
        ),
        (
            "a range",
            here,
            "\"size\">'04' AND \"size\"<'10'",
            counted(some, some),
            "ranges=1, scanned=5, returned=5, units=1",
        ),
        (
            "a value and a range",
            here,
            "\"color\"='red' AND \"size\">='10'",
            counted(red, large_red),
            "ranges=1, scanned=10, returned=5, units=1",
        ),
        // The rows of the containers, and the index of each.
        (
            "in all containers",
            everywhere,
            "\"color\"='red'",
            counted(3 + red, red),
            "ranges=4, scanned=13, returned=10, units=1",
        ),
        (
            "in a container of all",
            everywhere,
            "@container='tagged' AND \"color\"='red'",
            counted(3 + red, red),
            "ranges=2, scanned=13, returned=10, units=1",
        ),
    ] {
        let filter = filter.replace('"', "%22").replace('<', "%3C").replace('>', "%3E").replace('=', "%3D");
        let reply = ledger.done("GET", &format!("{path}{filter}"), &[], b"");
        check(case, &reply, receipt, expected);
        assert_eq!(elements(&reply.text(), "Blob"), expected.returned, "{case}");
    }
    let path = format!("{here}%22color%22%3D%27red%27&maxresults=4");
    let first = ledger.done("GET", &path, &[], b"");
    check("four", &first, "ranges=1, scanned=5, returned=4, units=1, more", page_of(red, 4));
    let text = first.text();
    let marker = inside(&text, "NextMarker").unwrap();
    let second = ledger.done("GET", &format!("{path}&marker={marker}"), &[], b"");
    check("four more", &second, "ranges=1, scanned=5, returned=4, units=1, more", page_of(red - 4, 4));
    ledger.audit();
}
