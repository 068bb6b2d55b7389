use super::*;
use crate::pipeline::Caller;
use tepui_model::table;

fn line(exchange: &FinishedExchange, version: LogVersion) -> String {
    let mut out = Vec::new();
    write(&mut out, exchange, version);
    String::from_utf8(out).unwrap()
}

/// Fields, numbered from 1 as in the documentation.
fn field(exchange: &FinishedExchange, number: usize) -> String {
    line(exchange, LogVersion::V1).trim_end().split(';').nth(number - 1).unwrap().to_owned()
}

#[test]
fn a_whole_line() {
    let mut exchange = FinishedExchange::example(
        "POST",
        "/devstoreaccount1/Tables",
        &[
            ("x-ms-version", "2019-02-02"),
            ("content-length", "22"),
            ("user-agent", "azsdk-python-data-tables/12.5.0"),
            ("x-ms-client-request-id", "45ef1c0f-8c71-4153-bc88-38589f63fbfc"),
        ],
    );
    exchange.operation = Some(OperationKind::Table(table::OperationKind::CreateTable));
    exchange.caller = Some(Caller::AccountKey);
    exchange.status = Some(204);
    exchange.named_table = Some("Table1".to_owned());
    exchange.bytes_in = 22;
    exchange.ended = exchange.started + Duration::from_millis(31);
    exchange.answered = exchange.started + Duration::from_millis(30);
    let head = "POST /devstoreaccount1/Tables HTTP/1.1\r\nhost: 127.0.0.1:10002\r\nx-ms-version: 2019-02-02\r\n\
        content-length: 22\r\nuser-agent: azsdk-python-data-tables/12.5.0\r\n\
        x-ms-client-request-id: 45ef1c0f-8c71-4153-bc88-38589f63fbfc\r\n\r\n";
    let expected = format!(
        "1.0;2026-03-10T08:15:30.0719766Z;CreateTable;Success;204;31;30;authenticated;devstoreaccount1;\
        devstoreaccount1;table;\"http://127.0.0.1:10002/devstoreaccount1/Tables\";\"/devstoreaccount1/Table1\";\
        668a4744-7eb3-4e8f-b8d3-fbfd3829715b;0;192.0.2.7:53389;2019-02-02;{};22;100;10;22;;;;;;\
        \"azsdk-python-data-tables/12.5.0\";;\"45ef1c0f-8c71-4153-bc88-38589f63fbfc\"\n",
        head.len()
    );
    assert_eq!(line(&exchange, LogVersion::V1), expected);
    let expected = format!("2{};;;;;;;;\n", &expected.trim_end()[1..]);
    assert_eq!(line(&exchange, LogVersion::V2), expected);
}

#[test]
fn owners_of_tokens_are_named_in_version_2() {
    let names = ["client:app", "oid:o1"].map(|name| name.parse().unwrap()).to_vec();
    let mut exchange = FinishedExchange::example("GET", "/devstoreaccount1/jobs/messages", &[]);
    exchange.service = Service::Queue;
    exchange.caller = Some(Caller::Token);
    exchange.principal = Some(std::sync::Arc::new(Principal {
        issuer: "https://issuer/".to_owned(),
        object_id: "o1".to_owned(),
        tenant_id: "t1".to_owned(),
        names,
    }));
    let lines = [LogVersion::V1, LogVersion::V2].map(|version| line(&exchange, version));
    let fields = |text: &str| text.trim_end().split(';').map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = (fields(&lines[0]), fields(&lines[1]));
    assert_eq!(first.len(), 30);
    assert_eq!((&*first[3], &*first[7], &*first[8]), ("OAuthSuccess", "bearer", "devstoreaccount1"));
    assert_eq!(second[30..], ["\"o1\"", "\"t1\"", "\"app\"", "", "\"https://issuer/\"", "", "", ""]);
    exchange.caller = Some(Caller::Sas);
    exchange.principal = None;
    let fields = fields(&line(&exchange, LogVersion::V2));
    assert_eq!((&*fields[7], &*fields[8], fields[30..].concat()), ("sas", "", String::new()));
}

