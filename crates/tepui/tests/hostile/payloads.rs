//! Requests that are sound HTTP, with bodies, filters and batches that are not.

use crate::siege::{Siege, TABLE};
use crate::support::http::{Client, Reply};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCEPT: (&str, &str) = ("Accept", "application/json;odata=nometadata");

/// Sends each with `send`; checks the status, the code of the error, the connection and the server.
fn refused<T>(
    send: impl Fn(&mut Client, T) -> Reply,
    cases: impl IntoIterator<Item = (&'static str, T, u16, &'static str)>,
) {
    let mut siege = Siege::lay("");
    for (case, what, status, code) in cases {
        let mut client = siege.server.client();
        let reply = send(&mut client, what);
        let text = reply.text();
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{case}: {text:.300}");
        let next = client.unsigned("GET", "/health", &[], b"");
        assert_eq!(next.map(|reply| reply.status).ok(), Some(200), "{case}: the next request");
        siege.survived(case);
    }
    siege.lift();
}

/// An insert with this body.
fn insert(client: &mut Client, body: Vec<u8>) -> Reply {
    client.request("POST", &format!("/{TABLE}"), &[JSON, ACCEPT], &body).unwrap()
}

/// An entity with these further members.
fn entity(members: &str) -> Vec<u8> {
    format!(r#"{{"PartitionKey":"p","RowKey":"hostile"{members}}}"#).into_bytes()
}

/// An entity whose property `A` is this.
fn value(text: &str) -> Vec<u8> {
    entity(&format!(r#","A":{text}"#))
}

fn many(count: usize, member: impl Fn(usize) -> String) -> String {
    (0..count).map(member).collect()
}

#[test]
fn entities_that_are_none() {
    let typed = |text: &str, kind: &str| value(&format!(r#""{text}","A@odata.type":"Edm.{kind}""#));
    refused(
        insert,
        [
            ("nothing", b" ".to_vec(), 400, "InvalidInput"),
            ("not UTF-8", b"{\"PartitionKey\":\"\xff\",\"RowKey\":\"r\"}".to_vec(), 400, "InvalidInput"),
            (
                "an overlong NUL",
                b"{\"PartitionKey\":\"\xc0\x80\",\"RowKey\":\"\"}".to_vec(),
                400,
                "InvalidInput",
            ),
            ("NUL", value("\"\0\""), 400, "InvalidInput"),
            ("NUL in a key", br#"{"PartitionKey":"\u0000","RowKey":"r"}"#.to_vec(), 400, "OutOfRangeInput"),
            ("half a character", value(r#""\ud800""#), 400, "InvalidInput"),
            ("deep arrays", b"[".repeat(100_000), 400, "InvalidInput"),
            ("deep objects", br#"{"a":"#.repeat(100_000), 400, "InvalidInput"),
            ("a deep value", value(&("[".repeat(100_000) + &"]".repeat(100_000))), 400, "InvalidInput"),
            ("one key very often", entity(&r#","A":1"#.repeat(100_000)), 400, "DuplicatePropertiesSpecified"),
            ("253 properties", entity(&many(253, |n| format!(r#","A{n}":1"#))), 400, "TooManyProperties"),
            (
                "many properties",
                entity(&many(100_000, |n| format!(r#","A{n}":1"#))),
                400,
                "TooManyProperties",
            ),
            (
                "a long name",
                entity(&format!(r#","{}":1"#, "A".repeat(1_000_000))),
                400,
                "PropertyNameTooLong",
            ),
            ("a long text", value(&format!(r#""{}""#, "a".repeat(1_000_000))), 400, "PropertyValueTooLarge"),
            (
                "a long escape",
                value(&format!(r#""{}""#, r"\u0061".repeat(500_000))),
                400,
                "PropertyValueTooLarge",
            ),
            ("beyond doubles", value("1e999"), 400, "InvalidInput"),
            ("a long exponent", value(&format!("1e{}", "9".repeat(100_000))), 400, "InvalidInput"),
            ("many digits", value(&"9".repeat(1_000_000)), 400, "InvalidInput"),
            ("not a number", value("NaN"), 400, "InvalidInput"),
            ("beyond 64 bits", typed("99999999999999999999", "Int64"), 400, "InvalidInput"),
            ("no date", typed("99999999-99-99T99:99:99Z", "DateTime"), 400, "InvalidInput"),
            ("no GUID", typed("{{{{", "Guid"), 400, "InvalidInput"),
            ("no base64", typed("***", "Binary"), 400, "InvalidInput"),
            ("no such type", typed("x", "Abyss"), 400, "InvalidInput"),
            ("an object", value(r#"{"a":1}"#), 400, "InvalidInput"),
            ("something after it", [entity(""), b"{}".to_vec()].concat(), 400, "InvalidInput"),
        ],
    );
}

/// A query with this filter in a batch, where nothing in it needs an escape.
fn query_in_batch(client: &mut Client, filter: String) -> Reply {
    let body = format!(
        "--b\r\nContent-Type: application/http\r\n\r\nGET /devstoreaccount1/{TABLE}()?$filter={filter} \
         HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n--b--\r\n"
    );
    let batch = ("Content-Type", "multipart/mixed; boundary=b");
    let outer = client.request("POST", "/$batch", &[batch], body.as_bytes()).unwrap();
    // One that is longer than any URL is no part of a batch.
    let is_whole = body.len() < 64 * 1024;
    assert_eq!(outer.status, if is_whole { 202 } else { 400 }, "{}", outer.text());
    if is_whole { inner_answer(&outer) } else { outer }
}

/// The only answer inside the answer to a batch; the outer one if there is none.
fn inner_answer(outer: &Reply) -> Reply {
    let text = outer.text();
    let Some((_, inner)) = text.split_once("\r\nHTTP/1.1 ") else {
        return Reply { status: outer.status, headers: Vec::new(), body: Vec::new() };
    };
    let (head, rest) = inner.split_once("\r\n\r\n").unwrap();
    let body = rest.split("\r\n--").next().unwrap().as_bytes().to_vec();
    Reply { status: head[..3].parse().unwrap(), headers: Vec::new(), body }
}

fn query_in_url(client: &mut Client, filter: String) -> Reply {
    client.request("GET", &format!("/{TABLE}()?$filter={filter}"), &[ACCEPT], b"").unwrap()
}

#[test]
fn filters_that_go_too_far() {
    let nested = |count: usize| "(".repeat(count) + "A%20eq%201" + &")".repeat(count);
    refused(
        query_in_url,
        [
            ("open brackets", "(".repeat(60_000), 400, "InvalidInput"),
            ("brackets", nested(30_000), 400, "InvalidInput"),
            ("not", "not%20".repeat(10_000) + "A%20eq%201", 400, "InvalidInput"),
            ("minus", format!("A%20eq%20{}1", "-".repeat(60_000)), 400, "InvalidInput"),
            ("quotes", "'".repeat(60_001), 400, "InvalidInput"),
            ("NUL", "A%20eq%20%00".to_owned(), 400, "InvalidInput"),
            ("percent signs", "%".repeat(60_000), 400, "InvalidInput"),
            // Such bytes stand for characters that are in no key: as Azure's own front end reads them.
            ("not UTF-8", "PartitionKey%20eq%20'%ff%fe'".to_owned(), 200, ""),
        ],
    );
    let nested = |count: usize| "(".repeat(count) + "A eq 1" + &")".repeat(count);
    refused(
        query_in_batch,
        [
            ("open brackets", "(".repeat(60_000), 400, "InvalidInput"),
            ("brackets", nested(30_000), 400, "InvalidInput"),
            ("brackets and not", "not (".repeat(10_000) + "true" + &")".repeat(10_000), 400, "InvalidInput"),
            ("not", "not ".repeat(15_000) + "A eq 1", 400, "InvalidInput"),
            ("and", "A eq 1".to_owned() + &" and A eq 1".repeat(5_000), 400, "InvalidInput"),
            ("or", "A eq 1".to_owned() + &" or A eq 1".repeat(6_000), 400, "InvalidInput"),
            ("a text", format!("PartitionKey eq '{}'", "a".repeat(60_000)), 400, "InvalidInput"),
            ("a number", format!("A eq {}", "1".repeat(60_000)), 400, "InvalidInput"),
            ("a name", format!("{} eq 1", "A".repeat(60_000)), 400, "InvalidInput"),
            ("nonsense", "~".repeat(60_000), 400, "InvalidInput"),
            ("longer than a URL", "A eq 1".to_owned() + &" or A eq 1".repeat(90_000), 400, "InvalidInput"),
            ("millions of parameters", "A eq 1".to_owned() + &"&a".repeat(1_500_000), 400, "InvalidInput"),
        ],
    );
}

/// A batch with this body; the answer to it, or the one answer inside that.
fn batch(client: &mut Client, body: Vec<u8>) -> Reply {
    let content_type = ("Content-Type", "multipart/mixed; boundary=b");
    let outer = client.request("POST", "/$batch", &[content_type, ACCEPT], &body).unwrap();
    if outer.status == 202 { inner_answer(&outer) } else { outer }
}

#[test]
fn batches_that_are_bombs() {
    let set = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n";
    let part = |path: &str| {
        format!(
            "--c\r\nContent-Type: application/http\r\n\r\nPUT /devstoreaccount1/{path} HTTP/1.1\r\n\
             Content-Type: application/json\r\n\r\n{{}}\r\n"
        )
    };
    let key = |n: usize| part(&format!("{TABLE}(PartitionKey='p',RowKey='bomb{n}')"));
    let nested = |n: usize| {
        format!("--b{}\r\nContent-Type: multipart/mixed; boundary=b{}\r\n\r\n", suffix(n), suffix(n + 1))
    };
    let text = |text: String| text.into_bytes();
    refused(
        batch,
        [
            ("no part", text("--b--\r\n".to_owned()), 400, "InvalidInput"),
            ("no delimiter", b"\n".repeat(4_000_000), 400, "InvalidInput"),
            ("bytes", vec![0xff; 100_000], 400, "InvalidInput"),
            ("100 000 parts", text("--b\r\n\r\n".repeat(100_000)), 400, "InvalidInput"),
            (
                "100 000 empty changes",
                text(set.to_owned() + &"--c\r\n\r\n".repeat(100_000)),
                400,
                "InvalidInput",
            ),
            ("101 changes", text(set.to_owned() + &many(101, key)), 400, "InvalidInput"),
            ("20 000 changes", text(set.to_owned() + &many(20_000, key)), 400, "InvalidInput"),
            ("one change 20 000 times", text(set.to_owned() + &key(0).repeat(20_000)), 400, "InvalidInput"),
            ("a boundary in itself", text(set.replace("=c", "=b").repeat(50_000)), 400, "InvalidInput"),
            ("boundaries in boundaries", text(many(50_000, nested)), 400, "InvalidInput"),
            (
                "headers without end",
                text(set.to_owned() + "--c\r\n" + &"A: b\r\n".repeat(100_000)),
                400,
                "InvalidInput",
            ),
            (
                "a long path",
                text(set.to_owned() + &part(&format!("{TABLE}?{}", "a".repeat(3_000_000)))),
                400,
                "InvalidInput",
            ),
            (
                "a long header",
                text(set.to_owned() + "--c\r\nA: " + &"b".repeat(3_000_000)),
                400,
                "InvalidInput",
            ),
            ("a batch in a batch", text(set.to_owned() + &part("$batch")), 405, "MethodNotAllowed"),
            (
                "a query among changes",
                text(set.to_owned() + &part(TABLE).replace("PUT", "GET")),
                400,
                "InvalidInput",
            ),
            (
                "a table among changes",
                text(set.to_owned() + &part("Tables('Besieged')").replace("PUT", "DELETE")),
                400,
                "InvalidInput",
            ),
            (
                "a large value",
                text(
                    set.to_owned()
                        + &key(0).replace("{}", &format!(r#"{{"A":"{}"}}"#, "a".repeat(3_000_000))),
                ),
                400,
                "PropertyValueTooLarge",
            ),
            ("an empty change set", text(set.to_owned() + "--c--\r\n--b--"), 202, ""),
        ],
    );
}

fn suffix(n: usize) -> String {
    if n == 0 { String::new() } else { n.to_string() }
}

#[test]
fn headers_and_keys_that_are_none() {
    let send = |client: &mut Client, (path, header): (String, (&str, String))| {
        client.request("PUT", &path, &[JSON, ACCEPT, (header.0, &header.1)], b"{}").unwrap()
    };
    let path = |key: &str| format!("/{TABLE}(PartitionKey='{key}',RowKey='r')");
    let plain = || ("X-Nothing", String::new());
    let if_match = |value: &str| ("If-Match", value.to_owned());
    refused(
        send,
        [
            ("a key that is not UTF-8", (path("%ff"), plain()), 400, "InvalidInput"),
            (
                "a key without end",
                (format!("/{TABLE}(PartitionKey='{}", "a".repeat(60_000)), plain()),
                400,
                "InvalidInput",
            ),
            ("brackets", (format!("/{}", "(".repeat(60_000)), plain()), 400, "InvalidInput"),
            ("a long key", (path(&"a".repeat(50_000)), plain()), 400, "PropertyValueTooLarge"),
            ("no ETag", (path("p"), if_match("nonsense")), 400, "InvalidInput"),
            ("an old ETag", (path("p"), if_match("W/\"datetime'9999999999999'\"")), 404, "ResourceNotFound"),
            ("many ETags", (path("p"), if_match(&"W/\"a\",".repeat(9_000))), 400, "InvalidInput"),
            (
                "a version of the past",
                (path("p"), ("x-ms-version", "x".repeat(60_000))),
                400,
                "InvalidHeaderValue",
            ),
            (
                "a wrong key",
                (path("p"), ("Authorization", "SharedKey devstoreaccount1:AAAA".to_owned())),
                403,
                "AuthenticationFailed",
            ),
            (
                "a wrong scheme",
                (path("p"), ("Authorization", "Basic ".to_owned() + &"A".repeat(50_000))),
                400,
                "InvalidAuthenticationInfo",
            ),
        ],
    );
}
