//! Entities: reads, queries, changes and batches.

use crate::ledger::{Counted, Ledger, check, members};
use crate::support::table::{Change, batch_body, entity_path, properties};
use serde_json::json;

const TABLE: &str = "Things";
const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");
const BATCH: (&str, &str) = ("Content-Type", "multipart/mixed; boundary=batch_1");

/// An entity as the test remembers it.
struct Thing {
    partition: String,
    row: String,
    number: usize,
    text_bytes: usize,
}

impl Thing {
    /// Once for each KiB, and at least once. Beside the text there is much less than half of one.
    fn units(&self) -> usize {
        (self.text_bytes / 1024).max(1)
    }
}

/// Twelve partitions of a hundred rows, in the order of their keys. Ten in the last one are large.
fn things() -> Vec<Thing> {
    let thing = |partition: usize, row: usize| Thing {
        partition: format!("p{partition:02}"),
        row: format!("{row:03}"),
        number: row,
        text_bytes: if partition == 11 && row < 10 { 3 * 1024 } else { 10 },
    };
    (0..12).flat_map(|partition| (0..100).map(move |row| thing(partition, row))).collect()
}

fn write(ledger: &mut Ledger, things: &[Thing]) {
    ledger.done("POST", "/Tables", &[JSON, ACCEPT], format!(r#"{{"TableName":"{TABLE}"}}"#).as_bytes());
    for partition in things.chunk_by(|a, b| a.partition == b.partition) {
        let change = |thing: &Thing| {
            let text = "x".repeat(thing.text_bytes);
            let even = thing.number.is_multiple_of(2);
            let stored = json!({"Number": thing.number, "Even": even, "Text": text});
            Change::new("POST", &thing.row, properties(stored))
        };
        let changes: Vec<Change> = partition.iter().map(change).collect();
        let body = batch_body(TABLE, &partition[0].partition, &changes);
        let reply = ledger.done("POST", "/$batch", &[BATCH], &body);
        let units = partition.iter().map(Thing::units).sum();
        let expected = format!("ranges=0, scanned=0, returned=0, units={units}, operations=100");
        check("a batch of a hundred inserts", &reply, &expected, Counted { units, ..Counted::default() });
    }
}

type Judge = fn(&Thing) -> bool;

/// A query, and what its receipt says.
struct Query {
    case: &'static str,
    filter: &'static str,
    top: Option<usize>,
    /// Which page of it, from 1.
    page: usize,
    /// The entities that have to be looked at, as far as the page goes.
    read: Judge,
    /// Those of them that match.
    matches: Judge,
    receipt: &'static str,
}

/// A page of a query, counted by hand. An entity that matches and no longer fits was looked at, too.
fn count(things: &[Thing], query: &Query) -> (Counted, usize) {
    let read: Vec<&Thing> = things.iter().filter(|thing| (query.read)(thing)).collect();
    let size = query.top.unwrap_or(1000);
    let (mut counted, mut from, mut bytes) = (Counted::default(), 0, 0);
    for _ in 0..query.page {
        (counted, bytes) = (Counted::default(), 0);
        for (index, thing) in read.iter().enumerate().skip(from) {
            counted.scanned += 1;
            counted.units += thing.units();
            bytes += thing.partition.len() + thing.row.len() + thing.text_bytes;
            if (query.matches)(thing) {
                if counted.returned == size {
                    (counted.has_more, from) = (true, index);
                    break;
                }
                counted.returned += 1;
            }
        }
    }
    // A request counts, even if it finds nothing.
    counted.units = counted.units.max(1);
    (counted, bytes)
}

const ALL: Judge = |_| true;
const NONE: Judge = |_| false;
const SEVEN: Judge = |thing| thing.number == 7;
const FIRST: Judge = |thing| thing.partition == "p00";

#[rustfmt::skip]
const QUERIES: &[Query] = &[
    Query { case: "everything", filter: "", top: None, page: 1, read: ALL, matches: ALL,
        receipt: "plan=table, ranges=1, scanned=1001, returned=1000, units=1001, more, hint=full-scan" },
    Query { case: "everything, the second page", filter: "", top: None, page: 2, read: ALL, matches: ALL,
        receipt: "plan=table, ranges=1, scanned=200, returned=200, units=220" },
    Query { case: "the first seven", filter: "", top: Some(7), page: 1, read: ALL, matches: ALL,
        receipt: "plan=table, ranges=1, scanned=8, returned=7, units=8, more" },
    Query { case: "the third seven", filter: "", top: Some(7), page: 3, read: ALL, matches: ALL,
        receipt: "plan=table, ranges=1, scanned=8, returned=7, units=8, more" },
    Query { case: "a point", filter: "PartitionKey eq 'p03' and RowKey eq '007'", top: None, page: 1,
        read: |thing| thing.partition == "p03" && thing.row == "007", matches: ALL,
        receipt: "plan=point, ranges=1, scanned=1, returned=1, units=1" },
    Query { case: "a large point", filter: "PartitionKey eq 'p11' and RowKey eq '007'", top: None, page: 1,
        read: |thing| thing.partition == "p11" && thing.row == "007", matches: ALL,
        receipt: "plan=point, ranges=1, scanned=1, returned=1, units=3" },
    Query { case: "a point that is missing", filter: "PartitionKey eq 'p03' and RowKey eq 'none'", top: None,
        page: 1, read: NONE, matches: ALL,
        receipt: "plan=point, ranges=1, scanned=0, returned=0, units=1" },
    Query { case: "a point and a property that does not match",
        filter: "PartitionKey eq 'p03' and RowKey eq '007' and Number eq 8", top: None, page: 1,
        read: |thing| thing.partition == "p03" && thing.row == "007", matches: NONE,
        receipt: "plan=point, ranges=1, scanned=1, returned=0, units=1" },
    Query { case: "two points of a partition",
        filter: "PartitionKey eq 'p03' and (RowKey eq '007' or RowKey eq '070')", top: None, page: 1,
        read: |thing| thing.partition == "p03" && ["007", "070"].contains(&&*thing.row), matches: ALL,
        receipt: "plan=point, ranges=2, scanned=2, returned=2, units=2, hint=use-point" },
    Query { case: "three points, one of them missing",
        filter: "PartitionKey eq 'p03' and (RowKey eq '007' or RowKey eq 'none' or RowKey eq '070')", top: None,
        page: 1, read: |thing| thing.partition == "p03" && ["007", "070"].contains(&&*thing.row), matches: ALL,
        receipt: "plan=point, ranges=3, scanned=2, returned=2, units=2, hint=use-point" },
    Query { case: "points of two partitions",
        filter: "(PartitionKey eq 'p00' and RowKey eq '001') or (PartitionKey eq 'p11' and RowKey eq '001')",
        top: None, page: 1, matches: ALL,
        read: |thing| ["p00", "p11"].contains(&&*thing.partition) && thing.row == "001",
        receipt: "plan=point, ranges=2, scanned=2, returned=2, units=4, hint=use-point" },
    Query { case: "the same point twice",
        filter: "PartitionKey eq 'p03' and (RowKey eq '007' or RowKey eq '007')", top: None, page: 1,
        read: |thing| thing.partition == "p03" && thing.row == "007", matches: ALL,
        receipt: "plan=point, ranges=1, scanned=1, returned=1, units=1" },
    Query { case: "rows from, before",
        filter: "PartitionKey eq 'p00' and RowKey ge '010' and RowKey lt '020'", top: None, page: 1,
        read: |thing| FIRST(thing) && (10..20).contains(&thing.number), matches: ALL,
        receipt: "plan=row-range, ranges=1, scanned=10, returned=10, units=10" },
    Query { case: "rows after", filter: "PartitionKey eq 'p00' and RowKey gt '089'", top: None, page: 1,
        read: |thing| FIRST(thing) && thing.number > 89, matches: ALL,
        receipt: "plan=row-range, ranges=1, scanned=10, returned=10, units=10" },
    Query { case: "rows up to", filter: "PartitionKey eq 'p11' and RowKey le '004'", top: None, page: 1,
        read: |thing| thing.partition == "p11" && thing.number <= 4, matches: ALL,
        receipt: "plan=row-range, ranges=1, scanned=5, returned=5, units=15" },
    Query { case: "rows and a property", filter: "PartitionKey eq 'p00' and RowKey lt '050' and Even", top: None,
        page: 1, read: |thing| FIRST(thing) && thing.number < 50, matches: |thing| thing.number.is_multiple_of(2),
        receipt: "plan=row-range, ranges=1, scanned=50, returned=25, units=50" },
    Query { case: "two ranges of rows",
        filter: "PartitionKey eq 'p00' and (RowKey lt '005' or RowKey ge '095')", top: None, page: 1,
        read: |thing| FIRST(thing) && (thing.number < 5 || thing.number >= 95), matches: ALL,
        receipt: "plan=row-range, ranges=2, scanned=10, returned=10, units=10" },
    Query { case: "two ranges of rows that touch",
        filter: "PartitionKey eq 'p00' and (RowKey lt '005' or RowKey ge '005')", top: None, page: 1,
        read: FIRST, matches: ALL, receipt: "plan=row-range, ranges=1, scanned=100, returned=100, units=100" },
    Query { case: "all rows but one", filter: "PartitionKey eq 'p00' and RowKey ne '050'", top: None, page: 1,
        read: |thing| FIRST(thing) && thing.number != 50, matches: ALL,
        receipt: "plan=row-range, ranges=2, scanned=99, returned=99, units=99" },
    Query { case: "rows, the first three", filter: "PartitionKey eq 'p00' and RowKey ge '010'", top: Some(3),
        page: 1, read: |thing| FIRST(thing) && thing.number >= 10, matches: ALL,
        receipt: "plan=row-range, ranges=1, scanned=4, returned=3, units=4, more" },
    Query { case: "rows, the last three", filter: "PartitionKey eq 'p00' and RowKey ge '094'", top: Some(3),
        page: 2, read: |thing| FIRST(thing) && thing.number >= 94, matches: ALL,
        receipt: "plan=row-range, ranges=1, scanned=3, returned=3, units=3" },
    Query { case: "a partition", filter: "PartitionKey eq 'p00'", top: None, page: 1, read: FIRST, matches: ALL,
        receipt: "plan=partition, ranges=1, scanned=100, returned=100, units=100" },
    Query { case: "a partition of large entities", filter: "PartitionKey eq 'p11'", top: None, page: 1,
        read: |thing| thing.partition == "p11", matches: ALL,
        receipt: "plan=partition, ranges=1, scanned=100, returned=100, units=120" },
    Query { case: "a partition that just fits", filter: "PartitionKey eq 'p00'", top: Some(100), page: 1,
        read: FIRST, matches: ALL, receipt: "plan=partition, ranges=1, scanned=100, returned=100, units=100" },
    Query { case: "a partition that does not fit", filter: "PartitionKey eq 'p00'", top: Some(99), page: 1,
        read: FIRST, matches: ALL,
        receipt: "plan=partition, ranges=1, scanned=100, returned=99, units=100, more" },
    Query { case: "what did not fit", filter: "PartitionKey eq 'p00'", top: Some(99), page: 2, read: FIRST,
        matches: ALL, receipt: "plan=partition, ranges=1, scanned=1, returned=1, units=1" },
    Query { case: "a partition that is missing", filter: "PartitionKey eq 'none'", top: None, page: 1,
        read: NONE, matches: ALL, receipt: "plan=partition, ranges=1, scanned=0, returned=0, units=1" },
    Query { case: "half of a partition", filter: "PartitionKey eq 'p00' and Even", top: None, page: 1,
        read: FIRST, matches: |thing| thing.number.is_multiple_of(2),
        receipt: "plan=partition, ranges=1, scanned=100, returned=50, units=100" },
    Query { case: "one of a partition", filter: "PartitionKey eq 'p00' and Number eq 7", top: None, page: 1,
        read: FIRST, matches: SEVEN,
        receipt: "plan=partition, ranges=1, scanned=100, returned=1, units=100, hint=low-density" },
    Query { case: "none of a partition", filter: "PartitionKey eq 'p00' and Number eq 700", top: None, page: 1,
        read: FIRST, matches: NONE,
        receipt: "plan=partition, ranges=1, scanned=100, returned=0, units=100, hint=low-density" },
    Query { case: "two partitions", filter: "PartitionKey eq 'p00' or PartitionKey eq 'p02'", top: None, page: 1,
        read: |thing| ["p00", "p02"].contains(&&*thing.partition), matches: ALL,
        receipt: "plan=partition, ranges=2, scanned=200, returned=200, units=200" },
    Query { case: "two partitions, a page of both", filter: "PartitionKey eq 'p00' or PartitionKey eq 'p02'",
        top: Some(90), page: 2, read: |thing| ["p00", "p02"].contains(&&*thing.partition), matches: ALL,
        receipt: "plan=partition, ranges=2, scanned=91, returned=90, units=91, more" },
    Query { case: "the same partition twice", filter: "PartitionKey eq 'p00' or PartitionKey eq 'p00'", top: None,
        page: 1, read: FIRST, matches: ALL,
        receipt: "plan=partition, ranges=1, scanned=100, returned=100, units=100" },
    Query { case: "a partition, and rows of another",
        filter: "PartitionKey eq 'p00' or (PartitionKey eq 'p01' and RowKey lt '010')", top: None, page: 1,
        read: |thing| FIRST(thing) || thing.partition == "p01" && thing.number < 10, matches: ALL,
        receipt: "plan=partition, ranges=2, scanned=110, returned=110, units=110" },
    Query { case: "some partitions", filter: "PartitionKey ge 'p02' and PartitionKey lt 'p05'", top: None, page: 1,
        read: |thing| ["p02", "p03", "p04"].contains(&&*thing.partition), matches: ALL,
        receipt: "plan=partition-range, ranges=1, scanned=300, returned=300, units=300" },
    Query { case: "many partitions", filter: "PartitionKey gt 'p00'", top: None, page: 1,
        read: |thing| !FIRST(thing), matches: ALL,
        receipt: "plan=partition-range, ranges=1, scanned=1001, returned=1000, units=1003, more, hint=rowkey-range" },
    Query { case: "one row of some partitions", filter: "PartitionKey gt 'p05' and RowKey eq '007'", top: None,
        page: 1, read: |thing| thing.partition.as_str() > "p05", matches: SEVEN,
        receipt: "plan=partition-range, ranges=1, scanned=600, returned=6, units=620, hint=low-density" },
    Query { case: "all partitions but one", filter: "PartitionKey ne 'p05'", top: None, page: 1,
        read: |thing| thing.partition != "p05", matches: ALL,
        receipt: "plan=partition-range, ranges=2, scanned=1001, returned=1000, units=1003, more, hint=rowkey-range" },
    Query { case: "not one partition, the first five", filter: "not (PartitionKey eq 'p05')", top: Some(5), page: 1,
        read: |thing| thing.partition != "p05", matches: ALL,
        receipt: "plan=partition-range, ranges=2, scanned=6, returned=5, units=6, more" },
    Query { case: "a property", filter: "Number eq 7", top: None, page: 1, read: ALL, matches: SEVEN,
        receipt: "plan=table, ranges=1, scanned=1200, returned=12, units=1220, hint=full-scan" },
    Query { case: "a row of any partition", filter: "RowKey eq '007'", top: None, page: 1, read: ALL, matches: SEVEN,
        receipt: "plan=table, ranges=1, scanned=1200, returned=12, units=1220, hint=full-scan" },
    Query { case: "a partition or a property", filter: "PartitionKey eq 'p00' or Number eq 7", top: None, page: 1,
        read: ALL, matches: |thing| FIRST(thing) || SEVEN(thing),
        receipt: "plan=table, ranges=1, scanned=1200, returned=111, units=1220, hint=full-scan" },
    Query { case: "a property, the first three", filter: "Number eq 7", top: Some(3), page: 1, read: ALL,
        matches: SEVEN,
        receipt: "plan=table, ranges=1, scanned=308, returned=3, units=308, more, hint=low-density" },
    Query { case: "a property, the next three", filter: "Number eq 7", top: Some(3), page: 2, read: ALL,
        matches: SEVEN,
        receipt: "plan=table, ranges=1, scanned=301, returned=3, units=301, more, hint=low-density" },
    Query { case: "what cannot be", filter: "PartitionKey eq 'p00' and PartitionKey eq 'p01'", top: None, page: 1,
        read: NONE, matches: ALL, receipt: "plan=nothing, ranges=0, scanned=0, returned=0, units=1" },
];

#[test]
fn queries() {
    let things = things();
    let mut ledger = Ledger::of("table");
    write(&mut ledger, &things);
    assert!(QUERIES.len() >= 40);
    // What is selected makes the answer smaller, not what is read.
    for select in ["", "$select=Number&"] {
        for query in QUERIES {
            let top = query.top.map_or(String::new(), |top| format!("&$top={top}"));
            let filter = query.filter;
            let mut next = String::new();
            let mut page = 0;
            let reply = loop {
                let path = format!("/{TABLE}()?{select}$filter={filter}{top}{next}");
                let reply = ledger.done("GET", &path, &[ACCEPT], b"");
                page += 1;
                if page == query.page {
                    break reply;
                }
                let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
                let partition = header("x-ms-continuation-nextpartitionkey");
                let row = header("x-ms-continuation-nextrowkey");
                next = format!("&NextPartitionKey={partition}&NextRowKey={row}");
            };
            let (counted, bytes) = count(&things, query);
            check(query.case, &reply, query.receipt, counted);
            let entities = reply.json()["value"].as_array().unwrap().len();
            assert_eq!(entities, counted.returned, "{}", query.case);
            let receipt = reply.header("tepui-receipt").unwrap();
            let read: usize =
                members(receipt).iter().find(|(key, _)| *key == "bytes").unwrap().1.parse().unwrap();
            // Names and numbers of properties, a timestamp, and what is around keys.
            assert!(
                (bytes..=bytes + 100 * counted.scanned).contains(&read),
                "{}: {read}, {bytes}",
                query.case
            );
        }
    }
    ledger.audit();
}

#[test]
fn reads_changes_and_batches() {
    let mut ledger = Ledger::of("table");
    ledger.done("POST", "/Tables", &[JSON, ACCEPT], format!(r#"{{"TableName":"{TABLE}"}}"#).as_bytes());
    let text = |bytes: usize| format!(r#"{{"Text":"{}"}}"#, "x".repeat(bytes)).into_bytes();
    let insert = |row: &str, bytes: usize| {
        format!(r#"{{"PartitionKey":"p","RowKey":"{row}","Text":"{}"}}"#, "x".repeat(bytes)).into_bytes()
    };
    let entity = |row: &str| entity_path(TABLE, "p", row);
    let table = format!("/{TABLE}");
    let if_any: &[(&str, &str)] = &[JSON, ACCEPT, ("If-Match", "*")];
    let none = &[JSON, ACCEPT];
    // What is written counts by its size; what is read, by that of what is stored.
    let written = |units| Some((Counted { units, ..Counted::default() }, None));
    let read = |found: usize, units| {
        Some((Counted { scanned: found, returned: found, units, has_more: false }, Some("point")))
    };
    for (case, method, path, headers, body, status, expected) in [
        ("insert", "POST", &*table, &none[..], insert("1", 10), 201, written(1)),
        ("insert 10 KiB", "POST", &table, none, insert("2", 10 * 1024), 201, written(10)),
        ("insert what is there", "POST", &table, none, insert("1", 10), 409, None),
        ("insert or replace", "PUT", &entity("3"), none, text(10), 204, written(1)),
        ("insert or replace with 1.4 KiB", "PUT", &entity("4"), none, text(1434), 204, written(1)),
        ("insert or replace with 2 KiB", "PUT", &entity("4"), none, text(2048), 204, written(2)),
        ("insert or merge", "MERGE", &entity("5"), none, text(4096), 204, written(4)),
        ("update", "PUT", &entity("1"), if_any, text(3072), 204, written(3)),
        ("merge", "MERGE", &entity("1"), if_any, b"{\"Other\":1}".to_vec(), 204, written(1)),
        ("update what is not there", "PUT", &entity("none"), if_any, text(10), 404, None),
        ("get", "GET", &entity("1"), none, vec![], 200, read(1, 3)),
        ("get a small one", "GET", &entity("3"), none, vec![], 200, read(1, 1)),
        ("get a part", "GET", &(entity("2") + "?$select=RowKey"), none, vec![], 200, read(1, 10)),
        ("get what is not there", "GET", &entity("none"), none, vec![], 404, read(0, 1)),
        ("delete", "DELETE", &entity("2"), if_any, vec![], 204, written(1)),
        ("delete what is not there", "DELETE", &entity("2"), if_any, vec![], 404, None),
        (
            "a table that is not there",
            "GET",
            "/Missing(PartitionKey='p',RowKey='1')",
            none,
            vec![],
            404,
            None,
        ),
        ("a query of such a table", "GET", "/Missing()", none, vec![], 404, None),
        ("a filter that cannot be read", "GET", "/Things()?$filter=x y", none, vec![], 400, None),
    ] {
        let reply = ledger.send(method, path, headers, &body);
        assert_eq!(reply.status, status, "{case}: {}", reply.text());
        match expected {
            None => assert_eq!(reply.header("tepui-receipt"), None, "{case}"),
            Some((counted, plan)) => {
                let Counted { scanned, returned, units, .. } = counted;
                let (plan, ranges) = plan.map_or((String::new(), 0), |plan| (format!("plan={plan}, "), 1));
                let expected =
                    format!("{plan}ranges={ranges}, scanned={scanned}, returned={returned}, units={units}");
                check(case, &reply, &expected, counted);
            }
        }
    }

    let change = |method, row: &str, bytes: usize| {
        Change::new(method, row, properties(json!({"Text": "x".repeat(bytes)})))
    };
    let mixed = [
        change("POST", "6", 10),
        change("PUT", "3", 2048),
        change("MERGE", "5", 10),
        change("DELETE", "4", 0).if_match("*"),
    ];
    let reply = ledger.done("POST", "/$batch", &[BATCH], &batch_body(TABLE, "p", &mixed));
    let expected = "ranges=0, scanned=0, returned=0, units=5, operations=4";
    check("a batch of changes", &reply, expected, Counted { units: 1 + 2 + 1 + 1, ..Counted::default() });
    let reply = ledger.done("POST", "/$batch", &[BATCH], &batch_body(TABLE, "p", &mixed));
    assert!(reply.text().contains("HTTP/1.1 409"), "{}", reply.text());
    assert_eq!(reply.header("tepui-receipt"), None, "a batch that is refused");

    for (case, inner, expected, counted) in [
        (
            "a query in a batch",
            "/Things()?$filter=PartitionKey%20eq%20'p'&$top=2",
            "plan=partition, ranges=1, scanned=3, returned=2, units=6, operations=1, more",
            // Rows 1, with 3 KiB, 3, with 2 KiB, and 5, which was merged to 10 bytes.
            Counted { scanned: 3, returned: 2, units: 3 + 2 + 1, has_more: true },
        ),
        (
            "a point read in a batch",
            "/Things(PartitionKey='p',RowKey='6')",
            "plan=point, ranges=1, scanned=1, returned=1, units=1, operations=1",
            Counted { scanned: 1, returned: 1, units: 1, has_more: false },
        ),
    ] {
        let body = format!(
            "--batch_1\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             GET http://127.0.0.1/devstoreaccount1{inner} HTTP/1.1\r\n\
             Accept: application/json;odata=nometadata\r\n\r\n\r\n--batch_1--\r\n"
        );
        let reply = ledger.done("POST", "/$batch", &[BATCH], body.as_bytes());
        check(case, &reply, expected, counted);
    }
    ledger.audit();
}