#[test]
fn quoted_fields_are_encoded() {
    for (value, expected) in [
        (&b"plain; text"[..], r#""plain; text""#),
        (b"a\"b&c<d>e'f", r#""a&quot;b&amp;c&lt;d&gt;e&#39;f""#),
        ("é\u{1F600}\t".as_bytes(), r#""&#233;&#128512;&#9;""#),
        (b"\xFFx", r#""&#255;x""#),
        (b"", ""),
    ] {
        let mut out = Vec::new();
        Line { out: &mut out }.quoted(value);
        assert_eq!(String::from_utf8(out).unwrap(), format!(";{expected}"));
    }
}

#[test]
fn signatures_are_not_logged() {
    for (url, expected) in [
        ("http://h/c/b", "http://h/c/b"),
        ("http://h/c?sv=1&sig=secret%3D", "http://h/c?sv=1&sig=XXXXX"),
        ("http://h/c?SIG=secret&se=2", "http://h/c?sig=XXXXX&se=2"),
        ("http://h/c?%73ig=secret", "http://h/c?sig=XXXXX"),
        ("http://h/c?signed=1&sig", "http://h/c?signed=1&sig=XXXXX"),
        ("http://h/c?a=b?sig=c", "http://h/c?a=b?sig=c"),
    ] {
        assert_eq!(without_signature(url), expected);
    }
    let referrer =
        [("referer", "http://page/?sig=secret"), ("x-ms-copy-source", "http://h/c/b?sig=secret&se=1")];
    let mut exchange = FinishedExchange::example("PUT", "/devstoreaccount1/c/b?sig=secret", &referrer);
    (exchange.service, exchange.path) = (Service::Blob, "c/b".to_owned());
    exchange.operation = Some(OperationKind::Blob(blob::OperationKind::CopyBlob));
    let lines = line(&exchange, LogVersion::V2);
    assert!(!lines.contains("secret"), "{lines}");
    assert_eq!(lines.lines().count(), 3);
}

#[test]
fn object_keys() {
    use Service::{Blob, Queue, Table};
    for (service, path, named, expected) in [
        (Blob, "", None, "/devstoreaccount1"),
        (Blob, "pictures", None, "/devstoreaccount1/pictures"),
        (Blob, "pictures/a%20b/%C3%A9.png", None, "/devstoreaccount1/pictures/a b/é.png"),
        (Queue, "jobs/messages/5b1f0b7e", None, "/devstoreaccount1/jobs"),
        (Queue, "", None, "/devstoreaccount1"),
        (Table, "", None, "/devstoreaccount1"),
        (Table, "Tables", None, "/devstoreaccount1/Tables"),
        (Table, "Tables", Some("People"), "/devstoreaccount1/People"),
        (Table, "Tables('People')", None, "/devstoreaccount1/People"),
        (Table, "People()", None, "/devstoreaccount1/People"),
        (Table, "People(PartitionKey='a%2Fb',RowKey='')", None, "/devstoreaccount1/People"),
        (Table, "$batch", Some("People"), "/devstoreaccount1/People"),
        (Table, "$batch", None, "/devstoreaccount1/$batch"),
        (Table, "People(", None, "/devstoreaccount1/People"),
    ] {
        let mut exchange = FinishedExchange::example("GET", "/", &[]);
        (exchange.service, exchange.path) = (service, path.to_owned());
        exchange.named_table = named.map(str::to_owned);
        assert_eq!(object_key(&exchange), expected, "{path}");
    }
}

#[test]
fn copies_have_three_lines() {
    let source = [("x-ms-copy-source", "http://h/a/from/b?sv=1")];
    let mut exchange = FinishedExchange::example("PUT", "/devstoreaccount1/to/b", &source);
    exchange.service = Service::Blob;
    exchange.operation = Some(OperationKind::Blob(blob::OperationKind::CopyBlob));
    exchange.answer.as_mut().unwrap().etag = Some(HeaderValue::from_static("\"0x8D\""));
    let found: Vec<_> = line(&exchange, LogVersion::V1)
        .lines()
        .map(|line| {
            [3, 13, 15, 25].map(|number| line.split(';').nth(number - 1).unwrap().to_owned()).join(" ")
        })
        .collect();
    let expected = [
        r#"CopyBlob "/devstoreaccount1/to/b" 0 "&quot"#,
        r#"CopyBlobSource "http://h/a/from/b?sv=1" 1 "#,
        r#"CopyBlobDestination "/devstoreaccount1/to/b" 2 "&quot"#,
    ];
    assert_eq!(found, expected);
    exchange.status = Some(404);
    assert_eq!(line(&exchange, LogVersion::V1).lines().count(), 1);
}

#[test]
fn fields_that_are_not_quoted_hold_nothing_that_clients_write() {
    let odd = [("x-ms-version", "2;1\""), ("content-length", "x;1")];
    let mut exchange = FinishedExchange::example("GET", "/devstoreaccount1/T", &odd);
    exchange.version = None;
    exchange.status = None;
    exchange.answer = None;
    let found: Vec<_> = [5, 17, 18, 20, 21, 22, 26].map(|number| field(&exchange, number)).into();
    assert_eq!(found[..2], ["Unknown", ""]);
    assert_eq!(found[3..], ["", "", "0", ""]);
    assert_eq!(line(&exchange, LogVersion::V1).split(';').count(), 30);
}

#[test]
fn dates_have_the_long_form() {
    for (value, expected) in [
        ("Tue, 10 Mar 2026 08:15:30 GMT", "Tuesday, 10-Mar-26 08:15:30 GMT"),
        ("Wed, 01 Jan 2031 00:00:00 GMT", "Wednesday, 01-Jan-31 00:00:00 GMT"),
        ("no date", ""),
    ] {
        assert_eq!(long_date(&HeaderValue::from_static(value)), expected);
    }
}
